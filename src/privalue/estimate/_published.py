"""Make values, intervals and flags of the drawn numbers, as the study asks.

Everything here is handed what was drawn, and public things: nothing here could read the data.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from privalue.estimate.flags import Flag, flag_texts, flags_of_statistics, flags_of_study
from privalue.releases import COLUMNS, FLAGS_BETWEEN, ReleasedStatistics, ValueTable
from privalue.study import Study, aggregation, ridge_of


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


def published(
    estimates: Estimates, study: Study, trajectories: int | None, every: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that come from the mechanism's output alone.

    Args:
        estimates: what was computed.
        study: whose states, arms and actions have labels.
        trajectories: m, where it is public.
        every: flags that every row has.
    """
    states = np.array(list(map(str, study.state_names)), dtype=object)
    arms, pairs, noisy = np.array(study.arm_labels, dtype=object), study.pairs, estimates.statistics
    flags = _flags(estimates)
    of_study = flags_of_study(
        study, estimates.values, counted=noisy is not None, trajectories=trajectories
    )
    if pairs is not None:
        actions = np.array(list(map(str, pairs.actions.names)), dtype=object)
        labels = {"state": states[pairs.state_of], "action": actions[pairs.action_of]}
    elif len(arms):
        labels = {"arm": np.repeat(arms, len(states)), "state": np.tile(states, len(arms))}
    else:
        labels = {"state": states}
    tables = {"values": _table(estimates, labels, [*flags, *of_study], every)}
    if estimates.of_states is not None:
        inner = estimates.of_states
        tables["states"] = _table(inner, {"state": states}, _flags(inner), every)
    if estimates.policy is not None:
        tables["policy"] = _policy_table([estimates.policy], {}, every)
    if estimates.arms is not None:
        found = estimates.arms
        if found.policies:
            overall = [policy.overall for policy in found.policies]
            tables["policy"] = _policy_table(overall, {"arm": arms}, every)
        tables["differences"] = _differences(found, states, arms, [*flags, *of_study], every)
    return {
        "theta": None if noisy is not None and estimates.is_own else estimates.theta,
        "tables": tables,
        "actions": () if pairs is None else tuple(map(str, pairs.actions.names)),
        "level": estimates.level,
        "statistics": noisy
        and ReleasedStatistics(
            **{name: getattr(noisy, name) for name in ReleasedStatistics.model_fields}
        ),
    }


def _flags(estimates: Estimates) -> list[Flag]:
    """Return the flags that noisy statistics give; none where there are none."""
    noisy = estimates.statistics
    if noisy is None or estimates.clear is None or estimates.supported is None:
        return []
    assert estimates.total_low is not None
    assert estimates.total_high is not None
    total = estimates.total_low, estimates.total_high
    return flags_of_statistics(estimates.clear, estimates.supported, total, noisy.return_bounds)


def _table(
    estimates: Estimates, labels: dict[str, NDArray[Any]], flags: list[Flag], every: Sequence[str]
) -> ValueTable:
    """Return what was computed as a table; what was not is absent."""
    found = {name: getattr(estimates, name, None) for name in COLUMNS}
    columns = {name: column for name, column in found.items() if column is not None}
    texts = flag_texts(len(estimates.values), flags, every)
    return ValueTable({**columns, **labels, "value": estimates.values, "flags": texts})


def _policy_table(
    policies: Sequence[Overall], labels: dict[str, NDArray[Any]], every: Sequence[str]
) -> ValueTable:
    """Return the overall value of the policy, by arm where there are any."""
    columns: dict[str, Any] = {"value": [policy.value for policy in policies]}
    for names, ends in (
        (("low", "high"), [policy.interval for policy in policies]),
        (("total_low", "total_high"), [policy.total for policy in policies]),
    ):
        if None not in ends:
            columns |= dict(zip(names, zip(*ends, strict=True), strict=True))
    return ValueTable({**columns, **labels, "flags": flag_texts(len(policies), [], every)})


def _differences(
    found: ArmEstimates,
    states: NDArray[Any],
    arms: NDArray[Any],
    flags: list[Flag],
    every: Sequence[str],
) -> ValueTable:
    """Return how the other arms differ from the first, state by state and overall.

    The row of the overall value has no state, and no band.
    """
    each, others = len(states), len(arms) - 1

    def both(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.asarray(mask[each:] | np.tile(mask[:each], others))

    texts = flag_texts(others * each, [(word, both(mask)) for word, mask in flags], every)
    columns: dict[str, Any] = {
        "arm": np.repeat(arms[1:], each).tolist(),
        "against": [arms[0]] * (others * each),
        "state": np.tile(states, others).tolist(),
        **{name: column.tolist() for name, column in found.differences.items()},
        "flags": texts.tolist(),
    }
    for arm, policy in zip(arms[1:], found.policies[1:], strict=False):
        assert policy.difference_total is not None
        row = {
            "arm": arm,
            "against": arms[0],
            "state": None,
            "value": policy.difference,
            "total_low": policy.difference_total[0],
            "total_high": policy.difference_total[1],
            "total_band_low": None,
            "total_band_high": None,
            "supported": policy.supported,
            "flags": FLAGS_BETWEEN.join(every),
        }
        for name, column in columns.items():
            column.append(row[name])
    return ValueTable(columns)
