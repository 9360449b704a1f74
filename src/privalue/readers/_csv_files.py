"""Read CSV files: a physical line is a row, whatever is in it.

A file is cut into blocks at ends of lines, in several threads if it is neither compressed nor in
another encoding. Each line is checked by itself: as many cells as the heading has, quotes that are
closed in the same line, valid text. So no quote of one row can swallow another row; a line that
fails is an invalid row, and it is not known whose. Arrow splits the lines that pass into cells, as
texts; the study declares what a cell means (``_cells``). The delimiter follows from the heading
alone.
"""

import codecs
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from privalue.core import jit
from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Location, Unread, one_line
from privalue.readers._plain_lines import PlainLines
from privalue.readers._rules import RowRules

ENDINGS = tuple(name + packed for name in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))
BLOCK_BYTES = 1 << 22
LINE_BYTES = 1 << 16  # more than almost all lines have
MOST_HEADING = 1 << 26
ROW_BYTES = 16  # about
_MARKS = (",", ";", "\t", "|")
_OTHER_KINDS = (  # how files begin that are not CSV, and the ending that they should have
    (b"PAR1\x15", "a Parquet file", ".parquet"),
    (b"PK\x03\x04", "a workbook or another zip archive", ".xlsx, if it is a workbook"),
    (b"\x1f\x8b", "packed by gzip", ".csv.gz"),
)


class EncodingError(DataError):
    """The heading is not in the encoding that it was read in."""


class Heading(NamedTuple):
    """The first line of a file."""

    columns: list[str]
    delimiter: str
    encoding: str
    size: int  # bytes


class CsvFile(NamedTuple):
    """A CSV file, its heading read."""

    path: Path
    heading: Heading
    rules: RowRules
    plain: PlainLines | None

    @property
    def cut_anywhere(self) -> bool:
        """Return whether every line can be found without reading those before it."""
        return self.heading.encoding == "utf-8" and not _packed(self.path)


def is_csv(path: Path) -> bool:
    """Return whether the file's name is that of a CSV file."""
    return path.name.lower().endswith(ENDINGS)


def open_csv(path: Path, rules: RowRules) -> CsvFile:
    """Read the heading, and refuse a file without the columns that are needed."""
    found = heading(path, rules.encoding, rules.delimiter)
    rules.select(found.columns, str(path))
    return CsvFile(path, found, rules, PlainLines.of(found.columns, found.delimiter, rules))


def heading(path: Path, encoding: str = "utf-8", delimiter: str | None = None) -> Heading:
    """Read the first line, which alone decides the delimiter.

    Args:
        path: the file.
        encoding: as declared; a byte order mark at the beginning of the file wins.
        delimiter: as declared; None: the mark that splits the heading into most cells.
    """
    try:
        with _opened(path) as file:
            start = file.read(1 << 16)
            while b"\n" not in start and len(start) < MOST_HEADING and (more := file.read(1 << 20)):
                start += more
    except (OSError, EOFError, pa.ArrowException) as problem:
        raise DataError(f"{path} cannot be read as CSV: {one_line(problem)}") from None
    for begins, kind, ending in _OTHER_KINDS:
        if start.startswith(begins):  # as no heading does; rows have no say in it
            raise DataError(f"{path} is {kind}, not CSV; give it a name that ends in {ending}")
    if start[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
        encoding = "utf-16"
    elif start.startswith(codecs.BOM_UTF8) or codecs.lookup(encoding).name.startswith("utf-8"):
        encoding = "utf-8"
    size = start.find(b"\n") + 1 or len(start)
    try:
        wide = encoding == "utf-16"
        text = start.decode(encoding, "ignore") if wide else start[:size].decode(encoding)
    except UnicodeDecodeError:
        raise EncodingError(
            f'{path} is not {encoding}; say what it is: [data] encoding = "cp1252", or whatever'
        ) from None
    line = text.removeprefix("\ufeff").split("\n", 1)[0].removesuffix("\r")
    if "\r" in line:
        raise DataError(f"{path} ends its lines with a bare CR; save it with ends of lines LF")
    if not line:
        raise DataError(f"{path} is empty; it needs a heading and at least one row")
    if delimiter is None:
        delimiter = max(_MARKS, key=lambda mark: len(_cells(line, mark, path)))
    return Heading(_cells(line, delimiter, path), delimiter, encoding, size)


def _cells(line: str, delimiter: str, path: Path) -> list[str]:
    """Return the cells of a heading, or raise DataError."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as problem:
        raise DataError(f"{path}: the heading cannot be read as CSV: {problem}") from None


def csv_rows(files: Sequence[CsvFile]) -> int | None:
    """Return about how many rows there are, by the length of the first ones; None if compressed."""
    lines = sampled = size = 0
    for one in files:
        if not one.cut_anywhere:
            return None
        with one.path.open("rb") as file:
            sample = file.read(1 << 16)
        size += one.path.stat().st_size
        sampled += len(sample)
        lines += sample.count(b"\n")
    return max(lines, size * lines // max(sampled, 1)) - len(files)


def csv_blocks(file: CsvFile) -> int:
    """Return into how many blocks a file is cut."""
    return len(_blocks(file)) if file.cut_anywhere else 1


def _blocks(file: CsvFile) -> range:
    """Return where the blocks of a file begin."""
    return range(file.heading.size, file.path.stat().st_size, BLOCK_BYTES)


def csv_unread(file: CsvFile, first: int = 0, last: int | None = None) -> Iterator[Unread]:
    """Yield the rows of a file as tasks, a few megabytes of lines each.

    Args:
        file: the file.
        first: the block to begin with, if the file can be cut anywhere.
        last: the block to end before; None: all of them.
    """
    if file.cut_anywhere:
        for begin in _blocks(file)[first:last]:
            yield Unread(BLOCK_BYTES // ROW_BYTES, partial(_block, file, begin))
        return
    first_row = 1
    for text in _streamed(file):
        chunk = _chunk(file, text, Location(str(file.path), first_row))
        first_row += _count_rows(text)
        yield Unread.at_hand(chunk)


def csv_chunks(file: CsvFile) -> Iterator[Chunk]:
    """Yield every row in order."""
    return (chunk.read() for chunk in csv_unread(file))


# Blocks of whole lines


def _block(file: CsvFile, begin: int) -> Chunk:
    """Read the lines that begin in the block at byte ``begin``."""
    room = _room()
    with file.path.open("rb", buffering=0) as opened:
        opened.seek(begin - 1)  # a line begins where the one before it ended
        size = 0
        while size < len(room) and (more := opened.readinto(memoryview(room)[size:])):
            size += more
        end = room.find(b"\n", BLOCK_BYTES, size) + 1 or size
        first = room.find(b"\n", 0, min(BLOCK_BYTES, size)) + 1 or end  # none begins here
        cut = first < end == size == len(room)
        rest = _rest_of_line(opened) if cut and room[-1] != _LF else b""
    location = _Lines(str(file.path), heading=file.heading.size, begin=begin - 1 + first)
    if file.plain is not None and not rest:
        rows = file.plain.read(np.frombuffer(room, np.uint8)[first:end])
        if rows is not None:
            return Chunk(location, rows)
    return _chunk(file, bytes(room[first:end]) + rest, location)


_ROOMS = local()


def _room() -> bytearray:
    """Return this thread's room for a block and the rest of its last line."""
    found: bytearray = getattr(_ROOMS, "bytes", bytearray())
    if len(found) != BLOCK_BYTES + LINE_BYTES:
        found = _ROOMS.bytes = bytearray(BLOCK_BYTES + LINE_BYTES)
    return found


def _rest_of_line(opened: Any) -> bytes:
    """Return what a file has from here up to the end of the line."""
    found = b""
    while more := opened.read(LINE_BYTES):
        end = more.find(b"\n") + 1
        found += more[: end or len(more)]
        if end:
            break
    return found


def _streamed(file: CsvFile) -> Iterator[bytes]:
    """Yield blocks of whole lines after the heading, in UTF-8.

    A byte that is not a character in the file's encoding becomes one that is not valid UTF-8, so
    that the line that holds it is invalid, and no other line.
    """
    rest, heading = b"", True
    try:
        with _opened(file.path) as opened:
            for block in _decoded(opened, file.heading.encoding):
                text = rest + block
                end = text.rfind(b"\n") + 1
                rest = text[end:]
                if heading and end:
                    text, end = text[text.find(b"\n") + 1 :], end - text.find(b"\n") - 1
                    heading = False
                if end > 0:
                    yield text[:end]
    except (OSError, EOFError, pa.ArrowException, UnicodeError) as problem:
        raise DataError(f"{file.path} cannot be read as CSV: {one_line(problem)}") from None
    if rest and not heading:
        yield rest


def _decoded(opened: Any, encoding: str) -> Iterator[bytes]:
    """Yield the file in UTF-8, block by block."""
    if encoding == "utf-8":
        while block := opened.read(BLOCK_BYTES):
            yield block
        return
    errors = "surrogatepass" if encoding == "utf-16" else "surrogateescape"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    while block := opened.read(BLOCK_BYTES):
        yield decoder.decode(block).encode("utf-8", "surrogatepass")
    try:
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # half a character: the last line is invalid, and no other
        yield b"\xff"


def _chunk(file: CsvFile, text: bytes, location: Location) -> Chunk:
    """Return lines as rows of texts; leave out those that fail, or raise for the first."""
    left_out, sound = 0, _is_text(text)
    if not sound or b'"' in text or text.count(b"\r") != text.count(b"\r\n"):
        lines = _checked(
            np.frombuffer(text, np.uint8), ord(file.heading.delimiter), len(file.heading.columns)
        )
        if not sound:
            for line in lines:
                line[2] &= _is_text(text[line[0] : line[1]])
        bad = np.flatnonzero(lines[:, 2] == 0)
        if len(bad) and not file.rules.drop_invalid:
            begin, end, _ = lines[bad[0]]
            what = _what_is_wrong(text[begin:end], file.heading)
            raise DataError(f"{location.where(int(bad[0]))}: the line has {what}")
        if len(bad):
            left_out = len(bad)
            text = b"".join(text[begin:end] for begin, end, good in lines.tolist() if good)
    rows, skipped = _split(file, text, location)
    return Chunk(location, rows, left_out + skipped)


def _what_is_wrong(line: bytes, heading: Heading) -> str:
    """Return what makes a line invalid, for a message."""
    if not _is_text(line):
        return f"bytes that are no {heading.encoding}; [data] encoding says how it is written"
    if b"\r" in line.rstrip(b"\r\n"):
        return "a CR inside it; convert the file to Parquet"
    if b'"' in line:
        return (
            "quotes that it does not close, or that stand inside a cell, or another number of "
            "cells than the heading; a cell holds no end of line: convert the file to Parquet"
        )
    return f"not the {len(heading.columns)} cells of the heading; convert the file to Parquet"


def _split(file: CsvFile, text: bytes, location: Location) -> tuple[pa.RecordBatch, int]:
    """Return the cells of good lines, and how many lines were left out here.

    Arrow itself leaves out a line with another number of cells than the heading, or fails with it.
    """
    names = file.rules.names
    bad: list[Any] = []

    def remember(row: Any) -> str:
        bad.append(row)
        return "skip" if file.rules.drop_invalid else "error"

    rows = pa.record_batch({name: pa.nulls(0, pa.string()) for name in names})
    if not text.strip(b"\r\n"):
        return rows, 0
    if text.startswith(codecs.BOM_UTF8):  # part of a cell: Arrow would drop it as a file's mark
        text = b"\n" + text
    try:
        table = pacsv.read_csv(
            pa.py_buffer(text),
            read_options=pacsv.ReadOptions(
                use_threads=False,  # only then does a malformed row come with its number
                column_names=file.heading.columns,
                block_size=len(text) + 1,
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=file.heading.delimiter, invalid_row_handler=remember
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                null_values=[],
                check_utf8=False,
            ),
        )
    except pa.ArrowException as problem:
        if bad:
            row = bad[0]
            raise DataError(
                f"{location.where((row.number or 1) - 1)}: {row.actual_columns} cells "
                f"where the heading has {row.expected_columns}; quote cells that hold "
                f"{file.heading.delimiter!r}, or convert the file to Parquet"
            ) from None
        raise DataError(f"{file.path} cannot be read as CSV: {one_line(problem)}") from None
    batches = table.combine_chunks().to_batches()
    return (batches[0].select(names) if batches else rows), len(bad)


def _is_text(text: bytes) -> bool:
    """Return whether the bytes are valid UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


_LF, _CR, _QUOTE = b'\n\r"'  # as numbers: to compile ord() takes longer than the kernel


@jit(nogil=True)
def _checked(text, delimiter, columns):  # type: ignore[no-untyped-def]  # noqa: PLR0912  # pragma: no cover - compiled
    """Return begin, end and validity of every line that is not blank.

    A cell is either quoted from its first character to its last, with quotes inside doubled, or has
    no quote at all; an end of line ends the row, quoted or not.

    Args:
        text: bytes of whole lines.
        delimiter: one byte.
        columns: how many cells a line must have.
    """
    found = np.empty((1024, 3), dtype=np.int64)
    count = 0
    at = 0
    while at < len(text):
        begin, cells, good = at, 1, True
        quoted, fresh = False, True  # inside quotes; at the beginning of a cell
        while at < len(text) and text[at] != _LF:
            byte = text[at]
            if byte == _QUOTE:
                if fresh:
                    quoted = True
                elif quoted and at + 1 < len(text) and text[at + 1] == _QUOTE:
                    at += 1
                elif quoted:
                    quoted = False
                    after = text[at + 1] if at + 1 < len(text) else _LF
                    good &= after in (delimiter, _LF, _CR)
                else:
                    good = False
                fresh = False
            elif byte == delimiter and not quoted:
                cells += 1
                fresh = True
            else:
                if byte == _CR:
                    good &= at + 1 == len(text) or text[at + 1] == _LF
                fresh = False
            at += 1
        blank = True
        for i in range(begin, at):
            blank &= text[i] == _CR
        at += at < len(text)
        if blank:
            continue
        if count == len(found):
            found = np.concatenate((found, np.empty_like(found)))
        found[count, 0], found[count, 1] = begin, at
        found[count, 2] = good and not quoted and cells == columns
        count += 1
    return found[:count]


# Where a row is


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines(Location):
    """The location of rows from a byte of a file on; rows before it are counted for errors only."""

    heading: int  # bytes
    begin: int

    def number(self, at: int) -> int:
        """Return the number of a row in the file."""
        rows, byte = 0, self.heading
        with Path(self.place).open("rb") as opened:
            opened.seek(byte)
            while byte < self.begin:
                line = opened.readline()
                byte += len(line)
                rows += bool(line.strip(b"\r\n"))
        return rows + self.first_row + at


def _count_rows(text: bytes) -> int:
    """Return how many lines are not blank."""
    return sum(bool(line.strip(b"\r")) for line in text.split(b"\n"))


def _packed(path: Path) -> bool:
    """Return whether the file is compressed, by its name."""
    return path.name.lower().endswith((".gz", ".zst"))


def _opened(path: Path) -> Any:
    """Open a file for reading, decompressed."""
    if path.name.lower().endswith(".zst"):
        return pa.input_stream(str(path), compression="zstd")
    if path.name.lower().endswith(".gz"):
        return pa.input_stream(str(path), compression="gzip")
    return path.open("rb")
