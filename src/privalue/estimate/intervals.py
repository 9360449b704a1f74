"""Find where V may be: intervals that hold the noise of privacy and the choice of people at once.

| symbol      | here                | shape | public |
|-------------|---------------------|-------|--------|
| T~, n~      | ``ratios``          | N     | yes    |
| s_T, s_n    | ``ratios``          | N     | yes, standard deviations |
| c           | ``ratios.centre``   |       | yes    |
| F_lo, F_hi  | ``ratios.bounds``   |       | yes, of the returns that were added up |
| kappa       | ``alike``           |       | yes: visits of one unit, which may be alike |
| z           | ``z``               |       | yes    |
| V           |                     | N     | **unknown**: mean return of people at large |

At the true V the number T~ - (V - c) n~ has mean 0. Its noise has the variance
s_T^2 + (V - c)^2 s_n^2, and the choice of people adds at most kappa n (F_hi - V)(V - F_lo), n being
the visits to expect (Bhatia and Davis 2000). docs/proofs/intervals.md has the arguments, and
says what is exact.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.estimate.ratios import CLEAR, Ratios

_ROUNDING = 1e-12  # of a root, in halves of the range of returns

Ends = tuple[Vector, Vector]


def name_ends(ends: dict[str, Ends]) -> dict[str, Vector]:
    """Return the ends as columns: ``total_`` becomes ``total_low`` and ``total_high``."""
    sides = ("low", "high")
    return {f"{kind}{sides[at]}": pair[at] for kind, pair in ends.items() for at in (0, 1)}


def widen(ends: Ends, around: Ends) -> Ends:
    """Return the ends of the smallest intervals that hold both."""
    return np.minimum(ends[0], around[0]), np.maximum(ends[1], around[1])


class Located(NamedTuple):
    """Numbers where the noisy statistics put them, and the total intervals around that."""

    own: Vector
    low: Vector
    high: Vector
    unknown: Vector  # the part of the half-width that is no deviation, but a bound

    def minus(
        self, other: "Located", bounds: tuple[float, float], *, independent: bool = True
    ) -> Ends:
        """Return the ends of an interval of the difference from other numbers, by that of each.

        Half-widths add up as squares, each side for itself (Zou and Donner 2008):

            d - sqrt((x - x_low)^2 + (y_high - y)^2)  to  d + sqrt((x_high - x)^2 + (y - y_low)^2)

        with d = x - y. x and y are where the noisy statistics alone put them: a shrunk value may be
        next to an end of its interval, and would hide the other's width. Where an end is a bound of
        returns it is no quantile, and the two distances are summed; so are unknown parts, and all
        distances where the two are not independent, each of which must then cover at (1 + level)/2
        (docs/proofs/arms-and-actions.md).

        Args:
            other: y, with its ends; x is this one.
            bounds: of returns.
            independent: whether people and noise of both are.
        """

        def together(mine: Vector, its: Vector, at_bound: NDArray[np.bool_]) -> Vector:
            one, two = np.minimum(self.unknown, mine), np.minimum(other.unknown, its)
            apart = np.hypot(mine - one, its - two) + (one + two)
            return np.where(at_bound | np.bool_(not independent), mine + its, apart)

        lowest, highest = bounds
        x, y = (np.clip(each.own, each.low, each.high) for each in (self, other))
        at_lowest = (self.low <= lowest) | (other.high >= highest)
        at_highest = (self.high >= highest) | (other.low <= lowest)
        below = together(x - self.low, other.high - y, at_lowest)
        above = together(self.high - x, y - other.low, at_highest)
        return x - y - below, x - y + above


def total_intervals(ratios: Ratios, z: float, around: Ends, *, alike: int | Vector = 1) -> Ends:
    """Return the ends of the smallest interval that holds ``around`` and the set of possible V.

    The set is {v : (T~ - y n~)^2 <= z^2 (s_T^2 + y^2 s_n^2 + kappa max(n~, 0)(F_hi - v)(v - F_lo))}
    with y = v - c and v between the bounds: A y^2 - 2 B y + C <= 0. It may be everything, or
    leave out a middle part, or be empty where c + T~/n~ is outside the bounds.

    Args:
        ratios: sums and counts of the states, with their noise.
        z: the quantile of a standard normal number that goes with the level.
        around: the ends of what the result must hold: the privacy interval.
        alike: how many trajectories of one unit count (or how many of its visits, state by
            state); they may all be the same.

    Returns:
        The lower ends and the upper ends.
    """
    lowest, highest = ratios.bounds
    unit = 0.5 * highest - 0.5 * lowest
    first, last = (lowest - ratios.centre) / unit, (highest - ratios.centre) / unit
    # y is measured in halves of the range, and everything in the largest of the four numbers, so
    # that no square overflows or vanishes. The noise is multiplied by z.
    t, tau = ratios.sums / unit, z * ratios.sum_noise / unit
    n, nu = ratios.counts, z * ratios.count_noise
    size = np.maximum.reduce([np.abs(t), tau, np.abs(n), nu])
    t, tau, n, nu = t / size, tau / size, n / size, nu / size
    people = alike * np.maximum(n, 0.0) * (z * (z / size))
    a = (n - nu) * (n + nu) + people
    b = t * n + people * (first + last) / 2
    c = (t - tau) * (t + tau) + people * first * last
    # B^2 - A C, multiplied out: as a difference it would lose its digits where noise is small.
    square = (
        np.square(nu * t)
        + np.square(tau * n)
        - np.square(nu * tau)
        + people * ((last * n - t) * (t - first * n) + tau * tau + first * last * nu * nu)
        + np.square(people * (last - first) / 2)
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        larger = b + np.copysign(np.sqrt(square), b)  # not a number where there is no root
        roots = np.stack([larger / a, c / larger])
    between = (roots >= first - _ROUNDING) & (roots <= last + _ROUNDING)
    # At a bound the choice of people adds nothing, and the noise alone decides.
    at_first = np.abs(t - first * n) <= np.hypot(tau, first * nu)
    at_last = np.abs(t - last * n) <= np.hypot(tau, last * nu)
    low = np.where(at_first, first, np.where(between, roots, np.inf).min(axis=0))
    high = np.where(at_last, last, np.where(between, roots, -np.inf).max(axis=0))
    found = np.isfinite(low) & np.isfinite(high)
    low, high = (np.clip(ratios.centre + unit * end, lowest, highest) for end in (low, high))
    wide = widen((low, high), around)
    return np.where(found, wide[0], around[0]), np.where(found, wide[1], around[1])


def locate(ratios: Ratios, unvisited: float, z: float, alike: int | Vector) -> Located:
    """Return the ratios with their total intervals."""
    low, high = total_intervals(ratios, z, ratios.intervals(z), alike=alike)
    return Located(ratios.plain(unvisited), low, high, np.zeros(len(low)))


def distinct_values(low: Vector, high: Vector) -> int:
    """Return how many different values there are at least, if each lies in its own interval.

    It is the smallest number of points that meet every interval: each is the smallest upper end
    of those that are beyond the points so far. Two or more mean that the largest lower end is above
    the smallest upper end: not all values are the same.

    >>> distinct_values(np.array([0.0, 0.2, 0.5]), np.array([0.3, 0.4, 0.9]))
    2
    """
    count, point = 0, -np.inf
    for at in np.argsort(high):
        if low[at] > point:
            count, point = count + 1, high[at]
    return count


def total_of_mixtures(
    ratios: Ratios, mixtures: Vector, z: float, totals: Ends, *, alike: int | Vector = 1
) -> Located:
    """Return where sum_s mixture(s) V(s) may be: the overall value of the policy, for each arm.

    A trajectory that does well in one state does well in another, so that the standard deviations
    of the sampling errors are added up, which is the most that they can make together. Each is
    taken at the value of the state's own total interval that has the largest. States whose count
    is not clear may have any value.

    Args:
        ratios: sums and counts of the states, with their noise.
        mixtures: distributions over the states, one in each row, alike but for their arm.
        z: the quantile of a standard normal number that goes with the level.
        totals: the ends of the states' total intervals, at the same z.
        alike: how many trajectories of one unit count.

    Returns:
        The numbers, their ends, and what unclear states have in them.
    """
    lowest, highest = ratios.bounds
    middle = 0.5 * lowest + 0.5 * highest
    if np.count_nonzero(mixtures[0]) == 1:
        only = mixtures.argmax(axis=1)
        own = ratios.plain(middle)
        return Located(own[only], totals[0][only], totals[1][only], np.zeros(len(only)))
    value, variance, unknown = ratios.summands()
    distance = np.hypot(ratios.sums / ratios.sum_noise, ratios.clarity)
    nearer = 1 - 2 / np.maximum(distance, CLEAR)  # the true point may be, as for the noise
    visits = np.maximum(ratios.counts, CLEAR / 2 * ratios.count_noise) * nearer
    # A total interval that holds a fit's may go beyond the bounds; an end may have overflowed.
    widest = np.clip(np.fmin(np.fmax(middle, totals[0]), totals[1]), lowest, highest)
    sampling = np.sqrt(alike * (highest - widest) * (widest - lowest) / visits)
    spread = mixtures @ np.where(unknown > 0, 0.0, sampling)
    noise = np.sqrt(np.square(mixtures) @ variance)
    own, unclear = mixtures @ value, mixtures @ unknown
    half = z * np.hypot(noise, spread) + unclear
    low, high = np.maximum(own - half, lowest), np.minimum(own + half, highest)
    return Located(own, low, high, unclear)
