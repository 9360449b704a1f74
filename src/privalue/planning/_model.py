"""Describe what a plan assumes of the data: a public model of visits and returns.

The model comes from a world, whose law is known, or from the study alone; no data is opened. From a
world everything is exact where trajectories count in full and nothing is clamped. Visits under a
limit of states are simulated. What clamping does, and what a limit of states does to the means of
grouped states, is the difference of two means of the same simulated trajectories, one of them held
to the study's limits and the other free:

    F_s = V_s + mean of (what the study counts) - mean of (what a free one would count)

V is exact, and the chance that both means share drops out: where nothing is clamped, F_s is V_s.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from privalue.core import Contributions, Integers, Limits, Statistics, Vector
from privalue.errors import StudyError, UsageError
from privalue.planning._assumed import study_model
from privalue.planning._public_model import MOST_STATES, SEED, Levels, PublicModel
from privalue.planning._returns import (
    MOST_EXACT,
    MOST_EXACT_WITH_ACTIONS,
    FirstVisits,
    expected_length,
    first_choices,
    first_visits,
)
from privalue.simulation import (
    Episodes,
    MarkovRewardProcess,
    World,
    return_range,
    simulate_episodes,
)
from privalue.study import Study

BATCHES = 500
_MOST_ROWS, _MOST_TRAJECTORIES = 4_000_000, 200_000  # simulated


def public_model(study: Study, world: World | None = None) -> PublicModel:
    """Return the model of a world, or what can be assumed from the study alone."""
    require_few_states(study)
    return study_model(study) if world is None else world_model(study, world)


def require_few_states(study: Study) -> None:
    """Refuse a study of so many states that a plan would take too long."""
    if study.key_count > MOST_STATES:
        raise UsageError(
            f"errors are predicted for at most {MOST_STATES:,} states, and this study has "
            f"{study.key_count:,}; plan a study of fewer, such as a part of them"
        )


def world_model(study: Study, world: World) -> PublicModel:
    """Return the law of a world's trajectories, as the study counts them."""
    if study.arm_count > 1:
        return world_model(study.in_one_arm(), world).in_every_arm(study.arm_count)
    process = replace(world.process, discount=study.values.discount)
    process.require_end()
    seen = _states_seen(study, process) if study.pairs is None else _pairs_seen(study, world)
    rows, key_of = seen.rows, seen.key_of
    batches = _gathered(rows, key_of, study.limits, study.values.rewards)
    clamped = _clamps(study, process)
    limited = study.states_per_trajectory < study.keys_per_arm
    simulated = _moments(batches)
    law = simulated if seen.law is None else seen.law
    assumptions = [f"trajectories are those of the public world {world.text}"]
    merged = np.bincount(key_of[key_of >= 0]).max() > 1
    biased = clamped or (limited and merged)
    free = _free_means(study, rows, key_of, unlimited=bool(merged)) if biased else simulated.means
    visits = simulated.visits if limited else law.visits
    if world.process.discount != study.values.discount:
        assumptions.append(f"its rewards are discounted by the study's {study.values.discount:g}")
    if clamped:
        assumptions.append("some of its returns or rewards lie outside the bounds, and are clamped")
    if limited:
        assumptions.append(
            f"a trajectory counts for its first {study.states_per_trajectory} "
            f"{'states' if study.pairs is None else 'pairs'} only"
        )
    if law is simulated or limited or clamped:
        assumptions.append(f"found by simulating {_total(batches):,} of its trajectories")
    if study.limits.levels > 1:
        assumptions.append("a stage of the release looks for the bound of its returns")
    values = free if law is simulated else law.means
    change = simulated.means - free if biased else np.zeros(study.keys_per_arm)
    counted = values + np.where(np.isfinite(change), change, 0.0)
    low, high = study.return_bounds
    means = np.clip(
        np.where(np.isfinite(counted), counted, study.values.unvisited_value), low, high
    )
    spread = simulated.variances if biased else law.variances
    variances = np.where(np.isfinite(spread), spread, 0.0)
    return PublicModel(
        visits=visits,
        means=means,
        variances=np.minimum(variances, (high - means) * (means - low)),
        values=values,
        known=True,
        source=f"the public world {world.text}",
        assumptions=tuple(assumptions),
        together=_together(batches, visits, means),
        levels=_levels(batches) if study.limits.levels > 1 else None,
        state_values=seen.state_values,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _SeenKeys:
    """What a study sees of a world: rows whose states are raw keys, and the law of its own keys."""

    rows: Episodes
    key_of: Integers  # for each raw key its key of the study, or -1
    law: FirstVisits | None  # None where the world is too large
    state_values: Vector | None = None


def _states_seen(study: Study, process: MarkovRewardProcess) -> _SeenKeys:
    """Return how the study sees states."""
    state_of = raw_states(study, process)
    exact = process.states <= MOST_EXACT
    return _SeenKeys(
        rows=_sampled(process),
        key_of=state_of,
        law=first_visits(process, state_of, study.state_count) if exact else None,
    )


def _pairs_seen(study: Study, world: World) -> _SeenKeys:
    """Return how the study sees pairs of a state and an action, raw ones numbered s A + a."""
    mdp, policy = replace(world.decisions[0], discount=study.values.discount), world.decisions[1]
    process = mdp.under(policy)
    state_of = raw_states(study, process)
    key_of = raw_pairs(study, world, state_of)
    rows = _sampled(process, world)
    assert rows.action is not None
    law = state_values = None
    if process.states <= MOST_EXACT_WITH_ACTIONS:
        law = first_choices(mdp, policy, process, key_of, study.key_count)
    if process.states <= MOST_EXACT:
        state_values = first_visits(process, state_of, study.state_count).means
    pairs = rows.state * mdp.actions + rows.action
    return _SeenKeys(
        rows=replace(rows, state=pairs, action=None, probability=None),
        key_of=key_of,
        law=law,
        state_values=state_values,
    )


def raw_states(study: Study, process: MarkovRewardProcess) -> Integers:
    """Return for each state of a world the state of the study that it belongs to.

    It is -1 where the study has none, which is allowed only for states that no trajectory visits.
    """
    states = process.states
    if study.raw_labels is None or (
        study.states.groups is None and "0" not in study.raw_labels
    ):  # states are matched by position
        if states != study.state_count:
            raise StudyError(
                f"[states] the world has {states} states and the study {study.state_count}; use "
                "a world of the same states, or map its states by [states] groups"
            )
        return np.arange(states)
    found = np.array([study.raw_labels.get(str(raw), -1) for raw in range(states)])
    unknown = np.flatnonzero((found < 0) & process.reachable)
    if unknown.size:
        raise StudyError(
            f'[states] trajectories of the world visit state "{unknown[0]}", which is not a raw '
            "label of the study; add it to [states] groups, or use another world"
        )
    return found


def raw_pairs(study: Study, world: World, state_of: Integers) -> Integers:
    """Return for each pair of a world, numbered s A + a, the pair of the study that it belongs to.

    It is -1 where the study has none, which is allowed only for pairs that nobody takes.

    Args:
        study: with actions, as many as the world has.
        world: in which people choose.
        state_of: for each raw state its state of the study, or -1.
    """
    (mdp, policy), pairs = world.decisions, study.pairs
    assert pairs is not None
    names = pairs.actions
    if names.count != mdp.actions:
        raise StudyError(
            f"[actions] the world has {mdp.actions} actions and the study {names.count}; use a "
            "world of the same actions"
        )
    numbers = [names.positions.get(str(action)) for action in range(mdp.actions)]
    # Other labels than the numbers of the world's actions are matched by position.
    action_of = np.array([at if None in numbers else numbers[at] for at in range(mdp.actions)])
    codes = state_of[:, None] * mdp.actions + action_of
    places = np.searchsorted(pairs.codes, codes)
    known = pairs.codes[np.minimum(places, pairs.count - 1)] == codes
    found = np.where(known & (state_of >= 0)[:, None], places, -1)
    taken = world.process.reachable[:, None] & (policy > 0)
    strange = np.argwhere(taken & (found < 0))
    if strange.size:
        state, action = strange[0]
        raise StudyError(
            f"[actions] people of the world take action {action} in state {state}, which is not "
            "an allowed pair of the study; allow it, or use another world"
        )
    return np.asarray(found.ravel())


def _clamps(study: Study, process: MarkovRewardProcess) -> bool:
    """Return whether any reward or return of the process can lie outside the study's bounds."""
    low, high = process.reward_bounds
    lowest, highest = return_range(process)
    slack = 1e-9 * (study.return_bounds[1] - study.return_bounds[0])
    return not (
        study.values.rewards[0] <= low
        and high <= study.values.rewards[1]
        and study.return_bounds[0] <= lowest + slack
        and highest <= study.return_bounds[1] + slack
    )


def _sampled(process: MarkovRewardProcess, world: World | None = None) -> Episodes:
    """Simulate trajectories in a number that batches of equal size make up.

    Args:
        process: what is simulated.
        world: that it belongs to, where rows are to have the action.
    """
    total = int(np.clip(_MOST_ROWS / expected_length(process), 100, _MOST_TRAJECTORIES))
    count = min(BATCHES, total)
    return simulate_episodes(
        process if world is None else world,
        trajectories=total // count * count,
        seed=SEED,
        actions=world is not None,
    )


def _gathered(
    rows: Episodes,
    state_of: Integers,
    limits: Limits,
    rewards: tuple[float, float],
    *,
    batches: int | None = None,
) -> list[Statistics]:
    """Return the statistics of equal batches of simulated trajectories.

    The core counts them by the code that counts real rows, so the limits and bounds apply.

    Args:
        rows: the simulated trajectories.
        state_of: for each raw state its state of the study.
        limits: what one trajectory may contribute.
        rewards: the bounds that rewards are moved between.
        batches: how many; as many as ``_sampled`` makes room for, if left out.
    """
    each = rows.trajectories // (batches or min(BATCHES, rows.trajectories))
    states = state_of[rows.state].astype(np.int32)
    paid = np.clip(rows.reward, *rewards)
    ids = rows.trajectory[:, None, None]  # also for persons: each has one trajectory, so all count
    bounds = np.searchsorted(rows.trajectory, np.arange(0, rows.trajectories + 1, each))
    found = []
    for begin, end in pairwise(bounds.tolist()):
        some = slice(begin, end)
        contributions = Contributions(limits)
        contributions.add(ids[some], rows.step[some], states[some], paid[some])
        found.append(contributions.finish())
    return found


def _free_means(study: Study, rows: Episodes, state_of: Integers, *, unlimited: bool) -> Vector:
    """Return the mean returns of the same trajectories where nothing is clamped.

    Args:
        study: what is public.
        rows: the simulated trajectories.
        state_of: for each raw state its state of the study.
        unlimited: whether the limit of states is lifted, too. It must be where states are grouped:
            V is the mean over all first visits of a group. A single state's mean is V whichever
            of its first visits count, and the pairs are closer where the same ones do.
    """
    longest = np.arange(int(rows.step.max()) + 1)
    largest = float(np.abs(rows.reward).max() * np.sum(study.values.discount**longest))
    free = replace(study.limits, return_bounds=(-max(largest, 1.0), max(largest, 1.0)))
    if unlimited:
        free = replace(free, max_states_per_trajectory=study.keys_per_arm)
    return _moments(_gathered(rows, state_of, free, (-np.inf, np.inf), batches=1)).means


def _total(batches: list[Statistics]) -> int:
    """Return the number of trajectories of all batches."""
    return sum(batch.trajectories for batch in batches)


def _moments(batches: list[Statistics]) -> FirstVisits:
    """Estimate p, F and v from batches: v_s = sum_b (S_b - n_b F_s)^2 / sum_b n_b."""
    counts = np.array([batch.counts for batch in batches])
    sums = np.array([batch.return_sums for batch in batches])
    total = counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        means = sums.sum(axis=0) / total
        variances = np.square(sums - counts * means).sum(axis=0) / total
    return FirstVisits(visits=total / _total(batches), means=means, variances=variances)


def _levels(batches: list[Statistics]) -> Levels:
    """Return where the returns of all batches lie."""
    counts = np.sum([batch.level_counts for batch in batches], axis=0)
    steps = np.sum([batch.level_steps for batch in batches], axis=0)
    largest = np.sum([batch.largest_levels for batch in batches], axis=0)
    return Levels(
        shares=counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        steps=steps / np.maximum(counts, 1),
        largest=largest / _total(batches),
    )


def _together(batches: list[Statistics], visits: Vector, means: Vector) -> Vector:
    """Return how far each batch is from its expectation, scaled to variance 1.

    Columns 0 .. N-1 are n_b - |b| p, columns N .. 2N-1 are S_b - n_b F. A column of NaN belongs to
    a state that no batch visited, or whose numbers do not vary.
    """
    counts = np.array([batch.counts for batch in batches])
    sums = np.array([batch.return_sums for batch in batches])
    each = batches[0].trajectories
    off = np.hstack([counts - each * visits, sums - counts * means])
    spread = np.sqrt(np.mean(np.square(off), axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 1e-12 * np.abs(sums).max(), off / spread, np.nan)
