"""Find the people, the epsilon or the trajectories that a target accuracy needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import scipy

from privalue.core import MAX_TRAJECTORIES
from privalue.errors import UsageError
from privalue.planning.half_width import HalfWidth
from privalue.planning.predict import mechanism_of_study, predict
from privalue.planning.sentences import sentence
from privalue.planning.synthetic import Synthetic
from privalue.study import Study

MIN_EPSILON, MAX_EPSILON = 0.001, 20.0
_FEW_DRAWS, _MANY_DRAWS = 16, 100  # for a search; and for its end
_PRECISION = 0.01  # of a logarithm


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The least number that reaches a target; None if no allowed number does."""

    quantity: str  # "people", "epsilon" or "trajectories"
    measure: str  # "half_width" or "rmse"
    target: float
    value: float | None

    @property
    def text(self) -> str:
        """Return the answer in a sentence."""
        goal = sentence("answer", self.measure, target=self.target)
        if self.value is None:
            return sentence("answer", "never", goal=goal, quantity=self.quantity)
        return sentence("answer", self.quantity, goal=goal, value=self.value)


def _require_target(target: float, most: float) -> None:
    """Refuse a target that is not above 0, or that needs no data at all."""
    if not 0 < target < most:
        text = sentence("question", "target", target=target, most=most)
        raise UsageError(text, code="target-out-of-range")


def people_for(widths: HalfWidth, half_width: float) -> Answer:
    """Return how many visits give a state an interval of this half-width."""
    _require_target(half_width, widths.range / 2)
    visits = math.ceil(float(widths.visits_for(half_width)))
    return Answer(quantity="people", measure="half_width", target=half_width, value=visits)


def epsilon_for_half_width(
    study: Study, trajectories: int | None, people: int, half_width: float, return_range: float
) -> Answer:
    """Return the least epsilon at which this many people give an interval of this half-width.

    Args:
        study: the study; its epsilon is replaced.
        trajectories: m, if it is known.
        people: how many people visit a state.
        half_width: of the interval.
        return_range: the range of returns that the half-width refers to.
    """
    _require_target(half_width, return_range / 2)

    def width(epsilon: float) -> float:
        candidate = study.replace(epsilon=epsilon)
        widths = HalfWidth.of(candidate, mechanism_of_study(candidate, trajectories)).middle
        return float(widths.at(people)) / widths.range

    value = find_least(width, half_width / return_range, MIN_EPSILON, MAX_EPSILON)
    return Answer(quantity="epsilon", measure="half_width", target=half_width, value=value)


def solve_error(
    study: Study, source: Synthetic, trajectories: int | None, rmse: float, quantity: str
) -> Answer:
    """Return the least m or epsilon at which the predicted error is at most ``rmse``.

    Args:
        study: the study; its epsilon is replaced if that may change.
        source: the source of synthetic statistics.
        trajectories: m, if epsilon may change.
        rmse: the error to reach.
        quantity: what may change, "trajectories" or "epsilon".
    """
    low, high = study.values.return_bounds
    _require_target(rmse, (high - low) / 2)

    def error(value: float, draws: int = _FEW_DRAWS) -> float:
        if quantity == "epsilon":
            candidate = study.replace(epsilon=value)
            return predict(candidate, source, trajectories or 1, draws=draws).rmse
        return predict(study, source, math.ceil(value), draws=draws).rmse

    ends = (MIN_EPSILON, MAX_EPSILON)
    if quantity == "trajectories":
        ends = (1.0, float(MAX_TRAJECTORIES))
    value = find_least(error, rmse, *ends, verify=lambda x: error(x, _MANY_DRAWS))
    return Answer(quantity=quantity, measure="rmse", target=rmse, value=value)


def find_least(
    function: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    *,
    verify: Callable[[float], float] | None = None,
) -> float | None:
    """Return approximately the least argument at which a decreasing function is at most the target.

    The result is rounded up to three digits, so that people can copy it, and checked by ``verify``,
    the same function at a higher precision. It is None if even ``high`` misses the target.
    """
    check = function if verify is None else verify
    if check(high) > target:
        return None

    def log_ratio(log_x: float) -> float:
        return math.log(max(function(min(math.exp(log_x), high)), 1e-300) / target)

    ends = math.log(low), math.log(high)
    signs = [log_ratio(end) > 0 for end in ends]
    root = ends[1] if signs[1] else ends[0]
    if signs == [True, False]:
        root = float(scipy.optimize.brentq(log_ratio, *ends, xtol=_PRECISION))
    value = _round_up(math.exp(root))
    while value < high and check(value) > target:
        value = _round_up(value * 1.01)
    return min(value, high)


def _round_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    rounded = math.ceil(value / unit - 1e-9) * unit
    return float(f"{rounded:.3g}") if value < 100 else float(math.ceil(rounded - 1e-9))
