"""Map labels of states, actions and pairs of both to positions, and back.

Pairs are state-major: all actions of the first state, then those of the next; pairs that are not
allowed have no position.
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

    names: tuple[str, ...] | range  # a range if they have no labels: there may be very many

    noun: ClassVar[str] = "state"
    label_columns: ClassVar[int] = 1  # of a table by label

    @classmethod
    def of(cls, labels: int | Sequence[Any]) -> "StateNames":
        """Return the names for a number of states, or for labels in order."""
        names = range(labels) if isinstance(labels, int) else labels
        return cls(names=names if isinstance(names, range) else tuple(map(str, names)))

    @property
    def count(self) -> int:
        """Return the number of states."""
        return len(self.names)

    def label(self, position: int) -> str:
        """Return the label of the state at a position."""
        return str(self.names[position])

    def find(self, label: Label) -> int | None:
        """Return the position of the state with this label, or None.

        A label may be escaped as in values.csv: with an apostrophe if it looks like a formula.
        """
        (text,) = label
        if self.positions:
            return self.positions.get(text, self.positions.get(text.removeprefix("'")))
        number = int(text) if len(text) <= 10 and text.isascii() and text.isdigit() else -1
        return number if str(number) == text and number in self.names else None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Return label -> position; empty if states have no labels."""
        if isinstance(self.names, range):
            return {}
        return {label: at for at, label in enumerate(self.names)}


@dataclass(frozen=True, kw_only=True, eq=False)
class PairNames:
    """The pairs of a state and an action in order: all of them, or the allowed ones.

    The code of a pair is the state's position times the number of actions, plus the action's.
    """

    states: StateNames
    actions: StateNames
    allowed: Integers | None = None  # their codes, in order; None: all pairs

    noun: ClassVar[str] = "pair"
    label_columns: ClassVar[int] = 2

    @property
    def count(self) -> int:
        """Return the number of pairs."""
        return len(self.codes)

    @cached_property
    def codes(self) -> Integers:
        """Return the code of every pair."""
        size = self.states.count * self.actions.count
        return np.arange(size) if self.allowed is None else self.allowed

    @cached_property
    def state_of(self) -> Integers:
        """Return the position of every pair's state."""
        return self.codes // self.actions.count

    @cached_property
    def action_of(self) -> Integers:
        """Return the position of every pair's action."""
        return self.codes % self.actions.count

    def label(self, position: int) -> str:
        """Return the label of the pair at a position: its state's and its action's."""
        state, action = divmod(int(self.codes[position]), self.actions.count)
        return f"{self.states.label(state)}, {self.actions.label(action)}"

    def find(self, label: Label) -> int | None:
        """Return the position of a pair by the labels of its state and action, or None."""
        state, action = self.states.find(label[:1]), self.actions.find(label[1:])
        if state is None or action is None:
            return None
        code = state * self.actions.count + action
        position = int(np.searchsorted(self.codes, code))
        return position if position < self.count and self.codes[position] == code else None


KeyNames = StateNames | PairNames


def read_only(array: Vector) -> Vector:
    """Return the array, made read-only."""
    array.setflags(write=False)
    return array


def find_keys(key: str, labels: Iterable[Label], names: KeyNames) -> Integers:
    """Return the positions of labels; refuse one that is unknown or appears twice."""
    positions = list[int]()
    is_taken = np.zeros(names.count, dtype=bool)
    for label in labels:
        position = names.find(label) if len(label) == names.label_columns else None
        if position is None:
            raise refusal("label-unknown", key, ", ".join(label), names.noun)
        if is_taken[position]:
            raise refusal("label-twice", key, names.noun, names.label(position))
        is_taken[position] = True
        positions.append(position)
    return np.array(positions, dtype=np.int64)


def order_rows(
    key: str, labels: Sequence[Label], rows: Vector, names: KeyNames, *, fill: float | None = None
) -> Vector:
    """Return rows, or numbers, in the order of the states or pairs.

    Args:
        key: the key of the study, for errors.
        labels: of the rows.
        rows: in the order of the labels.
        names: the states, or the pairs.
        fill: the number for a state or pair without a row; None: each needs a row.
    """
    positions = find_keys(key, labels, names)
    if fill is None and len(positions) < names.count:
        missing = np.setdiff1d(np.arange(names.count), positions)
        first = names.label(int(missing[0]))
        raise refusal("label-missing", key, len(missing), names.count, names.noun, first)
    ordered = np.full((names.count, *rows.shape[1:]), 0.0 if fill is None else fill)
    ordered[positions] = rows
    return ordered


def aggregation(keys: int | PairNames, size: int) -> sp.csr_array:
    """Return the features Phi of state aggregation: ``size`` adjacent states share a value.

    Size 1 is tabular. The last group is smaller if ``size`` does not divide the number of states.
    With actions, the states of a group share one value for each action.

    Args:
        keys: the number of states, or the pairs of state and action.
        size: of a group.
    """
    if isinstance(keys, int):
        group = np.arange(keys) // size
    else:
        codes = keys.state_of // size * keys.actions.count + keys.action_of
        group = np.unique(codes, return_inverse=True)[1]
    entries = (np.ones(len(group)), group, np.arange(len(group) + 1))
    return sp.csr_array(entries, shape=(len(group), int(group.max()) + 1))


# Bins


def bin_labels(bins: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the labels of the states that bins define; the last column varies fastest.

    The edges e_1 < ... < e_k of a column make k + 1 bins, and an edge belongs to the bin above it:

        x < e_1        e_1 <= x < e_2        ...        x >= e_k

    A state is one bin of every column, in the order of the study file; its label is, for example,
    "50 <= age < 70, sofa < 5". A cell that is missing, NaN, infinite or not a number is in no bin.
    """
    names = [_column_labels(column, edges) for column, edges in bins.items()]
    return tuple(", ".join(parts) for parts in product(*names))


def _column_labels(column: str, edges: Sequence[float]) -> list[str]:
    """Return the labels of the bins of a column."""
    texts = [_format_edge(edge) for edge in edges]
    between = [f"{low} <= {column} < {high}" for low, high in pairwise(texts)]
    return [f"{column} < {texts[0]}", *between, f"{column} >= {texts[-1]}"]


def _format_edge(edge: float) -> str:
    """Return a number as text: 50, not 50.0; different numbers have different texts."""
    return repr(int(edge)) if edge.is_integer() and abs(edge) < 1e16 else repr(edge)
