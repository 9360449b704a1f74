"""CSV files: by blocks of lines, in several threads, or from the beginning where cells are quoted.

A quoted cell may hold the end of a line, so only a file without quotes can be cut anywhere. Whether
it has some is seen on the way; it is then read again, from its beginning.
"""

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from privalue.errors import DataError
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


def _conversion(names: list[str], numbers: bool = False) -> Any:
    """Text as it stands: an id "NA" is an id, and a mistake can be quoted.

    With ``numbers`` steps and rewards are taken as what they should be.
    """
    types = dict.fromkeys(names, pa.string())
    if numbers:
        types |= {names[-3]: pa.int64(), names[-1]: pa.float64()}
    return pacsv.ConvertOptions(
        include_columns=names, column_types=types, strings_can_be_null=False, null_values=[]
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
    if b'"' in line or b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
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
    lines = _Lines(path, heading, names, begin - 1 + first, text[first:])
    lines.require_plain()
    try:
        return lines.chunk(lines.rows(numbers=True))
    except DataError:
        return lines.as_text()


class _Lines(NamedTuple):
    """Some lines of a file."""

    path: Path
    heading: Heading
    names: list[str]
    begin: int  # in bytes
    text: bytes

    def require_plain(self) -> None:
        text = self.text
        if b'"' in text or (b"\r" in text and text.count(b"\r") != text.count(b"\r\n")):
            raise NotPlainError

    def rows(self, *, numbers: bool = False) -> pa.RecordBatch:
        if not self.text.strip():
            return pa.record_batch({name: pa.array([], pa.string()) for name in self.names})
        with _explained(self.path, self.rows_before) as remember:
            table = pacsv.read_csv(
                pa.py_buffer(self.text),
                read_options=pacsv.ReadOptions(
                    use_threads=False,
                    column_names=self.heading.columns,
                    block_size=len(self.text) + 1,
                ),
                parse_options=pacsv.ParseOptions(invalid_row_handler=remember),
                convert_options=_conversion(self.names, numbers),
            )
        return table.combine_chunks().to_batches()[0]

    def chunk(self, rows: pa.RecordBatch) -> Chunk:
        return Chunk(str(self.path), 1, rows, self.place, self.as_text)

    def as_text(self) -> Chunk:
        return Chunk(str(self.path), 1, self.rows(), self.place)

    def place(self, number: int) -> str:
        return f"{self.path}, row {self.rows_before() + number}"

    def rows_before(self) -> int:
        """How many rows the file has before these: only a mistake pays for counting them."""
        rows, at = 0, self.heading.size
        with self.path.open("rb") as file:
            file.seek(at)
            while at < self.begin:
                line = file.readline()
                at += len(line)
                rows += bool(line.strip(b"\r\n"))
        return rows
