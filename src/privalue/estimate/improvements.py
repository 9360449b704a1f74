"""Improve a policy by one greedy step on released action values; spends nothing.

| symbol     | here                | shape | public |
|------------|---------------------|-------|--------|
| T~, n~     | ``ratios``          | K     | yes, of every key (state, action) |
| s          | ``states``          | K     | yes, the state of a key; keys of a state are adjacent |
| Q          | ``means``           | K     | yes, posterior means |
| b          | ``behaviour``       | K     | yes, shares of the noisy visits of a state |
| V          |                     | S     | yes, sum_a b Q: the value of the behaviour |
| A          | ``advantage``       | K     | yes, Q - V |

Post-processing: it costs no privacy. Intervals of advantages hold for all keys at once, so that
selecting the largest does not invalidate them (docs/proofs/improvement.md). The result is a
hypothesis for a trial: no release can show that values differ because of the actions rather than
the people who got them (no confounding), and that people took each action often enough (overlap).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers, Vector
from privalue.errors import UnknownLabelError, UsageError
from privalue.estimate.flags import WORDS
from privalue.estimate.intervals import Interval, estimate_intervals
from privalue.estimate.ratios import Ratios, add_up, detection_threshold, normal_quantile
from privalue.estimate.refits import as_release, cluster_size_of, ratios_of
from privalue.estimate.shrinkage import shrink
from privalue.releases import NOT_PRIVATE, Release, Tabular
from privalue.study import described_values

SAMPLING = 0.6  # the variance of a return, as a share of the largest possible
CAUTION = 0.5  # posterior standard deviations subtracted from a value before actions are compared
REASONS = ("gain", "nothing-known", "only-one", "too-few", "no-gain")
MAX_ACTIONS = 100  # with effects that all states share


class StateChange(NamedTuple):
    """The new policy in one state, and the reason for it.

    ``action`` is None where the behaviour is kept. ``advantage`` is the action's value less the
    behaviour's, with the ends of an interval that holds for all states and actions at once.
    """

    state: str
    reason: str  # a key of WORDS["reasons"]
    action: str | None = None
    behaviour: float | None = None  # the action's share among first visits; None if unknown
    expected: float | None = None  # the action's value: its posterior mean
    advantage: float | None = None
    low: float | None = None
    high: float | None = None


class GreedyStep(NamedTuple):
    """The improved policy, with the numbers that decided it.

    | column                 | of every key                                                |
    |------------------------|-------------------------------------------------------------|
    | probability            | of the new policy                                           |
    | behaviour              | of the data: noisy shares among the first visits of a state's pairs |
    | expected, deviation    | posterior of the value, shrunk towards its state's          |
    | advantage, low, high   | over the behaviour, with its interval                       |
    | clear                  | whether the noisy count is clearly above 0                  |
    """

    columns: dict[str, NDArray[Any]]
    visited: NDArray[np.bool_]  # of every state: whether its count is clearly above 0
    moves: Integers  # of every state: the key of its new action; -1 if it keeps the behaviour
    reasons: list[str]  # of every state: the first of REASONS that applies


def greedy_step(
    ratios: Ratios,
    states: Integers,
    *,
    unvisited: float,
    release_level: float,
    level: float | None,
    cluster_size: int,
    keys_per_trajectory: Vector,
    effects: Vector | None = None,
) -> GreedyStep:
    """Return the improved policy.

    A state moves to the action whose posterior mean less half its standard deviation is largest,
    among those that were clearly taken and are worth more than the behaviour. With a ``level`` the
    lower end of the advantage must be above 0, too. Elsewhere actions keep their shares of first
    visits; in a state without clear visits all are equally likely.

    Args:
        ratios: noisy sums and counts of all keys.
        states: the state of every key, ascending from 0.
        unvisited: the value of a key without any information.
        release_level: the release's level: the probability that no untaken action counts as taken.
        level: the level of the gain; None if a gain need not be clear.
        cluster_size: how many trajectories of one unit count; they may be equal.
        keys_per_trajectory: for every state, for how many of its keys one trajectory may count.
        effects: a column for each action, 1 at its keys; None if actions of different states have
            nothing in common.
    """
    by_state = ratios.pool(states)
    state_count = len(by_state.sums)
    z = normal_quantile(level or release_level, len(states) + state_count)
    threshold = detection_threshold(release_level, len(states))
    clear, visited = ratios.count_z > threshold, by_state.count_z > threshold
    values = shrink(ratios, unvisited, states=states, effects=effects, sampling=SAMPLING)

    counts = np.maximum(ratios.counts, 0.0)
    visits = add_up(counts, states)
    uniform = 1.0 / np.bincount(states)[states]
    shares = counts / np.where(visits > 0, visits, 1.0)[states]
    behaviour = np.where((visited & (visits > 0))[states], shares, uniform)
    # The behaviour's value is an average of the same means, so that not all actions of a state can
    # be better than the behaviour.
    advantage = values.means - add_up(behaviour * values.means, states)[states]
    # V includes the people and the noise of Q; this dependence only reduces the error of Q - V.
    q = estimate_intervals(ratios, unvisited, z, cluster_size)
    v = estimate_intervals(by_state, unvisited, z, cluster_size * keys_per_trajectory)
    low, high = q.subtract(Interval(*(column[states] for column in v)), ratios.bounds)
    candidates = clear & (advantage > 0 if level is None else low > 0)
    scores = np.where(candidates, values.means - CAUTION * values.deviations, -np.inf)
    # The key with the highest score in each state, the first one in a tie.
    order = np.lexsort((np.arange(len(states)), -scores, states))
    first = order[np.searchsorted(states[order], np.arange(state_count))]
    moves = np.where(np.isfinite(scores[first]), first, -1)
    probability = np.where(moves[states] >= 0, 0.0, behaviour)
    probability[moves[moves >= 0]] = 1.0
    columns = {
        "probability": probability,
        "behaviour": behaviour,
        "expected": values.means,
        "deviation": values.deviations,
        "advantage": advantage,
        "low": np.minimum(low, advantage),
        "high": np.maximum(high, advantage),
        "clear": clear,
    }
    too_few = np.bincount(states[clear], minlength=state_count) == 0
    conditions = [moves >= 0, ~visited, np.bincount(states) == 1, too_few, np.ones_like(visited)]
    reasons = [REASONS[first] for first in np.argmax(conditions, axis=0)]
    return GreedyStep(columns, visited, moves, reasons)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Improvement(Tabular):
    """A policy that is one greedy step better than the data's, by released values.

    ``probabilities(state)`` returns those of the actions in a state; ``changes`` has the change in
    each state, the largest gain first. ``save("policy.csv")`` writes the policy as a study's
    ``[policy] target`` takes it, with policy.json and policy.html beside it.
    """

    release: Release
    level: float | None  # of the gains; None if they need not be clear
    columns: dict[str, list[Any]]  # of every pair of a state and an action
    changes: list[StateChange]

    def __repr__(self) -> str:
        move_count = sum(change.action is not None for change in self.changes)
        kind = "" if self.release.private else f", {NOT_PRIVATE}"
        return f"Improvement(moves {move_count} of {len(self.changes)} states{kind})"

    def probabilities(self, state: str | int) -> dict[str, float]:
        """Return the probability of each allowed action in a state.

        Raises:
            UnknownLabelError: there is no such state.
        """
        columns = (self.columns[name] for name in ("state", "action", "probability"))
        rows = zip(*columns, strict=True)
        probabilities = {action: share for label, action, share in rows if label == str(state)}
        if not probabilities:
            raise UnknownLabelError(f"there is no state {str(state)!r}; see release.states")
        return probabilities

    def to_arrow(self) -> pa.Table:
        """Return a row for every pair of a state and an action, as an Arrow table."""
        metadata = {"privalue": self.release.sentence(), "warning": WORDS["warning"]}
        return pa.table(self.columns).replace_schema_metadata(metadata)

    def _repr_html_(self) -> str:
        from privalue.report import describe_policy, notebook_html  # noqa: PLC0415 - it imports this

        return notebook_html(describe_policy(self))

    def save(self, path: str | Path, *, force: bool = False) -> list[Path]:
        """Write the policy, and beside it policy.json and policy.html, named after the file.

        Args:
            path: of the table; it must end in .csv.
            force: whether to overwrite files that exist.

        Returns:
            The three files.

        Raises:
            UsageError: a file exists, the folder does not, or the name does not end in .csv.
        """
        from privalue.report import save_policy  # noqa: PLC0415 - it imports this

        return save_policy(self, Path(path), force=force)


def improve(release: Release | str | Path, *, level: float | None = None) -> Improvement:
    """Return a policy by one greedy step; without ``level``, unclear gains may make it worse.

    It is computed from released action values, and spends nothing. In each state it takes, among
    the actions with clear visits, the one with the largest posterior mean less half its standard
    deviation; values are shrunk towards the state's value, and towards the action's effect in all
    states. Where no action looks better, the state keeps its behaviour: the noisy shares of actions
    among first visits, which differ from overall frequencies if people come back to a state and
    choose again. With ``level`` a state moves only if the gain is clear.

    Args:
        release: a release of a study with actions, its file, or its folder.
        level: the probability that no state moves to an action of lower value than its behaviour,
            as first visits count it; None for the default rule.

    Returns:
        The policy, with the change in each state and its reason.

    Raises:
        UsageError: the release has no values of actions, or the level is not a probability.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill"], actions=["wait", "treat"], discount=1.0, returns=(0, 1),
    ...                  epsilon=1.0, delta=1e-6, unit="trajectory")
    >>> people = [[("ill", "wait", 0.0)], [("ill", "treat", 1.0)]] * 5000
    >>> better = pv.improve(pv.release(study, people))
    >>> better, better.probabilities("ill")
    (Improvement(moves 1 of 1 states), {'wait': 0.0, 'treat': 1.0})
    """
    release = as_release(release)
    if level is not None and not (isinstance(level, int | float) and 0 < level < 1):
        allowed = "it must be a probability above 0 and below 1, such as 0.95"
        raise UsageError(allowed, code="out-of-range", argument=("level", level))
    if release.column("action") is None:
        raise UsageError("this release has no values of actions; its study needs [actions]")
    ratios, (states, actions) = ratios_of(release), release.pair_positions()
    sizes, has_effects = np.bincount(states), len(release.actions) <= MAX_ACTIONS
    step = greedy_step(
        ratios,
        states,
        unvisited=float(np.clip(described_values(release.study).unvisited_value, *ratios.bounds)),
        release_level=release.level or 0.95,
        level=level,
        cluster_size=cluster_size_of(release),
        keys_per_trajectory=np.minimum(sizes, release.terms["max_states_per_trajectory"]),
        effects=np.eye(len(release.actions))[actions] if has_effects else None,
    )
    labels = {name: release.main.columns[name] for name in ("state", "action", "value")}
    columns = {name: column.tolist() for name, column in {**labels, **step.columns}.items()}
    changes = [StateChange(*pair) for pair in zip(release.states, step.reasons, strict=True)]
    for at in np.flatnonzero(step.moves >= 0):
        fields = {name: columns[name][step.moves[at]] for name in StateChange._fields[2:]}
        missing = {} if step.visited[at] else {"behaviour": None}
        changes[at] = changes[at]._replace(**fields | missing)
    changes.sort(key=lambda change: (change.action is None, -(change.advantage or 0.0)))
    return Improvement(release=release, level=level, columns=columns, changes=changes)
