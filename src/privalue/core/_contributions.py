"""First-visit returns, gathered into exact integers.

| symbol     | here                          | shape | public      |
|------------|-------------------------------|-------|-------------|
| m          | ``statistics.trajectories``   |       | see contract|
| \\|X_s\\|  | ``statistics.counts``         | N     | **private** |
| S_s        | ``statistics.return_sums``    | N     | **private** |
| F_X        | ``statistics.mean_returns()`` | N     | **private** |
| F_lo, F_hi | ``return_bounds``             |       | yes         |

The return of a trajectory from its first visit to s is F_{x,s} = sum_t gamma^t r_{t + i_{x,s}}
([BGP16] section 2.2), computed backwards as G = r + gamma G in one fixed order, clamped to
[F_lo, F_hi], and rounded to the public grid of 2^30 steps over that range. A state's sum is an
int64 number of such steps: exact, so that merging is associative, every engine gives the same bits
and no order of summation can leak (Casacuberta et al. 2022). m trajectories add at most 2^30 m
steps to a state; m < 2^33 is checked, so the sums cannot overflow.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.core._kernels import kernel
from privalue.core._private import Private, sealed
from privalue.errors import DataError
from privalue.readers import Fragment
from privalue.study._sections import MOST_TRAJECTORIES
from privalue.study._study import Study

GRID_STEPS = 2**30

Integers = NDArray[np.int64]

_ARRAYS = ("counts", "return_steps")
SCALARS = (
    "trajectories",
    "rows",
    "rewards_clamped",
    "returns_clamped",
    "persons",
    "surplus_trajectories",
    "surplus_visits",
    "units_dropped",
    "rows_left_out",
    "rows_missing",
)
_ADDED = (*_ARRAYS, *SCALARS)


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class VisitStatistics(Private):
    """How many trajectories visit each state, and the sum of their returns; ``a + b`` merges.

    Surplus trajectories of a person, and visits beyond a trajectory's first H distinct states, do
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
    rows_missing: int = 0  # dropped for a missing state or reward

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = np.array(getattr(self, name), dtype=np.int64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.trajectories > MOST_TRAJECTORIES:
            raise DataError(
                f"more than {MOST_TRAJECTORIES} trajectories; their sums would not be exact"
            )

    def _public_shape(self) -> str:
        return f"states={len(self.counts)}"

    def __add__(self, other: "VisitStatistics") -> "VisitStatistics":
        if not isinstance(other, VisitStatistics):
            return NotImplemented
        if self.return_bounds != other.return_bounds or len(self.counts) != len(other.counts):
            raise DataError("statistics of different state spaces or return bounds do not add up")
        added = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return VisitStatistics(return_bounds=self.return_bounds, **added)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VisitStatistics):
            return NotImplemented
        return (
            self._scalars() == other._scalars()
            and np.array_equal(self.counts, other.counts)
            and np.array_equal(self.return_steps, other.return_steps)
        )

    __hash__ = None  # type: ignore[assignment]

    def _scalars(self) -> tuple[object, ...]:
        return (self.return_bounds, *(getattr(self, name) for name in SCALARS))

    @classmethod
    def empty(cls, study: Study) -> "VisitStatistics":
        """The neutral element of ``+``."""
        nothing = np.zeros(study.state_count, dtype=np.int64)
        return cls(
            return_bounds=study.return_bounds,
            trajectories=0,
            rows=0,
            rewards_clamped=0,
            returns_clamped=0,
            counts=nothing,
            return_steps=nothing,
        )

    @property
    def return_sums(self) -> NDArray[np.float64]:
        """S_s = n_s F_lo + steps (F_hi - F_lo) / 2^30."""
        low, high = self.return_bounds
        return self.counts * low + self.return_steps * ((high - low) / GRID_STEPS)

    def mean_returns(self, unvisited: float, *, pseudo_count: float = 0.0) -> NDArray[np.float64]:
        """F_X, the mean first-visit return of every state; ``unvisited`` where nobody was.

        With kappa pseudo-visits at that value: (kappa unvisited + S_s)/(kappa + |X_s|).
        """
        low, high = self.return_bounds
        visits = np.maximum(self.counts, 1)
        means = low + (self.return_steps / visits) * ((high - low) / GRID_STEPS)
        share = visits / (visits + pseudo_count)  # of what was seen
        means = share * means + (1 - share) * unvisited
        return np.where(self.counts > 0, np.clip(means, low, high), unvisited)


def complete(statistics: VisitStatistics, study: Study) -> VisitStatistics:
    """Refuse an empty data set, but only where its size is public.

    Where it is secret (add-remove neighbours, or invalid units dropped), an error for "no rows"
    would tell an empty data set from its neighbour with one trajectory.
    """
    if statistics.rows == 0 and study.size_is_public:
        raise DataError("the data has no rows; at least one trajectory is needed")
    return statistics


class Accumulator:
    """Takes fragments one after the other; memory O(N + fragment + longest trajectory).

    Of each person the first L trajectories count, in the order of their ids: a rule that reads
    that person's rows only.
    """

    def __init__(self, study: Study) -> None:
        self._discount = study.values.discount
        self._bounds = study.return_bounds
        self._most_states = study.states_per_trajectory
        self._most_trajectories = study.trajectories_per_person
        self._by_person = study.privacy.unit == "person"
        self._counts = np.zeros(study.state_count, dtype=np.int64)
        self._steps = np.zeros(study.state_count, dtype=np.int64)
        self._stamp = np.zeros(study.state_count, dtype=np.int64)
        self._dropping = study.data.invalid == "drop-unit"
        # trajectories met, of these counted, persons met, trajectories of the last person,
        # returns clamped, visits beyond the first H states, units dropped
        self._tally = np.zeros(7, dtype=np.int64)
        self._rows = 0
        self._open: list[Fragment] = []  # the unit that may go on in the next fragment

    def add(self, fragment: Fragment) -> None:
        """Gathers every unit that is known to be complete, and keeps the rest."""
        units = fragment.units
        if len(units) == 0:
            self._open.append(fragment)
            return
        first, last = int(units[0]), int(units[-1])
        self._open.append(fragment.part(0, first))
        self._close()
        self.gather(fragment.part(first, last))
        self._open = [fragment.part(last, len(fragment.states))]

    def absorb(self, other: "Accumulator") -> None:
        """Takes over what another one gathered, which then is of no use any more."""
        self._close()
        other._close()
        self._counts += other._counts
        self._steps += other._steps
        self._tally += other._tally
        self._rows += other._rows

    def finish(self, **found: int) -> VisitStatistics:
        """The statistics of everything that was added, and what reading ``found`` besides."""
        self._close()
        met, counted, persons, _, clamped, beyond, dropped = self._tally.tolist()
        return VisitStatistics(
            return_bounds=self._bounds,
            trajectories=counted,
            rows=self._rows,
            returns_clamped=clamped,
            counts=self._counts,
            return_steps=self._steps,
            persons=persons,
            surplus_trajectories=met - counted,
            surplus_visits=beyond,
            units_dropped=dropped,
            **{"rewards_clamped": 0, **found},
        )

    def _close(self) -> None:
        """Gathers the open unit, which is complete."""
        parts, self._open = self._open, []
        if parts:
            self.gather(Fragment.together(parts))

    def gather(self, fragment: Fragment) -> None:
        """Adds whole units."""
        fresh = np.zeros(0, dtype=np.bool_)
        if self._by_person:
            if fragment.persons is None:
                raise DataError('the rows name no person; unit = "person" needs their column')
            fresh = fragment.persons
        self._rows += len(fragment.states)
        gather(
            fragment.states,
            fragment.rewards,
            np.append(fragment.starts, len(fragment.states)),
            fresh,
            self._discount,
            self._bounds[0],
            self._bounds[1],
            self._most_states,
            self._most_trajectories,
            self._dropping,
            self._counts,
            self._steps,
            self._stamp,
            self._tally,
        )
        if self._tally[0] > MOST_TRAJECTORIES:
            raise DataError(
                f"more than {MOST_TRAJECTORIES} trajectories; their sums would not be exact"
            )


@kernel(nogil=True)
def gather(  # type: ignore[no-untyped-def]  # noqa: PLR0912  # pragma: no cover - compiled
    states,
    rewards,
    starts,
    fresh,
    discount,
    low,
    high,
    most_states,
    most_trajectories,
    dropping,
    counts,
    steps,
    stamp,
    tally,
):
    """Adds the trajectories between consecutive ``starts`` to ``counts``, ``steps``, ``tally``.

    Forwards through each trajectory, to find its first visits to the first H distinct states, then
    backwards, G = r + gamma G, to add the return from each of them. ``stamp`` holds the trajectory
    that met a state last; ``fresh`` says which trajectories begin a person, and is empty where
    persons do not matter. Where ``dropping``, a unit with a row in state N, which is an invalid
    row, does not count at all.
    """
    scale = GRID_STEPS / (high - low)
    longest = 0
    for trajectory in range(len(starts) - 1):
        longest = max(longest, starts[trajectory + 1] - starts[trajectory])
    first_visit = np.empty(longest, dtype=np.bool_)
    dropped = False
    for trajectory in range(len(starts) - 1):
        if dropping:
            if len(fresh) == 0 or fresh[trajectory]:
                after = trajectory + 1  # where the unit ends
                while len(fresh) > 0 and after < len(starts) - 1 and not fresh[after]:
                    after += 1
                dropped = False
                for t in range(starts[trajectory], starts[after]):
                    dropped |= states[t] == len(counts)
                tally[6] += dropped
            if dropped:
                continue
        tally[0] += 1
        mark = tally[0]
        if len(fresh) > 0:
            if fresh[trajectory]:
                tally[2] += 1
                tally[3] = 0
            tally[3] += 1
            if tally[3] > most_trajectories:
                continue
        tally[1] += 1
        begin, end = starts[trajectory], starts[trajectory + 1]
        distinct = 0
        for t in range(begin, end):
            new = stamp[states[t]] != mark
            stamp[states[t]] = mark
            distinct += new
            first_visit[t - begin] = new and distinct <= most_states
        tally[5] += max(distinct - most_states, 0)
        value = 0.0
        for t in range(end - 1, begin - 1, -1):
            value = rewards[t] + discount * value
            if first_visit[t - begin]:
                inside = min(max(value, low), high)
                tally[4] += value != inside
                counts[states[t]] += 1
                steps[states[t]] += np.int64(
                    min(np.floor((inside - low) * scale + 0.5), GRID_STEPS)
                )
