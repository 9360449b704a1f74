"""Invert a plan: find the trajectories or the epsilon that reach a target error.

A target should be met, so that from the study alone the cautious assumptions count.

The predicted error falls with m and with epsilon, so both are found by bisection of their logarithm
with few draws, and checked with all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from privalue.core import MOST_TRAJECTORIES
from privalue.errors import StudyError, UsageError
from privalue.planning._options import Option
from privalue.planning._predict import FOUND_RANGE, Forecaster, enough_draws, forecast
from privalue.planning._public_model import PublicModel
from privalue.study import Study

LEAST_EPSILON, MOST_EPSILON = 1e-3, 20.0  # what exact calibration covers
_PRECISION = math.log(1.02)
_STEPS_UP = 10  # of 2% each, where the check finds an error above the target


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """The value that reaches the target, or None with the reason why nothing does."""

    option: Option
    quantity: str  # trajectories or epsilon
    target: float
    value: float | None
    rmse: float  # at the value; where there is none, at the end of what was searched
    reason: str = ""
    cautious: bool = False  # errors are those of the cautious end of a range
    fewest: float | None = None  # at its optimistic end, where a stage finds a smaller bound

    @property
    def reached(self) -> bool:
        """Return whether some value reaches the target."""
        return self.value is not None


def checked_target(target: float) -> float:
    """Return the target as a float, or raise UsageError unless it is a number above 0."""
    if isinstance(target, bool) or not (math.isfinite(target) and target > 0):
        raise UsageError(f"the target error is {target!r}; it must be a number above 0")
    return float(target)


def trajectories_for(
    option: Option, model: PublicModel, target: float, *, draws: int | None = None
) -> Answer:
    """Find the least m whose predicted error is at most ``target``, to 2%; at most 2^33 - 1.

    Args:
        option: the study with the mechanism to plan for.
        model: what to assume of the data.
        target: the root mean square error to reach, above 0.
        draws: how many data sets to make up for each m; by the number of states, if left out.

    Returns:
        The answer; its value is None if no m reaches the target.
    """
    checked_target(target)
    fewest = _if_a_bound_is_found(
        option, model, target, lambda *other: trajectories_for(*other, draws=draws)
    )
    model, cautious = _promised(model)
    try:
        quick = Forecaster(option, model, draws=_few(model, draws))
        sure = Forecaster(option, model, draws=draws)
    except StudyError as problem:
        return Answer(
            option=option,
            quantity="trajectories",
            target=target,
            value=None,
            rmse=math.inf,
            reason=f"not possible: {problem}",
            cautious=cautious,
        )

    def error(forecaster: Forecaster, m: float) -> float:
        try:
            return forecaster.at(math.ceil(m)).rmse
        except StudyError:  # such as a ridge that so few trajectories do not allow
            return math.inf

    found = _least(
        option,
        "trajectories",
        target,
        quick=lambda m: error(quick, m),
        sure=lambda m: error(sure, m),
        low=1.0,
        high=float(MOST_TRAJECTORIES),
        what=f"{MOST_TRAJECTORIES:,} trajectories, the most that are supported",
        rounded=lambda m: float(min(_up(m), MOST_TRAJECTORIES)),
    )
    return replace(found, cautious=cautious, fewest=fewest)


def epsilon_for(
    option: Option,
    model: PublicModel,
    target: float,
    *,
    trajectories: int,
    draws: int | None = None,
) -> Answer:
    """Find the least epsilon whose predicted error is at most ``target``, to 2%; at most 20.

    Args:
        option: the study with the mechanism to plan for; its own epsilon does not matter.
        model: what to assume of the data.
        target: the root mean square error to reach, above 0.
        trajectories: m.
        draws: how many data sets to make up for each epsilon; by the number of states, if left out.

    Returns:
        The answer; its value is None if no epsilon reaches the target.
    """
    checked_target(target)
    fewest = _if_a_bound_is_found(
        option,
        model,
        target,
        lambda *other: epsilon_for(*other, trajectories=trajectories, draws=draws),
    )
    model, cautious = _promised(model)
    highest = 5.0 if option.calibration == "appendix" else MOST_EPSILON

    def error(epsilon: float, count: int | None) -> float:
        other = Option(study=with_epsilon(option.study, epsilon), chosen=option.chosen)
        return forecast(other, model, trajectories, draws=count).rmse

    found = _least(
        option,
        "epsilon",
        target,
        quick=lambda epsilon: error(epsilon, _few(model, draws)),
        sure=lambda epsilon: error(epsilon, draws),
        low=LEAST_EPSILON,
        high=highest,
        what=f"epsilon = {highest:g}",
        rounded=lambda epsilon: min(_up(epsilon), highest),
    )
    return replace(found, cautious=cautious, fewest=fewest)


def with_aggregation(study: Study, size: int) -> Study:
    """Return the same study with ``size`` adjacent states tied."""
    return study.replace(size=size if size > 1 else None)


def with_epsilon(study: Study, epsilon: float) -> Study:
    """Return the same study with another epsilon."""
    return study.replace(epsilon=epsilon)


def _promised(model: PublicModel) -> tuple[PublicModel, bool]:
    """Return the assumptions under which a target must be met, and whether they are cautious ones.

    A world has no others than its own.
    """
    return (model, False) if model.cautious is None else (model.cautious, True)


def _if_a_bound_is_found(
    option: Option,
    model: PublicModel,
    target: float,
    solve: Callable[[Option, PublicModel, float], Answer],
) -> float | None:
    """Return what reaches the target at the optimistic end; None without a stage for bounds.

    There the stage finds that returns take a small part of their range, and all errors are as much
    smaller, as in the range of a plan.
    """
    staged = option.mechanism == "dp-ssp" and "bounds" in option.study.stages
    if model.optimistic is None or not staged:
        return None
    return solve(option, model.optimistic, target / FOUND_RANGE).value


def _few(model: PublicModel, draws: int | None) -> int:
    """Return how many draws the bisection uses: at most 24, since the end is checked with all."""
    return min(draws or enough_draws(len(model.visits)), 24)


def _least(
    option: Option,
    quantity: str,
    target: float,
    *,
    quick: Callable[[float], float],
    sure: Callable[[float], float],
    low: float,
    high: float,
    what: str,
    rounded: Callable[[float], float],
) -> Answer:
    """Return the least argument of a falling function at which it is at most the target.

    Args:
        option: the study with its mechanism, for the answer.
        quantity: the name of the argument, for the answer.
        target: the error to reach.
        quick: the error by few draws, for the bisection.
        sure: the error by all draws, for the check.
        low: where the search begins, above 0.
        high: where the search ends.
        what: the end of the search in words, for the reason.
        rounded: rounds an argument up to what people write down, and to at most ``high``.

    Returns:
        The answer; its value is None if ``sure(high)`` is above the target.
    """

    def answer(value: float | None, rmse: float, reason: str = "") -> Answer:
        return Answer(
            option=option, quantity=quantity, target=target, value=value, rmse=rmse, reason=reason
        )

    most = sure(high)
    if not most <= target:
        reason = f"not reachable: even with {what}, the predicted error is {most:.3g}"
        return answer(None, most, reason)
    below, above = math.log(low), math.log(high)  # the target lies between them
    if quick(low) <= target:
        above = below
    while above - below > _PRECISION:
        middle = (below + above) / 2
        if quick(math.exp(middle)) <= target:
            above = middle
        else:
            below = middle
    value = rounded(math.exp(above))
    for _ in range(_STEPS_UP):
        error = sure(value)
        if error <= target:
            return answer(value, error)
        value = rounded(value * 1.02)
    return answer(high, most)


def _up(value: float) -> float:
    """Round up to three digits, so that people can copy the number."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    rounded = math.ceil(value / unit - 1e-9) * unit
    return float(f"{rounded:.3g}") if value < 100 else float(math.ceil(rounded - 1e-9))
