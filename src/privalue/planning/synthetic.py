"""Simulate the statistics of m trajectories, from a public world or from a prior of visits.

| symbol | here         | shape | public                                             |
|--------|--------------|-------|----------------------------------------------------|
| p_s    | ``visits``   | N     | yes: the chance that a trajectory counts for a key |
| V      | ``values``   | N     | yes: the values to estimate; NaN where there is none |
| B      | ``batches``  |       | yes: equal batches of simulated trajectories       |

Statistics are whole numbers that add up. So a data set of m trajectories of a world is a sum of
batches, drawn with replacement from B batches that were simulated once and counted by the core's
own code under the study's limits and bounds: correlations within a batch carry over to the sum.
The simulated trajectories are the population, and V is their own mean, computed without clamping,
so that the error of the simulation cancels.

If only visits are known, counts are binomial, values are spread evenly over the bounds, and every
return is at one of the bounds, which is the largest variance (Bhatia and Davis 2000).
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from privalue.core import GRID_STEPS, Contributions, Integers, Limits, Statistics, Vector
from privalue.errors import StudyError, UsageError
from privalue.planning.sentences import sentence
from privalue.simulation import MDP, Episodes, MarkovRewardProcess, World, simulate_episodes
from privalue.study import Study

SEED = 20160620
_MAX_ROWS, _MAX_TRAJECTORIES, _PILOT = 4_000_000, 200_000, 500  # simulated
_MAX_CELLS = 2**22  # numbers by batch, key and level, held in memory at once
_MIN_BATCHES, _BATCHES_PER_SUM = 256, 64  # batches to draw from, and to add up for a data set
_BY_KEY = (
    "counts",
    "return_steps",
    "level_counts",
    "level_steps",
    "weight_steps",
    "weighted_steps",
)
_FEW_VISITS = 10_000  # with fewer simulated visits, the exact value replaces their mean
_GOLDEN = (5**0.5 - 1) / 2


class FromVisits:
    """Synthetic statistics if only the probabilities of visits are known."""

    def __init__(self, study: Study, visits: Vector) -> None:
        self._study = study
        low, high = study.values.return_bounds
        self.visits: Vector = np.tile(visits / study.arm_count, study.arm_count)
        # The golden ratio spreads values evenly, and sets those of neighbouring states far apart.
        self._shares = (0.5 + _GOLDEN * np.arange(len(self.visits))) % 1
        self.values: Vector = np.asarray(low + (high - low) * self._shares, np.float64)

    def round_size(self, trajectories: int) -> int:
        """Return m unchanged: any number of trajectories can be simulated."""
        return trajectories

    def statistics(self, trajectories: int, generator: np.random.Generator) -> Statistics:
        """Return the statistics of a synthetic data set."""
        counts = generator.binomial(trajectories, self.visits)
        steps = generator.binomial(counts, self._shares) * GRID_STEPS
        return _statistics(self._study, trajectories, counts=counts, return_steps=steps)


class FromWorld:
    """Sums of resampled batches of a world's simulated trajectories."""

    def __init__(self, study: Study, world: World) -> None:
        self._study = study
        self._rows = _Rows.of(study, world)
        totals = self._rows.add_up(replace(study.limits, arms=1, keys=self._rows.keys))
        self.visits: Vector = np.tile(
            totals.counts / totals.trajectories / study.arm_count, study.arm_count
        )
        weight = float(totals.weight_steps.sum()) * study.limits.clip / GRID_STEPS
        self.kept_mass = weight / totals.trajectories
        self.values: Vector = np.tile(self._rows.values(study.limits), study.arm_count)
        self._batches = lru_cache(maxsize=4)(self._simulated_batches)

    def _batch_size(self, trajectories: int) -> int:
        """Return the trajectories of a batch: a power of two, so that only a few sizes occur."""
        cells = self._rows.keys * (1 + 2 * self._study.limits.levels)
        most = max(self._rows.trajectories // _MIN_BATCHES, 1)
        least = -(-self._rows.trajectories * cells // _MAX_CELLS)
        target = min(max(trajectories // _BATCHES_PER_SUM, 1), most)
        return max(1 << (target.bit_length() - 1), 1 << max(least - 1, 0).bit_length())

    def round_size(self, trajectories: int) -> int:
        """Return m rounded down to whole batches, at least one."""
        size = self._batch_size(trajectories)
        return max(trajectories // size, 1) * size

    def _simulated_batches(self, size: int) -> dict[str, Integers]:
        """Return the statistics of all batches, batch by batch."""
        # The core counts each batch as an arm: no trajectory is in two.
        batches, limits = self._rows.trajectories // size, self._study.limits
        limits = replace(limits, arms=batches, keys=batches * self._rows.keys)
        totals = self._rows.add_up(limits, size=size, batches=batches)
        arrays = {name: getattr(totals, name) for name in _BY_KEY}
        sums = {name: part.reshape(batches, -1) for name, part in arrays.items() if part.size}
        return {**sums, "largest_levels": totals.largest_levels}

    def statistics(self, trajectories: int, generator: np.random.Generator) -> Statistics:
        """Return the statistics of a synthetic data set; its arms have one distribution."""
        size, arms = self._batch_size(trajectories), self._study.arm_count
        batches = dict(self._batches(size))
        largest = batches.pop("largest_levels")
        counts = generator.multinomial(trajectories // size, np.full(arms, 1 / arms))
        shares = np.full(len(batches["counts"]), 1 / len(batches["counts"]))
        draws = [generator.multinomial(count, shares) for count in counts]
        arrays: dict[str, Any] = {}
        for name, part in batches.items():
            sums = np.concatenate([_add_up(times, part) for times in draws])
            has_levels = name.startswith("level")
            arrays[name] = sums.reshape(len(self.visits), -1) if has_levels else sums
        if "level_counts" in arrays:
            arrays["largest_levels"] = generator.multinomial(trajectories, largest / largest.sum())
        return _statistics(self._study, trajectories, **arrays)


Synthetic: TypeAlias = FromVisits | FromWorld


def _add_up(repeats: Integers, batches: Integers) -> Integers:
    """Return the sum of batches, batch b ``repeats[b]`` times; most of these are 0."""
    nonzero = np.flatnonzero(repeats)
    return np.asarray(repeats[nonzero] @ batches[nonzero])


def _statistics(study: Study, trajectories: int, **arrays: Any) -> Statistics:
    """Return synthetic statistics; every person has as many trajectories as the limit allows."""
    return Statistics(
        limits=study.limits,
        trajectories=trajectories,
        rows=int(arrays["counts"].sum()),
        persons=-(-trajectories // study.limits.max_trajectories_per_person),
        **arrays,
    )


@lru_cache(maxsize=2)
def _simulate(world: World, has_actions: bool) -> Episodes:
    """Simulate as many trajectories as fit in memory; rewards are not yet discounted."""

    def rows(trajectories: int) -> Episodes:
        return simulate_episodes(world, trajectories=trajectories, seed=SEED, actions=has_actions)

    length = len(rows(_PILOT)) / _PILOT
    return rows(int(np.clip(_MAX_ROWS / length, _PILOT, _MAX_TRAJECTORIES)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Simulated rows, with the keys and ratios of a study."""

    trajectory: Integers
    step: Integers
    key: Integers
    reward: Vector
    ratio: Vector | None
    trajectories: int
    keys: int  # of one arm
    exact: Vector  # exact values of keys that are one state or pair of the world; else NaN

    @classmethod
    def of(cls, study: Study, world: World) -> "_Rows":
        """Simulate a world, under the study's discount."""
        process: MarkovRewardProcess = replace(world.process, discount=study.values.discount)
        process.require_end()
        state_of = raw_states(study, process)
        has_actions = study.pairs is not None
        rows = _simulate(world, has_actions)
        key_of, key, keys = state_of, state_of[rows.state], study.keys_per_arm
        exact, ratio = process.values, None
        if has_actions:
            mdp: MDP = replace(world.decisions[0], discount=study.values.discount)
            assert rows.action is not None
            pair = rows.state * mdp.actions + rows.action
            key_of, exact = raw_pairs(study, world, state_of), mdp.q(world.decisions[1]).ravel()
            if study.is_off_policy:
                target, behaviour = _policies(study, world, key_of)
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.where(behaviour > 0, target / behaviour, 0.0)[pair]
                keys = study.limits.keys
                key, key_of = (key, state_of) if keys > 1 else (0 * key, np.zeros(1, np.int64))
                exact = _target_values(mdp, target, by_start=keys > 1)
            else:
                key = key_of[pair]
        return cls(
            trajectory=rows.trajectory,
            step=rows.step,
            key=key,
            reward=rows.reward,
            ratio=ratio,
            trajectories=rows.trajectories,
            keys=keys,
            exact=_unmerged_values(exact, key_of, keys),
        )

    def add_up(self, limits: Limits, *, size: int = 0, batches: int = 1) -> Statistics:
        """Return the statistics of all rows, counted by the code that counts real rows.

        Args:
            limits: the study's, with the keys of all batches.
            size: trajectories of a batch; 0 for a single batch of all trajectories.
            batches: how many batches.
        """
        part = slice(None, int(np.searchsorted(self.trajectory, size * batches)) if size else None)
        ids, key = self.trajectory[part], self.key[part]
        if size:
            key = key + ids // size * self.keys
        contributions = Contributions(limits)
        contributions.add(
            ids[:, None, None],  # also as the person: every person has one trajectory
            self.step[part],
            key.astype(np.int32),
            self.reward[part],
            None if self.ratio is None else self.ratio[part],
        )
        return contributions.finish()

    def values(self, limits: Limits) -> Vector:
        """Return V: the mean return of the same trajectories without clamping.

        If the study merges states, V is the mean over all first visits, without a limit of states
        per trajectory; the mean of an unmerged state is V whichever first visits count. For a
        state with few visits, and for another policy, it is the exact value.
        """
        if self.ratio is not None:
            return self.exact
        longest = np.arange(int(self.step.max()) + 1)
        most = max(float(np.abs(self.reward).max() * np.sum(limits.discount**longest)), 1.0)
        unlimited = replace(
            limits,
            arms=1,
            keys=self.keys,
            return_bounds=(-most, most),
            reward_bounds=(-most, most),
            levels=1,
            max_states_per_trajectory=(
                self.keys if np.isnan(self.exact).any() else limits.max_states_per_trajectory
            ),
        )
        totals = self.add_up(unlimited)
        with np.errstate(invalid="ignore"):
            means = totals.return_sums / totals.counts
        few = (totals.counts < _FEW_VISITS) & np.isfinite(self.exact)
        return np.where(few, self.exact, means)


def raw_states(study: Study, process: MarkovRewardProcess) -> Integers:
    """Return the study's state for each state of a world.

    It is -1 for an end, and for a state that the study lacks: no trajectory may visit these.
    """
    states = process.states
    if study.fixed_rewards is not None:
        raise StudyError(sentence("world", "rewards"))
    if study.raw_labels is None or (
        study.states.groups is None and "0" not in study.raw_labels
    ):  # states are matched by position
        if states != study.names.count:
            raise StudyError(sentence("world", "states", theirs=states, ours=study.names.count))
        return np.arange(states)
    positions = np.array([study.raw_labels.get(str(raw), -1) for raw in range(states)])
    positions[positions >= study.names.count] = -1
    unknown = np.flatnonzero((positions < 0) & process.reachable)
    if unknown.size:
        raise StudyError(sentence("world", "unknown", state=unknown[0]))
    return positions


def raw_pairs(study: Study, world: World, state_of: Integers) -> Integers:
    """Return the study's pair for each pair of a world, numbered s A + a.

    It is -1 for a pair that the study lacks; only pairs of probability 0 may be lacking.
    """
    (mdp, policy), pairs = world.decisions, study.pairs
    assert pairs is not None
    names = pairs.actions
    if names.count != mdp.actions:
        raise StudyError(sentence("world", "actions", theirs=mdp.actions, ours=names.count))
    numbers = [names.positions.get(str(action)) for action in range(mdp.actions)]
    # If the labels are not the numbers of the world's actions, they are matched by position.
    action_of = np.array([at if None in numbers else numbers[at] for at in range(mdp.actions)])
    codes = state_of[:, None] * mdp.actions + action_of
    places = np.searchsorted(pairs.codes, codes)
    is_pair = pairs.codes[np.minimum(places, pairs.count - 1)] == codes
    positions = np.where(is_pair & (state_of >= 0)[:, None], places, -1)
    possible = world.process.reachable[:, None] & (policy > 0)
    missing = np.argwhere(possible & (positions < 0))
    if missing.size:
        state, action = missing[0]
        raise StudyError(sentence("world", "strange", state=state, action=action))
    return np.asarray(positions.ravel())


def _policies(study: Study, world: World, key_of: Integers) -> tuple[Vector, Vector]:
    """Return the target's and the behaviour's probabilities of each pair of a world."""
    tables = study.policies
    logged = world.decisions[1].ravel()
    behaviour = np.append(tables["behaviour"], 0.0)[key_of] if "behaviour" in tables else logged
    return np.append(tables["target"], 0.0)[key_of], behaviour


def _target_values(mdp: MDP, target: Vector, *, by_start: bool) -> Vector:
    """Return the target's exact value in every state, or at the world's start; NaN if undefined."""
    try:
        process = mdp.under(target.reshape(mdp.states, mdp.actions))
    except (StudyError, UsageError):  # it never ends, or takes no action somewhere
        return np.full(mdp.states if by_start else 1, np.nan)
    return process.values if by_start else np.array([process.start_value])


def _unmerged_values(values: Vector, key_of: Integers, keys: int) -> Vector:
    """Return the values of keys that are a single state or pair of the world; NaN for others."""
    has_key = key_of >= 0
    times = np.bincount(key_of[has_key], minlength=keys)
    by_key = np.full(keys, np.nan)
    by_key[key_of[has_key]] = values[has_key]
    return np.where(times == 1, by_key, np.nan)
