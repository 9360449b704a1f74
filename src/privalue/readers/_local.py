"""One machine: a few threads, each with one chunk of the source at a time.

Rows that come in order are gathered as they are read, and whether they do is seen on the way. A
source that can be read again is tried like this first; where its rows turn out not to be in order,
it is read again, and they are brought together by trajectory, on disk where they outgrow the
memory.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from privalue.core._contributions import Accumulator, VisitStatistics, complete
from privalue.readers import open_source
from privalue.readers._chunks import Chunk, Piece, Source
from privalue.readers._encode import Encoder, Row, Rows, Tally
from privalue.readers._order import Fragment, OutOfOrderError, Stretch, in_order, joined
from privalue.readers._partition import Partitions
from privalue.readers._rules import RowRules
from privalue.study._study import Study

DEFAULT_MEMORY = 2 << 30
THREADS = 2
TASK_ROWS = 1 << 18

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def statistics(
    data: Any,
    study: Study,
    *,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int, int | None], None] | None = None,
    threads: int = THREADS,
) -> VisitStatistics:
    """The first-visit statistics of ``data``; ``progress`` gets rows done and rows in all.

    Rows in all are an estimate for CSV files, and None where nobody knows.
    """
    source = open_source(data, RowRules.of(study))

    def report(rows: int) -> None:
        if progress is not None:
            progress(rows, source.total_rows)

    if source.in_order or source.again or study.data.sorted:
        reading = _Reading(study, source, threads, report)
        try:
            return complete(reading.in_order(), study)
        except OutOfOrderError:
            if source.in_order or study.data.sorted:
                raise
    return complete(_Reading(study, source, threads, report).in_any_order(memory), study)


def statistics_of_chunks(
    chunks: Iterable[Chunk], study: Study, *, memory: int = DEFAULT_MEMORY
) -> VisitStatistics:
    """The statistics of all rows of some trajectories (whole persons), in any order."""
    return _Reading(study, Source(lambda: iter(chunks)), threads=1).in_any_order(memory)


def statistics_of_ordered_chunks(
    chunks: Iterable[Chunk], study: Study
) -> tuple[VisitStatistics, list[Stretch]]:
    """The statistics of what is complete in rows that come in order, and the ends to be joined."""
    ends: list[Stretch] = []
    reading = _Reading(study, Source(lambda: iter(chunks)), threads=1)
    return reading.between_seams(ends.append), ends


class Seams:
    """Joins the ends of stretches that follow each other, in order."""

    def __init__(self, study: Study) -> None:
        self._rules = RowRules.of(study)
        self._accumulator = Accumulator(study)
        self._last: Row | None = None

    def add(self, stretch: Stretch) -> None:
        """Goes on from the stretch before; raises ``OutOfOrderError`` where it does not."""
        head = joined(self._last, stretch, self._rules)
        self._accumulator.add(head)
        if stretch.tail is not None:
            self._accumulator.add(stretch.tail)
        self._last = stretch.last

    def finish(self) -> VisitStatistics:
        """The statistics of the trajectories that the ends belong to."""
        return self._accumulator.finish()


class _Reading:
    """The ways through a source."""

    def __init__(
        self,
        study: Study,
        source: Source,
        threads: int,
        report: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._study = study
        self._source = source
        self._threads = threads
        self._report = report
        self._rules = RowRules.of(study)
        self._encoder = Encoder(self._rules)
        self._idle: SimpleQueue[Accumulator] = SimpleQueue()  # those that no thread works with
        self._stopped = False

    def in_order(self) -> VisitStatistics:
        """Each chunk on its own; the ends are joined."""
        seams = Seams(self._study)
        found = self.between_seams(seams.add)
        return found + seams.finish()

    def between_seams(self, join: Callable[[Stretch], None]) -> VisitStatistics:
        """What is complete within a part of a chunk; the ends go to whoever joins them."""

        def work(_: int, pieces: list[Piece]) -> tuple[list[Stretch], int, Tally]:
            ends, count, tally = [], 0, Tally()
            for rows in self._rows(pieces):
                count, tally = count + len(rows), tally + rows.tally
                if len(rows):
                    stretch, between = in_order(rows, self._rules)
                    self._gather(between)
                    ends.append(stretch)
            return ends, count, tally

        done, found = 0, Tally()
        with self._each(work, self._tasks()) as results:
            for ends, count, tally in results:
                for stretch in ends:
                    join(stretch)
                done, found = done + count, found + tally
                self._report(done)
        return self._total(found)

    def in_any_order(self, memory: int) -> VisitStatistics:
        """Every row to its partition, then partition by partition; a row is done after both."""

        def keep(number: int, pieces: list[Piece]) -> tuple[int, Tally]:
            parts = list(self._rows(pieces))
            full = [part for part in parts if len(part)]
            if full:
                partitions.put(number, full)
            return sum(map(len, full)), sum((part.tally for part in parts), Tally())

        def gather(_: int, partition: int) -> int:
            fragment = partitions.take(partition)
            self._gather(fragment)
            return len(fragment.states)

        done, found = 0, Tally()
        partitions = Partitions(memory, self._source.total_rows, self._rules)
        with closing(partitions):
            with self._each(keep, self._tasks()) as kept:
                for count, tally in kept:
                    done, found = done + count, found + tally
                    self._report(done // 2)
            filled = range(partitions.count if done else 0)
            with self._each(gather, (number for number in filled)) as gathered:
                for count in gathered:
                    done += count
                    self._report(done // 2)
            partitions.require_distinct_steps()
        return self._total(found)

    def _rows(self, pieces: list[Piece]) -> Iterator[Rows]:
        for piece in pieces:
            for rows in self._encoder.parts(piece.read()):
                if self._stopped:  # nobody wants them any more
                    return
                yield rows

    def _tasks(self) -> Generator[list[Piece], None, None]:
        """Chunks that follow each other, so many that it is worth a thread's while."""
        task, rows = list[Piece](), 0
        for piece in self._source.unread():
            task.append(piece)
            rows += piece.rows
            if rows >= TASK_ROWS:
                yield task
                task, rows = [], 0
        if task:
            yield task

    @contextmanager
    def _each(
        self, work: Callable[[int, _Task], _Result], tasks: Generator[_Task, None, None]
    ) -> Iterator[Iterator[_Result]]:
        """What becomes of all tasks, in order: of two failures the first in the source shows."""
        waiting: deque[Future[_Result]] = deque()

        def results() -> Iterator[_Result]:
            for number, task in enumerate(tasks):
                waiting.append(pool.submit(work, number, task))
                if len(waiting) > 2 * self._threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        with closing(tasks), ThreadPoolExecutor(self._threads) as pool:
            try:
                yield results()
            except BaseException:
                self._stopped = True
                raise
            finally:
                for future in waiting:
                    future.cancel()

    def _gather(self, fragment: Fragment) -> None:
        try:
            accumulator = self._idle.get_nowait()
        except Empty:
            accumulator = Accumulator(self._study)
        accumulator.gather(fragment)
        self._idle.put(accumulator)

    def _total(self, found: Tally) -> VisitStatistics:
        total = Accumulator(self._study)
        while not self._idle.empty():
            total.absorb(self._idle.get())
        return total.finish(**found._asdict())
