"""Divide two noisy numbers: a state's mean return, or one coefficient of LSL.

| symbol          | here               | shape | public |
|-----------------|--------------------|-------|--------|
| T~, n~          | ``sums``, ``counts`` | N   | yes    |
| s_T, s_n        | ``sum_noise``, ``count_noise`` | N | yes, standard deviations |
| c               | ``centre``         |       | yes    |
| v = c + T/n     |                    | N     | **private**, what intervals cover |
| k = n~/s_n      | ``clarity``        | N     | yes    |
| z               | ``z``              |       | yes    |

T~ = T + s_T Z and n~ = n + s_n Z' with independent normal Z and Z', and v is known to lie between
bounds. At the true v the number T~ - (v - c) n~ is exactly normal, with mean 0 and variance
s_T^2 + (v - c)^2 s_n^2, whatever n is; where n = T = 0, at every v. That is all that an interval
relies on (Fieller 1954; docs/proofs/intervals.md).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from privalue.core import Integers, Vector

CLEAR = 4.0  # so many standard deviations from nothing, sums and counts may be divided


@dataclass(frozen=True, kw_only=True, eq=False)
class Ratios:
    """c + T~/n~, and between which bounds c + T/n is known to be."""

    sums: Vector
    counts: Vector
    sum_noise: Vector
    count_noise: Vector
    centre: float
    bounds: tuple[float, float]

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the noisy numbers and their noise, by name."""
        named = ("sums", "counts", "sum_noise", "count_noise")
        return {name: getattr(self, name) for name in named}

    def __getitem__(self, part: slice | Integers) -> "Ratios":
        """Return some of the ratios."""
        return replace(self, **{name: numbers[part] for name, numbers in self.numbers.items()})

    @classmethod
    def within(cls, bounds: tuple[float, float], **numbers: Vector) -> "Ratios":
        """Return the ratios of sums that are centred at the middle of the bounds."""
        return cls(centre=0.5 * bounds[0] + 0.5 * bounds[1], bounds=bounds, **numbers)

    @property
    def clarity(self) -> Vector:
        """Return how many standard deviations each count is above 0."""
        return self.counts / self.count_noise

    def pooled(self, part_of: Integers) -> "Ratios":
        """Return the ratios of sums and counts of several keys together.

        Args:
            part_of: what each key is a part of, from 0.
        """
        return replace(
            self,
            sums=add_up(self.sums, part_of),
            counts=add_up(self.counts, part_of),
            sum_noise=np.sqrt(add_up(np.square(self.sum_noise), part_of)),
            count_noise=np.sqrt(add_up(np.square(self.count_noise), part_of)),
        )

    def plain(self, unvisited: float) -> Vector:
        """Return c + T~/n~ between the bounds; ``unvisited`` where a count is not above 0."""
        seen = self.counts > 0
        with np.errstate(over="ignore"):
            values = self.centre + self.sums / np.where(seen, self.counts, 1.0)
        return np.where(seen, np.clip(values, *self.bounds), unvisited)

    def intervals(self, z: float) -> tuple[Vector, Vector]:
        """Return the ends of {v : (T~ - y n~)^2 <= (z^2 + least) (s_T^2 + y^2 s_n^2), y = v - c}.

        v is between the bounds, and ``least`` is the smallest that the quotient can be there:
        mostly 0, it keeps the set from vanishing where c + T~/n~ falls outside. In the plane of
        n~/s_n and T~/s_T a value is a line through the origin, at the angle
        psi = arctan(y s_n/s_T), and the quotient is (rho sin(phi - psi))^2, with rho and phi the
        polar coordinates of the noisy point. So the set is the lines within some angle of the
        noisy point's (docs/proofs/intervals.md).
        """
        slope = self.count_noise / self.sum_noise
        lowest, highest = self.bounds
        first = np.arctan((lowest - self.centre) * slope)
        last = np.arctan((highest - self.centre) * slope)
        across, along = self.sums / self.sum_noise, self.clarity
        phi = np.arctan2(np.where(along < 0, -across, across), np.abs(along))
        rho = np.hypot(across, along)
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

    def summands(self) -> tuple[Vector, Vector, Vector]:
        """Return what sums over states need: values nearly unbiased, variances, unknown parts.

        A ratio is clear if the noisy point (n~/s_n, T~/s_T) is far from the origin. Its distance
        rho is all that this may depend on: given rho, the point's angle is symmetric around the
        true one, while a large n~ goes with a small ratio, and over many states that would add up.
        Of the bias T/(n k^2) of a ratio, which is left, 1 - 1/k^2 takes away most, and what it
        moves counts as noise. The factor rho/(rho - 2) is for a true point that is nearer than the
        noisy one. A ratio that is not clear has the middle of the bounds as its value, the
        variance 0, and is unknown by half their range.
        """
        lowest, highest = self.bounds
        furthest = max(highest - self.centre, self.centre - lowest)
        rho = np.hypot(self.sums / self.sum_noise, self.clarity)
        clear = rho >= CLEAR * np.hypot(1.0, furthest * self.count_noise / self.sum_noise)
        k = np.where(clear, np.maximum(self.clarity, CLEAR / 2), CLEAR)
        y = np.where(clear, self.sums / self.count_noise, 0.0) / k
        inside = np.clip(y, lowest - self.centre, highest - self.centre)
        noise = np.square(self.sum_noise / self.count_noise / k) + np.square(inside / k)
        noise *= np.where(clear, rho / np.maximum(rho - 2, 1.0), 1.0)
        return (
            np.where(clear, self.centre + y * (1 - k**-2.0), 0.5 * lowest + 0.5 * highest),
            np.where(clear, noise + np.square(y * k**-2.0), 0.0),
            np.where(clear, 0.0, 0.5 * highest - 0.5 * lowest),
        )


def add_up(numbers: Vector, part_of: Integers) -> Vector:
    """Return the sum of each part's numbers."""
    return np.asarray(np.bincount(part_of, weights=numbers), np.float64)


def clear_limit(level: float, numbers: int) -> float:
    """Return how many standard deviations above 0 a noisy count must be to be clear.

    With probability ``level`` none of so many counts is above it where nobody was.

    >>> f"{clear_limit(0.95, 90):.2f}"
    '3.25'
    """
    return max(-float(special.ndtri(-math.expm1(math.log(level) / numbers))), 0.0)


def normal_quantile(level: float, numbers: int = 1) -> float:
    """Return z such that so many standard normal numbers are all within z with this probability.

    Sidak's inequality holds whatever their correlations are, and is exact without any.

    >>> f"{normal_quantile(0.95):.4f} {normal_quantile(0.95, 40):.4f}"
    '1.9600 3.2201'
    """
    return -float(special.ndtri(-math.expm1(math.log(level) / numbers) / 2))
