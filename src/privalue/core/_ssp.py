"""Define DP-SSP: release the first-visit statistics themselves (docs/proofs/dp-ssp.md).

| symbol                        | here            | shape | public      |
|-------------------------------|-----------------|-------|-------------|
| n_s                           | ``counts``      | N     | **private** |
| T_s = S_s - c n_s             | ``centred``     | N     | **private** |
| I = [a, b]                    | ``interval``    |       | yes, in grid steps |
| omega_s                       | ``shape``       | N     | yes         |
| c_w, in units of R            | ``weight``      |       | yes         |
| Delta, in units of R          | ``delta``       |       | yes         |
| sigma = alpha R Delta         | ``sigma``       |       | yes         |

Returns are clamped to I, the return bounds or what a stage before chose within them; c is the
middle of I, R its range. Noise of standard deviation sigma / omega_s is added to T_s, and
sigma / (c_w R omega_s) to n_s: what is analysed is the vector of omega_s T_s and omega_s c_w R n_s,
whose sensitivity is R Delta, with noise sigma. Both statistics are whole numbers (of grid steps, of
visits), so nothing is rounded before the noise. sigma is the same for all data sets, and public;
values, intervals, other features are post-processing.
"""

import numpy as np

from privalue.core._arrays import Vector
from privalue.core._blocks import sensitivity_within
from privalue.core._calibration import Calibration, gaussian
from privalue.core._contributions import VisitStatistics
from privalue.core._mechanism import Perturbation
from privalue.core._noise import public_grid
from privalue.core._sensitivity_ssp import visit_block
from privalue.core._stages import Chosen, bounds_sensitivity, stage_alphas
from privalue.core._terms import GRID_STEPS, SspTerms, Terms

_ROUNDING = 1 + 1e-14  # a few roundings of doubles, towards more noise


class StatisticsNoise:
    """How much noise each statistic gets: public, and settled by what was released before."""

    def __init__(self, terms: Terms, constants: SspTerms, alpha: float, chosen: Chosen) -> None:
        limits, weight, shape = terms.limits, constants.count_weight, constants.shape
        low, high = limits.return_bounds
        delta = sensitivity_within(limits, shape, *visit_block(weight))
        self.interval = first, last = limits.interval(chosen.level)
        self.squared_sensitivity = delta**2  # in units of R^2
        share = (last - first) / GRID_STEPS  # R of the whole range
        self.sigma = alpha * delta * ((high - low) * share) * _ROUNDING
        self.of_counts = alpha * delta / weight / shape * _ROUNDING
        self.of_steps = alpha * delta * (last - first) / shape * _ROUNDING
        # One grid for all sums and one for all counts, each from the least noise among them.
        self.counts_grid = public_grid(float(self.of_counts.min()))
        self.steps_grid = public_grid(float(self.of_steps.min()))
        self.step = (high - low) / GRID_STEPS  # of a return, on its grid
        # The upper bound itself where the interval reaches it.
        upper = high if last == GRID_STEPS else low + last * self.step
        self.bounds = (low + first * self.step, upper)

    @property
    def deviations(self) -> Vector:
        """Return the standard deviations: of the sums in grid steps, then of the counts."""
        return np.concatenate([self.of_steps, self.of_counts])


class DpSsp:
    """The Gaussian mechanism on the statistics: its scale is the same for all data sets."""

    def __init__(self, terms: Terms, constants: SspTerms) -> None:
        self.terms, self.design = terms, terms.design
        self._constants = constants
        # The analytic Gaussian mechanism (Balle and Wang 2018), certified.
        self.calibration: Calibration = gaussian(terms.epsilon, terms.delta)
        self.alphas = stage_alphas(self.calibration.alpha, constants.shares)
        self.unchosen = Chosen(level=terms.limits.levels - 1)
        self.noise = StatisticsNoise(terms, constants, self.alphas["values"], self.unchosen)
        self.stage_noise = dict[str, float]()
        if "bounds" in constants.shares:
            delta = bounds_sensitivity(terms.limits)
            self.stage_noise["bounds"] = self.alphas["bounds"] * delta * _ROUNDING

    def noise_for(self, chosen: Chosen) -> StatisticsNoise:
        """Return the noise of the values, by what earlier stages chose."""
        if chosen is self.unchosen:
            return self.noise
        return StatisticsNoise(self.terms, self._constants, self.alphas["values"], chosen)

    def choose(self, stage: str, numbers: Vector, chosen: Chosen) -> Chosen:
        """Return what later stages go by, from what a stage released; public.

        Whatever a rule returns, later stages get the noise that it calls for: it can cost accuracy,
        and never privacy. It reads released numbers alone, so that even its failure would tell
        nothing else; but what is paid for has to arrive, so a rule that fails chooses nothing.
        """
        limits, rules = self.terms.limits, self._constants.rules
        try:
            if rules is not None and stage == "bounds":
                level = rules.bound(numbers, self.stage_noise[stage])
                if level in range(limits.levels):
                    return Chosen(level=int(level))
        except Exception:
            pass
        return chosen

    def perturbation(
        self, statistics: VisitStatistics, stage: str = "values", chosen: Chosen | None = None
    ) -> Perturbation:
        """Return what gets noise in a stage, and the noise of each number. PRIVATE.

        T_s counts returns from the middle of the interval: from there none is further than R/2,
        where from its lower end it could be R.

        Args:
            statistics: what the data adds up to. PRIVATE.
            stage: one of those that the terms have.
            chosen: by what was released before; nothing, if left out.
        """
        chosen, alpha = chosen or self.unchosen, self.alphas[stage]
        if stage != "values":
            sigma = self.stage_noise[stage]
            deviations: float | Vector = sigma
            grids: float | Vector = public_grid(sigma)
            center = statistics.largest_levels
            psi = (sigma / alpha) ** 2
        else:
            noise, counts = self.noise_for(chosen), statistics.counts
            middle = sum(noise.interval) // 2  # a whole step: both ends are even
            centred = statistics.clamped_steps(chosen.level) - counts * middle  # exact
            center, deviations = np.concatenate([centred, counts]), noise.deviations
            grids = np.repeat([noise.steps_grid, noise.counts_grid], len(counts))
            psi, sigma = noise.squared_sensitivity, noise.sigma
        return Perturbation(
            center=center,
            deviations=deviations,
            grids=grids,
            psi=psi,
            sigma=sigma,
            calibration=Calibration(name="exact", alpha=alpha, beta=0.0),
        )
