"""Read files by name, folder or glob: CSV and Parquet."""

import glob
import os
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privalue.errors import PrivalueError
from privalue.readers import cells, csv
from privalue.readers.csv import CsvFile, open_csv
from privalue.readers.messages import data_error, one_line
from privalue.readers.source import Batch, Dialect, Source, Task, Types, numbered, ready

PARQUET = (".parquet", ".pq")
READ_ROWS = 1 << 20  # of Parquet, at once by one thread
_HIVE = re.compile(r"[^=]+=.*")


def open_files(data: str | Path, dialect: Dialect) -> Source:
    """Return the rows of CSV or Parquet files."""
    files = list_files(data, dialect)
    first = files[0]
    return Source(
        schemas=tuple((str(file.path), file.schema) for file in files),
        tasks=lambda types: (task for file in files for task in file.tasks(types)),
        rows=sum(file.metadata.num_rows for file in files if isinstance(file, ParquetFile)) or None,
        heading={"delimiter": first.delimiter, "encoding": first.encoding}
        if isinstance(first, CsvFile)
        else {},
    )


def list_files(data: str | Path, dialect: Dialect) -> "list[CsvFile | ParquetFile]":
    """Open the files of a name, a folder or a glob; all must be CSV, or all Parquet."""
    files = [_open_file(path, dialect) for path in find_files(data)]
    if len({type(file) for file in files}) > 1:
        raise data_error("files-mixed", data=data)
    return files


def _open_file(path: Path, dialect: Dialect) -> "CsvFile | ParquetFile":
    """Open a file by the ending of its name."""
    name = path.name.lower()
    if name.endswith(csv.ENDINGS):
        return open_csv(path, dialect)
    if name.endswith(PARQUET):
        return ParquetFile.open(path)
    raise data_error("file-ending", path=path)


# Names


def find_files(data: str | Path) -> list[Path]:
    """Return the files of a name, a folder or a glob."""
    try:
        found = _match(data)
        for path in found:
            _require_plain(path, set(Path(data).parts))
        return found
    except OSError as problem:
        raise data_error("unreadable", place=data, problem=problem.strerror) from None


def _require_plain(path: Path, written: Set[str]) -> None:
    """Refuse special files, and files with a column in the name of their folder (Hive partitions).

    Args:
        path: a file that was found.
        written: the parts of the name that the user wrote: to name a partition explicitly is fine.
    """
    if not path.is_file():
        raise data_error("file-special", path=path)
    hive = next((p for p in path.parent.parts if _HIVE.fullmatch(p) and p not in written), None)
    if hive is not None:
        raise data_error("file-partitioned", path=path, folder=hive)


def _match(data: str | Path) -> list[Path]:
    """Return the files of a name, a folder or a glob; raise OSError or ValueError."""
    path = Path(data)
    if path.is_dir():
        os.listdir(path)  # fails if it may not be read; rglob would skip it silently
        inside = sorted(file for file in path.rglob("*") if _holds_rows(file))
        if not inside:
            raise data_error("folder-empty", path=path)
        return inside
    if path.exists():
        return [path]
    matches = sorted(Path(name) for name in glob.glob(str(data), recursive=True))
    if not matches:
        # A plain web address is quoted; any other address was refused without being quoted.
        raise data_error("file-remote" if "://" in str(data) else "file-absent", data=data)
    every = (file for match in matches for file in (_match(match) if match.is_dir() else [match]))
    return list(dict.fromkeys(every))  # a pattern may match a folder and what is in it


def _holds_rows(file: Path) -> bool:
    ours = file.name.lower().endswith(csv.ENDINGS + PARQUET)
    return ours and not file.name.startswith(("_", ".")) and file.is_file()


# Parquet


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file with its metadata; checksums of pages are verified."""

    path: Path
    schema: pa.Schema
    metadata: Any

    @classmethod
    def open(cls, path: Path) -> "ParquetFile":
        """Read the metadata; refuse a file with inconsistent counts of rows.

        The counts of single columns are not accessed: pyarrow aborts the process if one is damaged.
        """
        with _opened(path) as file:
            opened = cls(path, file.schema_arrow, file.metadata)
            declared = file.metadata.num_rows
            _require_rows(path, declared, sum(max(size, 0) for size in opened.sizes))
            return opened

    @property
    def sizes(self) -> list[int]:
        """Return how many rows each row group has."""
        return [self.metadata.row_group(at).num_rows for at in range(self.parts)]

    @property
    def parts(self) -> int:
        """Return the number of parts that can be read independently: row groups."""
        return int(self.metadata.num_row_groups)

    def tasks(self, types: Types, first: int = 0, last: int | None = None) -> Iterator[Task]:
        """Yield row groups: small ones together, large ones in several parts."""
        names, groups, rows, sizes = list(types), list[int](), 0, self.sizes
        row = 1 + sum(sizes[:first])
        for group in range(self.parts)[first:last]:
            if groups and rows + sizes[group] > READ_ROWS:
                yield partial(self._read, groups, names, row, rows)
                groups, row, rows = [], row + rows, 0
            if sizes[group] > READ_ROWS:
                yield from self._split(group, names, row)
                row += sizes[group]
            elif sizes[group]:
                groups, rows = [*groups, group], rows + sizes[group]
        if groups:
            yield partial(self._read, groups, names, row, rows)

    def _read(self, groups: list[int], names: list[str], first: int, declared: int) -> Batch:
        """Read some row groups."""
        with _opened(self.path, self.metadata) as file:
            table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
            # Without dictionaries, whose index types may overflow when they are combined.
            kinds = [cells.value_type(kind) for kind in table.schema.types]
            table = table.cast(pa.schema(list(zip(names, kinds, strict=True))))
            batches = table.combine_chunks().to_batches()  # one, except for gigabytes of text
            rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        _require_rows(self.path, declared, rows.num_rows)
        return Batch(rows, numbered(str(self.path), range(first, first + declared)))

    def _split(self, group: int, names: list[str], first: int) -> Iterator[Task]:
        count = 0
        with _opened(self.path, self.metadata) as file:
            for rows in file.iter_batches(READ_ROWS, row_groups=[group], columns=names):
                numbers = range(first + count, first + count + rows.num_rows)
                yield from ready([Batch(rows.select(names), numbered(str(self.path), numbers))])
                count += rows.num_rows
        _require_rows(self.path, self.sizes[group], count)


@contextmanager
def _opened(path: Path, metadata: Any = None) -> Iterator[Any]:
    """Open a Parquet file, and translate Arrow's errors into one line with its name."""
    try:
        # pre_buffer helps with remote storage; for local files it only costs one more copy.
        with pq.ParquetFile(
            path, metadata=metadata, pre_buffer=False, page_checksum_verification=True
        ) as file:
            yield file
    except PrivalueError:
        raise
    # A name of a column that is not valid UTF-8 is a ValueError; a count beyond 64 bits overflows.
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        raise data_error("parquet-unreadable", path=path, problem=one_line(problem)) from None


def _require_rows(path: Path, declared: int, count: int) -> None:
    """Refuse a file whose number of rows differs from its metadata."""
    if count != declared:
        raise data_error("parquet-damaged", path=path, declared=declared, count=count)
