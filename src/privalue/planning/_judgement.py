"""Judge in less than a second, from what is public, whether a release is worth making.

| symbol | here             | shape | public                                            |
|--------|------------------|-------|---------------------------------------------------|
| m      | ``trajectories`` |       | yes: counted where that is public, else declared  |
| p_s    | ``visits``       | N     | yes: the study's prior, or as it is assumed       |
| R      | ``reach``        |       | yes: the range of returns                         |
| tau^2  | R^2/12           |       | yes: how far values are from the middle, squared  |
| q_s    | ``q``            | N     | yes: the variance of the noise in a state's mean  |

The judgement is the plan's own prediction from the study alone, with fewer draws. A release whose
middle case is useless is refused; one whose cautious end alone is gets a warning. Where even a few
draws would take long (more than some ten thousand states, or a large matrix of features), a lower
bound of the error takes its place: the error that the noise alone makes in states that are visited
as often as expected, or that a ridge alone makes. The bound leaves out sampling and the rest, so
that it refuses nothing that the prediction would have let pass.
"""

import hashlib
import json
import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy import special

from privalue.core import (
    Design,
    Lsl,
    Lsw,
    Ssp,
    Vector,
    column_squares,
    scaled_rows,
)
from privalue.errors import StudyError
from privalue.estimate import noise_factors
from privalue.planning._advice import advice
from privalue.planning._assumed import CAUTIOUS, MIDDLE, Case, assumed_visits
from privalue.planning._model import public_model, require_few_states
from privalue.planning._options import Option
from privalue.planning._predict import (
    USELESS,
    Forecaster,
    Prediction,
    guessing_error,
    planned_size,
    predict,
)
from privalue.planning._public_model import MOST_STATES
from privalue.planning._shown import shown
from privalue.study import Study, mechanism_for, ridge_of
from privalue.study import design as design_of

_WORK = 50_000  # states times draws of a plan: a third of a second
_FEWEST_DRAWS = 4
_ENOUGH = 800  # states times draws: a release waits for its judgement, which averages over states
_LEAST_DRAWS, _MOST_DRAWS = 2, 40  # of a judgement
_NOISES = 1  # of each draw
_ADVICE_DRAWS = 12
_SAMPLE = 4096  # states over which the bound averages errors
_KEPT = 16  # judgements kept in memory, for repeated releases of one study
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The predicted error of a study, and the error of guessing the middle for every state."""

    trajectories: int
    rmse: float  # of the middle case
    cautious: float
    guess: float

    @property
    def useless(self) -> bool:
        """Return whether the values are predicted to be no better than a guess."""
        return not self.rmse < USELESS * self.guess

    @property
    def doubtful(self) -> bool:
        """Return whether the cautious end, and it alone, is no better than a guess."""
        return not self.useless and not self.cautious < USELESS * self.guess


def judge(study: Study, design: Design, mechanism: Ssp | Lsw | Lsl, trajectories: int) -> Judgement:
    """Judge a study with m trajectories; the answer is the same every time.

    Args:
        study: what is public.
        design: its features and weights.
        mechanism: its mechanism, with the constants that a release would use.
        trajectories: m, where it is public, or as it is declared.

    Returns:
        The judgement.
    """
    if affordable_draws(study, design) >= _FEWEST_DRAWS:
        found = quick_prediction(study, trajectories, built=design, mechanism=mechanism)
        return Judgement(
            trajectories=trajectories,
            rmse=found.chosen.rmse,
            cautious=found.chosen.cautious,
            guess=found.guess,
        )
    low, high = study.return_bounds
    middle, cautious = (
        noise_alone(study, design, mechanism, trajectories, case) for case in (MIDDLE, CAUTIOUS)
    )
    return Judgement(
        trajectories=trajectories,
        rmse=middle,
        cautious=max(middle, cautious),
        guess=(high - low) / math.sqrt(12),
    )


def quick_prediction(
    study: Study,
    trajectories: int,
    *,
    built: Design | None = None,
    mechanism: Ssp | Lsw | Lsl | None = None,
) -> Prediction:
    """Predict the error of the study's own mechanism from the study alone, in a moment.

    A release is judged by it, and its report shows it.

    Args:
        study: what is public.
        trajectories: m, where it is public, or as it is declared.
        built: its features and weights, if at hand.
        mechanism: its mechanism, with the constants that a release would use, if at hand.

    Returns:
        The prediction; those of the last studies are kept, and not computed again.
    """
    require_few_states(study)
    description = json.dumps(study.public_description(), sort_keys=True)
    key = (hashlib.sha256(description.encode()).hexdigest(), trajectories)
    if key not in _predictions:
        made = _quickly(study, trajectories, built, mechanism)
        while len(_predictions) >= _KEPT:
            _predictions.pop(next(iter(_predictions)))
        _predictions[key] = made
    return _predictions[key]


_predictions: dict[tuple[str, int], Prediction] = {}


def _quickly(
    study: Study, trajectories: int, built: Design | None, mechanism: Ssp | Lsw | Lsl | None
) -> Prediction:
    """Make up as few data sets as will do."""
    ready = design_of(study) if built is None else built
    model = public_model(study)
    draws = min(max(-(-_ENOUGH // ready.states), _LEAST_DRAWS), _MOST_DRAWS)
    option = Option(study=study, chosen=True)
    forecaster = Forecaster(option, model, draws=draws, noises=_NOISES, built=ready, ends=True)
    found = forecaster.at(trajectories, mechanism)
    return Prediction(
        study=study,
        model=model,
        trajectories=trajectories,
        guess=guessing_error(study, model),
        floor=found.without_noise,
        forecasts=(found,),
    )


def affordable_draws(study: Study, design: Design) -> int:
    """Return how many made-up data sets go through the mechanism in a moment."""
    work = float(design.states)
    if not design.one_feature_per_state:
        work *= max(design.dimension**2 / 500, 1.0)
    if study.mechanism.name == "dp-lsl":
        work *= 4
    return int(_WORK / work)


def judge_planned(study: Study, trajectories: int) -> Judgement | None:
    """Judge a release that is only planned; return None where the study does not allow one."""
    try:
        built = design_of(study)
        mechanism = mechanism_for(study, built, planned_size(study, trajectories))
    except StudyError:
        return None
    return judge(study, built, mechanism, trajectories)


def most_helpful(study: Study, trajectories: int) -> str:
    """Describe in words the one change that helps most."""
    if study.key_count > MOST_STATES:
        if study.mechanism.name != "dp-ssp":
            return 'most helpful is likely to be another mechanism, name = "dp-ssp"'
        return "more trajectories, coarser states and tighter [values] returns help"
    draws = min(max(_WORK // study.key_count, _FEWEST_DRAWS), _ADVICE_DRAWS)
    prediction = predict(
        study,
        public_model(study),
        trajectories=trajectories,
        options=[Option(study=study, chosen=True)],
        draws=draws,
        ends=False,
    )
    changes = advice(prediction, draws=draws)
    if not changes:
        return "no single change that was tried helps"
    useful = [change for change in changes if not change.useless]
    best = (useful or changes)[0]
    condition = f", {best.condition}" if best.condition else ""
    words = f"most helpful is {best.what}{condition} (predicted error {shown(best.rmse)})"
    return words if useful else f"{words}, and that is no better than guessing either"


# The bound for very many states


def noise_alone(
    study: Study,
    design: Design,
    mechanism: Ssp | Lsw | Lsl,
    trajectories: int,
    case: Case = MIDDLE,
) -> float:
    """Return the error that noise and ridge make by themselves, at the expected visits.

    Args:
        study: what is public.
        design: its features and weights.
        mechanism: its mechanism, with its constants.
        trajectories: m.
        case: what is assumed of visits.

    Returns:
        The root mean square over the states; 0 where nothing simple bounds it from below.
    """
    visits = np.tile(assumed_visits(study, case) / study.arm_count, study.arm_count)
    expected = trajectories * visits
    if isinstance(mechanism, Ssp):
        if ridge_of(study, trajectories) is not None:
            return 0.0  # no simple lower bound is known with a ridge
        errors = _of_means(mechanism, design, np.maximum(expected, 1.0), study.return_bounds)
    else:
        errors = _of_values(mechanism, design, expected, study.return_bounds)
    return float(np.sqrt(np.mean(errors)))


def _of_means(
    mechanism: Ssp, design: Design, visits: Vector, bounds: tuple[float, float]
) -> Vector:
    """Return the squared errors of dp-ssp: tau^2 q/(tau^2 + q) of a mean.

    That is the least that a linear rule can reach. Features average over states. With overlapping
    ones the squared errors add up to a sum of h_s q_s, where the leverages h_s add up to d.
    """
    noise, tau2 = mechanism.noise, (bounds[1] - bounds[0]) ** 2 / 12
    q = (np.square(noise.of_steps * noise.step) + tau2 * np.square(noise.of_counts)) / visits**2
    error = tau2 * q / (tau2 + q)
    weights = design.weights
    if not design.one_feature_per_state:
        return np.array([float(error[weights > 0].min()) * design.dimension / design.states])
    squares = design.phi.power(2) if not isinstance(design.phi, np.ndarray) else design.phi**2
    whole = np.square(column_squares(design.weighted_phi))
    by_state = np.asarray(squares @ (squares.T @ (np.square(weights) * error) / whole))
    return by_state[weights > 0]


def _of_values(
    mechanism: Lsw | Lsl, design: Design, visits: Vector, bounds: tuple[float, float]
) -> Vector:
    """Return the squared errors of dp-lsw and dp-lsl for values spread evenly over the bounds."""
    low, high = bounds
    smooth = mechanism.ridge is None
    # The true psi of dp-lsl may take long. At beta = 700 only k = 0 counts, which is a lower bound.
    beta = mechanism.calibration.beta if smooth else 700.0
    sigma = mechanism.sigma(mechanism.bound.psi(np.rint(visits).astype(np.int64), beta))
    some = np.flatnonzero(design.weights > 0)
    some = some[:: len(some) // _SAMPLE + 1]
    deviations = sigma * noise_factors(mechanism, design.phi[some])
    kept: Vector | float = 1.0
    if mechanism.ridge is not None and design.one_feature_per_state:
        curvature = column_squares(scaled_rows(design.phi, np.sqrt(design.weights * visits)))
        by_state = np.asarray(sp.csr_array(design.phi[some]).astype(bool) @ curvature)
        kept = by_state / (by_state + mechanism.ridge / 2)
    values = low + (high - low) * (_NODES[:, None] + 1) / 2
    errors = _clipped_error(values, kept * values, np.maximum(deviations, 1e-100), bounds)
    return np.asarray(_NODE_WEIGHTS @ errors / 2)


def _clipped_error(
    value: Vector, centre: Vector, deviation: Vector, bounds: tuple[float, float]
) -> Vector:
    """Return E[(X - v)^2] for a normal X around ``centre`` that is moved between the bounds."""
    a, b = ((end - centre) / deviation for end in bounds)
    below, above = special.ndtr(a), special.ndtr(-b)
    inside = (np.square(centre - value) + np.square(deviation)) * (1 - below - above)
    for end, z, sign in ((bounds[0], a, 1.0), (bounds[1], b, -1.0)):
        density = np.exp(-np.square(np.clip(z, -40, 40)) / 2) / math.sqrt(2 * math.pi)
        inside = inside + sign * deviation * (end + centre - 2 * value) * density
    return np.asarray(
        inside + np.square(bounds[0] - value) * below + np.square(bounds[1] - value) * above
    )
