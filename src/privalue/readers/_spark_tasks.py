"""Sum up rows in a task of Spark: sums by state, and a note.

A line of output is either the counts and sums of a block of states; or a note, the scalars and what
was covered, or the first error; or the units at the ends of ordered rows, which the driver joins
with those of other tasks.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.core import COUNTERS, Integers, Statistics
from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Location, RowError
from privalue.readers._encode import Encoder, Rows
from privalue.readers._local import Pool
from privalue.readers._order import CarryOver, hand_over, take_apart
from privalue.readers._partition import Partitions
from privalue.readers._rules import RowRules
from privalue.readers._spark_rows import (
    CELLS,
    Batches,
    Source,
    cells_of,
    rows_of,
    shapes_of,
    values_of,
)

LINE = "block long, sums binary, note string, ends binary"
BLOCK = 1024  # states
_LAST = 1 << 62  # the number of an error that belongs to no row: those of rows come first


def lines(source: Source, batches: Batches, task: int) -> Batches:
    """Yield the output of a task.

    Args:
        source: what is public about the rows.
        batches: what Spark hands over.
        task: the number of the task.
    """
    notes, ends, found = _Notes(), list[list[Rows]](), None
    try:
        if source.rules.sorted:
            found, ends = _in_order(source, batches, task)
        else:
            found = _by_unit(source, batches, notes)
    except DataError as problem:
        notes.errors.append((task if source.rules.sorted else _number(problem), str(problem)))
    if notes.errors or found is None:
        yield _line(note=json.dumps({"errors": notes.errors}))
        return
    yield from _sums(np.stack([found.counts, found.return_steps, *_by_level(found)]))
    scalars = {name: getattr(found, name) for name in COUNTERS}
    largest = found.largest_levels.ravel().tolist()
    yield _line(note=json.dumps({"scalars": scalars, "largest": largest, "covered": found.covered}))
    for outermost in ends:
        yield _line(ends=_bytes(outermost, source))


def _by_level(found: Statistics) -> Integers:
    """Return the counts of each level and side as rows, and then the steps; PRIVATE."""
    return np.concatenate([found.level_counts.T, found.level_steps.T]).reshape(
        -1, len(found.counts)
    )


def by_level(totals: Integers) -> list[Integers]:
    """Return the counts and steps of each level and side from the rows of all sums."""
    return np.split(totals[2:].T, 2, axis=1)


def _number(problem: DataError) -> int:
    """Return the number of the row that an error is in."""
    return problem.location.number(problem.at) if isinstance(problem, RowError) else _LAST


def _line(**content: Any) -> pa.RecordBatch:
    """Return a line of output; what is not given is null."""
    kinds = (pa.int64(), pa.binary(), pa.string(), pa.binary())
    names = ("block", "sums", "note", "ends")
    columns = [pa.array([content.get(n)], kind) for n, kind in zip(names, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _sums(totals: Integers) -> Batches:
    """Yield the counts and sums of those blocks of states that anybody visited."""
    for block, begin in enumerate(range(0, totals.shape[1], BLOCK)):
        sums = totals[:, begin : begin + BLOCK]
        if sums[0].any():
            yield _line(block=block, sums=sums.tobytes())


def rows_of_sums(levels: int) -> int:
    """Return how many sums each state has: a count and steps, and both by level and side."""
    return 2 if levels == 1 else 2 + 4 * levels


def total(said: Batches, states: int, levels: int) -> tuple[Integers, list[pa.RecordBatch]]:
    """Return counts and sums by state of all that tasks said, and the other lines.

    A sum that 64 bits do not hold wraps around; then there are so many trajectories that the core
    refuses their number.
    """
    sums_each = rows_of_sums(levels)
    totals, others = np.zeros((sums_each, states), dtype=np.int64), list[pa.RecordBatch]()
    for batch in said:
        sums = batch.column("sums")
        for block, content in zip(batch.column("block").to_pylist(), sums.to_pylist(), strict=True):
            if content is not None:
                part = totals[:, block * BLOCK : (block + 1) * BLOCK]
                part += np.frombuffer(content, dtype=np.int64).reshape(sums_each, -1)
        others.append(batch.filter(sums.is_null()))
    return totals, others


def added(said: Batches, states: int, levels: int) -> Batches:
    """Yield the same lines, with one for each block of states."""
    totals, others = total(said, states, levels)
    yield from _sums(totals)
    yield from others


class _Notes:
    """The notes of the tasks that encoded the rows."""

    def __init__(self) -> None:
        self.left_out = 0
        self.errors: list[tuple[int, str]] = []  # the number of the task, and the message

    def read(self, batches: Batches) -> Batches:
        """Take the notes out, and yield the cells without them."""
        for batch in batches:
            notes = batch.column("note")
            for text in notes.drop_null().to_pylist():
                note = json.loads(text)
                self.left_out += note["left_out"]
                if note["error"] is not None:
                    self.errors.append(tuple(note["error"]))
            yield batch.filter(notes.is_null()) if notes.null_count < len(notes) else batch


def _by_unit(source: Source, batches: Batches, notes: _Notes) -> Statistics | None:
    """Sum up all rows of some units, which come in any order.

    Returns:
        The statistics; None if a step appears twice, or a unit has two arms, and it takes numbers
        of rows to say which.
    """

    def locate(number: int) -> tuple[Location, int]:
        return source.location(np.array([number])), 0

    pool = Pool(source.limits)
    partitions = Partitions(source.memory, None, source.rules, count=source.buckets, locate=locate)
    with closing(partitions):
        buckets = set[int]()
        for cells in notes.read(batches):
            rows, ends = values_of(cells.column("rows"), np.int32)
            numbers = None
            if source.numbered:
                numbers, _ = values_of(cells.column("numbers"), np.int64)
            here = cells.column("bucket").to_pylist()
            partitions.put_cells(here, shapes_of(cells, source), rows, ends.tolist(), numbers)
            buckets.update(here)
        for bucket in sorted(buckets):
            partitions.hand_over(bucket, pool.add)
        if source.numbered:
            partitions.require_sound()
        return pool.finish(notes.left_out) if partitions.sound else None


def _in_order(source: Source, batches: Batches, task: int) -> tuple[Statistics, list[list[Rows]]]:
    """Sum up the complete units of ordered rows, and return the units at the ends of each part.

    Spark puts parts of files into partitions in an order of its own: rows are in order within each
    part only.
    """
    pool, encoder, left_out = Pool(source.limits), Encoder(source.rules), 0
    ends = list[list[Rows]]()

    def encoded(chunks: Iterator[tuple[int, Chunk]]) -> Iterator[Rows]:
        nonlocal left_out
        for _, chunk in chunks:
            for rows in encoder.parts(chunk):
                left_out += rows.left_out
                yield rows

    for _, chunks in groupby(source.chunks(batches, task), key=itemgetter(0)):
        ends.append(outermost(encoded(chunks), pool, source.rules))
    return pool.finish(left_out), [units for units in ends if units]


def outermost(batches: Iterator[Rows], pool: Pool, rules: RowRules) -> list[Rows]:
    """Hand over all units of ordered rows except the first and the last, and return these."""
    first: list[Rows] = []

    def complete(rows: Rows) -> None:
        hand_over(rows, pool.add, rules)

    def unit(rows: Rows) -> None:
        complete(rows) if first else first.append(rows)

    carried = CarryOver(rules, unit)
    for rows in batches:
        if len(rows):
            take_apart(rows, rules, carried.add, complete)
    return [*first, *carried.rest()]


def _bytes(units: list[Rows], source: Source) -> bytes:
    """Pack units for the driver, with the numbers of their rows. PRIVATE."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, CELLS) as writer:
        for rows in units:
            writer.write_batch(cells_of([rows], replace(source, buckets=1, numbered=True)))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def units_of(content: bytes, source: Source) -> list[Rows]:
    """Return the units that a task packed."""
    return [rows for cells in pa.ipc.open_stream(content) for rows in rows_of(cells, source)]
