"""Convert cells that are Python objects, as drivers, lists and frames of objects hold them.

A column may hold anything, so nothing is inferred from it as a whole. Cells are sorted by what each
one is (a whole number, a float, a text, a time ...), and a column with several kinds becomes a
union of Arrow arrays, one for each kind. So a number among texts is read as the same number among
numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

BATCH_ROWS = 1 << 14  # Python objects take more room than numbers do
NO_TEXT = b"\xff"  # not UTF-8, so invalid: a cell that is not a text and has none
_TEXT = pa.string()
_MOST_DIGITS = 76  # of Arrow's widest decimals
_MOMENT = pa.timestamp("us", "UTC")
_SHORT_MOMENT = pa.timestamp("ns", "UTC")
_PLAIN = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def as_arrow(values: Sequence[Any]) -> pa.Array:
    """Return the cells of a column as Arrow, each by its own type."""
    kinds = set(map(type, values))
    if len(kinds) == 1 and kinds <= set(_PLAIN):  # the same as below, and faster
        try:
            return pa.array(values, _PLAIN[kinds.pop()], from_pandas=False)
        except (pa.ArrowException, OverflowError):
            pass
    found = [_cell(value) for value in values]
    children: dict[pa.DataType, list[Any]] = {}
    codes, offsets = np.empty(len(found), np.int8), np.empty(len(found), np.int32)
    for at, (kind, cell) in enumerate(found):
        child = children.setdefault(kind, [])
        codes[at], offsets[at] = list(children).index(kind), len(child)
        child.append(cell)
    arrays = [_child(kind, cells) for kind, cells in children.items()]
    if len(arrays) < 2:
        return arrays[0] if arrays else pa.array([], _TEXT)
    return pa.UnionArray.from_dense(pa.array(codes), pa.array(offsets), arrays)


def several(value: Any) -> bool:
    """Return whether what should be a cell holds several: a list, an array, a dict."""
    try:
        return isinstance(value, list | tuple | Mapping) or getattr(value, "ndim", 0) > 0
    except Exception:  # an object of any class: no cell that can be read, and not several either
        return False


def flat(value: Any) -> list[Any]:
    """Return the cells of an observation, each as it was: an array of all would change some."""
    if isinstance(value, list | tuple):
        return [cell for one in value for cell in flat(one)]
    return list(np.ravel(value)) if several(value) else [value]


def batches(columns: Mapping[str, Sequence[Any]]) -> Iterator[pa.RecordBatch]:
    """Yield columns of objects as Arrow batches, so many rows at a time."""
    count = len(next(iter(columns.values())))
    for start in range(0, count, BATCH_ROWS):
        yield pa.record_batch(
            {name: as_arrow(values[start : start + BATCH_ROWS]) for name, values in columns.items()}
        )


def _child(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    """Return the cells of one type as an Arrow array."""
    if kind == _TEXT:  # by way of bytes: some may not be valid UTF-8
        return pa.array(cells, pa.binary()).view(_TEXT)
    return pa.array(cells, kind, from_pandas=False)


def _cell(value: Any) -> tuple[pa.DataType, Any]:
    """Return the type and the value of a cell; an object whose methods fail is an invalid text."""
    try:
        return _kind(value)
    except Exception:  # an object of any class: its methods may raise anything
        return _TEXT, NO_TEXT


def _kind(value: Any) -> tuple[pa.DataType, Any]:
    """Return the type and the value of a cell, or let the errors of its methods pass."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        value = value.item()
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return _TEXT, None
    if isinstance(value, str):
        return _TEXT, str(value).encode("utf-8", "surrogatepass")
    if isinstance(value, bool):
        return pa.bool_(), bool(value)
    if isinstance(value, int):
        small = -(2**63) <= value < 2**63
        return (pa.int64(), int(value)) if small else _exact(Decimal(int(value)))
    if isinstance(value, float):
        return pa.float64(), float(value)
    if isinstance(value, Decimal):
        return (_TEXT, None) if value.is_nan() else _exact(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return pa.date32(), date(value.year, value.month, value.day)
    if isinstance(value, bytes | bytearray | memoryview):
        return _TEXT, f"x'{bytes(value).hex()}'".encode()  # as in SQL, and not a number
    return (_TEXT, str(value).encode()) if isinstance(value, UUID) else (_TEXT, NO_TEXT)


def _exact(value: Decimal) -> tuple[pa.DataType, Any]:
    """Return a decimal with its own scale; one that Arrow has no room for is an invalid text."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # infinite: as a float it is invalid, too
        return pa.float64(), float(value)
    scale = max(-exponent, 0)
    if scale > _MOST_DIGITS or len(digits) + max(exponent, 0) > _MOST_DIGITS:
        return _TEXT, NO_TEXT
    return pa.decimal256(_MOST_DIGITS, scale), value


def _moment(value: datetime) -> tuple[pa.DataType, Any]:
    """Return a time in UTC; one without a zone is taken to be in UTC."""
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if getattr(value, "nanosecond", 0):
        return _SHORT_MOMENT, int(getattr(aware, "value"))  # noqa: B009 - only pandas has it
    plain = datetime(*aware.timetuple()[:6], aware.microsecond, tzinfo=UTC)
    return _MOMENT, plain
