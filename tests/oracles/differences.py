"""Slow twins: the interval of a difference, and how many distinct values intervals need."""

import math
from itertools import combinations


def difference_ends(more, less, bounds, *, independent=True):
    """Zou and Donner (2008), end by end; each is own, low, high and the unknown part of a half."""

    def clamp(own, low, high):
        return min(max(own, low), high)

    def together(first, first_unknown, second, second_unknown, summed):
        if summed or not independent:
            return first + second
        parts = [max(first - first_unknown, 0.0), max(second - second_unknown, 0.0)]
        unknown = min(first, first_unknown) + min(second, second_unknown)
        return math.sqrt(parts[0] ** 2 + parts[1] ** 2) + unknown

    (x, x_low, x_high, x_unknown), (y, y_low, y_high, y_unknown) = more, less
    x, y = clamp(x, x_low, x_high), clamp(y, y_low, y_high)
    at_low = x_low <= bounds[0] or y_high >= bounds[1]
    at_high = x_high >= bounds[1] or y_low <= bounds[0]
    below = together(x - x_low, x_unknown, y_high - y, y_unknown, at_low)
    above = together(x_high - x, x_unknown, y - y_low, y_unknown, at_high)
    return x - y - below, x - y + above


def distinct_values(intervals):
    """The fewest points that meet every interval: all sets of ends, the small ones first."""
    ends = sorted({end for interval in intervals for end in interval})
    for size in range(1, len(intervals) + 1):
        for points in combinations(ends, size):
            if all(any(low <= point <= high for point in points) for low, high in intervals):
                return size
    raise AssertionError("one point for each interval is enough")
