"""Take arrays, Series and frames where a study takes numbers, labels or a matrix.

A Series or a frame with labels of its own as index goes by label, anything else by position, in the
order of the states. An index that pandas made, 0, 1, 2, ..., may be meant either way where these
are labels of other states: that is refused. All of it is public, like the files that it stands for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


class ByPosition(list[Any]):
    """Numbers of a Series with the index that pandas makes if nobody gives any."""


def by_state(value: Any, validated: Callable[[Any], Any]) -> Any:
    """Return numbers of states as a study keeps them, and remember which index they had."""
    found = validated(plain_numbers(value))
    unnamed = _indexed(value) and _by_position(value.index)
    return ByPosition(found) if unnamed or isinstance(value, ByPosition) else found


def unclear(value: Any, labels: Sequence[str] | None) -> bool:
    """Return whether an index that nobody gave names states, and others than those in its order."""
    if labels is None:
        return False
    if not isinstance(value, ByPosition) and not (_indexed(value) and _by_position(value.index)):
        return False
    index = {str(at): at for at in range(len(labels))}
    return any(index.get(label, at) != at for at, label in enumerate(labels))


UNCLEAR = (
    "has the index 0, 1, 2, ..., and the states have some of these numbers as labels, in another "
    "order; give to_numpy() for the order of the states, or an index of texts"
)


def plain_numbers(value: Any) -> Any:
    """Return an array as a list, and a Series with labels as a table; the rest as it is."""
    if _indexed(value) and getattr(value, "ndim", 1) == 1:
        if _by_position(value.index):
            return value.tolist()
        labels = [str(label) for label in value.index.tolist()]
        if len(set(labels)) < len(labels):
            raise ValueError("has an index that names a state twice; labels are unique")
        return dict(zip(labels, value.tolist(), strict=True))
    if isinstance(value, Mapping):
        return {str(label): number for label, number in value.items()}
    return listed(value)


def listed(value: Any) -> Any:
    """Return an array of one dimension as a list of plain values; the rest as it is."""
    if isinstance(value, str | bytes | Mapping | list | tuple):
        return value
    for convert in ("to_pylist", "to_list", "tolist"):  # of Arrow, Polars and pandas, NumPy
        if callable(getattr(value, convert, None)):
            return getattr(value, convert)()
    return value


def is_array(value: Any) -> bool:
    """Return whether a value is an array, a Series, a frame or a sparse matrix."""
    return isinstance(value, list | tuple) or any(
        hasattr(value, name) for name in ("__array__", "tocsr", "to_pylist", "__arrow_c_stream__")
    )


def labelled_rows(matrix: Any, columns: int = 1, between: str = "") -> tuple[list[str] | None, Any]:
    """Return the labels of a matrix's rows, where it has some, and the matrix without them.

    A pandas frame has them as its index; another frame, or a table, as a first column of texts.

    Args:
        matrix: an array, a frame or a table.
        columns: how many labels a row has: two, where it is of a state and an action.
        between: joins the labels of a row.
    """
    if _indexed(matrix) and hasattr(matrix, "columns"):
        if _by_position(matrix.index):
            return None, matrix.to_numpy()
        index = matrix.index.tolist()
        several = [one if isinstance(one, tuple) else (one,) for one in index]
        return [between.join(map(str, one)) for one in several], matrix.to_numpy()
    if hasattr(matrix, "__arrow_c_stream__") and hasattr(matrix, "columns"):
        import pyarrow as pa  # noqa: PLC0415 - studies in files need it later, or never

        cells = [column.to_pylist() for column in pa.table(matrix).columns]
        texts = len(cells) >= columns and all(isinstance(cell, str) for cell in cells[0])
        named = zip(*(cells.pop(0) for _ in range(columns)), strict=True) if texts else None
        labels = None if named is None else [between.join(map(str, one)) for one in named]
        return labels, np.array(cells, dtype=object).T
    return None, matrix


def _indexed(value: Any) -> bool:
    """Return whether a value is of pandas, or has an index as pandas does."""
    return hasattr(value, "index") and hasattr(value, "iloc")


def _by_position(index: Any) -> bool:
    """Return whether an index is the one that pandas makes if nobody gives any: 0, 1, 2, ..."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
