"""Whether a release is worth making, judged in less than a second from what is public.

| symbol | here             | shape | public                                            |
|--------|------------------|-------|---------------------------------------------------|
| m      | ``trajectories`` |       | yes: counted where that is public, else declared  |
| p_s    | ``visits``       | N     | yes: the study's prior, or 1/N, 2/N, ..., 1       |
| R      | ``reach``        |       | yes: the range of returns                         |
| tau^2  | R^2/12           |       | yes: how far values are from the middle, squared  |
| q_s    | ``q``            | N     | yes: the variance of the noise in a state's mean  |

The judgement is the plan's own prediction from the study alone, with fewer draws where states are
many. Where even a few of them would take long (more than some ten thousand states, or a large
matrix of features), a bound takes its place: what the noise alone does to states that are visited
as often as expected, or a ridge alone. It leaves out sampling and the rest, so that it refuses
nothing that the prediction would have let pass.
"""

import hashlib
import json
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from privalue.errors import StudyError
from privalue.features import Design, column_squares, scaled_rows
from privalue.features import design as design_of
from privalue.mechanisms import DpSsp, Mechanism, SmoothMechanism, mechanism_for
from privalue.planning.advice import advice
from privalue.planning.model import MOST_STATES, study_model
from privalue.planning.options import Option, with_mechanism
from privalue.planning.predict import Forecaster, guessing_error, planned_size, predict
from privalue.planning.returns import Vector
from privalue.planning.words import shown
from privalue.study import Study

USELESS = 0.95  # of the error of guessing: from there on a release is refused
_WORK = 50_000  # states times draws: a third of a second
_FEWEST_DRAWS, _MOST_DRAWS = 4, 100
_ADVICE_DRAWS = 12
_SAMPLE = 4096  # states of which errors are averaged
_KEPT = 16  # judgements, for whoever releases one study many times
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The predicted error of a study, beside that of guessing the middle for every state."""

    trajectories: int
    rmse: float
    guess: float

    @property
    def useless(self) -> bool:
        """Whether the values are predicted to be no better than a guess."""
        return not self.rmse < USELESS * self.guess


def judge(study: Study, design: Design, mechanism: Mechanism, trajectories: int) -> Judgement:
    """The judgement of a settled study with m trajectories; the same one every time.

    Args:
        study: what is public.
        design: its features and weights.
        mechanism: its mechanism, with the constants that a release would use.
        trajectories: m, where it is public, or as it is declared.
    """
    if study.state_count > MOST_STATES:  # too many even to describe
        return _judged(study, design, mechanism, trajectories)
    description = json.dumps(study.public_description(), sort_keys=True)
    key = (hashlib.sha256(description.encode()).hexdigest(), trajectories)
    if key not in _judgements:
        while len(_judgements) >= _KEPT:
            _judgements.pop(next(iter(_judgements)))
        _judgements[key] = _judged(study, design, mechanism, trajectories)
    return _judgements[key]


_judgements: dict[tuple[str, int], Judgement] = {}


def _judged(study: Study, design: Design, mechanism: Mechanism, trajectories: int) -> Judgement:
    draws = affordable_draws(study, design)
    if draws < _FEWEST_DRAWS:
        low, high = study.return_bounds
        rmse = noise_alone(study, design, mechanism, trajectories)
        return Judgement(trajectories=trajectories, rmse=rmse, guess=(high - low) / math.sqrt(12))
    model = study_model(study)
    forecaster = Forecaster(Option(study=study, chosen=True), model, draws=draws, built=design)
    return Judgement(
        trajectories=trajectories,
        rmse=forecaster.at(trajectories, mechanism).rmse,
        guess=guessing_error(study, model),
    )


def affordable_draws(study: Study, design: Design) -> int:
    """How many made-up data sets go through the mechanism in a third of a second."""
    work = float(design.states)
    if not design.one_feature_per_state:
        work *= max(design.dimension**2 / 500, 1.0)
    if study.mechanism.name == "dp-lsl":
        work *= 4
    return min(int(_WORK / work), _MOST_DRAWS)


def judge_planned(study: Study, trajectories: int) -> Judgement | None:
    """The judgement of a release that is only planned; None where the study does not allow one."""
    try:
        built = design_of(study)
        mechanism = mechanism_for(study, built, planned_size(study, trajectories))
    except StudyError:
        return None
    return judge(study, built, mechanism, trajectories)


def most_helpful(study: Study, trajectories: int) -> str:
    """The one change that helps most, in words."""
    if study.state_count > MOST_STATES:
        if study.mechanism.name != "dp-ssp":
            return 'most helpful is likely to be another mechanism, name = "dp-ssp"'
        return "more trajectories, coarser states and tighter [values] returns help"
    other = with_mechanism(study, {"name": "dp-ssp"})
    options = [Option(study=study, chosen=True)]
    options += [other] if other is not None and study.mechanism.name != "dp-ssp" else []
    draws = min(max(_WORK // study.state_count, _FEWEST_DRAWS), _ADVICE_DRAWS)
    prediction = predict(
        study, study_model(study), trajectories=trajectories, options=options, draws=draws
    )
    changes = advice(prediction, draws=draws)
    if not changes:
        return "no single change that was tried helps"
    useful = [change for change in changes if not change.hopeless]
    best = (useful or changes)[0]
    condition = f", {best.condition}" if best.condition else ""
    words = f"most helpful is {best.what}{condition} (predicted error {shown(best.rmse)})"
    return words if useful else f"{words}, and that is no better than guessing either"


# The bound for very many states


def noise_alone(study: Study, design: Design, mechanism: Mechanism, trajectories: int) -> float:
    """The error that noise, or a ridge, makes by itself at visits as they are expected."""
    low, high = study.return_bounds
    visits = study.visit_prior
    if visits is None:
        visits = np.arange(1, design.states + 1) / design.states
    expected = trajectories * visits
    if isinstance(mechanism, DpSsp):
        errors = _of_means(mechanism, design, np.maximum(expected, 1.0), high - low)
    else:
        assert isinstance(mechanism, SmoothMechanism)
        # At beta = 700 only k = 0 counts: psi itself may take long, and is larger.
        beta = mechanism.calibration.beta if study.mechanism.name == "dp-lsw" else 700.0
        psi = mechanism.bound.psi(np.rint(expected).astype(np.int64), beta)
        errors = _of_values(mechanism, design, mechanism.sigma(psi), high - low)
        if mechanism.ridge is not None and design.one_feature_per_state:
            shrunk = _of_ridge(mechanism.ridge, design, expected, study.return_bounds)
            errors = np.maximum(errors.mean(), shrunk)
    return float(np.sqrt(np.mean(errors)))


def _of_means(mechanism: DpSsp, design: Design, visits: Vector, reach: float) -> Vector:
    """The squared errors of dp-ssp: tau^2 q/(tau^2 + q) of a mean, the least by a linear rule.

    Features average over states. With overlapping ones the squared errors add up to a sum of
    h_s q_s, where the leverages h_s add up to d. With a ridge nothing simple can be said.
    """
    noise, tau2 = mechanism.noise, reach**2 / 12
    q = (np.square(noise.of_steps * noise.step) + tau2 * np.square(noise.of_counts)) / visits**2
    error = tau2 * q / (tau2 + q)
    if mechanism.ridge is not None:
        return np.zeros(1)
    weights = design.weights
    if not design.one_feature_per_state:
        return np.array([float(error[weights > 0].min()) * design.dimension / design.states])
    squares = design.phi.power(2) if not isinstance(design.phi, np.ndarray) else design.phi**2
    whole = np.square(column_squares(design.weighted_phi))
    by_state = np.asarray(squares @ (squares.T @ (np.square(weights) * error) / whole))
    return by_state[weights > 0]


def _of_ridge(ridge: float, design: Design, visits: Vector, bounds: tuple[float, float]) -> Vector:
    """The squared errors that a ridge makes of evenly spread values, feature by feature.

    A value shrinks by lambda/2 over that and the curvature, or to the bound next to that.
    """
    curvature = column_squares(scaled_rows(design.phi, np.sqrt(design.weights * visits)))
    curvature = curvature[:: len(curvature) // _SAMPLE + 1]
    values = bounds[0] + (bounds[1] - bounds[0]) * (_NODES[:, None] + 1) / 2
    left = values * (curvature / (curvature + ridge / 2))
    return np.asarray(_NODE_WEIGHTS @ np.square(values - np.clip(left, *bounds)) / 2)


def _of_values(mechanism: SmoothMechanism, design: Design, sigma: float, reach: float) -> Vector:
    """The squared errors of values with normal noise, between bounds that they do not leave.

    For a value that is spread evenly over them: twice the integral over the distance a to a bound
    of E[min(s Z, a)^2; Z > 0]. Where features overlap, the mean variance stands for all: their
    leverages add up to d.
    """
    if design.one_feature_per_state or not mechanism.whitened:
        deviations = sigma * mechanism.factors(design.phi)[design.weights > 0]
        deviations = deviations[:: len(deviations) // _SAMPLE + 1]
    else:
        leverage = design.dimension / design.states / float(design.weights.max())
        deviations = np.array([sigma * math.sqrt(leverage)])
    a = (_NODES[:, None] + 1) / 2
    s = np.maximum(deviations / reach, 1e-100)
    t = np.minimum(a / s, 40.0)
    inside = special.ndtr(t) - 0.5 - t * np.exp(-np.square(t) / 2) / math.sqrt(2 * math.pi)
    part = np.square(s) * inside + np.square(a) * special.ndtr(-t)
    return np.asarray(reach**2 * (_NODE_WEIGHTS @ part))
