"""Compute the tables of a release from noisy statistics, with intervals and flags.

Everything here is post-processing: its input is public, the noisy statistics included, and it
imports no private type. An error here misleads, but reveals nothing. ``estimate`` computes the
tables of a release; ``refit``, ``pool``, ``verdict`` and ``improve`` reuse its numbers, for free.
"""

from privalue.estimate.flags import WORDS, flags_of_release
from privalue.estimate.improvements import Improvement, StateChange, improve
from privalue.estimate.off_policy import MIN_KEPT_MASS, importance_sums
from privalue.estimate.pooling import difference, pool
from privalue.estimate.ratios import Ratios, normal_quantile
from privalue.estimate.refits import Verdict, refit, verdict
from privalue.estimate.shrinkage import shrink
from privalue.estimate.values import Estimates, estimate, fit_draw, key_labels, theta_of

__all__ = [
    "MIN_KEPT_MASS",
    "WORDS",
    "Estimates",
    "Improvement",
    "Ratios",
    "StateChange",
    "Verdict",
    "difference",
    "estimate",
    "fit_draw",
    "flags_of_release",
    "importance_sums",
    "improve",
    "key_labels",
    "normal_quantile",
    "pool",
    "refit",
    "shrink",
    "theta_of",
    "verdict",
]
