import numpy as np
import pytest

from privalue.errors import StudyError, UsageError
from privalue.simulation import (
    MarkovRewardProcess,
    chain,
    garnet,
    simulate_batches,
    simulate_episodes,
)

COLUMNS = ("trajectory", "step", "state", "reward")


def as_lists(rows):
    return [getattr(rows, name).tolist() for name in COLUMNS]


def cycle(discount=0.9):
    """Goes round two states for ever."""
    return MarkovRewardProcess.tabular(
        transitions=np.array([[0.0, 1.0], [1.0, 0.0]]),
        rewards=np.array([0.25, 0.5]),
        start=np.array([1.0, 0.0]),
        discount=discount,
    )


def test_rows_of_a_deterministic_chain():
    rows = simulate_episodes(chain(states=3, stay=0, start="first"), trajectories=2, seed=0)
    assert as_lists(rows) == [
        [0, 0, 0, 1, 1, 1],
        [0, 1, 2, 0, 1, 2],
        [0, 1, 2, 0, 1, 2],
        [0.0, 0.0, 1.0, 0.0, 0.0, 1.0],
    ]
    assert [getattr(rows, name).dtype for name in COLUMNS] == [np.int64] * 3 + [np.float64]
    assert (rows.trajectories, rows.truncated, rows.dropped) == (2, 0, 0)


def test_no_row_for_a_final_observation():
    process = MarkovRewardProcess.tabular(
        transitions=np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
        rewards=np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 9.0]]),
        start=np.array([1.0, 0.0, 0.0]),
        discount=0.5,
        terminal=[2],
    )
    rows = simulate_episodes(process, trajectories=1, seed=0)
    assert as_lists(rows) == [[0, 0], [0, 1], [0, 1], [2.0, 3.0]]
    assert process.values.tolist() == [3.5, 3.0, 0.0]


def test_rows_are_sorted_and_complete():
    rows = simulate_episodes(garnet(states=8, seed=2), trajectories=500, seed=1)
    new = np.diff(rows.trajectory, prepend=-1)
    assert set(np.unique(new)) == {0, 1}
    assert np.all(rows.step[new == 1] == 0)
    assert np.all(np.diff(rows.step)[new[1:] == 0] == 1)
    assert rows.trajectory[-1] == 499


@pytest.mark.parametrize("batch_rows", [1, 2, 7, 64])
@pytest.mark.parametrize(
    "truncation",
    [{}, {"truncate_at": 5, "truncated": "keep"}, {"truncate_at": 9, "truncated": "drop"}],
)
def test_the_rows_do_not_depend_on_the_batches(batch_rows, truncation):
    world = garnet(states=6, seed=2)
    whole = simulate_episodes(world, trajectories=60, seed=5, **truncation)
    parts = simulate_episodes(world, trajectories=60, seed=5, batch_rows=batch_rows, **truncation)
    assert as_lists(parts) == as_lists(whole)
    assert (parts.trajectories, parts.truncated, parts.dropped) == (
        whole.trajectories,
        whole.truncated,
        whole.dropped,
    )


def test_seeds_and_prefixes():
    world = chain(states=5)
    some = simulate_episodes(world, trajectories=10, seed=3)
    more = simulate_episodes(world, trajectories=30, seed=3)
    other = simulate_episodes(world, trajectories=10, seed=4)
    assert as_lists(some) == [column[: some.state.size] for column in as_lists(more)]
    assert as_lists(some) != as_lists(other)
    huge = simulate_episodes(world, trajectories=10, seed=2**200)
    assert as_lists(huge) == as_lists(simulate_episodes(world, trajectories=10, seed=2**200))


def test_truncated_trajectories_are_kept_or_dropped():
    world = chain(states=6, stay=0.5)
    kept = simulate_episodes(world, trajectories=200, seed=1, truncate_at=6, truncated="keep")
    assert (kept.trajectories, kept.dropped) == (200, 0)
    assert np.bincount(kept.trajectory).max() == 6
    last = np.append(np.diff(kept.trajectory) == 1, True)
    assert kept.truncated == np.sum(kept.reward[last] == 0) > 0
    assert np.all(kept.step[last][kept.reward[last] == 0] == 5)

    dropped = simulate_episodes(world, trajectories=200, seed=1, truncate_at=6, truncated="drop")
    assert dropped.dropped == dropped.truncated == 200 - dropped.trajectories
    assert 0 < dropped.dropped < 200
    last = np.append(np.diff(dropped.trajectory) == 1, True)
    assert np.all(dropped.reward[last] == 1)
    assert np.unique(dropped.trajectory).tolist() == list(range(dropped.trajectories))


def test_a_trajectory_that_ends_at_the_limit_is_not_truncated():
    world = chain(states=4, stay=0, start="first")
    rows = simulate_episodes(world, trajectories=3, seed=0, truncate_at=4, truncated="drop")
    assert (rows.trajectories, rows.truncated) == (3, 0)
    rows = simulate_episodes(world, trajectories=3, seed=0, truncate_at=3, truncated="keep")
    assert (rows.trajectories, rows.truncated, rows.reward.sum()) == (3, 3, 0)


def test_an_endless_process_needs_a_truncation():
    with pytest.raises(StudyError, match="may never end"):
        simulate_episodes(cycle(), trajectories=1, seed=0)
    rows = simulate_episodes(cycle(), trajectories=1, seed=0, truncate_at=3, truncated="keep")
    assert as_lists(rows) == [[0, 0, 0], [0, 1, 2], [0, 1, 0], [0.25, 0.5, 0.25]]
    assert rows.truncated == 1


def test_nothing_left_is_an_error():
    with pytest.raises(UsageError, match="all 4 trajectories were truncated and dropped"):
        simulate_episodes(cycle(), trajectories=4, seed=0, truncate_at=3, truncated="drop")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trajectories": 0}, "trajectories is 0; it must be a whole number of at least 1"),
        ({"trajectories": -3}, "trajectories is -3"),
        ({"trajectories": 2.0}, "trajectories is 2.0"),
        ({"trajectories": True}, "trajectories is True"),
        ({"trajectories": 2**63}, "it must be at most 9223372036854775807"),
        ({"trajectories": "7"}, "trajectories is '7'"),
        ({"seed": -1}, "seed is -1; it must be a whole number of at least 0"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"truncate_at": 5}, "truncated is not given; it must be 'keep' or 'drop': .* bias"),
        ({"truncated": "keep"}, "there is no truncate_at: give both"),
        ({"truncate_at": 0, "truncated": "keep"}, "truncate_at is 0"),
        ({"truncate_at": 5, "truncated": "cut"}, "truncated is 'cut'"),
        ({"batch_rows": 0}, "batch_rows is 0"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(UsageError, match=message):
        simulate_episodes(chain(states=3), **({"trajectories": 2, "seed": 0} | changes))


def test_errors_come_with_the_call_and_not_with_the_first_batch():
    with pytest.raises(UsageError):
        simulate_batches(chain(states=3), trajectories=0, seed=0)


def test_numpy_integers_are_whole_numbers():
    rows = simulate_episodes(chain(states=3), trajectories=np.int64(2), seed=np.uint8(1))
    assert rows.trajectories == 2


def test_batches_say_how_far_they_are():
    done = [
        batch.done for batch in simulate_batches(chain(), trajectories=50, seed=0, batch_rows=99)
    ]
    assert done == sorted(done)
    assert done[-1] == 50
