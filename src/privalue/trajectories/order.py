"""Rows that come in order, cut into trajectories; where they do not, it is found out here.

In order means: grouped by person (where there is one) and trajectory, ids ascending, and steps
ascending within a trajectory. The unit whose rows must meet in one place is a trajectory, or a
whole person. A chunk may begin and end in the middle of one, so its first and its last unit are
its head and its tail, which are joined with those of its neighbours, in order (``Accumulator``);
what stands between is complete.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.kernels import kernel
from privalue.private import Private, sealed
from privalue.sections import Columns
from privalue.trajectories.encode import Integers, Row, Rows, widened


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


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Stretch(Private):
    """The ends of a chunk: its first unit, its last if there are two, and the outermost rows."""

    head: Fragment
    tail: Fragment | None
    first: Row
    last: Row


def in_order(
    rows: Rows, columns: Columns, *, by_person: bool, ids_ascend: bool
) -> tuple[Stretch, Fragment]:
    """The ends of a chunk, and what is complete between them.

    Raises:
        OutOfOrderError: at the first row that does not come after the one before it. Without
            ``ids_ascend`` trajectories are trusted to be grouped, in an order of their own.
    """
    starts, persons, bad = _starts(rows.keys, rows.steps, ids_ascend)
    if bad >= 0:
        raise _out_of_order(rows.row(bad - 1), rows.row(bad), columns)
    whole = Fragment(starts, rows.states, rows.rewards, persons if by_person else None)
    units = starts[persons] if by_person else starts
    first, last = rows.row(0), rows.row(len(rows) - 1)
    if len(units) == 1:
        return Stretch(whole.copy(), None, first, last), whole.part(0, 0)
    second, latest = int(units[1]), int(units[-1])
    head, tail = whole.part(0, second), whole.part(latest, len(rows))
    return Stretch(head.copy(), tail.copy(), first, last), whole.part(second, latest)


def joined(last: Row | None, stretch: Stretch, columns: Columns, *, ids_ascend: bool) -> Fragment:
    """The head of a stretch as it goes on from the ``last`` row before it."""
    head, first = stretch.head, stretch.first
    if last is None:
        return head
    last.origin.require_same_ids(first.origin)
    lanes = max(last.keys.shape[1], first.keys.shape[1])
    keys = np.stack([widened(row.keys, lanes) for row in (last, first)])
    steps = np.array([last.step, first.step])
    starts, persons, bad = _starts(keys, steps, ids_ascend)
    if bad >= 0:
        raise _out_of_order(last, first, columns)
    flags = head.persons
    if len(starts) == 1:  # the same trajectory
        flags = None if flags is None else flags[1:]
        return Fragment(head.starts[1:], head.states, head.rewards, flags)
    flags = None if flags is None else np.append(persons[1], flags[1:])
    return Fragment(head.starts, head.states, head.rewards, flags)


def _starts(
    keys: Integers, steps: Integers, ids_ascend: bool
) -> tuple[Integers, NDArray[np.bool_], int]:
    rows, ids, lanes = keys.shape
    starts, persons = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.bool_)
    flat = keys.reshape(rows, ids * lanes)
    for array in (flat, steps):  # compiled once
        array.setflags(write=False)
    count, bad = _cut(flat, (ids - 1) * lanes, steps, ids_ascend, starts, persons)
    return starts[:count].copy(), persons[:count].copy(), bad


@kernel(nogil=True)
def _cut(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    keys, person_lanes, steps, ids_ascend, starts, persons
):
    """Where trajectories begin, and persons; how many, and the first row out of order or -1."""
    starts[0], persons[0], count = 0, True, 1
    for row in range(1, len(keys)):
        lane = 0
        while lane < keys.shape[1] and keys[row, lane] == keys[row - 1, lane]:
            lane += 1
        if lane == keys.shape[1]:
            if steps[row] <= steps[row - 1]:
                return count, row
        elif ids_ascend and keys[row, lane] < keys[row - 1, lane]:
            return count, row
        else:
            starts[count], persons[count] = row, lane < person_lanes
            count += 1
    return count, -1


def _out_of_order(before: Row, after: Row, columns: Columns) -> OutOfOrderError:
    if before.ids == after.ids and before.step == after.step:
        return OutOfOrderError(stands_twice(before, after, columns))
    names = (columns.person, columns.trajectory)[-len(after.ids) :]

    def told(row: Row) -> str:
        parts = zip((*names, columns.step), (*row.ids, row.step), strict=True)
        return ", ".join(f"{name} = {value!r}" for name, value in parts)

    return OutOfOrderError(
        f"{after.where}: {told(after)} comes after {told(before)}; [data] sorted = true says that "
        "ids ascend, and steps within a trajectory: sort the rows, or remove sorted = true"
    )


def stands_twice(row: Row, again: Row, columns: Columns) -> str:
    """What to say of two rows with the same step of the same trajectory."""
    return (
        f"{again.where}: {columns.step} = {row.step} stands twice in {columns.trajectory} "
        f"{row.ids[-1]!r} (the other is {row.where})"
    )
