"""Compute what a mechanism would give without noise: for plans, and for the curator alone.

Nothing here is part of a release: the core computes nothing that a release does not need.
"""

import numpy as np

from privalue.core import Lsl, Lsw, Ssp, Stage, Statistics, Vector, lsw
from privalue.estimate import noise_factors, ridge_fit
from privalue.study import Study, ridge_of


def theta_before_noise(study: Study, mechanism: Ssp | Lsw | Lsl, statistics: Statistics) -> Vector:
    """Return theta as the same fit gives it without noise or shrinkage. PRIVATE."""
    if isinstance(mechanism, Lsw):
        return lsw(mechanism.mean_returns(statistics), mechanism.design)
    if not isinstance(mechanism, Ssp):
        return mechanism.center(statistics)
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    if ridge is None:
        return lsw(statistics.mean_returns(study.values.unvisited_value), mechanism.design)
    counts = statistics.counts.astype(np.float64)
    return ridge_fit(mechanism.design, counts, statistics.return_sums, ridge).theta


def likely_level(mechanism: Ssp, statistics: Statistics) -> int | None:
    """Return what a stage would choose if what it releases had no noise. PRIVATE."""
    if "bounds" not in mechanism.stages:
        return None
    numbers = mechanism.perturb(statistics, "bounds").center.astype(np.float64)
    return mechanism.level([Stage(name="bounds", alpha=1.0, numbers=numbers, sigma=None)])


def noise_by_state(
    mechanism: Ssp | Lsw | Lsl, statistics: Statistics, sigma: float, level: int | None = None
) -> Vector:
    """Return the standard deviation of each value's noise. PRIVATE.

    For dp-ssp it is the noise of each state's mean, to first order, before any shrinkage, and with
    what earlier stages chose.
    """
    if not isinstance(mechanism, Ssp):
        return sigma * noise_factors(mechanism, mechanism.design.phi)
    noise, visits = mechanism.noise_at(level), np.maximum(statistics.counts, 1)
    centred = statistics.clamped_steps(noise.level) / visits - sum(noise.interval) / 2
    spread = np.hypot(noise.of_steps, centred * noise.of_counts)
    return np.asarray(spread * noise.step / visits)
