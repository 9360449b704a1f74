"""Fetch rows from the cursor of a database driver, whose cells are Python objects."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from privalue.readers import cells

BATCH_ROWS = 1 << 14  # Python objects take more room than numbers do


def column_names(cursor: Any) -> list[str]:
    """Return the names of a cursor's columns."""
    return [column[0] for column in cursor.description or ()]


def fetch(cursor: Any, names: list[str], decimal: str) -> Iterator[pa.RecordBatch]:
    """Yield the needed columns of a cursor's rows."""
    present = column_names(cursor)
    at = [present.index(name) for name in names]
    while rows := cursor.fetchmany(BATCH_ROWS):
        columns = [cells.from_objects([row[i] for row in rows], decimal) for i in at]
        yield pa.record_batch(columns, names=names)
