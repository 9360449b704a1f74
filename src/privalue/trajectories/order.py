"""Rows in any order, handed on as ordered fragments of trajectories.

DuckDB sorts the encoded rows by (person, trajectory, step), on disk where they outgrow the memory
that it may use. The spill folder is private to the user and removed at the end.
"""

import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.private import Private
from privalue.sections import Columns
from privalue.trajectories.encode import Encoder
from privalue.trajectories.sources import BATCH_ROWS, Source

DEFAULT_MEMORY = 2 << 30


@dataclass(frozen=True, eq=False, repr=False)
class Fragment(Private):
    """Consecutive rows, ordered within trajectories; a trajectory may go on in the next one."""

    begins: NDArray[np.bool_]  # the row is the first of its trajectory
    states: NDArray[np.int32]
    rewards: NDArray[np.float64]


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
    if encoder.rows == 0:
        raise DataError("the data has no rows; at least one trajectory is needed")


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
    first = next(batches, None)
    if first is None:
        return
    failure: list[Exception] = []

    def guarded() -> Iterator[pa.RecordBatch]:
        """DuckDB would wrap an exception into its own; keep the original."""
        try:
            yield from chain([first], batches)
        except Exception as problem:
            failure.append(problem)
            raise

    rows = pa.RecordBatchReader.from_batches(first.schema, guarded())
    order = ", ".join(name for name in first.schema.names if name in {"person", "trajectory"})
    with tempfile.TemporaryDirectory(prefix="privalue-") as spill:
        connection = duckdb.connect(
            config={
                "threads": 2,
                "memory_limit": f"{memory}B",
                "temp_directory": spill,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        try:
            connection.register("encoded_rows", rows)
            result = connection.sql(f"SELECT * FROM encoded_rows ORDER BY {order}, step, row")
            yield from result.to_arrow_reader(BATCH_ROWS)
        except duckdb.Error as problem:
            if failure:
                raise failure[0] from None
            raise DataError(f"sorting the rows failed: {str(problem).splitlines()[0]}") from None
        finally:
            connection.close()


def _split(
    batches: Iterator[pa.RecordBatch], encoder: Encoder, columns: Columns
) -> Iterator[Fragment]:
    """Marks where trajectories begin, across batches too, and refuses a step that stands twice."""
    last: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        joined = batch if last is None else pa.concat_batches([last, batch])
        begins = _begins(joined)
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
        )


def _begins(batch: pa.RecordBatch) -> NDArray[np.bool_]:
    begins = np.zeros(batch.num_rows, dtype=bool)
    begins[0] = True
    for name in ("person", "trajectory"):
        if name in batch.schema.names:
            key = batch.column(name)
            changed = pc.not_equal(key.slice(1), key.slice(0, len(key) - 1))
            begins[1:] |= changed.to_numpy(zero_copy_only=False)
    return begins
