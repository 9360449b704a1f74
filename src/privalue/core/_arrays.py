"""Arrays of the core: their types, and the rounding error of a double."""

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = NDArray[np.float64] | sp.csr_array

UNIT_ROUNDOFF = 2.0**-53


def read_only(array: Vector) -> Vector:
    """Return a copy that nobody can change."""
    copied = np.array(array)
    copied.setflags(write=False)
    return copied
