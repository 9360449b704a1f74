"""Fetch rows from the cursor of a database driver, whose cells are Python objects."""

from typing import Any

import pyarrow as pa

from privalue.readers._python_cells import BATCH_ROWS, as_arrow
from privalue.readers._rules import RowRules


class Fetch:
    """Fetches the needed columns of a cursor's rows."""

    def __init__(self, cursor: Any, rules: RowRules, place: str) -> None:
        present = column_names(cursor)
        self._cursor = cursor
        self._at = {name: present.index(name) for name in rules.select(present, place)}

    def __call__(self) -> pa.RecordBatch | None:
        """Return the next batch; None at the end."""
        rows = self._cursor.fetchmany(BATCH_ROWS)
        if not rows:
            return None
        return pa.record_batch(
            {name: as_arrow([row[at] for row in rows]) for name, at in self._at.items()}
        )


def column_names(cursor: Any) -> list[str]:
    """Return the names of a cursor's columns."""
    return [column[0] for column in cursor.description or ()]
