"""Define what can follow a row: the one definition that solver and simulator share.

A trajectory is a sequence of rows (s_t, r_t). From a state (and an action) the next thing that
happens is one *outcome*: a reward r_t for this row, and then either another row, in the successor
state, or the end. Two endings are in use, and both are the outcome ``END``:

=======================  =============================================  ==========================
ending                   from                                           as outcomes
=======================  =============================================  ==========================
one last row             an absorbing state, as on the chain            (1, END, reward of being
                                                                        there), from that state
no row                   a final observation, as in Gymnasium           (probability, END, reward
                                                                        of the transition), from
                                                                        the state before
=======================  =============================================  ==========================

==================  =================  ==========  ==============================================
symbol              code               shape       meaning
==================  =================  ==========  ==============================================
N, A                states, actions    ()          a row of the table is state * A + action
P(k | s, a)         probabilities      (K,)        of outcome k; ``offsets[row]`` starts the row
s'                  successors         (K,)        0..N-1, or END: no further row
r                   rewards            (K,)        of the row of s
==================  =================  ==========  ==============================================

Everything here is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privalue.errors import StudyError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from privalue.core import Integers, Vector

    Matrix = sparse.csr_array[np.float64, tuple[int, int]]

END = -1
"""The successor of a row that is the last."""

TOLERANCE = 1e-9
"""How far from one the probabilities of a row may sum; they are then divided by their sum."""


def read_only(values: ArrayLike, dtype: type[Any] = np.float64) -> NDArray[Any]:
    """Return a copy that nobody can write to."""
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """The outcomes of every state and action, row after row."""

    states: int
    actions: int
    offsets: Integers
    probabilities: Vector
    successors: Integers
    rewards: Vector

    def __post_init__(self) -> None:
        for name, dtype in (
            ("offsets", np.int64),
            ("probabilities", np.float64),
            ("successors", np.int64),
            ("rewards", np.float64),
        ):
            object.__setattr__(self, name, read_only(getattr(self, name), dtype))
        self._check_shapes()
        self._check_numbers()
        sums = self._row_sums(self.probabilities)
        wrong = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
        if wrong.size:
            row = int(wrong[0])
            raise StudyError(
                f"the probabilities of {self.label(row)} sum to {sums[row]:.12g}; "
                "they must sum to one"
            )
        normal = self.probabilities / np.repeat(sums, np.diff(self.offsets))
        object.__setattr__(self, "probabilities", read_only(normal))

    def _check_shapes(self) -> None:
        """Raise StudyError unless all arrays fit the numbers of states and actions."""
        if self.states < 1 or self.actions < 1:
            raise StudyError(
                f"states = {self.states}, actions = {self.actions}; both must be at least 1"
            )
        rows, count = self.states * self.actions, self.probabilities.size
        if self.offsets.shape != (rows + 1,) or self.offsets[0] != 0 or self.offsets[-1] != count:
            raise StudyError(
                f"offsets must be {rows + 1} numbers, from 0 to the number of outcomes ({count})"
            )
        if np.any(np.diff(self.offsets) < 0):
            raise StudyError("offsets must not decrease")
        for name in ("probabilities", "successors", "rewards"):
            if getattr(self, name).shape != (count,):
                raise StudyError(
                    f"{name} has shape {getattr(self, name).shape}; it must be ({count},)"
                )

    def _check_numbers(self) -> None:
        """Raise StudyError for a bad probability, reward or successor, and name its row."""
        checks = (
            ("probability", self.probabilities, self.probabilities >= 0, "at least 0"),
            ("reward", self.rewards, np.isfinite(self.rewards), "finite"),
            (
                "successor",
                self.successors,
                (self.successors >= END) & (self.successors < self.states),
                f"a state from 0 to {self.states - 1}, or END",
            ),
        )
        for name, values, fine, allowed in checks:
            wrong = np.flatnonzero(~fine)
            if wrong.size:
                row = int(np.searchsorted(self.offsets, wrong[0], side="right")) - 1
                raise StudyError(
                    f"a {name} of {self.label(row)} is {values[wrong[0]]}; it must be {allowed}"
                )

    def label(self, row: int) -> str:
        """Return the name of a row of the table for a message."""
        state, action = divmod(row, self.actions)
        return f"state {state}" if self.actions == 1 else f"state {state}, action {action}"

    def _row_sums(self, values: Vector) -> Vector:
        """Return the sums of the outcomes' values by row."""
        sums: Vector = np.bincount(
            self.rows, weights=values, minlength=self.states * self.actions
        ).astype(np.float64)
        return sums

    @cached_property
    def rows(self) -> Integers:
        """Return the row, state * A + action, that each outcome belongs to."""
        rows = np.repeat(np.arange(self.states * self.actions), np.diff(self.offsets))
        return read_only(rows, np.int64)

    @cached_property
    def transitions(self) -> Matrix:
        """Return P, (N * A) x N, sub-stochastic: the mass that a row lacks is the end after it."""
        going_on = self.successors != END
        matrix = sparse.csr_array(
            (self.probabilities[going_on], (self.rows[going_on], self.successors[going_on])),
            shape=(self.states * self.actions, self.states),
        )
        for part in (matrix.data, matrix.indices, matrix.indptr):
            part.flags.writeable = False
        return matrix

    @cached_property
    def expected_rewards(self) -> Vector:
        """Return sum_k P(k) r_k for every row."""
        return read_only(self._row_sums(self.probabilities * self.rewards))

    @classmethod
    def collect(
        cls,
        *,
        states: int,
        actions: int,
        rows: ArrayLike,
        probabilities: ArrayLike,
        successors: ArrayLike,
        rewards: ArrayLike,
    ) -> Outcomes:
        """Build the table from outcomes that are listed in any order.

        Equal outcomes are added up, and impossible ones are left out. Outcomes are equal if they
        have the same row, successor and reward: two rewards on the way to the same successor stay
        apart, since a simulated row shows the one it received.

        Args:
            states: N.
            actions: A.
            rows: state * A + action of each outcome.
            probabilities: of each outcome.
            successors: the next state of each outcome, or END.
            rewards: of each outcome.

        Returns:
            The checked table.
        """
        row = np.asarray(rows, dtype=np.int64)
        chance = np.asarray(probabilities, dtype=np.float64)
        successor = np.asarray(successors, dtype=np.int64)
        # Adding zero turns -0.0 into 0.0, so that the two are one reward.
        reward = np.asarray(rewards, dtype=np.float64) + 0.0
        order = np.lexsort((reward, successor, row))
        row, chance, successor, reward = row[order], chance[order], successor[order], reward[order]
        fresh = np.ones(row.size, dtype=bool)
        fresh[1:] = (
            (np.diff(row) != 0)
            | (np.diff(successor) != 0)
            # A NaN differs from itself, and is refused below.
            | (reward[1:] != reward[:-1])
        )
        first = np.flatnonzero(fresh)
        # A negative or NaN part must reach the check, not vanish in a sum.
        faulty = ~(chance >= 0)
        total = np.add.reduceat(chance, first) if first.size else chance
        if faulty.any():
            total[np.searchsorted(first, np.flatnonzero(faulty), side="right") - 1] = chance[faulty]
        kept = first[total != 0]
        return cls(
            states=states,
            actions=actions,
            offsets=np.searchsorted(row[kept], np.arange(states * actions + 1)),
            probabilities=total[total != 0],
            successors=successor[kept],
            rewards=reward[kept],
        )


def distribution(values: ArrayLike, *, size: int, name: str) -> Vector:
    """Return a checked probability vector, read-only, divided by its sum."""
    array: Vector = read_only(values)
    if array.shape != (size,):
        raise StudyError(f"{name} has shape {array.shape}; it must be ({size},): one per state")
    if not np.all(array >= 0):
        state = int(np.flatnonzero(~(array >= 0))[0])
        raise StudyError(f"{name} of state {state} is {array[state]}; it must be at least 0")
    total = float(array.sum())
    if not abs(total - 1) <= TOLERANCE:
        raise StudyError(f"{name} sums to {total:.12g}; it must sum to one")
    return read_only(array / total)
