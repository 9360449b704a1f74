"""Read files by name, folder or glob: CSV and Parquet."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privalue.errors import DataError, PrivalueError
from privalue.readers import csv
from privalue.readers.csv import CsvFile, open_csv
from privalue.readers.source import Batch, Dialect, Source, Task, numbered, one_line, ready

PARQUET = (".parquet", ".pq")
READ_ROWS = 1 << 20  # of Parquet, at once by one thread
_HIVE = re.compile(r"[^=]+=.*")


def open_files(data: str | Path, dialect: Dialect) -> Source:
    """Return the rows of CSV or Parquet files."""
    files = list_files(data, dialect)
    counts = [file.rows() for file in files]
    return Source(
        schemas=tuple((str(file.path), file.schema) for file in files),
        tasks=lambda types: (task for file in files for task in file.tasks(types)),
        rows=None if None in counts else sum(filter(None, counts)),
    )


def list_files(data: str | Path, dialect: Dialect) -> "list[CsvFile | ParquetFile]":
    """Open the files that a name, a folder or a glob stands for; all are of one kind."""
    files = [_open_file(path, dialect) for path in find_files(data)]
    if len({type(file) for file in files}) > 1:
        raise DataError(f"{data} holds both CSV and Parquet files; name one kind, e.g. *.parquet")
    return files


def _open_file(path: Path, dialect: Dialect) -> "CsvFile | ParquetFile":
    """Open a file by the ending of its name."""
    name = path.name.lower()
    if name.endswith(csv.ENDINGS):
        return open_csv(path, dialect)
    if name.endswith(PARQUET):
        return ParquetFile.open(path)
    raise DataError(f"{path} must end in .csv, .tsv (also .gz, .zst), .parquet or .xlsx")


# Names


def find_files(data: str | Path) -> list[Path]:
    """Return the files that a name, a folder or a glob stands for."""
    try:
        found = _found(data)
        given = set(Path(data).parts)
        for path in found:
            _require_plain(path, given)
        return found
    except OSError as problem:
        raise DataError(f"{data} cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{str(data)!r} is not a name that a file can have") from None


def _require_plain(path: Path, given: Set[str]) -> None:
    """Refuse files without rows, and rows one column of which is in the name of a folder.

    Args:
        path: a file that was found.
        given: the parts of the name that the user wrote: whoever names one folder of many means it.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise DataError(f"{str(path)!r} is no UTF-8; rename it") from None
    if not path.is_file():
        raise DataError(f"{path} is not a file; give a CSV or Parquet file, a folder or a glob")
    hive = next((p for p in path.parent.parts if _HIVE.fullmatch(p) and p not in given), None)
    if hive is not None:
        raise DataError(
            f"{path} has a column in the name of a folder, {hive}, which is not read: rows of "
            "several folders would be taken for one another's; write that column into the files, "
            "e.g. with DuckDB: COPY (FROM read_parquet('FOLDER/**/*.parquet', hive_partitioning = "
            "true)) TO 'rows.parquet'"
        )


def _found(data: str | Path) -> list[Path]:
    """Do the same, and leave the system's errors to the caller."""
    path = Path(data)
    if path.is_dir():
        os.listdir(path)  # fails if it may not be read; rglob would skip it silently
        found = sorted(
            file
            for file in path.rglob("*")
            if file.is_file()
            and file.name.lower().endswith(csv.ENDINGS + PARQUET)
            and not file.name.startswith(("_", "."))
        )
        if not found:
            raise DataError(f"the folder {path} holds no CSV or Parquet file")
        return found
    if path.exists():
        return [path]
    matches = sorted(Path(name) for name in glob.glob(str(data), recursive=True))
    if not matches:
        address = "://" in str(data)  # of a page: any other one was refused without being quoted
        problem = "is an address, and nothing is downloaded" if address else "does not exist"
        raise DataError(f"{data} {problem}; give a CSV or Parquet file, a folder or a glob")
    every = (file for m in matches for file in (_found(m) if m.is_dir() else [m]))
    return list(dict.fromkeys(every))  # a pattern may match a folder and what is in it


# Parquet


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file, its metadata read; pages with a checksum are checked."""

    path: Path
    schema: pa.Schema
    metadata: Any

    @classmethod
    def open(cls, path: Path) -> "ParquetFile":
        """Read the metadata; refuse a file that does not say the same of itself everywhere.

        The counts of single columns are not looked at: pyarrow ends the process where one is
        damaged.
        """
        with _opened(path) as file:
            metadata = file.metadata
            groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
            if metadata.num_rows < 0 or any(count < 0 for count in groups):
                raise DataError(f"{path} is damaged: it declares a negative number of rows")
            _require_rows(path, metadata.num_rows, sum(groups))
            return cls(path, file.schema_arrow, metadata)

    def rows(self) -> int:
        """Return how many rows there are."""
        return int(self.metadata.num_rows)

    @property
    def parts(self) -> int:
        """Return how many parts there are that can be read by themselves: row groups."""
        return int(self.metadata.num_row_groups)

    def tasks(
        self, types: Mapping[str, pa.DataType], first: int = 0, last: int | None = None
    ) -> Iterator[Task]:
        """Yield row groups, small ones together; one that is too large to hold in parts."""
        names, groups, rows = list(types), list[int](), 0
        sizes = [self.metadata.row_group(group).num_rows for group in range(self.parts)]
        row = 1 + sum(sizes[:first])
        for group in range(self.parts)[first:last]:
            if groups and rows + sizes[group] > READ_ROWS:
                yield partial(self._read, groups, names, row)
                groups, row, rows = [], row + rows, 0
            if sizes[group] > READ_ROWS:
                yield from self._split(group, names, row)
                row += sizes[group]
            elif sizes[group]:
                groups, rows = [*groups, group], rows + sizes[group]
        if groups:
            yield partial(self._read, groups, names, row)

    def _read(self, groups: list[int], names: list[str], first: int) -> Batch:
        """Read some row groups."""
        declared = sum(self.metadata.row_group(group).num_rows for group in groups)
        with _opened(self.path, self.metadata) as file:
            table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
            for at, field in enumerate(table.schema):
                if pa.types.is_dictionary(field.type):  # its indices may be too small for all
                    values = table.column(at).cast(field.type.value_type)
                    table = table.set_column(at, field.name, values)
            batches = table.combine_chunks().to_batches()  # one, unless there are gigabytes of text
            rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        _require_rows(self.path, declared, rows.num_rows)
        return Batch(rows, numbered(str(self.path), first))

    def _split(self, group: int, names: list[str], first: int) -> Iterator[Task]:
        declared, count = self.metadata.row_group(group).num_rows, 0
        with _opened(self.path, self.metadata) as file:
            for rows in file.iter_batches(READ_ROWS, row_groups=[group], columns=names):
                where = numbered(str(self.path), first + count)
                yield from ready([Batch(rows.select(names), where)])
                count += rows.num_rows
        _require_rows(self.path, declared, count)


@contextmanager
def _opened(path: Path, metadata: Any = None) -> Iterator[Any]:
    """Open a Parquet file, and turn Arrow's errors into one line with its name."""
    try:
        # pre_buffer helps with remote storage; for local files it only costs one more copy.
        with pq.ParquetFile(
            path, metadata=metadata, pre_buffer=False, page_checksum_verification=True
        ) as file:
            yield file
    except PrivalueError:
        raise
    # A name of a column that is no UTF-8 is a ValueError, a count beyond 64 bits an OverflowError.
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        why = one_line(problem).rstrip(".")
        raise DataError(
            f"{path} cannot be read as Parquet: {why}; if it is of another kind, name it so (.csv, "
            ".xlsx); if it is damaged, write it anew"
        ) from None


def _require_rows(path: Path, declared: int, count: int) -> None:
    """Refuse a file from which another number of rows came than it declares."""
    if count != declared:
        raise DataError(f"{path} is damaged: it declares {declared} rows, and {count} are there")
