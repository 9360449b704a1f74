"""What a task of Spark makes of a partition: sums by state, or the first mistake.

A line of output is a state's count and sum; or, at -1, -2 ..., one of the scalars as the count; or,
from ``_OTHER`` downwards, a mistake and its row, or the rows at the two ends of a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privalue.engines.spark_rows import Batches, Source
from privalue.errors import DataError
from privalue.statistics import Accumulator, Integers, VisitStatistics
from privalue.trajectories import order

LINE = "state long, count long, steps long, mistake string, ends binary"
SCALARS = (
    "trajectories",
    "rows",
    "rewards_clamped",
    "returns_clamped",
    "persons",
    "surplus_trajectories",
    "surplus_visits",
)
_OTHER = -100
_LATE = 2**63 - 1  # the row of a mistake that is found when all have been read
_MOST_RUNS = 10_000  # per partition: more than pieces of files would make


@dataclass
class Notes:
    """What comes with the rows."""

    clamped: int = 0
    mistakes: list[tuple[int, str]] = field(default_factory=list)

    def sifted(self, batches: Batches) -> Batches:
        """The rows without the notes, which are taken down."""
        for batch in batches:
            notes = batch.column("note")
            rows = batch
            if notes.null_count < len(notes):
                for note in batch.filter(notes.is_valid()).select(["row", "note"]).to_pylist():
                    if note["note"]:
                        self.mistakes.append((note["row"], note["note"]))
                    else:
                        self.clamped += note["row"]
                rows = batch.filter(notes.is_null())
            if rows.num_rows:
                yield rows.drop_columns(["note"])


def lines(checked: Batches, source: Source, partition: int) -> Batches:
    """The output of a partition: its sums by state, or its first mistake."""
    notes = Notes()
    gather = _in_order if source.study.data.sorted else _in_any_order
    try:
        found, runs = gather(notes.sifted(checked), source)
    except DataError as problem:
        notes.mistakes.append((_LATE, str(problem)))
    other = _OTHER - partition * (_MOST_RUNS + 1)
    if notes.mistakes:
        row, mistake = min(notes.mistakes)
        yield _line([other], [row], mistakes=[mistake])
        return
    seen = np.flatnonzero(found.counts)
    yield _line(seen, found.counts[seen], found.return_steps[seen])
    scalars = {name: getattr(found, name) for name in SCALARS}
    scalars["rewards_clamped"] = notes.clamped
    yield _line(-1 - np.arange(len(scalars)), list(scalars.values()))
    for number, run in enumerate(runs):
        yield _line([other - number], [0], ends=[_packed(run)])


def _line(
    states: Sequence[int] | Integers,
    counts: Sequence[int] | Integers,
    steps: Integers | None = None,
    *,
    mistakes: list[str] | None = None,
    ends: list[bytes] | None = None,
) -> pa.RecordBatch:
    size = len(states)
    return pa.record_batch(
        {
            "state": pa.array(states, pa.int64()),
            "count": pa.array(counts, pa.int64()),
            "steps": pa.array(np.zeros(size, np.int64) if steps is None else steps),
            "mistake": pa.array(mistakes, pa.string()) if mistakes else pa.nulls(size, pa.string()),
            "ends": pa.array(ends, pa.binary()) if ends else pa.nulls(size, pa.binary()),
        }
    )


def _in_any_order(batches: Batches, source: Source) -> tuple[VisitStatistics, list[pa.Table]]:
    """Whole trajectories, or persons, with their rows in any order: there are no ends."""
    accumulator, encoded = Accumulator(source.study), list(batches)
    if encoded:
        rows = pa.Table.from_batches(encoded)
        encoded.clear()
        by = [(name, "ascending") for name in (*source.ids, "step", "row")]
        add(rows.sort_by(by), accumulator, source)
    return accumulator.finish(), []


def _in_order(batches: Batches, source: Source) -> tuple[VisitStatistics, list[pa.Table]]:
    """Rows in order, but for the runs that files make in a partition."""
    runs = Runs(source)
    for batch in batches:
        runs.add(batch)
    return runs.finish()


def add(rows: pa.Table, accumulator: Accumulator, source: Source) -> None:
    """Gathers ordered rows of whole trajectories."""
    places: Any = source.places  # tells a row's place, as an Encoder would
    for fragment in order._split(iter(rows.to_batches()), places, source.study.data):
        accumulator.add(fragment)


class Runs:
    """Gathers what is whole in a run of ordered rows; keeps its first and its last unit.

    A unit is a trajectory or, where persons are protected, all of a person's. A run ends where the
    order falls, and where a piece of a file does: Spark packs pieces into partitions in any order.
    The first and the last unit of a run may go on elsewhere. No other can: that runs do not
    overlap is checked where they are joined.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._accumulator = Accumulator(source.study)
        self._runs: list[pa.Table] = []
        self._first: list[pa.RecordBatch] = []  # unit of the run, once it has ended
        self._last: list[pa.RecordBatch] = []  # unit of the run, so far
        self._before: pa.RecordBatch | None = None  # the row before

    def add(self, batch: pa.RecordBatch) -> None:
        """The next rows."""
        joined = batch if self._before is None else pa.concat_batches([self._before, batch])
        shift = 1 - (len(joined) - len(batch))  # from a place between rows to the row after it
        breaks, begins = (
            np.flatnonzero(where) + shift for where in _compared(joined, self._source)
        )
        start = 0
        for end in (*breaks.tolist(), len(batch)):
            here = begins[np.searchsorted(begins, start) : np.searchsorted(begins, end)]
            if end > start:
                self._extend(batch.slice(start, end - start), here - start)
            if end < len(batch):
                self._end_run(batch.column("row")[end].as_py())
            start = end
        self._before = batch.slice(len(batch) - 1)

    def _extend(self, rows: pa.RecordBatch, begins: Integers) -> None:
        """More rows of the run; ``begins`` says where units do."""
        if not self._last:
            begins = begins[begins > 0]
        if len(begins) == 0:
            self._last.append(rows)
            return
        first, last = int(begins[0]), int(begins[-1])
        ended = [*self._last, rows.slice(0, first)]
        if self._first:
            self._gather(ended)
        else:
            self._first = ended
        self._gather([rows.slice(first, last - first)])
        self._last = [rows.slice(last)]

    def _gather(self, batches: list[pa.RecordBatch]) -> None:
        add(pa.Table.from_batches(batches), self._accumulator, self._source)

    def _end_run(self, row: int | None = None) -> None:
        if self._last:
            self._runs.append(pa.Table.from_batches([*self._first, *self._last]))
        self._first, self._last = [], []
        if row is not None and len(self._runs) >= _MOST_RUNS:
            raise not_in_order(self._source, row)

    def finish(self) -> tuple[VisitStatistics, list[pa.Table]]:
        """The statistics of what was whole, and the units at the ends of each run."""
        self._end_run()
        return self._accumulator.finish(), self._runs


def _compared(rows: pa.RecordBatch, source: Source) -> tuple[Any, Any]:
    """Between consecutive rows: whether a run ends, and whether another unit begins."""
    size = len(rows) - 1
    falls, equal = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    begins = falls
    for name in (*source.ids, "step"):
        before, after = rows.column(name).slice(0, size), rows.column(name).slice(1)
        falls = falls | (equal & pc.less(after, before).to_numpy(zero_copy_only=False))
        equal = equal & pc.equal(after, before).to_numpy(zero_copy_only=False)
        if name == source.unit[-1]:
            begins = ~equal
    pieces = rows.column("piece").to_numpy()
    return falls | (pieces[1:] != pieces[:-1]), begins


def not_in_order(source: Source, row: int) -> DataError:
    """The complaint about a row that comes too late."""
    names = ", ".join(source.names[:-2])
    return DataError(
        f"{source.places.place(row)}: the rows are not sorted by {names}, as [data] sorted = true "
        "says they are; sort them, or set it to false"
    )


def _packed(run: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, run.schema) as writer:
        writer.write_table(run)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
