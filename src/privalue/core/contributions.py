"""Sum the contributions of units: the checked boundary between readers and the trusted core.

| symbol     | here                          | shape | public      |
|------------|-------------------------------|-------|-------------|
| m          | ``trajectories``              |       | see ``PublicSize`` |
| \\|X_s\\|  | ``counts``                    | N     | **private** |
| S_s        | ``return_sums``               | N     | **private** |
| F_X        | ``mean_returns()``            | N     | **private** |
| F_lo, F_hi | ``limits.return_bounds``      |       | yes         |
| B_j        | ``limits.smallest_radius`` 2^j | J    | yes         |
| C          | ``limits.clip``               |       | yes         |
| sum of rho, rho (G - c) | ``weight_steps``, ``weighted_steps`` | N | **private** |

A reader promises one thing: each row's numbers come from that row alone. Any other mistake of a
reader is an error here, never a weaker guarantee. Rows of a batch ascend by (unit,
trajectory, step), and units are whole. A batch covers a range of units, or a range of units among
those whose hash is in a span; ranges that overlap raise, so no unit is handed over twice, nor cut
in two. Keys exist and rewards are finite.

The return of a trajectory from its first visit to s is F_{x,s} = sum_t gamma^t r_{t + i_{x,s}}
([BGP16] section 2.2), computed backwards as G = r + gamma G in one fixed order, clamped to
[F_lo, F_hi], and rounded to the public grid of 2^30 steps over that range. A key's sum is an
int64 number of such steps: exact, so that merging is associative, every engine gives the same bits
and no order of summation can leak (Casacuberta et al. 2022). m trajectories add at most 2^30 m
steps to a key; m < 2^33 is checked, so the sums cannot overflow.

If a stage will choose a bound, a visit also has a level: the first of J public intervals
[ref - B_j, ref + B_j] that contains its return. Visits and steps are summed separately for each
key, level and side of ref, so that sums clamped to any of the intervals follow exactly; and each
trajectory is counted once, at the largest level among its counted visits.

With ratios pi/b of two policies' probabilities, a trajectory has an importance weight rho, the
product of its rows' ratios, clamped to [0, C] (NaN to 0), as j of 2^30 steps. Its return minus the
middle c of the bounds, times rho, is truncated towards zero to t steps of C R/2^30: so 2|t| <= j
holds in whole numbers, which rounding to nearest would break (docs/proofs/weights.md).

Contributions beyond the limits are dropped, and the others are not scaled: the first L trajectories
of a unit count, in the order of their ids, and of each the first visits to its first H distinct
keys. Both rules depend on that unit's rows only.
"""

from collections import namedtuple
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.core import kernel
from privalue.core.kernel import GRID_STEPS, WHOLE_SPAN, Integers, Vector
from privalue.core.limits import MAX_TRAJECTORIES, Limits
from privalue.core.private import Private, sealed
from privalue.errors import BoundaryError, DataError

# Types of ids, steps, keys, rewards and ratios. Widening int32 and float32 is exact.
_TYPES = ({"int64"}, {"int64", "int32"}, {"int32"}, {"float64", "float32"}, {"float64"})


def _empty() -> Integers:
    return np.zeros(0, dtype=np.int64)


class BatchRange(NamedTuple):
    """The range of units of a batch, by the ids of its first and last unit. PRIVATE.

    No other batch may have a unit in this range whose hash is in the span.
    """

    span: tuple[int, int]
    first: tuple[tuple[int, ...], ...]  # id x word
    last: tuple[tuple[int, ...], ...]


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Statistics(Private):
    """The number of trajectories that visit each key, and their sum of returns; ``a + b`` merges.

    Surplus trajectories of a person, and visits beyond a trajectory's first H distinct keys, do
    not count; their number, like all counters, is for the curator alone.
    """

    limits: Limits  # enforced on every unit
    # Whole numbers, of each key, in grid steps where they are sums
    counts: Integers  # the trajectories that visit it
    return_steps: Integers  # their returns less F_lo
    level_counts: Integers = field(default_factory=_empty)  # the counts, by (level, side of ref)
    level_steps: Integers = field(default_factory=_empty)  # the sums, likewise; or both empty
    largest_levels: Integers = field(default_factory=_empty)  # trajectories, by largest level
    weight_steps: Integers = field(default_factory=_empty)  # of rho; empty without weights
    weighted_steps: Integers = field(default_factory=_empty)  # of rho (G - c), likewise
    # Counters get no noise, and none leaves: nothing bounds the sensitivity of most. m and U are
    # published without noise only where they are the same for all neighbours (``PublicSize``).
    trajectories: int  # m: those that count
    persons: int = 0  # U, those that count, if the unit is a person
    rows: int = 0
    rewards_clamped: int = 0
    returns_clamped: int = 0
    surplus_trajectories: int = 0  # beyond the first L of a unit
    surplus_visits: int = 0  # beyond the first H keys of a trajectory
    units_dropped: int = 0  # for a row that is invalid, where the study says so
    rows_left_out: int = 0  # without a readable unit
    weights_clipped: int = 0  # trajectories whose weight is above C
    batch_ranges: tuple[BatchRange, ...] = ()

    def __post_init__(self) -> None:
        # Copied and read-only, so that counts cannot change after they were checked.
        for name in ARRAYS:
            array = np.array(getattr(self, name), dtype=np.int64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.trajectories > MAX_TRAJECTORIES:
            raise DataError(f"more than {MAX_TRAJECTORIES} trajectories: sums would not be exact")
        # For every source, also a merge: no key has more visits than there are trajectories, nor
        # larger returns.
        counts, steps, most = self.counts, self.return_steps, self.counts * GRID_STEPS
        inside = (counts >= 0) & (counts <= self.trajectories) & (steps >= 0) & (steps <= most)
        if self.level_counts.size:
            inside &= self.level_counts.sum(axis=1) == counts
            inside &= self.level_steps.sum(axis=1) == steps
            levels = self.largest_levels.sum()
            inside &= levels <= self.trajectories
            inside &= self.limits.has_ends | (levels == self.trajectories)
        if self.weight_steps.size:
            inside &= 2 * np.abs(self.weighted_steps) <= self.weight_steps
            inside &= self.weight_steps <= most
        if not inside.all():
            raise BoundaryError("sums", 0)
        _require_disjoint(self.batch_ranges)

    def _public_shape(self) -> str:
        return f"states={len(self.counts)}"

    def __add__(self, other: "Statistics") -> "Statistics":
        """Return the statistics of both data sets together; raise if they may share a unit.

        Sums are whole numbers, so that any order of merging gives the same bits.
        """
        if self.limits != other.limits:
            raise DataError("statistics of different state spaces or return bounds do not add up")
        names = (*NUMBERS, "batch_ranges")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Statistics(limits=self.limits, **sums)

    def __eq__(self, other: object) -> bool:
        """Return whether all numbers are equal, regardless of batches."""
        return isinstance(other, Statistics) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in NUMBERS
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def return_sums(self) -> Vector:
        """Return S_s = n_s F_lo + steps (F_hi - F_lo) / 2^30."""
        low, high = self.limits.return_bounds
        return self.counts * low + self.return_steps * ((high - low) / GRID_STEPS)

    def clamped_steps(self, level: int) -> Integers:
        """Return the sums with every return clamped to the interval of a level, in grid steps.

        Returns of higher levels lie outside it: those above count as its upper end, those below as
        its lower end. The interval of the last level is the whole range.
        """
        if not self.level_counts.size:
            return self.return_steps
        low, high = self.limits.clamping_interval(level)
        cells = 2 * (level + 1)
        beyond = self.level_counts[:, cells:]
        ends = beyond[:, ::2].sum(axis=1) * high + beyond[:, 1::2].sum(axis=1) * low
        return np.asarray(self.level_steps[:, :cells].sum(axis=1) + ends)

    def mean_returns(self, unvisited: float, *, pseudo_count: float = 0.0) -> Vector:
        """Return F_X, the mean first-visit return of every key; ``unvisited`` without visits.

        With kappa pseudo-visits at that value: (kappa unvisited + S_s)/(kappa + |X_s|), which is
        a convex combination of the mean and ``unvisited`` (docs/proofs/dp-lsw.md). The mean is
        clamped again: the sensitivity of LSW requires that every entry of F_X lies between the
        bounds, and rounding could leave them.
        """
        low, high = self.limits.return_bounds
        visits = np.maximum(self.counts, 1)
        means = low + (self.return_steps / visits) * ((high - low) / GRID_STEPS)
        share = visits / (visits + pseudo_count)  # of actual visits
        means = share * means + (1 - share) * unvisited
        return np.where(self.counts > 0, np.clip(means, low, high), unvisited)

    def require_data(self) -> "Statistics":
        """Refuse an empty data set, but only if its size is public.

        If it is secret (add-remove neighbours, or dropped invalid units), an error for "no rows"
        would distinguish an empty data set from its neighbour with one trajectory.
        """
        if self.rows == 0 and self.limits.size_is_public:
            raise DataError("the data has no rows; at least one trajectory is needed")
        return self


# The fields that add up: seven arrays by key or level, which get noise; counters for the curator.
NUMBERS = Statistics.__slots__[1:-1]
ARRAYS, COUNTERS = NUMBERS[:7], NUMBERS[7:]

# Arguments of ``gather``: the limits that it enforces, and the sums that it adds to (PRIVATE).
_RULES = [*(field.name for field in fields(Limits)), "centre_step", "smallest_radius"]
_SUMS = [*NUMBERS, "last_seen_in", "last_number"]
Rules = namedtuple("Rules", _RULES)  # type: ignore[misc]  # names are those of ``Limits``
Sums = namedtuple("Sums", _SUMS)  # type: ignore[misc]
# Numba finds compiled code on disk by the types of its arguments. The type of this one contains the
# names of the others' fields: code that was compiled for another order of fields is not used.
_LAYOUT = np.zeros(0, dtype=[(name, np.int8) for name in (*_RULES, *_SUMS)])


class Contributions(Private):
    """Sum up the bounded contributions of units, batch by batch; memory O(N + longest unit)."""

    __slots__ = ("_batch_ranges", "_limits", "_refused", "_sums")

    def __init__(self, limits: Limits) -> None:
        self._limits, self._refused = limits, False
        self._batch_ranges: list[BatchRange] = []
        keys, weight_keys = limits.keys, limits.keys if limits.clip else 0
        cells = (keys if limits.levels > 1 else 0, 2 * limits.levels)
        arrays = (keys, keys, cells, cells, limits.levels, weight_keys, weight_keys)
        shapes = (*arrays, *(1 for _ in COUNTERS), keys, 1)
        self._sums = Sums(*(np.zeros(shape, dtype=np.int64) for shape in shapes))

    def add(
        self,
        ids: Integers,
        steps: NDArray[np.signedinteger],
        keys: NDArray[np.int32],
        rewards: NDArray[np.floating],
        ratios: Vector | None = None,
        *,
        span: tuple[int, int] = WHOLE_SPAN,
    ) -> None:
        """Add a batch of whole units, ascending by (unit, trajectory, step).

        If invalid units are dropped, the key N marks an invalid row; a step that appears twice in
        its trajectory, or an arm that differs from the unit's, makes the unit invalid, too. If
        truncated trajectories are dropped, the key N also marks these.

        Args:
            ids: row x id x word. If the unit is a person, the first id is the person's and the
                unit's; otherwise all ids together are the unit's. Short ids end with zeros.
            steps: of each row, within its trajectory; of 32 or 64 bits.
            keys: of each row, 0 .. N - 1.
            rewards: of each row; finite, of 32 or 64 bits (widening to doubles is exact).
            ratios: pi/b of each row, with importance weights; any doubles.
            span: the range of the upper halves of ``unit_hash`` that the batch covers.

        Raises:
            BoundaryError: a check of the rows failed. Nothing can be added any more.
        """
        limits, (rows, ids_per_row, words) = self._limits, ids.shape
        ratios = np.zeros(0) if ratios is None else ratios
        flat_ids = ids.reshape(rows, ids_per_row * words)
        columns: list[NDArray[Any]] = [flat_ids, steps, keys, rewards, ratios]
        lengths = [rows, rows, rows, rows, rows if limits.clip else 0]
        if [len(column) for column in columns] != lengths or ids_per_row * words == 0:
            raise BoundaryError("length", 0)
        # The kernel relies on lengths and types. A conversion here could round a reward or wrap a
        # key around.
        for column, types in zip(columns, _TYPES, strict=True):
            if str(column.dtype) not in types:
                raise BoundaryError("type", 0)
        if self._refused:
            raise BoundaryError("order", 0)
        if rows == 0:
            return
        # Read-only, contiguous views have one type, so that one kernel is compiled.
        arrays = [np.ascontiguousarray(column).view() for column in columns]
        for array in arrays:
            array.setflags(write=False)
        # Recorded before the sums, so that units count as covered if the kernel is interrupted.
        unit_ids = 1 if limits.unit == "person" else ids_per_row
        first, last = (tuple(map(tuple, ids[at, :unit_ids].tolist())) for at in (0, -1))
        self._batch_ranges.append(BatchRange(span, first, last))
        rules = Rules(*(getattr(limits, name) for name in _RULES))
        reason, row = kernel.gather(*arrays, unit_ids * words, span, _LAYOUT, rules, self._sums)
        if reason:
            # Units before that row are already in the sums, which must not be used any more.
            self._refused = True
            raise BoundaryError(reason, row)

    def finish(self, *, rows_left_out: int = 0) -> Statistics:
        """Return the statistics of all batches.

        Args:
            rows_left_out: how many rows had no readable unit, for the curator.

        Raises:
            BoundaryError: two batches share a unit, or a batch was refused.
        """
        if self._refused:
            raise BoundaryError("order", 0)
        sums = self._sums._asdict()
        numbers: dict[str, Any] = {name: sums[name] for name in ARRAYS}
        numbers |= {name: int(sums[name][0]) for name in COUNTERS}
        numbers["rows_left_out"] = rows_left_out
        if self._limits.unit != "person":
            numbers["persons"] = 0
        return Statistics(limits=self._limits, batch_ranges=tuple(self._batch_ranges), **numbers)


def _require_disjoint(batches: tuple[BatchRange, ...]) -> None:
    """Raise unless no two batches can share a unit: spans are apart, or equal with ranges apart.

    Equal units have equal hashes, so spans that are apart share none; within one span, ranges of
    ids that are apart share none. Spans that overlap in part are refused. Neighbours in sorted
    order suffice: the kernel checked first <= last, so both conditions carry over to all pairs.
    """
    # One number of ids in all batches, and spans of hashes that exist, or nothing compares.
    spans = all(0 <= low < high <= WHOLE_SPAN[1] for (low, high), _, _ in batches)
    if not spans or len({len(batch.first) for batch in batches}) > 1:
        raise BoundaryError("span", 0)
    words = max((len(word) for batch in batches for word in batch.first + batch.last), default=0)

    def pad(unit: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return ids with zeros up to the most words: one id may come in batches of any width."""
        return tuple((*one, *(0,) * (words - len(one))) for one in unit)

    ranges = sorted((span, pad(first), pad(last)) for span, first, last in batches)
    for (span, _, last), (other, first, _) in pairwise(ranges):
        if not (span[1] <= other[0] or (span == other and last < first)):
            raise BoundaryError("twice", 0)
