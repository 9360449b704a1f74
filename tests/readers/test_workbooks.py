"""Excel sheets, and the names of columns of whatever holds rows."""

import sqlite3
import sys
from contextlib import closing
from datetime import date, datetime

import duckdb
import openpyxl
import pandas as pd
import pytest

import privalue as pv
from oracles.reading import statistics
from oracles.studies import rows_of, study
from privalue.readers import column_names

EPISODES = [[(0, 0.0), (1, 0.25), (0, 0.5)], [(2, 1.0)], [(1, 0.0), (2, 1.0)]]
COLUMNS = ["trajectory", "step", "state", "reward"]
EXPECTED = statistics(EPISODES, study(3))


def workbook(path, sheets):
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def test_a_sheet_is_read_by_name_and_the_only_one_without(tmp_path):
    rows = [COLUMNS, *rows_of(EPISODES)]
    one = workbook(tmp_path / "one.xlsx", {"Visits": rows})
    assert statistics(one, study(3)) == statistics(f"{one}::Visits", study(3)) == EXPECTED
    two = workbook(tmp_path / "two.xlsx", {"Notes": [["x"]], "Visits": rows})
    assert statistics(f"{two}::Visits", study(3)) == EXPECTED
    with pytest.raises(pv.DataError, match=r"holds 2 sheets: 'Notes', 'Visits'; name one after ::"):
        statistics(two, study(3))
    with pytest.raises(pv.DataError, match=r"has no sheet 'visits'; it has 'Notes', 'Visits'"):
        statistics(f"{two}::visits", study(3))
    assert column_names(f"{two}::Visits").names == COLUMNS


def test_cells_of_a_workbook_have_their_own_types(tmp_path):
    rows = [
        ["who", "when", "where", "score", "note"],
        [1, datetime(2026, 1, 2), 0, 0.5, "x"],
        ["1", date(2026, 1, 3), "1", True, None],
        [None, None, None, None, None],
        [1.0, "2026-01-04", 2.0, "0.25", 7],
    ]
    path = workbook(tmp_path / "d.xlsx", {"Sheet1": rows})
    names = {"person": "who", "step": "when", "state": "where", "reward": "score"}
    described = study(3, privacy={"unit": "person"}, data={**names, "step_type": "date"})
    found = statistics(path, described)
    assert (found.persons, found.rows) == (1, 3)
    expected = statistics([[(0, 0.5), (1, 1.0), (2, 0.25)]], study(3))
    assert found.return_steps.tolist() == expected.return_steps.tolist()


def test_workbooks_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "bad.xlsx").write_text("no workbook")
    for name, words in {
        "bad.xlsx": "cannot be read as a workbook",
        "absent.xlsx": "does not exist; give an Excel workbook",
    }.items():
        with pytest.raises(pv.DataError, match=words):
            statistics(tmp_path / name, study(3))
    empty = workbook(tmp_path / "empty.xlsx", {"Sheet1": []})
    with pytest.raises(pv.DataError, match="is empty; it needs a heading"):
        statistics(empty, study(3))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(pv.errors.MissingComponentError, match="pip install python-calamine"):
        statistics(empty, study(3))


def test_names_of_columns_of_every_source(tmp_path):
    made = pd.DataFrame(rows_of(EPISODES), columns=COLUMNS)
    made.to_parquet(tmp_path / "d.parquet")
    made.to_csv(tmp_path / "d.csv", index=False)
    made.to_csv(tmp_path / "e.csv.gz", index=False, sep=";")
    with closing(duckdb.connect(str(tmp_path / "d.duckdb"))) as connection:
        connection.execute(f"CREATE TABLE rows AS FROM '{tmp_path}/d.parquet'")
    with closing(sqlite3.connect(tmp_path / "d.sqlite")) as connection, connection:
        made.to_sql("rows", connection, index=False)
    for name in ("d.parquet", "d.csv", "e.csv.gz", "d.duckdb", "d.sqlite", "d.duckdb::rows"):
        assert column_names(f"{tmp_path}/{name}").names == COLUMNS
    assert column_names(tmp_path / "d.csv").names == COLUMNS
    with pytest.raises(pv.DataError, match="a query is asked of a database"):
        column_names(f"SELECT * FROM '{tmp_path}/d.csv'")
