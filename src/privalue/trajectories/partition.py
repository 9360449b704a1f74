"""Rows in any order, brought together by trajectory (by person, if persons are the unit).

The rows of a chunk are put in the order of a hash of their ids, which cuts them into partitions,
and kept, in memory or on disk. A partition is its slice of every chunk, grouped and ordered. Ids
that collide in the hash share a partition and nothing else: they are compared, lane by lane.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.private import Private, sealed
from privalue.sections import Columns
from privalue.trajectories.encode import Integers, Origin, Row, Rows, widened
from privalue.trajectories.grouping import NUMBER, STATE, arrange, choose, group, scatter
from privalue.trajectories.order import Fragment, stands_twice
from privalue.trajectories.spill import Spill, Words

PARTITION_BYTES = 1 << 21  # about: what a processor's cache holds
MOST_PARTITIONS = 1024
RESERVED_BYTES = 640 << 20  # the program itself, and chunks on their way
LEAST_BYTES = 1 << 27


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class _Kept(Private):
    """Some rows, partition by partition."""

    origins: list[tuple[int, Origin]]  # with the number of the first row from there
    ids: int
    lanes: int  # of an id
    long: bool  # whether ids and steps have upper halves
    bounds: NDArray[np.uint32]  # of the partitions
    words: Words | int  # row by row, or where in the file they are

    @property
    def width(self) -> int:
        """How many words a row has."""
        return _width(self.ids * self.lanes, self.long)


def _width(lanes: int, long: bool) -> int:
    return (lanes + 1) * (2 if long else 1) + 4


class Partitions:
    """The rows of a source, by partition; several threads may put and take at once."""

    def __init__(self, memory: int, rows: int | None, *, by_person: bool) -> None:
        size = 256 * PARTITION_BYTES if rows is None else 32 * rows
        self.count = min(max(size // PARTITION_BYTES, 1), MOST_PARTITIONS)
        self._by_person = by_person
        free = max(memory - RESERVED_BYTES, LEAST_BYTES)
        self._most = free // 40  # bytes of a partition: to group two takes 9 times that
        self._spill = Spill(free * 3 // 4 if memory > RESERVED_BYTES else 0)
        self._kept: dict[int, _Kept] = {}  # by number of the chunk
        self._twice: list[tuple[int, Row, Row]] = []

    def put(self, number: int, parts: Sequence[Rows]) -> None:
        """Keeps rows, which are the ``number``-th to come and are in several parts."""
        (_, ids, _), lanes = parts[0].keys.shape, max(part.keys.shape[2] for part in parts)
        keys = [widened(part.keys, lanes).reshape(len(part), ids * lanes) for part in parts]
        long = not all(map(_is_short, (*keys, *(part.steps for part in parts))))
        *first_rows, count = np.cumsum([0, *map(len, parts)]).tolist()
        which, sizes = np.empty(count, dtype=np.uint16), np.zeros(self.count, dtype=np.int64)
        for at, part in zip(first_rows, keys, strict=True):
            choose(part, lanes if self._by_person else ids * lanes, which[at:], sizes)
        bounds = np.append(0, np.cumsum(sizes))
        free, width = bounds[:-1].copy(), _width(ids * lanes, long)
        words = self._spill.buffer(count * width)
        for at, part, rows in zip(first_rows, keys, parts, strict=True):
            bits = rows.rewards.view(np.int64)
            scatter(
                part,
                rows.steps,
                rows.states,
                bits,
                long,
                at,
                which,
                free,
                words.reshape(count, width),
            )
        origins = [(at, part.origin) for at, part in zip(first_rows, parts, strict=True)]
        where = self._spill.keep(words)
        self._kept[number] = _Kept(origins, ids, lanes, long, bounds.astype(np.uint32), where)

    def take(self, partition: int) -> Fragment:
        """The trajectories of a partition: in the order of their ids, if persons are the unit."""
        chunks = sorted(self._kept)
        kept = [self._kept[number] for number in chunks]
        bounds = [one.bounds[partition : partition + 2].tolist() for one in kept]
        ids, lanes, long = (
            kept[0].ids,
            max(one.lanes for one in kept),
            any(one.long for one in kept),
        )
        sizes = [end - begin for begin, end in bounds]
        self._require_room(4 * _width(ids * lanes, long) * sum(sizes))
        words = np.concatenate(
            [
                self._slice(one, begin, end, lanes, long)
                for one, (begin, end) in zip(kept, bounds, strict=True)
            ]
        )
        width = ids * lanes * (1 + long)
        which, firsts = group(words, width)
        persons: NDArray[np.bool_] | None = None
        if self._by_person:
            which, persons = _by_id(_numbers(words[firsts, :width], long), which, ids)
        starts, states, rewards, twice = arrange(words, width, long, which, len(firsts))
        if twice:
            numbers = _numbers(words[:, :STATE], long)
            self._remember(numbers, which, np.repeat(chunks, sizes), words[:, NUMBER])
        return Fragment(starts[:-1], states, rewards, persons)

    def _slice(self, kept: _Kept, begin: int, end: int, lanes: int, long: bool) -> Words:
        """Some rows of a chunk, with so many lanes to an id."""
        words = self._spill.part(kept.words, begin * kept.width, end * kept.width)
        words = words.reshape(end - begin, kept.width)
        if (kept.lanes, kept.long) == (lanes, long):
            return words
        numbers = _numbers(words[:, :STATE], kept.long)
        keys = widened(numbers[:, :-1].reshape(len(words), kept.ids, kept.lanes), lanes)
        alike = np.hstack([keys.reshape(len(words), kept.ids * lanes), numbers[:, -1:]])
        alike = alike.view(np.int32) if long else alike.astype(np.int32)
        return np.hstack([alike, words[:, STATE:]])

    def require_distinct_steps(self, columns: Columns) -> None:
        """Refuses two rows with the same step of the same trajectory, and shows the first such."""
        if self._twice:
            _, row, again = min(self._twice, key=itemgetter(0))
            raise DataError(stands_twice(row, again, columns))

    def close(self) -> None:
        """Forgets every row."""
        self._kept = {}
        self._spill.close()

    def _remember(
        self, numbers: Integers, which: Words, chunks: Integers, rows: NDArray[np.int32]
    ) -> None:
        """Of the rows with the same step of the same trajectory the pair that is complete first."""
        steps, places = numbers[:, -1], (chunks << 32) + rows
        order = np.lexsort((places, steps, which))
        row, again = order[:-1], order[1:]
        same = (which[row] == which[again]) & (steps[row] == steps[again])
        first = np.flatnonzero(same)[np.argmin(places[again[same]])]

        def told(at: int) -> Row:
            kept, number = self._kept[int(chunks[at])], int(rows[at])
            first, origin = kept.origins[bisect(kept.origins, number, key=itemgetter(0)) - 1]
            keys = numbers[at, :-1].reshape(kept.ids, -1)
            return Row(origin, number - first, keys, int(steps[at]))

        self._twice.append((int(places[again[first]]), told(row[first]), told(again[first])))

    def _require_room(self, size: int) -> None:
        if size > self._most:
            whole = "person" if self._by_person else "trajectory"
            needed = -(-(40 * size + RESERVED_BYTES) >> 20)
            raise DataError(
                f"rows that must be in memory together take {-(-size >> 20)} MB: one {whole} has "
                f"very many, or the source is very large; allow --memory {needed}MB"
            )


def _by_id(
    keys: Integers, which: NDArray[np.int32], ids: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Trajectories numbered in the order of their ids, and which of them begin a person."""
    order = np.lexsort(keys.T[::-1])
    rank = np.empty(len(order), dtype=which.dtype)
    rank[order] = np.arange(len(order))
    person = keys[order, : keys.shape[1] // ids]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (person[1:] != person[:-1]).any(axis=1)
    return rank[which], begins


def _numbers(words: Words, long: bool) -> Integers:
    """What the words stand for, one or two to a number."""
    return np.ascontiguousarray(words).view(np.int64) if long else words.astype(np.int64)


def _is_short(numbers: Integers) -> bool:
    """Whether 32 bits are enough."""
    return bool(numbers.min() >= -(2**31) and numbers.max() < 2**31)
