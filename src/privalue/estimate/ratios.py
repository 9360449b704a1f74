"""Estimate the ratio of two noisy numbers, such as a state's mean return, with its interval.

| symbol          | here               | shape | public |
|-----------------|--------------------|-------|--------|
| T~, n~          | ``sums``, ``counts`` | N   | yes    |
| s_T, s_n        | ``sum_noise``, ``count_noise`` | N | yes, standard deviations |
| c               | ``centre``         |       | yes    |
| v = c + T/n     |                    | N     | **private**, covered by intervals |
| k = n~/s_n      | ``count_z``        | N     | yes    |
| z               | ``z``              |       | yes    |

T~ = T + s_T Z and n~ = n + s_n Z' with independent normal Z and Z', and v is known to lie between
bounds. At the true v the number T~ - (v - c) n~ is exactly normal, with mean 0 and variance
s_T^2 + (v - c)^2 s_n^2, whatever n is; where n = T = 0, at every v. Intervals rely on nothing else
(Fieller 1954; docs/proofs/intervals.md).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from privalue.core import Integers, Vector

MIN_Z = 4.0  # least distance from the origin, in standard deviations, of a reliable ratio


@dataclass(frozen=True, kw_only=True, eq=False)
class Ratios:
    """Noisy ratios c + T~/n~, with the bounds of c + T/n."""

    sums: Vector
    counts: Vector
    sum_noise: Vector
    count_noise: Vector
    centre: float
    bounds: tuple[float, float]

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the noisy numbers and their noise, by name."""
        names = ("sums", "counts", "sum_noise", "count_noise")
        return {name: getattr(self, name) for name in names}

    def __getitem__(self, part: slice | Integers) -> "Ratios":
        """Return a part of the ratios."""
        return replace(self, **{name: numbers[part] for name, numbers in self.numbers.items()})

    @classmethod
    def within(cls, bounds: tuple[float, float], **numbers: Vector) -> "Ratios":
        """Return ratios whose sums are centred at the middle of the bounds."""
        return cls(centre=0.5 * bounds[0] + 0.5 * bounds[1], bounds=bounds, **numbers)

    @property
    def count_z(self) -> Vector:
        """Return how many standard deviations each count is above 0."""
        return self.counts / self.count_noise

    def pool(self, groups: Integers) -> "Ratios":
        """Return the ratios of sums and counts of several keys together.

        Args:
            groups: the group of each key, numbered from 0.
        """
        return replace(
            self,
            sums=add_up(self.sums, groups),
            counts=add_up(self.counts, groups),
            sum_noise=np.sqrt(add_up(np.square(self.sum_noise), groups)),
            count_noise=np.sqrt(add_up(np.square(self.count_noise), groups)),
        )

    def divide(self, unvisited: float) -> Vector:
        """Return c + T~/n~, clipped to the bounds; ``unvisited`` where a count is not above 0."""
        is_visited = self.counts > 0
        with np.errstate(over="ignore"):
            values = self.centre + self.sums / np.where(is_visited, self.counts, 1.0)
        return np.where(is_visited, np.clip(values, *self.bounds), unvisited)

    def intervals(self, z: float) -> tuple[Vector, Vector]:
        """Return the ends of {v : (T~ - y n~)^2 <= (z^2 + least) (s_T^2 + y^2 s_n^2), y = v - c}.

        v is between the bounds, and ``least`` is the minimum of the quotient there: mostly 0, it
        keeps the set from being empty where c + T~/n~ is outside. In the plane of
        n~/s_n and T~/s_T a value is a line through the origin, at the angle
        psi = arctan(y s_n/s_T), and the quotient is (rho sin(phi - psi))^2, with rho and phi the
        polar coordinates of the noisy point. So the set is the lines within some angle of the
        noisy point's (docs/proofs/intervals.md).
        """
        slope = self.count_noise / self.sum_noise
        lowest, highest = self.bounds
        first = np.arctan((lowest - self.centre) * slope)
        last = np.arctan((highest - self.centre) * slope)
        sum_z, count_z = self.sums / self.sum_noise, self.count_z
        phi = np.arctan2(np.where(count_z < 0, -sum_z, sum_z), np.abs(count_z))
        rho = np.hypot(sum_z, count_z)
        ends = np.minimum(np.abs(np.sin(phi - first)), np.abs(np.sin(phi - last)))
        least = np.where((phi >= first) & (phi <= last), 0.0, rho * ends)
        half = np.arcsin(np.minimum(np.hypot(z, least) / np.maximum(rho, z), 1.0))
        low, high = last, first
        for turn in (-math.pi, 0.0, math.pi):  # a line has two directions
            begin, end = phi + turn - half, phi + turn + half
            meets = (begin <= last) & (end >= first)
            low = np.where(meets, np.minimum(low, np.maximum(begin, first)), low)
            high = np.where(meets, np.maximum(high, np.minimum(end, last)), high)
        from_low = np.where(low <= first, lowest, self.centre + np.tan(low) / slope)
        to_high = np.where(high >= last, highest, self.centre + np.tan(high) / slope)
        return np.clip(from_low, lowest, highest), np.clip(to_high, lowest, highest)

    def debias(self) -> tuple[Vector, Vector, Vector]:
        """Return nearly unbiased ratios for sums over states, their variances and bias bounds.

        A ratio is reliable if the noisy point (n~/s_n, T~/s_T) is far from the origin. This may
        depend on its distance rho alone: given rho, the point's angle is symmetric around the true
        one, while selecting large n~ would select small ratios, a bias that adds up over states.
        The factor 1 - 1/k^2 removes most of the remaining bias T/(n k^2) of a ratio, and the
        correction counts as noise. The factor rho/(rho - 2) allows for a true point that is nearer
        than the noisy one. An unreliable ratio is replaced by the middle of the bounds, with
        variance 0 and half their range as the bound of its bias.
        """
        lowest, highest = self.bounds
        max_offset = max(highest - self.centre, self.centre - lowest)
        rho = np.hypot(self.sums / self.sum_noise, self.count_z)
        is_reliable = rho >= MIN_Z * np.hypot(1.0, max_offset * self.count_noise / self.sum_noise)
        k = np.where(is_reliable, np.maximum(self.count_z, MIN_Z / 2), MIN_Z)
        y = np.where(is_reliable, self.sums / self.count_noise, 0.0) / k
        inside = np.clip(y, lowest - self.centre, highest - self.centre)
        noise = np.square(self.sum_noise / self.count_noise / k) + np.square(inside / k)
        noise *= np.where(is_reliable, rho / np.maximum(rho - 2, 1.0), 1.0)
        return (
            np.where(is_reliable, self.centre + y * (1 - k**-2.0), 0.5 * lowest + 0.5 * highest),
            np.where(is_reliable, noise + np.square(y * k**-2.0), 0.0),
            np.where(is_reliable, 0.0, 0.5 * highest - 0.5 * lowest),
        )


def add_up(numbers: Vector, groups: Integers) -> Vector:
    """Return the sum of the numbers of each group."""
    return np.asarray(np.bincount(groups, weights=numbers), np.float64)


def detection_threshold(level: float, count: int) -> float:
    """Return how many standard deviations above 0 a noisy count must be to show any visits.

    With probability ``level`` none of ``count`` counts without visits exceeds it.

    >>> f"{detection_threshold(0.95, 90):.2f}"
    '3.25'
    """
    return max(-float(special.ndtri(-math.expm1(math.log(level) / count))), 0.0)


def normal_quantile(level: float, count: int = 1) -> float:
    """Return z such that ``count`` standard normal numbers are all within z at this level.

    Sidak's inequality holds for any correlations, and is exact for independent numbers.

    >>> f"{normal_quantile(0.95):.4f} {normal_quantile(0.95, 40):.4f}"
    '1.9600 3.2201'
    """
    return -float(special.ndtri(-math.expm1(math.log(level) / count) / 2))
