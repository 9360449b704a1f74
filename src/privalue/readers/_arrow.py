"""Make Arrow arrays of texts, flags and numbers without ``pa.array``.

That function asks whether it was given something of pandas, and imports pandas to find out, where
there is one: it takes longer than to read a small file.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text_array(texts: Sequence[str]) -> pa.Array:
    """Return texts as Arrow holds them."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    long = pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)
    return long.cast(pa.string())


def flag_array(flags: NDArray[np.bool_]) -> pa.Array:
    """Return flags as Arrow holds them, a bit each."""
    bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, bits])


def number_array(numbers: NDArray[np.generic]) -> pa.Array:
    """Return numbers as Arrow holds them: these very numbers, which nobody may change any more."""
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])
