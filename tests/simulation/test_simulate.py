"""Simulated rows: conventions, seeds, batches, truncation; and files of them."""

import gzip

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privalue
from privalue.errors import StudyError, UsageError
from privalue.simulation import (
    MarkovRewardProcess,
    World,
    chain,
    garnet,
    simulate_episodes,
    simulate_to_file,
)
from privalue.simulation.walk import sampler


@settings(max_examples=100, deadline=None)
@given(weights=st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=30))
def test_samplers_draw_what_they_should(weights):
    size = len(weights)
    start = np.array(weights) / np.sum(weights)
    process = MarkovRewardProcess.tabular(
        transitions=np.tile(start, (size, 1)),
        rewards=np.zeros(size),
        start=start,
        discount=0.5,
    )
    table = sampler(process)
    for row, law in ((0, process.outcomes.probabilities[:size]), (size, process.start)):
        low, high = table.offsets[row : row + 2]
        assert np.diff(table.cumulative[low:high], prepend=0) == pytest.approx(law, abs=1e-14)
        assert table.cumulative[high - 1] == 1


RANDOM = np.random.default_rng(3).dirichlet(np.ones(3), size=5)
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
    assert (rows.trajectories, rows.truncated) == (2, 0)


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
    [{}, {"truncate_at": 5}],
)
def test_the_rows_do_not_depend_on_the_batches(batch_rows, truncation):
    world = garnet(states=6, seed=2)
    whole = simulate_episodes(world, trajectories=60, seed=5, **truncation)
    parts = simulate_episodes(world, trajectories=60, seed=5, batch_rows=batch_rows, **truncation)
    assert as_lists(parts) == as_lists(whole)
    assert (parts.trajectories, parts.truncated) == (whole.trajectories, whole.truncated)


def test_seeds_and_prefixes():
    world = chain(states=5)
    some = simulate_episodes(world, trajectories=10, seed=3)
    more = simulate_episodes(world, trajectories=30, seed=3)
    other = simulate_episodes(world, trajectories=10, seed=4)
    assert as_lists(some) == [column[: some.state.size] for column in as_lists(more)]
    assert as_lists(some) != as_lists(other)
    huge = simulate_episodes(world, trajectories=10, seed=2**200)
    assert as_lists(huge) == as_lists(simulate_episodes(world, trajectories=10, seed=2**200))


def test_truncated_trajectories_are_marked():
    rows = simulate_episodes(chain(states=6), trajectories=200, seed=1, truncate_at=6)
    assert np.bincount(rows.trajectory).max() == 6
    last = np.append(np.diff(rows.trajectory) == 1, True)
    assert rows.cut.tolist() == (last & (rows.reward == 0)).tolist()  # the end pays 1
    assert rows.truncated == rows.cut.sum() > 0
    assert np.all(rows.step[rows.cut == 1] == 5)


def test_a_trajectory_that_ends_at_the_limit_is_not_truncated():
    world = chain(states=4, stay=0, start="first")
    assert simulate_episodes(world, trajectories=3, seed=0, truncate_at=4).truncated == 0
    rows = simulate_episodes(world, trajectories=3, seed=0, truncate_at=3)
    assert (rows.truncated, rows.reward.sum()) == (3, 0)


def test_an_endless_process_needs_a_truncation():
    with pytest.raises(StudyError, match="may never end"):
        simulate_episodes(cycle(), trajectories=1, seed=0)
    rows = simulate_episodes(cycle(), trajectories=1, seed=0, truncate_at=3)
    assert as_lists(rows) == [[0, 0, 0], [0, 1, 2], [0, 1, 0], [0.25, 0.5, 0.25]]
    assert rows.truncated == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"trajectories": 0},
        {"trajectories": 2.0},
        {"trajectories": True},
        {"trajectories": 2**63},
        {"seed": -1},
        {"truncate_at": 0},
        {"actions": True},  # nobody chooses on a chain
    ],
)
def test_what_cannot_be_simulated_is_refused_before_anything_is_written(changes, tmp_path):
    asked = {"trajectories": 2, "seed": 0} | changes
    with pytest.raises(UsageError):
        simulate_episodes(chain(states=3), **asked)
    with pytest.raises(UsageError):
        simulate_to_file(chain(states=3), out=tmp_path / "rows.csv", **asked)
    assert not list(tmp_path.iterdir())


def test_simulated_choices_are_those_of_the_policy():
    world = garnet(states=5, actions=3, branching=2, seed=11, discount=0.9, policy=RANDOM)
    count = 20_000
    rows = simulate_episodes(world, trajectories=count, seed=4, actions=True)
    assert rows.table().column_names[-2:] == ["action", "probability"]
    np.testing.assert_allclose(rows.probability, RANDOM[rows.state, rows.action], rtol=1e-15)
    key = rows.state * 3 + rows.action
    taken = np.bincount(key, minlength=15).reshape(5, 3)
    acted = taken.sum(axis=1, keepdims=True)
    off = taken / acted - RANDOM
    assert np.all(np.abs(off) < 5 / np.sqrt(acted))  # ten standard deviations
    # First visits of pairs, and the returns from them, are as they are computed to be.
    _, first = np.unique(rows.trajectory * 15 + key, return_index=True)
    seen = np.bincount(key[first], minlength=15).reshape(5, 3)
    np.testing.assert_allclose(
        seen / count, world.key_visits, atol=5 / np.sqrt(count)
    )  # ten standard deviations
    returns = rows.reward.copy()
    for row in range(len(rows) - 2, -1, -1):
        if rows.trajectory[row] == rows.trajectory[row + 1]:
            returns[row] += 0.9 * returns[row + 1]
    means = np.bincount(key[first], returns[first]).reshape(5, 3) / seen
    # A return is within [0, 10), and its deviation is below 5.
    assert np.all(np.abs(means - world.q) < 7 * 5 / np.sqrt(seen))
    assert np.abs(means - world.q).max() < 0.2


def test_actions_change_no_row():
    plain = simulate_episodes(garnet(), trajectories=200, seed=8)
    acting = simulate_episodes(garnet(), trajectories=200, seed=8, actions=True, batch_rows=7)
    assert as_lists(acting) == as_lists(plain)
    assert acting.columns == (*COLUMNS, "action", "probability")


WORLD = chain(states=5, stay=0.3)


NAMES = ["trajectory", "step", "state", "reward"]


def read(path):
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    return pyarrow.csv.read_csv(path)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "ROWS.CSV"])
def test_files_hold_the_simulated_rows(tmp_path, name):
    out = tmp_path / name
    made = simulate_to_file(WORLD, trajectories=50, seed=7, out=out)
    rows = simulate_episodes(WORLD, trajectories=50, seed=7)
    table = read(out)
    assert table.column_names == NAMES
    for column in NAMES:
        assert table[column].to_numpy().tolist() == getattr(rows, column).tolist()
    assert (made.path, made.rows, made.trajectories) == (out, rows.state.size, 50)
    assert not list(tmp_path.glob(".*"))


def test_csv_is_plain(tmp_path):
    out = tmp_path / "rows.csv"
    simulate_to_file(chain(states=2, stay=0, start="first"), trajectories=1, seed=0, out=out)
    assert out.read_text() == "trajectory,step,state,reward\n0,0,0,0\n0,1,1,1\n"


def test_rewards_survive_the_text(tmp_path):
    process = MarkovRewardProcess.tabular(
        transitions=np.eye(1),
        rewards=np.array([1 / 3]),
        start=np.ones(1),
        discount=1,
        absorbing=[0],
    )
    out = tmp_path / "rows.csv"
    world = World(name="third", parameters={}, process=process)
    simulate_to_file(world, trajectories=1, seed=0, out=out)
    assert read(out)["reward"].to_pylist() == [1 / 3]


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet"])
def test_the_same_seed_gives_the_same_bytes(tmp_path, name, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        monkeypatch.setattr("time.time", lambda: 0.0)
        simulate_to_file(WORLD, trajectories=30, seed=7, out=folder / name)
        monkeypatch.undo()
    assert (one / name).read_bytes() == (two / name).read_bytes()


def test_gzip_says_neither_name_nor_time(tmp_path):
    out = tmp_path / "rows.csv.gz"
    simulate_to_file(WORLD, trajectories=3, seed=7, out=out)
    assert out.read_bytes()[3:8] == b"\0" * 5
    assert gzip.decompress(out.read_bytes()).startswith(b"trajectory,")


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet"])
@pytest.mark.parametrize("before", [None, "precious"])
def test_a_crash_leaves_no_half_file(tmp_path, name, before, monkeypatch):
    class CrashError(Exception):
        pass

    def crash(done):
        if done > 10:
            raise CrashError

    monkeypatch.setattr("privalue.simulation.episodes.BATCH_ROWS", 17)
    out = tmp_path / name
    if before:
        out.write_text(before)
    with pytest.raises(CrashError):
        simulate_to_file(WORLD, trajectories=50, seed=7, out=out, progress=crash)
    assert [path.name for path in tmp_path.iterdir()] == ([name] if before else [])
    assert not before or out.read_text() == before


@pytest.mark.parametrize(
    "name", ["rows", "rows.txt", "rows.csv.bz2", ".csv", "rows.parquet.gz", ""]
)
def test_an_unknown_ending_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"it must end in \.csv, \.csv\.gz or \.parquet"):
        simulate_to_file(WORLD, trajectories=1, seed=0, out=tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.csv.gz"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"cannot write .*missing.*No such file"):
        simulate_to_file(WORLD, trajectories=1, seed=0, out=tmp_path / "missing" / name)
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*directory"):
        simulate_to_file(WORLD, trajectories=1, seed=0, out=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_trajectories_that_are_cut_and_kept_are_marked(tmp_path, name):
    """The column is the one that ``[data] truncated`` names."""
    world = chain(states=4, stay=0.5, start="first")
    asked = {"trajectories": 60, "seed": 1, "truncate_at": 6}
    written = simulate_to_file(world, out=tmp_path / name, **asked)
    rows = simulate_episodes(world, **asked)
    assert 0 < written.truncated == int(rows.cut.sum()) < 60
    study = privalue.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.9,
        returns=(0.0, 1.0),
        truncated="drop-unit",
        states=4,
        columns={"truncated": "cut"},
    )
    for data in (tmp_path / name, rows):
        kept = privalue.inspect(study, data).statistics.trajectories
        assert kept == 60 - written.truncated
