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
the visits to expect (Bhatia and Davis 2000). docs/proofs/total-intervals.md has the arguments, and
says what is exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.estimate._ratios import CLEAR, Ratios, summands

_ROUNDING = 1e-12  # of a root, in halves of the range of returns

Ends = tuple[Vector, Vector]


@dataclass(frozen=True, kw_only=True)
class Clamped:
    """What is known of the returns that a stage's bounds clamped, tighter than the study's."""

    bounds: tuple[float, float]  # of the study
    trajectories: float  # noisy: how many have such a return
    noise: float  # its standard deviation
    visits: Vector | int = 1  # of a state, that one trajectory may count for

    @classmethod
    def beyond(
        cls, histogram: Vector, noise: float, level: int, bounds: tuple[float, float]
    ) -> "Clamped":
        """Return what a noisy histogram of trajectories, by their largest level, says.

        Args:
            histogram: the noisy numbers.
            noise: the standard deviation of each.
            level: that was chosen; returns of those beyond were clamped.
            bounds: of returns, by the study.
        """
        outside = histogram[level + 1 :]
        return cls(
            bounds=bounds,
            trajectories=float(outside.sum()),
            noise=noise * float(np.sqrt(len(outside))),
        )


def total_intervals(
    ratios: Ratios,
    z: float,
    around: Ends,
    *,
    alike: int | Vector = 1,
) -> Ends:
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
    held = np.isfinite(low) & np.isfinite(high)
    ends = (
        np.where(held, np.clip(ratios.centre + unit * low, lowest, highest), np.inf),
        np.where(held, np.clip(ratios.centre + unit * high, lowest, highest), -np.inf),
    )
    return np.minimum(ends[0], around[0]), np.maximum(ends[1], around[1])


def clamping_bias(clamped: Clamped, ratios: Ratios, z: float) -> Ends:
    """Return how far V may be below and above the mean of the clamped returns.

    A trajectory has one first visit of a state, so that of n_s visits no more were clamped than
    there are trajectories with a clamped return; with actions, times the pairs of the state that
    it may count for. Each was moved by no more than the study's bounds
    allow. Both numbers are taken at the worse end of their intervals.
    """
    most = max(clamped.trajectories + z * clamped.noise, 0.0) * np.asarray(clamped.visits)
    fewest = ratios.counts - z * ratios.count_noise
    enough = fewest > most
    share = np.where(enough, most / np.where(enough, fewest, 1.0), 1.0)
    below, above = ratios.bounds[0] - clamped.bounds[0], clamped.bounds[1] - ratios.bounds[1]
    return share * max(below, 0.0), share * max(above, 0.0)


def hidden(ends: Ends, bias: Ends) -> NDArray[np.bool_]:
    """Return where clamping may hide more than half of the interval: there it is not added."""
    return np.asarray(np.maximum(*bias) > (ends[1] - ends[0]) / 2)


def widened(ends: Ends, bias: Ends, unknown: NDArray[np.bool_]) -> Ends:
    """Return the intervals with the bias of clamping in them, except where it is ``unknown``."""
    below, above = (np.where(unknown, 0.0, side) for side in bias)
    return ends[0] - below, ends[1] + above


def total_of_mixture(
    ratios: Ratios, mixture: Vector, z: float, totals: Ends, *, alike: int | Vector = 1
) -> tuple[float, float]:
    """Return where sum_s mixture(s) V(s) may be: the overall value of the policy.

    A trajectory that does well in one state does well in another, so that the standard deviations
    of the sampling errors are added up, which is the most that they can make together. Each is
    taken at the value of the state's own total interval that has the largest. States whose count
    is not clear may have any value.

    Args:
        ratios: sums and counts of the states, with their noise.
        mixture: a distribution over the states.
        z: the quantile of a standard normal number that goes with the level.
        totals: the ends of the states' total intervals, at the same z.
        alike: how many trajectories of one unit count.

    Returns:
        The lower and the upper end.
    """
    if np.count_nonzero(mixture) == 1:
        only = int(np.flatnonzero(mixture)[0])
        return float(totals[0][only]), float(totals[1][only])
    lowest, highest = ratios.bounds
    value, variance, unknown = summands(ratios)
    distance = np.hypot(ratios.sums / ratios.sum_noise, ratios.clarity)
    nearer = 1 - 2 / np.maximum(distance, CLEAR)  # the true point may be, as for the noise
    visits = np.maximum(ratios.counts, CLEAR / 2 * ratios.count_noise) * nearer
    # A total interval that holds a fit's may go beyond the bounds; an end may have overflowed.
    widest = np.fmin(np.fmax(0.5 * lowest + 0.5 * highest, totals[0]), totals[1])
    widest = np.clip(widest, lowest, highest)
    sampling = np.sqrt(alike * (highest - widest) * (widest - lowest) / visits)
    spread = float(mixture @ np.where(unknown > 0, 0.0, sampling))
    noise = float(np.sqrt(np.square(mixture) @ variance))
    middle = float(mixture @ value)
    half = z * float(np.hypot(noise, spread)) + float(mixture @ unknown)
    return max(middle - half, lowest), min(middle + half, highest)
