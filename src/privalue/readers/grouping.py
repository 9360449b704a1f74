"""Group unsorted rows by unit, in memory; nothing is written to a disk.

Every unit has a hash of 64 bits (``unit_hash`` of the core); the range of its upper 32 bits is
divided into equal partitions. All rows of a unit are in one partition, whichever batch they come
from. A partition fits into a processor's cache, and is sorted by unit, trajectory and step. Two
units with equal hashes share a partition, but are never merged: ids are compared. If rows do not
fit into memory, the source is read several times, each time for some of the partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privalue.core import Integers, Private, jit, sealed, unit_hash
from privalue.readers.rows import Rows

PARTITIONS = 512
_MAX_KEY_BITS = 63  # of ids and a step that are sorted as one number


def span_of(partition: int, partitions: int = PARTITIONS) -> tuple[int, int]:
    """Return the range of hashes of a partition, excluding its end."""
    low, high = (-(-(at << 32) // partitions) for at in (partition, partition + 1))
    return low, high


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PartitionedRows(Private):
    """Rows of some partitions, one partition after the other."""

    rows: Rows
    bounds: Integers  # the position of the first row of each partition, and the end
    first: int  # the first partition

    def __getitem__(self, partition: int) -> Rows:
        at = partition - self.first
        return self.rows.select(slice(self.bounds[at], self.bounds[at + 1]))

    def truncate(self, last: int) -> "PartitionedRows":
        """Return the rows of the partitions before ``last``, copied to free the others' memory."""
        if len(self.bounds) <= last - self.first + 1:
            return self
        bounds = self.bounds[: last - self.first + 1]
        rows = Rows(*(column[: bounds[-1]].copy() for column in self.rows.columns))
        return PartitionedRows(rows, bounds, self.first)


def divide(rows: Rows, unit_ids: int, partitions: int, first: int, last: int) -> PartitionedRows:
    """Return the rows of the partitions from ``first`` to before ``last``.

    Args:
        rows: in any order.
        unit_ids: how many of a row's ids identify its unit.
        partitions: the number of all partitions.
        first: the first partition to return.
        last: the end of the partitions to return, excluded.
    """
    count, ids, size = rows.ids.shape
    flat = np.ascontiguousarray(rows.ids.reshape(count, ids * size))
    partition_of = np.empty(count, np.promote_types(np.uint16, np.min_scalar_type(partitions)))
    sizes = np.zeros(partitions, np.int64)
    _assign_partitions(flat, unit_ids * size, partitions, partition_of, sizes)
    if (first, last) != (0, partitions):
        inside = np.flatnonzero((partition_of >= first) & (partition_of < last))
        rows, partition_of = rows.select(inside), partition_of[inside]
    bounds = np.append(0, np.cumsum(sizes[first:last]))
    positions = np.empty(len(partition_of), np.int64)
    _assign_positions(partition_of, bounds[:-1].copy(), first, positions)
    return PartitionedRows(rows.scatter(positions), bounds, first)


def sort(parts: Sequence[Rows]) -> Rows:
    """Return all rows of one partition by unit, trajectory and step."""
    rows = Rows.concat(parts)
    flat = rows.ids.reshape(len(rows), -1)
    columns = [*flat.T, rows.steps]
    lows = [int(column.min()) for column in columns]
    sizes = [(int(c.max()) - low).bit_length() for c, low in zip(columns, lows, strict=True)]
    if sum(sizes) > _MAX_KEY_BITS:
        return rows.select(np.lexsort(columns[::-1]))
    sort_keys = np.zeros(len(rows), np.uint64)
    for column, low, bits in zip(columns, lows, sizes, strict=True):
        if bits:
            sort_keys <<= np.uint64(bits)
            sort_keys |= (column.astype(np.int64, copy=False) - low).view(np.uint64)
    # Not a stable sort: rows with equal ids and steps are invalid, in whatever order.
    return rows.select(np.argsort(sort_keys))


@jit
def _assign_partitions(ids, unit_words, partitions, partition_of, sizes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the partition of each row, and how many rows each partition has."""
    for row in range(len(ids)):
        upper = unit_hash(ids[row], unit_words) >> np.uint64(32)
        partition = upper * np.uint64(partitions) >> np.uint64(32)
        partition_of[row] = partition
        sizes[partition] += 1


@jit
def _assign_positions(partition_of, free, first, positions):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the position of each row after sorting by partition; ``free`` is the next of each."""
    for row in range(len(partition_of)):
        partition = partition_of[row] - first
        positions[row] = free[partition]
        free[partition] += 1
