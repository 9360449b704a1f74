"""Compute the half-width of a state's total interval from the number of its visits.

| symbol | here             | public | meaning                                               |
|--------|------------------|--------|-------------------------------------------------------|
| n      | ``visits``       | yes    | first visits within H and L; per arm, per pair        |
| s_T    | ``sum_noise``    | yes    | standard deviation of the noise of a sum of returns   |
| s_n    | ``count_noise``  | yes    | standard deviation of the noise of a count            |
| R      | ``range``        | yes    | range of returns                                      |
| L      | ``trajectories_per_unit`` | yes | most trajectories of one unit, possibly identical |
| z      | ``z``            | yes    | normal quantile of the study's level                  |
| h(n)   | ``HalfWidth.at`` | yes    | half the width of the interval                        |

The interval that dp-ssp publishes for V is the set of v with
(T~ - (v - c) n~)^2 <= z^2 (s_T^2 + (v - c)^2 s_n^2 + L n~ (F_hi - v)(v - F_lo))
(docs/proofs/intervals.md). At the middle of the bounds, T~ = 0 and n~ = n, it is
|v - c| <= h(n):

    h(n) = z sqrt((s_T^2 + L n R^2/4) / (n^2 + z^2 (L n - s_n^2)))

or R/2 if that is less, or if the denominator is not positive. Nothing is assumed about visits,
returns or m. Half of all noisy counts are below n, and one in twenty is below n - 1.645 s_n.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from privalue.core import Mechanism, Ssp, Vector
from privalue.estimate import normal_quantile
from privalue.study import Study

ONE_IN_TWENTY = float(special.ndtri(0.95))


@dataclass(frozen=True, kw_only=True, eq=False)
class HalfWidth:
    """The half-width of an interval as a function of visits, for one key or for every key."""

    sum_noise: Vector
    count_noise: Vector
    range: float
    trajectories_per_unit: int
    z: float

    @classmethod
    def of(cls, study: Study, mechanism: Mechanism) -> "HalfWidth":
        """Return the half-widths of every key of a study with dp-ssp, in their order."""
        assert isinstance(mechanism, Ssp)
        noise, (low, high) = mechanism.noise, study.values.return_bounds
        return cls(
            sum_noise=noise.step_noise * noise.step,
            count_noise=noise.count_noise,
            range=high - low,
            trajectories_per_unit=study.limits.max_trajectories_per_person,
            z=normal_quantile(study.report.level),
        )

    def at(self, visits: ArrayLike) -> Vector:
        """Return h(n), for any n, also below 0."""
        n = np.asarray(visits, dtype=np.float64)
        people = self.trajectories_per_unit * np.maximum(n, 0.0)
        above = np.square(self.sum_noise) + people * self.range**2 / 4
        below = n * np.abs(n) + self.z**2 * (people - np.square(self.count_noise))
        with np.errstate(divide="ignore"):
            half = np.where(below > 0, self.z * np.sqrt(above / np.abs(below)), np.inf)
        return np.minimum(half, self.range / 2)

    def at_95(self, visits: ArrayLike) -> Vector:
        """Return h(n - 1.645 s_n): in 95% of releases the interval is no wider."""
        return self.at(np.asarray(visits, np.float64) - ONE_IN_TWENTY * self.count_noise)

    def visits_for(self, half_width: float) -> Vector:
        """Return the least n with h(n) <= half_width, below R/2.

        h falls with n, and h(n) = h is a quadratic equation in n, with one root above 0.
        """
        z2, h2 = self.z**2, half_width**2
        linear = z2 * self.trajectories_per_unit * (h2 - self.range**2 / 4)
        constant = z2 * (h2 * np.square(self.count_noise) + np.square(self.sum_noise))
        return np.asarray((np.sqrt(linear**2 + 4 * h2 * constant) - linear) / (2 * h2))

    @property
    def middle(self) -> "HalfWidth":
        """Return the half-width of the key with the median noise; without a prior all are equal."""
        order = np.argsort(self.sum_noise, kind="stable")
        key = order[len(order) // 2]
        return replace(self, sum_noise=self.sum_noise[key], count_noise=self.count_noise[key])

    def scale_range(self, share: float) -> "HalfWidth":
        """Return the half-widths if a stage chooses this share of the range; noise shrinks too."""
        return replace(self, sum_noise=self.sum_noise * share, range=self.range * share)

    @property
    def without_privacy(self) -> "HalfWidth":
        """Return the half-widths without noise: Wilson's interval at the middle, if L is 1."""
        return replace(self, sum_noise=0 * self.sum_noise, count_noise=0 * self.count_noise)
