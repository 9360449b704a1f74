"""Encoding is row by row: encode(a + b) is encode(a) and encode(b), for every kind of table.

A column of texts in one table may be a column of numbers in another, with the same result.
"""

import os
import random

import numpy as np
import pytest

from oracles import reading
from oracles.repeats import cross
from oracles.sources import HEADING, STATES, TABLES
from oracles.studies import make_study

RANDOM_TABLES = 8 if os.environ.get("PRIVALUE_LONG") == "1" else 4  # make long

CELLS = {
    "trajectory": [1, 2, 30, -4, "7", "ab", "a much longer id", " x", "2.5", 2.5, 1e15, None],
    "step": [0, 1, 2, 17, -3, "5", "noon", None, 2.5],
    "state": [0, 1, 2, 3, "1", "2.0", 9, -1, "x", None, 1.0],
    "reward": [0, 0.5, 1, -3.0, 7.25, "0.25", "1e-3", "x", None],
}
PLAIN = {
    "trajectory": [1, 2, 30, -4],
    "step": [0, 1, 2, 17],
    "state": [0, 1, 2],
    "reward": [0.5, 1.0, 7.25, -3.0],
}
STUDIES = {
    "text": make_study(STATES, data={"invalid": "drop-unit"}),
    "integer": make_study(STATES, data={"invalid": "drop-unit", "id_type": "integer"}),
    "numbers": make_study(STATES, data={"invalid": "drop-unit", "step_type": "number"}),
}


def encode(data, study):
    """Return every row as numbers, ids without trailing zeros, and how many rows were left out."""
    rows, left_out = [], 0
    for part in reading.encode(data, study):
        left_out += part.left_out
        for ids, step, state, reward in zip(*part.columns, strict=True):
            words = [tuple(np.trim_zeros(one, "b").tolist()) for one in ids]
            rows.append((words, int(step), int(state), repr(float(reward))))
    return rows, left_out


def join(one, other):
    return one[0] + other[0], one[1] + other[1]


def random_rows(draw, cells, count):
    return [tuple(draw.choice(cells[name]) for name in HEADING) for _ in range(count)]


@pytest.mark.parametrize("part", [3, 1 << 17], ids=["small batches", "one batch"])
@pytest.mark.parametrize(("kind", "name"), cross(TABLES, STUDIES))
def test_tables_are_encoded_row_by_row(kind, name, part, place, monkeypatch):
    monkeypatch.setattr("privalue.readers.tables.BATCH_ROWS", part)
    rules, write = STUDIES[name], TABLES[kind]
    for seed in range(RANDOM_TABLES):
        draw = random.Random(seed)
        a = random_rows(draw, CELLS if seed % 2 else PLAIN, 9)
        b = random_rows(draw, CELLS, 9)
        both, first, second = (encode(write(place, HEADING, rows), rules) for rows in (a + b, a, b))
        assert both == join(first, second)
        assert len(both[0]) > 1


def test_episodes_are_encoded_row_by_row():
    rules, draw = STUDIES["text"], random.Random(2)
    states, rewards = [0, 1, 2.0, "1", "x", 9], [0.5, 1, "0.25", "x", -7]
    episodes = [
        [(draw.choice(states), draw.choice(rewards)) for _ in range(draw.randrange(1, 6))]
        for _ in range(12)
    ]
    both, first, second = (encode(data, rules) for data in (episodes, episodes[:5], episodes[5:]))
    separate, expected = join(first, second)
    assert [row[1:] for row in both[0]] == [row[1:] for row in separate]
    assert both[1] == expected
