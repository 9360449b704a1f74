"""Measure what decides a claim: differences, slopes and crossings, with uncertainty over runs.

| symbol | here           | meaning                                                          |
|--------|----------------|------------------------------------------------------------------|
| d_i    | ``ln(a/b)``    | a paired difference in run i: both from the same batch           |
| b_i    | ``slope``      | the least-squares slope of ln y against ln x in run i            |
| t      | ``half``/error | the quantile of Student's distribution, one degree less than runs |

Runs are independent, so the mean over runs plus or minus t standard errors is a 95% interval. Where
k comparisons are made at once, each interval is a (1 - 0.05/k) one (Bonferroni): all of them hold
at once, 19 times in 20.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from privalue.core import Vector
from privalue.errors import UsageError
from privalue.paper._table import Curve


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over runs with its standard error and its interval."""

    value: float
    error: float
    low: float
    high: float
    runs: int

    @property
    def above_zero(self) -> bool | None:
        """Return whether the mean is above 0; None where the interval holds 0."""
        if self.low > 0:
            return True
        return False if self.high < 0 else None

    def holds(self, number: float) -> bool:
        """Return whether the interval holds the number."""
        return self.low <= number <= self.high


def estimate(values: ArrayLike, *, comparisons: int = 1) -> Estimate:
    """Estimate the mean of independent runs and its interval, as one of several comparisons."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) < 2 or not np.isfinite(x).all():
        raise UsageError(f"an estimate needs two or more finite runs, and not {x!r}")
    mean, error = float(x.mean()), float(x.std(ddof=1)) / math.sqrt(len(x))
    half = float(stats.t.ppf(1 - 0.025 / comparisons, len(x) - 1)) * error
    return Estimate(value=mean, error=error, low=mean - half, high=mean + half, runs=len(x))


def log_ratio(a: Vector, b: Vector) -> Estimate:
    """Estimate the mean of ln(a/b), run by run: the same batches on both sides."""
    return estimate(np.log(np.asarray(a) / np.asarray(b)))


def above(a: Curve, b: Curve) -> list[bool | None]:
    """Return whether a is above b, point by point; None where the runs do not decide it."""
    if not np.array_equal(a.at, b.at):
        raise UsageError("two curves can be compared only at the same points")
    logs = np.log(a.values / b.values)
    return [estimate(column, comparisons=len(a.at)).above_zero for column in logs.T]


def slope(curve: Curve) -> Estimate:
    """Estimate the slope of ln y against ln x, by least squares in every run."""
    if len(curve.at) < 2:
        raise UsageError("a slope needs two or more points")
    x = np.log(curve.at)
    x = x - x.mean()
    return estimate(np.log(curve.values) @ x / float(x @ x))


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Where a falling curve goes below a level for good; infinite where it does not.

    ``low`` and ``high`` are where it would if the mean were two standard errors lower or higher.
    """

    at: float
    low: float
    high: float


def reached(curve: Curve, level: float) -> Reached:
    """Return the x from which on the mean stays below the level.

    Between points the curve is a straight line in the logarithms of both.
    """
    spread = 2 * curve.error
    lower = np.maximum(curve.mean - spread, 1e-3 * curve.mean)
    return Reached(
        at=_last_crossing(curve.at, curve.mean, level),
        low=_last_crossing(curve.at, lower, level),
        high=_last_crossing(curve.at, curve.mean + spread, level),
    )


def _last_crossing(x: Vector, y: Vector, level: float) -> float:
    """Return the last x at which y falls to the level; infinite if it ends above."""
    above = np.flatnonzero(~(y <= level))
    if len(above) == 0:
        return float(x[0])
    last = int(above[-1])
    if last == len(x) - 1:
        return math.inf
    (x0, x1), (y0, y1) = np.log(x[last : last + 2]), np.log(y[last : last + 2])
    share = (y0 - math.log(level)) / (y0 - y1)
    return float(math.exp(x0 + share * (x1 - x0)))


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Where one curve goes below another for good."""

    at: float  # infinite where it does not
    before: float | None  # the largest x at which it is certainly above
    after: float | None  # the smallest x from which on it is certainly below


def crossing(a: Curve, b: Curve) -> Crossing:
    """Find where a goes below b for good; at each point paired differences of logs decide."""
    signs, logs = above(a, b), np.log(a.values / b.values)
    still = [float(x) for x, sign in zip(a.at, signs, strict=True) if sign is True]
    since = len(signs)
    while since > 0 and signs[since - 1] is False:
        since -= 1
    return Crossing(
        at=_last_crossing(a.at, np.exp(logs.mean(axis=0)), 1.0),
        before=max(still, default=None),
        after=float(a.at[since]) if since < len(signs) else None,
    )


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """Where a curve is lowest, and how low it is there."""

    at: float
    value: float


def lowest(at: Vector, mean: Vector) -> Minimum:
    """Return the minimum of a parabola through the lowest point and its neighbours, in logs."""
    i = int(np.argmin(mean))
    if i in (0, len(at) - 1):
        return Minimum(at=float(at[i]), value=float(mean[i]))
    x, y = np.log(at[i - 1 : i + 2]), np.log(mean[i - 1 : i + 2])
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    curvature = (right - left) / (x[2] - x[0])
    if not curvature > 0:
        return Minimum(at=float(at[i]), value=float(mean[i]))
    shift = float(np.clip((x[0] + x[1]) / 2 - left / (2 * curvature), x[0], x[2]))
    base = y[1] + (shift - x[1]) * (left + curvature * (shift - x[0]))
    return Minimum(at=math.exp(shift), value=math.exp(float(base)))


def resampled_slope(curves: list[Curve], x: Vector, *, draws: int = 400, seed: int = 1) -> Estimate:
    """Estimate the slope of ln(argmin) against ln x, with a bootstrap over runs (Efron 1979).

    The lambda that is best on average is a property of all runs together, so they are drawn again,
    the same ones for all x: batches of different sizes are independent anyway.

    Args:
        curves: the error along lambda, a curve for each x.
        x: the batch sizes.
        draws: how often runs are drawn again.
        seed: of those draws.

    Returns:
        The slope with its bootstrap interval.
    """
    runs = len(curves[0].values)
    generator = np.random.default_rng(seed)
    centred = np.log(x) - np.log(x).mean()

    def of(chosen: NDArray[np.int64]) -> float:
        best = [lowest(curve.at, curve.values[chosen].mean(axis=0)).at for curve in curves]
        return float(np.log(best) @ centred / (centred @ centred))

    found = of(np.arange(runs, dtype=np.int64))
    spread = np.array([of(generator.integers(runs, size=runs)) for _ in range(draws)])
    low, high = np.quantile(spread, [0.025, 0.975])
    return Estimate(
        value=found, error=float(spread.std()), low=float(low), high=float(high), runs=runs
    )
