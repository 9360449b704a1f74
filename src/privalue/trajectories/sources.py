"""Whatever holds the rows, opened as a stream of Arrow batches in the source's own order.

Files: CSV (also gzip) and Parquet; one file, a folder, or a glob. Objects: anything that offers
the Arrow stream interface (pandas, Polars, pyarrow, a DuckDB relation), and episodes, an iterable
of lists of (state, reward). Values are passed on as they are: ``encode`` judges them.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privalue.errors import DataError
from privalue.sections import Columns
from privalue.trajectories.chunks import BATCH_ROWS, Chunk, Piece, Source, one_line, select
from privalue.trajectories.csv_files import (
    csv_chunks,
    csv_columns,
    csv_rows,
    plain_blocks,
    plain_heading,
)

PIECE_ROWS = 1 << 20  # of Parquet, read at once by one thread
_CSV = (".csv", ".csv.gz")
_PARQUET = (".parquet", ".pq")


def open_source(data: Any, columns: Columns, *, by_person: bool = False) -> Source:
    """The rows of a file name, folder or glob, of an Arrow-like object, or of episodes.

    ``by_person`` says that the person's column must be there.
    """
    if by_person:
        columns = columns.model_copy(update={"person": columns.person})  # asked for by name
    from privalue.trajectories.databases import open_database  # noqa: PLC0415 - builds on this
    from privalue.trajectories.minari import open_minari  # noqa: PLC0415 - builds on this

    recorded = open_minari(data, columns, by_person=by_person)  # before the branch of iterables
    if recorded is not None:
        return recorded
    if isinstance(data, str | Path):
        if not str(data):
            raise DataError("the name of the data is empty; give a file, a database or a dataset")
        database = open_database(data, columns)
        return _files(data, columns) if database is None else database
    if hasattr(data, "__arrow_c_stream__"):
        stays = type(data).__module__.split(".")[0] in {"pandas", "polars"}
        if (stays and isinstance(data, Sized)) or isinstance(data, pa.Table | pa.RecordBatch):
            return Source(lambda: _stream(data, columns), total_rows=len(data), again=True)
        return Source(lambda: _stream(data, columns))
    if isinstance(data, Iterable) and not isinstance(data, bytes | dict):
        if by_person:
            raise DataError(
                'episodes name no person, and unit = "person" needs one; give a table with the '
                f"column {columns.person!r}"
            )
        return Source(lambda: _episodes(data, columns), in_order=True)
    raise DataError(
        f"data of type {type(data).__name__} is not understood; give a file name, a pandas, Polars "
        "or Arrow table (a lazy frame collected first), or a list of episodes"
    )


# Files


def _files(data: str | Path, columns: Columns) -> Source:
    paths = _find(data)
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"{data} holds both CSV and Parquet files; name one kind, e.g. *.parquet")
    if kinds == {"csv"}:
        wanted = [(path, csv_columns(path, columns)) for path in paths]
        plain = [
            (path, heading, names) for path, names in wanted if (heading := plain_heading(path))
        ]
        return Source(
            lambda: (chunk for file in wanted for chunk in csv_chunks(*file)),
            total_rows=csv_rows(paths),
            again=True,
            pieces=(lambda: (block for file in plain for block in plain_blocks(*file)))
            if len(plain) == len(wanted)
            else None,
        )
    files = [(path, *_parquet_columns(path, columns)) for path in paths]

    def pieces() -> Iterator[Piece]:
        return (piece for file in files for piece in _parquet_pieces(*file))

    return Source(
        lambda: (piece.read() for piece in pieces()),
        total_rows=sum(metadata.num_rows for _, metadata, _ in files),
        again=True,
        pieces=pieces,
    )


def _find(data: str | Path) -> list[Path]:
    try:
        return _found(data)
    except OSError as problem:
        raise DataError(f"{data} cannot be read: {problem.strerror}") from None


def _found(data: str | Path) -> list[Path]:
    path = Path(data)
    if path.is_dir():
        os.listdir(path)  # complains where it may not be read; a search would pass it over
        found = sorted(
            file
            for file in path.rglob("*")
            if file.is_file()
            and file.name.lower().endswith(_CSV + _PARQUET)
            and not file.name.startswith(("_", "."))
        )
        if not found:
            raise DataError(f"the folder {path} holds no .csv, .csv.gz or .parquet file")
        return found
    if path.exists():
        return [path]
    matches = sorted(Path(name) for name in glob.glob(str(data), recursive=True))
    if not matches:
        what = (
            "is an address, and nothing is downloaded" if "://" in str(data) else "does not exist"
        )
        raise DataError(f"{data} {what}; give a CSV or Parquet file, a folder or a glob")
    every = (file for m in matches for file in (_found(m) if m.is_dir() else [m]))
    return list(dict.fromkeys(every))  # a pattern may match a folder and what is in it


def _kind(path: Path) -> str:
    name = path.name.lower()
    if name.endswith(_CSV):
        return "csv"
    if name.endswith(_PARQUET):
        return "parquet"
    raise DataError(f"{path} must end in .csv, .csv.gz, .parquet or .pq")


@contextmanager
def _reading_parquet(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"{path} cannot be read as Parquet: {one_line(problem)}") from None


def _parquet_columns(path: Path, columns: Columns) -> tuple[Any, list[str]]:
    with _reading_parquet(path), pq.ParquetFile(path) as file:
        return file.metadata, select(columns, file.schema_arrow.names, str(path))


def _parquet_pieces(path: Path, metadata: Any, names: list[str]) -> Iterator[Piece]:
    """Row groups, small ones together; one that is too large to hold comes in parts."""
    groups: list[int] = []
    first_row, rows = 1, 0
    for group in range(metadata.num_row_groups):
        size = metadata.row_group(group).num_rows
        if size == 0:
            continue
        if groups and rows + size > PIECE_ROWS:
            yield Piece(rows, partial(_parquet_chunk, path, metadata, groups, names, first_row))
            groups, first_row, rows = [], first_row + rows, 0
        if size <= PIECE_ROWS:
            groups, rows = [*groups, group], rows + size
            continue
        with _reading_parquet(path), pq.ParquetFile(path, metadata=metadata) as file:
            for batch in file.iter_batches(PIECE_ROWS, row_groups=[group], columns=names):
                yield Piece.at_hand(Chunk(str(path), first_row, batch.select(names)))
                first_row += batch.num_rows
    if groups:
        yield Piece(rows, partial(_parquet_chunk, path, metadata, groups, names, first_row))


def _parquet_chunk(
    path: Path, metadata: Any, groups: list[int], names: list[str], first_row: int
) -> Chunk:
    # To read ahead is for storage that is far away; here it is one copy more.
    with _reading_parquet(path), pq.ParquetFile(path, metadata=metadata, pre_buffer=False) as file:
        table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
        batches = table.combine_chunks().to_batches()  # one, unless there are gigabytes of text
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return Chunk(str(path), first_row, rows)


# Objects in memory


def _stream(data: Any, columns: Columns) -> Iterator[Chunk]:
    place = f"the {type(data).__module__.split('.')[0]} {type(data).__name__}"
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        names = select(columns, reader.schema.names, place)
        first_row = 1
        for batch in reader:
            for start in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(start, BATCH_ROWS).select(names)
                yield Chunk(place, first_row, part)
                first_row += part.num_rows
    except (pa.ArrowException, TypeError, ValueError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{place} cannot be read: {one_line(problem)}") from None


def _episodes(data: Iterable[Any], columns: Columns) -> Iterator[Chunk]:
    """Episodes as rows: the trajectory is the episode's number, the step the place in it."""
    names = [columns.trajectory, columns.step, columns.state, columns.reward]
    rows: list[tuple[int, int, Any, Any]] = []
    first_row = 1
    for number, episode in enumerate(data):
        try:
            steps = [(number, at, *pair) for at, pair in enumerate(episode)]
        except TypeError:
            steps = []
        if not steps or any(len(step) != 4 for step in steps):
            raise DataError(
                f"episode {number} (counted from 0) is not a list of at least one (state, reward)"
            )
        rows.extend(steps)
        if len(rows) >= BATCH_ROWS:
            yield _episode_chunk(rows, names, first_row)
            first_row += len(rows)
            rows = []
    if rows:
        yield _episode_chunk(rows, names, first_row)


def _episode_chunk(
    rows: list[tuple[int, int, Any, Any]], names: list[str], first_row: int
) -> Chunk:
    place = "the list of episodes"
    try:
        arrays = [pa.array(column, from_pandas=False) for column in zip(*rows, strict=True)]
    except (pa.ArrowException, TypeError, OverflowError) as problem:
        raise DataError(
            f"{place}, rows {first_row} to {first_row + len(rows) - 1}: states or rewards are of "
            f"mixed types: {one_line(problem)}"
        ) from None
    return Chunk(place, first_row, pa.record_batch(arrays, names=names))
