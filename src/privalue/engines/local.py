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
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from privalue.statistics import Accumulator, VisitStatistics, complete
from privalue.study import Study
from privalue.trajectories import open_source
from privalue.trajectories.chunks import Chunk, Piece, Source
from privalue.trajectories.csv_files import NotPlainError
from privalue.trajectories.encode import Encoder, Origin, Row, Rows
from privalue.trajectories.order import Fragment, OutOfOrderError, Stretch, in_order, joined
from privalue.trajectories.partition import Partitions

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
    source = open_source(data, study.data, by_person=study.privacy.unit == "person")
    try:
        return _statistics(source, study, memory, progress, threads)
    except NotPlainError:  # a CSV file with quotes: from its beginning, then
        return _statistics(replace(source, pieces=None), study, memory, progress, threads)


def _statistics(
    source: Source,
    study: Study,
    memory: int,
    progress: Callable[[int, int | None], None] | None,
    threads: int,
) -> VisitStatistics:
    def report(rows: int) -> None:
        if progress is not None:
            progress(rows, source.total_rows)

    if source.in_order or source.again or study.data.sorted:
        reading = _Reading(study, source, threads, report)
        try:
            return complete(reading.in_order(ids_ascend=not source.in_order), study)
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
    return reading.between_seams(ends.append, ids_ascend=True), ends


class Seams:
    """Joins the ends of stretches that follow each other, in order."""

    def __init__(self, study: Study, *, ids_ascend: bool = True) -> None:
        self._columns = study.data
        self._ids_ascend = ids_ascend
        self._accumulator = Accumulator(study)
        self._last: Row | None = None

    def add(self, stretch: Stretch) -> None:
        """Goes on from the stretch before; raises ``OutOfOrderError`` where it does not."""
        head = joined(self._last, stretch, self._columns, ids_ascend=self._ids_ascend)
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
        self._by_person = study.privacy.unit == "person"
        self._encoder = Encoder(study)
        self._idle: SimpleQueue[Accumulator] = SimpleQueue()  # those that no thread works with
        self._stopped = False

    def in_order(self, *, ids_ascend: bool) -> VisitStatistics:
        """Each chunk on its own; the ends are joined."""
        seams = Seams(self._study, ids_ascend=ids_ascend)
        found = self.between_seams(seams.add, ids_ascend=ids_ascend)
        return found + seams.finish()

    def between_seams(
        self, join: Callable[[Stretch], None], *, ids_ascend: bool
    ) -> VisitStatistics:
        """What is complete within a part of a chunk; the ends go to whoever joins them."""

        def work(_: int, pieces: list[Piece]) -> tuple[list[Stretch], int, int]:
            ends, count, outside = [], 0, 0
            for rows in self._rows(pieces):
                stretch, between = in_order(
                    rows, self._study.data, by_person=self._by_person, ids_ascend=ids_ascend
                )
                self._gather(between)
                ends.append(stretch)
                count, outside = count + len(rows), outside + rows.rewards_clamped
            return ends, count, outside

        done = clamped = 0
        with self._each(work, self._tasks()) as results:
            for ends, count, outside in results:
                for stretch in ends:
                    join(stretch)
                done, clamped = done + count, clamped + outside
                self._report(done)
        return self._total(clamped)

    def in_any_order(self, memory: int) -> VisitStatistics:
        """Every row to its partition, then partition by partition; a row is done after both."""

        def keep(number: int, pieces: list[Piece]) -> tuple[Origin | None, int, int]:
            parts = list(self._rows(pieces))
            for part in parts:
                parts[0].origin.require_same_ids(part.origin)
            if parts:
                partitions.put(number, parts)
            origin = parts[0].origin if parts else None
            return origin, sum(map(len, parts)), sum(part.rewards_clamped for part in parts)

        def gather(_: int, partition: int) -> int:
            fragment = partitions.take(partition)
            self._gather(fragment)
            return len(fragment.states)

        done = clamped = 0
        first: Origin | None = None
        partitions = Partitions(
            memory,
            self._source.total_rows,
            states=self._study.state_count,
            by_person=self._by_person,
        )
        with closing(partitions):
            with self._each(keep, self._tasks()) as kept:
                for origin, count, outside in kept:
                    first = first or origin
                    if first and origin:
                        first.require_same_ids(origin)
                    done, clamped = done + count, clamped + outside
                    self._report(done // 2)
            filled = range(partitions.count if done else 0)
            with self._each(gather, (number for number in filled)) as gathered:
                for count in gathered:
                    done += count
                    self._report(done // 2)
            partitions.require_distinct_steps(self._study.data)
        return self._total(clamped)

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

    def _total(self, rewards_clamped: int) -> VisitStatistics:
        total = Accumulator(self._study)
        while not self._idle.empty():
            total.absorb(self._idle.get())
        return total.finish(rewards_clamped=rewards_clamped)
