"""Name the keys that values are of: states, or pairs of a state and an action.

Pairs are state-major: all actions of the first state, then those of the next. Where a study says
which pairs are allowed, the others are no keys, and have no number.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from privalue.core import Integers
from privalue.study._spreadsheets import of_cell

BETWEEN = "\0"  # the labels of a pair, in a table by label


@dataclass(frozen=True, kw_only=True)
class StateNames:
    """The states (or actions) in order: their labels, or only how many there are."""

    count: int
    labels: tuple[str, ...] | None = None

    what: ClassVar[str] = "state"
    columns: ClassVar[int] = 1  # that name one, in a table

    def label(self, at: int) -> str:
        """Return the label of the state at a position."""
        return str(at) if self.labels is None else self.labels[at]

    def position(self, label: str) -> int | None:
        """Return the position of the state with this label, or None.

        A label may be as values.csv has it, with an apostrophe where it looks like a formula.
        """
        if self.labels is not None:
            at = self.positions.get(label)
            return self.positions.get(of_cell(label)) if at is None else at
        if not (len(label) <= 10 and label.isascii() and label.isdigit()):
            return None
        at = int(label)
        return at if str(at) == label and at < self.count else None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Return label -> position; empty if states are only counted."""
        return {label: at for at, label in enumerate(self.labels or ())}

    @property
    def names(self) -> tuple[str, ...] | range:
        """Return the labels, or a range of numbers in their place: there may be very many."""
        return range(self.count) if self.labels is None else self.labels


@dataclass(frozen=True, kw_only=True, eq=False)
class PairNames:
    """The pairs of a state and an action in order: all of them, or those that are allowed.

    The code of a pair is the state's position times the number of actions, plus the action's.
    """

    states: StateNames
    actions: StateNames
    allowed: Integers | None = None  # the codes of these pairs, in order; None: all are

    what: ClassVar[str] = "pair"
    columns: ClassVar[int] = 2
    labels: ClassVar[None] = None  # no index that pandas made can be meant for pairs

    @property
    def count(self) -> int:
        """Return how many keys there are."""
        if self.allowed is not None:
            return len(self.allowed)
        return self.states.count * self.actions.count

    @cached_property
    def codes(self) -> Integers:
        """Return the code of every key."""
        return np.arange(self.count) if self.allowed is None else self.allowed

    @cached_property
    def state_of(self) -> Integers:
        """Return the position of every key's state."""
        return self.codes // self.actions.count

    @cached_property
    def action_of(self) -> Integers:
        """Return the position of every key's action."""
        return self.codes % self.actions.count

    def label(self, at: int) -> str:
        """Return what the key at a position is called."""
        state, action = divmod(int(self.codes[at]), self.actions.count)
        return f"{self.states.label(state)}, {self.actions.label(action)}"

    def position(self, label: str) -> int | None:
        """Return the position of a pair, whose labels are joined, or None."""
        state, _, action = label.partition(BETWEEN)
        at, which = self.states.position(state), self.actions.position(action)
        if at is None or which is None:
            return None
        code = at * self.actions.count + which
        if self.allowed is None:
            return code
        place = int(np.searchsorted(self.allowed, code))
        return place if place < len(self.allowed) and self.allowed[place] == code else None


KeyNames = StateNames | PairNames


def said(label: str) -> str:
    """Return the label of a state or of a pair as messages have it."""
    return label.replace(BETWEEN, ", ")
