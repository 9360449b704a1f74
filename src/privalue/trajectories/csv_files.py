"""CSV files: by blocks of lines, in several threads, or from the beginning where cells are quoted.

A quoted cell may hold the end of a line, so only a file without quotes can be cut anywhere. Whether
it has some is seen on the way; it is then read again, from its beginning.
"""

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from privalue.errors import DataError
from privalue.kernels import kernel
from privalue.private import Private, sealed
from privalue.sections import Columns
from privalue.trajectories.chunks import Chunk, Piece, one_line, select

BLOCK_BYTES = 1 << 22
_ROW_BYTES = 16  # about


class NotPlainError(Exception):
    """Lines of the file cannot be told without reading it from the beginning."""


def csv_columns(path: Path, columns: Columns) -> list[str]:
    """The names of the columns to read."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
            heading = next(csv.reader(text), [])
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as problem:
        raise DataError(
            f"{path} cannot be read as CSV (UTF-8, comma-separated): {problem}"
        ) from None
    if not heading:
        raise DataError(f"{path} is empty; it needs a heading and at least one row")
    return select(columns, heading, str(path))


def csv_rows(paths: Sequence[Path]) -> int | None:
    """About how many rows there are, by the size of the first ones; None where compressed."""
    lines = sampled = size = 0
    for path in paths:
        if path.name.lower().endswith(".gz"):
            return None
        with path.open("rb") as file:
            sample = file.read(1 << 16)
        size += path.stat().st_size
        sampled += len(sample)
        lines += sample.count(b"\n")
    return max(lines, size * lines // max(sampled, 1)) - len(paths)


def csv_chunks(path: Path, names: list[str]) -> Iterator[Chunk]:
    """Every row in order, as text."""
    first_row = 1
    if not _has_rows(path):
        return
    with _explained(path, lambda: -1) as remember:  # the heading is a row here
        reader = pacsv.open_csv(
            path,
            # One thread: only then does a malformed row come with its number.
            read_options=pacsv.ReadOptions(use_threads=False, block_size=1 << 23),
            parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=remember),
            convert_options=_conversion(names),
        )
        for batch in reader:
            yield Chunk(str(path), first_row, batch)
            first_row += batch.num_rows


def _has_rows(path: Path) -> bool:
    """Whether anything follows the heading: of a heading alone the parser would complain."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", errors="replace", newline="") as text:
        try:
            return len(list(islice(csv.reader(text), 2))) > 1
        except csv.Error:  # the parser knows better what to say
            return True


def _conversion(names: list[str]) -> Any:
    """Text as it stands: an id "NA" is an id, and a mistake can be quoted."""
    return pacsv.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=False,
        null_values=[],
    )


@contextmanager
def _explained(path: Path, rows_before: Callable[[], int]) -> Iterator[Callable[[Any], str]]:
    """What the parser complains of, in our words; yields its handler of malformed rows."""
    bad: list[Any] = []

    def remember(row: Any) -> str:
        bad.append(row)
        return "error"

    try:
        yield remember
    except (pa.ArrowException, OSError) as problem:
        if bad:
            row = bad[0]
            where = f", row {row.number + rows_before()}" if row.number else ""
            raise DataError(
                f"{path}{where}: {row.actual_columns} columns where the heading has "
                f"{row.expected_columns}; quote cells that hold a comma"
            ) from None
        raise DataError(f"{path} cannot be read as CSV: {one_line(problem)}") from None


# Blocks of lines


class Heading(NamedTuple):
    """The first line of a file."""

    columns: list[str]
    size: int  # bytes


def plain_heading(path: Path) -> Heading | None:
    """The heading of a file that can be cut into lines as far as it shows; None of any other."""
    if path.name.lower().endswith(".gz"):
        return None
    with path.open("rb") as file:
        line = file.readline()
    whole = line.count(b'"') % 2 == 0  # no quoted name goes on in the next line
    if not whole or b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        return None
    return Heading(next(csv.reader([line.decode("utf-8-sig")])), len(line))


def plain_blocks(path: Path, heading: Heading, names: list[str]) -> Iterator[Piece]:
    """The rows of a file without quotes, a few megabytes of them at a time."""
    for begin in range(heading.size, path.stat().st_size, BLOCK_BYTES):
        yield Piece(BLOCK_BYTES // _ROW_BYTES, partial(_block, path, heading, names, begin))


def _block(path: Path, heading: Heading, names: list[str], begin: int) -> Chunk:
    """The lines that begin in the block at ``begin``."""
    with path.open("rb") as file:
        file.seek(begin - 1)  # a line begins where the one before it ended
        text = file.read(BLOCK_BYTES + 1)
        if not text.endswith(b"\n"):
            text += file.readline()
    first = text.find(b"\n", 0, BLOCK_BYTES) + 1 or len(text)
    lines = _Lines(path, heading, names, begin - 1, first, text)
    return lines.as_numbers() or lines.as_text()


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class _Lines(Private):
    """Some lines of a file: the bytes from ``begin`` on, without those before ``first``."""

    path: Path
    heading: Heading
    names: list[str]
    begin: int
    first: int
    text: bytes

    def as_numbers(self) -> Chunk | None:
        """The rows, if all cells are plain numbers."""
        if not self.text.endswith(b"\n"):
            return None
        columns = self.heading.columns
        roles = np.array([self.names.index(n) if n in self.names else -1 for n in columns])
        room = len(self.text) // (len(columns) + len(self.names)) + 1  # a digit a cell, no less
        whole, rewards = np.empty((len(self.names) - 1, room), np.int64), np.empty(room)
        text = np.frombuffer(self.text, np.uint8)
        rows = _parse(text, self.first, roles, whole, rewards)
        if rows < 0:
            return None
        cells = [*whole[:, :rows], rewards[:rows]]
        numbers = pa.record_batch([pa.array(cell) for cell in cells], names=self.names)
        return Chunk(str(self.path), 1, numbers, self.place(), self.as_text)

    def as_text(self) -> Chunk:
        """The rows as they stand."""
        text = self.text[self.first :]
        if b'"' in text or text.count(b"\r") != text.count(b"\r\n"):
            raise NotPlainError
        rows = pa.record_batch({name: pa.array([], pa.string()) for name in self.names})
        before = partial(_rows_before, self.path, self.heading.size, self.begin + self.first)
        if text.strip(b"\r\n"):
            with _explained(self.path, before) as remember:
                table = pacsv.read_csv(
                    pa.py_buffer(text),
                    read_options=pacsv.ReadOptions(
                        use_threads=False,
                        column_names=self.heading.columns,
                        block_size=len(text) + 1,
                    ),
                    parse_options=pacsv.ParseOptions(invalid_row_handler=remember),
                    convert_options=_conversion(self.names),
                )
            rows = table.combine_chunks().to_batches()[0]
        return Chunk(str(self.path), 1, rows, self.place())

    def place(self) -> Callable[[int], str]:
        """Tells where a row is, in words; it outlives the lines, and does not keep them."""
        return partial(_place, self.path, self.heading.size, self.begin + self.first)


def _place(path: Path, heading: int, begin: int, number: int) -> str:
    return f"{path}, row {_rows_before(path, heading, begin) + number}"


def _rows_before(path: Path, heading: int, begin: int) -> int:
    """How many rows a file has before a line: only a mistake pays for counting them."""
    rows, at = 0, heading
    with path.open("rb") as file:
        file.seek(at)
        while at < begin:
            line = file.readline()
            at += len(line)
            rows += bool(line.strip(b"\r\n"))
    return rows


# Powers of ten are exact up to 22, and so are whole numbers below 2^53: one division rounds as
# reading the decimal does.
_POWERS = np.array([float(10**power) for power in range(16)])


@kernel(nogil=True)
def _parse(text, at, roles, whole, rewards):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Fills the columns from ``at`` on; how many rows, or -1 where a cell is no plain number.

    A role is a row of ``whole``, or the one after the last for the reward, or -1. The text ends
    with the end of a line, which ends every loop.
    """
    row = 0
    while at < len(text):
        for column in range(len(roles)):
            role, good = roles[column], True
            if role < 0:
                at, good = _passed_over(text, at)
            elif role < len(whole):
                whole[role, row], at, good = _whole_number(text, at)
            else:
                rewards[row], at, good = _decimal(text, at)
            if column < len(roles) - 1:
                good &= text[at] == ord(",")
                at += good
            if not good:
                return -1
        at += text[at] == ord("\r")
        if text[at] != ord("\n"):
            return -1
        at += 1
        row += 1
    return row


@kernel(nogil=True, inline="always")
def _digits(text, at):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    number = np.int64(0)
    while ord("0") <= text[at] <= ord("9"):
        number = 10 * number + (np.int64(text[at]) - ord("0"))
        at += 1
    return number, at


@kernel(nogil=True, inline="always")
def _whole_number(text, at):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """As it is usually written, up to 18 digits: an id 007 is not 7, nor is -0."""
    negative = text[at] == ord("-")
    begin = at + negative
    number, at = _digits(text, begin)
    usual = text[begin] != ord("0") or (at == begin + 1 and not negative)
    return (-number if negative else number), at, usual and 0 < at - begin <= 18


@kernel(nogil=True, inline="always")
def _decimal(text, at):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Up to 15 digits, with or without a point among them."""
    negative = text[at] == ord("-")
    begin = at + negative
    number, at = _digits(text, begin)
    digits, after, good = at - begin, 0, at > begin
    if text[at] == ord("."):
        fraction, end = _digits(text, at + 1)
        after, at = end - at - 1, end
        good &= after > 0
    if digits + after > 15:
        return 0.0, at, False
    if after:
        number = number * np.int64(_POWERS[after]) + fraction
    value = number / _POWERS[after]
    return (-value if negative else value), at, good


@kernel(nogil=True, inline="always")
def _passed_over(text, at):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Up to the end of a cell that nobody reads, if it has no quotes."""
    good = True
    while text[at] != ord(",") and text[at] != ord("\n") and text[at] != ord("\r"):
        good &= text[at] != ord('"')
        at += 1
    return at, good
