"""Name the columns of whatever holds rows, without a look at any row."""

from os.path import isdir
from pathlib import Path
from typing import NamedTuple

from privalue.errors import DataError
from privalue.readers._csv_files import EncodingError, heading
from privalue.readers._databases import database_columns
from privalue.readers._excel import is_workbook, sheet_rows
from privalue.readers._files import file_kind, find_files, parquet_file
from privalue.readers._names import divided, is_query, on_server, require_showable

# What spreadsheets on Windows write in Western Europe, where they do not write UTF-8.
_FALLBACK = "cp1252"


class ColumnNames(NamedTuple):
    """The names of columns, in order."""

    names: list[str]
    encoding: str | None = None  # of a CSV file whose heading is not UTF-8: a guess


def column_names(data: str | Path) -> ColumnNames:
    """Return the names of the columns: the heading of a file, or a schema.

    A heading that is not UTF-8 is tried in one other encoding; the rows have no say in that.
    """
    if is_query(data):
        raise DataError(
            "the columns of a query are those that it selects; name them in [data] by hand"
        )
    if not on_server(data):
        require_showable(data)
    path, request = divided(str(data))
    if is_workbook(path) and not isdir(path) and not on_server(data):
        place, rows = sheet_rows(path, request)
        if not rows:
            raise DataError(f"{place} is empty; it needs a heading")
        return ColumnNames([str(cell).strip() for cell in rows[0]])
    stored = database_columns(data)
    if stored is not None:
        return ColumnNames(stored)
    first = find_files(data)[0]
    if file_kind(first) == "csv":
        return _of_csv(first)
    with parquet_file(first) as file:
        return ColumnNames(list(file.schema_arrow.names))


def _of_csv(path: Path) -> ColumnNames:
    """Return the cells of a heading, and its encoding if that is not UTF-8."""
    try:
        return ColumnNames(heading(path).columns)
    except EncodingError:
        pass
    try:
        return ColumnNames(heading(path, _FALLBACK).columns, _FALLBACK)
    except EncodingError:
        raise DataError(
            f"the heading of {path} is neither utf-8 nor {_FALLBACK}; save it as utf-8"
        ) from None
