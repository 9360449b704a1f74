"""Compute the statistics of a source on one machine, with a few threads.

Threads read and encode batches, and one thread adds them to the core. A source that can be read
again is always taken to be in order first: whole units go to the core as they come, and the unit
that a batch ends with stays open until the next batch. If rows turn out not to be in order, the
source is read again, and rows are brought together by unit (``grouping``), in memory alone: where
they outgrow it, the source is read several times.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from privalue._types import Progress
from privalue.core import Contributions, Integers, Limits, Statistics
from privalue.errors import DataError, UsageError
from privalue.readers import grouping
from privalue.readers.conflicts import ConflictError, Wanted, add_to_core, explain
from privalue.readers.declaration import Declaration
from privalue.readers.grouping import Divided
from privalue.readers.rows import Encoder, Rows
from privalue.readers.source import Batch, Source, Task

MOST_THREADS = 1024
RESERVED_BYTES = 576 << 20  # the program itself, and batches on their way
LEAST_BYTES = 1 << 24
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def default_memory(limits: Iterable[str] = _LIMITS) -> int:
    """Return half of the memory that this process may use, by its machine and its container.

    Args:
        limits: files in which the system states the limit of a container.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in limits:
        try:
            found.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # "max", or no such file
            continue
    return min(found) // 2


def usable_cores() -> int:
    """Return how many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux; elsewhere all cores count
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def require_threads(threads: int | None) -> int:
    """Return the number of threads that was asked for, or one for each core; refuse any other."""
    if threads is None:
        return usable_cores()
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads={threads!r} must be a whole number from 1 to {MOST_THREADS}")
    return threads


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
    reading = _Reading(source, declaration, limits, threads, progress)
    if source.rereadable or declaration.sorted:
        try:
            return reading.in_order()
        except ConflictError as conflict:
            if declaration.sorted:
                raise explain(conflict, declaration, reading.find) from None
    try:
        return reading.in_any_order(memory)
    except ConflictError as conflict:
        raise explain(conflict, declaration, reading.find) from None


class _Reading:
    """A source on its way to the core, in either of two ways."""

    def __init__(
        self,
        source: Source,
        declaration: Declaration,
        limits: Limits,
        threads: int,
        progress: Progress | None,
    ) -> None:
        self._source, self._declaration, self._limits = source, declaration, limits
        self._threads, self._progress = threads, progress
        self._encoder = Encoder(declaration)
        self._unit_ids = len(declaration.unit_roles)

    def _tasks(self) -> Any:
        return closing(self._source.tasks(self._declaration.text_types))

    def _report(self, rows: int) -> None:
        if self._progress is not None:
            self._progress(rows, self._source.rows)

    def _encode(self, task: Task) -> Rows:
        return self._encoder(task())

    # In order

    def in_order(self) -> Statistics:
        """Add whole units as they come; raise ConflictError where rows are not in order."""
        total, open_unit, left_out, done = Contributions(self._limits), list[Rows](), 0, 0
        with self._tasks() as tasks:
            for rows in _each(self._encode, tasks, self._threads):
                left_out, done = left_out + rows.left_out, done + len(rows)
                if len(rows):
                    open_unit = self._add_whole_units(open_unit, rows, total)
                self._report(done)
        if open_unit:
            self._add(Rows.concat(open_unit), total)
        return total.finish(rows_left_out=left_out).require_data(self._limits)

    def _add_whole_units(
        self, open_unit: list[Rows], rows: Rows, total: Contributions
    ) -> list[Rows]:
        """Add what is complete, and return the unit that may go on in the next batch."""
        if open_unit:
            before = open_unit[-1]
            pair = Rows.concat([before.part(slice(len(before) - 1, None)), rows.part(slice(0, 1))])
            self._require_order(pair, 1)
        units = rows.ids[:, : self._unit_ids].reshape(len(rows), -1)
        other = _differ(units, -1)
        last = int(other[-1]) + 1 if len(other) else 0  # where the last unit begins
        if last:
            self._require_order(rows, last)
        if not open_unit:
            if last:
                self._add(rows.part(slice(0, last)), total)
            return [Rows(*(column[last:].copy() for column in rows.columns))]
        goes_on = self._same_unit(pair)
        if goes_on and last == 0:
            return [*open_unit, rows]
        second = int(_differ(units, 0)[0]) if goes_on else 0  # where the first new unit begins
        if second:
            self._require_order(rows, second)
        self._add(Rows.concat([*open_unit, rows.part(slice(0, second))]), total)
        if second < last:
            self._add(rows.part(slice(second, last)), total)
        return [Rows(*(column[last:].copy() for column in rows.columns))]

    def _same_unit(self, pair: Rows) -> bool:
        return bool((pair.ids[0, : self._unit_ids] == pair.ids[1, : self._unit_ids]).all())

    def _require_order(self, rows: Rows, at: int) -> None:
        """Raise ConflictError if a row does not come after the one before it."""
        pair = slice(at - 1, at + 1)
        earlier, later = np.column_stack([rows.ids[pair].reshape(2, -1), rows.steps[pair]]).tolist()
        if later < earlier or (later == earlier and not self._declaration.drop_invalid):
            raise ConflictError("order" if later < earlier else "duplicate", rows, at)

    def _add(self, rows: Rows, total: Contributions, **span: tuple[int, int]) -> None:
        add_to_core(rows, total, self._declaration, **span)

    # In any order

    def in_any_order(self, memory: int) -> Statistics:
        """Bring rows together by unit; read the source once for each part that fits into memory."""
        total, left_out, done, first = Contributions(self._limits), 0, 0, 0
        room = max(memory - RESERVED_BYTES, memory // 8, LEAST_BYTES)
        while first < grouping.PARTITIONS:
            divided, last, nobodys = self._gather(first, room)
            left_out = left_out if first else nobodys
            full = (
                partition
                for partition in range(first, last)
                if any(one.size(partition) for one in divided)
            )

            def sort(partition: int, divided: list[Divided] = divided) -> tuple[int, Rows]:
                parts = [one[partition] for one in divided if one.size(partition)]
                return partition, grouping.sort(parts)

            for partition, rows in _each(sort, full, self._threads):
                self._add(rows, total, span=grouping.span_of(partition))
                done += len(rows)
                self._report(done)
            first = last
        return total.finish(rows_left_out=left_out).require_data(self._limits)

    def _gather(self, first: int, room: int) -> tuple[list[Divided], int, int]:
        """Return the rows of partitions from ``first`` on, the end of these, and nobody's rows.

        Where rows outgrow the memory, half of the partitions are left to the next pass.
        """
        last, kept, size, left_out = grouping.PARTITIONS, list[Divided](), 0, 0

        def divide(task: Task) -> tuple[Divided, int]:
            rows = self._encode(task)
            parts = grouping.divide(rows, self._unit_ids, grouping.PARTITIONS, first, last)
            return parts, rows.left_out

        with self._tasks() as tasks:
            for divided, nobodys in _each(divide, tasks, self._threads):
                left_out += nobodys
                kept.append(divided.cut(last))  # it may have been begun before the last cut
                size += kept[-1].rows.nbytes
                while size > room and last > first + 1:
                    if not self._source.rereadable:
                        raise DataError(
                            "the rows take more memory than they may, and cannot be read a second "
                            "time; write them to a Parquet file, or give more: --memory"
                        )
                    last = first + (last - first) // 2
                    kept = [one.cut(last) for one in kept]
                    size = sum(one.rows.nbytes for one in kept)
        return kept, last, left_out

    def find(self, wanted: Wanted) -> list[str]:
        """Return where the first two of the wanted rows are, if the source can be read again."""
        found: list[str] = []
        if not self._source.rereadable:
            return found
        with self._tasks() as tasks:
            for task in tasks:
                batch: Batch = task()
                rows = self._encoder(batch)
                for at in np.flatnonzero(wanted(rows)).tolist():
                    kept = at if rows.positions is None else int(rows.positions[at])
                    found.append(batch.where(kept))
                    if len(found) == 2:
                        return found
        return found


def _differ(units: Integers, at: int) -> Integers:
    """Return the rows of other units than that of one row."""
    other = np.zeros(len(units), np.bool_)
    for numbers in units.T:
        other |= numbers != numbers[at]
    return np.flatnonzero(other)


def _each(
    work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int
) -> Iterator[_Result]:
    """Run work in threads, and yield the results in the order of the items.

    So, if several fail, the error that is raised is the one of the earliest rows.
    """
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
