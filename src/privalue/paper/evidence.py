"""Estimate the differences, slopes and crossings that decide a claim, with intervals over runs.

| symbol | here           | meaning                                                           |
|--------|----------------|-------------------------------------------------------------------|
| d_i    | ``ln(a/b)``    | a paired difference in run i: both from the same batch            |
| b_i    | ``slope``      | the least-squares slope of ln y against ln x in run i             |
| t      | ``half``/error | the quantile of Student's t with (runs - 1) degrees of freedom    |

Runs are independent, so the mean over runs plus or minus t standard errors is a 95% interval. For k
simultaneous comparisons each interval has level 1 - 0.05/k (Bonferroni), so that all of them hold
together with probability 95%.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from privalue.core import Integers, Vector
from privalue.errors import UsageError
from privalue.paper.experiments import Curve

_DRAWS, _SEED = 400, 1  # of the bootstrap


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over runs with its standard error and its interval."""

    value: float
    error: float
    low: float
    high: float

    @property
    def above_zero(self) -> bool | None:
        """Return whether the mean is above 0; None if the interval contains 0."""
        return True if self.low > 0 else False if self.high < 0 else None


def estimate(values: ArrayLike, *, comparisons: int = 1) -> Estimate:
    """Estimate the mean of independent runs; the interval is corrected for all comparisons."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) < 2 or not np.isfinite(x).all():
        raise UsageError(f"an estimate needs two or more finite runs, not {x!r}")
    mean, error = float(x.mean()), float(x.std(ddof=1)) / math.sqrt(len(x))
    half = float(stats.t.ppf(1 - 0.025 / comparisons, len(x) - 1)) * error
    return Estimate(value=mean, error=error, low=mean - half, high=mean + half)


def above(a: Curve, b: Curve) -> list[bool | None]:
    """Return whether a is above b, point by point; None where the difference is insignificant."""
    if not np.array_equal(a.at, b.at):
        raise UsageError("two curves can be compared only at the same points")
    logs = np.log(a.values / b.values)
    return [estimate(column, comparisons=len(a.at)).above_zero for column in logs.T]


def slope(curve: Curve) -> Estimate:
    """Estimate the slope of ln y against ln x, by least squares in every run."""
    x = np.log(curve.at)
    x = x - x.mean()
    return estimate(np.log(curve.values) @ x / float(x @ x))


def settling_point(x: Vector, y: Vector, level: float) -> float:
    """Return the least x from which y stays at or below the level; infinite if it ends above.

    Between points the curve is interpolated linearly in both logarithms.
    """
    places = np.flatnonzero(~(y <= level))
    if len(places) == 0:
        return float(x[0])
    last = int(places[-1])
    if last == len(x) - 1:
        return math.inf
    (x0, x1), (y0, y1) = np.log(x[last : last + 2]), np.log(y[last : last + 2])
    share = (y0 - math.log(level)) / (y0 - y1)
    return float(math.exp(x0 + share * (x1 - x0)))


def crossing(a: Curve, b: Curve) -> tuple[float, bool]:
    """Return the x from which a stays below b, and whether the crossing is significant.

    It is significant if a is significantly above b at some x and below b at the last, by paired
    differences of logarithms.
    """
    signs, logs = above(a, b), np.log(a.values / b.values)
    at = settling_point(a.at, np.exp(logs.mean(axis=0)), 1.0)
    return at, True in signs and signs[-1] is False


def minimum(at: Vector, mean: Vector) -> tuple[float, float]:
    """Return position and height of the minimum.

    Both are those of a parabola through the lowest point and its neighbours, in logarithms.
    """
    i = int(np.argmin(mean))
    if i in {0, len(at) - 1}:
        return float(at[i]), float(mean[i])
    x, y = np.log(at[i - 1 : i + 2]), np.log(mean[i - 1 : i + 2])
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    curvature = (right - left) / (x[2] - x[0])
    if not curvature > 0:
        return float(at[i]), float(mean[i])
    shift = float(np.clip((x[0] + x[1]) / 2 - left / (2 * curvature), x[0], x[2]))
    base = y[1] + (shift - x[1]) * (left + curvature * (shift - x[0]))
    return math.exp(shift), math.exp(float(base))


def resampled_slope(curves: Sequence[Curve], x: Vector) -> Estimate:
    """Estimate the slope of ln(argmin) against ln x, with a bootstrap over runs (Efron 1979).

    The lambda with the least mean error is a property of all runs together, so runs are resampled,
    the same ones for all x: batches of different sizes are independent anyway.

    Args:
        curves: the error along lambda, a curve for each x.
        x: the batch sizes.
    """
    runs = len(curves[0].values)
    generator = np.random.default_rng(_SEED)
    centred = np.log(x) - np.log(x).mean()

    def slope_of(sample: Integers) -> float:
        best = [minimum(curve.at, curve.values[sample].mean(axis=0))[0] for curve in curves]
        return float(np.log(best) @ centred / (centred @ centred))

    spread = np.array([slope_of(generator.integers(runs, size=runs)) for _ in range(_DRAWS)])
    low, high = np.quantile(spread, [0.025, 0.975])
    value = slope_of(np.arange(runs, dtype=np.int64))
    return Estimate(value=value, error=float(spread.std()), low=float(low), high=float(high))
