"""DP-SSP, written out slowly: neighbours one by one, intervals point by point.

Nothing here imports the package. Returns are centred and in units of their range R, so that they
lie in [-1/2, 1/2]; a state's pair is (return sum, count weight times count), times omega.
"""

import functools
import itertools
import math

import numpy as np


def trajectories(states, most_states):
    """Every trajectory that can matter: what it visits, and a return at either bound."""
    for pairs in itertools.product(((0, 0.0), (1, 0.5), (1, -0.5)), repeat=states):
        if sum(visited for visited, _ in pairs) <= most_states:
            yield pairs


@functools.cache
def persons(states, most_states, times):
    """(visits, sums) of every person with up to ``times`` trajectories; each kind once."""
    kinds = set()
    for person in itertools.product(trajectories(states, most_states), repeat=times):
        kinds.add(
            tuple(
                (sum(t[s][0] for t in person), sum(t[s][1] for t in person)) for s in range(states)
            )
        )
    return kinds


def distance(one, other, shape, count_weight):
    """How far two contributions are apart."""
    total = 0.0
    for (n, t), (n_, t_), omega in zip(one, other, shape, strict=True):
        total += omega**2 * ((t - t_) ** 2 + count_weight**2 * (n - n_) ** 2)
    return math.sqrt(total)


def sensitivity(shape, most_states, count_weight, times=1, add_remove=False):
    """The largest distance of neighbours, by trying all of them."""
    states = len(shape)
    limit = states if most_states is None else most_states
    kinds = list(persons(states, limit, times))
    absent = [tuple((0, 0.0) for _ in range(states))]
    return max(
        distance(one, other, shape, count_weight)
        for one in kinds
        for other in (absent if add_remove else kinds)
    )


def quotient(v, total, count, sum_noise, count_noise, centre):
    """(T~ - y n~)^2/(s_T^2 + y^2 s_n^2) at y = v - c."""
    y = v - centre
    return (total - y * count) ** 2 / (sum_noise**2 + (y * count_noise) ** 2)


def interval(total, count, sum_noise, count_noise, centre, bounds, z, points=20_001):
    """The ends of the set of values whose quotient is at most z^2 above the least, on a grid."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = centre + np.float64(total) / np.float64(count)
    inside = bounds[0] <= ratio <= bounds[1]
    values = np.linspace(*bounds, points)
    if inside:
        values = np.sort(np.append(values, ratio))
    quotients = quotient(values, total, count, sum_noise, count_noise, centre)
    least = 0.0 if inside else min(quotients[0], quotients[-1])
    members = values[quotients <= z**2 + least]
    return members[0], members[-1]


def total(total, count, sum_noise, count_noise, centre, bounds, z, alike, around, points=4001):
    """The hull of ``around`` and of all values that a total interval holds, by search.

    Values are tried on a grid, with those of ``around`` and the ratio; between one that is held and
    the next that is not, the end is found by bisection.
    """
    low, high = bounds

    def is_inside(value):
        y = value - centre
        people = alike * max(count, 0.0) * (high - value) * (value - low)  # on an array, too
        return (total - y * count) ** 2 <= z**2 * (sum_noise**2 + (y * count_noise) ** 2 + people)

    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = centre + np.float64(total) / np.float64(count)
    extra = [*around, *([ratio] if low <= ratio <= high else [])]
    values = np.sort(np.append(np.linspace(low, high, points), extra))
    inside = np.flatnonzero(is_inside(values))
    if len(inside) == 0:
        return around
    first, last = inside[[0, -1]]
    below, above = values[first], values[last]
    if first > 0:
        below = _bisect(is_inside, values[first], values[first - 1])
    if last < len(values) - 1:
        above = _bisect(is_inside, values[last], values[last + 1])
    return min(below, around[0]), max(above, around[1])


def _bisect(is_inside, inside, outside):
    """The last value from ``inside`` towards ``outside`` that is held."""
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_inside(middle) else (inside, middle)
    return inside


def above_zero(number, variance):
    """The positive root n of n^2 - number n - variance = 0."""
    root = math.sqrt(number**2 + 4 * variance)
    return (number + root) / 2 if number > 0 else 2 * variance / (root - number)
