"""Rows of Python objects, as SQLite and PostgreSQL hand them over, turned into Arrow."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any

import pyarrow as pa

from privalue.errors import DataError
from privalue.sections import Columns
from privalue.trajectories.chunks import select

_ROWS = 1 << 14  # of a batch: Python objects take more room than numbers do
_PLAIN = {int, float, str, bool, date, datetime, time, timedelta}


class Fetch:
    """A cursor's rows, the needed columns only."""

    def __init__(self, cursor: Any, columns: Columns, place: str) -> None:
        present = column_names(cursor)
        self._cursor = cursor
        self._place = place
        self._at = {name: present.index(name) for name in select(columns, present, place)}
        self._ids = {columns.person, columns.trajectory} & set(self._at)
        self._textual: dict[str, bool] = {}  # whether the ids of a column are texts
        self._done = 0

    def __call__(self) -> pa.RecordBatch | None:
        """The next batch; None at the end."""
        rows = self._cursor.fetchmany(_ROWS)
        if not rows:
            return None
        cells = {name: [row[at] for row in rows] for name, at in self._at.items()}
        for name in self._ids:
            self._require_one_kind(name, cells[name])
        self._done += len(rows)
        return pa.record_batch({name: as_arrow(values) for name, values in cells.items()})

    def _require_one_kind(self, name: str, ids: Sequence[Any]) -> None:
        """Whether 1 and '1' are one id or two is not for us to say."""
        kinds = {kind is str for kind in set(map(type, ids)) - {NoneType}}
        if not kinds:
            return
        first = next(value for value in ids if value is not None)
        textual = self._textual.setdefault(name, isinstance(first, str))
        if kinds != {textual}:
            at, other = next(
                (at, value)
                for at, value in enumerate(ids)
                if value is not None and isinstance(value, str) != textual
            )
            raise DataError(
                f"{self._place}, row {self._done + at + 1}: {name} = {other!r} is "
                f"{'no' if textual else 'a'} text, unlike the ids before it; an id has one type "
                "throughout"
            )


def column_names(cursor: Any) -> list[str]:
    """The names of a cursor's columns."""
    return [column[0] for column in cursor.description or ()]


def as_arrow(values: Sequence[Any]) -> pa.Array:
    """One Arrow type where the values agree; else their text, as a CSV file would have it."""
    kinds = set(map(type, values)) - {NoneType}
    if kinds <= {int, float} or (len(kinds) == 1 and kinds <= _PLAIN):
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError):  # large whole numbers among fractions
            pass
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    # 3 and 3.00 are the same number, and the same id.
    if isinstance(value, Decimal):
        digits = format(value, "f")
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, bytes | memoryview):
        return f"x'{value.hex()}'"  # as in SQL, and not a number
    return str(value)
