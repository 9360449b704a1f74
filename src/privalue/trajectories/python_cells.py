"""Cells that are Python objects, as drivers, lists and frames of objects hand them over.

A column may hold anything, so nothing is inferred from it as a whole: its cells become their
canonical texts, one by one. Where all have one plain type the same comes about faster.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from types import NoneType
from typing import Any

import pyarrow as pa

from privalue.trajectories.cells import canonical_text

BATCH_ROWS = 1 << 14  # Python objects take more room than numbers do
_NO_TEXT = b"\xff"  # no UTF-8: a cell that is neither a text nor anything that has one
_PLAIN = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


def as_arrow(values: Sequence[Any]) -> pa.Array:
    """The cells of a column as Arrow, each what it is by itself."""
    kinds = set(map(type, values)) - {NoneType}
    if len(kinds) == 1:
        kind = next(iter(kinds))
        try:
            if kind in _PLAIN:
                return pa.array(values, _PLAIN[kind])
            if kind in {date, datetime} and len({_zone(v) for v in values}) == 1:
                return pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass
    texts = [None if _is_missing(value) else _encoded(value) for value in values]
    return pa.array(texts, pa.binary()).view(pa.string())


def batches(
    columns: Mapping[str, Sequence[Any]], rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Columns of objects as Arrow, so many rows at a time."""
    count = len(next(iter(columns.values())))
    for start in range(0, count, BATCH_ROWS):
        yield pa.record_batch(
            {name: as_arrow(values[start : start + BATCH_ROWS]) for name, values in columns.items()}
        )


def _zone(value: Any) -> Any:
    return getattr(value, "tzinfo", None)


def _is_missing(value: Any) -> bool:
    """None, and whatever is not even equal to itself: nan, NaT; pandas' NA says neither."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - on purpose
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def _encoded(value: Any) -> bytes:
    try:
        text = canonical_text(value)
    except (ValueError, OverflowError, ArithmeticError):
        text = None
    return _NO_TEXT if text is None else text.encode("utf-8", "surrogatepass")
