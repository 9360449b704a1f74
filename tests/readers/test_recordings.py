"""One unit at a time, for recordings, episodes and sheets, too: none changes or ends another."""

from datetime import timedelta

import numpy as np
import openpyxl
import pytest

import privalue as pv
from oracles.reading import statistics
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
        assert (found.trajectories, found.units_dropped) == (0, 3)


def test_an_episode_of_many_marks_that_cannot_be_read_counts_at_most_once():
    states = [0, *[None] * 500, 2]
    marks = [1, *["?"] * 500, 1]
    found = statistics(recording(states, [0.5] * 502, marks), DROPPING)
    assert found.counts.tolist() == [1, 0, 1]
    with pytest.raises(pv.DataError, match="row 2: a mark of an end must be"):
        statistics(recording(states, [0.5] * 502, marks), REFUSING)


def test_an_end_mark_that_cannot_be_read_ends_its_episode_and_makes_all_of_it_invalid():
    found = statistics(recording([0, 1, 2], [0.5] * 3, [0, "?", 1]), DROPPING)
    assert found.counts.tolist() == [0, 0, 1]
    assert found.units_dropped == 1


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


def test_positions_are_no_ids_of_rows():
    row = {"trajectory": 0, "step": 5, "state": 2, "reward": 0.5}
    found = statistics([[(0, 0.5)], row, [(1, 0.5)]], DROPPING)
    assert (found.trajectories, found.counts.tolist()) == (3, [1, 1, 1])


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
    with pytest.raises(pv.DataError, match="row 4: a cell cannot be read"):
        statistics(odd, REFUSING)
    later = sheet(tmp_path / "b.xlsx", [heading, (), (), (2, 0, 1, 0), (3, 0, 9, 1)])
    with pytest.raises(pv.DataError, match=r"row 4: reward|row 5: state"):
        statistics(later, REFUSING)


def test_lines_of_csv_are_numbered_as_an_editor_does(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("trajectory,step,state,reward\n1,0,0,1\n\n\n2,0,9,1\n")
    with pytest.raises(pv.DataError, match="line 5: state"):
        statistics(path, REFUSING)


def test_years_from_1_to_9999_and_microseconds_are_steps():
    described = study(3, data={"step_type": "datetime"})
    rows = [
        {"trajectory": 1, "step": step, "state": at, "reward": at / 2}
        for at, step in enumerate(["0001-01-01", "2026-01-01T00:00:00.000001", "9999-12-31"])
    ]
    forwards, backwards = (statistics(some, described) for some in (rows, rows[::-1]))
    assert forwards == backwards
    finer = {**rows[0], "step": "2026-01-01T00:00:00.000000001"}
    with pytest.raises(pv.DataError, match="must be a datetime"):
        statistics([finer], described)
    with pytest.raises(pv.DataError, match=r"is not|must be"):
        statistics([{**rows[0], "step": timedelta(1)}], described)


def test_queries_of_any_kind_are_known_to_be_queries():
    import duckdb

    from privalue.readers import is_query_result

    with duckdb.connect() as connection:
        assert is_query_result(connection.sql("SELECT 1"))
    assert is_query_result("a.duckdb::SELECT 1")
    assert not is_query_result("a.duckdb::rows")
    assert not is_query_result([[(0, 1.0)]])


def test_a_duckdb_file_gets_the_threads_and_the_memory_that_are_given(tmp_path, monkeypatch):
    import duckdb

    with duckdb.connect(tmp_path / "d.duckdb") as made:
        made.execute("CREATE TABLE rows AS SELECT 1 trajectory, 0 step, 0 state, 0.5 reward")
    seen, connect = [], duckdb.connect

    def watched(*given, config):
        seen.append((config["threads"], config["memory_limit"]))
        return connect(*given, config=config)

    monkeypatch.setattr(duckdb, "connect", watched)
    statistics(tmp_path / "d.duckdb", REFUSING, threads=3, memory=256 << 20)
    assert set(seen) == {(3, "256MiB")}


def test_one_long_cell_takes_linear_time(tmp_path):
    """Bytes are joined once: 30 MB in one cell took minutes where blocks were added up."""
    path = tmp_path / "d.csv"
    path.write_text("trajectory,step,state,reward,note\n1,0,0,1,x\n2,0,1,1," + "y" * 30_000_000)
    assert statistics(path, REFUSING).counts.tolist() == [1, 1, 0]
