"""Define DP-SSP: release the first-visit statistics themselves (docs/proofs/dp-ssp.md).

| symbol                        | here            | shape | public      |
|-------------------------------|-----------------|-------|-------------|
| n_s                           | ``counts``      | N     | **private** |
| T_s = S_s - c n_s             | ``centred``     | N     | **private** |
| omega_s                       | ``shape``       | N     | yes         |
| c_w, in units of R            | ``weight``      |       | yes         |
| Delta, in units of R          | ``delta``       |       | yes         |
| sigma = alpha R Delta         | ``sigma``       |       | yes         |

c is the middle of the return bounds, R their range. Noise of standard deviation sigma / omega_s is
added to T_s, and sigma / (c_w R omega_s) to n_s: what is analysed is the vector of omega_s T_s and
omega_s c_w R n_s, whose sensitivity is R Delta, with noise sigma. Both statistics are whole numbers
(of grid steps, of visits), so nothing is rounded before the noise. sigma is the same for all data
sets, and public; values, intervals, other features are post-processing.
"""

import numpy as np

from privalue.core._arrays import Vector
from privalue.core._calibration import Calibration, gaussian
from privalue.core._contributions import GRID_STEPS, VisitStatistics
from privalue.core._mechanism import Perturbation
from privalue.core._noise import public_grid
from privalue.core._sensitivity_ssp import sensitivity
from privalue.core._terms import SspTerms, Terms

_ROUNDING = 1 + 1e-14  # a few roundings of doubles, towards more noise


class StatisticsNoise:
    """How much noise each statistic gets; all of it is public, and settled before any data."""

    def __init__(self, terms: Terms, constants: SspTerms, alpha: float) -> None:
        limits, weight, shape = terms.limits, constants.count_weight, constants.shape
        low, high = limits.return_bounds
        delta = sensitivity(
            shape,
            most_states=limits.most_keys,
            trajectories_per_person=limits.most_trajectories,
            add_remove=limits.add_remove,
            count_weight=weight,
        )
        self.squared_sensitivity = delta**2  # in units of R^2
        self.sigma = alpha * delta * (high - low) * _ROUNDING
        self.of_counts = alpha * delta / weight / shape * _ROUNDING
        self.of_steps = alpha * delta * GRID_STEPS / shape * _ROUNDING
        # One grid for all sums and one for all counts, each from the least noise among them.
        self.counts_grid = public_grid(float(self.of_counts.min()))
        self.steps_grid = public_grid(float(self.of_steps.min()))
        self.step = (high - low) / GRID_STEPS  # of a return, on its grid

    @property
    def deviations(self) -> Vector:
        """Return the standard deviations: of the sums in grid steps, then of the counts."""
        return np.concatenate([self.of_steps, self.of_counts])


class DpSsp:
    """The Gaussian mechanism on the statistics: its scale is the same for all data sets."""

    def __init__(self, terms: Terms, constants: SspTerms) -> None:
        self.terms, self.design, self.epsilon_values = terms, terms.design, terms.epsilon
        # The analytic Gaussian mechanism (Balle and Wang 2018), certified.
        self.calibration: Calibration = gaussian(terms.epsilon, terms.delta)
        self.noise = StatisticsNoise(terms, constants, self.calibration.alpha)

    def perturbation(self, statistics: VisitStatistics) -> Perturbation:
        """Return the centred sums, the counts, and the noise of each. PRIVATE.

        T_s counts returns from the middle of their bounds: from there none is further than R/2,
        where from F_lo it could be R.
        """
        noise, counts = self.noise, statistics.counts
        centred = statistics.return_steps - counts * (GRID_STEPS // 2)  # whole grid steps: exact
        return Perturbation(
            center=np.concatenate([centred, counts]),
            deviations=noise.deviations,
            grids=np.repeat([noise.steps_grid, noise.counts_grid], len(counts)),
            psi=noise.squared_sensitivity,
            sigma=noise.sigma,
            calibration=self.calibration,
        )
