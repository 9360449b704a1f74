"""Read the files beside a study file: tables of labels and numbers, and feature matrices.

Every file is public, and is hashed, so that a release can say exactly which one it used. A study
may come from somebody else, and what its side files hold is published: labels stand in the release.
So a study names files of its own folder only, all links resolved, unless the caller names
another folder. Arrow reads tables, NumPy and SciPy read arrays, and nothing ever loads a pickle.
"""

import csv
import hashlib
import io
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from pyarrow import csv as arrow_csv

from privalue.core import Matrix, Vector
from privalue.ledger.files import read_whole
from privalue.study.messages import one_line, refusal
from privalue.study.names import Label
from privalue.study.sections import LARGEST, SMALLEST

MOST_ARRAY = 1_000_000_000  # bytes of .npy, .npz and .parquet, as on the disk and unpacked
MOST_TABLE = 250_000_000  # bytes of any other side file: a row of text takes more once it is read
MOST_FEATURES = 10_000_000
HEADINGS = {"state", "action", "label"}  # of the last column of a table of labels
_CELL_BYTES = 32  # of a cell of a table, while it is read


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """A file that a study names: the key that names it, its name and its SHA-256."""

    key: str
    name: str
    sha256: str
    content: bytes = b""

    @property
    def kind(self) -> str:
        """Return how it is read, by its ending: npy, npz, parquet; csv, if it is none of these."""
        ending = Path(self.name).suffix.lower().removeprefix(".")
        return ending if ending in {"npy", "npz", "parquet"} else "csv"

    def describe(self) -> dict[str, str]:
        """Return what a release says of it: how it was read, too, where that is not as CSV."""
        kind = {} if self.kind == "csv" else {"kind": self.kind}
        return {"key": self.key, "name": self.name, "sha256": self.sha256, **kind}

    def rows(self, columns: int) -> list[tuple[str, ...]]:
        """Return the cells of a CSV or Parquet table as texts, white space around them removed.

        Args:
            columns: how many there must be at least.
        """
        cells = self._read(_read_parquet if self.kind == "parquet" else _read_csv)
        rows = [row for row in cells if any(row)]
        if not rows:
            raise refusal("side-file-empty", self.key, self.name)
        if len(rows[0]) < columns:
            raise refusal("side-file-columns", self.key, self.name, len(rows[0]), columns)
        return rows

    def labels(self, columns: int) -> list[tuple[str, ...]]:
        """Return the first columns of a table of labels, without its heading."""
        rows = [row[:columns] for row in self.rows(columns)]
        return rows[1:] if rows[0][-1].lower() in HEADINGS else rows

    def entries(self, columns: int, width: int | None = None) -> tuple[list[Label], Vector]:
        """Return the labels of a table and its numbers; a first row without numbers is a heading.

        Args:
            columns: how many hold labels.
            width: how many columns of numbers are read; None: all.
        """
        labels, numbers = [], []
        for number, row in enumerate(self.rows(columns + 1)):
            label, cells = row[:columns], row[columns:][:width]
            try:
                numbers.append([float(cell) for cell in cells])
            except ValueError:
                if number == 0:
                    continue
                where = ", ".join(label)
                raise refusal("side-file-number", self.key, self.name, where) from None
            labels.append(label)
        return labels, np.array(numbers, dtype=np.float64)

    def array(self) -> Any:
        """Return what a ``.npy`` (dense) or ``.npz`` (sparse) file holds."""
        return self._read(_read_npy if self.kind == "npy" else _read_npz)

    def _read(self, read: Callable[[bytes], Any]) -> Any:
        try:
            return read(self.content)
        except Exception as problem:  # a damaged file may raise anything
            raise refusal("side-file-damaged", self.key, self.name, one_line(problem)) from None


def _read_csv(content: bytes) -> list[tuple[str, ...]]:
    """Return the cells of a CSV table; no cell decides what another is."""
    content = content.removeprefix(b"\xef\xbb\xbf").strip(b"\r\n")
    if b"\0" in content:
        raise ValueError("it holds the character NUL")
    if content.count(b'"') % 2:  # it would swallow the lines after it
        raise ValueError("a quote is not closed")
    first = next(csv.reader(io.StringIO(content.decode(), newline=""), strict=True), [])
    names = [str(at) for at in range(len(first))]
    table = arrow_csv.read_csv(
        io.BytesIO(content),
        read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
    return _rows_of(table)


def _read_parquet(content: bytes) -> list[tuple[str, ...]]:
    """Return the cells of a Parquet table; its counts are held to the limit before a row is read.

    Columns are read as dictionaries, in which a long text that is repeated takes its bytes once.
    """
    names = pq.read_schema(io.BytesIO(content)).names
    with pq.ParquetFile(
        io.BytesIO(content), read_dictionary=names, page_checksum_verification=True
    ) as opened:
        found = opened.metadata
        groups = [found.row_group(at) for at in range(found.num_row_groups)]
        unpacked = sum(max(group.total_byte_size, 0) for group in groups)
        cells = max(found.num_rows, sum(group.num_rows for group in groups)) * found.num_columns
        if max(unpacked, _CELL_BYTES * cells) > MOST_ARRAY:
            raise ValueError(f"it unpacks to more than {MOST_ARRAY:,} bytes, the most")
        table = opened.read(use_threads=False)
        if table.nbytes > MOST_ARRAY or table.num_rows != found.num_rows:
            raise ValueError(f"it unpacks to more than {MOST_ARRAY:,} bytes, or is damaged")
    return _rows_of(table)


def _rows_of(table: pa.Table) -> list[tuple[str, ...]]:
    """Return cells as texts without white space around them; equal ones share their memory.

    A number is the shortest text that reads back as the same one.
    """
    columns = [list[str]() for _ in table.columns]
    for texts, column in zip(columns, table.columns, strict=True):
        is_number = pa.types.is_boolean(column.type)
        for chunk in (column.cast(pa.int8()) if is_number else column).chunks:
            coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            known = pc.utf8_trim_whitespace(coded.dictionary.cast(pa.string())).to_pylist()
            texts += ["" if at is None else known[at] or "" for at in coded.indices.to_pylist()]
    return list(zip(*columns, strict=True))


def _read_npy(content: bytes) -> Any:
    """Return the numbers of a ``.npy`` file, which is long enough for them."""
    _check_header(io.BytesIO(content), len(content))
    return np.load(io.BytesIO(content), allow_pickle=False)


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


def _check_header(stream: IO[bytes], size: int) -> None:
    """Raise ValueError unless there are as many bytes as an array's header says.

    NumPy makes an array of that shape before it reads a number.
    """
    if np.lib.format.read_magic(stream) != (1, 0):  # others are for tables with very many columns
        raise ValueError("it is of another version of the format than 1.0")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize > size:
        raise ValueError("it holds objects, or fewer numbers than its header says")


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
            content = read_whole(self._find(key, name), most)
        except FileNotFoundError:
            place = Path(*self.folders[:1], name).absolute()
            raise refusal("side-file-missing", key, name, place) from None
        except OSError as problem:
            raise refusal("side-file-unreadable", key, name, problem.strerror) from None
        digest = hashlib.sha256(content).hexdigest()
        self.opened.append(SideFile(key=key, name=name, sha256=digest, content=content))
        return self.opened[-1]

    def _find(self, key: str, name: str) -> Path:
        """Return where a file is; refuse one that is in none of the folders, all links resolved."""
        if not self.folders or "\0" in name:
            return Path(name)
        folders = [folder.resolve() for folder in self.folders]
        places = [(folder / name).resolve() for folder in folders]
        inside = [place for place in places if any(map(place.is_relative_to, folders))]
        if not inside:
            hint = "or name its folder by {side_files=DIR}"
            raise refusal("side-file-outside", key, name, self.folders[0], hint=hint)
        return next((place for place in inside if place.exists()), inside[-1])


def to_matrix(key: str, matrix: Any, rows: int, what: str) -> Matrix:
    """Return a finite N x d matrix of doubles, dense or sparse by rows, and read-only.

    Args:
        key: the key of the study that gives it, for errors.
        matrix: anything that numpy or scipy can convert.
        rows: N.
        what: a row is of: "state" or "pair".
    """
    is_sparse = sp.issparse(matrix)
    try:
        found: Any = matrix if is_sparse else np.asarray(matrix)
        if found.dtype.kind not in ("biuf" if is_sparse else "biufO"):
            raise ValueError
        found = found if is_sparse else found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise refusal("features-not-real", key) from None
    if found.ndim != 2 or found.shape[0] != rows or not 1 <= found.shape[1] <= MOST_FEATURES:
        raise refusal("features-shape", key, tuple(found.shape), rows, what, MOST_FEATURES)
    parts = [found]
    if is_sparse:  # only now: this takes room for every row
        found = sp.csr_array(found, dtype=np.float64, copy=True)
        found.sum_duplicates()
        found.eliminate_zeros()
        parts = [found.data, found.indices, found.indptr]
    for part in parts:
        part.setflags(write=False)
    size = np.abs(parts[0])
    if not ((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all():
        raise refusal("features-too-extreme", key, SMALLEST, LARGEST)
    return cast("Matrix", found)


def hash_matrix(matrix: Matrix) -> str:
    """Return the SHA-256 of a matrix given in Python, so that a release can name it."""
    parts: list[Any] = [matrix]
    if not isinstance(matrix, np.ndarray):
        parts = [matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)]
    shape = f"{len(parts)} {matrix.shape} ".encode()  # one part if it is dense
    content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return hashlib.sha256(shape + content).hexdigest()
