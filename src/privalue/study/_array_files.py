"""Read ``.npy`` and ``.npz`` files that somebody else wrote.

What a header says is compared with what is there, and with the limits, before anything is
allocated; indices are checked before they are used: compiled code that is handed an index out of
range writes to memory that is not its own. No header is evaluated and no pickle is loaded.
"""

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

FORMATS = ("csr", "csc", "coo")
MOST_MEMBERS = 16  # a sparse matrix has six or seven
_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 10_000
_ENTRY = r"'(\w+)'\s*:\s*('[^']*'|True|False|\([0-9,\s]*\))"
_HEADER = re.compile(rf"\{{\s*(?:{_ENTRY}\s*(?:,\s*|(?=\}}))){{3}}\}}\s*")
_NUMBERS = re.compile(r"[<>|=]?(?:[?]|[biufc][0-9]{1,3})")
_BYTES = re.compile(_NUMBERS.pattern + r"|\|S[0-9]{1,3}")
_WHOLE = re.compile(r"[0-9]{1,18}")

_DAMAGED = (struct.error, RuntimeError, IndexError)


def read_npy(content: bytes, *, texts: bool = False) -> NDArray[Any]:
    """Return the array that a ``.npy`` file holds.

    Args:
        content: the file.
        texts: whether bytes are allowed, which an archive has for its format. Texts in Unicode are
            allowed nowhere: their characters may be none.

    Raises:
        ValueError: the header does not parse, asks for objects, or does not fit what follows it.
    """
    if not content.startswith(_MAGIC) or content[6:8] not in {b"\1\0", b"\2\0", b"\3\0"}:
        raise ValueError("it does not begin as an array does")
    width = 2 if content[6] == 1 else 4
    size = int.from_bytes(content[8 : 8 + width], "little")
    start = 8 + width + size
    if size > _MOST_HEADER or start > len(content):
        raise ValueError("its header is too long")
    text = content[8 + width : start].decode("latin-1")
    entries = dict(re.findall(_ENTRY, text))
    if not _HEADER.fullmatch(text) or set(entries) != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header cannot be read")
    kind, order = entries["descr"].strip("'"), entries["fortran_order"]
    sides = [side.strip() for side in entries["shape"].strip("()").split(",") if side.strip()]
    if not (_BYTES if texts else _NUMBERS).fullmatch(kind) or order not in {"True", "False"}:
        raise ValueError("its type is not one of numbers")
    if len(sides) > 2 or not all(map(_WHOLE.fullmatch, sides)):
        raise ValueError("its shape cannot be read")
    try:
        dtype = np.dtype(kind)
    except TypeError:
        raise ValueError("its type is not one of numbers") from None
    shape = tuple(map(int, sides))
    if math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError("its header does not fit what follows it")
    return np.frombuffer(content, dtype, offset=start).reshape(
        shape, order="F" if order == "True" else "C"
    )


def read_npz(
    content: bytes, most: int, check_shape: Callable[[tuple[int, int]], None]
) -> sp.csr_array:
    """Return the sparse matrix that ``scipy.sparse.save_npz`` wrote.

    Args:
        content: the file.
        most: bytes that it may unpack to, all members together.
        check_shape: raises for a shape that is not wanted, before anything of that size is made.

    Raises:
        ValueError: it is no such file, unpacks to more, or its indices do not fit its shape.
    """
    members = _members(content, most)
    kind = _text(members["format"])
    if kind not in FORMATS:
        raise ValueError(f"its format is none of {', '.join(FORMATS)}")
    rows, columns = _shape(members["shape"])
    check_shape((rows, columns))
    data = members["data"]
    if data.ndim != 1 or data.dtype.kind not in "biufc":
        raise ValueError("its data are not a list of numbers")
    if kind == "coo":
        row, column = _indices(members["row"], rows), _indices(members["col"], columns)
        if not len(row) == len(column) == len(data):
            raise ValueError("it has another number of indices than of numbers")
        return sp.csr_array(sp.coo_array((data, (row, column)), shape=(rows, columns)))
    major, minor = (rows, columns) if kind == "csr" else (columns, rows)
    indices, starts = _indices(members["indices"], minor), _starts(members["indptr"], major)
    if not len(indices) == len(data) == starts[-1]:
        raise ValueError("it has another number of indices than of numbers")
    made = sp.csr_array if kind == "csr" else sp.csc_array
    return sp.csr_array(made((data, indices, starts), shape=(rows, columns)))


def _members(content: bytes, most: int) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of an archive, unpacked one by one and never beyond the limit."""
    found: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_MEMBERS:
                raise ValueError(f"it has {len(entries)} members")
            if sum(entry.file_size for entry in entries) > most:
                raise ValueError(f"it unpacks to more than {most:,} bytes, the most that is read")
            for entry in entries:
                if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                    raise ValueError("it is packed in an unusual way")
                with archive.open(entry) as member:
                    unpacked = member.read(entry.file_size + 1)
                if len(unpacked) != entry.file_size:
                    raise ValueError("a member is not as long as it says")
                found[entry.filename.removesuffix(".npy")] = read_npy(unpacked, texts=True)
    # A damaged archive, a password, and what this Python cannot unpack.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, OverflowError, *_DAMAGED) as problem:
        raise ValueError("it is not an archive of arrays, or is damaged") from problem
    if not {"format", "shape", "data"} <= set(found):
        raise ValueError("it is not a sparse matrix")
    needed = {"row", "col"} if _text(found["format"]) == "coo" else {"indices", "indptr"}
    if _text(found["format"]) in FORMATS and not needed <= set(found):
        raise ValueError("it lacks indices")
    return found


def _text(array: NDArray[Any]) -> str:
    """Return the one text that an array holds."""
    if array.shape != () or array.dtype.kind != "S" or array.dtype.itemsize > 64:
        raise ValueError("its format is not a text")
    return bytes(array.item()).decode("latin-1")


def _shape(array: NDArray[Any]) -> tuple[int, int]:
    """Return the two sides of the matrix."""
    if array.shape != (2,) or array.dtype.kind not in "iu":
        raise ValueError("its shape is not two whole numbers")
    rows, columns = (int(side) for side in array)
    if not (0 < rows < 2**31 and 0 < columns < 2**31):
        raise ValueError("its shape is not that of a matrix")
    return rows, columns


def _whole(array: NDArray[Any]) -> NDArray[np.int64]:
    """Return a list of whole numbers as such."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError("its indices are not a list of whole numbers")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise ValueError("an index is out of range")
    return array.astype(np.int64)


def _indices(array: NDArray[Any], side: int) -> NDArray[np.int64]:
    """Return indices that are all inside a side of the matrix."""
    indices = _whole(array)
    if indices.size and not (indices.min() >= 0 and indices.max() < side):
        raise ValueError("an index is out of range")
    return indices


def _starts(array: NDArray[Any], side: int) -> NDArray[np.int64]:
    """Return where each row begins among the numbers: from 0 on, never backwards."""
    starts = _whole(array)
    if len(starts) != side + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise ValueError("its rows do not begin one after the other")
    return starts
