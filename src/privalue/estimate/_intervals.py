"""Error bars when the noise scale is secret: its private release, and the intervals it allows.

::

    symbol     code            shape  what it is
    sigma_X    sigma           ()     **private**  the standard deviation of the noise
    beta       beta            ()     public       ln sigma_X^2 moves by at most this much
    epsilon'   epsilon_scale   ()     public       what the release of the scale costs
    h          scale.grid      ()     public       a power of two; 0 where sigma is public
    k                          ()     **private**  ln sigma_X^2 in steps of h, rounded
    J                          ()     **private**  discrete Laplace noise, in steps of h
    a          steps           ()     public       k moves by at most this much
    b          scale.laplace   ()     public       h a / epsilon', the scale of h J
    sigma~     scale.sigma     ()     public       e^{h (k + J) / 2}
    f_s        factors         (N,)   public       ||W^{-T} phi_s||: value s has noise sigma f_s Z_s
    t          quantile        ()     public
    R                          ()     **private**  |Z_s| of one value, or the largest of them

sigma_X depends on the data and may not be published. Its logarithm is smooth, so it takes little
noise to publish that: h (k + J) is epsilon'-DP. The error of a value over f_s sigma~ is then
Z_s e^{-Y/2} with Y close to a Laplace number of scale b, and t solves P(R <= t e^{Y/2}) = level.
Everything is rounded towards wider intervals. Proofs: docs/proofs/noise-scale.md.

These are *privacy intervals*. They cover what would have been released without noise, not the
values of the policy: the sampling error of the data is another matter.
"""

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import optimize, special

from privalue.core._noise import Entropy, discrete_laplace
from privalue.errors import StudyError, UsageError

# Computed scales of neighbours may differ by this much more than beta says: psi is right to a
# relative 1e-9, products and the logarithm to far less (docs/proofs/calibration.md).
_ROOM = 5e-9
_STEPS = 512  # beta is at least so many steps of the grid
_CELLS = 2**18  # of the law of R
_MARGIN = 1e-9  # relative, of the probability to miss; far above the error of erfc and the like
_LARGEST_LOG = 709.0  # e to this is a double
_OUTWARDS = 1 + 2.0**-40

Vector = NDArray[np.float64]


class EpsilonSplit(NamedTuple):
    """epsilon in two parts, whose sum is never above it."""

    scale: float
    values: float


@dataclass(frozen=True, kw_only=True)
class ReleasedScale:
    """The noise scale as published. It and the values are all that intervals are made from."""

    sigma: float
    laplace: float  # b, of ln sigma^2
    grid: float  # h

    def __post_init__(self) -> None:
        numbers = (self.sigma, self.laplace, self.grid)
        if not all(map(_is_number, numbers)) or self.sigma <= 0 or min(numbers) < 0:
            raise UsageError(
                f"a released scale has sigma = {self.sigma!r}, laplace = {self.laplace!r} and grid "
                f"= {self.grid!r}; sigma must be a finite number above 0, the others 0 or more"
            )


def scale_share(epsilon: float, share: float) -> EpsilonSplit:
    """(epsilon', epsilon - epsilon') with epsilon' = share epsilon, each rounded down.

    The sum is at most epsilon as real numbers, not only as doubles. A share of 0 leaves
    everything to the values.

    >>> scale_share(1.0, 0.25)
    EpsilonSplit(scale=0.25, values=0.75)
    """
    if not _is_number(epsilon) or epsilon <= 0:
        raise StudyError(f"[privacy] epsilon = {epsilon!r} must be a finite number above 0")
    if not _is_number(share) or not 0 <= share < 1:
        raise StudyError(
            f"[mechanism] noise_scale_share = {share!r} must be at least 0 and below 1"
        )
    scale = _rounded_down(Fraction(epsilon) * Fraction(share))
    values = _rounded_down(Fraction(epsilon) - Fraction(scale))
    if values <= 0 or (share > 0 and scale <= 0):
        raise StudyError(
            f"[mechanism] noise_scale_share = {share!r} leaves nothing of epsilon = {epsilon!r} to "
            "one of the two releases; use a share such as 0.1"
        )
    return EpsilonSplit(scale, values)


def release_scale(
    sigma: float, beta: float, epsilon_scale: float, entropy: Entropy | None = None
) -> ReleasedScale:
    """e^{h (k + J) / 2}: an epsilon'-DP release of a noise scale with a beta-smooth ln sigma^2.

    k = floor(ln sigma^2 / h + 1/2) moves by at most a = floor((beta + room) / h) + 1 between
    neighbours; J is discrete Laplace of scale a / epsilon'.

    Args:
        sigma: the private standard deviation.
        beta: public; the smoothness that sigma was computed with.
        epsilon_scale: public; what this release may cost.
        entropy: the operating system's, if left out.
    """
    grid, steps = scale_grid(beta)
    laplace = laplace_scale(beta, epsilon_scale)
    if not _is_number(sigma) or sigma <= 0:
        raise UsageError("sigma must be a finite number above 0; without noise nothing is private")
    noise = discrete_laplace(Fraction(steps) / Fraction(epsilon_scale), entropy)
    multiple = _steps_of(sigma, grid) + noise
    exponent = Fraction(multiple) * Fraction(grid) / 2
    bounded = float(min(max(exponent, Fraction(-_LARGEST_LOG)), Fraction(_LARGEST_LOG)))
    return ReleasedScale(sigma=math.exp(bounded), laplace=laplace, grid=grid)


def scale_grid(beta: float) -> tuple[float, int]:
    """(h, a): the public grid of ln sigma^2, and by how many of its steps neighbours may differ.

    h is the largest power of two that is at most (beta + room) / 512.
    """
    if not _is_number(beta) or not 0 <= beta <= 100:
        raise UsageError(f"beta is {beta!r}; it must be a number from 0 to 100")
    _, exponent = math.frexp((beta + _ROOM) / _STEPS)
    grid = math.ldexp(0.5, exponent)
    return grid, math.floor((Fraction(beta) + Fraction(_ROOM)) / Fraction(grid)) + 1


def laplace_scale(beta: float, epsilon_scale: float) -> float:
    """b = h a / epsilon', rounded up: what ``release_scale`` will publish, before any data."""
    grid, steps = scale_grid(beta)
    if not _is_number(epsilon_scale) or not 1e-9 <= epsilon_scale <= 1e6:
        raise StudyError(
            f"[mechanism] noise_scale_share leaves epsilon' = {epsilon_scale!r} to the noise "
            "scale; it must be from 1e-9 to 1e6: use a share such as 0.1"
        )
    return -_rounded_down(-Fraction(grid) * steps / Fraction(epsilon_scale))


def _steps_of(sigma: float, grid: float) -> int:
    """k = floor(ln sigma^2 / h + 1/2)."""
    log_variance = 2 * math.log(sigma)
    return math.floor(Fraction(log_variance) / Fraction(grid) + Fraction(1, 2))


def known_scale(sigma: float) -> ReleasedScale:
    """A noise scale that is public: nothing is drawn, and intervals are the usual ones."""
    if not _is_number(sigma) or sigma <= 0:
        raise UsageError("sigma must be a finite number above 0")
    return ReleasedScale(sigma=float(sigma), laplace=0.0, grid=0.0)


# Quantiles


def pivot_quantile(level: float, laplace: float) -> float:
    """t with E_Y[2 Phi(t e^{Y/2}) - 1] >= level, Y ~ Laplace(b); rounded up.

    >>> f"{pivot_quantile(0.95, 0.0):.4f} {pivot_quantile(0.95, 0.2):.4f}"
    '1.9600 2.0136'
    """
    return simultaneous_quantile(level, laplace, directions=1, dimension=1)


@functools.lru_cache(maxsize=256, typed=True)
def simultaneous_quantile(
    level: float, laplace: float, *, directions: int, dimension: int
) -> float:
    """t for which all |Z_s| are at most t e^{Y/2}, with one Y for all, with probability >= level.

    Given Y, the probability is at least (2 Phi(x) - 1)^n at x = t e^{Y/2} by Sidak's inequality,
    whatever the correlations, and at least P(chi_d <= x) by that of Cauchy and Schwarz. The
    larger of the two is taken, and R is its law.

    Infinite where no double is large enough: then nothing can be said at this level.

    Args:
        level: of the intervals, above 0 and below 1.
        laplace: b; 0 where sigma is public.
        directions: n, the number of values that differ by more than a factor: at most the
            number of states, and the number of features where each state has one.
        dimension: d, the number of coordinates that noise was drawn for.
    """
    _require_quantile(level, laplace, directions, dimension)
    allowed = (1 - level) * (1 - _MARGIN)
    missed = _chance_to_miss(laplace, directions, dimension, allowed)
    low, high = -1.0, _LARGEST_LOG
    if missed(high) > allowed:
        return math.inf
    while missed(low) < allowed:
        low *= 2
    log_t = optimize.brentq(
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
    """P(R > t e^{Y/2}) as a function of ln t; never below it, and sharp near ``allowed``."""
    if laplace == 0:
        return lambda log_t: float(_outside(np.exp(log_t), directions, dimension))
    # R is rounded up to one of the edges; what is beyond the last counts as missed.
    edges = np.linspace(0.0, _radius(allowed * 2.0**-20, directions, dimension), _CELLS + 1)
    beyond = np.append(1.0, _outside(edges[1:], directions, dimension))
    mass = beyond[:-1] - beyond[1:]
    log_edges = np.log(edges[1:])
    rate = 2 / max(laplace, 1e-12)  # a smaller b makes no difference that doubles show

    def missed(log_t: float) -> float:
        """P(Y < 2 ln(R/t)), where P(Y < y) is e^{y/b}/2 for y < 0, and 1 - e^{-y/b}/2 above."""
        at = int(np.searchsorted(log_edges, log_t))
        part = mass * np.exp(-rate * np.abs(log_edges - log_t)) / 2
        return float(part[:at].sum() + beyond[at] - part[at:].sum())

    return missed


def _outside(x: Vector, directions: int, dimension: int) -> Vector:
    """The smaller of 1 - (2 Phi(x) - 1)^n and P(chi_d > x); the first, if n <= d."""
    with np.errstate(divide="ignore", over="ignore"):
        sidak = -np.expm1(directions * np.log1p(-special.erfc(x / math.sqrt(2))))
        if directions <= dimension:
            return np.asarray(sidak)
        return np.asarray(np.minimum(sidak, special.gammaincc(dimension / 2, x * x / 2)))


def _radius(outside: float, directions: int, dimension: int) -> float:
    """Where ``_outside`` has this value, nearly."""
    one = -math.expm1(math.log1p(-outside) / directions)
    return min(
        -float(special.ndtri(one / 2)),
        math.sqrt(2 * float(special.gammainccinv(dimension / 2, outside))),
    )


def distinct_directions(rows: Vector | sp.csr_array) -> int:
    """How many of the rows differ by more than a factor, at most; at least 1.

    Rows with one number are told apart by its place, others by being equal up to the sign: a
    factor between them is not looked for, since rounding could hide a difference. Rows of zeros
    have no noise and do not count.
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
    """(low, high) = values -+ (t e^h sigma~ f_s + slack), rounded outwards.

    e^h covers the grid of the scale: half a step for rounding ln sigma^2, one for J being whole,
    half a step for the rounding of doubles. Values are states' or any linear combinations, such
    as a policy's one number: then the factor is ||W^{-T} Phi^T start||.

    Args:
        values: as published.
        factors: the standard deviation of each value's noise, over sigma.
        scale: from ``release_scale``, or from ``known_scale`` where sigma is public.
        level: with this probability an interval covers the value without noise.
        slack: what moves a value besides noise, at most: half the output grid times the sum of
            |map| over the coordinates drawn, and the float error of the map.
        directions: as in ``simultaneous_quantile``; with it and ``dimension``, all intervals
            together cover with probability ``level``. As they are, each does by itself.
        dimension: see ``directions``.
    """
    if type(scale) is not ReleasedScale:
        raise UsageError("scale must come from release_scale or known_scale")
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
    if not _is_number(level) or not 0 < level < 1 or 1 - level < 1e-12:
        raise StudyError(
            f"[report] level = {level!r} must be above 0 and below 1, by at least 1e-12"
        )
    if not _is_number(laplace) or laplace < 0:
        raise UsageError(f"laplace is {laplace!r}; it must be a finite number that is 0 or more")
    for name, count in (("directions", directions), ("dimension", dimension)):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**12:
            raise UsageError(f"{name} is {count!r}; it must be a whole number that is 1 or more")


def _is_number(value: object) -> bool:
    """Whether it is a number that a double can hold."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def _rounded_down(value: Fraction) -> float:
    """The largest double that is at most the value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
