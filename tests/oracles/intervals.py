"""Literal twins of ``intervals.py``, and the law of the discrete Laplace number.

Coverages are integrals by mpmath's quadrature, as the formulas are written; the discrete ones are
sums over every step of the grid that matters. Nothing is rounded to a side.
"""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy import special

from privalue.core._noise_scale import ReleasedScale
from privalue.estimate._intervals import simultaneous_quantile

mp.mp.dps = 20


def discrete_laplace_mass(scale: Fraction, last: int) -> NDArray[np.float64]:
    """P(y) = (1 - q)/(1 + q) q^|y|, q = e^{-1/scale}, for y = -last, ..., last.

    The ends have all that is beyond them.
    """
    q = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)
    inner = [(1 - q) / (1 + q) * q**y for y in range(last)]
    end = q**last / (1 + q)
    return np.array([float(p) for p in (end, *inner[:0:-1], *inner, end)])


def within(x: mp.mpf, directions: int, dimension: int) -> mp.mpf:
    """The larger of (2 Phi(x) - 1)^n and P(chi_d <= x); the first, if n <= d."""
    sidak = mp.erf(x / mp.sqrt(2)) ** directions
    if directions <= dimension:  # of d independent normals, n are within if the norm is
        return sidak
    return max(sidak, mp.gammainc(mp.mpf(dimension) / 2, 0, x * x / 2, regularized=True))


def coverage(t: float, laplace: float, directions: int = 1, dimension: int = 1) -> mp.mpf:
    """E_Y[P(R <= t e^{Y/2})], Y ~ Laplace(b), by quadrature over y = b z."""
    b, t = mp.mpf(laplace), mp.mpf(t)
    if b == 0:
        return within(t, directions, dimension)

    def integrand(z: mp.mpf) -> mp.mpf:
        return mp.exp(-abs(z)) / 2 * within(t * mp.exp(b * z / 2), directions, dimension)

    bends = {0, -80, 80}
    for x in (mp.mpf(10) ** -8, 0.01, 0.1, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12):
        bends.add(max(min(2 * mp.log(x / t) / b, mp.mpf(80)), mp.mpf(-80)))
    return mp.quad(integrand, sorted(bends))


def quantile(level: float, laplace: float, directions: int = 1, dimension: int = 1) -> float:
    """t with coverage(t) = level, by regula falsi over ln t between 0 and 2."""

    def excess(log_t: mp.mpf) -> mp.mpf:
        return coverage(mp.exp(log_t), laplace, directions, dimension) - level

    return float(mp.exp(mp.findroot(excess, (0, 2), solver="anderson", tol=1e-9)))


def discrete_coverage(t: float, grid: float, scale: Fraction, position: float) -> float:
    """P(|Z| sigma <= t sigma~) of the mechanism itself, step by step.

    ``position`` is ln sigma^2 / h less its nearest integer: sigma~ is sigma e^{h (J - position)/2}.
    """
    a = float(scale)
    last = math.ceil(40 * a) + 2
    steps = np.arange(-last, last + 1)
    q = math.exp(-1 / a)
    mass = (1 - q) / (1 + q) * np.exp(-np.abs(steps) / a)
    mass /= mass.sum()
    inside = special.erf(t * np.exp(grid * (steps - position) / 2) / math.sqrt(2))
    return float(mass @ inside)


def known_scale(sigma):
    """A noise scale that is public: nothing was drawn for it."""
    return ReleasedScale(sigma=sigma, laplace=0.0, grid=0.0)


def pivot_quantile(level, laplace):
    """The quantile of one value by itself."""
    return simultaneous_quantile(level, laplace, directions=1, dimension=1)
