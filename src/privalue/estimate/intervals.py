"""Compute total intervals: for V itself, with privacy noise and sampling error in one.

| symbol      | here                | shape | public |
|-------------|---------------------|-------|--------|
| T~, n~      | ``ratios``          | N     | yes    |
| s_T, s_n    | ``ratios``          | N     | yes, standard deviations |
| c           | ``ratios.centre``   |       | yes    |
| F_lo, F_hi  | ``ratios.bounds``   |       | yes, of the returns that were added up |
| kappa       | ``cluster_size``    |       | yes: most visits of one unit, which may be equal |
| z           | ``z``               |       | yes    |
| V           |                     | N     | **unknown**: mean return in the population |

At the true V the number T~ - (V - c) n~ has mean 0. Its noise has the variance
s_T^2 + (V - c)^2 s_n^2, and sampling adds at most kappa n (F_hi - V)(V - F_lo), with n the expected
visits (Bhatia and Davis 2000). docs/proofs/intervals.md has the proofs, and says what is exact.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.estimate.ratios import MIN_Z, Ratios

_ROUNDING = 1e-12  # of a root, in halves of the range of returns

Ends = tuple[Vector, Vector]


def name_ends(ends: dict[str, Ends]) -> dict[str, Vector]:
    """Return the ends as columns: ``total_`` becomes ``total_low`` and ``total_high``."""
    sides = ("low", "high")
    return {f"{kind}{sides[at]}": pair[at] for kind, pair in ends.items() for at in (0, 1)}


def widen(ends: Ends, others: Ends) -> Ends:
    """Return the ends of the smallest intervals that contain both."""
    return np.minimum(ends[0], others[0]), np.maximum(ends[1], others[1])


class Interval(NamedTuple):
    """Point estimates from noisy statistics alone, with their total intervals."""

    point: Vector
    low: Vector
    high: Vector
    bias_bound: Vector  # the part of the half-width that bounds a bias

    def subtract(
        self, other: "Interval", bounds: tuple[float, float], *, independent: bool = True
    ) -> Ends:
        """Return the ends of an interval for the difference, from the intervals of both numbers.

        The squares of half-widths add up, separately on each side (Zou and Donner 2008):

            d - sqrt((x - x_low)^2 + (y_high - y)^2)  to  d + sqrt((x_high - x)^2 + (y - y_low)^2)

        with d = x - y. x and y are the point estimates: a shrunk value may be next to an end of its
        interval, and would hide the other's width. An end at a bound of returns is not a quantile:
        there the two half-widths are summed. So are bias bounds, and all half-widths if the two
        are not independent; then each interval must have the level (1 + level)/2
        (docs/proofs/arms-and-actions.md).

        Args:
            other: y, with its interval; x is this one.
            bounds: of returns.
            independent: whether the people and the noise of the two are independent.
        """

        def combine(x_gap: Vector, y_gap: Vector, at_bound: NDArray[np.bool_]) -> Vector:
            x_bias, y_bias = np.minimum(self.bias_bound, x_gap), np.minimum(other.bias_bound, y_gap)
            half = np.hypot(x_gap - x_bias, y_gap - y_bias) + (x_bias + y_bias)
            return np.where(at_bound | np.bool_(not independent), x_gap + y_gap, half)

        lowest, highest = bounds
        x, y = (np.clip(estimate.point, estimate.low, estimate.high) for estimate in (self, other))
        at_lowest = (self.low <= lowest) | (other.high >= highest)
        at_highest = (self.high >= highest) | (other.low <= lowest)
        below = combine(x - self.low, other.high - y, at_lowest)
        above = combine(self.high - x, y - other.low, at_highest)
        return x - y - below, x - y + above


def total_intervals(ratios: Ratios, z: float, privacy: Ends, cluster_size: int | Vector) -> Ends:
    """Return the ends of the smallest interval that contains ``privacy`` and all plausible V.

    They are {v : (T~ - y n~)^2 <= z^2 (s_T^2 + y^2 s_n^2 + kappa max(n~, 0)(F_hi - v)(v - F_lo))}
    with y = v - c and v between the bounds: A y^2 - 2 B y + C <= 0. The set may be the whole range,
    or have a gap, or be empty where c + T~/n~ is outside the bounds.

    Args:
        ratios: sums and counts of the states, with their noise.
        z: the standard normal quantile of the level.
        privacy: the ends of the privacy intervals.
        cluster_size: how many trajectories of one unit count (or how many of its visits, state by
            state); they may all be equal.

    Returns:
        The lower ends and the upper ends.
    """
    lowest, highest = ratios.bounds
    unit = 0.5 * highest - 0.5 * lowest
    first, last = (lowest - ratios.centre) / unit, (highest - ratios.centre) / unit
    # y is in units of half the range, and all numbers in units of the largest of the four, so that
    # no square overflows or underflows. The noise is multiplied by z.
    t, tau = ratios.sums / unit, z * ratios.sum_noise / unit
    n, nu = ratios.counts, z * ratios.count_noise
    size = np.maximum.reduce([np.abs(t), tau, np.abs(n), nu])
    t, tau, n, nu = t / size, tau / size, n / size, nu / size
    sampling = cluster_size * np.maximum(n, 0.0) * (z * (z / size))
    a = (n - nu) * (n + nu) + sampling
    b = t * n + sampling * (first + last) / 2
    c = (t - tau) * (t + tau) + sampling * first * last
    # B^2 - A C, multiplied out: as a difference it would lose its digits where noise is small.
    square = (
        np.square(nu * t)
        + np.square(tau * n)
        - np.square(nu * tau)
        + sampling * ((last * n - t) * (t - first * n) + tau * tau + first * last * nu * nu)
        + np.square(sampling * (last - first) / 2)
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        larger = b + np.copysign(np.sqrt(square), b)  # not a number where there is no root
        roots = np.stack([larger / a, c / larger])
    between = (roots >= first - _ROUNDING) & (roots <= last + _ROUNDING)
    # At a bound sampling adds nothing, and the noise alone decides.
    at_first = np.abs(t - first * n) <= np.hypot(tau, first * nu)
    at_last = np.abs(t - last * n) <= np.hypot(tau, last * nu)
    low = np.where(at_first, first, np.where(between, roots, np.inf).min(axis=0))
    high = np.where(at_last, last, np.where(between, roots, -np.inf).max(axis=0))
    has_ends = np.isfinite(low) & np.isfinite(high)
    low, high = (np.clip(ratios.centre + unit * end, lowest, highest) for end in (low, high))
    hull = widen((low, high), privacy)
    return np.where(has_ends, hull[0], privacy[0]), np.where(has_ends, hull[1], privacy[1])


def estimate_intervals(
    ratios: Ratios, unvisited: float, z: float, cluster_size: int | Vector
) -> Interval:
    """Return the ratios as point estimates, with their total intervals."""
    low, high = total_intervals(ratios, z, ratios.intervals(z), cluster_size=cluster_size)
    return Interval(ratios.divide(unvisited), low, high, np.zeros(len(low)))


def count_distinct_values(low: Vector, high: Vector) -> int:
    """Return a lower bound on how many values differ, if each lies in its own interval.

    It is the smallest number of points that meet every interval, chosen greedily: the next point is
    the smallest upper end among the intervals that no point has met. Two or more mean that not all
    values are equal.

    >>> count_distinct_values(np.array([0.0, 0.2, 0.5]), np.array([0.3, 0.4, 0.9]))
    2
    """
    count, point = 0, -np.inf
    for at in np.argsort(high):
        if low[at] > point:
            count, point = count + 1, high[at]
    return count


def mix_intervals(
    ratios: Ratios, mixtures: Vector, z: float, totals: Ends, cluster_size: int | Vector
) -> Interval:
    """Return the overall value sum_s mixture(s) V(s) of each arm, with its total interval.

    A trajectory that does well in one state may do well in all: the standard deviations of sampling
    errors are summed, as if they were perfectly correlated. Each is the largest that any value in
    the state's total interval gives. States without a reliable ratio may have any value.

    Args:
        ratios: sums and counts of the states, with their noise.
        mixtures: distributions over the keys, a row for each arm: the same one on its states.
        z: the standard normal quantile of the level.
        totals: the ends of the states' total intervals, at the same z.
        cluster_size: how many trajectories of one unit count.
    """
    lowest, highest = ratios.bounds
    if np.count_nonzero(mixtures[0]) == 1:
        keys = mixtures.argmax(axis=1)
        point = ratios.divide(ratios.centre)
        return Interval(point[keys], totals[0][keys], totals[1][keys], np.zeros(len(keys)))
    value, variance, bias_bound = ratios.debias()
    distance = np.hypot(ratios.sums / ratios.sum_noise, ratios.count_z)
    nearer = 1 - 2 / np.maximum(distance, MIN_Z)  # the true point may be nearer, as in ``debias``
    visits = np.maximum(ratios.counts, MIN_Z / 2 * ratios.count_noise) * nearer
    # Total intervals contain the fit's, which may go beyond the bounds or have overflowed.
    widest = np.clip(np.fmin(np.fmax(ratios.centre, totals[0]), totals[1]), lowest, highest)
    deviations = np.sqrt(cluster_size * (highest - widest) * (widest - lowest) / visits)
    sampling = mixtures @ np.where(bias_bound > 0, 0.0, deviations)
    noise = np.sqrt(np.square(mixtures) @ variance)
    point, bias = mixtures @ value, mixtures @ bias_bound
    half = z * np.hypot(noise, sampling) + bias
    low, high = np.maximum(point - half, lowest), np.minimum(point + half, highest)
    return Interval(point, low, high, bias)
