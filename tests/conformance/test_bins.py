"""Bins of columns: the same states from every source and engine, each row by itself.

The twin compares every cell with every edge.
"""

import math
import random

import numpy as np
import pytest

import privalue as pv
from conformance.test_row_by_row import encode, join
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.sources import TABLES
from oracles.studies import PROMISE

EDGES = {"age": [50, 70.5], "heart rate": [-1.5, 0, 100]}
HEADING = ("trajectory", "step", "age", "heart rate", "reward")
STUDY = pv.Study(
    bins=EDGES,
    discount=0.9,
    returns=(0, 1),
    **PROMISE,
)
AGES = [0, 49.999, 50, 50.5, 70.5, 70, 71, 1e9, -3]
RATES = [-1.5, -1.6, 0, -0.25, 99.875, 100, 1e300, -1e300, 0.1]


def test_check_suggests_a_smaller_contribution_bound():
    """A column may hardly change within a trajectory, which then has few of the states."""

    def limits(study):
        return {notice.code for notice in pv.check(study).notices} & {"max-states"}

    assert limits(STUDY)
    assert not limits(STUDY.replace(max_states_per_trajectory=1))


def rows_of(seed, trajectories=60):
    draw = random.Random(seed)
    return [
        (t, step, draw.choice(AGES), draw.choice(RATES), draw.choice([0.0, 0.5, 1.0]))
        for t in range(trajectories)
        for step in range(draw.randrange(1, 7))
    ]


def state_of(age, rate):
    """Return the state of a row by its label, such as "50 <= age < 70.5, heart rate >= 100"."""
    holds = [
        label
        for label in STUDY.names.names
        if all(
            eval(part.replace("heart rate", "rate"), {"age": age, "rate": rate})
            for part in label.split(", ")
        )
    ]
    assert len(holds) == 1
    return STUDY.names.names.index(holds[0])


def by_hand(rows):
    """Return the same rows with the state in place of its columns."""
    return [(t, step, state_of(age, rate), reward) for t, step, age, rate, reward in rows]


PLAIN = STUDY.replace(states=12)


def expected(rows):
    table = zip(*by_hand(rows), strict=True)
    columns = dict(zip(("trajectory", "step", "state", "reward"), map(list, table), strict=True))
    return statistics(columns, PLAIN)


@pytest.mark.parametrize("kind", TABLES)
def test_every_source_gives_the_states_of_the_twin(kind, place):
    rows = rows_of(1)
    result = statistics(TABLES[kind](place, HEADING, rows), STUDY)
    assert result == expected(rows)
    assert np.count_nonzero(result.counts) == 12


@pytest.mark.xdist_group("spark")  # one session serves all
def test_spark_gives_the_same_bits(spark):
    rows = [(t, step, float(age), float(rate), reward) for t, step, age, rate, reward in rows_of(3)]
    frame = spark.createDataFrame(rows, list(HEADING)).repartition(3)
    assert statistics(frame, STUDY, engine="spark") == expected(rows)


CELLS = {
    "trajectory": [1, 2, 30, "ab", None],
    "step": [0, 1, 2, 17, "noon"],
    "age": [50, 49.5, "70.5", "", "old", None, float("nan"), float("inf"), True, "1e400"],
    "heart rate": [0, 0.1, "99", "-inf", None, "0x10", 10**17],
    "reward": [0, 0.5, 1, "x", None],
}


@pytest.mark.parametrize("kind", [k for k in TABLES if k not in {"duckdb", "postgresql"}])
def test_the_bin_of_a_row_does_not_depend_on_others(kind, place, monkeypatch):
    monkeypatch.setattr("privalue.readers.tables.BATCH_ROWS", 4)
    rules = STUDY.replace(invalid="drop-unit")
    for seed in range(2):
        draw = random.Random(seed)
        a, b = (
            [tuple(draw.choice(CELLS[name]) for name in HEADING) for _ in range(9)]
            for _ in range(2)
        )
        both, first, second = (
            encode(TABLES[kind](place, HEADING, rows), rules) for rows in (a + b, a, b)
        )
        assert both == join(first, second)


@pytest.mark.parametrize("kind", TABLES)
def test_a_cell_without_a_finite_number_is_in_no_bin(kind, place):
    """NaN and null are missing; a text and an infinity are invalid."""
    invalid = {None: "cell-missing", "old": "cell-invalid", math.inf: "cell-invalid"}
    for cell, code in invalid.items():
        rows = [*rows_of(4, 3), (77, 0, cell, 0.5, 0.5)]
        with refused(code):
            statistics(TABLES[kind](place, HEADING, rows), STUDY)
        dropped = STUDY.replace(invalid="drop-unit")
        result = statistics(TABLES[kind](place, HEADING, rows), dropped)
        assert result.counts.tolist() == expected(rows[:-1]).counts.tolist()
