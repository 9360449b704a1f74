"""Turn a released noise scale into privacy intervals.

| symbol     | here            | shape | public                                          |
|------------|-----------------|-------|-------------------------------------------------|
| sigma~     | ``scale.sigma`` |       | yes                                             |
| b          | ``scale.laplace``|      | yes: the scale of Y, the noise in ln sigma~^2   |
| f_s        | ``factors``     | N     | yes: value s has noise sigma f_s Z_s            |
| t          | ``quantile``    |       | yes                                             |
| R          |                 |       | **private**: |Z_s| of one value, or the largest |

The error of a value over f_s sigma~ is Z_s e^{-Y/2} with Y close to a Laplace number of scale b,
and t solves P(R <= t e^{Y/2}) = level. Everything is rounded towards wider intervals. Proofs:
docs/proofs/noise-scale.md.

These are *privacy intervals*. They cover what would have been released without noise, not the
values of the policy: the sampling error of the data is another matter.
"""

import functools
import math
import sys
from collections.abc import Callable

import numpy as np
import scipy
import scipy.sparse as sp
from scipy import special

from privalue.core import ReleasedScale, Vector, is_number
from privalue.errors import StudyError, UsageError

_CELLS = 2**18  # of the law of R
_MARGIN = 1e-9  # relative, of the probability to miss; far above the error of erfc and the like
_LARGEST_LOG = 709.0  # e to this is a double
_OUTWARDS = 1 + 2.0**-40


@functools.lru_cache(maxsize=256, typed=True)
def simultaneous_quantile(
    level: float, laplace: float, *, directions: int, dimension: int
) -> float:
    """Return t such that P(all |Z_s| <= t e^{Y/2}) >= level, with one Y for all states.

    Given Y, the probability is at least (2 Phi(x) - 1)^n at x = t e^{Y/2} by Sidak's inequality,
    whatever the correlations, and at least P(chi_d <= x) by that of Cauchy and Schwarz. The
    larger of the two is taken, and R is its law.

    Args:
        level: of the intervals, above 0 and below 1.
        laplace: b; 0 where sigma is public.
        directions: n, the number of values that differ by more than a factor: at most the
            number of states, and the number of features where each state has one.
        dimension: d, the number of coordinates that noise was drawn for.

    Returns:
        t, rounded up; infinite where no double is large enough: then nothing can be said at this
        level.
    """
    _require_quantile(level, laplace, directions, dimension)
    allowed = (1 - level) * (1 - _MARGIN)
    missed = _chance_to_miss(laplace, directions, dimension, allowed)
    low, high = -1.0, _LARGEST_LOG
    if missed(high) > allowed:
        return math.inf
    while missed(low) < allowed:
        low *= 2
    log_t = scipy.optimize.brentq(
        lambda log_t: math.log(max(missed(log_t), 1e-300) / allowed), low, high, xtol=1e-11
    )
    step = 1e-11
    while missed(log_t) > allowed:  # the root finder is not trusted
        log_t += step
        step *= 2
    return max(math.exp(log_t) * _OUTWARDS, sys.float_info.min)


def _chance_to_miss(
    laplace: float, directions: int, dimension: int, allowed: float
) -> Callable[[float], float]:
    """Return P(R > t e^{Y/2}) as a function of ln t; never below it, and sharp near ``allowed``.

    The law of R is cut into cells, and R is taken to be at the upper end of its cell.
    """
    if laplace == 0:
        return lambda log_t: float(_outside(np.exp(log_t), directions, dimension))
    # R is rounded up to one of the edges; what is beyond the last counts as missed.
    edges = np.linspace(0.0, _radius(allowed * 2.0**-20, directions, dimension), _CELLS + 1)
    beyond = np.append(1.0, _outside(edges[1:], directions, dimension))
    mass = beyond[:-1] - beyond[1:]
    log_edges = np.log(edges[1:])
    rate = 2 / max(laplace, 1e-12)  # a smaller b makes no difference that doubles show

    def missed(log_t: float) -> float:
        """Return P(Y < 2 ln(R/t)): P(Y < y) is e^{y/b}/2 for y < 0, 1 - e^{-y/b}/2 above."""
        at = int(np.searchsorted(log_edges, log_t))
        part = mass * np.exp(-rate * np.abs(log_edges - log_t)) / 2
        return float(part[:at].sum() + beyond[at] - part[at:].sum())

    return missed


def _outside(x: Vector, directions: int, dimension: int) -> Vector:
    """Return the smaller of 1 - (2 Phi(x) - 1)^n and P(chi_d > x); the first, if n <= d."""
    with np.errstate(divide="ignore", over="ignore"):
        sidak = -np.expm1(directions * np.log1p(-special.erfc(x / math.sqrt(2))))
        if directions <= dimension:
            return np.asarray(sidak)
        return np.asarray(np.minimum(sidak, special.gammaincc(dimension / 2, x * x / 2)))


def _radius(outside: float, directions: int, dimension: int) -> float:
    """Return the x at which ``_outside`` has this value, nearly."""
    one = -math.expm1(math.log1p(-outside) / directions)
    return min(
        -float(special.ndtri(one / 2)),
        math.sqrt(2 * float(special.gammainccinv(dimension / 2, outside))),
    )


def distinct_directions(rows: Vector | sp.csr_array) -> int:
    """Return an upper bound of how many rows differ by more than a factor; at least 1.

    Rows with one number are the same direction if it is in the same column. Others count as the
    same only if they are equal up to the sign: finding other factors in floating point is not
    reliable, and counting too many directions only widens the bands. Rows of zeros have no noise
    and do not count.
    """
    matrix = sp.csr_array(rows, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    lengths = np.diff(matrix.indptr)
    single = np.unique(matrix.indices[matrix.indptr[:-1][lengths == 1]])
    several = set()
    for row in np.flatnonzero(lengths > 1):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        data = matrix.data[entries]
        several.add((matrix.indices[entries].tobytes(), (data * np.sign(data[0])).tobytes()))
    return max(len(single) + len(several), 1)


# Intervals


def privacy_intervals(
    values: Vector,
    factors: Vector,
    scale: ReleasedScale,
    level: float,
    *,
    slack: float | Vector = 0.0,
    directions: int = 1,
    dimension: int = 1,
) -> tuple[Vector, Vector]:
    """Return values -+ (t e^h sigma~ f_s + slack), rounded outwards.

    e^h covers the grid of the scale: half a step for rounding ln sigma^2, one for J being whole,
    half a step for the rounding of doubles. Values are states' or any linear combinations, such
    as the overall value of a policy: then the factor is ||W^{-T} Phi^T start||.

    Args:
        values: as published.
        factors: the standard deviation of each value's noise, over sigma.
        scale: as it was released.
        level: with this probability an interval covers the value without noise.
        slack: what moves a value besides noise, at most: half the output grid times the sum of
            |map| over the coordinates drawn, and the float error of the map.
        directions: as in ``simultaneous_quantile``; with it and ``dimension``, all intervals
            together cover with probability ``level``. As they are, each does by itself.
        dimension: see ``directions``.

    Returns:
        The lower ends and the upper ends, read-only.
    """
    if type(scale) is not ReleasedScale:
        raise UsageError("scale must be the one that was released")
    middle, spread, extra = (np.asarray(x, dtype=np.float64) for x in (values, factors, slack))
    if spread.shape != middle.shape or extra.shape not in {(), middle.shape}:
        raise UsageError("values and factors must have one shape, and slack that or be one number")
    if not all(map(np.all, (np.isfinite(middle), spread >= 0, extra >= 0))):
        raise UsageError("values must be finite, factors and slack not below 0")
    t = simultaneous_quantile(level, scale.laplace, directions=directions, dimension=dimension)
    with np.errstate(over="ignore", invalid="ignore"):
        noise = np.where(spread > 0, t * math.exp(scale.grid) * scale.sigma * spread, 0.0)
        half = (noise + extra) * _OUTWARDS
        low, high = np.nextafter(middle - half, -np.inf), np.nextafter(middle + half, np.inf)
    for array in (low, high):
        array.setflags(write=False)
    return low, high


def _require_quantile(level: float, laplace: float, directions: int, dimension: int) -> None:
    """Refuse a level that no interval has, and counts that are not whole numbers above 0."""
    if not is_number(level) or not 0 < level < 1 or 1 - level < 1e-12:
        raise StudyError(
            f"[report] level = {level!r} must be above 0 and below 1, by at least 1e-12"
        )
    if not is_number(laplace) or laplace < 0:
        raise UsageError(f"laplace is {laplace!r}; it must be a finite number that is 0 or more")
    for name, count in (("directions", directions), ("dimension", dimension)):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**12:
            raise UsageError(f"{name} is {count!r}; it must be a whole number that is 1 or more")
