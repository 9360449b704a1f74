"""Make a better policy from released action values: one greedy step, free of charge.

| symbol     | here                | shape | public |
|------------|---------------------|-------|--------|
| T~, n~     | ``ratios``          | K     | yes, of every key (state, action) |
| s          | ``states``          | K     | yes, the state of a key; keys of a state are adjacent |
| Q          | ``means``           | K     | yes, posterior means |
| b          | ``behaviour``       | K     | yes, shares of the noisy visits of a state |
| V          |                     | S     | yes, sum_a b Q: what the behaviour is worth |
| A          | ``advantage``       | K     | yes, Q - V |

Post-processing: it costs no privacy. Intervals of advantages hold for all keys at once, so that
picking the largest of many does not spoil them (docs/proofs/improvement.md). What is made here is a
hypothesis for a trial: no release can check that values differ because of the actions and not
because of who got them, that nothing hidden decided both, and that people did take the actions.
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
from privalue.estimate.intervals import Located, locate
from privalue.estimate.ratios import Ratios, add_up, clear_limit, normal_quantile
from privalue.estimate.refits import released_ratios, trajectories_alike
from privalue.estimate.shrinkage import shrink
from privalue.releases import NOT_PRIVATE, Release, Tabular
from privalue.study import described_values

PEOPLE = 0.6  # of the variance that returns can have at most, for the choice of people
CAUTION = 0.5  # so many posterior standard deviations are taken off a value before they compete
REASONS = ("gain", "nothing-known", "only-one", "too-few", "no-gain")
MOST_ACTIONS = 100  # more have no effects of their own


class StateChange(NamedTuple):
    """The new policy in one state, and the reason for it.

    ``action`` is None where the behaviour is kept. ``advantage`` is what the action is worth more
    than the behaviour, with the ends of an interval that holds for all states and actions at once.
    """

    state: str
    reason: str  # a key of WORDS["reasons"]
    action: str | None = None
    behaviour: float | None = None  # its share among first visits; None where not known
    expected: float | None = None  # what the action is worth, by which it was chosen
    advantage: float | None = None
    low: float | None = None
    high: float | None = None


class GreedyStep(NamedTuple):
    """What the rule does.

    | column                 | of every key                                                |
    |------------------------|-------------------------------------------------------------|
    | probability            | of the new policy                                           |
    | behaviour              | noisy shares of actions among the first visits of a state's pairs |
    | expected, deviation    | posterior of the value, drawn towards its state's           |
    | advantage, low, high   | over the behaviour, with its interval                       |
    | clear                  | whether the noisy count is above what nobody's visits would give |
    """

    columns: dict[str, NDArray[Any]]
    known: NDArray[np.bool_]  # of every state: whether it was clearly visited as a whole
    chosen: Integers  # of every state: the key that it moves to; -1 where it keeps the behaviour
    reasons: list[str]  # of every state: the first of REASONS that applies


def greedy_step(
    ratios: Ratios,
    states: Integers,
    *,
    unvisited: float,
    usual: float,
    level: float | None,
    alike: int,
    repeats: Vector,
    effects: Vector | None = None,
) -> GreedyStep:
    """Return the improved policy.

    A state moves to the action whose posterior mean less half its standard deviation is largest,
    among those that were clearly taken and are worth more than the behaviour. With a ``level`` the
    lower end of the advantage must be above 0, too. Elsewhere actions keep their shares of first
    visits, and where nothing is known of them, all are equally likely.

    Args:
        ratios: noisy sums and counts of all keys.
        states: the state of every key, ascending from 0.
        unvisited: what a key is worth about which nothing is known.
        usual: the release's level, with which no action that nobody took counts as taken.
        level: with which a state moves only where the gain is clear; None, if it need not be.
        alike: how many trajectories of one unit count, which may resemble each other.
        repeats: for every state how many of its keys one trajectory may count for.
        effects: a column for each action, 1 where a key is of it; None, if the actions of two
            states have nothing in common.
    """
    whole = ratios.pooled(states)
    number = len(whole.sums)
    z = normal_quantile(level or usual, len(states) + number)
    fewest = clear_limit(usual, len(states))
    clear, known = ratios.clarity > fewest, whole.clarity > fewest
    values = shrink(ratios, unvisited, states=states, effects=effects, people=PEOPLE)

    seen = np.maximum(ratios.counts, 0.0)
    visits = add_up(seen, states)
    even = 1.0 / np.bincount(states)[states]
    shares = seen / np.where(visits > 0, visits, 1.0)[states]
    behaviour = np.where((known & (visits > 0))[states], shares, even)
    # What the behaviour is worth is made of the same means, so that not all actions of a state can
    # be better than what was done there.
    advantage = values.means - add_up(behaviour * values.means, states)[states]
    # V holds Q's own people and noise, and what both have in common only brings them closer.
    q = locate(ratios, unvisited, z, alike)
    v = locate(whole, unvisited, z, alike * repeats)
    least, most = q.minus(Located(*(column[states] for column in v)), ratios.bounds)
    candidates = clear & (advantage > 0 if level is None else least > 0)
    lowered = np.where(candidates, values.means - CAUTION * values.deviations, -np.inf)
    # The key with the largest number in each state, the first of equal ones.
    order = np.lexsort((np.arange(len(states)), -lowered, states))
    first = order[np.searchsorted(states[order], np.arange(number))]
    chosen = np.where(np.isfinite(lowered[first]), first, -1)
    probability = np.where(chosen[states] >= 0, 0.0, behaviour)
    probability[chosen[chosen >= 0]] = 1.0
    columns = {
        "probability": probability,
        "behaviour": behaviour,
        "expected": values.means,
        "deviation": values.deviations,
        "advantage": advantage,
        "low": np.minimum(least, advantage),
        "high": np.maximum(most, advantage),
        "clear": clear,
    }
    too_few = np.bincount(states[clear], minlength=number) == 0
    apply = [chosen >= 0, ~known, np.bincount(states) == 1, too_few, np.ones_like(known)]
    reasons = [REASONS[first] for first in np.argmax(apply, axis=0)]
    return GreedyStep(columns, known, chosen, reasons)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Improvement(Tabular):
    """A policy that is one greedy step better than the data's, by what was released.

    ``probabilities(state)`` are those of the actions in a state; ``changes`` says what happens in
    each, the largest gain first. ``save("policy.csv")`` writes the policy as a study's
    ``[policy] target`` takes it, with policy.json and policy.html beside it.
    """

    release: Release
    level: float | None  # as asked: None where a gain need not be clear
    columns: dict[str, list[Any]]  # of every pair of a state and an action
    changes: list[StateChange]

    def __repr__(self) -> str:
        moved = sum(change.action is not None for change in self.changes)
        kind = "" if self.release.private else f", {NOT_PRIVATE}"
        return f"Improvement(moves {moved} of {len(self.changes)} states{kind})"

    def probabilities(self, state: str | int) -> dict[str, float]:
        """Return how likely each allowed action is in a state.

        Raises:
            UnknownLabelError: there is no such state.
        """
        columns = (self.columns[name] for name in ("state", "action", "probability"))
        rows = zip(*columns, strict=True)
        found = {action: share for label, action, share in rows if label == str(state)}
        if not found:
            raise UnknownLabelError(f"there is no state {str(state)!r}; see release.states")
        return found

    def to_arrow(self) -> pa.Table:
        """Return a row for every pair of a state and an action, as an Arrow table."""
        metadata = {"privalue": self.release.sentence(), "warning": WORDS["warning"]}
        return pa.table(self.columns).replace_schema_metadata(metadata)

    def _repr_html_(self) -> str:
        from privalue.report import describe_policy, notebook_html  # noqa: PLC0415 - above

        return notebook_html(describe_policy(self))

    def save(self, path: str | Path, *, force: bool = False) -> list[Path]:
        """Write the policy, and beside it policy.json and policy.html, as the file is called.

        Args:
            path: of the table; it ends in .csv.
            force: whether files that exist are overwritten.

        Returns:
            The three files.

        Raises:
            UsageError: a file exists, the folder does not, or the name does not end in .csv.
        """
        from privalue.report import save_policy  # noqa: PLC0415 - it imports this package

        return save_policy(self, Path(path), force=force)


def improve(release: Release | str | Path, *, level: float | None = None) -> Improvement:
    """Return a policy by one greedy step; without ``level`` it may be worse where nothing is clear.

    It follows from released action values, and spends nothing. In each state it takes the action
    with the largest value, among actions that were clearly taken; values are drawn towards the
    state's own, and towards what the action is worth in all states, less half their posterior
    standard deviation. Where no action looks better, the state keeps what it did: its actions have
    the noisy shares that they have among first visits, which are not how often each was taken where
    people come back to a state and choose again. With ``level`` a state moves only where the gain
    is clear.

    Args:
        release: a release of a study with actions, its file, or its folder.
        level: with this probability no move is to an action that is worth less than what was done,
            as first visits count it; None for the default rule.

    Returns:
        The policy, with what happens in each state and why.

    Raises:
        UsageError: the release has no values of actions, or the level is no probability.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill"], actions=["wait", "treat"], discount=1.0, returns=(0, 1),
    ...                  epsilon=1.0, delta=1e-6, unit="trajectory")
    >>> people = [[("ill", "wait", 0.0)], [("ill", "treat", 1.0)]] * 5000
    >>> better = pv.improve(pv.release(study, people))
    >>> better, better.probabilities("ill")
    (Improvement(moves 1 of 1 states), {'wait': 0.0, 'treat': 1.0})
    """
    release = release if isinstance(release, Release) else Release.load(release)
    if level is not None and not (isinstance(level, int | float) and 0 < level < 1):
        allowed = "it must be a probability above 0 and below 1, such as 0.95"
        raise UsageError(allowed, code="out-of-range", argument=("level", level))
    if release.column("action") is None:
        raise UsageError("this release has no values of actions; its study needs [actions]")
    ratios, (states, actions) = released_ratios(release), release.places_of_pairs()
    usual, few = release.level or 0.95, len(release.actions) <= MOST_ACTIONS
    step = greedy_step(
        ratios,
        states,
        unvisited=float(np.clip(described_values(release.study).unvisited_value, *ratios.bounds)),
        usual=usual,
        level=level,
        alike=trajectories_alike(release),
        repeats=np.minimum(np.bincount(states), release.terms["max_states_per_trajectory"]),
        effects=np.eye(len(release.actions))[actions] if few else None,
    )
    labels = {name: release.main.columns[name] for name in ("state", "action", "value")}
    columns = {name: column.tolist() for name, column in {**labels, **step.columns}.items()}
    changes = [StateChange(*of) for of in zip(release.states, step.reasons, strict=True)]
    for at in np.flatnonzero(step.chosen >= 0):
        named = {name: columns[name][step.chosen[at]] for name in StateChange._fields[2:]}
        unknown = {} if step.known[at] else {"behaviour": None}
        changes[at] = changes[at]._replace(**named | unknown)
    changes.sort(key=lambda change: (change.action is None, -(change.advantage or 0.0)))
    return Improvement(release=release, level=level, columns=columns, changes=changes)
