"""Read the files beside a study file: tables of labels and numbers, and feature matrices.

Every file is public, and is hashed, so that a release identifies the files that it used. A study
file is not trusted, and what it names is published: a release has the labels of its side files. So
a study may name files of its own folder only, all links resolved, unless the caller allows another
folder. Arrow reads tables, NumPy and SciPy read arrays; pickles are never loaded.
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
from privalue.errors import one_line
from privalue.ledger.files import read_whole
from privalue.study.messages import refusal
from privalue.study.names import Label
from privalue.study.sections import LARGEST, SMALLEST

MAX_ARRAY = 1_000_000_000  # bytes of .npy, .npz and .parquet, on the disk and unpacked
MAX_TABLE = 250_000_000  # bytes of any other side file: text takes more memory than disk
MAX_FEATURES = 10_000_000
HEADINGS = {"state", "action", "label"}  # allowed above the last column of a table of labels
_CELL_BYTES = 32  # memory for a cell of a table while it is read


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """A file that a key of the study names, with its SHA-256 and its content."""

    key: str
    name: str
    sha256: str
    content: bytes = b""

    @property
    def kind(self) -> str:
        """Return the format, by the ending: npy, npz or parquet; otherwise csv."""
        ending = Path(self.name).suffix.lower().removeprefix(".")
        return ending if ending in {"npy", "npz", "parquet"} else "csv"

    def describe(self) -> dict[str, str]:
        """Return the entry of a release for this file, with its format unless it is CSV."""
        kind = {} if self.kind == "csv" else {"kind": self.kind}
        return {"key": self.key, "name": Path(self.name).name, "sha256": self.sha256, **kind}

    def rows(self, columns: int) -> list[tuple[str, ...]]:
        """Return the cells of a CSV or Parquet table as texts, white space around them removed.

        Args:
            columns: the least number of columns.
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
        """Return the labels and the numbers of a table; a first row without numbers is a heading.

        Args:
            columns: the number of columns of labels, which come first.
            width: the number of columns of numbers to read; None: all.
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
        """Return the array of a ``.npy`` file (dense) or a ``.npz`` file (sparse)."""
        return self._read(_read_npy if self.kind == "npy" else _read_npz)

    def _read(self, read: Callable[[bytes], Any]) -> Any:
        try:
            return read(self.content)
        except Exception as problem:  # a damaged file may raise anything
            raise refusal("side-file-damaged", self.key, self.name, one_line(problem)) from None


def _read_csv(content: bytes) -> list[tuple[str, ...]]:
    """Return the cells of a CSV table as texts: types are never inferred."""
    content = content.removeprefix(b"\xef\xbb\xbf").strip(b"\r\n")
    if b"\0" in content:
        raise ValueError("it holds the character NUL")
    if content.count(b'"') % 2:  # an open quote would swallow the lines after it
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
    return _to_rows(table)


def _read_parquet(content: bytes) -> list[tuple[str, ...]]:
    """Return the cells of a Parquet table; refuse one that is too large before a row is read.

    Columns are read as dictionaries, which store a repeated text once.
    """
    names = pq.read_schema(io.BytesIO(content)).names
    with pq.ParquetFile(
        io.BytesIO(content), read_dictionary=names, page_checksum_verification=True
    ) as file:
        header = file.metadata
        groups = [header.row_group(number) for number in range(header.num_row_groups)]
        size = sum(max(group.total_byte_size, 0) for group in groups)
        cells = max(header.num_rows, sum(group.num_rows for group in groups)) * header.num_columns
        if max(size, _CELL_BYTES * cells) > MAX_ARRAY:
            raise ValueError(f"it unpacks to more than {MAX_ARRAY:,} bytes, the most")
        table = file.read(use_threads=False)
        if table.nbytes > MAX_ARRAY or table.num_rows != header.num_rows:
            raise ValueError(f"it unpacks to more than {MAX_ARRAY:,} bytes, or is damaged")
    return _to_rows(table)


def _to_rows(table: pa.Table) -> list[tuple[str, ...]]:
    """Return the cells of a table as texts without white space around them.

    Equal texts share their memory. A number becomes the shortest text that reads back as itself.
    """
    columns = [list[str]() for _ in table.columns]
    for texts, column in zip(columns, table.columns, strict=True):
        is_number = pa.types.is_boolean(column.type)
        for chunk in (column.cast(pa.int8()) if is_number else column).chunks:
            codes = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            values = pc.utf8_trim_whitespace(codes.dictionary.cast(pa.string())).to_pylist()
            texts += ["" if at is None else values[at] or "" for at in codes.indices.to_pylist()]
    return list(zip(*columns, strict=True))


def _read_npy(content: bytes) -> Any:
    """Return the array of a ``.npy`` file; refuse a header that claims more than the file has."""
    _check_header(io.BytesIO(content), len(content))
    return np.load(io.BytesIO(content), allow_pickle=False)


def _read_npz(content: bytes) -> Any:
    """Return the matrix that ``scipy.sparse.save_npz`` wrote; refuse indices out of range."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > MAX_ARRAY:
            raise ValueError(f"it unpacks to more than {MAX_ARRAY:,} bytes, the most that is read")
        for member in members:
            with archive.open(member) as stream:
                _check_header(stream, member.file_size)
    matrix: Any = sp.load_npz(io.BytesIO(content))
    if matrix.format not in {"csr", "csc", "coo"}:
        raise ValueError(f"its format is {matrix.format}")
    if matrix.format != "coo":  # compiled code would follow an index out of the matrix
        matrix.check_format(full_check=True)
    return matrix


def _check_header(stream: IO[bytes], size: int) -> None:
    """Raise ValueError if an array's header claims more bytes than there are.

    NumPy allocates an array of that shape before it reads a number.
    """
    if np.lib.format.read_magic(stream) != (1, 0):  # later versions are for structured arrays
        raise ValueError("it is of another version of the format than 1.0")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize > size:
        raise ValueError("it holds objects, or fewer numbers than its header says")


class SideFiles:
    """Opens side files: in the study's folder, or in another one that the caller allows.

    Without folders, files may be anywhere: a study that is built in Python names its own.
    ``opened`` lists the files opened so far.
    """

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.opened: list[SideFile] = []

    def open(self, key: str, name: str) -> SideFile:
        """Read and hash the file that ``key`` names.

        Raises:
            StudyError: it is missing, outside of the folders, not a regular file, or too large.
        """
        most = MAX_ARRAY if name.lower().endswith((".npy", ".npz", ".parquet")) else MAX_TABLE
        try:
            content = read_whole(self._find(key, name), most)
        except FileNotFoundError:
            path = Path(*self.folders[:1], name).absolute()
            raise refusal("side-file-missing", key, name, path) from None
        except OSError as problem:
            raise refusal("side-file-unreadable", key, name, problem.strerror) from None
        digest = hashlib.sha256(content).hexdigest()
        self.opened.append(SideFile(key=key, name=name, sha256=digest, content=content))
        return self.opened[-1]

    def _find(self, key: str, name: str) -> Path:
        """Return the path of a file; refuse one outside of the folders, all links resolved."""
        if not self.folders or "\0" in name:
            return Path(name)
        folders = [folder.resolve() for folder in self.folders]
        paths = [(folder / name).resolve() for folder in folders]
        allowed = [path for path in paths if any(map(path.is_relative_to, folders))]
        if not allowed:
            hint = "or name its folder by {side_files=DIR}"
            raise refusal("side-file-outside", key, name, self.folders[0], hint=hint)
        return next((path for path in allowed if path.exists()), allowed[-1])


def to_matrix(key: str, matrix: Any, rows: int, noun: str) -> Matrix:
    """Return a finite N x d matrix of doubles, dense or CSR, read-only.

    Args:
        key: the key of the study, for errors.
        matrix: anything that NumPy or SciPy can convert.
        rows: N.
        noun: of a row, for errors: "state" or "pair".
    """
    is_sparse = sp.issparse(matrix)
    try:
        phi: Any = matrix if is_sparse else np.asarray(matrix)
        if phi.dtype.kind not in ("biuf" if is_sparse else "biufO"):
            raise ValueError
        phi = phi if is_sparse else phi.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise refusal("features-not-real", key) from None
    if phi.ndim != 2 or phi.shape[0] != rows or not 1 <= phi.shape[1] <= MAX_FEATURES:
        raise refusal("features-shape", key, tuple(phi.shape), rows, noun, MAX_FEATURES)
    parts = [phi]
    if is_sparse:  # after the check of its shape: CSR takes memory for every row
        phi = sp.csr_array(phi, dtype=np.float64, copy=True)
        phi.sum_duplicates()
        phi.eliminate_zeros()
        parts = [phi.data, phi.indices, phi.indptr]
    for part in parts:
        part.setflags(write=False)
    size = np.abs(parts[0])
    if not ((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all():
        raise refusal("features-too-extreme", key, SMALLEST, LARGEST)
    return cast("Matrix", phi)


def hash_matrix(matrix: Matrix) -> str:
    """Return the SHA-256 of a matrix from Python, which identifies it in a release."""
    parts: list[Any] = [matrix]
    if not isinstance(matrix, np.ndarray):
        parts = [matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)]
    shape = f"{len(parts)} {matrix.shape} ".encode()  # a dense matrix has one part
    content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return hashlib.sha256(shape + content).hexdigest()
