"""Make states of numbers: public edges for each column, and the product of their bins.

The edges e_1 < ... < e_k of a column make k + 1 bins. An edge belongs to the bin above it:

    x < e_1        e_1 <= x < e_2        ...        x >= e_k

A state is one bin of every column. States are numbered with the last column the fastest, in the
order in which the columns are written, and are called as people write it: "50 <= age < 70, sofa <
5". A cell that is missing, NaN, infinite or no number is in no bin.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from numbers import Real
from typing import Any

MOST_BINNED = 1_000_000  # states, each of which has a label


def read_bins(value: Any) -> dict[str, tuple[float, ...]]:
    """Return the edges of each column, in order, or raise ValueError with what is wrong."""
    if isinstance(value, Sequence) and all(isinstance(entry, Mapping) for entry in value):
        # As a description has them: the order of columns counts, and JSON's keys have none.
        value = {entry.get("column"): entry.get("edges") for entry in value}
    if not isinstance(value, Mapping) or not value:
        raise ValueError("must be a table of columns and their edges, e.g. { age = [50, 70] }")
    found = {str(column): _read_edges(column, edges) for column, edges in value.items()}
    states = math.prod(len(edges) + 1 for edges in found.values())
    if states > MOST_BINNED:
        raise ValueError(f"make {states:,} states; there may be at most {MOST_BINNED:,}")
    return found


def _read_edges(column: object, edges: Any) -> tuple[float, ...]:
    """Return the edges of one column as doubles."""
    if not isinstance(column, str) or not column:
        raise ValueError(f"{column!r} is not the name of a column")
    numbers = edges if isinstance(edges, list | tuple) else getattr(edges, "tolist", list)()
    try:
        usable = all(isinstance(edge, Real) and not isinstance(edge, bool) for edge in numbers)
        found = tuple(float(edge) + 0.0 for edge in numbers) if usable else ()
    except OverflowError:
        found = ()
    if not found or not all(map(math.isfinite, found)):
        raise ValueError(f"{column} must be a list of at least one finite number")
    if not all(low < high for low, high in pairwise(found)):
        raise ValueError(f"{column} = {list(found)}: edges come in order, each above the last")
    return found


def bin_labels(bins: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the labels of the states, the last column's bins the fastest."""
    names = [_column_labels(column, edges) for column, edges in bins.items()]
    return tuple(", ".join(parts) for parts in product(*names))


def _column_labels(column: str, edges: Sequence[float]) -> list[str]:
    """Return what the bins of a column are called."""
    written = [_format_edge(edge) for edge in edges]
    between = [f"{low} <= {column} < {high}" for low, high in pairwise(written)]
    return [f"{column} < {written[0]}", *between, f"{column} >= {written[-1]}"]


def _format_edge(edge: float) -> str:
    """Return a number as people write it: 50, and not 50.0; no two numbers are the same."""
    return repr(int(edge)) if edge.is_integer() and abs(edge) < 1e16 else repr(edge)
