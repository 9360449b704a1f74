"""Read sheets of Excel workbooks: ``FILE.xlsx::SHEET``. Extra: ``excel``.

Cells come as Python values, each with its own type; the numbers of a workbook are all floats.
"""

from collections.abc import Iterator
from importlib import import_module
from os.path import isfile
from pathlib import Path
from typing import Any

from privalue.errors import DataError, MissingComponentError
from privalue.readers import _python_cells as python_cells
from privalue.readers._chunks import Chunk, Location, Source, one_line
from privalue.readers._rules import RowRules

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def is_workbook(path: Path) -> bool:
    """Return whether the file's name is that of a workbook."""
    return path.name.lower().endswith(ENDINGS)


def sheet_rows(path: Path, sheet: str | None) -> tuple[str, list[list[Any]]]:
    """Return what messages call a sheet, and its rows.

    The sheet need not be named if the workbook has one only.
    """
    try:
        calamine: Any = import_module("python_calamine")
    except ImportError:
        raise MissingComponentError(
            f"{path} needs a reader of workbooks: pip install python-calamine"
        ) from None
    if not isfile(path):
        raise DataError(f"{path} does not exist; give an Excel workbook")
    try:
        with calamine.CalamineWorkbook.from_path(str(path)) as workbook:
            names = list(workbook.sheet_names)
            shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            if not sheet and len(names) != 1:
                raise DataError(
                    f"{path} holds {len(names)} sheets: {shown}; name one after ::, as in "
                    f"{path}::{names[0] if names else 'SHEET'}"
                )
            if sheet and sheet not in names:
                raise DataError(f"{path} has no sheet {sheet!r}; it has {shown}")
            name = sheet or names[0]
            return f"{path}, sheet {name}", workbook.get_sheet_by_name(name).to_python()
    except (calamine.CalamineError, OSError, ValueError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{path} cannot be read as a workbook: {one_line(problem)}") from None


def open_excel(path: Path, sheet: str | None, rules: RowRules) -> Source:
    """Return the rows of a sheet, whose first row is the heading."""
    place, rows = sheet_rows(path, sheet)
    if not rows:
        raise DataError(f"{place} is empty; it needs a heading and at least one row")
    heading = [str(cell).strip() for cell in rows[0]]
    rules.select(heading, place)
    at = {name: heading.index(name) for name in rules.names}
    full = [row for row in rows[1:] if any(cell != "" for cell in row)]

    def chunks() -> Iterator[Chunk]:
        first_row = 1
        cells = {name: [row[column] for row in full] for name, column in at.items()}
        for batch in python_cells.batches(cells) if full else ():
            yield Chunk(Location(place, first_row), batch)
            first_row += batch.num_rows

    return Source(chunks, total_rows=len(full), again=True)
