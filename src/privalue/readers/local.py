"""Compute the statistics of a source on one machine, with a few threads.

Threads read and encode batches, and one thread adds them to the core. A source that can be read
again is first assumed to be sorted: whole units go to the core as they arrive, and the last unit of
a batch stays open until the next batch. If rows turn out to be unsorted, the source is read again,
and rows are grouped by unit in memory (``grouping``). If they do not fit, it is read several times.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ByteSize, TypeAdapter, ValidationError

from privalue.core import Contributions, Integers, Limits, Statistics
from privalue.errors import UsageError
from privalue.readers import grouping
from privalue.readers.conflicts import ConflictError, add_to_core, conflict_error
from privalue.readers.declaration import Declaration
from privalue.readers.grouping import PartitionedRows
from privalue.readers.messages import data_error
from privalue.readers.rows import Encoder, Rows
from privalue.readers.source import Progress, Source, Task

MAX_THREADS = 1024
MIN_MEMORY = 64_000_000  # bytes: the smallest limit that is accepted
RESERVED_BYTES = 608 << 20  # for the program itself, and for batches being read
MIN_ROW_BYTES = 1 << 24  # for rows, however small the limit is
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def default_memory(limits: Iterable[str] = _LIMITS) -> int:
    """Return half of the memory of this machine, or of its container if that is smaller.

    Args:
        limits: files with the memory limit of a container.
    """
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in limits:
        with suppress(OSError, ValueError):  # it holds "max", or does not exist
            sizes.append(int(Path(name).read_text()))
    return min(sizes) // 2


def usable_cores() -> int:
    """Return how many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux; elsewhere all cores count
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def require_threads(threads: int | None) -> int:
    """Return a number of threads, or the number of cores for None; raise UsageError."""
    if threads is None:
        return usable_cores()
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        allowed = f"it must be a whole number from 1 to {MAX_THREADS}"
        raise UsageError(allowed, code="out-of-range", argument=("threads", threads))
    return threads


def require_memory(memory: int | str | None) -> int:
    """Return a size such as "2GB" in bytes, or the default for None; raise UsageError."""
    if memory is None:
        return default_memory()
    with suppress(ValidationError):
        if MIN_MEMORY <= (size := TypeAdapter(ByteSize).validate_python(memory)) <= 2**50:
            return int(size)
    allowed = "it must be at least 64MB, such as 500MB or 2GB"
    raise UsageError(allowed, code="out-of-range", argument=("memory", memory))


def read_locally(
    source: Source,
    declaration: Declaration,
    limits: Limits,
    *,
    memory: int,
    threads: int,
    progress: Progress | None = None,
) -> Statistics:
    """Return the first-visit statistics of a source. They are private."""
    for place, schema in source.schemas:
        declaration.require_columns(place, schema)
    reading = _SourceReader(source, declaration, limits, threads, progress)
    if declaration.study.data.sorted:
        return reading.in_order()
    if source.rereadable:
        with suppress(ConflictError):
            return reading.in_order()
    return reading.in_any_order(memory)


@dataclass
class _SourceReader:
    """The reading of one source into the core."""

    source: Source
    declaration: Declaration
    limits: Limits
    threads: int
    progress: Progress | None
    rows_read: int = 0

    def __post_init__(self) -> None:
        self.encoder = Encoder(self.declaration)
        self.unit_ids = len(self.declaration.unit_roles)

    def _tasks(self) -> Any:
        return closing(self.source.tasks(self.declaration.text_types))

    def _report(self, rows: int) -> None:
        self.rows_read += rows
        if self.progress is not None:
            self.progress(self.rows_read, self.source.rows)

    def _encode(self, task: Task) -> Rows:
        return self.encoder(task())

    # In order

    def in_order(self) -> Statistics:
        """Add whole units as they arrive; raise ConflictError if rows are not in order."""
        total, open_unit, left_out = Contributions(self.limits), list[Rows](), 0
        with self._tasks() as tasks:
            # Batches wait for the core, so that it never waits for them. CSV, whose batches are
            # small, has one more thread: others wait at times for Python's lock.
            readers, ahead = self.threads + bool(self.source.csv_format), 2 * self.threads
            for rows in _map_in_order(self._encode, tasks, readers, ahead):
                left_out += rows.left_out
                if len(rows):
                    open_unit = self._add_whole_units(open_unit, rows, total)
                self._report(len(rows))
        if open_unit:
            add_to_core(Rows.concat(open_unit), total, self.declaration)
        return total.finish(rows_left_out=left_out).require_data()

    def _add_whole_units(
        self, open_unit: list[Rows], rows: Rows, total: Contributions
    ) -> list[Rows]:
        """Add complete units, and return the last unit, which may continue in the next batch."""
        units = rows.ids[:, : self.unit_ids].reshape(len(rows), -1)
        # Rows before ``first`` belong to the open unit, rows from ``last`` on to the last unit.
        first, last = 0, len(rows) - _count_first(units[::-1])
        if open_unit:
            pair = Rows.concat([open_unit[-1].select(slice(-1, None)), rows.select(slice(0, 1))])
            self._require_order(pair, 1)
            if (pair.ids[0, : self.unit_ids] == pair.ids[1, : self.unit_ids]).all():
                first = _count_first(units)
        if first == len(rows):
            return [*open_unit, rows]
        for at in sorted({first, last} - {0}):
            self._require_order(rows, at)
        if open_unit:
            head = Rows.concat([*open_unit, rows.select(slice(0, first))])
            add_to_core(head, total, self.declaration)
        if first < last:
            add_to_core(rows.select(slice(first, last)), total, self.declaration)
        return [Rows(*(column[last:].copy() for column in rows.columns))]

    def _require_order(self, rows: Rows, at: int) -> None:
        """Raise ConflictError if a row does not sort after the previous row."""
        pair = slice(at - 1, at + 1)
        earlier, later = np.column_stack([rows.ids[pair].reshape(2, -1), rows.steps[pair]]).tolist()
        if later < earlier or (later == earlier and not self.limits.drop_invalid):
            reason = "order" if later < earlier else "duplicate"
            raise conflict_error(reason, rows, at, self.declaration)

    # In any order

    def in_any_order(self, memory: int) -> Statistics:
        """Group rows by unit, in one pass over the source for as many units as fit into memory."""
        total, left_out, first, self.rows_read = Contributions(self.limits), 0, 0, 0
        capacity = max(memory - RESERVED_BYTES, memory // 8, MIN_ROW_BYTES)
        while first < grouping.PARTITIONS:
            batches, last, left_out = self._gather(first, capacity)
            occupied = (p for p in range(first, last) if any(len(batch[p]) for batch in batches))
            sort = partial(_sort_partition, batches)
            for partition, rows in _map_in_order(sort, occupied, self.threads):
                add_to_core(rows, total, self.declaration, span=grouping.span_of(partition))
                self._report(len(rows))
            first = last
        return total.finish(rows_left_out=left_out).require_data()

    def _gather(self, first: int, capacity: int) -> tuple[list[PartitionedRows], int, int]:
        """Return the rows of partitions from ``first`` on, their end, and how many have no unit.

        If rows take more than ``capacity`` bytes, half of the partitions are left to the next pass.
        """
        last, batches, size, left_out = grouping.PARTITIONS, list[PartitionedRows](), 0, 0

        def divide(task: Task) -> tuple[PartitionedRows, int]:
            rows = self._encode(task)
            batch = grouping.divide(rows, self.unit_ids, grouping.PARTITIONS, first, last)
            return batch, rows.left_out

        with self._tasks() as tasks:
            for batch, without_unit in _map_in_order(divide, tasks, self.threads):
                left_out += without_unit
                batches.append(batch.truncate(last))  # a thread may have divided by an older last
                size += batches[-1].rows.nbytes
                while size > capacity and last > first + 1:
                    if not self.source.rereadable:
                        raise data_error("rows-outgrow-memory")
                    last = first + (last - first) // 2
                    batches = [batch.truncate(last) for batch in batches]
                    size = sum(batch.rows.nbytes for batch in batches)
        return batches, last, left_out


def _sort_partition(batches: list[PartitionedRows], partition: int) -> tuple[int, Rows]:
    """Return a partition, and the sorted rows that all batches have of it."""
    parts = [batch[partition] for batch in batches]
    return partition, grouping.sort([rows for rows in parts if len(rows)])


def _count_first(units: Integers) -> int:
    """Return how many rows at the beginning belong to the unit of the first row."""
    size = 64
    while True:
        others = np.flatnonzero((units[:size] != units[0]).any(axis=1))
        if len(others):
            return int(others[0])
        if size >= len(units):
            return len(units)
        size *= 8


def _map_in_order(
    work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int, ahead: int | None = None
) -> Iterator[_Result]:
    """Run work in threads, and yield the results in the order of the items.

    If several items fail, the error raised is therefore that of the earliest rows. ``ahead`` is how
    many results may wait: by default one for each thread.
    """
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > (ahead or threads):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
