"""Take one greedy step on noisy action values: which action looks best in each state.

| symbol     | here                | shape | public |
|------------|---------------------|-------|--------|
| Q          | ``means``           | K     | yes, of every key (state, action): posterior means |
| T~, n~     | ``ratios``          | K     | yes    |
| s          | ``states``          | K     | yes, the state of a key; keys of a state are adjacent |
| b          | ``behaviour``       | K     | yes, shares of the noisy visits of a state |
| V          |                     | S     | yes, sum_a b Q: what the behaviour is worth |
| A          | ``advantage``       | K     | yes, Q - V |

Post-processing: it costs no privacy. Intervals of advantages hold for all keys at once, so that
picking the largest of many does not spoil them (docs/proofs/improvement.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.core import Integers, Vector
from privalue.estimate.intervals import Located, difference_ends, total_intervals
from privalue.estimate.ratios import (
    Ratios,
    clear_limit,
    normal_quantile,
    plain_values,
    pool_pairs,
    ratio_intervals,
)
from privalue.estimate.refits import released_ratios, tabular_study
from privalue.estimate.shrinkage import shrink_pairs
from privalue.estimate.values import actions_per_trajectory
from privalue.releases import Release
from privalue.study import Study

# Of the variance that returns can have at most, for the choice of people.
PEOPLE = 0.6
CAUTION = 0.5  # so many posterior standard deviations are taken off a value before they compete


REASONS = {
    "only one": "there is one allowed action",
    "best": "the largest expected value, after caution",
    "clear gain": "its gain is clear, noise and the choice of people accounted for",
    "no gain": "no action looks better than what was done",
    "no clear gain": "no action is clearly better than what was done",
    "too few": "no action was taken often enough to be judged",
    "nothing known": "hardly anybody was there",
}


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """What the new policy does in one state, and why.

    ``action`` is None where the behaviour is kept. ``advantage`` is what the action is worth more
    than the behaviour, with the ends of an interval that holds for all states and actions at once.
    """

    state: str
    reason: str  # a key of REASONS
    action: str | None = None
    behaviour: float | None = None  # its share among first visits; None where not known
    expected: float | None = None  # what the action is worth, by which it was chosen
    advantage: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def why(self) -> str:
        """Return in words why the state moves or stays."""
        return REASONS[self.reason]

    @property
    def instead(self) -> str:
        """Return what a state does that does not move to one action."""
        return "any, equally likely" if self.reason == "nothing known" else "keep"

    @property
    def moved(self) -> bool:
        """Return whether the state moves to one action."""
        return self.action is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class GreedyStep:
    """What the rule does in every state, and why."""

    policy: Vector  # K: probabilities of the new policy
    behaviour: Vector  # K: noisy shares of actions among the first visits of a state's pairs
    means: Vector  # K: posterior means of the values, drawn towards their state's
    deviations: Vector  # K: their standard deviations
    clear: NDArray[np.bool_]  # K: the noisy count is above what nobody's visits would give
    gains: NDArray[np.bool_]  # K: and the gain is clear, too
    advantage: Vector  # K
    low: Vector  # K: ends of the advantage's interval
    high: Vector
    known: NDArray[np.bool_]  # S: the state as a whole was clearly visited
    chosen: Integers  # S: the key that the state moves to; -1 where it keeps the behaviour


def greedy_step(
    ratios: Ratios,
    states: Integers,
    *,
    unvisited: float,
    level: float,
    clear_level: float,
    only_clear_gains: bool,
    alike: int,
    repeats: Vector,
    actions: Integers | None = None,
) -> GreedyStep:
    """Return the improved policy.

    A state moves to the action whose posterior mean less half its standard deviation is largest,
    among those that were clearly taken and are worth more than the behaviour. With
    ``only_clear_gains`` the lower end of the advantage must be above 0, too. Elsewhere actions keep
    their shares of first visits, and where nothing is known of them, all are equally likely.

    Args:
        ratios: noisy sums and counts of all keys.
        states: the state of every key, ascending from 0.
        unvisited: what a key is worth about which nothing is known.
        level: with which all intervals hold together.
        clear_level: with which no action that nobody took counts as taken.
        only_clear_gains: whether a state moves only where the gain is clear.
        alike: how many trajectories of one unit count, which may resemble each other.
        repeats: for every state how many of its keys one trajectory may count for.
        actions: the action of every key; None, if those of two states have nothing in common.

    Returns:
        The step.
    """
    of_states = pool_pairs(ratios, states, int(states[-1]) + 1)
    number = len(of_states.sums)
    z = normal_quantile(level, len(states) + number)
    q = _located(ratios, unvisited, z, alike)
    v = _located(of_states, unvisited, z, alike * repeats)
    fewest = clear_limit(clear_level, len(states))
    clear, known = ratios.clarity > fewest, of_states.clarity > fewest
    values = shrink_pairs(ratios, unvisited, states, actions=actions, people=PEOPLE)
    means, deviations = values.means, values.deviations
    allowed = np.bincount(states, minlength=number)
    seen = np.maximum(ratios.counts, 0.0)
    whole = np.bincount(states, weights=seen, minlength=number)
    behaviour = np.where(
        (known & (whole > 0))[states],
        seen / np.where(whole > 0, whole, 1.0)[states],
        1.0 / allowed[states],
    )
    # What the behaviour is worth is made of the same means, so that not all actions of a state can
    # be better than what was done there.
    own = np.bincount(states, weights=behaviour * means, minlength=number)[states]
    advantage = means - own
    # V holds Q's own people and noise, and what both have in common only brings them closer.
    of_state = Located(own=v.own[states], low=v.low[states], high=v.high[states])
    least, most = difference_ends(q, of_state, ratios.bounds)
    gains = clear & (least > 0)
    candidates = gains if only_clear_gains else clear & (advantage > 0)
    chosen, policy = _moved(candidates, means - CAUTION * deviations, behaviour, states, number)
    return GreedyStep(
        policy=policy,
        behaviour=behaviour,
        means=means,
        deviations=deviations,
        clear=clear,
        gains=gains,
        advantage=advantage,
        low=np.minimum(least, advantage),
        high=np.maximum(most, advantage),
        known=known,
        chosen=chosen,
    )


def _moved(
    candidates: NDArray[np.bool_], lowered: Vector, behaviour: Vector, states: Integers, number: int
) -> tuple[Integers, Vector]:
    """Return the key that each state moves to, -1 for none, and the policy that this makes."""
    chosen = _largest(np.where(candidates, lowered, -np.inf), states, number)
    policy = np.where(chosen[states] >= 0, 0.0, behaviour)
    policy[chosen[chosen >= 0]] = 1.0
    return chosen, policy


def greedy_step_of(
    release: Release, *, level: float, only_clear_gains: bool
) -> tuple[tuple[str, ...], Integers, GreedyStep]:
    """Return the labels of a release's states, the state of every pair, and the step.

    Args:
        release: of values of states and actions.
        level: with which all intervals hold together.
        only_clear_gains: whether a state moves only where the gain is clear.
    """
    study = tabular_study(release)
    pairs = study.pairs
    assert pairs is not None  # whoever asks has seen actions
    step = step_of_ratios(released_ratios(release), study, level, only_clear_gains=only_clear_gains)
    return release.states, pairs.state_of, step


def step_of_ratios(
    ratios: Ratios, study: Study, level: float, *, only_clear_gains: bool
) -> GreedyStep:
    """Return the step of noisy statistics, as the study counts.

    Args:
        ratios: of every pair.
        study: with actions.
        level: with which all intervals hold together.
        only_clear_gains: whether a state moves only where the gain is clear.
    """
    pairs = study.pairs
    assert pairs is not None
    return greedy_step(
        ratios,
        pairs.state_of,
        unvisited=float(np.clip(study.values.unvisited_value, *ratios.bounds)),
        level=level,
        clear_level=study.report.level,
        only_clear_gains=only_clear_gains,
        alike=study.trajectories_per_person,
        repeats=actions_per_trajectory(study, pairs),
        actions=pairs.action_of,
    )


def _located(ratios: Ratios, unvisited: float, z: float, alike: int | Vector) -> Located:
    """Return the ratios with their total intervals."""
    low, high = total_intervals(ratios, z, ratio_intervals(ratios, z), alike=alike)
    return Located(own=plain_values(ratios, unvisited), low=low, high=high)


def _largest(numbers: Vector, states: Integers, number: int) -> Integers:
    """Return the key with the largest number in each state, the first of equal ones; -1 for none.

    Minus infinity is not in the running.
    """
    order = np.lexsort((np.arange(len(numbers)), -numbers, states))
    first = order[np.searchsorted(states[order], np.arange(number))]
    return np.where(np.isfinite(numbers[first]), first, -1)
