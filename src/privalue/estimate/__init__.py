"""Turn the numbers that were drawn into the tables of a release, with intervals and flags.

Everything here is post-processing. It is handed public things, the drawn numbers among them, and
imports no private type: an error here misleads, but reveals nothing. ``estimate`` is what a release
publishes; ``refit``, ``verdict`` and ``improve`` ask the same numbers again, for free.
"""

from privalue.estimate.fits import noise_factors, ridge_fit, row_norms
from privalue.estimate.flags import BORROWED, MEANINGS, UNCLEAR, WIDE, cautions
from privalue.estimate.improvements import Improvement, StateChange, greedy_step, improve
from privalue.estimate.off_policy import SUPPORTED, noisy_weights
from privalue.estimate.ratios import Ratios, normal_quantile
from privalue.estimate.refits import Verdict, refit, verdict
from privalue.estimate.shrinkage import shrink, shrink_pairs
from privalue.estimate.values import (
    Fitted,
    arm_differences,
    estimate,
    fit_keys,
    fit_states,
    fit_statistics,
    noisy_ratios,
    rehearse,
    theta_of,
    values_of,
)

__all__ = [
    "BORROWED",
    "MEANINGS",
    "SUPPORTED",
    "UNCLEAR",
    "WIDE",
    "Fitted",
    "Improvement",
    "Ratios",
    "StateChange",
    "Verdict",
    "arm_differences",
    "cautions",
    "estimate",
    "fit_keys",
    "fit_states",
    "fit_statistics",
    "greedy_step",
    "improve",
    "noise_factors",
    "noisy_ratios",
    "noisy_weights",
    "normal_quantile",
    "refit",
    "rehearse",
    "ridge_fit",
    "row_norms",
    "shrink",
    "shrink_pairs",
    "theta_of",
    "values_of",
    "verdict",
]
