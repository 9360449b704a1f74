"""Hand whole units to the core, and name the two rows that it cannot both take.

After a sort rows have no places. Where two of them are in conflict, the source is read once more to
find out where they are, if it can be: that takes time only where there is a mistake.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Contributions, Integers
from privalue.errors import BoundaryError, DataError
from privalue.readers import cells
from privalue.readers.declaration import Declaration
from privalue.readers.rows import Rows

Wanted = Callable[[Rows], NDArray[np.bool_]]  # says which rows are wanted
Find = Callable[[Wanted], list[str]]  # returns where the first two of these are, if it can


class ConflictError(Exception):
    """Two rows that cannot both be right, by what the core says of them.

    ``reason`` is "order", "duplicate" or "arm"; ``rows`` holds both, and ``at`` is the later one.
    """

    def __init__(self, reason: str, rows: Rows, at: int) -> None:
        super().__init__(reason)
        self.reason, self.rows, self.at = reason, rows, at


def add_to_core(rows: Rows, total: Contributions, declaration: Declaration, **span: Any) -> None:
    """Add whole units in order, with the ratios of policies where another policy is valued."""
    columns: list[Any] = [rows.ids, rows.steps, rows.keys, rows.rewards]
    if declaration.ratios is not None:
        columns[2], ratios = declaration.ratios.apply(rows.keys, rows.probabilities)
        columns.append(ratios)
    try:
        total.add(*columns, **span)
    except BoundaryError as problem:
        if problem.reason not in {"order", "duplicate", "arm"}:
            raise
        raise ConflictError(problem.reason, rows, problem.row) from None


def explain(conflict: ConflictError, declaration: Declaration, find: Find) -> DataError:
    """Return the error for two rows in conflict."""
    rows, at = conflict.rows, conflict.at
    if conflict.reason == "arm":
        return _second_arm(rows, at, declaration, find)
    ids, step = rows.ids[at], int(rows.steps[at])
    shown = _shown(ids, step, declaration)
    places = find(lambda some: _has_ids(some, ids) & (some.steps == step))
    if conflict.reason == "order":
        before = _shown(rows.ids[at - 1], int(rows.steps[at - 1]), declaration)
        here, there = (", ".join(f"{n} = {v}" for n, v in one.items()) for one in (shown, before))
        return DataError(
            f"{_place(places)}{here} comes after {there}; [data] sorted = true says that ids "
            "ascend, and steps within a trajectory: sort the rows, or remove sorted = true"
        )
    *_, (name, trajectory), (column, value) = shown.items()
    problem = f"{column} = {value} appears twice in {name} {trajectory}"
    problem += f" (the other is {places[0]})" if len(places) > 1 else ""
    if declaration.id_roles[-1] == "person":
        problem += "; if a person has several trajectories, name their column: [data] trajectory"
    return DataError(f"{_place(places[1:])}{problem}")


def _second_arm(rows: Rows, at: int, declaration: Declaration, find: Find) -> DataError:
    """Return the error for a row whose arm is not that of its unit's first row."""
    unit = rows.ids[at, : len(declaration.unit_roles)]
    first = int(np.argmax(_has_ids(rows, unit)))
    arms = [int(rows.keys[row]) // declaration.states for row in (at, first)]
    here, there = (
        find(lambda some, arm=arm: _has_ids(some, unit) & (some.keys // declaration.states == arm))  # type: ignore[misc]
        for arm in arms
    )
    column, kind = declaration.columns[declaration.unit_roles[-1]], declaration.unit
    shown = repr(cells.id_of(unit[-1], declaration.id_type))
    other = f"in {there[0]}" if there else "elsewhere"
    return DataError(
        f"{_place(here)}{declaration.columns['arm']} = {declaration.arms[arms[0]]!r} in {column} "
        f"{shown}, which has {declaration.arms[arms[1]]!r} {other}; an arm is the same in all rows "
        f'of a {kind}, or [data] invalid = "drop-unit" leaves such a {kind} out'
    )


def _shown(ids: Integers, step: int, declaration: Declaration) -> dict[str, str]:
    """Return the ids and the step of a row as a message quotes them, by column."""
    columns, shown = declaration.columns, {}
    for role, key in zip(declaration.id_roles, ids, strict=True):
        shown[columns[role]] = repr(cells.id_of(key, declaration.id_type))
    return {**shown, columns["step"]: cells.step_text(step, declaration.step_type)}


def _has_ids(rows: Rows, ids: Integers) -> NDArray[np.bool_]:
    """Return which rows have these ids, or these first ids."""
    size = max(rows.ids.shape[2], ids.shape[-1])
    some = cells.pad(rows.ids[:, : len(ids)], size)
    return np.asarray((some == cells.pad(ids, size)).all(axis=(1, 2)))


def _place(places: list[str]) -> str:
    return f"{places[0]}: " if places else ""
