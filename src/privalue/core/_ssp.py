"""DP-SSP: release the first-visit statistics themselves (docs/proofs/dp-ssp.md).

| symbol                        | here            | shape | public      |
|-------------------------------|-----------------|-------|-------------|
| n_s                           | ``counts``      | N     | **private** |
| T_s = S_s - c n_s             | ``centred``     | N     | **private** |
| omega_s                       | ``shape``       | N     | yes         |
| c_w, in units of R            | ``weight``      |       | yes         |
| Delta, in units of R          | ``sensitivity`` |       | yes         |
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
from privalue.core._design import Design
from privalue.core._least_squares import lsw
from privalue.core._lsl import ridge_of
from privalue.core._mechanism import FAR, Perturbation
from privalue.core._noise import public_grid
from privalue.core._sensitivity_ssp import count_weight, sensitivity
from privalue.core._size import PublicSize
from privalue.estimate._fits import is_tabular, ridge_fit
from privalue.estimate._intervals import ReleasedScale
from privalue.estimate._statistics import Estimates, NoisyStatistics, estimate
from privalue.study._choices import shape_weights
from privalue.study._study import Study

_ROUNDING = 1 + 1e-14  # a few roundings of doubles, towards more noise


class StatisticsNoise:
    """How much noise each statistic gets; all of it is public."""

    def __init__(self, study: Study, size: PublicSize, calibration: Calibration) -> None:
        low, high = study.return_bounds
        most, add_remove = study.states_per_trajectory, study.privacy.neighbours == "add-remove"
        weight = count_weight(study.state_count, most, add_remove=add_remove)
        shape = shape_weights(
            study.visit_prior,
            study.state_count,
            most_states=most,
            add_remove=add_remove,
            expected_trajectories=size.trajectories,
            alpha=calibration.alpha,
        )
        delta = sensitivity(
            shape,
            most_states=most,
            trajectories_per_person=study.trajectories_per_person,
            add_remove=add_remove,
            count_weight=weight,
        )
        self.squared_sensitivity = delta**2  # in units of R^2
        self.sigma = calibration.alpha * delta * (high - low) * _ROUNDING
        self.of_counts = calibration.alpha * delta / weight / shape * _ROUNDING
        self.of_steps = calibration.alpha * delta * GRID_STEPS / shape * _ROUNDING
        self.counts_grid = public_grid(float(self.of_counts.min()))
        self.steps_grid = public_grid(float(self.of_steps.min()))
        self.step = (high - low) / GRID_STEPS  # of a return, on its grid


class DpSsp:
    """The noisy statistics, and what is made of them afterwards."""

    def __init__(self, study: Study, design: Design, size: PublicSize) -> None:
        self.study, self.design, self.size = study, design, size
        # The analytic Gaussian mechanism (Balle and Wang 2018), certified.
        self.calibration = gaussian(study.privacy.epsilon, study.privacy.delta)
        self.ridge = ridge_of(study, design, size)
        self.noise = StatisticsNoise(study, size, self.calibration)

    def perturbation(self, statistics: VisitStatistics) -> Perturbation:
        """The centred sums and the counts, both whole numbers, and the noise of each. PRIVATE."""
        noise, counts = self.noise, statistics.counts
        centred = statistics.return_steps - counts * (GRID_STEPS // 2)  # whole grid steps: exact
        return Perturbation(
            center=np.concatenate([centred, counts]),
            deviations=self._deviations,
            grids=np.repeat([noise.steps_grid, noise.counts_grid], len(counts)),
            psi=noise.squared_sensitivity,
            sigma=noise.sigma,
            calibration=self.calibration,
        )

    @property
    def _deviations(self) -> Vector:
        return np.concatenate([self.noise.of_steps, self.noise.of_counts])

    def estimates(self, drawn: Vector, scale: ReleasedScale | None = None) -> Estimates:
        """Values, intervals and flags, as the study asks; the scale of the noise is known."""
        noise, states = self.noise, self.design.states
        noisy = NoisyStatistics(
            return_bounds=self.study.return_bounds,
            sums=drawn[:states] * noise.step,
            counts=drawn[states:],
            sum_noise=noise.of_steps * noise.step,
            count_noise=noise.of_counts,
        )
        return fitted(noisy, self.design, self.study, self.size)

    def rehearsal(self) -> Estimates | None:
        """What would be published of the largest numbers that could be drawn; public.

        Where every state has a value of its own there is nothing to try: it is a quotient of two
        numbers that doubles hold with ease, moved between the bounds.
        """
        if self.ridge is None and is_tabular(self.design):
            return None
        most = np.repeat([GRID_STEPS / 2, 1.0], self.design.states) * self.size.most_count
        return self.estimates(most + FAR * self._deviations)

    def theta_before_noise(self, statistics: VisitStatistics) -> Vector:
        """theta as the same fit gives it without noise or shrinkage. PRIVATE."""
        if self.ridge is None:
            return lsw(statistics.mean_returns(self.study.values.unvisited_value), self.design)
        counts = statistics.counts.astype(np.float64)
        return ridge_fit(self.design, counts, statistics.return_sums, self.ridge).theta

    def noise_by_state(self, statistics: VisitStatistics, sigma: float) -> Vector:
        """Of each state's mean, to first order, before any shrinkage. PRIVATE."""
        visits = np.maximum(statistics.counts, 1)
        centred = statistics.return_steps / visits - GRID_STEPS / 2
        spread = np.hypot(self.noise.of_steps, centred * self.noise.of_counts)
        return np.asarray(spread * self.noise.step / visits)


def fitted(noisy: NoisyStatistics, design: Design, study: Study, size: PublicSize) -> Estimates:
    """Values, intervals and flags from the noisy statistics, as the study asks: all public."""
    return estimate(
        noisy,
        design,
        unvisited=study.values.unvisited_value,
        ridge=ridge_of(study, design, size),
        shrinkage=study.mechanism.shrinkage,
        level=study.report.level,
        start=study.start_distribution,
    )
