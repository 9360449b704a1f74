"""Rows in any order, brought together by trajectory (by person, if persons are the unit).

The rows of a chunk are put in the order of a hash of their ids, which cuts them into partitions,
and kept, in memory or on disk. A partition is its slice of every chunk, grouped and ordered. Ids
that collide in the hash share a partition and nothing else: they are compared, lane by lane.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core._private import Private, sealed
from privalue.errors import DataError
from privalue.readers._cells import Integers, widened
from privalue.readers._encode import Origin, Row, Rows
from privalue.readers._grouping import arrange, choose, divide, group, scatter
from privalue.readers._order import Fragment, stands_twice
from privalue.readers._rules import RowRules
from privalue.readers._spill import Spill, Words

PARTITION_BYTES = 1 << 22  # about: what a processor's cache holds
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
    shift: int  # -1 where ids and steps have upper halves
    bounds: NDArray[np.uint32]  # of the partitions
    words: Words | int  # row by row, then the rows' partitions; or where in the file they are

    @property
    def width(self) -> int:
        """How many words a row has."""
        return _width(self.ids * self.lanes, self.shift)


def _width(lanes: int, shift: int) -> int:
    return lanes + 3 if shift >= 0 else 2 * lanes + 5


class Partitions:
    """The rows of a source, by partition; several threads may put and take at once."""

    def __init__(self, memory: int, rows: int | None, rules: RowRules) -> None:
        size = 256 * PARTITION_BYTES if rows is None else 24 * rows
        self.count = min(max(size // PARTITION_BYTES, 1), MOST_PARTITIONS)
        self._rules = rules
        self._by_person = rules.by_person
        self._shift = rules.states.bit_length()  # one more than the last is an invalid row's
        free = max(memory - RESERVED_BYTES, LEAST_BYTES)
        self._most = free // 40  # bytes of a partition: to group two takes 9 times that
        self._spill = Spill(free * 7 // 8 if memory > RESERVED_BYTES else 0)
        self._kept: dict[int, _Kept] = {}  # by number of the chunk
        self._twice: list[tuple[int, Row, Row]] = []
        self._local = local()

    def put(self, number: int, parts: Sequence[Rows]) -> None:
        """Keeps rows, which are the ``number``-th to come and are in several parts."""
        (_, ids, _), lanes = parts[0].keys.shape, max(part.keys.shape[2] for part in parts)
        keys = [widened(part.keys, lanes).reshape(len(part), ids * lanes) for part in parts]
        shift = self._shift if self._fit(keys, parts) else -1
        *first_rows, count = np.cumsum([0, *map(len, parts)]).tolist()
        which, sizes = np.empty(count, dtype=np.uint16), np.zeros(self.count, dtype=np.int64)
        for at, part in zip(first_rows, keys, strict=True):
            choose(part, lanes if self._by_person else ids * lanes, which[at:], sizes)
        bounds = np.append(0, np.cumsum(sizes))
        free, width = bounds[:-1].copy(), _width(ids * lanes, shift)
        words = self._spill.buffer(count * width + (count + 1) // 2)
        table = words[: count * width].reshape(count, width)
        for at, part, rows in zip(first_rows, keys, parts, strict=True):
            bits = rows.rewards.view(np.int64)
            scatter(part, rows.steps, rows.states, bits, shift, which[at:], free, table)
        words[count * width :].view(np.uint16)[:count] = which
        origins = [(at, part.origin) for at, part in zip(first_rows, parts, strict=True)]
        where = self._spill.keep(words)
        self._kept[number] = _Kept(origins, ids, lanes, shift, bounds.astype(np.uint32), where)

    def _fit(self, keys: Sequence[Integers], parts: Sequence[Rows]) -> bool:
        """Whether a word is enough for each id, and one for step and state."""
        most = 31 - self._shift
        return all(_within(ids, -(2**31), 2**31) for ids in keys) and all(
            most > 0 and _within(part.steps, 0, 2**most) for part in parts
        )

    def take(self, partition: int) -> Fragment:
        """The trajectories of a partition: in the order of their ids, if persons are the unit.

        They are good until the same thread takes the next one. A partition that is larger than
        memory allows, for whatever reason (an id much longer than the others, a wrong estimate of
        how many rows there are), is taken some units at a time: only a single unit can be too
        large.
        """
        chunks = sorted(self._kept)
        slices = [self._native(number, partition) for number in chunks]
        shift = min(self._kept[number].shift for number in chunks)
        lanes = self._kept[chunks[0]].ids * max(needed for _, needed in slices)
        rows = [words for words, _ in slices]
        size = 4 * _width(lanes, shift) * sum(map(len, rows))
        if size <= self._most:
            return self._arranged(partition, chunks, rows, None, lanes, shift)
        shares = [self._share(number, words) for number, words in zip(chunks, rows, strict=True)]
        return Fragment.together(
            self._divided(partition, chunks, rows, shares, shift, (0, 1 << 16))
        )

    def _divided(
        self,
        partition: int,
        chunks: list[int],
        rows: list[Words],
        shares: list[NDArray[np.uint16]],
        shift: int,
        span: tuple[int, int],
    ) -> list[Fragment]:
        """The units whose second hash is within ``span``, as many at a time as memory allows."""
        chosen = [np.flatnonzero((s >= span[0]) & (s < span[1])) for s in shares]
        if not any(map(len, chosen)):
            return []
        kept = [self._kept[number] for number in chunks]
        needed = [
            _needed(words[at], one) for words, at, one in zip(rows, chosen, kept, strict=True)
        ]
        lanes = kept[0].ids * max(needed)
        size = 4 * _width(lanes, shift) * sum(map(len, chosen))
        if size <= self._most:
            return [self._arranged(partition, chunks, rows, chosen, lanes, shift).copy()]
        if span[1] - span[0] == 1:
            self._require_room(size)
        middle = sum(span) // 2
        return [
            *self._divided(partition, chunks, rows, shares, shift, (span[0], middle)),
            *self._divided(partition, chunks, rows, shares, shift, (middle, span[1])),
        ]

    def _native(self, number: int, partition: int) -> tuple[Words, int]:
        """The rows of a chunk in a partition, as they are kept; how many lanes their ids need."""
        kept = self._kept[number]
        begin, end = kept.bounds[partition : partition + 2].tolist()
        words = self._spill.part(kept.words, begin * kept.width, end * kept.width)
        words = words.reshape(end - begin, kept.width)
        return words, _needed(words, kept)

    def _share(self, number: int, words: Words) -> NDArray[np.uint16]:
        """A second hash of each row's unit."""
        kept = self._kept[number]
        keys, _ = _numbers(words, kept.ids * kept.lanes, kept.shift)
        share = np.empty(len(words), dtype=np.uint16)
        divide(keys, kept.lanes if self._by_person else kept.ids * kept.lanes, share)
        return share

    def _arranged(
        self,
        partition: int,
        chunks: list[int],
        slices: list[Words],
        chosen: list[Integers] | None,
        lanes: int,
        shift: int,
    ) -> Fragment:
        """The chosen rows of each chunk's slice (all, if None), by trajectory and step."""
        kept = [self._kept[number] for number in chunks]
        sizes = [len(words) for words in (slices if chosen is None else chosen)]
        width, count = _width(lanes, shift), sum(sizes)
        room = self._scratch()
        words = room("words", np.int32, count * width).reshape(count, width)
        at = 0
        for number, one in enumerate(kept):
            some = slices[number] if chosen is None else slices[number][chosen[number]]
            words[at : at + len(some)] = self._alike(one, some, lanes, shift)
            at += len(some)
        width = lanes if shift >= 0 else 2 * lanes
        which, firsts = room("which", np.int32, count), room("firsts", np.int32, count)
        firsts = firsts[: group(words, width, which, firsts)]
        persons: NDArray[np.bool_] | None = None
        if self._by_person:
            keys, _ = _numbers(words[firsts], lanes, shift)
            which, persons = _by_id(keys, which, kept[0].ids)
        states, rewards = room("states", np.int32, count), room("rewards", np.int64, count)
        by_trajectory = (
            room("steps", np.int64, count),
            room("places", np.int32, count),
            room("bits", np.int64, count),
        )
        twice_is = self._rules.states if self._rules.drop_invalid else -1
        starts, twice = arrange(
            words, lanes, shift, which, len(firsts), *by_trajectory, twice_is, states, rewards
        )
        if twice and twice_is < 0:
            rows = [self._rows(one, partition) for one in kept]
            if chosen is not None:
                rows = [row[some] for row, some in zip(rows, chosen, strict=True)]
            keys, steps = _numbers(words, lanes, shift)
            self._remember(keys, steps, which, np.repeat(chunks, sizes), np.concatenate(rows))
        return Fragment(starts[:-1], states, rewards.view(np.float64), persons)

    def _scratch(self) -> "_Scratch":
        """That of this thread."""
        if not hasattr(self._local, "scratch"):
            self._local.scratch = _Scratch()
        scratch: _Scratch = self._local.scratch
        return scratch

    def _alike(self, kept: _Kept, words: Words, lanes: int, shift: int) -> Words:
        """Rows of a chunk with so many lanes, which are enough for them, and this shift."""
        if (kept.ids * kept.lanes, kept.shift) == (lanes, shift):
            return words
        keys, steps = _numbers(words, kept.ids * kept.lanes, kept.shift)
        by_id = keys.reshape(len(words), kept.ids, kept.lanes)[:, :, : lanes // kept.ids]
        alike = widened(by_id, lanes // kept.ids).reshape(len(words), lanes)
        if shift >= 0:
            return np.hstack([alike.astype(np.int32), words[:, -3:]])
        states = words[:, -3:-2] & ((1 << kept.shift) - 1 if kept.shift >= 0 else -1)
        numbers = np.ascontiguousarray(np.column_stack([alike, steps])).view(np.int32)
        return np.hstack([numbers, states, words[:, -2:]])

    def _rows(self, kept: _Kept, partition: int) -> Integers:
        """The numbers of the rows of a chunk that are in a partition."""
        count = int(kept.bounds[-1])
        begin = count * kept.width
        which = self._spill.part(kept.words, begin, begin + (count + 1) // 2).view(np.uint16)
        return np.flatnonzero(which[:count] == partition)

    def require_distinct_steps(self) -> None:
        """Refuses two rows with the same step of the same trajectory, and shows the first such."""
        if self._twice:
            _, row, again = min(self._twice, key=itemgetter(0))
            raise DataError(stands_twice(row, again, self._rules))

    def close(self) -> None:
        """Forgets every row."""
        self._kept = {}
        self._spill.close()

    def _remember(
        self, keys: Integers, steps: Integers, which: Words, chunks: Integers, rows: Integers
    ) -> None:
        """Of the rows with the same step of the same trajectory the pair that is complete first."""
        places = (chunks << 32) + rows
        order = np.lexsort((places, steps, which))
        row, again = order[:-1], order[1:]
        same = (which[row] == which[again]) & (steps[row] == steps[again])
        first = np.flatnonzero(same)[np.argmin(places[again[same]])]

        def told(at: int) -> Row:
            kept, number = self._kept[int(chunks[at])], int(rows[at])
            first, origin = kept.origins[bisect(kept.origins, number, key=itemgetter(0)) - 1]
            return Row(origin, number - first, keys[at].reshape(kept.ids, -1), int(steps[at]))

        self._twice.append((int(places[again[first]]), told(row[first]), told(again[first])))

    def _require_room(self, size: int) -> None:
        if size > self._most:
            whole = "person" if self._by_person else "trajectory"
            needed = -(-(40 * size + RESERVED_BYTES) >> 20)
            raise DataError(
                f"rows that must be in memory together take {-(-size >> 20)} MB: one {whole} has "
                f"very many, or the source is very large; give memory={needed << 20}"
            )


class _Scratch:
    """Arrays that are used again and again: a new one costs a page fault for every 4 KB."""

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[np.uint8]] = {}

    def __call__(self, name: str, kind: type[np.generic], count: int) -> NDArray[Any]:
        size = count * np.dtype(kind).itemsize
        if name not in self._kept or len(self._kept[name]) < size:
            self._kept[name] = np.empty(size + size // 4, dtype=np.uint8)
        return self._kept[name][:size].view(kind)


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


def _numbers(words: Words, lanes: int, shift: int) -> tuple[Integers, Integers]:
    """The lanes of ids, and the steps, that the words stand for."""
    if shift >= 0:
        return words[:, :lanes].astype(np.int64), words[:, lanes].astype(np.int64) >> shift
    numbers = np.ascontiguousarray(words[:, : 2 * lanes + 2]).view(np.int64)
    return numbers[:, :-1], numbers[:, -1]


def _needed(words: Words, kept: _Kept) -> int:
    """How many lanes the longest id of these rows has; the rest is zero."""
    if kept.lanes == 1 or len(words) == 0:
        return 1
    keys, _ = _numbers(words, kept.ids * kept.lanes, kept.shift)
    used = keys.reshape(len(words), kept.ids, kept.lanes).any(axis=(0, 1))
    return int(np.flatnonzero(used)[-1]) + 1 if used.any() else 1


def _within(numbers: Integers, low: int, high: int) -> bool:
    """Whether all are at least ``low`` and below ``high``."""
    return bool(numbers.min() >= low and numbers.max() < high)
