"""Rows on their way in: chunks of them, and the sources that they come from."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from privalue.core._private import Private, sealed

BATCH_ROWS = 1 << 17


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Chunk(Private):
    """Some rows of a source, as they stand there.

    ``locate`` maps a row's number to a description such as "trial.csv, row 17", where
    ``first_row`` plus its position would be wrong.
    """

    place: str
    first_row: int  # counted from 1, the heading of a CSV file not counted
    rows: pa.RecordBatch
    locate: Callable[[int], str] | None = None
    left_out: int = 0  # lines of a file that are no row of anybody

    def parts(self, rows: int) -> Iterator["Chunk"]:
        """The same, so many rows at a time."""
        for start in range(0, max(self.rows.num_rows, 1), rows):
            part = self.rows.slice(start, rows)
            left_out = 0 if start else self.left_out
            yield Chunk(self.place, self.first_row + start, part, self.locate, left_out)

    def where(self, at: int) -> str:
        """The file and the number of a row in it."""
        number = self.first_row + at
        return self.locate(number) if self.locate else f"{self.place}, row {number}"


class Piece(NamedTuple):
    """A chunk that may still have to be read."""

    rows: int
    read: Callable[[], Chunk]

    @staticmethod
    def at_hand(chunk: Chunk) -> "Piece":
        """A piece that has been read."""
        return Piece(chunk.rows.num_rows, lambda: chunk)


@dataclass(frozen=True)
class Source:
    """A stream of chunks.

    ``in_order`` says that rows come grouped by trajectory (and person), ids ascending, and steps
    ascend within; ``total_rows`` is an estimate where counting would mean reading; ``again`` says
    that the same rows come again when it is read again; ``pieces`` are the chunks, still to be
    read, so that several threads can read at once.
    """

    chunks: Callable[[], Iterator[Chunk]]
    in_order: bool = False
    total_rows: int | None = None
    again: bool = False
    pieces: Callable[[], Iterator[Piece]] | None = None

    def unread(self) -> Generator[Piece, None, None]:
        """Every chunk in order, as something to call for it."""
        if self.pieces is not None:
            yield from self.pieces()
            return
        yield from map(Piece.at_hand, self.chunks())


def one_line(problem: object) -> str:
    """What a library complains of, short enough for a line."""
    return " ".join(str(problem).split())[:200]
