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

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.core import Integers, Vector
from privalue.errors import Hint, UnknownLabelError, UsageError
from privalue.estimate.intervals import Located, difference_ends, total_intervals
from privalue.estimate.ratios import (
    Ratios,
    clear_limit,
    normal_quantile,
    plain_values,
    pool_pairs,
    ratio_intervals,
)
from privalue.estimate.refits import released_ratios
from privalue.estimate.shrinkage import shrink_pairs
from privalue.ledger.files import write_whole
from privalue.releases import NOT_PRIVATE, Release, Tabular
from privalue.study import described_values
from privalue.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

PEOPLE = 0.6  # of the variance that returns can have at most, for the choice of people
CAUTION = 0.5  # so many posterior standard deviations are taken off a value before they compete
WARNING = (
    "This policy is a hypothesis for a trial, not a recommendation. Values of actions are "
    "associations: people who got an action may differ from those who did not (confounding), in "
    "ways that the states do not record. Nothing is known about an action that people hardly ever "
    "took (overlap). A gain is for taking the action once, and then going on as people did."
)
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


class GreedyStep(NamedTuple):
    """What the rule does: a number for every key, and for every state (``known``, ``chosen``)."""

    policy: Vector  # probabilities of the new policy
    behaviour: Vector  # noisy shares of actions among the first visits of a state's pairs
    means: Vector  # posterior means of the values, drawn towards their state's
    deviations: Vector
    clear: NDArray[np.bool_]  # the noisy count is above what nobody's visits would give
    advantage: Vector
    low: Vector  # ends of the advantage's interval
    high: Vector
    known: NDArray[np.bool_]  # the state as a whole was clearly visited
    chosen: Integers  # the key that the state moves to; -1 where it keeps the behaviour


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
    """
    number = int(states[-1]) + 1
    whole = pool_pairs(ratios, states, number)
    z = normal_quantile(level, len(states) + number)
    q = _located(ratios, unvisited, z, alike)
    v = _located(whole, unvisited, z, alike * repeats)
    fewest = clear_limit(clear_level, len(states))
    clear, known = ratios.clarity > fewest, whole.clarity > fewest
    values = shrink_pairs(ratios, unvisited, states, actions=actions, people=PEOPLE)

    def by_state(numbers: Vector) -> Vector:
        return np.asarray(np.bincount(states, weights=numbers, minlength=number), np.float64)

    seen = np.maximum(ratios.counts, 0.0)
    visits = by_state(seen)
    even = 1.0 / np.bincount(states, minlength=number)[states]
    shares = seen / np.where(visits > 0, visits, 1.0)[states]
    behaviour = np.where((known & (visits > 0))[states], shares, even)
    # What the behaviour is worth is made of the same means, so that not all actions of a state can
    # be better than what was done there.
    advantage = values.means - by_state(behaviour * values.means)[states]
    # V holds Q's own people and noise, and what both have in common only brings them closer.
    of_state = Located(own=v.own[states], low=v.low[states], high=v.high[states])
    least, most = difference_ends(q, of_state, ratios.bounds)
    candidates = clear & (least > 0 if only_clear_gains else advantage > 0)
    lowered = np.where(candidates, values.means - CAUTION * values.deviations, -np.inf)
    # The key with the largest number in each state, the first of equal ones.
    order = np.lexsort((np.arange(len(states)), -lowered, states))
    first = order[np.searchsorted(states[order], np.arange(number))]
    chosen = np.where(np.isfinite(lowered[first]), first, -1)
    policy = np.where(chosen[states] >= 0, 0.0, behaviour)
    policy[chosen[chosen >= 0]] = 1.0
    return GreedyStep(
        policy=policy,
        behaviour=behaviour,
        means=values.means,
        deviations=values.deviations,
        clear=clear,
        advantage=advantage,
        low=np.minimum(least, advantage),
        high=np.maximum(most, advantage),
        known=known,
        chosen=chosen,
    )


def _located(ratios: Ratios, unvisited: float, z: float, alike: int | Vector) -> Located:
    """Return the ratios with their total intervals."""
    low, high = total_intervals(ratios, z, ratio_intervals(ratios, z), alike=alike)
    return Located(own=plain_values(ratios, unvisited), low=low, high=high)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Improvement(Tabular):
    """A policy that is one greedy step better than the data's, by what was released.

    ``probabilities(state)`` are those of the actions in a state; ``changes`` says what happens in
    each, the largest gain first. ``save("policy.csv")`` writes the policy as a study's
    ``[policy] target`` takes it, with policy.json and policy.html beside it.
    """

    release: Release
    level: float
    only_clear_gains: bool
    columns: dict[str, list[Any]]  # of every pair of a state and an action
    changes: list[StateChange]

    def __repr__(self) -> str:
        moved = sum(change.moved for change in self.changes)
        kind = "" if self.release.private else f", {NOT_PRIVATE}"
        return f"Improvement(moves {moved} of {len(self.changes)} states{kind})"

    def probabilities(self, state: str | int) -> dict[str, float]:
        """Return how likely each allowed action is in a state.

        Raises:
            UnknownLabelError: there is no such state.
        """
        label = str(state)
        found = {action: p for of, action, p in self._policy() if of == label}
        if not found:
            known = ", ".join(map(repr, self.release.states[:6]))
            raise UnknownLabelError(f"there is no state {label!r}; the states are {known}, ...")
        return found

    def _policy(self) -> Iterator[tuple[str, str, float]]:
        names = ("state", "action", "probability")
        return zip(*(self.columns[name] for name in names), strict=True)

    def to_arrow(self) -> "pa.Table":
        """Return a row for every pair of a state and an action, as an Arrow table."""
        import pyarrow as pa  # noqa: PLC0415 - heavy

        said = {"privalue": self.release.sentence(), "warning": WARNING}
        return pa.table(self.columns).replace_schema_metadata(said)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw what every action is worth more than what was done; what is unknown is hatched.

        Args:
            ax: Matplotlib axes to draw into; new ones, if left out.

        Raises:
            MissingComponentError: Matplotlib is not installed.
        """
        from privalue.report import plot_advantages  # noqa: PLC0415 - it imports this package

        advantage, clear = (np.array(self.columns[name]) for name in ("advantage", "clear"))
        return plot_advantages(self.release, advantage, clear, ax)

    @property
    def description(self) -> Any:
        """Return what page, terminal and notebook show of it."""
        from privalue.report import describe_policy  # noqa: PLC0415 - it imports this package

        moves = self.only_clear_gains
        return describe_policy(self.release, self.changes, level=self.level, only_clear_gains=moves)

    def _repr_html_(self) -> str:
        from privalue.report import notebook_html  # noqa: PLC0415 - it imports this package

        return notebook_html(self.description)

    def csv(self) -> str:
        """Return the policy as a table of state, action and probability, nothing escaped."""
        text = io.StringIO(newline="")
        # Python's own writer leaves a lone \r unquoted, so that every text is quoted.
        written = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        written.writerow(["state", "action", "probability"])
        written.writerows(self._policy())
        return text.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """Return what policy.json holds."""
        moves = "clear gains" if self.only_clear_gains else "best"
        return {
            "schema_version": 2,
            "kind": "policy",
            "private": self.release.private,
            "warning": WARNING,
            "release": self.release.sha256,
            "guarantee": self.release.sentence(),
            "rule": {"moves": moves, "level": self.level, "caution": CAUTION},
            "states": [asdict(change) for change in self.changes],
            "pairs": self.columns,
            "software": f"privalue {VERSION}",
        }

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
        from privalue.report import policy_page  # noqa: PLC0415 - it imports this package

        target = Path(path)
        if target.suffix.lower() != ".csv":
            raise UsageError(f"{target}: the policy is a table; give a name that ends in .csv")
        if not target.parent.is_dir():
            raise UsageError(f"{target.parent} is not a directory; create it first")
        told = json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        texts = {".csv": self.csv(), ".json": told, ".html": policy_page(self.description)}
        files = [target if end == ".csv" else target.with_suffix(end) for end in texts]
        for file in files:
            if file.exists() and not force:
                hint = Hint("give another name, or allow it with {}", force=True)
                raise UsageError(f"{file} exists", hint=hint)
        try:
            for file, text in zip(files, texts.values(), strict=True):
                write_whole(file, [text], mode=0o644, replace=force)
        except OSError as problem:
            raise UsageError(f"cannot write {problem.filename}: {problem.strerror}") from None
        return files


def improve(release: Release | str | Path, *, level: float | None = None) -> Improvement:
    """Return a policy that is one greedy step better, by released action values; spends nothing.

    In each state it takes the action with the largest value, among actions that were clearly taken;
    values are drawn towards the state's own, and towards what the action is worth in all states,
    less half their posterior standard deviation. Where no action looks better, the state keeps what
    it did: its actions have the noisy shares that they have among first visits, which are not how
    often each was taken where people come back to a state and choose again. With ``level`` a state
    moves only where the gain is clear.

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
        raise UsageError(
            f"level = {level!r} must be a probability above 0 and below 1, such as 0.95"
        )
    if release.column("action") is None or release.statistics is None:
        raise UsageError(
            "this release has no values of actions; give one of a study with [actions]"
        )
    ratios, privacy = released_ratios(release), release.study["privacy"]
    states, actions = release.places_of_pairs()
    most = privacy.get("max_states_per_trajectory") or len(states)
    at, clear = level or release.level or 0.95, level is not None
    step = greedy_step(
        ratios,
        states,
        unvisited=float(np.clip(described_values(release.study).unvisited_value, *ratios.bounds)),
        level=at,
        clear_level=release.level or 0.95,
        only_clear_gains=clear,
        alike=privacy.get("max_trajectories_per_person") or 1,
        repeats=np.minimum(np.bincount(states), float(most)),
        actions=actions,
    )
    labels = {name: release.main.columns[name].tolist() for name in ("state", "action")}
    numbers = {
        "probability": step.policy,
        "behaviour": step.behaviour,
        "value": release.value,
        "expected": step.means,
        "deviation": step.deviations,
        "advantage": step.advantage,
        "low": step.low,
        "high": step.high,
        "clear": step.clear,
    }
    columns = labels | {name: column.tolist() for name, column in numbers.items()}
    changes = [
        _change(step, state, at, columns, np.flatnonzero(states == at), clear)
        for at, state in enumerate(release.states)
    ]
    changes.sort(key=lambda each: (not each.moved, -(each.advantage or 0.0)))
    return Improvement(
        release=release, level=at, only_clear_gains=clear, columns=columns, changes=changes
    )


def _change(
    step: GreedyStep,
    state: str,
    at: int,
    columns: dict[str, list[Any]],
    keys: Integers,
    only_clear_gains: bool,
) -> StateChange:
    """Return what happens in the state at a position, which has these keys."""
    key = int(step.chosen[at])
    if key >= 0:
        named = ("action", "expected", "advantage", "low", "high")
        return StateChange(
            state=state,
            reason="clear gain" if only_clear_gains else "best",
            behaviour=columns["behaviour"][key] if step.known[at] else None,
            **{name: columns[name][key] for name in named},
        )
    none = "no clear gain" if only_clear_gains else "no gain"
    kept = "only one" if len(keys) == 1 else none if step.clear[keys].any() else "too few"
    return StateChange(state=state, reason=kept if step.known[at] else "nothing known")
