"""Bring rows that come in order to the core, whatever batches they come in.

In order means: by person (if there is one) and trajectory, ids ascending, and steps ascending
within a trajectory.

**Carry-over.** The core takes whole units only, but a batch may begin and end in the middle of a
unit. All units between the first and the last one of a batch are complete, and are handed over at
once. The first and the last unit may have more rows in the neighbouring batches: they are carried
over, and ``CarryOver`` joins them with the rows of the neighbours until the next unit begins. So
only two units of a batch are ever kept, however long the source is.

``_require_order`` compares the rows on both sides of every place where a batch is split or joined;
the core checks the order of everything else.
"""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from privalue.core import Integers
from privalue.errors import BoundaryError
from privalue.readers import _cells as cells
from privalue.readers._chunks import Location, RowError
from privalue.readers._encode import Rows
from privalue.readers._rules import RowRules


class OutOfOrderError(RowError):
    """Raised for a row that does not come after the row before it."""


def take_apart(
    rows: Rows, rules: RowRules, carry: Callable[[Rows], None], complete: Callable[[Rows], None]
) -> None:
    """Split a batch that is not empty into its first unit, its last unit, and what is between.

    Args:
        rows: the batch.
        rules: how it was read.
        carry: gets the first and the last unit, or the whole batch if these are one unit.
        complete: gets what is between.

    Raises:
        OutOfOrderError: a row where the batch is split does not come after the one before it.
    """
    size, first, last = len(rows), _unit(rows, 0, rules), _unit(rows, -1, rules)
    if first == last:
        carry(rows)
        return
    second = bisect_left(range(size), True, key=lambda at: _unit(rows, at, rules) != first)
    latest = bisect_left(range(size), True, key=lambda at: _unit(rows, at, rules) == last)
    carry(Rows.together([rows.part(0, second)]))  # a copy, which keeps nothing else in memory
    _require_order(rows, second, rules)
    complete(rows.part(second, latest))
    _require_order(rows, latest, rules)
    carry(Rows.together([rows.part(latest, size)]))


def _require_order(rows: Rows, at: int, rules: RowRules) -> None:
    """Raise OutOfOrderError if a row does not come after the one before it."""
    pair = slice(at - 1, at + 1)
    earlier, later = np.column_stack([rows.ids[pair].reshape(2, -1), rows.steps[pair]]).tolist()
    if later < earlier or (later == earlier and not rules.drop_invalid):
        raise _out_of_order(rows, at, rules)


def hand_over(rows: Rows, add: Callable[..., None], rules: RowRules) -> None:
    """Add whole units, in order.

    Args:
        rows: the units.
        add: the core's ``Contributions.add``, which checks the order.
        rules: how they were read.

    Raises:
        OutOfOrderError: at the first row that does not come after the one before it.
    """
    try:
        add(*rows.columns)
    except BoundaryError as problem:
        if problem.reason not in {"order", "duplicate", "arm"}:
            raise
        if problem.reason == "arm":
            raise _second_arm(rows, problem.row, rules) from None
        raise _out_of_order(rows, problem.row, rules) from None


def hand_over_sorted(rows: Rows, add: Callable[..., None], rules: RowRules) -> None:
    """Add all units of a source at once, in order, whatever order their rows are in.

    Args:
        rows: all rows of the source.
        add: the core's ``Contributions.add``.
        rules: how they were read.

    Raises:
        OutOfOrderError: a step appears twice in a trajectory.
    """
    words = rows.ids.reshape(len(rows), -1)
    order = np.lexsort((rows.steps, *words.T[::-1]))
    try:
        add(*(column[order] for column in rows.columns))
    except BoundaryError as problem:
        if problem.reason != "duplicate":
            raise
        other, at = sorted(int(order[place]) for place in (problem.row - 1, problem.row))
        where, step = rows.origins.where(other), int(rows.steps[at])
        raise duplicate(*rows.origins.find(at), where, rows.ids[at], step, rules) from None


class CarryOver:
    """Joins the units at the ends of batches, which must come in the order of the source."""

    def __init__(self, rules: RowRules, complete: Callable[[Rows], None]) -> None:
        self._rules = rules
        self._complete = complete  # gets every unit that is complete
        self._open: list[Rows] = []  # rows of the unit that may go on in the next batch

    def add(self, rows: Rows) -> None:
        """Add the next rows of the source.

        They either continue the open unit, or complete it and begin another one.

        Raises:
            OutOfOrderError: they do not come after the rows before them.
        """
        if self._open:
            before = self._open[-1].part(len(self._open[-1]) - 1, len(self._open[-1]))
            pair = Rows.together([before, rows.part(0, 1)])
            _require_order(pair, 1, self._rules)
            if _unit(pair, 0, self._rules) != _unit(pair, 1, self._rules):
                self.finish()
        self._open.append(rows)

    def finish(self) -> None:
        """Hand over the last unit: the source has ended."""
        for rows in self.rest():
            self._complete(rows)

    def rest(self) -> list[Rows]:
        """Return the last unit, if there is any, and forget it."""
        rows, self._open = self._open, []
        return [Rows.together(rows)] if rows else []


def duplicate(
    location: Location, at: int, other: str, ids: Integers, step: int, rules: RowRules
) -> RowError:
    """Return what to raise for a row whose step appears in its trajectory already.

    Args:
        location: of the later row.
        at: its position there.
        other: where the earlier row is, as a message says it.
        ids: the words of its ids.
        step: the step.
        rules: how rows were read.

    Returns:
        The error, which names both rows.
    """
    *shown, (column, value) = _shown(ids, step, rules).items()
    name, trajectory = shown[-1]
    problem = f"{column} = {value} appears twice in {name} {trajectory} (the other is {other})"
    if rules.id_roles[-1] == "person":
        problem += "; if a person has several trajectories, name their column: [data] trajectory"
    return OutOfOrderError(location, at, problem)


def second_arm(
    location: Location, at: int, other: str, ids: Integers, keys: tuple[int, int], rules: RowRules
) -> RowError:
    """Return what to raise for a row whose arm is not that of the unit's other rows.

    Args:
        location: of the later row.
        at: its position there.
        other: where the earlier row is, as a message says it.
        ids: the words of its ids.
        keys: of both rows, the later one's first.
        rules: how rows were read.

    Returns:
        The error, which names both rows. It ends a reading in order, too: what is not in order is
        read again, and the first error in the source is the one that is reported.
    """
    here, there = (repr(rules.arms[key // rules.states]) for key in keys)
    unit = rules.columns[rules.unit_roles[-1]]
    name = repr(cells.id_of(ids[len(rules.unit_roles) - 1], rules.id_type))
    return OutOfOrderError(
        location,
        at,
        f"{rules.columns['arm']} = {here} in {unit} {name}, which has {there} in {other}; an arm "
        f'is the same in all rows of a {rules.unit}, or [data] invalid = "drop-unit" leaves such a '
        f"{rules.unit} out",
    )


def _second_arm(rows: Rows, at: int, rules: RowRules) -> RowError:
    """Return what to raise for a row whose arm differs from that of its unit's first row."""
    unit = _unit(rows, at, rules)
    first = bisect_left(range(at), True, key=lambda before: _unit(rows, before, rules) == unit)
    keys = int(rows.states[at]), int(rows.states[first])
    return second_arm(*rows.origins.find(at), rows.origins.where(first), rows.ids[at], keys, rules)


def _out_of_order(rows: Rows, at: int, rules: RowRules) -> RowError:
    """Return what to raise for a row that does not come after the one before it."""
    location, place = rows.origins.find(at)
    before, after = (_shown(rows.ids[i], int(rows.steps[i]), rules) for i in (at - 1, at))
    if before == after:
        other = rows.origins.where(at - 1)
        return duplicate(location, place, other, rows.ids[at], int(rows.steps[at]), rules)
    earlier, later = (
        ", ".join(f"{name} = {value}" for name, value in shown.items()) for shown in (before, after)
    )
    return OutOfOrderError(
        location,
        place,
        f"{later} comes after {earlier}; [data] sorted = true says that ids ascend, and steps "
        "within a trajectory: sort the rows, or remove sorted = true",
    )


def _shown(ids: Integers, step: int, rules: RowRules) -> dict[str, str]:
    """Return the ids and the step of a row as a message quotes them, by column."""
    by_role = zip(rules.id_roles, ids, strict=True)
    shown = {rules.columns[role]: repr(cells.id_of(id_, rules.id_type)) for role, id_ in by_role}
    return {**shown, rules.columns["step"]: cells.step_text(step, rules.step_type)}


def _unit(rows: Rows, at: int, rules: RowRules) -> bytes:
    """Return a key that is equal for two rows of a batch exactly if they belong to one unit."""
    return rows.ids[at, : len(rules.unit_roles)].tobytes()
