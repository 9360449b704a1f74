"""Read CSV files: a physical line is a row, whatever is in it.

A file is cut into blocks at ends of lines, in several threads if it is neither compressed nor in
another encoding. Arrow splits a block into cells if every quote in it opens or closes a cell of its
own line, so that no quote of one row can swallow another. Any other block is halved, and some lines
at last are looked at one by one: one that is no row is left out, and it is not known whose it is.
The delimiter follows from the heading alone.
"""

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from privalue.errors import DataError
from privalue.readers.source import Batch, Dialect, Task, one_line, texts

ENDINGS = tuple(name + packed for name in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))
BLOCK_BYTES = 1 << 22
MOST_HEADING = 1 << 26
_FEW_LINES = 4096  # that are looked at one by one, rather than halved once more
_MARKS = (",", ";", "\t", "|")
_OTHER_KINDS = (  # how files begin that are not CSV, and the ending that they should have
    (b"PAR1\x15", "a Parquet file", ".parquet"),
    (b"PK\x03\x04", "a workbook or another zip archive", ".xlsx, if it is a workbook"),
    (b"\x1f\x8b", "packed by gzip", ".csv.gz"),
)


class EncodingError(DataError):
    """The heading is not in the encoding that it was read in."""


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, its heading read."""

    path: Path
    names: list[str]
    delimiter: str
    encoding: str
    decimal: str
    heading: int  # bytes

    @property
    def schema(self) -> pa.Schema:
        """Return the columns, which have no types."""
        return texts(self.names)

    @property
    def divisible(self) -> bool:
        """Return whether every line can be found without reading those before it."""
        return self.encoding == "utf-8" and not self.path.name.lower().endswith((".gz", ".zst"))

    def rows(self) -> int | None:
        """Return about how many rows there are, by the length of the first ones."""
        if not self.divisible:
            return None
        with self.path.open("rb") as file:
            sample = file.read(1 << 16)
        lines, size = sample.count(b"\n"), self.path.stat().st_size
        return max(lines, size * lines // max(len(sample), 1)) - 1

    @property
    def parts(self) -> int:
        """Return how many parts there are that can be read by themselves."""
        return len(self._begins()) if self.divisible else 1

    def tasks(
        self, types: Mapping[str, pa.DataType], first: int = 0, last: int | None = None
    ) -> Iterator[Task]:
        """Yield the rows of the file, or of some of its parts, a few megabytes of lines at once."""
        if self.divisible:
            for begin in self._begins()[first:last]:
                yield partial(self._block, types, begin)
            return
        line = 2
        for text in self._blocks():
            yield partial(self._batch, types, text, partial(int, line))
            line += text.count(b"\n")

    def _begins(self) -> range:
        """Return where the blocks of the file begin."""
        return range(self.heading, self.path.stat().st_size, BLOCK_BYTES)

    def _block(self, types: Mapping[str, pa.DataType], begin: int) -> Batch:
        """Read the lines that begin in the block at byte ``begin``."""
        with self.path.open("rb") as file:
            file.seek(begin - 1)  # a line begins where the one before it ended
            block = file.read(BLOCK_BYTES)
            first = block.find(b"\n") + 1
            parts = [block[first:]] if first else []
            while first and len(block) == BLOCK_BYTES and (more := file.read(1 << 16)):
                end = more.find(b"\n") + 1
                parts.append(more[: end or len(more)])
                if end:
                    break
        line = partial(self._line_at, begin - 1 + first)
        return self._batch(types, b"".join(parts), line)

    def _line_at(self, byte: int) -> int:
        """Return the number of the line that begins at a byte; it is asked for messages only."""
        line = 1
        with self.path.open("rb") as file:
            while byte > 0 and (block := file.read(min(BLOCK_BYTES, byte))):
                line, byte = line + block.count(b"\n"), byte - len(block)
        return line

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks of whole lines after the heading, in UTF-8."""
        parts, heading = list[bytes](), True
        try:
            with open_bytes(self.path) as file:
                for block in _decoded(file, self.encoding):
                    end = block.rfind(b"\n") + 1
                    parts.append(block[: end or len(block)])
                    if not end:
                        continue
                    text = b"".join(parts)
                    parts = [block[end:]]
                    yield text[text.find(b"\n") + 1 :] if heading else text
                    heading = False
        except (OSError, EOFError, pa.ArrowException, UnicodeError) as problem:
            raise DataError(f"{self.path} cannot be read as CSV: {one_line(problem)}") from None
        if not heading and any(parts):
            yield b"".join(parts)

    def _batch(
        self, types: Mapping[str, pa.DataType], text: bytes, first_line: Callable[[], int]
    ) -> Batch:
        """Return lines as rows; leave out those that are none."""
        bad: list[int] = []
        plain = _is_sound(text, self.delimiter) and not (b"x" in text or b"X" in text)
        rows = self._split(text, types) if plain else None  # Arrow would read 0x10
        if rows is None:
            rows = self._sound_rows(text, dict.fromkeys(types, pa.string()), 0, bad)

        def where(at: int) -> str:
            out = set(bad)
            full = (n for n, line in enumerate(_lines(text)) if line and n not in out)
            return f"{self.path}, line {first_line() + next(islice(full, at, None))}"

        problem = None
        if bad:
            wrong = self._what_is_wrong(_lines(text)[bad[0]])
            problem = f"{self.path}, line {first_line() + bad[0]}: the line has {wrong}"
        return Batch(rows, where, left_out=len(bad), problem=problem)

    def _split(self, text: bytes, types: Mapping[str, pa.DataType]) -> pa.RecordBatch | None:
        """Return the cells of sound lines; None if a line, or a cell, is not what it should be."""
        if not text.strip(b"\r\n"):
            return _empty(types)
        if text.startswith(codecs.BOM_UTF8):  # part of a cell: Arrow would drop it as a file's mark
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
        batches = table.combine_chunks().to_batches() or [_empty(types)]
        for column in batches[0].columns:
            if pa.types.is_float64(column.type) and pc.any(pc.is_nan(column)).as_py():
                return None  # "nan", which is no number
        return batches[0]

    def _sound_rows(
        self, text: bytes, types: Mapping[str, pa.DataType], before: int, bad: list[int]
    ) -> pa.RecordBatch:
        """Return the rows of lines, some of which may be none.

        Args:
            text: whole lines.
            types: the columns to read, all of them texts.
            before: how many lines of the block came before.
            bad: gets the positions of lines that are no rows.
        """
        if _is_sound(text, self.delimiter) and (rows := self._split(text, types)) is not None:
            return rows
        lines = _lines(text)
        if len(lines) > _FEW_LINES:
            half = len(lines) // 2
            low = self._sound_rows(b"\n".join(lines[:half]), types, before, bad)
            high = self._sound_rows(b"\n".join(lines[half:]), types, before + half, bad)
            return pa.concat_batches([low, high])
        good = [not line or (self._row.fullmatch(line) and _is_utf8(line)) for line in lines]
        bad += [before + at for at, fine in enumerate(good) if not fine]
        rows = self._split(b"\n".join(compress(lines, good)), types)
        assert rows is not None
        return rows

    @cached_property
    def _row(self) -> re.Pattern[bytes]:
        """Return what a line must be: each cell is quoted as a whole, or has no quote at all."""
        mark = re.escape(self.delimiter.encode())
        cell = rb'(?:"[^"\r]*+(?:""[^"\r]*+)*+"|[^"\r%b]*+)' % mark
        return re.compile(cell + rb"(?:%b%b){%d}" % (mark, cell, len(self.names) - 1))

    def _what_is_wrong(self, line: bytes) -> str:
        """Return what makes a line invalid, for a message."""
        if not _is_utf8(line):
            return f"bytes that are no {self.encoding}; [data] encoding says how it is written"
        if b"\r" in line:
            return "a CR inside it; convert the file to Parquet"
        if b'"' in line:
            return (
                "quotes that it does not close, or that stand inside a cell, or another number of "
                "cells than the heading; a cell holds no end of line: convert the file to Parquet"
            )
        return (
            f"{line.count(self.delimiter.encode()) + 1} cells where the heading has "
            f"{len(self.names)}; quote cells that hold {self.delimiter!r}, or convert the file to "
            "Parquet"
        )


def open_csv(path: Path, dialect: Dialect) -> CsvFile:
    """Read the heading of a file, which alone decides the delimiter.

    A byte order mark at the beginning of the file wins over the declared encoding.
    """
    try:
        with open_bytes(path) as file:
            start = file.read(1 << 16)
            while b"\n" not in start and len(start) < MOST_HEADING and (more := file.read(1 << 20)):
                start += more
    except (OSError, EOFError, pa.ArrowException) as problem:
        raise DataError(f"{path} cannot be read as CSV: {one_line(problem)}") from None
    for begins, kind, ending in _OTHER_KINDS:
        if start.startswith(begins):  # as no heading does; rows have no say in it
            raise DataError(f"{path} is {kind}, not CSV; give it a name that ends in {ending}")
    encoding, delimiter = dialect.encoding, dialect.delimiter
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
    try:
        split = {mark: next(csv.reader([line], delimiter=mark), []) for mark in _MARKS}
        mark = delimiter or max(_MARKS, key=lambda mark: len(split[mark]))
        names = split.get(mark) or next(csv.reader([line], delimiter=mark), [])
    except csv.Error as problem:
        raise DataError(f"{path}: the heading cannot be read as CSV: {problem}") from None
    return CsvFile(path, names, mark, encoding, dialect.decimal, size)


def open_bytes(path: Path) -> Any:
    """Open a file for reading, decompressed."""
    packed = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
    return pa.input_stream(str(path), compression=packed) if packed else path.open("rb")


def _decoded(file: Any, encoding: str) -> Iterator[bytes]:
    """Yield a file in UTF-8, block by block.

    A byte that is not a character in the file's encoding becomes one that is not valid UTF-8, so
    that the line that holds it is invalid, and no other line.
    """
    if encoding == "utf-8":
        while block := file.read(BLOCK_BYTES):
            yield block
        return
    errors = "surrogatepass" if encoding == "utf-16" else "surrogateescape"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    while block := file.read(BLOCK_BYTES):
        yield decoder.decode(block).encode("utf-8", "surrogatepass")
    try:
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # half a character: the last line is invalid, and no other
        yield b"\xff"


def _is_sound(text: bytes, delimiter: str) -> bool:
    """Return whether lines are UTF-8, without bare CRs, and close their quotes.

    Every quote opens or closes a cell of its own line, or is doubled inside of one.
    """
    if not text.isascii() and not _is_utf8(text):
        return False
    if b"\r" in text and text.replace(b"\r\n", b"").count(b"\r") > text.endswith(b"\r"):
        return False
    if b'"' not in text:
        return True
    data = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    quotes, ends = np.flatnonzero(data == ord('"')), np.flatnonzero(data == ord("\n"))
    if (np.searchsorted(quotes, ends) % 2).any():
        return False
    beside = np.frombuffer(f'{delimiter}\n\r"'.encode(), np.uint8)
    before, after = data[quotes[::2] - 1], data[quotes[1::2] + 1]
    return bool(np.isin(before, beside).all() and np.isin(after, beside).all())


def _empty(types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(0, pa.string()) for _ in types], names=list(types))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(text: bytes) -> list[bytes]:
    """Return lines without their ends."""
    return [line.removesuffix(b"\r") for line in text.removesuffix(b"\n").split(b"\n")]
