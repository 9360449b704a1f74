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

from privalue.errors import PrivalueError, one_line
from privalue.readers import cells, csv
from privalue.readers.csv import CsvFile, open_csv
from privalue.readers.messages import data_error
from privalue.readers.source import Batch, Dialect, Source, Task, Types, as_tasks, locate_rows

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
        csv_format={"delimiter": first.delimiter, "encoding": first.encoding}
        if isinstance(first, CsvFile)
        else {},
    )


def list_files(data: str | Path, dialect: Dialect) -> "list[CsvFile | ParquetFile]":
    """Open the files of a name, a folder or a glob; all must be CSV, or all Parquet."""
    files = [_open_file(path, dialect) for path in find_files(data)]
    if len({type(file) for file in files}) > 1:
        raise data_error("files-mixed", data=data)
    for path in (file.path for file in files):
        if any(public.exists() and public.samefile(path) for public in dialect.public_files):
            raise data_error("file-public", path=path)
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
        paths = _match(data)
        for path in paths:
            _require_plain(path, set(Path(data).parts))
        return paths
    except OSError as problem:
        raise data_error("unreadable", place=data, problem=problem.strerror) from None


def _require_plain(path: Path, name_parts: Set[str]) -> None:
    """Refuse special files, and files with a column in the name of their folder (Hive partitions).

    Args:
        path: the file.
        name_parts: the parts of the name that the user gave, which may name one partition.
    """
    if not path.is_file():
        raise data_error("file-special", path=path)
    unnamed = (part for part in path.parent.parts if part not in name_parts)
    folder = next(filter(_HIVE.fullmatch, unnamed), None)
    if folder is not None:
        raise data_error("file-partitioned", path=path, folder=folder)


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
        # The name cannot hold a password: addresses that may were refused before.
        raise data_error("file-remote" if "://" in str(data) else "file-absent", data=data)
    files = (file for match in matches for file in (_match(match) if match.is_dir() else [match]))
    return list(dict.fromkeys(files))  # a pattern may match a folder and a file in it


def _holds_rows(file: Path) -> bool:
    """Return whether a file in a folder is CSV or Parquet, and neither hidden nor metadata."""
    is_table = file.name.lower().endswith(csv.ENDINGS + PARQUET)
    return is_table and not file.name.startswith(("_", ".")) and file.is_file()


# Parquet


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file with its metadata; checksums of pages are verified."""

    path: Path
    schema: pa.Schema
    metadata: Any

    @classmethod
    def open(cls, path: Path) -> "ParquetFile":
        """Read the metadata of a file; refuse it if its counts of rows are inconsistent.

        The counts of single columns are not read: pyarrow aborts the process if one is damaged.
        """
        with _open_parquet(path) as file:
            parquet = cls(path, file.schema_arrow, file.metadata)
            count = sum(max(size, 0) for size in parquet.sizes)
        _require_rows(path, parquet.metadata.num_rows, count)
        return parquet

    @property
    def sizes(self) -> list[int]:
        """Return the number of rows of each row group."""
        return [self.metadata.row_group(at).num_rows for at in range(self.parts)]

    @property
    def parts(self) -> int:
        """Return the number of parts that can be read independently: row groups."""
        return int(self.metadata.num_row_groups)

    def tasks(self, types: Types, first: int = 0, last: int | None = None) -> Iterator[Task]:
        """Yield tasks that read row groups: small ones together, a large one in several parts."""
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

    def _read(self, groups: list[int], names: list[str], first: int, count: int) -> Batch:
        """Read some row groups, of which ``first`` is the number of the first row."""
        with _open_parquet(self.path, self.metadata) as file:
            table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
            # Decoded, because the index type of combined dictionaries may overflow.
            kinds = [cells.value_type(kind) for kind in table.schema.types]
            table = table.cast(pa.schema(list(zip(names, kinds, strict=True))))
            batches = table.combine_chunks().to_batches()  # one, except for gigabytes of text
            rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        _require_rows(self.path, count, rows.num_rows)
        return Batch(rows, locate_rows(str(self.path), range(first, first + count)))

    def _split(self, group: int, names: list[str], first: int) -> Iterator[Task]:
        """Yield a large row group in batches."""
        count = 0
        with _open_parquet(self.path, self.metadata) as file:
            for rows in file.iter_batches(READ_ROWS, row_groups=[group], columns=names):
                numbers = range(first + count, first + count + rows.num_rows)
                yield from as_tasks(
                    [Batch(rows.select(names), locate_rows(str(self.path), numbers))]
                )
                count += rows.num_rows
        _require_rows(self.path, self.sizes[group], count)


@contextmanager
def _open_parquet(path: Path, metadata: Any = None) -> Iterator[Any]:
    """Yield an open Parquet file; translate Arrow's errors into one line with its name."""
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


def _require_rows(path: Path, expected: int, count: int) -> None:
    """Refuse a file whose number of rows differs from its metadata."""
    if count != expected:
        raise data_error("parquet-damaged", path=path, expected=expected, count=count)
