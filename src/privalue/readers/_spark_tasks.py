"""Sum up rows in a task of Spark: sums by state, and a note.

A line of output is the count and the sum of a state. A line with the number of the task is either
its note (the scalars and what was covered, or the first error), or the units at the ends of ordered
rows, which the driver joins with those of other tasks.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from privalue.core import SCALARS, Integers, VisitStatistics
from privalue.errors import DataError
from privalue.readers._chunks import Chunk
from privalue.readers._encode import Encoder, Rows, Tally
from privalue.readers._local import DEFAULT_MEMORY, TASK_ROWS, Pool
from privalue.readers._order import CarryOver, hand_over, take_apart
from privalue.readers._partition import Partitions
from privalue.readers._rules import RowRules
from privalue.readers._spark_rows import (
    PARTS,
    Batches,
    Source,
    error_of,
    packed,
    packed_schema,
    unpacked,
)

LINE = "task long, state long, count long, steps long, note string, ends binary"


def lines(source: Source, batches: Batches, task: int) -> Batches:
    """Yield the output of a task.

    Args:
        source: what is public about the rows.
        batches: what Spark hands over.
        task: the number of the task.
    """
    notes, ends = _Notes(), list[list[Rows]]()
    try:
        if source.rules.sorted:
            found, ends = _in_order(source, batches)
        else:
            found = _by_unit(source, batches, notes)
    except DataError as problem:
        notes.errors.append(error_of(problem, 0))
    if notes.errors:
        yield _line(task, [-1], note=json.dumps({"errors": notes.errors}))
        return
    seen = np.flatnonzero(found.counts)
    yield _line(-1, seen, found.counts[seen], found.return_steps[seen])
    scalars = {name: getattr(found, name) for name in SCALARS}
    yield _line(task, [-1], note=json.dumps({"scalars": scalars, "covered": found.covered}))
    for number, outermost in enumerate(ends):
        yield _line(task, [-2 - number], ends=_bytes(outermost, source))


def _line(
    task: int,
    states: Sequence[int] | Integers,
    counts: Integers | None = None,
    steps: Integers | None = None,
    *,
    note: str | None = None,
    ends: bytes | None = None,
) -> pa.RecordBatch:
    """Return lines of output, one for each state; a negative state marks what is not a sum."""
    size = len(states)
    nothing = np.zeros(size, dtype=np.int64)
    return pa.record_batch(
        {
            "task": np.full(size, task),
            "state": pa.array(states, pa.int64()),
            "count": nothing if counts is None else counts,
            "steps": nothing if steps is None else steps,
            "note": pa.array([note] * size, pa.string()),
            "ends": pa.array([ends] * size, pa.binary()),
        }
    )


class _Notes:
    """The notes of the tasks that encoded the rows."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.errors: list[tuple[int, str]] = []  # the number of the row, and the message

    def read(self, batches: Batches) -> Batches:
        """Take the notes out, and yield the rows without them."""
        for batch in batches:
            notes = batch.column("note")
            for text in notes.drop_null().to_pylist():
                note = json.loads(text)
                self.tally += Tally(*note["tally"])
                if note["error"] is not None:
                    self.errors.append(tuple(note["error"]))
            yield batch.filter(notes.is_null()) if notes.null_count < len(notes) else batch


def _by_unit(source: Source, batches: Batches, notes: _Notes) -> VisitStatistics:
    """Sum up all rows of some units, which come in any order."""
    pool = Pool(source.limits)
    partitions = Partitions(DEFAULT_MEMORY, None, source.rules, count=PARTS, numbered=True)
    with closing(partitions):
        waiting = list[Rows]()
        for batch in notes.read(batches):
            if len(batch):
                waiting.append(unpacked(batch, source))
            if sum(map(len, waiting)) >= TASK_ROWS:
                partitions.put(waiting)
                waiting = []
        if waiting:
            partitions.put(waiting)
        for part in range(PARTS):
            partitions.hand_over(part, pool.add)
        partitions.require_distinct_steps()
    return pool.finish(notes.tally)


def _in_order(source: Source, batches: Batches) -> tuple[VisitStatistics, list[list[Rows]]]:
    """Sum up the complete units of ordered rows, and return the units at the ends of each part.

    Spark puts parts of files into partitions in an order of its own: rows are in order within each
    part only.
    """
    pool, encoder, tally = Pool(source.limits), Encoder(source.rules), Tally()
    ends = list[list[Rows]]()

    def encoded(chunks: Iterator[tuple[int, Chunk]]) -> Iterator[Rows]:
        nonlocal tally
        for _, chunk in chunks:
            for rows in encoder.parts(chunk):
                tally += rows.tally
                yield rows

    for _, chunks in groupby(source.chunks(batches), key=itemgetter(0)):
        ends.append(outermost(encoded(chunks), pool, source.rules))
    return pool.finish(tally), [units for units in ends if units]


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
    """Pack units for the driver. PRIVATE."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, packed_schema(source.rules)) as writer:
        for rows in units:
            writer.write_batch(packed(rows, source.rules))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def units_of(content: bytes, source: Source) -> list[Rows]:
    """Return the units that a task packed."""
    return [unpacked(batch, source) for batch in pa.ipc.open_stream(content)]
