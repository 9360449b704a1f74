"""The stages of DP-SSP, written out slowly: every unit, every pair of neighbours.

Nothing here imports the package. A visit is (key, steps) with 0 <= steps <= 2^30; a trajectory is a
list of visits to different keys, a unit a list of trajectories, of which those are given that
count.
"""

import itertools
import math


def trajectories(keys, most_keys, steps):
    """Every trajectory with some of the given steps at each of at most H keys, one at least."""
    for count in range(1, most_keys + 1):
        for places in itertools.combinations(range(keys), count):
            for values in itertools.product(steps, repeat=count):
                yield list(zip(places, values, strict=True))


def units(keys, most_keys, most_trajectories, steps):
    """Every unit with one to L trajectories."""
    kinds = list(trajectories(keys, most_keys, steps))
    for count in range(1, most_trajectories + 1):
        yield from itertools.combinations_with_replacement(kinds, count)


def histogram(unit, intervals):
    """One entry for each trajectory: the first interval that holds all its visits."""
    counts = [0] * len(intervals)
    for trajectory in unit:
        inside = (all(a <= s <= b for _, s in trajectory) for a, b in intervals)
        counts[list(inside).index(True)] += 1
    return counts


def visits(unit, keys):
    return [sum(key == k for trajectory in unit for k, _ in trajectory) for key in range(keys)]


def values(unit, keys, interval, weight, centre=None):
    """Sums from the middle of an interval, clamped to it, in units of its range; and counts."""
    a, b = interval
    middle = (a + b) / 2 if centre is None else centre
    sums = [0.0] * keys
    for trajectory in unit:
        for key, steps in trajectory:
            sums[key] += (min(max(steps, a), b) - middle) / (b - a)
    return sums + [weight * n for n in visits(unit, keys)]


def furthest(vectors, *, add_remove=False):
    """The largest distance of neighbours: two units, or a unit and none."""
    distinct = sorted(set(map(tuple, vectors)))
    absent = [tuple(0.0 for _ in distinct[0])]
    return max(
        math.dist(one, other)
        for one in distinct
        for other in (absent if add_remove else [*distinct, *absent])
    )
