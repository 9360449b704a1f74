"""Read and pack rows in Spark's tasks, one cell for each bucket.

Spark gives a task either rows of a DataFrame, or the numbers of file parts, which the task then
reads as the local engine does. The task encodes the rows, and packs them by bucket, a span of the
hash of their units, as the local engine packs them by partition. What is shuffled are the packed
rows of a bucket, thousands of them in one binary cell. Only what is public is sent to the tasks.

Rows travel without numbers. Where a mistake shows only after the shuffle, all is read once more,
and then every row has a number that says where it is.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers, Limits
from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Location, Origin, Origins, Unread
from privalue.readers._csv_files import (
    BLOCK_BYTES,
    ROW_BYTES,
    csv_blocks,
    csv_unread,
    open_csv,
)
from privalue.readers._encode import Encoder, Rows
from privalue.readers._files import file_kind, find_files
from privalue.readers._partition import Shape, pack, unpack
from privalue.readers._rules import RowRules
from privalue.readers._sources import open_files, open_parquet, parquet_unread
from privalue.study import Study

Batches = Iterator[pa.RecordBatch]

FRAME = "the Spark dataframe"
ROW_BITS = 33  # as in the numbers that Spark itself gives to rows
_LOW = (1 << ROW_BITS) - 1
PART_ROWS = 1 << 18  # a task that Spark starts for fewer is not worth it
BUNDLE_BYTES = 1 << 26  # of encoded rows, which are packed together
PART_OF_FILE = 1 << 22  # rows, about: what a task reads at most, unless a row group has more


@dataclass(frozen=True)
class FilePart:
    """Consecutive blocks of a CSV file, or row groups of a Parquet file: what one task reads."""

    name: str  # as it was given
    path: Path  # absolute: tasks may run in another folder
    rules: RowRules
    first: int = 0
    last: int | None = None  # excluded; None: the file's end

    def unread(self) -> Iterator[Unread]:
        """Yield its rows as the local engine reads them."""
        rules, part = self.rules, (self.first, self.last)
        if file_kind(self.path) == "csv":
            return csv_unread(open_csv(self.path, rules), *part)
        return parquet_unread(self.path, open_parquet(self.path, rules), rules.names, *part)

    def where(self, row: int) -> str:
        """Return the name of the file, and the number of a row in it; rows are counted now."""
        begins = next(self.unread()).read().location
        return f"{self.name}, row {begins.number(row)}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Numbered(Location):
    """Rows from anywhere in a source, each with a number of its own.

    The lowest 33 bits of a number count the rows of a partition of a DataFrame, or of a file part,
    from 0; the bits above them number the partition, or the part.
    """

    numbers: Integers | range
    parts: tuple[FilePart, ...] | None = None  # None: a DataFrame

    def number(self, at: int) -> int:
        """Return the number of a row."""
        return int(self.numbers[at])

    def where(self, at: int) -> str:
        """Return the file, or the partition, and the number of a row in it."""
        part, row = self.number(at) >> ROW_BITS, self.number(at) & _LOW
        if self.parts is None:
            return f"{FRAME}, partition {part}, row {row + 1}"
        return self.parts[part].where(row)

    def after(self, rows: int) -> "Numbered":
        """Return the location of the rows that follow the first so many."""
        return replace(self, numbers=self.numbers[rows:])


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a task needs to know about the rows; public."""

    limits: Limits
    rules: RowRules
    parts: tuple[FilePart, ...] | None = None  # None: a Spark DataFrame
    rows: int | None = None  # about, if somebody knows
    buckets: int = 1
    memory: int
    numbered: bool = False  # whether rows travel with their numbers

    def chunks(self, batches: Batches, task: int) -> Iterator[tuple[int, Chunk]]:
        """Yield the rows that Spark hands over, or names the file parts of.

        With each chunk comes a number. If rows are declared sorted, it changes with the part of a
        file that Spark read the rows from: rows are in order within such a part only. File parts
        that a task reads itself follow each other, so they all have the number 0.

        Args:
            batches: what Spark hands over.
            task: the number of its partition.
        """
        if self.parts is not None:
            for batch in batches:
                for at in batch.column(0).to_pylist():
                    first = at << ROW_BITS
                    for unread in self.parts[at].unread():
                        chunk = unread.read()
                        location = self.location(range(first, first + chunk.rows.num_rows))
                        yield 0, Chunk(location, chunk.rows, chunk.left_out)
                        first += chunk.rows.num_rows
            return
        names, first = self.rules.names, task << ROW_BITS
        for batch in _joined(batches):
            rows = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
            location = self.location(range(first, first + len(rows)))
            first += len(rows)
            if not self.rules.sorted:
                yield 0, Chunk(location, rows)
                continue
            read_from = batch.column(len(names)).to_numpy()
            changes = (np.flatnonzero(read_from[1:] != read_from[:-1]) + 1).tolist()
            for begin, end in pairwise([0, *changes, len(read_from)]):
                if begin < end:
                    part = rows.slice(begin, end - begin)
                    yield int(read_from[begin]), Chunk(location.after(begin), part)

    def location(self, numbers: Integers | range) -> Numbered:
        """Return the location of rows with these numbers."""
        return Numbered(FRAME, numbers=numbers, parts=self.parts)

    def cells(self, batches: Batches, task: int) -> Batches:
        """Yield the cells of rows, and a note at the end.

        The note holds the first error, if there is one, and what was done to rows. An error is
        output, not raised: Spark would try the task again, and log the message, which may quote the
        data.

        Args:
            batches: what Spark hands over.
            task: the number of its partition; of several errors, the first task's is reported.
        """
        encoder, left_out, error = Encoder(self.rules), 0, None
        waiting, size = list[Rows](), 0
        try:
            for _, chunk in self.chunks(batches, task):
                for rows in encoder.parts(chunk):
                    left_out += rows.left_out
                    if len(rows):
                        waiting.append(rows)
                        size += sum(column.nbytes for column in rows.columns)
                if size >= BUNDLE_BYTES:
                    yield cells_of(waiting, self)
                    waiting, size = [], 0
        except DataError as problem:
            error = (task, str(problem))
        if waiting and error is None:
            yield cells_of(waiting, self)
        note = json.dumps({"left_out": left_out, "error": error})
        nothing = {field.name: pa.nulls(1, field.type) for field in CELLS}
        yield pa.record_batch({**nothing, "note": pa.array([note])}, schema=CELLS)


def _joined(batches: Batches) -> Batches:
    """Yield the same rows in batches that are worth a call: Spark's may be small."""
    waiting, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= PART_ROWS // 2:
            yield pa.concat_batches(waiting) if len(waiting) > 1 else batch
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


# Packed rows, as cells that Spark can shuffle

CELLS = pa.schema(
    {
        "bucket": pa.int32(),  # null in the row of a note
        "words": pa.int32(),
        "shift": pa.int32(),
        "rows": pa.binary(),
        "numbers": pa.binary(),
        "note": pa.string(),
    }
)


def cells_of(parts: Sequence[Rows], source: Source) -> pa.RecordBatch:
    """Return rows as cells, one for each bucket that has some. PRIVATE."""
    bundle = pack(parts, source.buckets, source.rules, lambda size: np.empty(size, np.int32))
    full = np.flatnonzero(np.diff(bundle.bounds))
    ends = np.append(bundle.bounds[full], bundle.bounds[-1])
    numbers = pa.nulls(len(full), pa.binary())
    if source.numbered:
        by_bucket = np.argsort(bundle.which, kind="stable")
        numbers = _binary(np.concatenate([*map(_numbers, parts)])[by_bucket], 8 * ends)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(full.astype(np.int32)),
            pa.array(np.full(len(full), bundle.shape.words, dtype=np.int32)),
            pa.array(np.full(len(full), bundle.shape.shift, dtype=np.int32)),
            _binary(bundle.rows, 4 * bundle.shape.width * ends),
            numbers,
            pa.nulls(len(full), pa.string()),
        ],
        schema=CELLS,
    )


def _binary(values: NDArray[Any], ends: Integers) -> pa.Array:
    """Return the bytes of numbers as cells, without a copy."""
    places = pa.py_buffer(ends.astype(np.int32))
    buffers = [None, places, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def values_of(column: pa.BinaryArray, kind: type[np.generic]) -> tuple[NDArray[Any], Integers]:
    """Return the numbers in all cells of a column, one after the other, and where each cell ends.

    Nothing is copied, unless Spark put the bytes where numbers of this kind cannot be read.
    """
    size, column = np.dtype(kind).itemsize, column.cast(pa.binary())
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return np.require(content.view(kind), requirements="A"), (offsets[1:] - offsets[0]) // size


def shapes_of(cells: pa.RecordBatch, source: Source) -> list[Shape]:
    """Return how the rows of each cell are packed."""
    ids = len(source.rules.id_roles)
    both = (cells.column(name).to_pylist() for name in ("words", "shift"))
    return [Shape(ids, words, shift < 0, shift) for words, shift in zip(*both, strict=True)]


def rows_of(cells: pa.RecordBatch, source: Source) -> Iterator[Rows]:
    """Yield the rows of each cell; they must have numbers."""
    (rows, ends), (numbers, last) = (
        values_of(cells.column("rows"), np.int32),
        values_of(cells.column("numbers"), np.int64),
    )
    shapes = shapes_of(cells, source)
    for at, (begin, first) in enumerate(zip([0, *ends[:-1]], [0, *last[:-1]], strict=True)):
        location = source.location(numbers[first : last[at]])
        yield Rows(Origins([Origin(0, location)]), *unpack(shapes[at], rows[begin : ends[at]]))


def _numbers(rows: Rows) -> Integers:
    """Return the number of every row, by its location."""
    starts = [max(origin.start, 0) for origin in rows.origins]
    numbers = []
    for (start, location, kept), begin, end in zip(
        rows.origins, starts, [*starts[1:], len(rows)], strict=True
    ):
        at = np.arange(begin, min(end, len(rows))) - start
        assert isinstance(location, Numbered)
        numbers.append(np.asarray(location.numbers)[at if kept is None else kept[at]])
    return np.concatenate(numbers)


# Files


def source_of_files(data: str | Path, study: Study, *, memory: int, tasks: int) -> Source:
    """Return the source of the files that the local engine would read, with its errors.

    Args:
        data: the name of files.
        study: what is public.
        memory: bytes, about, that a task may use.
        tasks: how many are wanted at least, if there are rows enough.
    """
    rules = RowRules.of(study)
    rows, paths = open_files(data, rules).total_rows, find_files(data)
    if rows is None:  # compressed: four bytes a row, about
        rows = sum(path.stat().st_size for path in paths) // 4
    most = min(max(rows // tasks, 2 * PART_ROWS), PART_OF_FILE)
    parts = tuple(part for path in paths for part in _parts(path, rules, most))
    return Source(limits=study.limits, rules=rules, parts=parts, rows=rows, memory=memory)


def _parts(path: Path, rules: RowRules, most: int) -> Iterator[FilePart]:
    """Yield what tasks read of a file: blocks, or row groups, with so many rows together."""
    part = partial(FilePart, str(path), path.absolute(), rules)
    if file_kind(path) == "csv":
        sizes = [BLOCK_BYTES // ROW_BYTES] * csv_blocks(open_csv(path, rules))
    else:
        metadata = open_parquet(path, rules)
        sizes = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    first = rows = 0
    for at, size in enumerate(sizes):
        if at > first and rows + size > most:
            yield part(first, at)
            first, rows = at, 0
        rows += size
    if sizes:
        yield part(first, len(sizes))
