"""Rows on their way in: chunks of them, where they stand, and the sources that they come from."""

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
    """Where consecutive rows stand. Public, and data alone: names and numbers, nothing to call."""

    place: str
    first_row: int = 1  # counted from 1, the heading of a CSV file not counted

    def number(self, at: int) -> int:
        """Return the number of a row, by which rows of one source are in order."""
        return self.first_row + at

    def where(self, at: int) -> str:
        """Name the file and the number of a row in it."""
        return f"{self.place}, row {self.number(at)}"

    def after(self, rows: int) -> "Location":
        """Return where the rows stand that follow the first so many."""
        return replace(self, first_row=self.first_row + rows)


class RowError(DataError):
    """A mistake in a row, of which the message begins with where it is."""

    def __init__(self, location: Location, at: int, problem: str) -> None:
        super().__init__(f"{location.where(at)}: {problem}")
        self.location, self.at = location, at


class Origin(NamedTuple):
    """Where rows are from that are kept together, beginning with row ``start`` of these."""

    start: int
    location: Location
    kept: NDArray[np.int64] | None = None  # of the rows there, where some were left out


class Origins(tuple[Origin, ...]):
    """Where each of some rows is from."""

    __slots__ = ()

    def find(self, at: int) -> tuple[Location, int]:
        """Return the location of a row, and its position there."""
        start, location, kept = self[bisect(self, at, key=attrgetter("start")) - 1]
        return location, at - start if kept is None else int(kept[at - start])

    def where(self, at: int) -> str:
        """Name the file and the number of a row in it."""
        location, at = self.find(at)
        return location.where(at)

    @staticmethod
    def together(several: Sequence["Origins"], starts: Sequence[int]) -> "Origins":
        """Join the origins of rows whose first ones come to stand at ``starts``."""
        return Origins(
            origin._replace(start=origin.start + start)
            for origins, start in zip(several, starts, strict=True)
            for origin in origins
        )


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Chunk(Private):
    """Some rows of a source, as they stand there."""

    location: Location
    rows: pa.RecordBatch
    left_out: int = 0  # lines of a file that are no row of anybody

    def parts(self, rows: int) -> Iterator["Chunk"]:
        """Yield the same, so many rows at a time."""
        for start in range(0, max(self.rows.num_rows, 1), rows):
            part = self.rows.slice(start, rows)
            yield Chunk(self.location.after(start), part, 0 if start else self.left_out)


class Unread(NamedTuple):
    """A chunk that may still have to be read."""

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
    ascend within; ``total_rows`` is an estimate where counting would mean reading; ``again`` says
    that the same rows come again when it is read again; ``to_read`` are the chunks, still to be
    read, so that several threads can read at once.
    """

    chunks: Callable[[], Iterator[Chunk]]
    in_order: bool = False
    total_rows: int | None = None
    again: bool = False
    to_read: Callable[[], Iterator[Unread]] | None = None

    def unread(self) -> Generator[Unread, None, None]:
        """Yield every chunk in order, as something to call for it."""
        if self.to_read is not None:
            yield from self.to_read()
            return
        yield from map(Unread.at_hand, self.chunks())


def one_line(problem: object) -> str:
    """Shorten what a library complains of to one line."""
    return " ".join(str(problem).split())[:200]
