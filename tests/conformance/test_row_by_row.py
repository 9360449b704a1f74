"""Encoding is row by row: encode(a + b) is encode(a) and encode(b), whatever holds the rows.

A column of texts in one table may be one of numbers in another: what a cell becomes is the same.
"""

import os
import random

import numpy as np
import pytest

from oracles import reading
from oracles.repeats import crossed
from oracles.sources import HEADING, STATES, TABLES
from oracles.studies import study

TABLES_DRAWN = 8 if os.environ.get("PRIVALUE_LONG") == "1" else 4  # make long

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
    "text": study(STATES, data={"invalid": "drop-unit"}),
    "integer": study(STATES, data={"invalid": "drop-unit", "id_type": "integer"}),
    "numbers": study(STATES, data={"invalid": "drop-unit", "step_type": "number"}),
}


def encoded(data, described):
    """The numbers of every row, ids without the zeros at their ends; what was done on the way."""
    rows, left_out = [], 0
    for part in reading.encoded(data, described):
        left_out += part.left_out
        for ids, step, state, reward in zip(*part.columns, strict=True):
            words = [tuple(np.trim_zeros(one, "b").tolist()) for one in ids]
            rows.append((words, int(step), int(state), repr(float(reward))))
    return rows, left_out


def together(one, other):
    return one[0] + other[0], one[1] + other[1]


def drawn(draw, cells, count):
    return [tuple(draw.choice(cells[name]) for name in HEADING) for _ in range(count)]


@pytest.mark.parametrize("part", [3, 1 << 17], ids=["small batches", "one batch"])
@pytest.mark.parametrize(("kind", "declared"), crossed(TABLES, STUDIES))
def test_tables_are_encoded_row_by_row(kind, declared, part, place, monkeypatch):
    monkeypatch.setattr("privalue.readers.tables.BATCH_ROWS", part)
    rules, write = STUDIES[declared], TABLES[kind]
    for seed in range(TABLES_DRAWN):
        draw = random.Random(seed)
        a = drawn(draw, CELLS if seed % 2 else PLAIN, 9)
        b = drawn(draw, CELLS, 9)
        both, first, second = (
            encoded(write(place, HEADING, rows), rules) for rows in (a + b, a, b)
        )
        assert both == together(first, second)
        assert len(both[0]) > 1


def test_episodes_are_encoded_row_by_row():
    rules, draw = STUDIES["text"], random.Random(2)
    states, rewards = [0, 1, 2.0, "1", "x", 9], [0.5, 1, "0.25", "x", -7]
    made = [
        [(draw.choice(states), draw.choice(rewards)) for _ in range(draw.randrange(1, 6))]
        for _ in range(12)
    ]
    both, first, second = (encoded(data, rules) for data in (made, made[:5], made[5:]))
    apart, expected = together(first, second)
    assert [row[1:] for row in both[0]] == [row[1:] for row in apart]
    assert both[1] == expected
