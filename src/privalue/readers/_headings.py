"""Name the columns of whatever holds rows, without a look at any row."""

from os.path import isdir
from pathlib import Path

from privalue.errors import DataError
from privalue.readers._csv_files import heading
from privalue.readers._databases import database_columns
from privalue.readers._excel import is_workbook, sheet_rows
from privalue.readers._files import file_kind, find_files, parquet_file
from privalue.readers._names import divided, is_query, on_server, require_showable


def column_names(data: str | Path) -> list[str]:
    """Return the names of the columns: the heading of a file, or a schema."""
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
        return [str(cell).strip() for cell in rows[0]]
    stored = database_columns(data)
    if stored is not None:
        return stored
    first = find_files(data)[0]
    if file_kind(first) == "csv":
        return heading(first).columns
    with parquet_file(first) as file:
        return list(file.schema_arrow.names)
