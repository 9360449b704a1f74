"""Name the arrays that the core computes with, and the rounding of one operation on them."""

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = NDArray[np.float64] | sp.csr_array

UNIT_ROUNDOFF = 2.0**-53  # u: one operation on doubles is right to this, relative to its result
