"""Compute what a fit would give without noise: for plans, and for the curator alone.

Nothing here is part of a release: the core computes nothing that a release does not need.
"""

import numpy as np

from privalue.core import Lsl, Lsw, Ssp, Statistics, Vector, lsw
from privalue.estimate import ridge_fit
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
