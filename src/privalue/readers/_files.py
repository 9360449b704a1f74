"""Find files by name, folder or glob, and tell what kind each is."""

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from privalue.errors import DataError
from privalue.readers._chunks import one_line
from privalue.readers._csv_files import ENDINGS

PARQUET = (".parquet", ".pq")


def find_files(data: str | Path) -> list[Path]:
    """Return the files that a name, a folder or a glob stands for."""
    try:
        return _found(data)
    except OSError as problem:
        raise DataError(f"{data} cannot be read: {problem.strerror}") from None


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
        problem = "does not exist"
        if "://" in str(data):
            problem = "is an address, and nothing is downloaded"
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
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"{path} cannot be read as Parquet: {one_line(problem)}") from None
