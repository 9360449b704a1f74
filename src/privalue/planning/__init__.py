"""The error of a release before any data is opened.

>>> import privalue as pv
>>> from privalue.mdp import parse_world
>>> from privalue.planning import predict, public_model
>>> study = pv.Study(
...     privacy=pv.Privacy(epsilon=1.0, delta=1e-6, unit="trajectory"),
...     values=pv.Values(discount=0.99, rewards=(0.0, 1.0), returns=(0.0, 1.0)),
...     states=pv.States(count=5),
... )
>>> model = public_model(study, parse_world("chain:N=5"))
>>> prediction = predict(study, model, trajectories=10_000)
>>> prediction.hopeless, prediction.chosen.rmse < 0.01
(False, True)
"""

from privalue.planning.advice import Change, advice
from privalue.planning.invert import (
    Aggregation,
    Answer,
    aggregation_for,
    epsilon_for,
    trajectories_for,
)
from privalue.planning.model import PublicModel, public_model
from privalue.planning.options import Option, options_of
from privalue.planning.predict import Forecast, Forecaster, Prediction, forecast, predict
from privalue.planning.resolve import Resolution, resolve
from privalue.planning.words import paragraph, verdict

__all__ = [
    "Aggregation",
    "Answer",
    "Change",
    "Forecast",
    "Forecaster",
    "Option",
    "Prediction",
    "PublicModel",
    "Resolution",
    "advice",
    "aggregation_for",
    "epsilon_for",
    "forecast",
    "options_of",
    "paragraph",
    "predict",
    "public_model",
    "resolve",
    "trajectories_for",
    "verdict",
]
