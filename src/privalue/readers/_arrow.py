"""Make Arrow arrays of texts, flags and numbers without ``pa.array``, and look into them.

That function asks whether it was given something of pandas, and imports pandas to find out, where
there is one; so does ``to_numpy``. It takes longer than to read a small file. A cast imports all of
Arrow's functions, which takes a few hundredths of a second.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text_array(texts: Sequence[str]) -> pa.Array:
    """Return texts as Arrow holds them."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if offsets[-1] >= 2**31:
        raise OverflowError("texts of two gigabytes or more")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def flag_array(flags: NDArray[np.bool_]) -> pa.Array:
    """Return flags as Arrow holds them, a bit each."""
    bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, bits])


def number_array(numbers: NDArray[np.generic]) -> pa.Array:
    """Return numbers as Arrow holds them: these very numbers, which nobody may change any more."""
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def numbers_in(column: pa.Array) -> NDArray[Any]:
    """Return the numbers of a column of a whole number of bytes each, none of them null."""
    kind = np.dtype(f"{_LETTERS[str(column.type)]}{column.type.bit_width // 8}")
    if len(column) == 0:
        return np.empty(0, dtype=kind)
    return np.frombuffer(column.buffers()[1], dtype=kind)[
        column.offset : column.offset + len(column)
    ]


_LETTERS = {
    **{f"int{bits}": "i" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": "u" for bits in (8, 16, 32, 64)},
    **{"halffloat": "f", "float": "f", "double": "f"},
}


def flags_in(column: pa.Array) -> NDArray[np.bool_]:
    """Return the flags of a column, none of them null."""
    if len(column) == 0:
        return np.empty(0, dtype=np.bool_)
    bits = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    found = np.unpackbits(bits, count=column.offset + len(column), bitorder="little")
    return found[column.offset :].view(np.bool_)
