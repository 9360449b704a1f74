"""Make states of numbers: public edges for each column, and the product of their bins.

The edges e_1 < ... < e_k of a column make k + 1 bins. An edge belongs to the bin above it:

    x < e_1        e_1 <= x < e_2        ...        x >= e_k

A state is one bin of every column. States are numbered with the last column the fastest, in the
order in which the columns are written, and are called as people write it: "50 <= age < 70, sofa <
5". A cell that is missing, NaN, infinite or no number is in no bin.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from math import prod
from typing import Any

from privalue.study._arrays import listed
from privalue.study._section_rules import shown

MOST_BINNED = 1_000_000  # states, each of which has a label


def checked_bins(value: Any) -> Any:
    """Return the edges of each column, in order, or raise ValueError with what is wrong."""
    if isinstance(value, Sequence) and all(isinstance(entry, Mapping) for entry in value):
        # As a description has them: the order of columns counts, and JSON's keys have none.
        value = {entry.get("column"): entry.get("edges") for entry in value}
    if not isinstance(value, Mapping) or not value:
        raise ValueError(
            f"= {shown(value)} is not allowed; it must be a table of columns and their edges, e.g. "
            "bins = { age = [50, 70] }"
        )
    found: dict[str, tuple[float, ...]] = {}
    for column, edges in value.items():
        numbers = listed(edges)
        usable = isinstance(numbers, list | tuple) and len(numbers) > 0
        if not (usable and all(_finite(edge) for edge in numbers)):
            raise ValueError(
                f"{column} = {shown(edges)} is not allowed; it must be a list of at least one "
                "finite number"
            )
        if not all(low < high for low, high in pairwise(map(float, numbers))):
            raise ValueError(f"{column} = {shown(edges)}: edges come in order, each above the last")
        if not isinstance(column, str) or not column:
            raise ValueError(f"{shown(column)} is not the name of a column")
        found[column] = tuple(float(edge) + 0.0 for edge in numbers)
    states = prod(len(edges) + 1 for edges in found.values())
    if states > MOST_BINNED:
        raise ValueError(f"make {states:,} states; there may be at most {MOST_BINNED:,}")
    return found


def _finite(edge: Any) -> bool:
    """Return whether an edge is a finite number, and no truth value."""
    try:
        return not isinstance(edge, bool | str) and abs(float(edge)) < float("inf")
    except (TypeError, ValueError, OverflowError):
        return False


def bin_labels(found: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the labels of the states, the last column's bins the fastest."""
    names = [_of_column(column, edges) for column, edges in found.items()]
    return tuple(", ".join(parts) for parts in product(*names))


def _of_column(column: str, edges: Sequence[float]) -> list[str]:
    """Return what the bins of a column are called."""
    written = [_number(edge) for edge in edges]
    between = [f"{low} <= {column} < {high}" for low, high in pairwise(written)]
    return [f"{column} < {written[0]}", *between, f"{column} >= {written[-1]}"]


def _number(edge: float) -> str:
    """Return a number as people write it: 50, and not 50.0; no two numbers are the same."""
    return repr(int(edge)) if edge.is_integer() and abs(edge) < 1e16 else repr(edge)
