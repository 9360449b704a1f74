"""Name the states, the actions, and the pairs of a state and an action, in order.

Pairs are state-major: all actions of the first state, then those of the next; pairs that are not
allowed have no number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from privalue.core import Integers, Vector
from privalue.study.messages import refusal

Label = tuple[str, ...]  # of a state, or of a state and an action


@dataclass(frozen=True, kw_only=True)
class StateNames:
    """The states (or actions) in order: their labels, or numbers."""

    names: tuple[str, ...] | range  # a range where they are only counted: there may be very many

    what: ClassVar[str] = "state"
    columns: ClassVar[int] = 1  # that name one, in a table

    @classmethod
    def of(cls, labels: int | Sequence[Any]) -> "StateNames":
        """Return names by how many there are, or by their labels in order."""
        names = range(labels) if isinstance(labels, int) else labels
        return cls(names=names if isinstance(names, range) else tuple(map(str, names)))

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.names)

    def label(self, at: int) -> str:
        """Return the label of the state at a position."""
        return str(self.names[at])

    def find(self, label: Label) -> int | None:
        """Return the position of the state with this label, or None.

        A label may be as values.csv has it, with an apostrophe where it looks like a formula.
        """
        (text,) = label
        if self.positions:
            return self.positions.get(text, self.positions.get(text.removeprefix("'")))
        at = int(text) if len(text) <= 10 and text.isascii() and text.isdigit() else -1
        return at if str(at) == text and at in self.names else None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Return label -> position; empty if states are only counted."""
        if isinstance(self.names, range):
            return {}
        return {label: at for at, label in enumerate(self.names)}


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

    @property
    def count(self) -> int:
        """Return how many keys there are."""
        return len(self.codes)

    @cached_property
    def codes(self) -> Integers:
        """Return the code of every key."""
        every = self.states.count * self.actions.count
        return np.arange(every) if self.allowed is None else self.allowed

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

    def find(self, label: Label) -> int | None:
        """Return the position of a pair by the labels of its state and action, or None."""
        state, action = label
        at, which = self.states.find((state,)), self.actions.find((action,))
        if at is None or which is None:
            return None
        code = at * self.actions.count + which
        place = int(np.searchsorted(self.codes, code))
        return place if place < self.count and self.codes[place] == code else None


KeyNames = StateNames | PairNames


def find_keys(key: str, labels: Iterable[Label], names: KeyNames) -> Integers:
    """Return the positions of labels; refuse one that is unknown or named twice."""
    positions = list[int]()
    seen = np.zeros(names.count, dtype=bool)
    for label in labels:
        at = names.find(label)
        if at is None:
            raise refusal("label-unknown", key, ", ".join(label), names.what)
        if seen[at]:
            raise refusal("label-twice", key, names.what, names.label(at))
        seen[at] = True
        positions.append(at)
    return np.array(positions, dtype=np.int64)


def place_rows(
    key: str, labels: Sequence[Label], rows: Vector, names: KeyNames, *, absent: float | None = None
) -> Vector:
    """Return rows, or numbers, in the order of their keys.

    Args:
        key: the key of the study, for errors.
        labels: of the rows.
        rows: in the order of the labels.
        names: the states, or the pairs.
        absent: what a key gets that has no row; None: every key needs one.
    """
    positions = find_keys(key, labels, names)
    if absent is None and len(positions) < names.count:
        without = np.setdiff1d(np.arange(names.count), positions)
        first = names.label(int(without[0]))
        raise refusal("label-missing", key, len(without), names.count, names.what, first)
    placed = np.full((names.count, *rows.shape[1:]), 0.0 if absent is None else absent)
    placed[positions] = rows
    return placed


def aggregation(keys: int | PairNames, size: int) -> sp.csr_array:
    """Return the Phi that ties the values of ``size`` adjacent states; 1 is the tabular one.

    The last group is smaller if ``size`` does not divide the number of states. With actions, the
    states share the value of each action by itself. Groups are in the order of their states.

    Args:
        keys: how many states there are, or their pairs with actions.
        size: of a group.
    """
    if isinstance(keys, int):
        group = np.arange(keys) // size
    else:
        both = keys.state_of // size * keys.actions.count + keys.action_of
        group = np.unique(both, return_inverse=True)[1]
    entries = (np.ones(len(group)), group, np.arange(len(group) + 1))
    return sp.csr_array(entries, shape=(len(group), int(group.max()) + 1))


# Bins


def bin_labels(bins: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the labels of states that are made of numbers, the last column's bins the fastest.

    The edges e_1 < ... < e_k of a column make k + 1 bins, and an edge belongs to the bin above it:

        x < e_1        e_1 <= x < e_2        ...        x >= e_k

    A state is one bin of every column, in the order in which columns are written, and is called as
    people write it: "50 <= age < 70, sofa < 5". A cell that is missing, NaN, infinite or no number
    is in no bin.
    """
    names = [_column_labels(column, edges) for column, edges in bins.items()]
    return tuple(", ".join(parts) for parts in product(*names))


def _column_labels(column: str, edges: Sequence[float]) -> list[str]:
    """Return what the bins of a column are called."""
    written = [_format_edge(edge) for edge in edges]
    between = [f"{low} <= {column} < {high}" for low, high in pairwise(written)]
    return [f"{column} < {written[0]}", *between, f"{column} >= {written[-1]}"]


def _format_edge(edge: float) -> str:
    """Return a number as people write it: 50, and not 50.0; no two numbers are the same."""
    return repr(int(edge)) if edge.is_integer() and abs(edge) < 1e16 else repr(edge)
