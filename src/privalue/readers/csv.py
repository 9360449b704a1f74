"""Read CSV files: every physical line is one row.

A file is split into blocks at ends of lines, in several threads if it is uncompressed UTF-8. Arrow
splits a block into cells if every quote in it opens or closes a cell of its own line, so that a
quote in one row cannot swallow another row. Python's csv parses all other blocks, line by line; a
malformed line is left out, since its unit is unknown. The heading alone determines the delimiter.
"""

import codecs
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from privalue.errors import DataError, one_line
from privalue.readers.messages import data_error, render
from privalue.readers.source import Batch, Dialect, Task, Types, text_schema

ENDINGS = tuple(name + suffix for name in (".csv", ".tsv") for suffix in ("", ".gz", ".zst"))
BLOCK_BYTES = 1 << 21  # memory for larger blocks would be requested from the system each time
LONGEST_HEADING = 1 << 22  # bytes
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_DELIMITERS = (",", ";", "\t", "|")

# No limit, as in Arrow; otherwise reading a long cell would depend on the other rows of its block.
csv.field_size_limit(2**31 - 1)


class EncodingError(DataError):
    """The heading is not valid in the declared encoding."""


@dataclass(frozen=True)
class CsvFile:
    """A CSV file with its heading."""

    path: Path
    names: list[str]
    delimiter: str
    encoding: str
    decimal: str
    heading_bytes: int

    @property
    def schema(self) -> pa.Schema:
        """Return the columns, all as texts."""
        return text_schema(self.names)

    @property
    def divisible(self) -> bool:
        """Return whether a part of the file can be read without the parts before it."""
        return self.encoding == "utf-8" and self.path.suffix.lower() not in _COMPRESSIONS

    @property
    def parts(self) -> int:
        """Return the number of parts that can be read independently."""
        return len(self._block_offsets()) if self.divisible else 1

    def tasks(self, types: Types, first: int = 0, last: int | None = None) -> Iterator[Task]:
        """Yield tasks that read a few megabytes of lines each, of all parts or of some."""
        if self.divisible:
            for begin in self._block_offsets()[first:last]:
                yield partial(self._block, types, begin)
            return
        line = 1
        for text in self._blocks():
            rows = text if line > 1 else text.partition(b"\n")[2]
            yield partial(self._batch, types, rows, partial(int, max(line, 2)))
            line += text.count(b"\n")

    def _block_offsets(self) -> range:
        """Return the offsets at which blocks of the file begin."""
        return range(self.heading_bytes, self.path.stat().st_size, BLOCK_BYTES)

    def _block(self, types: Types, begin: int) -> Batch:
        """Read the lines that begin in the block at byte ``begin``."""
        with self.path.open("rb") as file:
            file.seek(begin - 1)  # a line begins where the one before it ended
            before = file.readline(BLOCK_BYTES)
            text = b""
            if before.endswith(b"\n"):
                text = file.read(BLOCK_BYTES - len(before)) + file.readline()
        return self._batch(types, text, partial(self._line_at, begin - 1 + len(before)))

    def _line_at(self, byte: int) -> int:
        """Return the number of the line that begins at a byte, for messages."""
        line = 1
        with self.path.open("rb") as file:
            while byte > 0 and (block := file.read(min(BLOCK_BYTES, byte))):
                line, byte = line + block.count(b"\n"), byte - len(block)
        return line

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks of whole lines in UTF-8."""
        rest = bytearray()  # the beginning of a line; it grows in linear time
        try:
            with open_bytes(self.path) as file:
                for block in _decode(file, self.encoding):
                    end = block.rfind(b"\n") + 1
                    if end:
                        yield bytes(rest + block[:end])
                        rest.clear()
                    rest += block[end:]
        except (OSError, EOFError, pa.ArrowException, UnicodeError) as problem:
            raise data_error("csv-unreadable", path=self.path, problem=one_line(problem)) from None
        if rest:
            yield bytes(rest)

    def _batch(self, types: Types, text: bytes, first_line: Callable[[], int]) -> Batch:
        """Return lines as rows, without malformed lines."""
        bad: list[int] = []
        rows = None
        if _is_sound(text, self.delimiter):
            if b"x" not in text and b"X" not in text:  # Arrow would read 0x10 as a number
                rows = self._split(text, types)
            rows = rows or self._split(text, dict.fromkeys(types, pa.string()))
        rows = rows or self._parse_lines(text, types, bad)

        def locate(at: int) -> str:
            malformed = set(bad)
            numbers = (n for n, line in enumerate(_lines(text)) if line and n not in malformed)
            return f"{self.path}, line {first_line() + next(islice(numbers, at, None))}"

        problem = None
        if bad:
            about = {"cells": len(self.names), "encoding": self.encoding, "path": self.path}
            line = first_line() + bad[0]
            problem = data_error("line-invalid", delimiter=self.delimiter, line=line, **about)
        return Batch(rows, locate, left_out=len(bad), problem=problem)

    def _split(self, text: bytes, types: Types) -> pa.RecordBatch | None:
        """Return the cells of sound lines; None if there are none, or Arrow refuses a cell."""
        if not text.lstrip(b"\r\n"):
            return None
        if text.startswith(codecs.BOM_UTF8):  # here it is part of a cell, but Arrow would drop it
            text = b"\n" + text
        try:
            table = pacsv.read_csv(
                pa.py_buffer(text),
                pacsv.ReadOptions(
                    use_threads=False, column_names=self.names, block_size=len(text) + 1
                ),
                pacsv.ParseOptions(
                    delimiter=self.delimiter, quote_char='"' if b'"' in text else False
                ),
                pacsv.ConvertOptions(
                    include_columns=list(types),
                    column_types=types,
                    null_values=[""],
                    decimal_point=self.decimal,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return table.combine_chunks().to_batches()[0]

    def _parse_lines(self, text: bytes, types: Types, bad: list[int]) -> pa.RecordBatch:
        """Return rows, parsed line by line; append the positions of malformed lines to ``bad``."""
        positions = [self.names.index(name) for name in types]
        columns: list[list[str]] = [[] for _ in positions]
        for number, line in enumerate(_lines(text)):
            cells = self._parse_line(line) if line else None
            if cells is not None:
                for column, position in zip(columns, positions, strict=True):
                    column.append(cells[position])
            elif line:
                bad.append(number)
        arrays = [pa.array(column, pa.string()) for column in columns]
        return pa.record_batch(arrays, names=list(types))

    def _parse_line(self, line: bytes) -> list[str] | None:
        """Return the cells of a line; None if it is malformed."""
        try:
            (cells,) = csv.reader([line.decode()], delimiter=self.delimiter, strict=True)
        except (UnicodeDecodeError, csv.Error, ValueError):
            return None
        return cells if len(cells) == len(self.names) and b"\r" not in line else None


def open_csv(path: Path, dialect: Dialect) -> CsvFile:
    """Open a file and read its heading, which alone determines the delimiter.

    A byte order mark at the beginning of the file overrides the study's encoding.
    """
    try:
        with open_bytes(path) as file:
            start = file.read(LONGEST_HEADING)
    except (OSError, EOFError, pa.ArrowException) as problem:
        raise data_error("csv-unreadable", path=path, problem=one_line(problem)) from None
    encoding = dialect.encoding
    if start[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
        encoding = "utf-16"
    elif start.startswith(codecs.BOM_UTF8) or codecs.lookup(encoding).name.startswith("utf-8"):
        encoding = "utf-8"
    size = start.find(b"\n") + 1 or len(start)
    try:
        is_wide = encoding == "utf-16"  # then b"\n" may be half of a character
        text = start.decode(encoding, "ignore") if is_wide else start[:size].decode(encoding)
    except UnicodeDecodeError:
        raise EncodingError(render("csv-encoding", path=path, encoding=encoding)) from None
    line = text.removeprefix("\ufeff").split("\n", 1)[0].removesuffix("\r")
    if not line:
        raise data_error("table-empty", place=path)
    if "\r" in line:
        raise data_error("csv-returns", path=path)
    delimiters = [dialect.delimiter] if dialect.delimiter else _DELIMITERS
    names = {mark: next(csv.reader([line], delimiter=mark), []) for mark in delimiters}
    delimiter = max(delimiters, key=lambda mark: len(names[mark]))
    return CsvFile(path, names[delimiter], delimiter, encoding, dialect.decimal, size)


def open_bytes(path: Path) -> Any:
    """Open a file for reading, decompressed."""
    compression = _COMPRESSIONS.get(path.suffix.lower())
    return pa.input_stream(str(path), compression=compression) if compression else path.open("rb")


def _decode(file: Any, encoding: str) -> Iterator[bytes]:
    """Yield a file in UTF-8, block by block.

    A byte that is invalid in the file's encoding becomes invalid UTF-8, which invalidates its line
    alone.
    """
    if encoding == "utf-8":
        yield from iter(partial(file.read, BLOCK_BYTES), b"")
        return
    errors = "surrogatepass" if encoding == "utf-16" else "surrogateescape"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    while block := file.read(BLOCK_BYTES):
        yield decoder.decode(block).encode("utf-8", "surrogatepass")
    try:
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # an incomplete character: only the last line is invalid
        yield b"\xff"


def _is_sound(text: bytes, delimiter: str) -> bool:
    """Return whether lines are valid UTF-8 without bare CRs, and close their quotes.

    Every quote opens or closes a cell of its own line, or is doubled inside a cell.
    """
    try:
        text.isascii() or text.decode()
    except UnicodeDecodeError:
        return False
    if b"\r" in text and text.replace(b"\r\n", b"").count(b"\r") > text.endswith(b"\r"):
        return False
    if b'"' not in text:
        return True
    data = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    quotes, ends = np.flatnonzero(data == ord('"')), np.flatnonzero(data == ord("\n"))
    if (np.searchsorted(quotes, ends) % 2).any():
        return False
    borders = np.frombuffer(f'{delimiter}\n\r"'.encode(), np.uint8)
    before, after = data[quotes[::2] - 1], data[quotes[1::2] + 1]
    return bool(np.isin(before, borders).all() and np.isin(after, borders).all())


def _lines(text: bytes) -> list[bytes]:
    """Return the lines without line ends."""
    return [line.removesuffix(b"\r") for line in text.removesuffix(b"\n").split(b"\n")]
