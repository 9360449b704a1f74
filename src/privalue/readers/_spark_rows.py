"""Read rows in Spark's tasks, with numbers that say where each row is in the source.

Spark gives a task either rows of a DataFrame, or the numbers of file parts, which the task then
reads as the local engine does. The task that reads rows also encodes them; only plain numbers are
shuffled. Only what is public is sent to the tasks.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from privalue.core import Integers, Limits
from privalue.errors import DataError
from privalue.readers._cells import widened
from privalue.readers._chunks import BATCH_ROWS, Chunk, Location, Origin, Origins, RowError
from privalue.readers._csv_files import csv_chunks, open_csv
from privalue.readers._encode import Encoder, Rows, Tally
from privalue.readers._files import file_kind, find_files, parquet_file
from privalue.readers._grouping import upper_hashes
from privalue.readers._rules import RowRules
from privalue.readers._sources import open_files, open_parquet
from privalue.study import Study

Batches = Iterator[pa.RecordBatch]

FRAME = "the Spark dataframe"
PARTS = 1024  # spans of the upper half of a unit's hash; the rows of a span meet in one task
ROW_BITS = 33  # as in the numbers that Spark itself gives to rows
_LOW = (1 << ROW_BITS) - 1
_PART_BITS = 22


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Numbered(Location):
    """Rows from anywhere in a source, each with a number of its own.

    The lowest 33 bits of a number count the rows of a file, from 0; the bits above them number the
    file. In a DataFrame, partitions take the place of files.
    """

    numbers: Integers
    files: tuple[str, ...] = ()

    def number(self, at: int) -> int:
        """Return the number of a row."""
        return int(self.numbers[at])

    def where(self, at: int) -> str:
        """Return the file, or the partition, and the number of a row in it."""
        file, row = self.number(at) >> ROW_BITS, (self.number(at) & _LOW) + 1
        return f"{self.files[file] if self.files else f'{FRAME}, partition {file}'}, row {row}"

    def after(self, rows: int) -> "Numbered":
        """Return the location of the rows that follow the first so many."""
        return replace(self, numbers=self.numbers[rows:])


@dataclass(frozen=True)
class FilePart:
    """A CSV file, or a row group of a Parquet file: what one task reads."""

    file: int
    path: Path  # absolute: tasks may run in another folder
    group: int | None = None
    first_row: int = 1

    def chunks(self, rules: RowRules) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the needed columns of its rows, and how many lines could not be read as rows."""
        if self.group is None:
            for chunk in csv_chunks(open_csv(self.path, rules)):
                yield chunk.rows, chunk.left_out
            return
        with parquet_file(self.path) as file:
            for rows in file.iter_batches(BATCH_ROWS, row_groups=[self.group], columns=rules.names):
                yield rows.select(rules.names), 0


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a task needs to know about the rows; public."""

    limits: Limits
    rules: RowRules
    files: tuple[str, ...] = ()  # as they were given; none: a Spark DataFrame
    parts: tuple[FilePart, ...] = ()

    def chunks(self, batches: Batches) -> Iterator[tuple[int, Chunk]]:
        """Yield the rows that Spark hands over, or names the file parts of.

        With each chunk comes a number. If rows are declared sorted, it changes with the part of a
        file that Spark read the rows from: rows are in order within such a part only. File parts
        that a task reads itself follow each other, so they all have the number 0.
        """
        names = self.rules.names
        for batch in batches:
            if self.files:
                for at in batch.column(0).to_pylist():
                    yield from ((0, chunk) for chunk in self._read(self.parts[at]))
                continue
            rows = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
            chunk = Chunk(Numbered(FRAME, numbers=batch.column(len(names)).to_numpy()), rows)
            if not self.rules.sorted:
                yield 0, chunk
                continue
            read_from = batch.column(len(names) + 1).to_numpy()
            changes = (np.flatnonzero(read_from[1:] != read_from[:-1]) + 1).tolist()
            for begin, end in pairwise([0, *changes, len(read_from)]):
                if begin < end:
                    part = rows.slice(begin, end - begin)
                    yield int(read_from[begin]), Chunk(chunk.location.after(begin), part)

    def _read(self, part: FilePart) -> Iterator[Chunk]:
        """Yield the rows of a file part, numbered."""
        first = (part.file << ROW_BITS) + part.first_row - 1
        for rows, left_out in part.chunks(self.rules):
            numbers = np.arange(first, first + rows.num_rows)
            yield Chunk(Numbered(FRAME, numbers=numbers, files=self.files), rows, left_out)
            first += rows.num_rows

    def encoded(self, batches: Batches) -> Batches:
        """Yield rows as plain numbers, and a note at the end.

        The note holds the first error, if there is one, and what was done to rows. An error is
        output, not raised: Spark would try the task again, and log the message, which may quote the
        data.
        """
        encoder, tally, error = Encoder(self.rules), Tally(), None
        first_row = 0
        try:
            for _, chunk in self.chunks(batches):
                first_row = chunk.location.number(0) if len(chunk.rows) else first_row
                rows = encoder.encode(chunk)
                tally += rows.tally
                if len(rows):
                    yield packed(rows, self.rules)
        except DataError as problem:
            error = error_of(problem, first_row)
        schema = packed_schema(self.rules)
        nobody = {field.name: pa.nulls(1, field.type) for field in schema}
        note = json.dumps({"tally": tally, "error": error})
        yield pa.record_batch({**nobody, "note": pa.array([note])}, schema=schema)


def error_of(problem: DataError, otherwise: int) -> tuple[int, str]:
    """Return the number of the row that an error is in, and the message.

    Args:
        problem: the error.
        otherwise: the number to return if the error does not name a row.
    """
    if isinstance(problem, RowError):
        otherwise = problem.location.number(problem.at)
    return otherwise, str(problem)


# Encoded rows, as columns that Spark can shuffle


def packed_schema(rules: RowRules) -> pa.Schema:
    """Return the columns: each id by its words, and the part of the hash that its unit is in."""
    return pa.schema(
        {
            **{role: pa.list_(pa.int64()) for role in rules.id_roles},
            "step": pa.int64(),
            "state": pa.int32(),
            "reward": pa.float64(),
            "row": pa.int64(),
            "part": pa.int32(),
            "note": pa.string(),
        }
    )


def packed(rows: Rows, rules: RowRules) -> pa.RecordBatch:
    """Return encoded rows as columns that Spark can shuffle. PRIVATE."""
    count, ids, words = rows.ids.shape
    upper = np.empty(count, dtype=np.uint32)
    unit = rows.ids[:, : len(rules.unit_roles)].reshape(count, -1)
    upper_hashes(unit, unit.shape[1], upper)
    ends = np.arange(0, count * words + 1, words, dtype=np.int32)
    columns = [
        *(pa.ListArray.from_arrays(ends, rows.ids[:, at].ravel()) for at in range(ids)),
        *map(pa.array, (rows.steps, rows.states, rows.rewards, _numbers(rows))),
        pa.array((upper >> _PART_BITS).astype(np.int32)),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=packed_schema(rules))


def unpacked(batch: pa.RecordBatch, source: Source) -> Rows:
    """Return the rows that were packed, from any tasks; ids get words enough for all."""
    ids = [_words(batch.column(role)) for role in source.rules.id_roles]
    words = max(one.shape[1] for one in ids)
    steps, states, rewards, numbers = (
        batch.column(name).to_numpy() for name in ("step", "state", "reward", "row")
    )
    location = Numbered(FRAME, numbers=numbers, files=source.files)
    by_id = np.stack([widened(one, words) for one in ids], axis=1)
    return Rows(Origins([Origin(0, location)]), by_id, steps, states, rewards)


def _words(column: pa.ListArray) -> Integers:
    """Return row x word; an id with fewer words than another ends with zeros."""
    lengths = np.diff(column.offsets.to_numpy())
    words = np.zeros((len(column), lengths.max(initial=1)), dtype=np.int64)
    words[np.arange(words.shape[1]) < lengths[:, None]] = column.flatten().to_numpy()
    return words


def _numbers(rows: Rows) -> Integers:
    """Return the number of every row, by its location."""
    starts = [max(origin.start, 0) for origin in rows.origins]
    numbers = []
    for (start, location, kept), begin, end in zip(
        rows.origins, starts, [*starts[1:], len(rows)], strict=True
    ):
        at = np.arange(begin, min(end, len(rows))) - start
        assert isinstance(location, Numbered)
        numbers.append(location.numbers[at if kept is None else kept[at]])
    return np.concatenate(numbers)


# Files


def source_of_files(data: str | Path, study: Study) -> Source:
    """Return the source of the files that the local engine would read, with its errors."""
    rules = RowRules.of(study)
    open_files(data, rules)
    paths = find_files(data)
    parts = [part for at, path in enumerate(paths) for part in _parts(at, path, rules)]
    return Source(
        limits=study.limits, rules=rules, files=tuple(map(str, paths)), parts=tuple(parts)
    )


def _parts(at: int, path: Path, rules: RowRules) -> list[FilePart]:
    """List what tasks read of a file: all of a CSV file, or single groups of a Parquet file."""
    part = partial(FilePart, at, path.absolute())
    if file_kind(path) == "csv":
        return [part()]
    metadata = open_parquet(path, rules)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    starts = accumulate(sizes[:-1], initial=1) if sizes else []
    return [part(*start) for start in enumerate(starts)]
