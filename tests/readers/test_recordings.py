"""Recordings, episodes and sheets: an odd element neither affects the others nor ends the run."""

from datetime import datetime, timedelta, timezone

import numpy as np
import openpyxl
import pytest

from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import make_study

DROPPING = make_study(3, data={"invalid": "drop-unit"})
REFUSING = make_study(3)


def recording(states, rewards, marks):
    return {"observations": states, "rewards": rewards, "terminals": marks}


def test_an_unreadable_mark_makes_no_other_reward_valid():
    """Rewards of a type that Arrow lacks are invalid, whatever the marks of one episode are."""
    rewards = np.array([1 + 0j, 0.5, 0.25], dtype=complex)
    for marks in ([1, 1, 1], [1, 1, "?"]):
        result = statistics(recording([0, 1, 2], rewards, marks), DROPPING)
        assert (result.trajectories, result.units_dropped + result.rows_left_out) == (0, 3)


def test_an_episode_with_many_unreadable_marks_counts_at_most_once():
    states = [0, *[None] * 500, 2]
    marks = [1, *["?"] * 500, 1]
    result = statistics(recording(states, [0.5] * 502, marks), DROPPING)
    assert result.counts.tolist() == [1, 0, 1]
    with refused("mark-unreadable"):
        statistics(recording(states, [0.5] * 502, marks), REFUSING)


def test_an_unreadable_mark_ends_its_episode_and_invalidates_it():
    result = statistics(recording([0, 1, 2], [0.5] * 3, [0, "?", 1]), DROPPING)
    assert result.counts.tolist() == [0, 0, 1]
    assert result.rows_left_out == 1


BEFORE_YEAR_1 = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))  # in UTC


@pytest.mark.parametrize("odd", [None, float("nan"), object(), "\ud800", "x" * 256, BEFORE_YEAR_1])
def test_a_row_without_an_id_is_left_out(odd):
    rows = [{"trajectory": t, "step": 0, "state": 0, "reward": 0.5} for t in (0, 1)]
    result = statistics([*rows, {**rows[0], "trajectory": odd, "step": 1, "state": 1}], DROPPING)
    assert (result.counts.tolist(), result.rows_left_out) == ([2, 0, 0], 1)


class WrongLength(tuple):
    """A step with one cell whose length is two."""

    __slots__ = ()

    def __len__(self):
        return 2


# Empty when read again, which another element may make necessary.
ITERATORS = [iter([(1, 0.5)]), [iter((1, 0.5))], {"observations": iter([1]), "rewards": [0.5]}]
ODD_EPISODES = [[WrongLength((1,))], ["\ud800"], [("\ud800", 0.5)], [(0, "\udcff")], *ITERATORS]


@pytest.mark.parametrize("odd", ODD_EPISODES)
def test_an_odd_episode_is_left_out_alone(odd):
    result = statistics([[(0, 0.5)], odd, [(2, 0.5)]], DROPPING)
    assert result.counts.tolist() == [1, 0, 1]


def sheet(path, cells, number_format="General"):
    book = openpyxl.Workbook()
    for row in cells:
        book.active.append(row)
    book.active.cell(4, 4).number_format = number_format
    book.save(path)
    return path


HEADING = ("trajectory", "step", "state", "reward")


@pytest.mark.parametrize(("odd", "number_format"), [(1e300, "[h]:mm"), (-1e300, "yyyy-mm-dd")])
def test_an_odd_time_of_a_sheet_leaves_out_its_row_alone(odd, number_format, tmp_path):
    cells = [HEADING, (1, 0, 0, 0.5), (), (2, 0, 1, odd), (3, 0, 2, 1)]
    path = sheet(tmp_path / "a.xlsx", cells, number_format)
    result = statistics(path, DROPPING)
    assert (result.counts.tolist(), result.rows_left_out) == ([1, 0, 1], 1)
    with refused("cell-invalid"):
        statistics(path, REFUSING)


def test_an_error_has_the_number_of_the_row_in_the_sheet(tmp_path):
    path = sheet(tmp_path / "b.xlsx", [HEADING, (), (), (2, 0, 1, 0), (3, 0, 9, 1)])
    with refused("cell-invalid") as error:
        statistics(path, REFUSING)
    assert "row 5: state" in str(error.value)
