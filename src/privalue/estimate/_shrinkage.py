"""Shrink noisy means towards each other, by as much as the noisy statistics suggest.

| symbol | here        | shape | public |
|--------|-------------|-------|--------|
| y_s    | ``y``       | N     | yes, noisy means; the bounds are -1 and 1 |
| d_s    | ``d``       | N     | yes, the variance of their noise |
| mu_s   | ``target``  | N     | yes, where they are drawn to |
| tau^2  | ``spread``  |       | yes, how far true means are from it |
| M, e   | ``moment``, ``error`` | | yes, tau^2 from thin states, and its error |
| K      | ``saying``  |       | yes, how many states are informative; g = min(1, 24/K - 1) |
| B_s    | ``share``   | N     | yes, how much of the way they go |

Post-processing: it costs no privacy. How the constants were chosen, and what they do in many
worlds, is in docs/proofs/shrinkage.md.
"""

import math

import numpy as np

from privalue.core import Vector
from privalue.estimate._ratios import Ratios

FEWEST_STATES = 8  # fewer say too little about each other
LEAST_SPREAD = 0.12  # tau is not below
THIN = 0.3  # means with more noise than this say little about tau
CAUTION = 4.0
ENOUGH_STATES = 24  # informative ones: with more M is lowered by its error, with fewer raised
WIDE = 1.5


def shrunk(ratios: Ratios, plain: Vector) -> Vector:
    """Return plain + B_s (mu_s - plain): empirical Bayes towards a straight line in the count.

        B_s = d_s/(d_s + max(tau^2, 4 (M + g e)_+)) (1 - 3/2 tau^2)_+

    mu is the line in n~ that fits the means best where they spread around it with variance tau^2,
    and tau^2 the variance that makes the residuals as large as they are (Paule and Mandel 1982).
    M estimates that variance once more, from the states whose noise matters most to the mean
    squared error, and e is the standard error of M: shrinkage has to be right for those. g falls
    from 1 to -1 as the number of informative states grows. The last factor is for means that lie
    near both bounds: no line fits them, and the bounds shrink them well.
    Nothing depends on the order of the states.
    """
    if len(plain) < FEWEST_STATES:
        return plain
    low, high = ratios.bounds
    reach = 0.5 * high - 0.5 * low
    visits = np.maximum(ratios.counts, ratios.count_noise)
    y = ratios.sums / reach / visits
    d = np.square(ratios.sum_noise / reach / visits)
    d += np.square(np.clip(y, -1, 1) * ratios.count_noise / visits)
    place = visits - visits.mean()
    place /= max(float(np.abs(place).max()), float(np.finfo(float).tiny))
    spread = _spread(y, d, place)
    target = np.clip(_line(y, d + spread, place), -1, 1)
    weight = d / np.square(1 + d / THIN**2)
    total = max(float(weight.sum()), float(np.finfo(float).tiny))
    moment = max(float(weight @ (np.square(y - target) - d)), 0.0) / total
    error = math.sqrt(2 * float(np.square(weight) @ np.square(d))) / total
    saying = max(float(np.sum(1 / (1 + d / THIN**2))), 1.0)
    doubt = CAUTION * (moment + min(1.0, ENOUGH_STATES / saying - 1) * error)
    share = d / (d + max(spread, doubt)) * max(1 - WIDE * spread, 0.0)
    return np.asarray(plain + share * (ratios.centre + reach * target - plain))


def _spread(y: Vector, d: Vector, place: Vector) -> float:
    """Return tau^2 with sum_s (y_s - mu_s)^2/(d_s + tau^2) = N - 2, or the nearest one allowed."""
    low, high = LEAST_SPREAD**2, 1.0
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        residuals = np.square(y - _line(y, d + middle, place)) / (d + middle)
        if float(residuals.sum()) > len(y) - 2:
            low = middle
        else:
            high = middle
    return low


def _line(y: Vector, variance: Vector, place: Vector) -> Vector:
    """Return the straight line in ``place`` that fits y best where y has these variances."""
    weight = 1 / variance
    total = float(weight.sum())
    centre, height = float(weight @ place) / total, float(weight @ y) / total
    away = place - centre
    across = float(weight @ np.square(away))
    slope = float(weight @ (away * (y - height))) / across if across > 1e-12 * total else 0.0
    return np.asarray(height + slope * away)
