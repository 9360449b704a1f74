"""Open whatever holds rows as a stream of Arrow batches, in the source's own order.

Files: CSV (also compressed), Parquet, Excel; one file, a folder, or a glob. Databases and queries.
Objects: anything with the Arrow stream interface (pandas, Polars, pyarrow, a DuckDB relation), and
episodes, an iterable of lists of (state, reward). The types of columns are checked before a row is
read; cells are passed on as they are, and ``_cells`` converts them.
"""

from collections.abc import Iterable, Iterator, Sized
from functools import partial
from os.path import isdir
from pathlib import Path
from typing import Any

import pyarrow as pa

from privalue.errors import DataError
from privalue.readers import _python_cells as python_cells
from privalue.readers._chunks import BATCH_ROWS, Chunk, Location, Source, Unread, one_line
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
from privalue.readers._rules import RowRules

READ_ROWS = 1 << 20  # of Parquet, at once by one thread


def open_source(data: Any, rules: RowRules) -> Source:
    """Return the rows of a file name, folder or glob, of an Arrow-like object, or of episodes."""
    if isinstance(data, str | Path) and not is_query(data) and not on_server(data):
        require_showable(data)
    recorded = open_minari(data, rules)  # first, because a Minari dataset is iterable too
    if recorded is not None:
        return recorded
    if isinstance(data, str | Path):
        return _named(data, rules)
    if _is_pandas(data):
        return Source(lambda: _frame(data, rules), total_rows=len(data), again=True)
    if hasattr(data, "__arrow_c_stream__"):
        stays = type(data).__module__.split(".")[0] == "polars"
        if (stays and isinstance(data, Sized)) or isinstance(data, pa.Table | pa.RecordBatch):
            return Source(lambda: _stream(data, rules), total_rows=len(data), again=True)
        return Source(lambda: _stream(data, rules))
    if isinstance(data, Iterable) and not isinstance(data, bytes | dict):
        if rules.by_person:
            raise DataError(
                'episodes name no person, and unit = "person" needs one; give a table with the '
                f"column {rules.columns['person']!r}"
            )
        names = [rules.columns.get("trajectory", "trajectory"), rules.columns["step"]]
        rules.require_types(zip(names, (pa.int64(), pa.int64()), strict=True), "the episodes")
        return Source(lambda: _episodes(data, rules), in_order=True)
    raise DataError(
        f"data of type {type(data).__name__} is not understood; give a file name, a pandas, Polars "
        "or Arrow table (a lazy frame collected first), or a list of episodes"
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


# Objects in memory


def _stream(data: Any, rules: RowRules) -> Iterator[Chunk]:
    """Yield the rows of an object with the Arrow stream interface."""
    place = _what(data)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        names = rules.select(reader.schema.names, place)
        rules.require_types(zip(reader.schema.names, reader.schema.types, strict=True), place)
        first_row = 1
        for batch in reader:
            for start in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(start, BATCH_ROWS).select(names)
                yield Chunk(Location(place, first_row), part)
                first_row += part.num_rows
    except (pa.ArrowException, TypeError, ValueError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{place} cannot be read: {one_line(problem)}") from None


def _is_pandas(data: Any) -> bool:
    """Return whether the data is a pandas frame, without importing pandas."""
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def _frame(data: Any, rules: RowRules) -> Iterator[Chunk]:
    """Yield the rows of a pandas frame; a column of objects is converted cell by cell."""
    place = _what(data)
    headings = [str(name) for name in data.columns]
    names = rules.select(headings, place)
    wanted = data.iloc[:, [headings.index(name) for name in names]]
    typed = [at for at, kind in enumerate(wanted.dtypes) if not _holds_objects(kind)]
    schema = ((names[at], _series(wanted.iloc[:0, at]).type) for at in typed)
    rules.require_types(schema, place)
    for start in range(0, len(data), BATCH_ROWS):
        part = wanted.iloc[start : start + BATCH_ROWS]
        arrays = [_series(part.iloc[:, at]) for at in range(len(names))]
        yield Chunk(Location(place, start + 1), pa.record_batch(arrays, names=names))


def _holds_objects(kind: Any) -> bool:
    """Return whether a pandas column may hold objects of any type."""
    return str(kind) == "object"


def _series(series: Any) -> pa.Array:
    """Return a pandas column as Arrow."""
    if not _holds_objects(series.dtype):
        try:
            found = pa.array(series)
            return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
        except (pa.ArrowException, TypeError, ValueError):
            pass  # categories of several types, sparse columns and the like
    return python_cells.as_arrow(series.tolist())


def _what(data: Any) -> str:
    """Return what messages call an object."""
    return f"the {type(data).__module__.split('.')[0]} {type(data).__name__}"


def _episodes(data: Iterable[Any], rules: RowRules) -> Iterator[Chunk]:
    """Yield episodes as rows.

    The trajectory is the number of the episode, and the step is the position in it.
    """
    ids = [rules.columns[role] for role in rules.id_roles]
    roles = rules.row_roles
    names = [*ids, rules.columns["step"], *(rules.columns[role] for role in roles)]
    rows: list[tuple[Any, ...]] = []
    first_row = 1
    for number, episode in enumerate(data):
        try:
            steps = [(*(number for _ in ids), at, *pair) for at, pair in enumerate(episode)]
        except TypeError:
            steps = []
        if not steps or any(len(step) != len(names) for step in steps):
            if rules.drop_invalid:
                continue
            raise DataError(
                f"episode {number} (counted from 0) is not a list of at least one "
                f"({', '.join(roles)})"
            )
        rows.extend(steps)
        if len(rows) >= BATCH_ROWS:
            yield _episode_chunk(rows, names, first_row)
            first_row += len(rows)
            rows = []
    if rows:
        yield _episode_chunk(rows, names, first_row)


def _episode_chunk(rows: list[tuple[Any, ...]], names: list[str], first_row: int) -> Chunk:
    """Return the rows of some episodes as a chunk."""
    arrays = [python_cells.as_arrow(column) for column in zip(*rows, strict=True)]
    location = Location("the list of episodes", first_row)
    return Chunk(location, pa.record_batch(arrays, names=names))
