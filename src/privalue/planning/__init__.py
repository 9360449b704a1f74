"""Predict the error of a release before any data is opened.

A plan uses public numbers only: the study, the planned number of trajectories and, where there is
one, a public world. It makes up statistics from them, sends these through the real mechanisms and
measures how far the released values are from the true ones.

>>> import privalue as pv
>>> from privalue.simulation import parse_world
>>> from privalue.planning import public_model
>>> from privalue.planning import predict
>>> study = pv.Study(
...     states=5, discount=0.99, rewards=(0.0, 1.0), returns=(0.0, 1.0),
...     epsilon=1.0, delta=1e-6, unit="trajectory",
... )
>>> model = public_model(study, parse_world("chain:N=5"))
>>> prediction = predict(study, model, trajectories=10_000)
>>> prediction.hopeless, prediction.chosen.rmse < 0.01
(False, True)
"""

from privalue.planning._advice import Change, advice
from privalue.planning._consent import (
    doubtful_words,
    large_delta,
    require_small_delta,
    require_useful,
    require_useful_policy,
    warn_caller,
)
from privalue.planning._invert import (
    Answer,
    checked_target,
    epsilon_for,
    trajectories_for,
)
from privalue.planning._judgement import (
    Judgement,
    judge,
    judge_planned,
    quick_prediction,
)
from privalue.planning._model import public_model
from privalue.planning._noiseless import likely_level, noise_by_state, theta_before_noise
from privalue.planning._options import Option, main_options, options_of
from privalue.planning._predict import (
    Forecast,
    Forecaster,
    Prediction,
    forecast,
    planned_trajectories,
    predict,
)
from privalue.planning._public_model import PublicModel
from privalue.planning._rare_states import planned_rare_state_words, rare_state_words
from privalue.planning._shown import shown, times
from privalue.planning._unvisited import unvisited_states, unvisited_words
from privalue.planning._weights import STEPS, PolicyPlan, plan_policy

__all__ = [
    "STEPS",
    "Answer",
    "Change",
    "Forecast",
    "Forecaster",
    "Judgement",
    "Option",
    "PolicyPlan",
    "Prediction",
    "PublicModel",
    "advice",
    "checked_target",
    "doubtful_words",
    "epsilon_for",
    "forecast",
    "judge",
    "judge_planned",
    "large_delta",
    "likely_level",
    "main_options",
    "noise_by_state",
    "options_of",
    "plan_policy",
    "planned_rare_state_words",
    "planned_trajectories",
    "predict",
    "public_model",
    "quick_prediction",
    "rare_state_words",
    "require_small_delta",
    "require_useful",
    "require_useful_policy",
    "shown",
    "theta_before_noise",
    "times",
    "trajectories_for",
    "unvisited_states",
    "unvisited_words",
    "warn_caller",
]
