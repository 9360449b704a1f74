"""Excel sheets, and the names of columns of whatever holds rows."""

from datetime import date, datetime, timedelta
from zipfile import ZipFile

import openpyxl

from oracles.reading import statistics
from oracles.refusals import refused
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
    with refused("sheet-absent"):
        statistics(two, study(3))
    with refused("sheet-absent"):
        statistics(f"{two}::visits", study(3))
    assert column_names(f"{two}::Visits")[0] == COLUMNS


def test_a_heading_that_cannot_be_read_is_an_error_of_the_data(tmp_path):
    path = workbook(tmp_path / "d.xlsx", {"Visits": [[timedelta(days=77)], [1]]})
    with ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content.replace(b"<v>77</v>", b"<v>1e10</v>"))
    with refused("workbook-unreadable"):
        statistics(path, study(3))


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
