"""Add up what every unit contributes: the one checked boundary between readers and the guarantee.

| symbol     | here                          | shape | public      |
|------------|-------------------------------|-------|-------------|
| m          | ``statistics.trajectories``   |       | see ``PublicSize`` |
| \\|X_s\\|  | ``statistics.counts``         | N     | **private** |
| S_s        | ``statistics.return_sums``    | N     | **private** |
| F_X        | ``statistics.mean_returns()`` | N     | **private** |
| F_lo, F_hi | ``limits.return_bounds``      |       | yes         |
| B_j        | ``limits.nearest`` 2^j        | J     | yes         |
| C          | ``limits.clip``               |       | yes         |
| sum of rho, rho (G - c) | ``weight_steps``, ``weighted_steps`` | N | **private** |

A reader promises a single thing: each row's numbers come from that row alone. Whatever else it
could do wrong is an error here, never a weaker guarantee. Rows of a batch ascend by (unit,
trajectory, step), and units are whole. A batch covers a range of units, or a range of units among
those whose hash is in a span; ranges that overlap raise, so no unit is handed over twice, nor cut
in two. Keys exist and rewards are finite.

The return of a trajectory from its first visit to s is F_{x,s} = sum_t gamma^t r_{t + i_{x,s}}
([BGP16] section 2.2), computed backwards as G = r + gamma G in one fixed order, clamped to
[F_lo, F_hi], and rounded to the public grid of 2^30 steps over that range. A key's sum is an
int64 number of such steps: exact, so that merging is associative, every engine gives the same bits
and no order of summation can leak (Casacuberta et al. 2022). m trajectories add at most 2^30 m
steps to a key; m < 2^33 is checked, so the sums cannot overflow.

Where a private bound is to be chosen later, a visit also has a level: the first of J public
intervals [ref - B_j, ref + B_j] that holds its return. For each key, level and side of ref visits
and steps are kept apart, from which sums clamped to any of the intervals follow exactly; and each
trajectory is counted once, at the largest level among its visits that count.

Where rows have ratios pi/b of two policies' probabilities, a trajectory has a weight rho, the
product of its rows', clamped to [0, C], NaN as 0, in 2^30 steps: j of them. Its return less the
middle c of the bounds, times rho, is truncated towards zero in 2^30 steps over C R: so 2|t| <= j
holds in whole numbers, which rounding to nearest would break (docs/proofs/weights.md).

Contributions stop, they are never scaled: the first L trajectories of a unit count, in the order of
their ids, and of each the first visits to its first H distinct keys. Both rules read that unit's
rows only.
"""

import sys
from collections import namedtuple
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.core._arrays import Integers, Vector
from privalue.core._kernels import kernel
from privalue.core._private import Private, sealed
from privalue.core.limits import GRID_STEPS, MOST_TRAJECTORIES, Limits
from privalue.errors import BoundaryError, DataError

LARGEST_REWARD = sys.float_info.max  # NaN and infinities fail the comparison with it
WHOLE_SPAN = (0, 2**32)  # of the upper half of a unit's hash

_ARRAYS = (
    *("counts", "return_steps", "level_counts", "level_steps", "largest_levels"),
    *("weight_steps", "weighted_steps"),
)
# Of ids, steps, keys, rewards and ratios. What has 32 bits is one of the numbers of 64, the same.
_TYPES = ("int64", "int64 int32", "int32", "float64 float32", "float64")
# By the kernel's number: a row belongs before the one before it; a step appears twice; a key does
# not exist; a reward is not finite; a unit's hash is outside the span; a unit has two arms.
REASONS = ("", "order", "duplicate", "key", "reward", "span", "arm")


# What the kernel tallies, most of it a field of the statistics: "met" are all trajectories, and
# "last" is the number of the last one, that of a dropped unit included.
_TALLY = (
    *("met", "trajectories", "persons", "returns_clamped", "surplus_visits", "units_dropped"),
    *("last", "rewards_clamped", "weights_clipped"),
)


def _nothing() -> Integers:
    return np.zeros(0, dtype=np.int64)


# What the kernel goes by: how many of the first words of a row's ids are its unit's; limits;
# whether a unit with an invalid row does not count; whether N as a key marks a row whose unit does
# not count; how many keys an arm has, N where there are none; and the levels.
_Rules = namedtuple(
    "_Rules",
    "unit_words span_low span_high discount low high reward_low reward_high max_states "
    "max_trajectories dropping marked keys_per_arm reference nearest clip",
)


class Covered(NamedTuple):
    """What a batch covers. PRIVATE: the ids of its first and last unit.

    No other batch may have a unit between them whose hash is in the span.
    """

    span: tuple[int, int]
    first: tuple[tuple[int, ...], ...]  # id x word
    last: tuple[tuple[int, ...], ...]


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Statistics(Private):
    """How many trajectories visit each key, and the sum of their returns; ``a + b`` merges.

    Surplus trajectories of a person, and visits beyond a trajectory's first H distinct keys, do
    not count; how many there were is for the curator.
    """

    return_bounds: tuple[float, float]
    trajectories: int  # that count
    rows: int
    rewards_clamped: int
    returns_clamped: int
    counts: Integers
    return_steps: Integers
    persons: int = 0  # U, where the unit is a person
    surplus_trajectories: int = 0
    surplus_visits: int = 0
    units_dropped: int = 0  # for a row that is invalid, where the study says so
    rows_left_out: int = 0  # that belong to nobody
    weights_clipped: int = 0  # trajectories whose weight is above C
    covered: tuple[Covered, ...] = ()
    limits: Limits | None = None  # that units were held to; made-up numbers may have none
    # key x (level, then below ref or not), both empty for one level
    level_counts: Integers = field(default_factory=_nothing)
    level_steps: Integers = field(default_factory=_nothing)
    largest_levels: Integers = field(default_factory=_nothing)  # trajectories, by largest level
    # of each key, both empty without weights: rho, and rho (G - c), each in its steps
    weight_steps: Integers = field(default_factory=_nothing)
    weighted_steps: Integers = field(default_factory=_nothing)

    def __post_init__(self) -> None:
        # Copied and read-only: nobody changes counts after they were checked.
        for name in _ARRAYS:
            array = np.array(getattr(self, name), dtype=np.int64)
            array = array if array.size else _nothing()
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.trajectories > MOST_TRAJECTORIES:
            raise DataError(f"more than {MOST_TRAJECTORIES} trajectories: sums would not be exact")
        # Merged statistics pass here too: two engines' parts that share a unit do not add up.
        # Whoever made it: no key has more visits than there are trajectories, nor larger returns.
        counts, steps, most = self.counts, self.return_steps, self.counts * GRID_STEPS
        inside = (counts >= 0) & (counts <= self.trajectories) & (steps >= 0) & (steps <= most)
        if self.level_counts.size:
            inside &= self.level_counts.sum(axis=1) == counts
            inside &= self.level_steps.sum(axis=1) == steps
            inside &= self.largest_levels.sum() == self.trajectories
        if self.weight_steps.size:
            inside &= 2 * np.abs(self.weighted_steps) <= self.weight_steps
            inside &= self.weight_steps <= most
        if not inside.all():
            raise BoundaryError("sums", 0)
        _require_disjoint(self.covered)

    def _public_shape(self) -> str:
        return f"states={len(self.counts)}"

    def __add__(self, other: "Statistics") -> "Statistics":
        """Return the statistics of both data sets together; raise where they may share a unit.

        Sums are whole numbers, so that any order of merging gives the same bits.
        """
        bounds, size = self.return_bounds, len(self.counts)
        if (bounds, size, self.limits) != (other.return_bounds, len(other.counts), other.limits):
            raise DataError("statistics of different state spaces or return bounds do not add up")
        added = {
            name: getattr(self, name) + getattr(other, name)
            for name in (*_ARRAYS, *SCALARS, "covered")
        }
        return Statistics(return_bounds=bounds, limits=self.limits, **added)

    def __eq__(self, other: object) -> bool:
        """Return whether all numbers agree, whatever batches they were added in."""
        return isinstance(other, Statistics) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in (*_ARRAYS, *SCALARS, "return_bounds")
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def return_sums(self) -> Vector:
        """Return S_s = n_s F_lo + steps (F_hi - F_lo) / 2^30."""
        low, high = self.return_bounds
        return self.counts * low + self.return_steps * ((high - low) / GRID_STEPS)

    def clamped_steps(self, level: int) -> Integers:
        """Return the sums with every return clamped to the interval of a level, in grid steps.

        Visits of a higher level are outside of it: those above count as its upper end, those
        below as its lower end. The interval of the last level is the whole range.
        """
        if not self.level_counts.size or self.limits is None:
            return self.return_steps
        low, high = self.limits.interval(level)
        cells = 2 * (level + 1)
        beyond = self.level_counts[:, cells:]
        ends = beyond[:, ::2].sum(axis=1) * high + beyond[:, 1::2].sum(axis=1) * low
        return np.asarray(self.level_steps[:, :cells].sum(axis=1) + ends)

    def mean_returns(self, unvisited: float, *, pseudo_count: float = 0.0) -> Vector:
        """Return F_X, the mean first-visit return of every key; ``unvisited`` where nobody was.

        With kappa pseudo-visits at that value: (kappa unvisited + S_s)/(kappa + |X_s|), which is
        a convex combination of the mean and ``unvisited`` (docs/proofs/pseudo-counts.md). The
        mean is clamped once more: the sensitivity of LSW presumes that every entry of F_X lies
        between the bounds, and rounding could leave them.
        """
        low, high = self.return_bounds
        visits = np.maximum(self.counts, 1)
        means = low + (self.return_steps / visits) * ((high - low) / GRID_STEPS)
        share = visits / (visits + pseudo_count)  # of what was seen
        means = share * means + (1 - share) * unvisited
        return np.where(self.counts > 0, np.clip(means, low, high), unvisited)

    def require_data(self, limits: Limits) -> "Statistics":
        """Refuse an empty data set, but only where its size is public.

        Where it is secret (add-remove neighbours, or invalid units dropped), an error for "no
        rows" would distinguish an empty data set from its neighbour with one trajectory.
        """
        if self.rows == 0 and limits.size_is_public:
            raise DataError("the data has no rows; at least one trajectory is needed")
        return self


# The numbers besides those of each key; the curator is shown them.
SCALARS = tuple(name for name, kind in Statistics.__annotations__.items() if kind is int)


class Contributions(Private):
    """Sum up the bounded contributions of units, batch by batch; memory O(N + longest unit)."""

    __slots__ = ("_covered", "_limits", "_room", "_rows", "_sums")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        counts, steps, stamp = (np.zeros(limits.keys, dtype=np.int64) for _ in range(3))
        # The stamp of a key is the number of the trajectory that met it last.
        tally, largest = (np.zeros(n, dtype=np.int64) for n in (len(_TALLY), limits.levels))
        cells = (limits.keys if limits.levels > 1 else 0, 2 * limits.levels)
        by_level = (np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64), largest)
        weights = (np.zeros(limits.keys if limits.clip else 0, dtype=np.int64) for _ in range(2))
        self._sums = (counts, steps, stamp, *by_level, *weights, tally)
        self._rows, self._room = 0, [np.empty(0, dtype=np.uint32)]
        self._covered: list[Covered] | None = []  # None once a batch was refused

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

        Where invalid units are dropped, N as a key marks an invalid row, and so do a step that
        appears twice in its trajectory and an arm that differs from the unit's: their units do not
        count. Where trajectories that were cut off are dropped, N as a key marks these too.

        Args:
            ids: row x id x word. A unit's ids are all of them, or the first, the person's, where
                the unit is a person. An id that needs fewer words ends with zeros.
            steps: of each row, within its trajectory; of 32 bits or 64.
            keys: of each row, 0 .. N - 1.
            rewards: of each row; finite, of 32 bits or 64: each is a double, and taken as one.
            ratios: pi/b of each row, where trajectories have weights; whatever they are.
            span: the units of the batch have an upper half of ``unit_hash`` from the first number
                up to the second.

        Raises:
            BoundaryError: the rows are not as they should be. Nothing can be added any more.
        """
        rows, by_row, words = ids.shape
        given: Any = (steps, keys, rewards, *(() if ratios is None else (ratios,)))
        lengths, weighed = {len(column) for column in given}, ratios is not None
        if lengths != {rows} or weighed != bool(self._limits.clip) or by_row * words == 0:
            raise BoundaryError("length", 0)
        # The kernel trusts lengths and types. A conversion here could round a reward or wrap a
        # key around, so that a row would no longer speak for itself.
        if any(str(c.dtype) not in t.split() for c, t in zip((ids, *given), _TYPES, strict=False)):
            raise BoundaryError("type", 0)
        if rows == 0:
            return
        limits, covered = self._limits, self._batches()
        unit_ids, flat = 1 if limits.by_person else by_row, ids.reshape(rows, by_row * words)
        # Views that are read-only and contiguous: one kind, so one compiled kernel.
        arrays = [np.ascontiguousarray(column).view() for column in (flat, *given)]
        for array in arrays:
            array.setflags(write=False)
        # Before the sums: whatever interrupts the kernel, its units are covered.
        first, last = (tuple(map(tuple, ids[at, :unit_ids].tolist())) for at in (0, -1))
        covered.append(Covered(span, first, last))
        rules = _Rules(
            *(unit_ids * words, *span, limits.discount, *limits.return_bounds),
            *(*limits.reward_bounds, limits.max_states_per_trajectory),
            limits.max_trajectories_per_person,
            *(limits.drop_invalid, limits.drop_invalid or limits.drop_truncated),
            *(limits.keys // limits.arms, limits.reference, limits.nearest, limits.clip),
        )
        # For the longest unit that there could be; only what a unit needs is ever touched, and that
        # again and again: a page of memory takes longer to get than to use.
        if len(self._room[0]) <= rows:
            self._room = [np.empty(rows + 1, dtype=kind) for kind in ("uint32", "int64", "int64")]
        # What no rule asks for is None: the kernel is compiled without it.
        sums = (each if each.size else None for each in self._sums)
        refused, row = _gather(*arrays[:4], rules, [*arrays, None][4], *sums, *self._room)
        if refused:
            # Units before that row are in the sums already: nothing may come of them.
            self._covered = None
            raise BoundaryError(REASONS[refused], row)
        self._rows += rows

    def _batches(self) -> list[Covered]:
        """Return what was covered; raise where a batch was refused, or all of it absorbed."""
        if self._covered is None:
            raise BoundaryError("order", 0)
        return self._covered

    def absorb(self, other: "Contributions") -> None:
        """Add what another one summed up; the other one refuses to be used from then on.

        Its units would count twice otherwise. Stamps are added like everything else: no sum of
        stamps exceeds the sum of the last numbers, so the next trajectory's number is new.
        """
        if self._limits != other._limits:
            raise BoundaryError("limits", 0)
        self._batches().extend(other._batches())
        for mine, its in zip(self._sums, other._sums, strict=True):
            np.add(mine, its, out=mine)
        self._rows += other._rows
        other._covered = None

    def finish(self, *, rows_left_out: int = 0) -> Statistics:
        """Return the statistics of all that was added.

        Args:
            rows_left_out: how many rows belong to nobody, for the curator.

        Raises:
            BoundaryError: two batches share a unit.
        """
        counts, steps, _, *by_level, tally = self._sums
        tallied = dict(zip(_TALLY, tally.tolist(), strict=True))
        met, _ = tallied.pop("met"), tallied.pop("last")
        if not self._limits.by_person:
            tallied["persons"] = 0
        arrays = zip(_ARRAYS, (counts, steps, *by_level), strict=True)
        named: dict[str, Any] = {**dict(arrays), **tallied}
        return Statistics(
            return_bounds=self._limits.return_bounds,
            rows=self._rows,
            rows_left_out=rows_left_out,
            surplus_trajectories=met - tallied["trajectories"],
            **named,
            covered=tuple(self._batches()),
            limits=self._limits,
        )


def _require_disjoint(covered: tuple[Covered, ...]) -> None:
    """Raise unless no two batches can share a unit: spans are apart, or equal with ranges apart.

    Equal units have equal hashes, so spans that are apart share none; within one span, ranges of
    ids that are apart share none. Spans that overlap in part are refused. Neighbours in sorted
    order suffice: the kernel checked first <= last, so both conditions carry over to all pairs.
    """
    # One number of ids in all batches, and spans of hashes that exist, or nothing compares.
    spans = all(0 <= low < high <= WHOLE_SPAN[1] for (low, high), _, _ in covered)
    if not spans or len({len(batch.first) for batch in covered}) > 1:
        raise BoundaryError("span", 0)
    words = max((len(word) for batch in covered for word in batch.first + batch.last), default=0)

    def padded(unit: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return ids with zeros up to the most words: one id may come in batches of any width."""
        return tuple((*one, *(0,) * (words - len(one))) for one in unit)

    ranges = sorted((span, padded(first), padded(last)) for span, first, last in covered)
    for (span, _, last), (other, first, _) in pairwise(ranges):
        if not (span[1] <= other[0] or (span == other and last < first)):
            raise BoundaryError("twice", 0)


@kernel(nogil=True)
def unit_hash(ids, words):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return 64 bits of the first ``words`` words of a row's ids.

    Zeros do not count: an id is the same however many words it is given. The mixing is that of
    SplitMix64; the guarantee needs no property of it but that equal units have equal hashes.
    """
    mixed = np.uint64(0)
    for word in range(words):
        if ids[word] != 0:
            mixed ^= np.uint64(ids[word])
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return mixed


@kernel(nogil=True)
def _gather(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915  # pragma: no cover - compiled
    ids, steps, keys, rewards, rules, ratios,
    counts, sums, stamp, level_counts, level_sums, largest, weight_sums, weighted_sums, tally,
    visits, begins, surplus,
):  # fmt: skip
    """Add whole units to ``counts``, ``sums`` and ``tally``, and check every row.

    Each unit is read forwards, which checks each row and marks the first visits of each
    trajectory. Then the returns of a trajectory are computed backwards, G = r + gamma G, and those
    at its first visits are added. What a unit adds follows from its own rows and the rules alone:
    at most L visits to a key, each with 0 to 2^30 steps, and at most H L visits in all. That is
    what docs/proofs/persons.md and docs/proofs/dp-ssp.md presume of neighbours. With weights, a
    visit adds 0 <= j <= 2^30 and 2|t| <= j besides, as docs/proofs/weights.md presumes.

    Args:
        ids: row x word: the words of the unit's ids first, those of the trajectory's after them.
        steps: of each row.
        keys: of each row; N marks an invalid row, where units are dropped.
        rewards: of each row.
        rules: the limits, and how many words are the unit's.
        ratios: of each row, or None.
        counts: of each key, the trajectories that visit it. Added to.
        sums: of each key, their returns less F_lo, in grid steps. Added to.
        stamp: of each key, the number of the trajectory that met it last. Written to.
        level_counts: key x (level, side): the counts, by where the return is, or None. Added to.
        level_sums: the sums, likewise.
        largest: of each level, the trajectories whose largest it is. Added to.
        weight_sums: of each key, the weights of trajectories, in steps, or None. Added to.
        weighted_sums: of each key, their weights times centred returns, in steps. Added to.
        tally: what ``_TALLY`` names. Added to.
        visits: room for the keys of a unit's rows, twice, and 1 more at first visits that count.
        begins: for the first rows of a unit's trajectories.
        surplus: for how many keys beyond H each of them visits.

    Returns:
        (0, 0), or a place in ``REASONS`` and the row at which a check failed.
    """
    (rows, words), most_keys, dropping = ids.shape, rules.max_states, rules.dropping
    low, high, top = rules.low, rules.high, 1.0 * GRID_STEPS  # all doubles: one min to compile
    scale = GRID_STEPS / (high - low)
    # Two unsigned numbers: Numba compares a signed one with an unsigned one as doubles.
    span = (np.uint64(rules.span_low), np.uint64(rules.span_high))
    whole = rules.span_low == 0 and rules.span_high == 2**32
    row, mark = 0, tally[6]
    met = counted = units = clamped = beyond = dropped = rewards_clamped = clipped = 0
    while row < rows:
        if not whole:
            # Another batch may cover the other hashes, and with them this unit once more.
            upper = unit_hash(ids[row], rules.unit_words) >> np.uint64(32)
            if not span[0] <= upper < span[1]:
                return 5, row
        start, trajectories, invalid, changed = row, 0, False, rules.unit_words
        # One turn for each trajectory; the unit ends where a word of its own ids changes.
        while row < rows and (trajectories == 0 or changed >= rules.unit_words):
            begins[trajectories], seen = row, 0
            # A new number for each trajectory makes all stamps out of date at once: nothing of
            # size N is cleared, and a key is fresh unless this very trajectory has met it.
            mark += 1
            while True:
                key = np.uint32(keys[row])  # a negative one is a very large one
                if key < len(counts):
                    # Compiled code writes wherever a key points to, and a NaN passes every clamp.
                    # With finite rewards G may overflow; an infinity stays one, and is clamped.
                    if not -LARGEST_REWARD <= rewards[row] <= LARGEST_REWARD:
                        return 4, row
                    new, stamp[key] = stamp[key] != mark, mark
                    visits[np.uint64(row - start)] = 2 * key + (new & (seen < most_keys))
                    seen += new
                elif rules.marked and key == len(counts):
                    invalid = True
                else:
                    return 3, row
                row += 1
                if row == rows:
                    break
                # Ids ascend strictly wherever they change, so that no unit and no trajectory can
                # come back later in the batch: equal ids stand together, or the batch is refused.
                changed = 0  # the first word in which a row differs from the one before
                while changed < words and ids[row, changed] == ids[row - 1, changed]:
                    changed += 1
                if changed < words:
                    if ids[row, changed] < ids[row - 1, changed]:
                        return 1, row
                    break
                # Steps put the rows of a trajectory in order and do nothing else: gaps are
                # allowed, and discounting counts rows. Two rows with one step have no order.
                if steps[row] <= steps[row - 1]:
                    if steps[row] < steps[row - 1]:
                        return 1, row
                    if not dropping:
                        return 2, row
                    invalid = True
            surplus[trajectories] = max(seen - most_keys, 0)
            trajectories += 1
        # A matter of meaning: the limits count keys, whichever arm they are in, so that no
        # sensitivity depends on it (docs/proofs/arms.md).
        if rules.keys_per_arm < len(counts) and not invalid:
            for at in range(begins[0] + 1, row):
                if keys[at] // rules.keys_per_arm != keys[begins[0]] // rules.keys_per_arm:
                    if not dropping:
                        return 6, at
                    invalid = True
        # Decided once all rows of the unit were read, and before any of them counts: a unit with
        # an invalid row contributes what an absent one does.
        if invalid:
            dropped += 1
            continue
        begins[trajectories] = row
        met, units = met + trajectories, units + 1
        # The first L trajectories count, in the order of ids. Later ones are not scaled or
        # sampled: both could depend on how many there are, or on other units.
        for trajectory in range(min(trajectories, rules.max_trajectories)):
            counted += 1
            begin, end = begins[trajectory], begins[trajectory + 1]
            value, weight, most_level = 0.0, 1.0, 0
            if ratios is not None:
                for at in range(end - 1, begin - 1, -1):
                    weight *= ratios[at]
                # 0 times an infinity is NaN, and would pass the clamps. x/x is 1 in doubles.
                weight = weight if weight >= 0 else 0.0
            for back in range(end - begin):
                t = np.uint64(end - 1 - back)  # what has no sign cannot count from an array's end
                reward = min(max(np.float64(rewards[t]), rules.reward_low), rules.reward_high)
                rewards_clamped += reward != rewards[t]
                value = reward + rules.discount * value
                # 0 <= steps <= 2^30 holds whatever rounding does: sensitivities rest on it, and so
                # does the sum of 2^33 of them, which has to fit into 63 bits.
                inside = min(max(value, low), high)
                grid_steps = np.int64(min(np.floor((inside - low) * scale + 0.5), top))
                # A row that is no first visit adds 0: processors guess wrong which rows are. The
                # key is the one that was checked, even if the owner of the rows changes it now.
                entry = visits[t - np.uint64(start)]
                key, visit = entry >> 1, np.int64(entry & 1)
                clamped += visit * (value != inside)
                counts[key] += visit
                sums[key] += visit * grid_steps
                if level_counts is not None and visit:
                    away = abs(grid_steps - rules.reference)
                    # By halves: processors guess wrong how many turns a loop takes. The interval of
                    # the last level is the whole range (``Limits.nearest``), so this is no higher.
                    level = 8 * (away > rules.nearest << 7)
                    level += 4 * (away > rules.nearest << (level + 3))
                    level += 2 * (away > rules.nearest << (level + 1))
                    level += away > rules.nearest << level
                    cell = 2 * level + (grid_steps < rules.reference)
                    level_counts[key, cell] += 1
                    level_sums[key, cell] += grid_steps
                    most_level = level if level > most_level else most_level
                if ratios is not None and visit:
                    clipped += weight > rules.clip
                    j = np.int64(min(weight, rules.clip) / rules.clip * GRID_STEPS)
                    centred = grid_steps - GRID_STEPS // 2
                    size = j * abs(centred) // GRID_STEPS  # towards zero; below 2^59 before
                    weight_sums[key] += j
                    weighted_sums[key] += size if centred >= 0 else -size
            largest[most_level] += 1
            beyond += surplus[trajectory]
    found = (met, counted, units, clamped, beyond, dropped, mark - tally[6], rewards_clamped)
    for at, more in enumerate((*found, clipped)):
        tally[at] += more
    return 0, 0
