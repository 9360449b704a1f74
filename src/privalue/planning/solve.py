"""Find what a target takes: people, epsilon or trajectories."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import scipy

from privalue.core import MOST_TRAJECTORIES, Ssp
from privalue.errors import UsageError
from privalue.planning.half_width import HalfWidth
from privalue.planning.made_up import MadeUp
from privalue.planning.predict import mechanism_of_study, predict
from privalue.study import Study

LEAST_EPSILON, MOST_EPSILON = 0.001, 20.0
_FEW_DRAWS = 16  # for a search; its end is checked with all
_PRECISION = 0.01  # of a logarithm


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The least number that reaches a target; None where nothing that is allowed does."""

    quantity: str  # "people", "epsilon" or "trajectories"
    measure: str  # "half_width" or "rmse"
    target: float
    value: float | None

    @property
    def text(self) -> str:
        """Return the answer in a sentence."""
        what = "a half-width" if self.measure == "half_width" else "an error"
        if self.value is None:
            return f"{what} of {self.target:g} is not reached by any {self.quantity}"
        number = f"epsilon = {self.value:g}"
        if self.quantity != "epsilon":
            number = f"{self.value:,.0f} {self.quantity}"
        return f"{what} of {self.target:g} takes {number}"


def require_target(target: float, most: float) -> float:
    """Return a target that is above 0 and below what needs no data at all."""
    if not 0 < target < most:
        raise UsageError(
            f"a target of {target!r}: it must be above 0 and below {most:g}, half the range of "
            "returns",
            code="target-out-of-range",
        )
    return target


def people_for(widths: HalfWidth, half_width: float) -> Answer:
    """Return how many visits give a state an interval of this half-width."""
    visits = math.ceil(float(widths.visits_for(half_width)))
    return Answer(quantity="people", measure="half_width", target=half_width, value=visits)


def epsilon_for_half_width(
    study: Study, trajectories: int | None, people: int, half_width: float
) -> Answer:
    """Return the least epsilon with which so many people give an interval of this half-width."""

    def width(epsilon: float) -> float:
        changed = with_epsilon(study, epsilon)
        mechanism = mechanism_of_study(changed, trajectories)
        assert isinstance(mechanism, Ssp)
        return float(HalfWidth.of(changed, mechanism).middle.at(people))

    value = least(width, half_width, LEAST_EPSILON, MOST_EPSILON)
    return Answer(quantity="epsilon", measure="half_width", target=half_width, value=value)


def trajectories_for(study: Study, made_up: MadeUp, rmse: float) -> Answer:
    """Return the least m with which the predicted error is at most so much."""

    def error(m: float, draws: int | None = _FEW_DRAWS) -> float:
        return predict(study, made_up, math.ceil(m), draws=draws).rmse

    value = least(error, rmse, 1.0, float(MOST_TRAJECTORIES), sure=lambda m: error(m, None))
    return Answer(quantity="trajectories", measure="rmse", target=rmse, value=value)


def epsilon_for(study: Study, made_up: MadeUp, trajectories: int, rmse: float) -> Answer:
    """Return the least epsilon with which the predicted error is at most so much."""

    def error(epsilon: float, draws: int | None = _FEW_DRAWS) -> float:
        changed = with_epsilon(study, epsilon)
        return predict(changed, made_up, trajectories, draws=draws).rmse

    value = least(error, rmse, LEAST_EPSILON, MOST_EPSILON, sure=lambda e: error(e, None))
    return Answer(quantity="epsilon", measure="rmse", target=rmse, value=value)


def with_epsilon(study: Study, epsilon: float) -> Study:
    """Return the study with another epsilon."""
    return study.replace(epsilon=epsilon)


def least(
    falling: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    *,
    sure: Callable[[float], float] | None = None,
) -> float | None:
    """Return about the least argument at which a falling function is at most the target.

    It is rounded up to three digits, so that people can copy it, and checked by ``sure``, which is
    the same function computed with more care; None where even ``high`` does not reach the target.
    """
    check = falling if sure is None else sure
    if check(high) > target:
        return None

    def above(log_x: float) -> float:
        return math.log(max(falling(min(math.exp(log_x), high)), 1e-300) / target)

    ends = math.log(low), math.log(high)
    signs = [above(end) > 0 for end in ends]
    root = ends[1] if signs[1] else ends[0]
    if signs == [True, False]:
        root = float(scipy.optimize.brentq(above, *ends, xtol=_PRECISION))
    value = _rounded_up(math.exp(root))
    while value < high and check(value) > target:
        value = _rounded_up(value * 1.01)
    return min(value, high)


def _rounded_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    rounded = math.ceil(value / unit - 1e-9) * unit
    return float(f"{rounded:.3g}") if value < 100 else float(math.ceil(rounded - 1e-9))
