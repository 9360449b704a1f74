"""Read sheets of Excel workbooks: ``FILE.xlsx::SHEET``. Extra: ``excel``.

Cells are Python objects, each of its own type; every number of a workbook is a float. The first row
that is not blank is the heading. Messages use the sheet's own row numbers.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from privalue.errors import DataError, MissingComponentError, one_line
from privalue.readers.messages import data_error, list_some, render
from privalue.readers.source import Source
from privalue.readers.tables import open_columns

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def open_excel(path: Path, sheet: str | None, decimal: str) -> Source:
    """Return the rows of a sheet; its name may be left out if the workbook has only one."""
    place, rows = _read_sheet(path, sheet)
    rows = {at: row for at, row in rows.items() if row is None or any(cell != "" for cell in row)}
    if not rows:
        raise data_error("table-empty", place=place)
    heading = rows.pop(min(rows))
    if heading is None:
        raise data_error("workbook-unreadable", path=place, problem="a time in the heading")
    names = [str(cell).strip() for cell in heading]
    unreadable = [object()] * len(names)  # invalid in every role, as an id, too
    columns = zip(*(unreadable if row is None else row for row in rows.values()), strict=True)
    return open_columns(place, names, list(columns) or [() for _ in names], decimal, list(rows))


def _read_sheet(path: Path, sheet: str | None) -> tuple[str, dict[int, list[Any] | None]]:
    """Return the name of a sheet for messages, and its rows by number; None if unreadable."""
    try:
        calamine: Any = import_module("python_calamine")
    except ImportError:
        raise MissingComponentError(render("workbook-missing", path=path)) from None
    try:
        with calamine.CalamineWorkbook.from_path(str(path)) as workbook:
            names = list(workbook.sheet_names)
            name = sheet or (names[0] if len(names) == 1 else None)
            if name not in names:
                raise data_error("sheet-absent", path=path, sheets=list_some(names))
            rows = _iterate_rows(workbook.get_sheet_by_name(name).iter_rows())
            return f"{path}, sheet {name}", dict(enumerate(rows, 1))
    except DataError:
        raise
    except (calamine.CalamineError, OSError, ValueError) as problem:
        raise data_error("workbook-unreadable", path=path, problem=one_line(problem)) from None


def _iterate_rows(rows: Iterator[list[Any]]) -> Iterator[list[Any] | None]:
    """Yield rows; None for a row with a cell that cannot be a Python time, such as -1e300 days."""
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except BaseException as problem:  # a panic in Rust is not an Exception
            if type(problem).__name__ not in {"OverflowError", "ValueError", "PanicException"}:
                raise
            yield None
