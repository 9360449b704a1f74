"""Group unsorted rows by unit, in memory; nothing is written to a disk.

Every unit has a hash of 64 bits (``unit_hash`` of the core); the range of its upper 32 bits is
divided into equal partitions. All rows of a unit are in one partition, wherever they come from. A
partition fits a processor's cache, and is sorted by unit, trajectory and step. Two units with equal
hashes share a partition, but are never merged: ids are compared. If rows do not fit into memory,
the source is read several times, each time for some of the partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privalue.core import Integers, Private, jit, sealed, unit_hash
from privalue.readers.rows import Rows

PARTITIONS = 512
_MOST_BITS = 63


def span_of(partition: int, partitions: int = PARTITIONS) -> tuple[int, int]:
    """Return the range of hashes of a partition, excluding its end."""
    low, high = (-(-(at << 32) // partitions) for at in (partition, partition + 1))
    return low, high


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Divided(Private):
    """Rows of some partitions, one partition after the other."""

    rows: Rows
    bounds: Integers  # the first row of each partition, and the end
    first: int  # the first of the partitions

    def __getitem__(self, partition: int) -> Rows:
        at = partition - self.first
        return self.rows.part(slice(self.bounds[at], self.bounds[at + 1]))

    def cut(self, last: int) -> "Divided":
        """Return the rows of the partitions before ``last``; copied, so that memory is freed."""
        if len(self.bounds) <= last - self.first + 1:
            return self
        bounds = self.bounds[: last - self.first + 1]
        kept = Rows(*(column[: bounds[-1]].copy() for column in self.rows.columns))
        return Divided(kept, bounds, self.first)


def divide(
    rows: Rows, unit_ids: int, partitions: int = PARTITIONS, first: int = 0, last: int | None = None
) -> Divided:
    """Return the rows of the partitions from ``first`` up to ``last``.

    Args:
        rows: in any order.
        unit_ids: how many of a row's ids identify its unit.
        partitions: the number of all partitions.
        first: the first partition to return.
        last: the end of the partitions to return, excluded; None for all.
    """
    last = partitions if last is None else last
    count, ids, size = rows.ids.shape
    flat = np.ascontiguousarray(rows.ids.reshape(count, ids * size))
    which = np.empty(count, np.promote_types(np.uint16, np.min_scalar_type(partitions)))
    sizes = np.zeros(partitions, np.int64)
    _partitions(flat, unit_ids * size, partitions, which, sizes)
    if (first, last) != (0, partitions):
        inside = np.flatnonzero((which >= first) & (which < last))
        rows, which = rows.part(inside), which[inside]
    bounds = np.append(0, np.cumsum(sizes[first:last]))
    places = np.empty(len(which), np.int64)
    _place(which, bounds[:-1].copy(), first, places)
    return Divided(rows.moved(places), bounds, first)


def sort(parts: Sequence[Rows]) -> Rows:
    """Return all rows of one partition by unit, trajectory and step."""
    rows = Rows.concat(parts)
    flat = rows.ids.reshape(len(rows), -1)
    columns = [*flat.T, rows.steps]
    lows = [int(column.min()) for column in columns]
    bits = [(int(c.max()) - low).bit_length() for c, low in zip(columns, lows, strict=True)]
    if sum(bits) > _MOST_BITS:
        return rows.part(np.lexsort(columns[::-1]))
    packed = np.zeros(len(rows), np.uint64)
    for column, low, more in zip(columns, lows, bits, strict=True):
        if more:
            packed <<= np.uint64(more)
            packed |= (column.astype(np.int64, copy=False) - low).view(np.uint64)
    return rows.part(np.argsort(packed))  # equal rows are an error anyway, in any order


@jit
def _partitions(ids, unit_words, partitions, which, sizes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the partition of each row, and how many rows each partition has."""
    for row in range(len(ids)):
        upper = unit_hash(ids[row], unit_words) >> np.uint64(32)
        partition = upper * np.uint64(partitions) >> np.uint64(32)
        which[row] = partition
        sizes[partition] += 1


@jit
def _place(which, free, first, places):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the position of each row after sorting by partition."""
    for row in range(len(which)):
        partition = which[row] - first
        places[row] = free[partition]
        free[partition] += 1
