"""Pass whole units to the core; report a row that contradicts an earlier row of its unit."""

from typing import Any

from privalue.core import Contributions
from privalue.errors import BoundaryError, DataError
from privalue.readers import cells
from privalue.readers.declaration import Declaration
from privalue.readers.messages import render
from privalue.readers.rows import Rows

_REASONS = {"order", "duplicate", "arm", "ended", "stateless"}  # any other is a bug of a reader


class ConflictError(DataError):
    """A row contradicts an earlier row of its unit."""


def add_to_core(rows: Rows, total: Contributions, declaration: Declaration, **span: Any) -> None:
    """Add whole units in order, with importance ratios if the study evaluates another policy."""
    columns: list[Any] = [rows.ids, rows.steps, rows.keys, rows.rewards]
    if declaration.ratios is not None:
        columns[2], ratios = declaration.ratios.apply(rows.keys, rows.probabilities)
        columns.append(ratios)
    try:
        total.add(*columns, **span)
    except BoundaryError as problem:
        if problem.reason not in _REASONS:
            raise
        raise conflict_error(problem.reason, rows, problem.row, declaration) from None


def conflict_error(reason: str, rows: Rows, at: int, declaration: Declaration) -> ConflictError:
    """Return the error for a row, named by its ids and step, since its place is unknown."""
    columns, study = declaration.columns, declaration.study
    ids = [
        f"{columns[role]} = {cells.id_of(key, study.data.id_type)!r}"
        for role, key in zip(declaration.id_roles, rows.ids[at], strict=True)
    ]
    step = cells.step_text(int(rows.steps[at]), study.data.step_type)
    row = ", ".join([*ids, f"{columns['step']} = {step}"])
    code = f"rows-{reason}"
    return ConflictError(render(code, row=row, unit=study.privacy.unit), code=code)
