"""Make a better policy from released action values: one greedy step, free of charge.

What is made here is a hypothesis for a trial. It rests on what was released, and on three things
that no release can check: that values differ because of the actions and not because of who got
them, that nothing hidden decided both, and that people did take the actions that are compared.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privalue.errors import Hint, UnknownLabelError, UsageError
from privalue.estimate import CAUTION, GreedyStep, StateChange, greedy_step_of
from privalue.ledger.files import write_whole
from privalue.releases import NOT_PRIVATE, Release, Tabular
from privalue.report import (
    Description,
    describe_policy,
    notebook_html,
    plot_advantages,
    policy_page,
)
from privalue.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

WARNING = (
    "This policy is a hypothesis for a trial, not a recommendation. Values of actions are "
    "associations: people who got an action may differ from those who did not (confounding), in "
    "ways that the states do not record. Nothing is known about an action that people hardly ever "
    "took (overlap). A gain is for taking the action once, and then going on as people did."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Improvement(Tabular):
    """A policy that is one greedy step better than the data's, by what was released.

    ``probabilities(state)`` are those of the actions in a state; ``changes`` says what happens in
    each, the largest gain first. ``save("policy.csv")`` writes the policy as a study's
    ``[policy] target`` takes it, with policy.json and policy.html beside it.
    """

    states: tuple[str, ...]
    state_of: NDArray[np.int64]  # of each pair
    action: tuple[str, ...]  # of each pair
    value: NDArray[np.float64]  # Q of each pair, as released
    step: GreedyStep
    level: float
    only_clear_gains: bool
    release: Release

    def __repr__(self) -> str:
        moved = int((self.step.chosen >= 0).sum())
        kind = "" if self.release.private else f", {NOT_PRIVATE}"
        return f"Improvement(moves {moved} of {len(self.states)} states{kind})"

    @cached_property
    def _pairs(self) -> list[NDArray[np.int64]]:
        """Return the positions of every state's pairs, which are adjacent."""
        ends = np.searchsorted(self.state_of, np.arange(len(self.states) + 1))
        return [np.arange(first, last) for first, last in pairwise(ends.tolist())]

    @property
    def changes(self) -> list[StateChange]:
        """Return what happens in every state: those that move first, the largest gain first."""
        found = [self._change(at) for at in range(len(self.states))]
        return sorted(found, key=lambda each: (not each.moved, -(each.advantage or 0.0)))

    def _change(self, at: int) -> StateChange:
        """Return what happens in the state at a position."""
        key = int(self.step.chosen[at])
        if key < 0:
            inside = self._pairs[at]
            clear = bool(self.step.clear[inside].any())
            none = "no clear gain" if self.only_clear_gains else "no gain"
            kept = "only one" if len(inside) == 1 else none if clear else "too few"
            return StateChange(
                state=self.states[at], reason=kept if self.step.known[at] else "nothing known"
            )
        return StateChange(
            state=self.states[at],
            reason="clear gain" if self.only_clear_gains else "best",
            action=self.action[key],
            behaviour=float(self.step.behaviour[key]) if self.step.known[at] else None,
            expected=float(self.step.means[key]),
            advantage=float(self.step.advantage[key]),
            low=float(self.step.low[key]),
            high=float(self.step.high[key]),
        )

    def probabilities(self, state: str | int) -> dict[str, float]:
        """Return how likely each allowed action is in a state.

        Raises:
            UnknownLabelError: there is no such state.
        """
        label = str(state)
        if label not in self.states:
            known = ", ".join(map(repr, self.states[:6]))
            raise UnknownLabelError(f"there is no state {label!r}; the states are {known}, ...")
        inside = self._pairs[self.states.index(label)]
        return {self.action[key]: float(self.step.policy[key]) for key in inside}

    def to_arrow(self) -> "pa.Table":
        """Return a row for every pair of a state and an action, as an Arrow table."""
        import pyarrow as pa  # noqa: PLC0415 - heavy

        step = self.step
        return pa.table(
            {
                "state": [self.states[at] for at in self.state_of],
                "action": list(self.action),
                "probability": step.policy,
                "behaviour": step.behaviour,
                "value": self.value,
                "expected": step.means,
                "advantage": step.advantage,
                "low": step.low,
                "high": step.high,
                "clear": step.clear,
            }
        ).replace_schema_metadata({"privalue": self.release.sentence(), "warning": WARNING})

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw what every action is worth more than what was done; what is unknown is hatched.

        Args:
            ax: Matplotlib axes to draw into; new ones, if left out.

        Returns:
            The axes.

        Raises:
            MissingComponentError: Matplotlib is not installed.
        """
        return plot_advantages(self.release, self.step.advantage, self.step.clear, ax)

    @property
    def description(self) -> Description:
        """Return what changes, for pages, notebooks and the terminal."""
        return describe_policy(
            self.release,
            self.changes,
            level=self.level,
            only_clear_gains=self.only_clear_gains,
        )

    def _repr_html_(self) -> str:
        return notebook_html(self.description)

    def csv(self) -> str:
        """Return the policy as a table of state, action and probability, nothing escaped."""
        pairs = zip(self.state_of.tolist(), self.action, self.step.policy.tolist(), strict=True)
        rows = (f"{_cell(self.states[at])},{_cell(action)},{p!r}\n" for at, action, p in pairs)
        return "".join(["state,action,probability\n", *rows])

    def as_dict(self) -> dict[str, Any]:
        """Return what policy.json holds."""
        step = self.step
        return {
            "schema_version": 1,
            "kind": "policy",
            "private": self.release.private,
            "warning": WARNING,
            "release": self.release.sha256,
            "guarantee": self.release.sentence(),
            "rule": {
                "moves": "clear gains" if self.only_clear_gains else "best",
                "level": self.level,
                "caution": CAUTION,
            },
            "states": [
                {
                    **_without_none(vars(self._change(at))),
                    "actions": [
                        {
                            "action": self.action[key],
                            "probability": float(step.policy[key]),
                            "behaviour": float(step.behaviour[key]),
                            "value": float(self.value[key]),
                            "expected": float(step.means[key]),
                            "deviation": float(step.deviations[key]),
                            "advantage": float(step.advantage[key]),
                            "low": float(step.low[key]),
                            "high": float(step.high[key]),
                            "clear": bool(step.clear[key]),
                        }
                        for key in self._pairs[at]
                    ],
                }
                for at in range(len(self.states))
            ],
            "software": {"name": "privalue", "version": VERSION},
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
        target = Path(path)
        if target.suffix.lower() != ".csv":
            raise UsageError(f"{target}: the policy is a table; give a name that ends in .csv")
        if not target.parent.is_dir():
            raise UsageError(f"{target.parent} is not a directory; create it first")
        files = [target, target.with_suffix(".json"), target.with_suffix(".html")]
        for file in files:
            if file.exists() and not force:
                hint = Hint("give another name, or allow it with {}", force=True)
                raise UsageError(f"{file} exists", code="exists", hint=hint)
        page = policy_page(self.description)
        told = json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            for file, text in zip(files, (self.csv(), told, page), strict=True):
                write_whole(file, [text], mode=0o644, replace=force)
        except OSError as problem:
            raise UsageError(f"cannot write {problem.filename}: {problem.strerror}") from None
        return files


def _cell(text: str) -> str:
    """Return a label as a cell of a CSV file; Python's own writer leaves a lone \\r unquoted."""
    if not any(character in text for character in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


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
    at = level or release.level or 0.95
    states, state_of, step = greedy_step_of(release, level=at, only_clear_gains=level is not None)
    action: Sequence[str] = [str(label) for label in _required(release, "action")]
    return Improvement(
        states=states,
        state_of=state_of,
        action=tuple(action),
        value=release.value,
        step=step,
        level=at,
        only_clear_gains=level is not None,
        release=release,
    )


def _required(release: Release, name: str) -> NDArray[Any]:
    found = release.column(name)
    assert found is not None
    return found
