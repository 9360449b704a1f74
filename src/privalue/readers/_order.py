"""Split sorted rows into trajectories, and raise ``OutOfOrderError`` at the first that is not.

Sorted means: by person (where there is one) and trajectory, ids ascending, and steps ascending
within a trajectory. The unit whose rows must meet in one place is a trajectory, or a whole person.
A chunk may begin and end in the middle of one, so its first and its last unit are its head and its
tail, which are joined with those of its neighbours, in order (``Accumulator``); what stands between
is complete.

A step that stands twice in a trajectory makes the later row invalid. Where invalid rows are
refused that is an error; else the row is marked, and its unit left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from privalue.core._kernels import kernel
from privalue.core._private import Private, sealed
from privalue.errors import DataError
from privalue.readers._cells import Integers, widened
from privalue.readers._encode import Row, Rows
from privalue.readers._rules import RowRules


class OutOfOrderError(DataError):
    """A row stands where it may not, if rows are to come in order."""


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Fragment(Private):
    """Consecutive rows, in order; what stands before the first start goes on from before."""

    starts: Integers  # the rows with which trajectories begin
    states: NDArray[np.int32]
    rewards: NDArray[np.float64]
    persons: NDArray[np.bool_] | None = None  # of each start, whether a person begins as well

    def __post_init__(self) -> None:
        for array in (self.starts, self.states, self.rewards, self.persons):
            if array is not None:
                array.setflags(write=False)

    @property
    def units(self) -> Integers:
        """The rows with which units of privacy begin."""
        return self.starts if self.persons is None else self.starts[self.persons]

    def part(self, begin: int, end: int) -> "Fragment":
        """The rows from ``begin`` up to ``end``."""
        inside = slice(*np.searchsorted(self.starts, (begin, end)))
        return Fragment(
            self.starts[inside] - begin,
            self.states[begin:end],
            self.rewards[begin:end],
            None if self.persons is None else self.persons[inside],
        )

    def copy(self) -> "Fragment":
        """The same rows, which keep nothing else in memory."""
        persons = None if self.persons is None else self.persons.copy()
        return Fragment(self.starts.copy(), self.states.copy(), self.rewards.copy(), persons)

    @staticmethod
    def together(fragments: Sequence["Fragment"]) -> "Fragment":
        """Fragments that follow each other as one."""
        begins = accumulate((len(fragment.states) for fragment in fragments), initial=0)
        starts = [one.starts + begin for one, begin in zip(fragments, begins, strict=False)]
        flags = [one.persons for one in fragments if one.persons is not None]
        return Fragment(
            np.concatenate(starts),
            np.concatenate([one.states for one in fragments]),
            np.concatenate([one.rewards for one in fragments]),
            np.concatenate(flags) if flags else None,
        )


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Stretch(Private):
    """The ends of a chunk: its first unit, its last if there are two, and the outermost rows."""

    head: Fragment
    tail: Fragment | None
    first: Row
    last: Row


def in_order(rows: Rows, rules: RowRules) -> tuple[Stretch, Fragment]:
    """The ends of a chunk, and what is complete between them.

    Raises:
        OutOfOrderError: at the first row that does not come after the one before it.
    """
    starts, persons, bad, twice = _starts(rows.keys, rows.steps, rules)
    if bad >= 0:
        raise _out_of_order(rows.row(bad - 1), rows.row(bad), rules)
    states = rows.states
    if twice.any():
        states = np.where(twice, np.int32(rules.states), states)
    whole = Fragment(starts, states, rows.rewards, persons if rules.by_person else None)
    units = whole.units
    first, last = rows.row(0), rows.row(len(rows) - 1)
    if len(units) == 1:
        return Stretch(whole.copy(), None, first, last), whole.part(0, 0)
    second, latest = int(units[1]), int(units[-1])
    head, tail = whole.part(0, second), whole.part(latest, len(rows))
    return Stretch(head.copy(), tail.copy(), first, last), whole.part(second, latest)


def joined(last: Row | None, stretch: Stretch, rules: RowRules) -> Fragment:
    """The head of a stretch as it goes on from the ``last`` row before it."""
    head, first = stretch.head, stretch.first
    if last is None:
        return head
    words = max(last.keys.shape[1], first.keys.shape[1])
    keys = np.stack([widened(row.keys, words) for row in (last, first)])
    steps = np.array([last.step, first.step])
    starts, persons, bad, twice = _starts(keys, steps, rules)
    if bad >= 0:
        raise _out_of_order(last, first, rules)
    flags, states = head.persons, head.states
    if twice.any():
        states = states.copy()
        states[0] = rules.states
    if len(starts) == 1:  # the same trajectory
        flags = None if flags is None else flags[1:]
        return Fragment(head.starts[1:], states, head.rewards, flags)
    flags = None if flags is None else np.append(persons[1], flags[1:])
    return Fragment(head.starts, states, head.rewards, flags)


def _starts(
    keys: Integers, steps: Integers, rules: RowRules
) -> tuple[Integers, NDArray[np.bool_], int, NDArray[np.bool_]]:
    rows, ids, words = keys.shape
    starts, persons = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.bool_)
    twice = np.zeros(rows if rules.drop_invalid else 0, dtype=np.bool_)
    flat = keys.reshape(rows, ids * words)
    for array in (flat, steps):  # compiled once
        array.setflags(write=False)
    person_words = words if "person" in rules.columns else 0
    count, bad = _cut(flat, person_words, steps, starts, persons, twice)
    return starts[:count].copy(), persons[:count].copy(), bad, twice


@kernel(nogil=True)
def _cut(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    keys, person_words, steps, starts, persons, twice
):
    """Where trajectories begin, and persons; how many, and the first row out of order or -1.

    Equal steps are out of order unless there is room to mark them in ``twice``.
    """
    starts[0], persons[0], count = 0, True, 1
    for row in range(1, len(keys)):
        word = 0
        while word < keys.shape[1] and keys[row, word] == keys[row - 1, word]:
            word += 1
        if word == keys.shape[1]:
            if steps[row] <= steps[row - 1]:
                if steps[row] < steps[row - 1] or len(twice) == 0:
                    return count, row
                twice[row] = True
        elif keys[row, word] < keys[row - 1, word]:
            return count, row
        else:
            starts[count], persons[count] = row, word < person_words
            count += 1
    return count, -1


def _out_of_order(before: Row, after: Row, rules: RowRules) -> OutOfOrderError:
    if before.shown(rules) == after.shown(rules):
        return OutOfOrderError(stands_twice(before, after, rules))

    def told(row: Row) -> str:
        return ", ".join(f"{name} = {value}" for name, value in row.shown(rules).items())

    return OutOfOrderError(
        f"{after.where}: {told(after)} comes after {told(before)}; [data] sorted = true says that "
        "ids ascend, and steps within a trajectory: sort the rows, or remove sorted = true"
    )


def stands_twice(row: Row, again: Row, rules: RowRules) -> str:
    """What to say of two rows with the same step of the same trajectory."""
    *ids, (column, step) = row.shown(rules).items()
    name, value = ids[-1]
    return (
        f"{again.where}: {column} = {step} stands twice in {name} {value} (the other is "
        f"{row.where})"
    )
