"""Bins of columns: the same states from every source and engine, each row by itself.

The twin compares every cell with every edge.
"""

import random
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pytest
from gymnasium import spaces

import privalue as pv
from conformance.test_row_by_row import encoded, together
from oracles.reading import statistics as gathered
from oracles.sources import TABLES, minari_dataset
from privalue.readers import tables

EDGES = {"age": [50, 70.5], "heart rate": [-1.5, 0, 100]}
HEADING = ("trajectory", "step", "age", "heart rate", "reward")
STUDY = pv.Study(
    bins=EDGES,
    discount=0.9,
    returns=(0, 1),
    epsilon=1.0,
    delta=1e-6,
    unit="trajectory",
)
AGES = [0, 49.999, 50, 50.5, 70.5, 70, 71, 1e9, -3]
RATES = [-1.5, -1.6, 0, -0.25, 99.875, 100, 1e300, -1e300, 0.1]


def rows_of(seed, trajectories=60):
    draw = random.Random(seed)
    return [
        (t, step, draw.choice(AGES), draw.choice(RATES), draw.choice([0.0, 0.5, 1.0]))
        for t in range(trajectories)
        for step in range(draw.randrange(1, 7))
    ]


def state_of(age, rate):
    """The state of a row, by its words: "50 <= age < 70.5, heart rate >= 100"."""
    holds = [
        label
        for label in STUDY.state_labels
        if all(
            eval(part.replace("heart rate", "rate"), {"age": age, "rate": rate})
            for part in label.split(", ")
        )
    ]
    assert len(holds) == 1
    return STUDY.state_labels.index(holds[0])


def by_hand(rows):
    """The same rows with the state in place of its columns."""
    return [(t, step, state_of(age, rate), reward) for t, step, age, rate, reward in rows]


PLAIN = STUDY.replace(states=12)


def expected(rows):
    table = zip(*by_hand(rows), strict=True)
    columns = dict(zip(("trajectory", "step", "state", "reward"), map(list, table), strict=True))
    return gathered(columns, PLAIN)


@pytest.mark.parametrize("kind", TABLES)
def test_every_source_gives_the_states_of_the_twin(kind, place):
    rows = rows_of(1)
    found = gathered(TABLES[kind](place, HEADING, rows), STUDY)
    assert found == expected(rows)
    assert np.count_nonzero(found.counts) == 12


def test_a_query_gives_them_too(place):
    path, rows = TABLES["duckdb"](place, HEADING, rows_of(2)), rows_of(2)
    assert gathered(f"{path}::SELECT * FROM rows", STUDY) == expected(rows)


@pytest.mark.xdist_group("spark")  # one session serves all
def test_spark_gives_the_same_bits(spark):
    rows = [(t, step, float(age), float(rate), reward) for t, step, age, rate, reward in rows_of(3)]
    frame = spark.createDataFrame(rows, list(HEADING)).repartition(3)
    assert gathered(frame, STUDY, engine="spark") == expected(rows)


CELLS = {
    "trajectory": [1, 2, 30, "ab", None],
    "step": [0, 1, 2, 17, "noon"],
    "age": [50, 49.5, "70.5", "", "old", None, float("nan"), float("inf"), True, "1e400"],
    "heart rate": [0, 0.1, "99", "-inf", None, "0x10", 10**17],
    "reward": [0, 0.5, 1, "x", None],
}


@pytest.mark.parametrize("kind", [k for k in TABLES if k not in {"duckdb", "postgresql"}])
def test_each_row_is_in_a_bin_by_itself(kind, place, monkeypatch):
    monkeypatch.setattr(tables, "BATCH_ROWS", 4)
    rules = STUDY.replace(invalid="drop-unit")
    for seed in range(2):
        draw = random.Random(seed)
        a, b = (
            [tuple(draw.choice(CELLS[name]) for name in HEADING) for _ in range(9)]
            for _ in range(2)
        )
        both, first, second = (
            encoded(TABLES[kind](place, HEADING, rows), rules) for rows in (a + b, a, b)
        )
        assert both == together(first, second)


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_no_number_is_no_state(kind, place):
    """NaN and nothing are missing; a text and an infinity are invalid; the message says where."""
    for cell, told in [
        (None, "age is missing"),
        ("old", "must be a finite number, to be in a bin"),
        (float("inf"), "must be a finite number, to be in a bin"),
    ]:
        rows = [*rows_of(4, 3), (77, 0, cell, 0.5, 0.5)]
        with pytest.raises(pv.DataError, match=f"(row|line) .*: .*{told}"):
            gathered(TABLES[kind](place, HEADING, rows), STUDY)
        dropped = STUDY.replace(invalid="drop-unit")
        found = gathered(TABLES[kind](place, HEADING, rows), dropped)
        assert found.counts.tolist() == expected(rows[:-1]).counts.tolist()


def test_an_edge_is_of_the_bin_above_whatever_the_type():
    """A decimal, a text and a double of the same number are in the same bin."""
    study = PLAIN.replace(bins={"x": [0.3]})
    for column in (
        [0.3, "0.3", "0.30", "3e-1"],
        pa.array([0.3]),
        pa.array(["0.3"]).cast(pa.decimal128(5, 2)),
        np.array([0.3]),
    ):
        n = len(column)
        table = {"trajectory": list(range(n)), "step": [0] * n, "x": column, "reward": [0.0] * n}
        assert gathered(table, study).counts.tolist() == [0, n]


def test_recordings_of_observations_are_binned():
    rows = rows_of(5)
    episodes = {}
    for t, _, age, rate, reward in rows:
        episodes.setdefault(t, []).append((age, rate, reward))
    lists = [[((age, rate), reward) for age, rate, reward in steps] for steps in episodes.values()]
    dicts = [
        [({"age": a, "heart rate": h}, 0, r, None, False, False) for a, h, r in steps]
        for steps in episodes.values()
    ]
    ends = np.array([t != after for (t, *_), (after, *_) in pairwise([*rows, (-1,)])])
    arrays = {
        "observations": np.array([[age, rate] for _, _, age, rate, _ in rows]),
        "rewards": np.array([[row[-1]] for row in rows]),
        "terminals": ends,
    }
    columns = {name: arrays["observations"][:, at] for at, name in enumerate(EDGES)}
    named = {**arrays, "observations": columns}
    for data in (lists, dicts, arrays, named):
        assert gathered(data, STUDY) == expected(rows)
    some = STUDY.replace(bins={"observation_1": EDGES["heart rate"]})
    by_rate = gathered(arrays, some).counts
    assert by_rate.tolist() == gathered(lists, some).counts.tolist()
    with pytest.raises(pv.DataError, match="has 2 numbers for each observation, and the bins are"):
        gathered(arrays, STUDY.replace(bins={"age": [1]}))
    with pytest.raises(pv.DataError, match="has 2 numbers for each observation"):
        gathered(arrays, STUDY.replace(bins={"observation_7": [1]}))


def named(observations):
    numbers = np.array(observations, dtype=float)
    return {name: numbers[:, [at]] for at, name in enumerate(EDGES)}


NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float64)
SPACES = {
    "array": (spaces.Box(-np.inf, np.inf, (2,), np.float64), np.array),
    "dict": (spaces.Dict(dict.fromkeys(EDGES, NUMBER)), named),
}


@pytest.mark.parametrize("data_format", ["hdf5"])
@pytest.mark.parametrize("kind", SPACES)
def test_minari_observations_are_binned(tmp_path, data_format, kind):
    space, observed = SPACES[kind]
    rows = rows_of(6, 5)
    episodes = [
        [((float(age), float(rate)), reward) for _, _, age, rate, reward in steps]
        for _, steps in groupby(rows, key=lambda row: row[0])
    ]
    dataset = minari_dataset(tmp_path, episodes, data_format, space, (1.0, 1.0), observed)
    assert gathered(dataset, STUDY) == expected(rows)
    with pytest.raises(pv.DataError, match=r"\[states\] bins makes states of numbers"):
        gathered(dataset, PLAIN)
