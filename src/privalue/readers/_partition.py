"""Bring rows that come in any order together by unit, in memory or on disk.

**Partitions as spans of a hash.** Every unit has a hash of 64 bits, ``unit_hash`` of the core. The
range of its upper 32 bits is divided into equal spans, and a partition holds the units whose hash
is in its span. So all rows of a unit meet in one partition, wherever they come from, and a
partition is small enough to be sorted in memory. One that is not is halved: its span is divided
again. Two units with the same hash share a partition and nothing else: ids are compared.

The rows of a read task are packed (``_grouping``), in the order of their partitions, and kept in
memory or on disk (``_spill``). To hand a partition over is to collect its slice of what every task
kept, and to unpack the rows in the order of (unit, trajectory, step). The core checks that order,
and that each unit is in the span that it was announced with.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from threading import Lock, local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.core import Integers, Private, sealed
from privalue.errors import BoundaryError, DataError
from privalue.readers._cells import widened
from privalue.readers._chunks import Location, Origins
from privalue.readers._encode import Rows
from privalue.readers._grouping import (
    are_single,
    arrange,
    choose,
    group,
    rank,
    scatter,
    upper_hashes,
)
from privalue.readers._order import duplicate, second_arm
from privalue.readers._rules import RowRules
from privalue.readers._spill import Packed, Spill

PARTITION_BYTES = 1 << 22  # by 24 a row: fewer are filled faster, smaller ones are sorted faster
MOST_PARTITIONS = 1024
RESERVED_BYTES = 512 << 20  # the program itself, and chunks on their way
LEAST_BYTES = 1 << 27

_NONE = np.empty(0)  # no probabilities

Span = tuple[int, int]  # of the upper half of a unit's hash, the second number excluded
Add = Callable[..., None]  # as Contributions.add, which may be called by several threads at once


class Shape(NamedTuple):
    """How the rows of a task are packed; see ``_grouping``."""

    ids: int
    words: int  # of an id
    wide: bool
    shift: int
    base: int = 0
    single: bool = False
    logged: bool = False  # whether rows have probabilities

    @property
    def width(self) -> int:
        """Return how many numbers a packed row has."""
        return self.before_reward + (1 if self.single else 2)

    @property
    def before_reward(self) -> int:
        """Return how many numbers come before the reward."""
        return self.same + (1 if self.shift >= 0 else 3) + (2 if self.logged else 0)

    @property
    def same(self) -> int:
        """Return how many numbers at the beginning of a row are its ids."""
        return self.ids * self.words * (2 if self.wide else 1)

    @property
    def how(self) -> tuple[bool, int, int]:
        """Return how ids, steps and states are packed, as the kernels take it."""
        return self.wide, self.base, self.shift

    def in_numbers(self, rewards: NDArray[Any], probabilities: NDArray[Any]) -> list[Packed]:
        """Return rewards and probabilities as the numbers that they are packed into."""
        kind = np.float32 if self.single else np.float64
        found = [_numbers(rewards.astype(kind, copy=False)), _numbers(probabilities)]
        for numbers in found:  # as the columns of rows are: one kind, so one compiled kernel
            numbers.setflags(write=False)
        return found

    @staticmethod
    def of_all(slices: "Sequence[_Slice]") -> "Shape":
        """Return a shape that the rows of several slices fit into."""
        shapes = [one.shape for one in slices]
        wide = any(one.wide for one in shapes) or len({one.base for one in shapes}) > 1
        return Shape(
            shapes[0].ids,
            max(one.words_needed() for one in slices),
            wide,
            min(one.shift for one in shapes),
            0 if wide else shapes[0].base,  # ids that have upper halves are kept as they are
            all(one.single for one in shapes),
            shapes[0].logged,  # by the study: all or none
        )


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Bundle(Private):
    """The packed rows of a task, partition by partition."""

    shape: Shape
    bounds: Integers  # the first row of each partition, and the end
    packed: Packed  # rows, then the partition of each

    @property
    def rows(self) -> Packed:
        """Return the packed rows, one after the other."""
        return self.packed[: int(self.bounds[-1]) * self.shape.width]

    @property
    def which(self) -> NDArray[np.uint16]:
        """Return the partition of each row, in the order of the source."""
        count = int(self.bounds[-1])
        return self.packed[count * self.shape.width :].view(np.uint16)[:count]


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class _Kept(Private):
    """A bundle, with the locations that its rows come from."""

    origins: Origins
    shape: Shape
    bounds: NDArray[np.uint32]
    packed: Packed | int  # as in the bundle; or where in the file that is


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class _Cell(Private):
    """Rows of one partition that another process packed."""

    shape: Shape
    packed: Packed | int  # with those of other cells around them; or where in the file these are
    begin: int
    end: int
    places: Integers | None


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class _Slice(Private):
    """The packed rows of one task in a partition, or some of these."""

    kept: "_Kept | _Cell"
    packed: Packed
    task: int = 0
    chosen: Integers | None = None  # which of the task's rows in the partition; None: all

    def __len__(self) -> int:
        return len(self.packed)

    def choose(self, which: Integers) -> "_Slice":
        """Return the slice with some of its rows."""
        before = which if self.chosen is None else self.chosen[which]
        return _Slice(self.kept, self.packed[which], self.task, before)

    @property
    def shape(self) -> Shape:
        """Return how the rows are packed."""
        return self.kept.shape

    def ids(self) -> Integers:
        """Return row x word, all ids of a row side by side."""
        return _unpacked(self.shape, self.packed)[0]

    def words_needed(self) -> int:
        """Return how many words the longest id has; the words after it are zero."""
        if self.shape.words == 1 or len(self) == 0:
            return 1
        used = self.ids().reshape(len(self), self.shape.ids, self.shape.words).any(axis=(0, 1))
        return int(np.flatnonzero(used)[-1]) + 1 if used.any() else 1

    def alike(self, shape: Shape) -> Packed:
        """Return the rows packed in another way, so that all slices of a partition are alike."""
        if self.shape == shape:
            return self.packed
        ids, steps, states, *others = _unpacked(self.shape, self.packed)
        by_id = ids.reshape(len(self), shape.ids, self.shape.words)[:, :, : shape.words]
        flat = np.ascontiguousarray(widened(by_id, shape.words).reshape(len(self), -1))
        packed = np.empty((len(self), shape.width), dtype=np.int32)
        at = np.zeros(len(self), dtype=np.uint16), np.zeros(1, dtype=np.int64)  # one partition
        scatter(flat, steps, states, *shape.in_numbers(*others), *shape.how, *at, packed)
        return packed


# Rows of a partition: how they are packed, task by task, as they were kept, and their span.
_Part = tuple[Shape, list[Packed], Iterable[_Slice], Span]


class _Mistake(NamedTuple):
    """Two rows that contradict each other. PRIVATE."""

    again: int  # the number of the later row
    first: int
    ids: Integers  # of the later row
    found: int | tuple[int, int]  # the step that both have; or the keys of both


class Partitions:
    """The rows of a source, by partition; several threads may put and hand over at once."""

    def __init__(
        self,
        memory: int,
        rows: int | None,
        rules: RowRules,
        *,
        count: int | None = None,
        locate: Callable[[int], tuple[Location, int]] | None = None,
        places: bool = True,
    ) -> None:
        """Divide the hash into partitions, and the memory.

        Args:
            memory: bytes that the process may use, about; rows that need more go to disk.
            rows: how many there will be, if that is known.
            rules: how they were read.
            count: how many partitions, if that is already decided.
            locate: returns the location of a row by its number, and the position there, if rows
                come as cells.
            places: whether to remember where rows are in the source; only the message about a
                duplicate step needs it.
        """
        size = 256 * PARTITION_BYTES if rows is None else 24 * rows
        self.count = count or min(max(size // PARTITION_BYTES, 1), MOST_PARTITIONS)
        self._rules = rules
        free = max(memory - RESERVED_BYTES, LEAST_BYTES)
        self._most = free // 40  # bytes of a partition: arranging two at once takes 11 times that
        self._spill = Spill(free * 15 // 16 if memory > RESERVED_BYTES else 0)
        self._kept: dict[int, _Kept] = {}  # by number of the task
        self._cells: dict[int, list[_Cell]] = {}  # by partition
        self._mistakes: list[_Mistake] = []
        self._locate = locate or self._find
        self._local = local()
        self._remembers_places = places
        self._base: int | None = None  # of ids; settled with the first rows
        self._settling = Lock()

    def put(self, parts: Sequence[Rows], task: int | None = None) -> None:
        """Keep some rows.

        Args:
            parts: the rows, none of the parts empty.
            task: the number of the task that read them, if several threads put; it orders the
                tasks.
        """
        task = len(self._kept) if task is None else task
        with self._settling:  # any base is right, but two would make rows of two shapes
            if self._base is None:
                self._base = _middle(parts)
        room, places = self._spill.buffer, self._remembers_places
        bundle = pack(parts, self.count, self._rules, room, base=self._base, places=places)
        starts = [0, *accumulate(map(len, parts))]
        origins = Origins.together([part.origins for part in parts], starts[:-1])
        where, bounds = self._spill.keep(bundle.packed), bundle.bounds.astype(np.uint32)
        self._kept[task] = _Kept(origins, bundle.shape, bounds, where)

    def put_cells(
        self,
        partitions: Sequence[int],
        shapes: Sequence[Shape],
        rows: Packed,
        ends: Sequence[int],
        places: Integers | None = None,
    ) -> None:
        """Keep rows that were packed elsewhere, by a ``pack`` with as many partitions.

        Args:
            partitions: of each cell.
            shapes: likewise.
            rows: the packed rows of all cells, one cell after the other.
            ends: where in ``rows`` each cell ends.
            places: the number of each row, if it is known; an earlier row has a smaller one.
        """
        kept, begin, row = self._spill.keep(rows), 0, 0
        for partition, shape, end in zip(partitions, shapes, ends, strict=True):
            after = row + (end - begin) // shape.width
            here = None if places is None else places[row:after]
            if begin < end:
                cell = _Cell(shape, kept, begin, end, here)
                self._cells.setdefault(partition, []).append(cell)
            begin, row = end, after

    def hand_over(self, partition: int, add: Add) -> int:
        """Add the units of a partition, and return how many rows they have.

        A partition may be larger than memory allows: an id is much longer than the others, or the
        number of rows was estimated wrongly. Then it is handed over some units at a time; only a
        single unit can be too large. Duplicate steps, and units with two arms, are remembered, not
        raised: those of another partition may be earlier in the source.

        Args:
            partition: its number.
            add: the core's ``Contributions.add``; several threads may call it at once.
        """
        low, high = (-(-(at << 32) // self.count) for at in (partition, partition + 1))
        return sum(
            self._arranged(partition, *part, add) for part in self._parts(partition, (low, high))
        )

    def _parts(self, partition: int, span: Span) -> Iterator[_Part]:
        """Yield the rows of a partition that are to be in memory together, all packed alike."""
        alike = self._alike
        if alike is not None:
            shape, tables, bounds = alike
            ends = bounds[:, partition : partition + 2].tolist()
            pieces = [table[begin:end] for table, (begin, end) in zip(tables, ends, strict=True)]
            if 4 * shape.width * sum(map(len, pieces)) <= self._most:
                yield shape, pieces, self._slices(partition), span
                return
        for slices, units in self._divided(list(self._slices(partition)), span):
            shape = Shape.of_all(slices)
            yield shape, [one.alike(shape) for one in slices], slices, units

    @cached_property
    def _alike(self) -> tuple[Shape, list[Packed], NDArray[np.uint32]] | None:
        """Return how all tasks packed their rows, the rows, and where partitions begin in them.

        That is the usual case, in which there is nothing to decide slice by slice. None where there
        is: rows on disk or from elsewhere, ids of several words, tasks that packed in other ways.
        """
        kept = [one for _, one in sorted(self._kept.items())]
        held = [one.packed for one in kept if not isinstance(one.packed, int)]
        shapes = {one.shape for one in kept}
        if self._cells or len(held) < len(kept) or len(shapes) != 1:
            return None
        (shape,) = shapes
        if shape.words > 1:
            return None
        sizes = [int(one.bounds[-1]) * shape.width for one in kept]
        tables = [
            packed[:size].reshape(-1, shape.width) for packed, size in zip(held, sizes, strict=True)
        ]
        return shape, tables, np.stack([one.bounds for one in kept])

    def _slices(self, partition: int) -> Iterator[_Slice]:
        """Yield what tasks and cells have of a partition, in the order of the tasks."""
        for task, kept in sorted(self._kept.items()):
            begin, end = kept.bounds[partition : partition + 2].tolist()
            if begin < end:
                width = kept.shape.width
                packed = self._spill.part(kept.packed, begin * width, end * width)
                yield _Slice(kept, packed.reshape(end - begin, width), task)
        for cell in self._cells.get(partition, ()):
            packed = self._spill.part(cell.packed, cell.begin, cell.end)
            yield _Slice(cell, packed.reshape(-1, cell.shape.width))

    def _divided(self, slices: list[_Slice], span: Span) -> Iterator[tuple[list[_Slice], Span]]:
        """Halve a span until the rows in it fit into memory, and yield each part with its span."""
        if not slices:
            return
        size = 4 * Shape.of_all(slices).width * sum(map(len, slices))
        if size <= self._most:
            yield slices, span
            return
        if span[1] - span[0] == 1:
            self._refuse(size)
        middle = sum(span) // 2
        upper = [_upper(one.ids(), one.shape.words, self._rules) for one in slices]
        for half in ((span[0], middle), (middle, span[1])):
            inside = [np.flatnonzero((half[0] <= u) & (u < half[1])) for u in upper]
            both = zip(slices, inside, strict=True)
            yield from self._divided([one.choose(at) for one, at in both if len(at)], half)

    def _arranged(
        self,
        partition: int,
        shape: Shape,
        pieces: list[Packed],
        slices: Iterable[_Slice],
        span: Span,
        add: Add,
    ) -> int:
        """Add some units of a partition, by unit, trajectory and step; return how many rows.

        Args:
            partition: its number.
            shape: how the rows are packed.
            pieces: the rows, by task.
            slices: the same rows as they were kept; they are looked at where something is wrong.
            span: the span of hashes that these units are in, which the core checks.
            add: the core's ``Contributions.add``.
        """
        count, room = sum(map(len, pieces)), self._scratch()
        if count == 0:
            return 0
        packed = room("packed", np.int32, count * shape.width).reshape(count, shape.width)
        np.concatenate(pieces, out=packed)
        which, firsts = room("which", np.int32, count), room("firsts", np.int32, count)
        spans = [room(name, np.int64, count) for name in ("sizes", "lows", "highs")]
        firsts = firsts[: group(packed, shape.same, shape.shift, which, firsts, *spans)]
        ranks = rank(_unpacked(shape, packed[firsts])[0])
        order = room("order", np.int32, count)
        found = (
            room("ids", np.int64, count * shape.ids * shape.words).reshape(count, -1),
            room("steps", np.int32 if shape.shift >= 0 else np.int64, count),
            room("states", np.int32, count),
            room("rewards", np.float32 if shape.single else np.float64, count),
            room("probabilities", np.float64, count if shape.logged else 0),
        )
        unsorted = room("unsorted", np.int64, count)
        how = *shape.how, shape.single
        arrange(packed, *how, which, ranks, *spans, order, unsorted, *found)
        flat, steps, states, rewards, probabilities = found
        by_id = flat.reshape(count, shape.ids, shape.words)
        logged = (probabilities,) if shape.logged else ()
        try:
            add(by_id, steps, states, rewards, *logged, span=span)
        except BoundaryError as problem:
            if problem.reason not in {"duplicate", "arm"}:
                raise
            places = np.concatenate([self._places(one, partition) for one in slices])[order]
            self._remember_step(by_id, steps, places)
            self._remember_arm(by_id, states, places)
        return count

    def _scratch(self) -> "_Scratch":
        """Return the scratch arrays of this thread."""
        if not hasattr(self._local, "scratch"):
            self._local.scratch = _Scratch()
        scratch: _Scratch = self._local.scratch
        return scratch

    def _places(self, one: _Slice, partition: int) -> Integers:
        """Return the number of each row of a slice; zeros where nobody knows them.

        Of rows that were put here, it is made of the task, and the position among all that the task
        kept.
        """
        kept = one.kept
        if isinstance(kept, _Cell):
            places = kept.places
            if places is None:
                return np.zeros(len(one), dtype=np.int64)
        elif not self._remembers_places:
            return np.zeros(len(one), dtype=np.int64)
        else:
            count = int(kept.bounds[-1])
            begin = count * kept.shape.width
            which = self._spill.part(kept.packed, begin, begin + (count + 1) // 2).view(np.uint16)
            places = (one.task << 32) + np.flatnonzero(which[:count] == partition)
        return places if one.chosen is None else places[one.chosen]

    def _remember_step(self, ids: Integers, steps: Integers, places: Integers) -> None:
        """Remember the first duplicate among some rows, if there is one.

        Of all pairs of rows with the same trajectory and step, this is the pair whose later row
        comes first in the source: the pair that somebody who reads the source from the beginning
        would find.

        Args:
            ids: the ids of sorted rows.
            steps: their steps.
            places: the number of each row.
        """
        same = (ids[1:] == ids[:-1]).all(axis=(1, 2)) & (steps[1:] == steps[:-1])
        run = np.cumsum(np.append(True, ~same))  # rows that are alike have the same number
        twice = np.flatnonzero(np.append(same, False) | np.append(False, same))
        numbers = places[twice]
        by_number = np.lexsort((numbers, run[twice]))
        before, after = by_number[:-1], by_number[1:]
        alike = np.flatnonzero(run[twice[before]] == run[twice[after]])
        if len(alike) == 0:
            return
        first = alike[np.argmin(numbers[after[alike]])]
        row, again = twice[before[first]], twice[after[first]]
        self._mistakes.append(
            _Mistake(int(places[again]), int(places[row]), ids[again].copy(), int(steps[again]))
        )

    def _remember_arm(self, ids: Integers, keys: Integers, places: Integers) -> None:
        """Remember the first row whose arm is not that of its unit's first row in the source.

        Args:
            ids: the ids of sorted rows.
            keys: their keys.
            places: the number of each row.
        """
        if not self._rules.arms:
            return
        units = ids[:, : len(self._rules.unit_roles)]
        run = np.cumsum(np.append(True, (units[1:] != units[:-1]).any(axis=(1, 2))))
        order = np.lexsort((places, run))
        _, begins = np.unique(run[order], return_index=True)
        first = order[begins][run[order] - 1]  # of each row's unit
        arms = keys // self._rules.states
        counted = ~np.isin(run, run[keys >= self._rules.keys])  # units that are not left out
        others = np.flatnonzero((arms[order] != arms[first]) & counted[order])
        if len(others):
            at = others[np.argmin(places[order[others]])]
            again, before = order[at], first[at]
            pair = int(keys[again]), int(keys[before])
            self._mistakes.append(
                _Mistake(int(places[again]), int(places[before]), ids[again].copy(), pair)
            )

    def _find(self, place: int) -> tuple[Location, int]:
        """Return the location of a row, and its position there."""
        return self._kept[place >> 32].origins.find(place & 0xFFFFFFFF)

    @property
    def sound(self) -> bool:
        """Return whether no partition that was handed over had a duplicate step or a second arm."""
        return not self._mistakes

    def require_sound(self) -> None:
        """Raise for the first two rows with one step of a trajectory, or two arms of a unit."""
        if self._mistakes:
            again, first, ids, found = min(self._mistakes, key=itemgetter(0))
            location, at = self._locate(first)
            pair = (*self._locate(again), location.where(at), ids)
            if isinstance(found, int):
                raise duplicate(*pair, found, self._rules)
            raise second_arm(*pair, found, self._rules)

    def close(self) -> None:
        """Forget every row, and remove what is on disk."""
        self._kept, self._cells = {}, {}
        self._spill.close()

    def _refuse(self, size: int) -> None:
        """Raise DataError for rows that do not fit into memory, with the memory that they need."""
        whole = "person" if self._rules.by_person else "trajectory"
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


def pack(
    parts: Sequence[Rows],
    partitions: int,
    rules: RowRules,
    room: Callable[[int], Packed],
    *,
    base: int | None = None,
    places: bool = True,
) -> Bundle:
    """Pack rows in the order of their partitions.

    Args:
        parts: the rows, none of the parts empty.
        partitions: into how many spans the hash is divided.
        rules: how rows were read.
        room: returns an array for so many numbers.
        base: what to take off ids of one word, and let rewards be floats of 32 bits where they
            are; None: rows travel, and two shapes are enough.
        places: whether to keep the partition of each row, in the order of the source.
    """
    (_, ids, _), words = parts[0].ids.shape, max(part.ids.shape[2] for part in parts)
    flat = [widened(part.ids, words).reshape(len(part), ids * words) for part in parts]
    shape = _shape(parts, flat, ids, words, rules, base)
    *starts, count = accumulate(map(len, parts), initial=0)
    which, sizes = np.empty(count, dtype=np.uint16), np.zeros(partitions, dtype=np.int64)
    for start, part in zip(starts, flat, strict=True):
        choose(part, _unit_words(part, words, rules), which[start:], sizes)
    bounds = np.append(0, np.cumsum(sizes))
    free, width = bounds[:-1].copy(), shape.width
    packed = room(count * width + (count + 1) // 2 * places)
    table = packed[: count * width].reshape(count, width)
    for start, part, rows in zip(starts, flat, parts, strict=True):
        logged = _NONE if rows.probabilities is None else rows.probabilities
        numbers = part, rows.steps, rows.states, *shape.in_numbers(rows.rewards, logged)
        scatter(*numbers, *shape.how, which[start:], free, table)
    bundle = Bundle(shape, bounds, packed)
    if places:
        bundle.which[:] = which
    return bundle


def _shape(
    parts: Sequence[Rows],
    flat: Sequence[Integers],
    ids: int,
    words: int,
    rules: RowRules,
    base: int | None,
) -> Shape:
    """Return the shape that takes the fewest numbers, of those that these rows fit into."""
    logged = parts[0].probabilities is not None
    bits = rules.keys.bit_length()  # room for ``keys``, an invalid row's state
    narrow = bits < 31 and all(_within(part.steps, 0, 2 ** (31 - bits)) for part in parts)
    off = base or 0
    wide = not all(_within(numbers, off - 2**31, off + 2**31) for numbers in flat)
    if base is None:
        wide = wide or not narrow
        return Shape(ids, words, wide, -1 if wide else bits, logged=logged)
    rewards = [part.rewards for part in parts]
    single = all(one.dtype == np.float32 or are_single(one) for one in rewards)
    return Shape(ids, words, wide, bits if narrow else -1, 0 if wide else off, single, logged)


def _middle(parts: Sequence[Rows]) -> int:
    """Return the middle of the ids, where a row has one of one word; else 0."""
    if any(part.ids.shape[1:] != (1, 1) for part in parts):
        return 0
    return (min(int(p.ids.min()) for p in parts) + max(int(p.ids.max()) for p in parts)) // 2


def unpack(shape: Shape, packed: Packed) -> tuple[NDArray[Any], ...]:
    """Return the columns of packed rows, in their order; see ``Rows.columns``."""
    rows = packed.reshape(-1, shape.width)
    ids, *others, probabilities = _unpacked(shape, rows)
    columns = ids.reshape(len(rows), shape.ids, shape.words), *others
    return (*columns, probabilities) if shape.logged else columns


def _unpacked(shape: Shape, rows: Packed) -> tuple[NDArray[Any], ...]:
    """Do the same, with all ids of a row side by side, and no probabilities as an empty array."""
    first, rest = rows[:, : shape.same], np.ascontiguousarray(rows[:, shape.same :])
    wide = np.ascontiguousarray(first)
    ids = wide.view(np.int64) if shape.wide else first.astype(np.int64) + shape.base
    if shape.shift >= 0:
        steps = rest[:, 0].astype(np.int64) >> shape.shift
        states = rest[:, 0] & ((1 << shape.shift) - 1)
    else:
        steps = np.ascontiguousarray(rest[:, :2]).view(np.int64)[:, 0]
        states = np.ascontiguousarray(rest[:, 2])
    if shape.single:
        rewards = np.ascontiguousarray(rest[:, -1]).view(np.float32).astype(np.float64)
    else:
        rewards = np.ascontiguousarray(rest[:, -2:]).view(np.float64)[:, 0]
    probabilities = np.empty(0)
    if shape.logged:
        end = shape.before_reward - shape.same
        probabilities = np.ascontiguousarray(rest[:, end - 2 : end]).view(np.float64)[:, 0]
    return ids, steps, states, rewards, probabilities


def _upper(ids: Integers, words: int, rules: RowRules) -> NDArray[np.uint32]:
    """Return the upper half of the hash of each row's unit."""
    upper = np.empty(len(ids), dtype=np.uint32)
    upper_hashes(ids, _unit_words(ids, words, rules), upper)
    return upper


def _unit_words(ids: Integers, words: int, rules: RowRules) -> int:
    """Return how many words at the beginning of a row's ids are its unit's."""
    return words if rules.by_person else ids.shape[1]


def _numbers(values: NDArray[Any]) -> Packed:
    """Return floats of 32 or 64 bits as the one or two numbers that each is packed into."""
    return values.view(np.int32).reshape(len(values), values.itemsize // 4)


def _within(numbers: Integers, low: int, high: int) -> bool:
    """Return whether all are at least ``low`` and below ``high``."""
    return bool(numbers.min() >= low and numbers.max() < high)
