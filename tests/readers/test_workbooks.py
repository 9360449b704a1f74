"""Excel workbooks: sheets by name, headings, and cells of several types."""

from datetime import date, datetime, timedelta
from zipfile import ZipFile

import openpyxl

from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import make_study, rows_of
from privalue.readers import column_names

EPISODES = [[(0, 0.0), (1, 0.25), (0, 0.5)], [(2, 1.0)], [(1, 0.0), (2, 1.0)]]
COLUMNS = ["trajectory", "step", "state", "reward"]
EXPECTED = statistics(EPISODES, make_study(3))


def workbook(path, sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_sheet_is_named_unless_it_is_the_only_one(tmp_path):
    rows = [COLUMNS, *rows_of(EPISODES)]
    one = workbook(tmp_path / "one.xlsx", {"Visits": rows})
    assert statistics(one, make_study(3)) == statistics(f"{one}::Visits", make_study(3)) == EXPECTED
    two = workbook(tmp_path / "two.xlsx", {"Notes": [["x"]], "Visits": rows})
    assert statistics(f"{two}::Visits", make_study(3)) == EXPECTED
    with refused("sheet-absent"):
        statistics(two, make_study(3))
    with refused("sheet-absent"):
        statistics(f"{two}::visits", make_study(3))
    assert column_names(f"{two}::Visits")[0] == COLUMNS


def test_an_unreadable_heading_is_a_data_error(tmp_path):
    path = workbook(tmp_path / "d.xlsx", {"Visits": [[timedelta(days=77)], [1]]})
    with ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content.replace(b"<v>77</v>", b"<v>1e10</v>"))
    with refused("workbook-unreadable"):
        statistics(path, make_study(3))


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
    by_person = make_study(3, privacy={"unit": "person"}, data={**names, "step_type": "date"})
    result = statistics(path, by_person)
    assert (result.persons, result.rows) == (1, 3)
    expected = statistics([[(0, 0.5), (1, 1.0), (2, 0.25)]], make_study(3))
    assert result.return_steps.tolist() == expected.return_steps.tolist()
