"""One unit at a time, for recordings, episodes and sheets, too: none changes or ends another."""

import numpy as np
import openpyxl
import pytest

from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import study

DROPPING = study(3, data={"invalid": "drop-unit"})
REFUSING = study(3)


def recording(states, rewards, marks):
    return {"observations": states, "rewards": rewards, "terminals": marks}


def test_a_mark_that_cannot_be_read_makes_no_other_reward_valid():
    """Rewards of a type that Arrow lacks are invalid, whatever the marks of one episode are."""
    rewards = np.array([1 + 0j, 0.5, 0.25], dtype=complex)
    for marks in ([1, 1, 1], [1, 1, "?"]):
        found = statistics(recording([0, 1, 2], rewards, marks), DROPPING)
        assert (found.trajectories, found.units_dropped + found.rows_left_out) == (0, 3)


def test_an_episode_of_many_marks_that_cannot_be_read_counts_at_most_once():
    states = [0, *[None] * 500, 2]
    marks = [1, *["?"] * 500, 1]
    found = statistics(recording(states, [0.5] * 502, marks), DROPPING)
    assert found.counts.tolist() == [1, 0, 1]
    with refused("mark-unreadable"):
        statistics(recording(states, [0.5] * 502, marks), REFUSING)


def test_an_end_mark_that_cannot_be_read_ends_its_episode_and_makes_all_of_it_invalid():
    found = statistics(recording([0, 1, 2], [0.5] * 3, [0, "?", 1]), DROPPING)
    assert found.counts.tolist() == [0, 0, 1]
    assert found.rows_left_out == 1


@pytest.mark.parametrize("odd", [None, float("nan"), object(), "\ud800", "x" * 256])
def test_a_row_without_an_id_belongs_to_nobody(odd):
    rows = [{"trajectory": t, "step": 0, "state": 0, "reward": 0.5} for t in (0, 1)]
    found = statistics([*rows, {**rows[0], "trajectory": odd, "step": 1, "state": 1}], DROPPING)
    assert (found.counts.tolist(), found.rows_left_out) == ([2, 0, 0], 1)


class Lying(tuple):
    """A step that says that it has two cells, and has one."""

    __slots__ = ()

    def __len__(self):
        return 2


@pytest.mark.parametrize("odd", [[Lying((1,))], ["\ud800"], [("\ud800", 0.5)], [(0, "\udcff")]])
def test_a_step_that_lies_and_half_a_character_end_nothing(odd):
    found = statistics([[(0, 0.5)], odd, [(2, 0.5)]], DROPPING)
    assert found.counts.tolist() == [1, 0, 1]


def sheet(path, cells):
    book = openpyxl.Workbook()
    for row in cells:
        book.active.append(row)
    book.active.cell(4, 4).number_format = "[h]:mm"
    book.save(path)
    return path


def test_an_odd_cell_of_a_sheet_ends_nothing_and_rows_are_numbered_as_in_the_sheet(tmp_path):
    heading = ("trajectory", "step", "state", "reward")
    odd = sheet(tmp_path / "a.xlsx", [heading, (1, 0, 0, 0.5), (), (2, 0, 1, 1e300), (3, 0, 2, 1)])
    found = statistics(odd, DROPPING)
    assert (found.counts.tolist(), found.rows_left_out) == ([1, 0, 1], 1)
    with refused("cell-invalid"):
        statistics(odd, REFUSING)
    later = sheet(tmp_path / "b.xlsx", [heading, (), (), (2, 0, 1, 0), (3, 0, 9, 1)])
    with refused("cell-invalid"):
        statistics(later, REFUSING)
