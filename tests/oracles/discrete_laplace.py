"""The law of the discrete Laplace number."""

from fractions import Fraction

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

mp.mp.dps = 20


def discrete_laplace_mass(scale: Fraction, last: int) -> NDArray[np.float64]:
    """P(y) = (1 - q)/(1 + q) q^|y|, q = e^{-1/scale}, for y = -last, ..., last.

    The ends have all that is beyond them.
    """
    q = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)
    inner = [(1 - q) / (1 + q) * q**y for y in range(last)]
    end = q**last / (1 + q)
    return np.array([float(p) for p in (end, *inner[:0:-1], *inner, end)])
