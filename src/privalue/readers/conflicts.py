"""Pass whole units to the core, and locate two rows that contradict each other.

Sorted rows no longer know their place in the source. If two of them are in conflict, the source is
read once more to locate them, if possible: that takes time only if the data have a mistake.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Contributions, Integers
from privalue.errors import BoundaryError, DataError
from privalue.readers import cells
from privalue.readers.declaration import Declaration
from privalue.readers.messages import data_error
from privalue.readers.rows import Encoder, Rows
from privalue.readers.source import Batch

Wanted = Callable[[Rows], NDArray[np.bool_]]  # returns which rows to locate
Find = Callable[[Wanted], list[str]]  # returns the places of the first two, if possible


class ConflictError(Exception):
    """Two rows that cannot both be right.

    ``reason`` is the core's: "order", "duplicate", "arm", "ended" or "stateless"; ``pair`` has the
    earlier row and the later one.
    """

    def __init__(self, reason: str, pair: Rows) -> None:
        super().__init__(reason)
        self.reason, self.pair = reason, pair


def add_to_core(rows: Rows, total: Contributions, declaration: Declaration, **span: Any) -> None:
    """Add whole units in order, with importance ratios if the study values another policy."""
    columns: list[Any] = [rows.ids, rows.steps, rows.keys, rows.rewards]
    if declaration.ratios is not None:
        columns[2], ratios = declaration.ratios.apply(rows.keys, rows.probabilities)
        columns.append(ratios)
    try:
        total.add(*columns, **span)
    except BoundaryError as problem:
        if problem.reason not in {"order", "duplicate", "arm", "ended", "stateless"}:
            raise
        earlier = max(problem.row - 1, 0)
        if problem.reason == "arm":
            unit = rows.ids[problem.row, : len(declaration.unit_roles)]
            # An end has no arm.
            earlier = int(np.argmax(_has_ids(rows, unit) & (rows.keys < declaration.keys)))
        raise ConflictError(problem.reason, rows.part([earlier, problem.row])) from None


def name_rows(batch: Batch, encoder: Encoder, wanted: Wanted) -> Iterator[str]:
    """Yield the places of the wanted rows of a batch."""
    rows = encoder(batch)
    for at in np.flatnonzero(wanted(rows)).tolist():
        yield batch.where(at if rows.positions is None else int(rows.positions[at]))


def explain(conflict: ConflictError, declaration: Declaration, find: Find) -> DataError:
    """Return the error for two rows in conflict."""
    pair, study = conflict.pair, declaration.study
    ids, step = pair.ids[1], int(pair.steps[1])
    *before, last = find(lambda some: _has_ids(some, ids) & (some.steps == step)) or [""]
    arms = []
    if conflict.reason == "arm":
        labels = [study.arms.names[key // study.state_count] for key in pair.keys.tolist()]
        arms = [f"{declaration.columns['arm']} {label!r}" for label in labels]
    return data_error(
        f"rows-{conflict.reason}",
        place=f"{last}: " if last else "",
        earlier=_shown(pair, 0, declaration),
        later=_shown(pair, 1, declaration),
        other=f" (the other is {before[0]})" if before else "",
        arms=arms,
        unit=study.privacy.unit,
    )


def _shown(rows: Rows, at: int, declaration: Declaration) -> str:
    """Return the ids and the step of a row for a message."""
    columns, data = declaration.columns, declaration.study.data
    shown = [
        f"{columns[role]} = {cells.id_of(key, data.id_type)!r}"
        for role, key in zip(declaration.id_roles, rows.ids[at], strict=True)
    ]
    step = cells.step_text(int(rows.steps[at]), data.step_type)
    return ", ".join([*shown, f"{columns['step']} = {step}"])


def _has_ids(rows: Rows, ids: Integers) -> NDArray[np.bool_]:
    """Return which rows have these ids, or these first ids."""
    size = max(rows.ids.shape[2], ids.shape[-1])
    some = cells.pad(rows.ids[:, : len(ids)], size)
    return np.asarray((some == cells.pad(ids, size)).all(axis=(1, 2)))
