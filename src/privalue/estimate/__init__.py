"""Turn the numbers that were drawn into values, intervals and flags.

Everything here is post-processing. It is handed public things, the drawn numbers among them, and
imports no private type: an error here misleads, but reveals nothing. ``estimates_of`` is what a
release publishes; ``refit`` makes other choices from the same numbers, at no further cost.
"""

from privalue.estimate._fits import ridge_fit
from privalue.estimate._greedy import (
    CAUTION,
    GreedyStep,
    StateChange,
    greedy_step_of,
)
from privalue.estimate._linear import noise_factors, row_norms
from privalue.estimate._policies import (
    noisy_weights,
    published_policy,
)
from privalue.estimate._published import (
    estimates_of,
    noisy_of,
    published,
    rehearsal,
    state_values_of,
    values_of,
)
from privalue.estimate._ratios import clear_limit, normal_quantile
from privalue.estimate._refit import common_value, described_actions, refit
from privalue.estimate._stages import published_stages
from privalue.estimate._statistics import NoisyStatistics
from privalue.estimate._totals import distinct_values
from privalue.estimate._weights import SUPPORTED
from privalue.estimate.flags import (
    ABOVE,
    BORROWED,
    IMPOSSIBLE,
    LOST,
    MEANINGS,
    UNCLEAR,
    WIDE,
    cautions,
)

__all__ = [
    "ABOVE",
    "BORROWED",
    "CAUTION",
    "IMPOSSIBLE",
    "LOST",
    "MEANINGS",
    "SUPPORTED",
    "UNCLEAR",
    "WIDE",
    "GreedyStep",
    "NoisyStatistics",
    "StateChange",
    "cautions",
    "clear_limit",
    "common_value",
    "described_actions",
    "distinct_values",
    "estimates_of",
    "greedy_step_of",
    "noise_factors",
    "noisy_of",
    "noisy_weights",
    "normal_quantile",
    "published",
    "published_policy",
    "published_stages",
    "refit",
    "rehearsal",
    "ridge_fit",
    "row_norms",
    "state_values_of",
    "values_of",
]
