"""Find files by name, folder or glob, and find out what kind each is."""

import glob
import os
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privalue.errors import DataError, PrivalueError
from privalue.readers._chunks import one_line
from privalue.readers._csv_files import ENDINGS
from privalue.readers._names import require_showable

PARQUET = (".parquet", ".pq")
_HIVE = re.compile(r"[^=]+=.*")


def find_files(data: str | Path) -> list[Path]:
    """Return the files that a name, a folder or a glob stands for."""
    require_showable(data)  # what a query names comes here first
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
            and file.name.lower().endswith(ENDINGS + PARQUET)
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


def file_kind(path: Path) -> str:
    """Return whether a file is CSV or Parquet, by its name."""
    name = path.name.lower()
    if name.endswith(ENDINGS):
        return "csv"
    if name.endswith(PARQUET):
        return "parquet"
    raise DataError(f"{path} must end in .csv, .tsv (also .gz, .zst), .parquet or .xlsx")


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Turn Arrow's errors into one line with the file's name."""
    try:
        yield
    except PrivalueError:
        raise
    # A name of a column that is no UTF-8 is a ValueError, a count beyond 64 bits an OverflowError.
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        why = one_line(problem).rstrip(".")
        raise DataError(
            f"{path} cannot be read as Parquet: {why}; if it is "
            "of another kind, name it so (.csv, .xlsx); if it is damaged, write it anew"
        ) from None


@contextmanager
def parquet_file(path: Path, metadata: Any = None) -> Iterator[Any]:
    """Open a Parquet file whose counts agree; pages with a checksum are checked.

    Args:
        path: the file.
        metadata: as it was found before, so that it is not read again.
    """
    with (
        reading_parquet(path),
        # pre_buffer helps with remote storage; for local files it only costs one more copy.
        pq.ParquetFile(
            path, metadata=metadata, pre_buffer=False, page_checksum_verification=True
        ) as file,
    ):
        if metadata is None:
            _require_counts(path, file.metadata)
        yield file


def _require_counts(path: Path, metadata: Any) -> None:
    """Refuse a file that does not say the same of itself everywhere: rows would be missing.

    The counts of single columns are not looked at: pyarrow ends the process where one is damaged.
    """
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    counts = [group.num_rows for group in groups]
    if metadata.num_rows < 0 or any(count < 0 for count in counts):
        raise DataError(f"{path} is damaged: it declares a negative number of rows")
    if sum(counts) != metadata.num_rows:
        raise DataError(
            f"{path} is damaged: it declares {metadata.num_rows} rows, and {sum(counts)} in its "
            "row groups"
        )


def require_rows(path: Path, declared: int, read: int) -> None:
    """Refuse a file from which another number of rows came than it declares."""
    if read != declared:
        raise DataError(f"{path} is damaged: it declares {declared} rows, and {read} are there")
