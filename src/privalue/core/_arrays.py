"""Name the arrays and numbers that the core computes with, and the rounding of one operation."""

import sys
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = NDArray[np.float64] | sp.csr_array

UNIT_ROUNDOFF = 2.0**-53  # u: one operation on doubles is right to this, relative to its result


def is_number(value: object) -> bool:
    """Return whether it is a number that a double can hold."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def q_largest(values: Vector, q: int | None) -> Vector:
    """Return the q largest values, in any order; all of them if q is None or too large."""
    if q is None or q >= len(values):
        return values
    return np.partition(values, len(values) - q)[len(values) - q :]
