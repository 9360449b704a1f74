"""Rows on their way in: chunks of them, and the sources that they come from."""

import difflib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from privalue.errors import DataError
from privalue.private import Private, sealed
from privalue.sections import Columns

BATCH_ROWS = 1 << 17


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Chunk(Private):
    """Some rows of a source: where they are from, the first one's number there, and the values."""

    place: str
    first_row: int  # counted from 1, the heading of a CSV file not counted
    rows: pa.RecordBatch
    told: Callable[[int], str] | None = None  # of a row's number, where rows are not as they were
    # Of cells that were read as numbers: the same rows as they stand. Ids are texts then, each the
    # usual way to write its number.
    as_text: Callable[[], "Chunk"] | None = None

    def parts(self, rows: int) -> Iterator["Chunk"]:
        """The same, so many rows at a time."""
        for start in range(0, self.rows.num_rows, rows):
            as_text = None if self.as_text is None else partial(self._part_as_text, start, rows)
            part = self.rows.slice(start, rows)
            yield Chunk(self.place, self.first_row + start, part, self.told, as_text)

    def _part_as_text(self, start: int, rows: int) -> "Chunk":
        assert self.as_text is not None
        text = self.as_text()
        return Chunk(text.place, text.first_row + start, text.rows.slice(start, rows), text.told)


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

    ``in_order`` says that rows come grouped by trajectory (and person) and steps ascend within;
    ``total_rows`` is an estimate where counting would mean reading; ``again`` says that the same
    rows come again when it is read again; ``pieces`` are the chunks, still to be read, so that
    several threads can read at once.
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


def select(columns: Columns, present: Sequence[str], place: str) -> list[str]:
    """The names of the columns to read, in the order person, trajectory, step, state, reward.

    The person's column is read where there is one: a trajectory is then the pair of both ids.
    """
    needed = [columns.trajectory, columns.step, columns.state, columns.reward]
    if "person" in columns.given or columns.person in present:
        needed.insert(0, columns.person)
    for name in needed:
        if name not in present:
            near = difflib.get_close_matches(name, [p.strip().lower() for p in present], n=1)
            if len(present) == 1 and any(mark in present[0] for mark in ";\t|"):
                hint = "separate the columns by commas"
            elif near:
                hint = f"rename the one that looks like {near[0]!r}, or map it in [data]"
            else:
                hint = "add it, or map it in the study's section [data]"
            raise DataError(
                f"{place} has no column {name!r}; it has {', '.join(map(repr, present))}: {hint}"
            )
        if list(present).count(name) > 1:
            raise DataError(f"{place} has the column {name!r} more than once; rename one")
    return needed


def one_line(problem: BaseException) -> str:
    """What a library complains of, short enough for a line."""
    return " ".join(str(problem).split())[:200]
