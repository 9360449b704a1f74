"""Make values, intervals and flags of the drawn numbers, as the study asks.

Everything here is handed what was drawn, and public things: nothing here could read the data.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.artefact import (
    FIELDS,
    PolicyInArm,
    PolicyInterval,
    ReleasedStatistics,
    StateValues,
    TotalInterval,
    as_numbers,
)
from privalue.core import (
    Design,
    Lsl,
    Lsw,
    Ssp,
    Vector,
)
from privalue.estimate._arms import ArmEstimates, Overall
from privalue.estimate._linear import linear_estimates
from privalue.estimate._pairs import summed_over_actions, with_states
from privalue.estimate._statistics import (
    Estimates,
    NoisyStatistics,
    estimate,
    estimated_values,
)
from privalue.study import PairNames, Study, aggregation, ridge_of


def estimates_of(
    study: Study,
    mechanism: Ssp | Lsw | Lsl,
    drawn: Vector,
    *,
    level: int | None = None,
) -> Estimates:
    """Return what is published.

    Args:
        study: what is public; it says how to fit, and at which level.
        mechanism: that made the numbers, with its constants.
        drawn: the numbers that left.
        level: of dp-ssp: what a stage chose; nothing, if left out.

    Returns:
        Values and, where the scale of the noise is public, intervals and flags.
    """
    if not isinstance(mechanism, Ssp):
        return linear_estimates(mechanism, drawn, start=study.start_distribution)
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    return fitted(noisy_of(mechanism, drawn, level), mechanism.design, study, ridge)


def values_of(
    study: Study,
    mechanism: Ssp | Lsw | Lsl,
    drawn: Vector,
    *,
    level: int | None = None,
) -> Vector:
    """Return the values of ``estimates_of`` alone, in a fraction of the time."""
    if not isinstance(mechanism, Ssp):
        return estimates_of(study, mechanism, drawn).values
    noisy, ridge = (
        noisy_of(mechanism, drawn, level),
        ridge_of(study, mechanism.terms.size.trajectories),
    )
    return estimated_values(noisy, mechanism.design, ridge=ridge, **_choices(noisy, study))


def state_values_of(noisy: NoisyStatistics, study: Study) -> Vector:
    """Return the values of states that go with the noisy statistics of pairs: V from Q, alone."""
    pairs = study.pairs
    assert pairs is not None
    count = pairs.states.count
    return estimated_values(
        summed_over_actions(noisy, pairs),
        Design(phi=aggregation(count, 1), weights=np.ones(count)),
        ridge=None,
        **{**_choices(noisy, study), "features": None, "state_of": None},
    )


def noisy_of(
    mechanism: Ssp,
    drawn: Vector,
    level: int | None = None,
) -> NoisyStatistics:
    """Return the drawn numbers in the units of returns and visits."""
    noise, states = mechanism.noise_at(level), mechanism.design.states
    return NoisyStatistics(
        return_bounds=noise.bounds,
        sums=drawn[:states] * noise.step,
        counts=drawn[states:],
        sum_noise=noise.of_steps * noise.step,
        count_noise=noise.of_counts,
    )


def fitted(noisy: NoisyStatistics, design: Design, study: Study, ridge: float | None) -> Estimates:
    """Return values, intervals and flags from noisy statistics, as the study asks.

    Args:
        noisy: the output of DP-SSP.
        design: Phi and the weights, which may be others than at the release.
        study: whose level, shrinkage, start and value of unvisited states count.
        ridge: lambda of LSL; None for LSW.

    Returns:
        What is published.
    """
    choices, alike, pairs = _choices(noisy, study), study.trajectories_per_person, study.pairs
    found = estimate(
        noisy,
        design,
        **choices,
        ridge=ridge,
        start=study.start_distribution if pairs is None else None,
        alike=alike,
        independent=study.arms_are_independent,
    )
    if pairs is None:
        return found

    def of_states(summed: NoisyStatistics, design: Design, alike: int | Vector) -> Estimates:
        alone: Any = {**choices, "features": None, "state_of": None}
        return estimate(summed, design, **alone, start=study.start_distribution, alike=alike)

    return with_states(found, pairs, of_states, most=study.states_per_trajectory, alike=alike)


def _choices(noisy: NoisyStatistics, study: Study) -> dict[str, Any]:
    """Return what the study says of how values are made."""
    return {
        "unvisited": noisy.inside(study.values.unvisited_value),
        "shrinkage": study.mechanism.shrinkage,
        "features": study.shrink_targets,
        "level": study.report.level,
        "arms": study.arm_count,
        "state_of": None if study.pairs is None else study.pairs.state_of,
    }


def rehearsal(study: Study, mechanism: Ssp | Lsw | Lsl) -> Estimates | None:
    """Return what would be published of the largest numbers that could be drawn.

    Whatever fails after the charge fails here before it, from public numbers. None where nothing
    can fail: where every state has a value of its own, that is a quotient of two numbers that
    doubles hold with ease, moved between the bounds; and what shrinkage cannot compute it leaves.
    """
    if isinstance(mechanism, Ssp):
        size = mechanism.terms.size
        if ridge_of(study, size.trajectories) is None and mechanism.design.is_tabular:
            return None
    return estimates_of(study, mechanism, mechanism.largest().numbers)


def published(estimates: Estimates, study: Study) -> dict[str, Any]:
    """Return the parts of a release that come from the mechanism's output alone.

    Fields that were not computed are left out of the values, for all states alike.

    Args:
        estimates: what was computed.
        study: whose states, arms and actions have labels.
    """
    states, arms, pairs = study.state_names, study.arm_labels, study.pairs
    more = {} if estimates.arms is None else _compared(estimates.arms, states, arms)
    columns = _columns(estimates)
    values = _by_arm(states, arms, columns) if pairs is None else _by_action(pairs, columns)
    if estimates.of_states is not None:
        more["state_values"] = StateValues(states, _columns(estimates.of_states))
    return {
        "theta": as_numbers(estimates.theta),
        "values": values,
        **more,
        "level": estimates.level,
        "policy_value": estimates.policy and estimates.policy.value,
        "policy_interval": _interval(estimates.policy),
        "statistics": estimates.statistics
        and ReleasedStatistics(
            **{
                name: as_numbers(getattr(estimates.statistics, name))
                for name in ReleasedStatistics.model_fields
            }
        ),
    }


def _interval(overall: Overall | None) -> PolicyInterval | None:
    """Return the intervals of the overall value of the policy; None where there are none."""
    if overall is None or overall.interval is None or overall.total is None:
        return None
    (low, high), (total_low, total_high) = overall.interval, overall.total
    return PolicyInterval(low=low, high=high, total_low=total_low, total_high=total_high)


def _columns(estimates: Estimates) -> dict[str, NDArray[Any]]:
    """Return the fields of values that were computed."""
    return {"value": estimates.values} | {
        name: getattr(estimates, name)
        for name in FIELDS
        if getattr(estimates, name, None) is not None
    }


def _by_action(pairs: PairNames, columns: dict[str, NDArray[Any]]) -> StateValues:
    """Return an entry for each pair of a state and an action, state after state."""
    states = tuple(map(str, pairs.states.names))
    actions = np.array(list(map(str, pairs.actions.names)))
    names = tuple(states[at] for at in pairs.state_of.tolist())
    return StateValues(names, {"action": actions[pairs.action_of], **columns})


def _by_arm(
    states: Sequence[str] | range, arms: Sequence[str], columns: dict[str, NDArray[Any]]
) -> StateValues:
    """Return an entry for each state, or for each state of each arm, arm after arm."""
    if not arms:
        return StateValues(states, columns)
    names = tuple(map(str, states)) * len(arms)
    return StateValues(names, {"arm": np.repeat(np.array(arms), len(states)), **columns})


def _compared(
    found: ArmEstimates, states: Sequence[str] | range, arms: Sequence[str]
) -> dict[str, Any]:
    """Return how the other arms differ from the first, and the policy's number in each."""

    policies = [
        PolicyInArm(
            arm=arm,
            value=policy.overall.value,
            interval=_interval(policy.overall),
            difference=policy.difference,
            difference_interval=policy.difference_total
            and TotalInterval(
                total_low=policy.difference_total[0], total_high=policy.difference_total[1]
            ),
        )
        for arm, policy in zip(arms, found.policies, strict=False)
    ]
    return {
        "differences": _by_arm(states, arms[1:], found.differences),
        "policies": policies or None,
    }
