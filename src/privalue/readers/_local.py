"""Compute the statistics of a source on one machine, with a few threads.

Rows that come in order are handed over to the core as they are read; whether they do is checked on
the way. A source that can be read again is always tried like this first. If its rows turn out not
to be in order, it is read again, and rows are brought together by unit, on disk if they outgrow the
memory.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from privalue.core import Contributions, Limits, Statistics
from privalue.readers._chunks import Source, Unread
from privalue.readers._cores import chosen_threads
from privalue.readers._encode import Encoder, Rows
from privalue.readers._order import CarryOver, OutOfOrderError, hand_over, take_apart
from privalue.readers._partition import Partitions
from privalue.readers._rules import RowRules
from privalue.readers._sources import open_source
from privalue.readers._weights import Weighing
from privalue.study import Study

DEFAULT_MEMORY = 2 << 30
TASK_ROWS = 1 << 18

# What a task found: units to carry over, how many rows were left out, how many were not, and the
# first row out of order.
_Read = tuple[list[Rows], int, int, OutOfOrderError | None]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def statistics(
    data: Any,
    study: Study,
    *,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int, int | None], None] | None = None,
    threads: int | None = None,
) -> Statistics:
    """Return the first-visit statistics of ``data``.

    Args:
        data: whatever ``open_source`` opens.
        study: what is public.
        memory: bytes, about, that the process may use.
        progress: gets rows done and rows in all; these are an estimate for CSV files, and None if
            nobody knows.
        threads: how many read, encode and add up; one for each core, if left out.

    Returns:
        The statistics. They are private.
    """
    limits, rules, many = study.limits, RowRules.of(study), chosen_threads(threads)
    source = open_source(data, rules)

    def report(rows: int) -> None:
        if progress is not None:
            progress(rows, source.total_rows)

    promised = source.in_order or rules.sorted
    if promised or source.again:
        try:
            return _Reading(limits, rules, source, many, report).in_order().require_data(limits)
        except OutOfOrderError:
            if promised:
                raise
    # Where a row is takes room, and only the message about a duplicate step needs it: whatever can
    # be read again is read again for that.
    for places in (False, True) if source.again else (True,):
        reading = _Reading(limits, rules, source, many, report)
        found = reading.in_any_order(memory, places=places)
        if found is not None:
            break
    assert found is not None  # or an error was raised
    return found.require_data(limits)


class Pool:
    """The sums of several threads: each thread works with contributions of its own."""

    def __init__(self, limits: Limits, weighing: Weighing | None = None) -> None:
        self._limits, self._weighing = limits, weighing
        self._idle: SimpleQueue[Contributions] = SimpleQueue()  # those that no thread works with
        self._refused: SimpleQueue[Contributions] = SimpleQueue()  # they must not be forgotten

    def add(self, *columns: Any, **span: Any) -> None:
        """Add a batch; see ``Contributions.add``."""
        try:
            contributions = self._idle.get_nowait()
        except Empty:
            contributions = Contributions(self._limits)
        try:
            weighed = columns if self._weighing is None else self._weighing.weighed(*columns)
            contributions.add(*weighed, **span)
        except BaseException:
            self._refused.put(contributions)
            raise
        self._idle.put(contributions)

    def finish(self, rows_left_out: int) -> Statistics:
        """Return the statistics of all that was added, with how many rows belong to nobody.

        Raises:
            BoundaryError: a batch was refused, and nobody made an error of it.
        """
        total = Contributions(self._limits)
        for queue in (self._idle, self._refused):
            while not queue.empty():
                total.absorb(queue.get())
        return total.finish(rows_left_out=rows_left_out)


class _Reading:
    """A source on its way to the core, in either of two ways."""

    def __init__(
        self,
        limits: Limits,
        rules: RowRules,
        source: Source,
        threads: int,
        report: Callable[[int], None],
    ) -> None:
        self._rules = rules
        self._source = source
        self._threads = threads
        self._report = report
        self._encoder = Encoder(rules)
        self._pool = Pool(limits, rules.weighing)
        self._stopped = False

    def in_order(self) -> Statistics:
        """Hand over what is complete in each batch, and carry the units at its ends over.

        Threads read tasks in parallel. The units at the ends of tasks are joined here, in the order
        of the source, so that the first error in the source is the one that is raised.
        """

        def complete(rows: Rows) -> None:
            hand_over(rows, self._pool.add, self._rules)

        def work(_: int, chunks: list[Unread]) -> _Read:
            ends, left_out, count = list[Rows](), 0, 0
            for rows in self._rows(chunks):
                left_out, count = left_out + rows.left_out, count + len(rows)
                try:
                    if len(rows):
                        take_apart(rows, self._rules, ends.append, complete)
                except OutOfOrderError as problem:  # joining earlier tasks may find one before it
                    return ends, left_out, count, problem
            return ends, left_out, count, None

        carried = CarryOver(self._rules, complete)
        done, nobodys = 0, 0
        with self._each(work, self._tasks()) as results:
            for ends, left_out, count, problem in results:
                for rows in ends:
                    carried.add(rows)
                if problem is not None:
                    raise problem
                done, nobodys = done + count, nobodys + left_out
                self._report(done)
            carried.finish()
        return self._pool.finish(nobodys)

    def in_any_order(self, memory: int, *, places: bool) -> Statistics | None:
        """Bring every row to its partition, then add up partition after partition.

        Each row passes twice, so progress counts half a row each time.

        Args:
            memory: as for ``statistics``.
            places: whether to remember where rows are, for the message about a duplicate step;
                otherwise such a step makes this None.
        """

        def keep(number: int, chunks: list[Unread]) -> tuple[int, int]:
            parts = list(self._rows(chunks))
            full = [part for part in parts if len(part)]
            if full:
                partitions.put(full, number)
            return sum(map(len, full)), sum(part.left_out for part in parts)

        def add(_: int, partition: int) -> int:
            return partitions.hand_over(partition, self._pool.add)

        done, nobodys = 0, 0
        partitions = Partitions(memory, self._source.total_rows, self._rules, places=places)
        with closing(partitions):
            with self._each(keep, self._tasks()) as kept:
                for count, left_out in kept:
                    done, nobodys = done + count, nobodys + left_out
                    self._report(done // 2)
            numbers = (number for number in range(partitions.count))
            with self._each(add, numbers) as added:
                for count in added:
                    done += count
                    self._report(done // 2)
            if not partitions.sound and not places:
                return None
            partitions.require_sound()
        return self._pool.finish(nobodys)

    def _rows(self, chunks: list[Unread]) -> Iterator[Rows]:
        """Yield the encoded rows of some chunks, until another thread has failed."""
        for chunk in chunks:
            for rows in self._encoder.parts(chunk.read()):
                if self._stopped:  # nobody wants them any more
                    return
                yield rows

    def _tasks(self) -> Generator[list[Unread], None, None]:
        """Yield consecutive chunks, so many that a task is worth a thread's while."""
        task, rows = list[Unread](), 0
        for chunk in self._source.unread():
            task.append(chunk)
            rows += chunk.rows
            if rows >= TASK_ROWS:
                yield task
                task, rows = [], 0
        if task:
            yield task

    @contextmanager
    def _each(
        self,
        work: Callable[[int, _Task], _Result],
        tasks: Generator[_Task, None, None],
    ) -> Iterator[Iterator[_Result]]:
        """Run tasks in a pool of threads, and yield their results in the order of the tasks.

        So, if several tasks fail, the error that is raised is the one of the earliest rows.
        """
        waiting: deque[Future[_Result]] = deque()

        def results() -> Iterator[_Result]:
            for number, task in enumerate(tasks):
                waiting.append(pool.submit(work, number, task))
                if len(waiting) > 2 * self._threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        with ThreadPoolExecutor(self._threads) as pool, closing(tasks):
            try:
                yield results()
            except BaseException:
                self._stopped = True
                raise
            finally:
                pool.shutdown(cancel_futures=True)
