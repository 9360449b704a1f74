"""Predict the error of a release before any data is opened, and refuse a useless release.

A plan uses public numbers only. ``half_width`` computes the width of the published interval from
its formula; overall errors come from sending synthetic statistics through the real mechanism.

>>> import privalue as pv
>>> study = pv.Study(states=5, discount=0.99, returns=(0, 1), epsilon=1.0, delta=1e-6,
...                  unit="trajectory")
>>> plan(study, trajectories=10_000, world="chain:N=5").rmse < 0.01
True
"""

from privalue.planning.half_width import HalfWidth
from privalue.planning.off_policy import least_kept_mass
from privalue.planning.plans import Plan, plan, usefulness_notices
from privalue.planning.predict import (
    NOISE_DRAWS,
    mechanism_of_study,
    predict,
    theta_before_noise,
)
from privalue.planning.preflight import (
    large_delta,
    noise_factors,
    require_small_delta,
    require_useful,
    usefulness,
    warn_caller,
)
from privalue.planning.suggestions import Setting, suggestions
from privalue.planning.synthetic import FromVisits, FromWorld

__all__ = [
    "NOISE_DRAWS",
    "FromVisits",
    "FromWorld",
    "HalfWidth",
    "Plan",
    "Setting",
    "large_delta",
    "least_kept_mass",
    "mechanism_of_study",
    "noise_factors",
    "plan",
    "predict",
    "require_small_delta",
    "require_useful",
    "suggestions",
    "theta_before_noise",
    "usefulness",
    "usefulness_notices",
    "warn_caller",
]
