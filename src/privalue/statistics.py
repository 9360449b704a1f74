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

import numba
import numpy as np
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.private import Private, sealed
from privalue.sections import MOST_TRAJECTORIES
from privalue.study import Study
from privalue.trajectories import Fragment

GRID_STEPS = 2**30

Integers = NDArray[np.int64]


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class VisitStatistics(Private):
    """How many trajectories visit each state, and the sum of their returns; ``a + b`` merges."""

    return_bounds: tuple[float, float]
    trajectories: int
    rows: int
    rewards_clamped: int
    returns_clamped: int
    counts: Integers
    return_steps: Integers

    def __post_init__(self) -> None:
        for name in ("counts", "return_steps"):
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
        return VisitStatistics(
            return_bounds=self.return_bounds,
            trajectories=self.trajectories + other.trajectories,
            rows=self.rows + other.rows,
            rewards_clamped=self.rewards_clamped + other.rewards_clamped,
            returns_clamped=self.returns_clamped + other.returns_clamped,
            counts=self.counts + other.counts,
            return_steps=self.return_steps + other.return_steps,
        )

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
        return (
            self.return_bounds,
            self.trajectories,
            self.rows,
            self.rewards_clamped,
            self.returns_clamped,
        )

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


class Accumulator:
    """Takes fragments one after the other; memory O(N + batch + longest trajectory)."""

    def __init__(self, study: Study) -> None:
        self._discount = study.values.discount
        self._bounds = study.return_bounds
        self._counts = np.zeros(study.state_count, dtype=np.int64)
        self._steps = np.zeros(study.state_count, dtype=np.int64)
        self._stamp = np.full(study.state_count, -1, dtype=np.int64)
        self._latest = np.zeros(study.state_count, dtype=np.int64)
        self._trajectories = 0
        self._rows = 0
        self._returns_clamped = 0
        self._open: list[Fragment] = []  # the trajectory that may go on in the next fragment

    def add(self, fragment: Fragment) -> None:
        """Gathers every trajectory that is known to be complete, and keeps the rest."""
        starts = np.flatnonzero(fragment.begins)
        self._rows += len(fragment.begins)
        if len(starts) == 0:
            self._open.append(fragment)
            return
        self._close(fragment, int(starts[0]))
        self._gather(fragment, starts)
        last = int(starts[-1])
        self._open = [
            Fragment(fragment.begins[last:], fragment.states[last:], fragment.rewards[last:])
        ]

    def finish(self, *, rewards_clamped: int = 0) -> VisitStatistics:
        """The statistics of everything that was added."""
        if self._open:
            self._close(None, 0)
        return VisitStatistics(
            return_bounds=self._bounds,
            trajectories=self._trajectories,
            rows=self._rows,
            rewards_clamped=rewards_clamped,
            returns_clamped=self._returns_clamped,
            counts=self._counts,
            return_steps=self._steps,
        )

    def _close(self, fragment: Fragment | None, until: int) -> None:
        """Ends the open trajectory with the first ``until`` rows of ``fragment``."""
        parts = [*self._open]
        if fragment is not None and until > 0:
            parts.append(
                Fragment(fragment.begins[:until], fragment.states[:until], fragment.rewards[:until])
            )
        self._open = []
        if parts:
            whole = Fragment(
                np.concatenate([part.begins for part in parts]),
                np.concatenate([part.states for part in parts]),
                np.concatenate([part.rewards for part in parts]),
            )
            self._gather(whole, np.array([0, len(whole.states)]))

    def _gather(self, fragment: Fragment, starts: Integers) -> None:
        """The trajectories between consecutive ``starts``."""
        self._returns_clamped += gather(
            fragment.states,
            fragment.rewards,
            starts,
            self._discount,
            self._bounds[0],
            self._bounds[1],
            self._trajectories,
            self._counts,
            self._steps,
            self._stamp,
            self._latest,
        )
        self._trajectories += len(starts) - 1
        if self._trajectories > MOST_TRAJECTORIES:
            raise DataError(
                f"more than {MOST_TRAJECTORIES} trajectories; their sums would not be exact"
            )


@numba.njit(nogil=True, cache=True)
def gather(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    states, rewards, starts, discount, low, high, first, counts, steps, stamp, latest
):
    """Adds trajectories to ``counts`` and ``steps``; returns how many returns were clamped.

    Backwards through each trajectory, G = r + gamma G. A state's return counts from its first
    visit, which comes last on the way back: an earlier visit takes the place of a later one.
    ``stamp`` holds the trajectory that met a state last, ``latest`` twice the steps that it then
    added, plus 1 if they had been clamped.
    """
    scale = GRID_STEPS / (high - low)
    clamped = 0
    for trajectory in range(len(starts) - 1):
        mark = first + trajectory
        value = 0.0
        for t in range(starts[trajectory + 1] - 1, starts[trajectory] - 1, -1):
            value = rewards[t] + discount * value
            inside = min(max(value, low), high)
            grid = np.int64(min(np.floor((inside - low) * scale + 0.5), GRID_STEPS))
            outside = value != inside
            s = states[t]
            if stamp[s] != mark:
                stamp[s] = mark
                counts[s] += 1
                steps[s] += grid
                latest[s] = 2 * grid + outside
                clamped += outside
            else:
                steps[s] += grid - latest[s] // 2
                clamped += np.int64(outside) - latest[s] % 2
                latest[s] = 2 * grid + outside
    return clamped
