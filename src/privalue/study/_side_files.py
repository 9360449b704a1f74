"""Read the files beside a study file: labels, groups, priors, weights and feature matrices.

Every file is public, is keyed by state label, or by those of a state and an action (``.npy`` and
``.npz`` by position), and is hashed, so that a release can say exactly which one it used. Nothing
here ever loads a pickle.
"""

import csv
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core import Matrix
from privalue.errors import StudyError
from privalue.study._names import BETWEEN, KeyNames, said
from privalue.study._places import MOST_ARRAY, Place
from privalue.study._section_rules import LARGEST, SMALLEST

MOST_FEATURES = 10_000_000
_CELL_BYTES = 32  # of a number in a table, while it is read
# What pyarrow raises for a file that is no Parquet table, or a damaged one.
_UNREADABLE = (
    *(ValueError, TypeError, LookupError, OSError, EOFError, OverflowError),
    pa.ArrowException,
)


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """A file that a study names: the key that names it, its name and its SHA-256."""

    key: str
    name: str
    sha256: str
    content: bytes = b""


def open_side_file(key: str, name: str, place: Place) -> SideFile:
    """Read the file that ``key`` names, where side files may be."""
    content = place.read(key, name)
    return SideFile(key=key, name=name, sha256=hashlib.sha256(content).hexdigest(), content=content)


def _cells(file: SideFile, columns: int) -> list[list[str]]:
    """Return the rows of a CSV file, each with at least ``columns`` cells; skip blank lines."""
    try:
        text = file.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StudyError(f'{file.key} = "{file.name}" is not UTF-8 text') from None
    try:  # strict: a quote that is not closed would swallow the lines after it
        lines = csv.reader(io.StringIO(text), strict=True)
        rows = [row for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as problem:
        raise StudyError(
            f'{file.key} = "{file.name}" cannot be read as CSV: {_why(problem)}'
        ) from None
    for number, row in enumerate(rows, start=1):
        if len(row) < columns:
            raise StudyError(
                f'{file.key} = "{file.name}", row {number} has {len(row)} column(s); '
                f"{columns} are needed, with a comma between them"
            )
    if not rows:
        raise StudyError(f'{file.key} = "{file.name}" is empty')
    return rows


def _why(problem: csv.Error) -> str:
    """Return what is wrong with a CSV file, in words of ours."""
    said = str(problem)
    if "field limit" in said:
        return f"a cell has more than {csv.field_size_limit():,} characters"
    if "new-line" in said:
        return "a line ends with a bare CR; save it with ends of lines LF"
    return "a quote is not closed, or stands inside a cell"


def read_labels(file: SideFile, what: str) -> list[str]:
    """Return the labels of the first column; skip a heading ``label``, or what they are of."""
    labels = [row[0].strip() for row in _cells(file, 1)]
    return labels[1:] if labels[0].lower() in {what, "label"} else labels


def read_pairs(file: SideFile) -> list[tuple[str, str]]:
    """Return the pairs of the first two columns; skip a heading ``state,action``."""
    rows = [(row[0].strip(), row[1].strip()) for row in _cells(file, 2)]
    return rows[1:] if [cell.lower() for cell in rows[0]] == ["state", "action"] else rows


def read_choices(file: SideFile) -> dict[str, float]:
    """Map the pairs of a file of state and action to the probability 1."""
    chosen: dict[str, float] = {}
    seen = set()
    for state, action in read_pairs(file):
        if state in seen:
            raise StudyError(
                f'{file.key} = "{file.name}" has two rows of the state "{said(state)}" and no '
                "third column; give the probability of each action"
            )
        seen.add(state)
        chosen[f"{state}{BETWEEN}{action}"] = 1.0
    return chosen


def width(file: SideFile) -> int:
    """Return how many columns the first row has."""
    return len(_cells(file, 1)[0])


def read_groups(file: SideFile, is_state: Callable[[str], bool]) -> dict[str, str]:
    """Map raw labels to state labels. A first row whose second cell is no state is a heading."""
    rows = [(row[0].strip(), row[1].strip()) for row in _cells(file, 2)]
    if not is_state(rows[0][1]):
        rows = rows[1:]
    groups: dict[str, str] = {}
    for raw, state in rows:
        if raw in groups:
            raise StudyError(f'{file.key} = "{file.name}" maps the raw label "{raw}" twice')
        groups[raw] = state
    return groups


def read_numbers(file: SideFile, names: KeyNames) -> dict[str, float]:
    """Map labels of states, or of pairs, to numbers. A first row without a number is a heading."""
    by = names.columns
    rows = [(_label(row, by), row[by].strip()) for row in _cells(file, by + 1)]
    numbers: dict[str, float] = {}
    for position, (label, cell) in enumerate(rows):
        try:
            number = float(cell)
        except ValueError:
            if position == 0:
                continue
            raise StudyError(
                f'{file.key} = "{file.name}", {names.what} "{said(label)}": "{cell}" is not a '
                "number"
            ) from None
        if label in numbers:
            raise StudyError(
                f'{file.key} = "{file.name}" names the {names.what} "{said(label)}" twice'
            )
        numbers[label] = number
    return numbers


def _label(row: Sequence[Any], columns: int) -> str:
    """Return the label of a row: of a state, or those of a pair, joined."""
    return BETWEEN.join(str(cell).strip() for cell in row[:columns])


def by_state(
    key: str,
    numbers: Mapping[str, float],
    names: KeyNames,
    *,
    absent: float | None = None,
) -> NDArray[np.float64]:
    """Return a table of label and number as a vector over the states, or pairs.

    Args:
        key: the key of the study that gives the table, for errors.
        numbers: the table.
        names: the states, or the pairs.
        absent: the number of states that the table omits; None: every state needs one.

    Returns:
        One number for each state.
    """
    vector = np.full(names.count, np.nan if absent is None else absent)
    seen = np.zeros(names.count, dtype=bool)
    for name, number in numbers.items():
        at = names.position(str(name))
        if at is None:
            raise StudyError(
                f'{key} names "{said(str(name))}", which is not a {names.what} of the study'
            )
        if seen[at]:
            raise StudyError(f'{key} names the {names.what} "{names.label(at)}" twice')
        vector[at] = number
        seen[at] = True
    if absent is None and not seen.all():
        raise StudyError(
            f"{key} leaves out {int((~seen).sum())} of {names.count} {names.what}s, the first of "
            f'them "{names.label(int(np.flatnonzero(~seen)[0]))}"; every {names.what} needs a '
            "number"
        )
    return vector


def read_matrix(file: SideFile, names: KeyNames) -> Matrix:
    """Read Phi from ``.npy`` (dense) or ``.npz`` (sparse), by position, or ``.csv``/``.parquet``.

    In a table the first column is the state label, and with actions the second is the action's;
    every other column is a feature.

    Args:
        file: the file.
        names: the states, or the pairs.
    """
    states = names.count
    suffix = Path(file.name).suffix.lower()
    if suffix in {".npy", ".npz"}:
        try:
            found = _read_npy(file.content) if suffix == ".npy" else _read_npz(file.content)
        except Exception as problem:
            said = " ".join(str(problem).split())
            raise StudyError(f"{_unreadable(file, suffix)}: {said}") from None
        return as_matrix(file.key, found, states, names.what)
    if suffix == ".parquet":
        return _table_matrix(file, _parquet_rows(file, names), names)
    if suffix == ".csv":
        rows = _cells(file, names.columns + 1)
        heading = _is_heading(rows[0][names.columns :])
        return _table_matrix(file, rows[1:] if heading else rows, names)
    raise StudyError(f'{file.key} = "{file.name}" must end in .npy, .npz, .csv or .parquet')


def _read_npy(content: bytes) -> NDArray[Any]:
    """Return the numbers that a ``.npy`` file holds."""
    found: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    if found.dtype.kind not in "biufc":
        raise ValueError("its type is not one of numbers")
    return found


def _read_npz(content: bytes) -> Any:
    """Return the sparse matrix that ``scipy.sparse.save_npz`` wrote; its indices are checked."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MOST_ARRAY:
            raise ValueError(f"it unpacks to more than {MOST_ARRAY:,} bytes, the most that is read")
    found: Any = sp.load_npz(io.BytesIO(content))
    if found.format not in {"csr", "csc", "coo"} or found.dtype.kind not in "biufc":
        raise ValueError("it is no matrix of numbers in a format that is read")
    if found.format != "coo":  # compiled code would follow an index that leads out of the matrix
        found.check_format(full_check=True)
    return found


def _parquet_rows(file: SideFile, keys: KeyNames) -> list[tuple[Any, ...]]:
    """Return the rows of a Parquet file, one for each state, or pair.

    The file's own counts are compared with that, and with the limits, before a row is read. Labels
    are read as a dictionary, in which a long one that is repeated takes its bytes once.
    """
    shown, states, by = f'{file.key} = "{file.name}"', keys.count, keys.columns
    try:
        content = io.BytesIO(file.content)
        names = pq.read_schema(content).names
        with pq.ParquetFile(
            content, read_dictionary=names[:by], page_checksum_verification=True
        ) as opened:
            found = opened.metadata
            groups = [found.row_group(at) for at in range(found.num_row_groups)]
            if found.num_rows != states or sum(group.num_rows for group in groups) != states:
                raise StudyError(
                    f"{shown} has {found.num_rows} rows; it needs one for each of {states} "
                    f"{keys.what}s"
                )
            unpacked = sum(max(group.total_byte_size, 0) for group in groups)
            if max(unpacked, _CELL_BYTES * states * found.num_columns) > MOST_ARRAY:
                raise StudyError(f"{shown} unpacks to more than {MOST_ARRAY:,} bytes, the most")
            for field in list(opened.schema_arrow)[by:]:
                if not (pa.types.is_primitive(field.type) or pa.types.is_decimal(field.type)):
                    raise StudyError(f"{shown}: the column {field.name!r} is not one of numbers")
            table = opened.read(use_threads=False)
            fewest = _distinct(table.column(0)) * (_distinct(table.column(1)) if by > 1 else 1)
            if table.num_rows != states or fewest < states:
                raise StudyError(f"{shown} names a {keys.what} twice, or is damaged")
            columns = [column.to_pylist() for column in table.columns]
        return list(zip(*columns, strict=True))
    except StudyError:
        raise
    except _UNREADABLE:
        raise StudyError(_unreadable(file, ".parquet")) from None


def _distinct(labels: pa.ChunkedArray) -> int:
    """Return how many labels there are at most, by their dictionaries if they have them."""
    return sum(
        len(part.dictionary) if pa.types.is_dictionary(part.type) else len(part)
        for part in labels.chunks
    )


def _is_heading(row: Sequence[str]) -> bool:
    """Return whether some cells are not all numbers."""
    try:
        [float(cell) for cell in row]
    except ValueError:
        return True
    return False


def _table_matrix(file: SideFile, rows: Iterable[Sequence[Any]], names: KeyNames) -> Matrix:
    """Return Phi from rows of label and features."""
    columns: dict[str, tuple[float, ...]] = {}
    for row in rows:
        label = _label(row, names.columns)
        what = f'{names.what} "{said(label)}"'
        if label in columns:
            raise StudyError(f'{file.key} = "{file.name}" names the {what} twice')
        try:
            columns[label] = tuple(float(cell) for cell in row[names.columns :])
        except (ValueError, TypeError):
            raise StudyError(
                f'{file.key} = "{file.name}", {what}: a feature is not a number'
            ) from None
    if len({len(row) for row in columns.values()}) > 1:
        raise StudyError(f'{file.key} = "{file.name}" has rows of different lengths')
    width = len(next(iter(columns.values()), ()))
    features = [
        by_state(file.key, {label: row[j] for label, row in columns.items()}, names)
        for j in range(width)
    ]
    stacked = np.column_stack(features) if features else np.empty(0)
    return as_matrix(file.key, stacked, names.count, names.what)


def as_matrix(key: str, matrix: Any, states: int, what: str = "state") -> Matrix:
    """Return a finite N x d matrix of doubles, dense or sparse by rows, and read-only.

    Args:
        key: the key of the study that gives it, for errors.
        matrix: anything that numpy or scipy can convert.
        states: N.
        what: a row is of: "state" or "pair".
    """
    if np.iscomplexobj(matrix):
        raise StudyError(f"{key} holds complex numbers; features are real")
    if sp.issparse(matrix):
        given: Any = matrix
        _require_shape(key, given.shape, states, what)  # before anything of that size is made
        sparse = sp.csr_array(given, dtype=np.float64, copy=True)
        sparse.sum_duplicates()
        sparse.eliminate_zeros()
        for part in (sparse.data, sparse.indices, sparse.indptr):
            part.setflags(write=False)
        shape, entries = sparse.shape, sparse.data
        result: Matrix = sparse
    else:
        dense = np.array(matrix, dtype=np.float64)
        dense.setflags(write=False)
        shape, entries = dense.shape, dense
        result = dense
    _require_shape(key, shape, states, what)
    size = np.abs(entries)
    if not ((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all():
        raise StudyError(
            f"{key} holds NaN, an infinity, or a number that is neither 0 nor between "
            f"{SMALLEST:g} and {LARGEST:g} in size"
        )
    return result


def _require_shape(key: str, shape: tuple[int, ...], states: int, what: str) -> None:
    """Raise StudyError unless the shape has a row for each state."""
    if len(shape) != 2 or shape[0] != states or not 1 <= shape[1] <= MOST_FEATURES:
        raise StudyError(
            f"{key} has shape {tuple(shape)}; it needs a row for each of the {states} {what}s "
            f"and from 1 to {MOST_FEATURES:,} columns"
        )


def describe_matrix(matrix: Matrix) -> SideFile:
    """Describe a matrix given in Python as if it were a file, so that a release can name it."""
    parts = (
        (matrix,)
        if isinstance(matrix, np.ndarray)
        else (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64))
    )
    content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return SideFile(
        key="[features] matrix",
        name=f"{matrix.shape[0]} x {matrix.shape[1]} array",
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _unreadable(file: SideFile, suffix: str) -> str:
    """Return what to say of a file that is not what its name says."""
    expected = {
        ".npy": "an array written by numpy.save, without objects",
        ".npz": "a sparse matrix written by scipy.sparse.save_npz (csr, csc or coo)",
        ".parquet": "a Parquet table",
    }[suffix]
    return f'{file.key} = "{file.name}" cannot be read as {expected}'
