"""Open whatever holds rows as a stream of Arrow batches, in the source's own order.

Files: CSV (also compressed), Parquet, Excel; one file, a folder, or a glob. Databases and queries.
Objects in memory are in ``_objects``, recordings in ``_recordings`` and ``_minari``. The types of
columns are checked before a row is read; cells are passed on as they are, and ``_cells`` converts
them.
"""

from collections.abc import Iterator
from functools import partial
from os.path import isdir
from pathlib import Path
from typing import Any

import pyarrow as pa

from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Location, Source, Unread
from privalue.readers._csv_files import csv_chunks, csv_rows, csv_unread, open_csv
from privalue.readers._databases import open_database
from privalue.readers._excel import is_workbook, open_excel
from privalue.readers._files import (
    file_kind,
    find_files,
    parquet_file,
    require_rows,
)
from privalue.readers._minari import open_minari
from privalue.readers._names import divided, is_query, on_server, require_showable
from privalue.readers._objects import open_object
from privalue.readers._rules import RowRules

READ_ROWS = 1 << 20  # of Parquet, at once by one thread


def open_source(data: Any, rules: RowRules) -> Source:
    """Return the rows of a file name, folder or glob, of an object in memory, or of a recording."""
    if isinstance(data, str | Path) and not is_query(data) and not on_server(data):
        require_showable(data)
    recorded = open_minari(data, rules)  # first, because a Minari dataset is iterable too
    if recorded is not None:
        return recorded
    if isinstance(data, str | Path):
        return _named(data, rules)
    found = open_object(data, rules)
    if found is not None:
        return found
    raise DataError(
        f"data of type {type(data).__name__} is not understood; give a file name, a pandas, Polars "
        "or Arrow table, a dict of columns, a list of dicts, or a list of episodes"
    )


def _named(data: str | Path, rules: RowRules) -> Source:
    """Return the rows of what a name stands for: a query, a workbook, a database, or files."""
    if not str(data):
        raise DataError("the name of the data is empty; give a file, a database or a dataset")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in str(data)):
        raise DataError("the name of the data is no UTF-8; rename it")  # it may hold a password
    if is_query(data):
        from privalue.readers._queries import open_query  # noqa: PLC0415 - DuckDB comes with it

        return open_query(str(data), rules)
    path, request = divided(str(data))
    if is_workbook(path) and not isdir(path) and not on_server(data):
        return open_excel(path, request, rules)
    try:
        database = open_database(data, rules)
    except UnicodeDecodeError:  # SQLite quotes a damaged schema in its error, bytes and all
        raise DataError(f"{path} cannot be read: it holds a name that is no UTF-8") from None
    return open_files(data, rules) if database is None else database


# Files


def open_files(data: str | Path, rules: RowRules) -> Source:
    """Return the rows of CSV or Parquet files."""
    paths = find_files(data)
    kinds = {file_kind(path) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"{data} holds both CSV and Parquet files; name one kind, e.g. *.parquet")
    if kinds == {"csv"}:
        texts = [open_csv(path, rules) for path in paths]
        return Source(
            lambda: (chunk for file in texts for chunk in csv_chunks(file)),
            total_rows=csv_rows(texts),
            again=True,
            to_read=lambda: (chunk for file in texts for chunk in csv_unread(file)),
        )
    files = [(path, open_parquet(path, rules), rules.names) for path in paths]

    def to_read() -> Iterator[Unread]:
        return (chunk for file in files for chunk in parquet_unread(*file))

    return Source(
        lambda: (chunk.read() for chunk in to_read()),
        total_rows=sum(metadata.num_rows for _, metadata, _ in files),
        again=True,
        to_read=to_read,
    )


def open_parquet(path: Path, rules: RowRules) -> Any:
    """Return the metadata of a file; refuse one whose columns cannot be read."""
    with parquet_file(path) as file:
        schema = file.schema_arrow
        rules.select(schema.names, str(path))
        rules.require_types(zip(schema.names, schema.types, strict=True), str(path))
        return file.metadata


def parquet_unread(
    path: Path, metadata: Any, names: list[str], first: int = 0, last: int | None = None
) -> Iterator[Unread]:
    """Yield the row groups of a file as tasks, small ones together.

    A row group that is too large to hold is read here, in parts.

    Args:
        path: the file.
        metadata: what ``open_parquet`` returned.
        names: the columns to read.
        first: the row group to begin with.
        last: the row group to end before; None: all of them.
    """
    groups: list[int] = []
    first_row, rows = 1 + sum(metadata.row_group(at).num_rows for at in range(first)), 0
    for group in range(metadata.num_row_groups)[first:last]:
        size = metadata.row_group(group).num_rows
        if size == 0:
            continue
        if groups and rows + size > READ_ROWS:
            yield Unread(rows, partial(_parquet_chunk, path, metadata, groups, names, first_row))
            groups, first_row, rows = [], first_row + rows, 0
        if size <= READ_ROWS:
            groups, rows = [*groups, group], rows + size
            continue
        before = first_row
        with parquet_file(path, metadata) as file:
            for batch in file.iter_batches(READ_ROWS, row_groups=[group], columns=names):
                yield Unread.at_hand(Chunk(Location(str(path), first_row), batch.select(names)))
                first_row += batch.num_rows
        require_rows(path, size, first_row - before)
    if groups:
        yield Unread(rows, partial(_parquet_chunk, path, metadata, groups, names, first_row))


def _parquet_chunk(
    path: Path, metadata: Any, groups: list[int], names: list[str], first_row: int
) -> Chunk:
    """Read some row groups of a file."""
    declared = sum(metadata.row_group(group).num_rows for group in groups)
    with parquet_file(path, metadata) as file:
        table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
        for at, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):  # its indices may be too small for all groups
                values = table.column(at).cast(field.type.value_type)
                table = table.set_column(at, field.name, values)
        batches = table.combine_chunks().to_batches()  # one, unless there are gigabytes of text
        require_rows(path, declared, sum(batch.num_rows for batch in batches))
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return Chunk(Location(str(path), first_row), rows)
