"""Define how rows travel: in chunks, with their location, from a source.

**Location.** An error in a row must say where that row is: the file and the number of the row. A
``Location`` describes some consecutive rows of a source in a few numbers, so that nothing has to be
stored for each row. Rows from several chunks are later joined, sorted or partly left out; then
``Origins`` remembers the location that each run of rows came from. A location holds names and
numbers only, no data and nothing to call, and can be sent to another machine.

A ``Source`` yields chunks: Arrow batches as they are in the source, each with its location.
"""

from bisect import bisect
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Private, sealed
from privalue.errors import DataError

BATCH_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Location:
    """Where consecutive rows are: a source's name for messages, and the number of the first row."""

    place: str
    first_row: int = 1  # counted from 1, the heading of a CSV file not counted

    def number(self, at: int) -> int:
        """Return the number of a row; in one source, an earlier row has a smaller number."""
        return self.first_row + at

    def where(self, at: int) -> str:
        """Return the name of the source and the number of a row in it."""
        return f"{self.place}, row {self.number(at)}"

    def after(self, rows: int) -> "Location":
        """Return the location of the rows that follow the first so many."""
        return replace(self, first_row=self.first_row + rows)


class RowError(DataError):
    """An error in a row; its message begins with the row's location."""

    def __init__(self, location: Location, at: int, problem: str) -> None:
        super().__init__(f"{location.where(at)}: {problem}")
        self.location, self.at = location, at


class Origin(NamedTuple):
    """The location of the rows of a batch from row ``start`` on, up to the next origin."""

    start: int
    location: Location
    kept: NDArray[np.int64] | None = None  # positions there, if some rows were left out


class Origins(tuple[Origin, ...]):
    """The locations of all rows of a batch, in order of ``start``."""

    __slots__ = ()

    def find(self, at: int) -> tuple[Location, int]:
        """Return the location of a row, and its position there."""
        start, location, kept = self[bisect(self, at, key=attrgetter("start")) - 1]
        return location, at - start if kept is None else int(kept[at - start])

    def where(self, at: int) -> str:
        """Return the name of the source and the number of a row in it."""
        location, at = self.find(at)
        return location.where(at)

    @staticmethod
    def together(several: Sequence["Origins"], starts: Sequence[int]) -> "Origins":
        """Join the origins of batches that are put into one.

        Args:
            several: the origins of each batch.
            starts: where in the joint batch the first row of each one is.
        """
        return Origins(
            origin._replace(start=origin.start + start)
            for origins, start in zip(several, starts, strict=True)
            for origin in origins
        )


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Chunk(Private):
    """Some rows of a source, as they are there."""

    location: Location
    rows: pa.RecordBatch
    left_out: int = 0  # lines of a file, or elements of a list, that could not be read as rows
    numbered: bool = False  # its ids are numbers of episodes: no row's, whatever the row's id is

    def parts(self, rows: int) -> Iterator["Chunk"]:
        """Yield the same rows, so many at a time."""
        for start in range(0, max(self.rows.num_rows, 1), rows):
            part = self.rows.slice(start, rows)
            left_out = 0 if start else self.left_out
            yield Chunk(self.location.after(start), part, left_out, self.numbered)


class Unread(NamedTuple):
    """A chunk that may still have to be read, and how many rows it has, about."""

    rows: int
    read: Callable[[], Chunk]

    @staticmethod
    def at_hand(chunk: Chunk) -> "Unread":
        """Wrap a chunk that has been read."""
        return Unread(chunk.rows.num_rows, lambda: chunk)


@dataclass(frozen=True)
class Source:
    """A stream of chunks.

    ``in_order`` says that rows come grouped by trajectory (and person), ids ascending, and steps
    ascending within a trajectory. ``total_rows`` is an estimate if counting would mean reading.
    ``again`` says that reading again yields the same rows. ``to_read`` yields the chunks before
    they are read, so that several threads can read at once.
    """

    chunks: Callable[[], Iterator[Chunk]]
    in_order: bool = False
    total_rows: int | None = None
    again: bool = False
    to_read: Callable[[], Iterator[Unread]] | None = None

    def unread(self) -> Generator[Unread, None, None]:
        """Yield every chunk in order, as a task that reads it."""
        if self.to_read is not None:
            yield from self.to_read()
            return
        yield from map(Unread.at_hand, self.chunks())


def one_line(problem: object) -> str:
    """Shorten a library's message to one line."""
    return " ".join(str(problem).split())[:200]
