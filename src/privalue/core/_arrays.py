"""Name the arrays that the core computes with, and the rounding of one operation on them."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

UNIT_ROUNDOFF = 2.0**-53  # u: one operation on doubles is right to this, relative to its result


def read_only(array: Vector) -> Vector:
    """Forbid changes of an array, and return it: nobody can alter what was checked."""
    array.setflags(write=False)
    return array
