"""Simulated rows: conventions, seeds, batches, truncation; and files of them."""

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from privalue.simulation import chain, garnet, simulate_episodes, simulate_to_file

RANDOM = np.random.default_rng(3).dirichlet(np.ones(3), size=5)
COLUMNS = ("trajectory", "step", "state", "reward")


def as_lists(rows):
    return [getattr(rows, name).tolist() for name in COLUMNS]


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


def test_simulated_choices_are_those_of_the_policy():
    world = garnet(states=5, actions=3, branching=2, seed=11, discount=0.9, policy=RANDOM)
    count = 20_000
    rows = simulate_episodes(world, trajectories=count, seed=4, actions=True)
    assert rows.table().column_names[-2:] == ["action", "probability"]
    np.testing.assert_allclose(rows.probability, RANDOM[rows.state, rows.action], rtol=1e-15)
    key = rows.state * 3 + rows.action
    shares = np.bincount(key, minlength=15).reshape(5, 3)
    acted = shares.sum(axis=1, keepdims=True)
    off = shares / acted - RANDOM
    assert np.all(np.abs(off) < 5 / np.sqrt(acted))  # ten standard deviations


WORLD = chain(states=5, stay=0.3)


def read_rows(path):
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    return pyarrow.csv.read_csv(path)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "ROWS.CSV"])
def test_files_hold_the_simulated_rows(tmp_path, name):
    out = tmp_path / name
    file = simulate_to_file(WORLD, trajectories=50, seed=7, out=out)
    rows = simulate_episodes(WORLD, trajectories=50, seed=7)
    table = read_rows(out)
    assert table.column_names == list(COLUMNS)
    for column in COLUMNS:
        assert table[column].to_numpy().tolist() == getattr(rows, column).tolist()
    assert (file.path, file.rows, file.trajectories) == (out, rows.state.size, 50)
    assert not list(tmp_path.glob(".*"))
