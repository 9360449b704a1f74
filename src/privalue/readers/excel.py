"""Read sheets of Excel workbooks: ``FILE.xlsx::SHEET``. Extra: ``excel``.

Cells come as Python values, each with its own type; the numbers of a workbook are all floats. The
first row that is not blank is the heading. Rows are named as the sheet numbers them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from os.path import isfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from privalue.errors import DataError, MissingComponentError
from privalue.readers import cells
from privalue.readers.source import Batch, Source, one_line, ready, texts

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
BATCH_ROWS = 1 << 14  # Python objects take more room than numbers do


def is_workbook(path: Path) -> bool:
    """Return whether the file's name is that of a workbook."""
    return path.name.lower().endswith(ENDINGS)


def open_excel(path: Path, sheet: str | None, decimal: str) -> Source:
    """Return the rows of a sheet, which need not be named if the workbook has one only."""
    place, found = _sheet(path, sheet)
    full = [
        (number, row)
        for number, row in enumerate(found, 1)
        if row is None or any(cell != "" for cell in row)
    ]
    if not full:
        raise DataError(f"{place} is empty; it needs a heading and at least one row")
    _, heading = full.pop(0)
    names = [str(cell).strip() for cell in heading or ()]

    def batches(types: Mapping[str, Any]) -> Iterator[Batch]:
        at = [names.index(name) for name in types]
        for start in range(0, len(full), BATCH_ROWS):
            part = full[start : start + BATCH_ROWS]
            rows = [(number, row) for number, row in part if row is not None]
            bad = [number for number, row in part if row is None]
            columns = [cells.from_objects([row[i] for _, row in rows], decimal) for i in at]
            yield Batch(
                pa.record_batch(columns, names=list(types)),
                lambda i, rows=rows: f"{place}, row {rows[i][0]}",  # type: ignore[misc]
                left_out=len(bad),
                problem=f"{place}, row {bad[0]}: a cell cannot be read" if bad else None,
            )

    return Source(
        schemas=((place, texts(names)),),
        tasks=lambda types: ready(batches(types)),
        rows=len(full),
    )


def _sheet(path: Path, sheet: str | None) -> tuple[str, list[list[Any] | None]]:
    """Return what messages call a sheet, and its rows; None for one that cannot be read."""
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
            rows = workbook.get_sheet_by_name(name).iter_rows()
            return f"{path}, sheet {name}", list(_each_row(rows))
    except (calamine.CalamineError, OSError, ValueError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{path} cannot be read as a workbook: {one_line(problem)}") from None


def _each_row(rows: Iterator[list[Any]]) -> Iterator[list[Any] | None]:
    """Yield rows; None for one with a cell that is no Python value, such as a time of 10^9 days."""
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except (OverflowError, ValueError):
            yield None
