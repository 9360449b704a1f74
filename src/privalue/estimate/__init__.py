"""Turn the numbers that were drawn into the tables of a release, with intervals and flags.

Everything here is post-processing. It is handed public things, the drawn numbers among them, and
imports no private type: an error here misleads, but reveals nothing. ``estimate`` is what a release
publishes; ``refit``, ``verdict`` and ``improve`` ask the same numbers again, for free.
"""

from privalue.estimate.flags import WORDS, cautions
from privalue.estimate.improvements import Improvement, StateChange, improve
from privalue.estimate.off_policy import SUPPORTED, noisy_weights
from privalue.estimate.pooling import difference, pool
from privalue.estimate.ratios import Ratios, normal_quantile
from privalue.estimate.refits import Verdict, refit, verdict
from privalue.estimate.shrinkage import shrink
from privalue.estimate.values import Estimates, estimate, fit_draw, rehearse, theta_of

__all__ = [
    "SUPPORTED",
    "WORDS",
    "Estimates",
    "Improvement",
    "Ratios",
    "StateChange",
    "Verdict",
    "cautions",
    "difference",
    "estimate",
    "fit_draw",
    "improve",
    "noisy_weights",
    "normal_quantile",
    "pool",
    "refit",
    "rehearse",
    "shrink",
    "theta_of",
    "verdict",
]
