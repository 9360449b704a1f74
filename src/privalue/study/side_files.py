"""Read the files beside a study file: tables of labels and numbers, and feature matrices.

Every file is public, and is hashed, so that a release can say exactly which one it used. A study
may come from somebody else, and what its side files hold is published: labels stand in the release.
So a study names files of its own folder only, all links resolved, unless whoever runs it names
another folder. Arrow reads tables, NumPy and SciPy read arrays, and nothing ever loads a pickle.
"""

import csv
import hashlib
import io
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from privalue.core import Matrix
from privalue.errors import StudyError
from privalue.ledger.files import read_whole
from privalue.study.sections import LARGEST, SMALLEST

MOST_ARRAY = 1_000_000_000  # bytes of .npy, .npz and .parquet, as on the disk and unpacked
MOST_TABLE = 250_000_000  # bytes of any other side file: a row of text takes more once it is read
MOST_FEATURES = 10_000_000
_CELL_BYTES = 32  # of a cell of a table, while it is read


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """A file that a study names: the key that names it, its name and its SHA-256."""

    key: str
    name: str
    sha256: str
    content: bytes = b""

    @property
    def shown(self) -> str:
        """Return how messages name it."""
        return f'{self.key} = "{self.name}"'

    def rows(self, columns: int) -> list[tuple[str, ...]]:
        """Return the cells of a CSV or Parquet table as texts, white space around them removed.

        Args:
            columns: how many there must be at least.
        """
        try:
            is_parquet = self.name.lower().endswith(".parquet")
            table = self._parquet() if is_parquet else self._csv()
            texts = [pc.utf8_trim_whitespace(_as_text(column)) for column in table.columns]
            rows = list(zip(*(column.to_pylist() for column in texts), strict=True))
        except Exception as problem:  # a damaged file may raise anything
            raise self._unreadable("a table in UTF-8", problem) from None
        rows = [row for row in rows if any(row)]
        if not rows:
            raise StudyError(f"{self.shown} is empty", code="side-file-empty")
        if len(texts) < columns:
            raise StudyError(
                f"{self.shown} has {len(texts)} column(s); {columns} are needed, with a comma "
                "between them",
                code="side-file-columns",
            )
        return rows

    def _csv(self) -> pa.Table:
        """Return a CSV table of texts; no cell decides what another is."""
        content = self.content.removeprefix(b"\xef\xbb\xbf").strip(b"\r\n")
        if b"\0" in content:
            raise ValueError("it holds the character NUL")
        if content.count(b'"') % 2:  # it would swallow the lines after it
            raise ValueError("a quote is not closed")
        first = next(csv.reader(io.StringIO(content.decode(), newline=""), strict=True), [])
        names = [str(at) for at in range(len(first))]
        return arrow_csv.read_csv(
            io.BytesIO(content),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )

    def _parquet(self) -> pa.Table:
        """Return a Parquet table; its own counts are held to the limit before a row is read."""
        with pq.ParquetFile(io.BytesIO(self.content), page_checksum_verification=True) as opened:
            found = opened.metadata
            groups = [found.row_group(at) for at in range(found.num_row_groups)]
            unpacked = sum(max(group.total_byte_size, 0) for group in groups)
            cells = max(found.num_rows, sum(group.num_rows for group in groups)) * found.num_columns
            if max(unpacked, _CELL_BYTES * cells) > MOST_ARRAY:
                raise ValueError(f"it unpacks to more than {MOST_ARRAY:,} bytes, the most")
            # A long label that is repeated takes its bytes once in a dictionary, and often outside.
            table = opened.read(use_threads=False)
            if table.nbytes > MOST_ARRAY or table.num_rows != found.num_rows:
                raise ValueError(f"it unpacks to more than {MOST_ARRAY:,} bytes, or is damaged")
            return table

    def matrix(self, rows: int, what: str) -> Matrix:
        """Return the matrix of a ``.npy`` (dense) or ``.npz`` (sparse) file, its shape checked.

        Args:
            rows: how many it must have.
            what: a row is of: "state" or "pair".
        """
        is_dense = self.name.lower().endswith(".npy")
        try:
            found = _read_npy(self, rows, what) if is_dense else _read_npz(self.content)
        except StudyError:
            raise
        except Exception as problem:  # a damaged file may raise anything
            kind = (
                "an array written by numpy.save, without objects"
                if is_dense
                else "a sparse matrix written by scipy.sparse.save_npz (csr, csc or coo)"
            )
            raise self._unreadable(kind, problem) from None
        return to_matrix(self.key, found, rows, what)

    def _unreadable(self, kind: str, problem: BaseException) -> StudyError:
        why = " ".join(str(problem).split())[:200]
        return StudyError(
            f"{self.shown} cannot be read as {kind}: {why}", code="side-file-unreadable"
        )


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as texts; numbers as Python writes the shortest text that is the same."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.cast(pa.string()).fill_null("")


def _read_npy(file: SideFile, rows: int, what: str) -> NDArray[Any]:
    """Return the numbers of a ``.npy`` file; its shape is checked before they are read."""
    shape, dtype = _check_header(io.BytesIO(file.content), len(file.content))
    if dtype.kind not in "biuf":
        raise ValueError("its type is not one of real numbers")
    require_shape(file.key, shape, rows, what)
    found: NDArray[Any] = np.load(io.BytesIO(file.content), allow_pickle=False)
    return found


def _read_npz(content: bytes) -> Any:
    """Return the sparse matrix that ``scipy.sparse.save_npz`` wrote; its indices are checked."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > MOST_ARRAY:
            raise ValueError(f"it unpacks to more than {MOST_ARRAY:,} bytes, the most that is read")
        for member in members:
            with archive.open(member) as stream:
                _check_header(stream, member.file_size)
    found: Any = sp.load_npz(io.BytesIO(content))
    if found.format not in {"csr", "csc", "coo"}:
        raise ValueError(f"its format is {found.format}")
    if found.format != "coo":  # compiled code would follow an index that leads out of the matrix
        found.check_format(full_check=True)
    return found


def _check_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type that an array's header says, if there are that many bytes.

    NumPy makes an array of that shape before it reads a number.
    """
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read:
        raise ValueError(f"version {version} of the format is not read")
    shape, _, dtype = read[version](stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize > size:
        raise ValueError("it holds objects, or fewer numbers than its header says")
    return tuple(shape), dtype


class SideFiles:
    """Where side files are: the study's folder, and another one if somebody named it.

    ``opened`` are the files read so far. A study that is built in Python names its own files, and
    they may be anywhere.
    """

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.opened: list[SideFile] = []

    def open(self, key: str, name: str) -> SideFile:
        """Read and hash the file that ``key`` names.

        Raises:
            StudyError: it is not there, is elsewhere, is not a regular file, or is too large.
        """
        most = MOST_ARRAY if name.lower().endswith((".npy", ".npz", ".parquet")) else MOST_TABLE
        try:
            path = self._find(key, name)
            content = read_whole(path, most, inside=_around(path, self.folders))
        except (OSError, ValueError) as problem:
            if isinstance(problem, StudyError):
                raise
            where = f" ({self.folders[0]})" if self.folders else ""
            absent = isinstance(problem, FileNotFoundError)
            why = "it does not exist" if absent else getattr(problem, "strerror", "no such name")
            raise StudyError(
                f'{key} = "{name}" cannot be read: {why}; paths are relative to the study file'
                f"{where}",
                code="side-file-missing" if absent else "side-file-unreadable",
            ) from None
        digest = hashlib.sha256(content).hexdigest()
        self.opened.append(SideFile(key=key, name=name, sha256=digest, content=content))
        return self.opened[-1]

    def _find(self, key: str, name: str) -> Path:
        """Return where a file is; refuse one that is in none of the folders, all links resolved."""
        if not self.folders:
            return Path(name)
        places = [(folder / name).resolve() for folder in self.folders]
        inside = [place for place in places if _around(place, self.folders) is not None]
        if not inside:
            raise StudyError(
                f'{key} = "{name}" lies outside the study\'s folder ({self.folders[0]}); side '
                "files stay inside it, links resolved: copy the file there, or name its folder by "
                "--side-files DIR (in Python side_files=DIR)",
                code="side-file-outside",
            )
        return next((place for place in inside if place.exists()), inside[-1])


def _around(path: Path, folders: Sequence[Path]) -> Path | None:
    """Return the folder that a path without links is in, or None."""
    return next((folder for folder in folders if path.is_relative_to(folder.resolve())), None)


def to_matrix(key: str, matrix: Any, rows: int, what: str) -> Matrix:
    """Return a finite N x d matrix of doubles, dense or sparse by rows, and read-only.

    Args:
        key: the key of the study that gives it, for errors.
        matrix: anything that numpy or scipy can convert.
        rows: N.
        what: a row is of: "state" or "pair".
    """
    result: Matrix
    if sp.issparse(matrix):
        given: Any = matrix
        require_shape(key, given.shape, rows, what)  # before anything of that size is made
        if given.dtype.kind not in "biuf":
            raise StudyError(f"{key} holds numbers that are not real", code="features-not-real")
        sparse = sp.csr_array(given, dtype=np.float64, copy=True)
        sparse.sum_duplicates()
        sparse.eliminate_zeros()
        for part in (sparse.data, sparse.indices, sparse.indptr):
            part.setflags(write=False)
        entries, result = sparse.data, sparse
    else:
        try:
            if np.iscomplexobj(matrix):
                raise ValueError
            entries = result = np.array(matrix, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise StudyError(
                f"{key} holds something that is not a real number", code="features-not-real"
            ) from None
        require_shape(key, result.shape, rows, what)
        result.setflags(write=False)
    size = np.abs(entries)
    if not ((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all():
        raise StudyError(
            f"{key} holds NaN, an infinity, or a number that is neither 0 nor between "
            f"{SMALLEST:g} and {LARGEST:g} in size",
            code="features-too-extreme",
        )
    return result


def require_shape(key: str, shape: tuple[int, ...], rows: int, what: str) -> None:
    """Raise StudyError unless the shape has a row for each state."""
    if len(shape) != 2 or shape[0] != rows or not 1 <= shape[1] <= MOST_FEATURES:
        raise StudyError(
            f"{key} has shape {tuple(shape)}; it needs a row for each of the {rows} {what}s "
            f"and from 1 to {MOST_FEATURES:,} columns",
            code="features-shape",
        )


def hash_matrix(matrix: Matrix) -> str:
    """Return the SHA-256 of a matrix given in Python, so that a release can name it."""
    parts = (
        (matrix,)
        if isinstance(matrix, np.ndarray)
        else (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64))
    )
    shape = f"{len(parts)} {matrix.shape} ".encode()  # one part if it is dense
    content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return hashlib.sha256(shape + content).hexdigest()
