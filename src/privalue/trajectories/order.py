"""Rows in any order, handed on as ordered fragments of trajectories.

DuckDB sorts the encoded rows by (person, trajectory, step), on disk where they outgrow the memory
that it may use. The spill folder is private to the user and removed at the end.
"""

import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.private import Private, sealed
from privalue.sections import Columns
from privalue.trajectories.encode import Encoder
from privalue.trajectories.sources import BATCH_ROWS, Source

DEFAULT_MEMORY = 2 << 30


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Fragment(Private):
    """Consecutive rows, ordered within trajectories; a trajectory may go on in the next one."""

    begins: NDArray[np.bool_]  # the row is the first of its trajectory
    states: NDArray[np.int32]
    rewards: NDArray[np.float64]
    persons: NDArray[np.bool_] | None = None  # the row is the first of its person

    def part(self, begin: int, end: int) -> "Fragment":
        """The rows from ``begin`` up to ``end``."""
        persons = None if self.persons is None else self.persons[begin:end]
        return Fragment(
            self.begins[begin:end], self.states[begin:end], self.rewards[begin:end], persons
        )


def fragments(
    source: Source,
    encoder: Encoder,
    columns: Columns,
    *,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int], None] | None = None,
) -> Generator[Fragment, None, None]:
    """Every row of the source once, trajectory by trajectory, step by step."""
    encoded = _encoded(source, encoder, progress)
    # Closed whatever happens, so that the spill folder goes at once and not with the garbage.
    with closing(encoded if source.in_order else _sorted(encoded, memory)) as batches:
        yield from _split(batches, encoder, columns)


def _encoded(
    source: Source, encoder: Encoder, progress: Callable[[int], None] | None
) -> Generator[pa.RecordBatch, None, None]:
    for chunk in source.chunks():
        if chunk.rows.num_rows:
            yield encoder.encode(chunk)
            if progress is not None:
                progress(encoder.rows)


def _sorted(
    batches: Iterator[pa.RecordBatch], memory: int
) -> Generator[pa.RecordBatch, None, None]:
    """The batches in order; one alone needs no database."""
    first, second = next(batches, None), next(batches, None)
    if first is None:
        return
    keys = [name for name in first.schema.names if name in {"person", "trajectory"}]
    if second is None:
        ascending = [(name, "ascending") for name in (*keys, "step", "row")]
        yield first.take(pc.sort_indices(first, sort_keys=ascending))
        return
    yield from _sorted_by_database(first.schema, chain([first, second], batches), keys, memory)


def _sorted_by_database(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], keys: list[str], memory: int
) -> Generator[pa.RecordBatch, None, None]:
    """The batches, sorted on disk where they outgrow the memory.

    DuckDB works in a thread of its own: whoever waits here can be interrupted at any time.
    """
    order = ", ".join(keys)
    done: Queue[pa.RecordBatch | None] = Queue(maxsize=4)
    failure: list[BaseException] = []
    stopped = Event()

    def rows() -> Iterator[pa.RecordBatch]:
        """DuckDB would wrap an exception into its own; keep the original."""
        try:
            for batch in batches:
                if stopped.is_set():
                    return
                yield batch
        except BaseException as problem:
            failure.append(problem)
            raise

    def work(connection: duckdb.DuckDBPyConnection) -> None:
        try:
            reader = pa.RecordBatchReader.from_batches(schema, rows())
            connection.register("encoded_rows", reader)
            query = f"SELECT * FROM encoded_rows ORDER BY {order}, step, row"
            for batch in connection.sql(query).to_arrow_reader(BATCH_ROWS):
                done.put(batch)
                if stopped.is_set():
                    return
        except BaseException as problem:
            failure.append(problem)
        finally:
            done.put(None)

    with tempfile.TemporaryDirectory(prefix="privalue-") as spill:
        try:
            connection = _connect(memory, spill)
        except duckdb.Error as problem:
            raise DataError(f"sorting is not possible: {_one_line(problem)}") from None
        worker = Thread(target=work, args=(connection,), daemon=True)
        worker.start()
        try:
            while (batch := done.get()) is not None:
                yield batch
            if failure:
                raise _as_data_error(failure[0]) from None
        finally:
            stopped.set()
            connection.interrupt()
            while worker.is_alive():  # it may be waiting for room in the queue
                with suppress(Empty):
                    done.get(timeout=0.05)
            connection.close()


def _connect(memory: int, spill: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        config={
            "threads": 2,
            "memory_limit": f"{memory}B",
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )


def _as_data_error(problem: BaseException) -> BaseException:
    if isinstance(problem, duckdb.Error):
        return DataError(f"sorting the rows failed: {_one_line(problem)}")
    return problem


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:200]


def _split(
    batches: Iterator[pa.RecordBatch], encoder: Encoder, columns: Columns
) -> Iterator[Fragment]:
    """Marks where trajectories begin, across batches too, and refuses a step that stands twice."""
    last: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        joined = batch if last is None else pa.concat_batches([last, batch])
        persons = _changes(joined, "person")
        begins = _changes(joined, "trajectory")
        if persons is not None:
            begins |= persons
        steps = joined.column("step").to_numpy()
        twice = ~begins[1:] & (steps[1:] == steps[:-1])
        if twice.any():
            at = int(np.argmax(twice))
            row, again = (joined.column("row")[i].as_py() for i in (at, at + 1))
            key = joined.column("trajectory")[at].as_py()
            raise DataError(
                f"{encoder.place(again)}: {columns.step} = {steps[at]} stands twice in "
                f"{columns.trajectory} {key!r} (the other is {encoder.place(row)})"
            )
        seam = 0 if last is None else 1
        last = batch.slice(batch.num_rows - 1)
        yield Fragment(
            begins[seam:],
            batch.column("state").to_numpy(),
            batch.column("reward").to_numpy(),
            None if persons is None else persons[seam:],
        )


def _changes(batch: pa.RecordBatch, name: str) -> Any:
    """Where a key differs from the row before; None where there is no such key."""
    if name not in batch.schema.names:
        return None
    changes = np.ones(batch.num_rows, dtype=bool)
    key = batch.column(name)
    changed = pc.not_equal(key.slice(1), key.slice(0, len(key) - 1))
    changes[1:] = changed.to_numpy(zero_copy_only=False)
    return changes
