"""Weighted trajectories, written out slowly: contributions, and every pair of neighbours.

Nothing here imports the package. Distances are in exact fractions, on a grid of any number of
steps: whether a bound holds is decided, not measured.
"""

import itertools
import math
from fractions import Fraction


def contribution(rows, *, discount, bounds, rewards, clip, steps):
    """What one trajectory of rows (reward, ratio) adds: (t, j, centred return), in steps."""
    low, high = bounds
    value, weight = 0.0, 1.0
    for reward, ratio in reversed(rows):
        value = min(max(reward, rewards[0]), rewards[1]) + discount * value
        weight *= ratio
    value = min(max(value, low), high)
    g = min(math.floor((value - low) * (steps / (high - low)) + 0.5), steps)
    if not weight >= 0:  # NaN, too
        weight = 0.0
    j = int(min(weight, clip) / clip * steps)
    return towards_zero(j, g, steps), j, g - steps // 2


def towards_zero(j, g, steps):
    return int(Fraction(j * (g - steps // 2), steps))  # int() cuts off


def to_nearest(j, g, steps):
    """The planted mistake."""
    return math.floor(Fraction(j * (g - steps // 2), steps) + Fraction(1, 2))


def possible(steps, product=towards_zero):
    """All that one trajectory may add: (x, rho, y, 1) in units of C R, times the steps."""
    for j, g in itertools.product(range(steps + 1), repeat=2):
        yield product(j, g, steps), j, g - steps // 2, steps


def sensitivity(steps, weights, *, keys=1, times=1, add_remove=False, product=towards_zero):
    """The most by which neighbours differ in the norm of sums: every pair of units.

    A unit has up to ``times`` trajectories, each at one of ``keys`` keys; its contribution is a
    vector of four numbers for each key, weighted by four fractions. All of it in whole numbers.
    """
    common = math.lcm(*(weight.denominator for weight in weights))
    scaled_weights = [int(weight * common) for weight in weights]
    kinds = [
        (0, 0, 0, 0) * key
        + tuple(w * x for w, x in zip(scaled_weights, numbers, strict=True))
        + (0, 0, 0, 0) * (keys - 1 - key)
        for numbers in set(possible(steps, product))
        for key in range(keys)
    ]
    empty = (0,) * (4 * keys)
    units = {empty}
    for _ in range(times):
        units |= {
            tuple(a + b for a, b in zip(one, more, strict=True)) for one in units for more in kinds
        }
    others = [empty] if add_remove else units
    most = max(
        sum([abs(a - b) for a, b in zip(one, other, strict=True)])
        for one in units
        for other in others
    )
    return Fraction(most, common * steps)
