"""Compute what a mechanism would give without noise: for plans, and for the curator alone.

Nothing here is part of a release: the core computes nothing that a release does not need.
"""

import numpy as np

from privalue.core import Chosen, DpLsw, DpSsp, Mechanism, Vector, VisitStatistics, lsw
from privalue.estimate import noise_factors, ridge_fit
from privalue.study import Study, ridge_of


def theta_before_noise(study: Study, mechanism: Mechanism, statistics: VisitStatistics) -> Vector:
    """Return theta as the same fit gives it without noise or shrinkage. PRIVATE."""
    if isinstance(mechanism, DpLsw):
        return lsw(mechanism.mean_returns(statistics), mechanism.design)
    if not isinstance(mechanism, DpSsp):
        return mechanism.center(statistics)
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    if ridge is None:
        return lsw(statistics.mean_returns(study.values.unvisited_value), mechanism.design)
    counts = statistics.counts.astype(np.float64)
    return ridge_fit(mechanism.design, counts, statistics.return_sums, ridge).theta


def likely_choice(mechanism: DpSsp, statistics: VisitStatistics) -> Chosen:
    """Return what stages would choose if what they release had no noise. PRIVATE."""
    if "bounds" not in mechanism.alphas:
        return mechanism.unchosen
    numbers = mechanism.perturbation(statistics, "bounds").center.astype(np.float64)
    return mechanism.choose("bounds", numbers, mechanism.unchosen)


def noise_by_state(
    mechanism: Mechanism, statistics: VisitStatistics, sigma: float, chosen: Chosen | None = None
) -> Vector:
    """Return the standard deviation of each value's noise. PRIVATE.

    For dp-ssp it is the noise of each state's mean, to first order, before any shrinkage, and with
    what earlier stages chose.
    """
    if not isinstance(mechanism, DpSsp):
        return sigma * noise_factors(mechanism, mechanism.design.phi)
    chosen = chosen or mechanism.unchosen
    noise, visits = mechanism.noise_for(chosen), np.maximum(statistics.counts, 1)
    centred = statistics.clamped_steps(chosen.level) / visits - sum(noise.interval) / 2
    spread = np.hypot(noise.of_steps, centred * noise.of_counts)
    return np.asarray(spread * noise.step / visits)
