"""Define finite MDPs and the Markov reward processes that policies induce, with exact answers.

A trajectory is a sequence of rows (s_t, r_t). In a state (after an action) one *outcome* follows: a
reward r_t for this row, and then either another row, in the successor state, or the end. Both usual
conventions for the end become the successor ``END``:

=======================  =============================================  ==========================
convention               source                                         outcomes
=======================  =============================================  ==========================
one last row             an absorbing state, as on the chain            (1, END, reward of being
                                                                        there), from that state
no row                   a final observation, as in Gymnasium           (probability, END, reward
                                                                        of the transition), from
                                                                        the state before
=======================  =============================================  ==========================

================  ===================  ===========  ================================================
symbol            code                 shape        meaning
================  ===================  ===========  ================================================
N, A              states, actions      ()           a row of the tables is state * A + action
P(k | s, a)       probabilities        (K,)         of outcome k, which belongs to ``rows[k]``
s'                successors           (K,)         0..N-1, or END: no further row
r_k               rewards              (K,)         of the row of s
P                 transitions          (N * A, N)   sub-stochastic: 1 - sum of a row: P(end)
r                 expected_rewards     (N * A,)     sum_k P(k) r_k
mu                start                (N,)         distribution of the first row's state
gamma             discount             ()           in (0, 1]
pi(a | s)         policy               (N, A)       of taking action a in state s
V                 values               (N,)         V = r + gamma P V
Q                 MDP.q                (N, A)       r(s, a) + gamma sum_s' P(s'|s, a) V(s')
J                 MDP.value            ()           sum_s mu(s) V(s)
================  ===================  ===========  ================================================

V(s) is the expected discounted return from the first visit of s, [BGP16] section 2.2: after a
first visit the process is as if it had started there. Everything here is public.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from privalue.core import Integers, Vector
from privalue.errors import StudyError
from privalue.simulation.visits import VisitProbabilities, visit_probabilities
from privalue.study import policy_table

Sparse: TypeAlias = sparse.csr_array[Any, Any]

END = -1  # the successor of the last row
TOLERANCE = 1e-9  # the sum of probabilities may differ from 1 by this; they are then normalised
TIE = 1e-9  # actions whose values differ by less count as equal; the first of them is chosen
MAX_SWEEPS = 1_000_000  # of value iteration
RETURN_SWEEPS = 20_000  # of the search for the largest return


def read_only(values: ArrayLike, dtype: type[Any] = np.float64) -> NDArray[Any]:
    """Return a read-only copy."""
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """The outcomes of every state and action: given in any order, stored sorted by row.

    Outcomes of probability 0 are left out. Two rewards on the way to the same successor are two
    outcomes, since a simulated row shows the reward it received.
    """

    states: int
    actions: int
    rows: Integers
    probabilities: Vector
    successors: Integers
    rewards: Vector

    def __post_init__(self) -> None:
        self._check()
        # Adding zero turns -0.0 into 0.0, so that files do not show "-0.0".
        object.__setattr__(self, "rewards", np.asarray(self.rewards, dtype=np.float64) + 0.0)
        order = np.argsort(self.rows, kind="stable")
        order = order[np.asarray(self.probabilities)[order] > 0]
        for name in ("rows", "probabilities", "successors", "rewards"):
            kind = np.int64 if name in {"rows", "successors"} else np.float64
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name))[order], kind))
        sums = self._row_sums(self.probabilities)
        wrong = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
        if wrong.size:
            raise StudyError(
                f"the probabilities of {self._label(wrong[0])} sum to {sums[wrong[0]]:.12g}; "
                "they must sum to one"
            )
        normalised = self.probabilities / sums[self.rows]
        object.__setattr__(self, "probabilities", read_only(normalised))

    def _check(self) -> None:
        if self.states < 1 or self.actions < 1:
            raise StudyError(
                f"states = {self.states}, actions = {self.actions}; both must be at least 1"
            )
        allowed = {
            "rows": (0, self.states * self.actions - 1),
            "probabilities": (0, math.inf),
            "rewards": (-math.inf, math.inf),
            "successors": (END, self.states - 1),
        }
        for name, (low, high) in allowed.items():
            values = np.asarray(getattr(self, name))
            if values.ndim != 1 or values.shape != np.shape(self.rows):
                raise StudyError(f"{name} has shape {values.shape}; it must be that of rows")
            wrong = values[~((values >= low) & (values <= high) & np.isfinite(values))]
            if wrong.size:
                raise StudyError(
                    f"{name} has {wrong[0]}; it must be from {low} to {high}, and finite"
                )

    def _label(self, row: int) -> str:
        state, action = divmod(int(row), self.actions)
        return f"state {state}" if self.actions == 1 else f"state {state}, action {action}"

    def _row_sums(self, values: Vector) -> Vector:
        return np.bincount(self.rows, weights=values, minlength=self.states * self.actions).astype(
            np.float64
        )

    @cached_property
    def transitions(self) -> Sparse:
        """P, sparse."""
        continues = self.successors != END
        return sparse.csr_array(
            (self.probabilities[continues], (self.rows[continues], self.successors[continues])),
            shape=(self.states * self.actions, self.states),
        )

    @cached_property
    def expected_rewards(self) -> Vector:
        """Return r = sum_k P(k) r_k for every row."""
        return read_only(self._row_sums(self.probabilities * self.rewards))


def distribution(values: ArrayLike, *, size: int, name: str) -> Vector:
    """Return a checked probability vector, read-only, divided by its sum."""
    array: Vector = read_only(values)
    fits = array.shape == (size,) and np.all(array >= 0) and abs(array.sum() - 1) <= TOLERANCE
    if not fits:
        raise StudyError(
            f"{name} is {array}; it must be {size} numbers, one per state, at least 0, whose sum "
            "is one"
        )
    return read_only(array / array.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class _Process:
    """Common parts of both kinds of process: outcomes, start and discount."""

    outcomes: Outcomes
    start: Vector
    discount: float

    def __post_init__(self) -> None:
        start = distribution(self.start, size=self.outcomes.states, name="start")
        object.__setattr__(self, "start", start)
        if not 0 < self.discount <= 1:
            raise StudyError(f"discount is {self.discount}; it must be above 0 and at most 1")
        object.__setattr__(self, "discount", float(self.discount))

    @property
    def states(self) -> int:
        """N, the number of states."""
        return self.outcomes.states

    @classmethod
    def tabular(
        cls,
        *,
        transitions: ArrayLike,
        rewards: ArrayLike,
        start: ArrayLike,
        discount: float,
        absorbing: Iterable[int] = (),
        terminal: Iterable[int] = (),
    ) -> Self:
        """Build the process of a transition table.

        Args:
            transitions: (N, A, N); of a reward process (N, N). Rows sum to one.
            rewards: on states (N,), on states and actions (N, A), or on transitions, in the shape
                of ``transitions``.
            start: distribution of the first state.
            discount: gamma, in (0, 1].
            absorbing: states in which a trajectory gets one last row. Their transitions must be
                loops; the reward of that row is the reward of the loop.
            terminal: states that end the trajectory when entered, without a row.

        Raises:
            StudyError: if a shape, a probability or a reward is wrong, an absorbing state can be
                left, or a trajectory could start in a terminal state.
        """
        table, reward = np.asarray(transitions, np.float64), np.asarray(rewards, np.float64)
        if table.ndim == 2:
            reward = reward[:, None, :] if reward.shape == table.shape else reward
            table = table[:, None, :]
        if table.ndim != 3 or not table.size or table.shape[0] != table.shape[2]:
            raise StudyError(f"transitions has shape {table.shape}; it must be (N, A, N)")
        if reward.shape != table.shape[: reward.ndim]:
            raise StudyError(
                f"rewards has shape {reward.shape}; it must be {table.shape[:1]} on states, "
                f"{table.shape[:2]} on states and actions, or that of the transitions"
            )
        states, actions = table.shape[:2]
        last, ends = (_state_mask(labels, states) for labels in (absorbing, terminal))
        state, action, successor = np.nonzero(table)  # NaN counts, so it reaches the checks
        exits = last[state] & (state != successor)
        if exits.any():
            raise StudyError(
                f"absorbing state {state[exits][0]} can be left for state {successor[exits][0]}; "
                "the transitions of an absorbing state must be loops"
            )
        if (last & ends).any() or distribution(start, size=states, name="start")[ends].any():
            raise StudyError(
                "a terminal state gets no row: it cannot be absorbing, and no trajectory starts in "
                "it"
            )
        payoff = reward.reshape(reward.shape + (1,) * (3 - reward.ndim))
        # A terminal state never gets a row: its rows in the table are ignored, and end at once.
        is_last = last[state] | ends[state] | ends[successor]
        outcomes = Outcomes(
            states=states,
            actions=actions,
            rows=state * actions + action,
            probabilities=table[state, action, successor],
            successors=np.where(is_last, END, successor),
            rewards=np.where(
                ends[state], 0.0, np.broadcast_to(payoff, table.shape)[state, action, successor]
            ),
        )
        return cls(outcomes=outcomes, start=np.asarray(start), discount=discount)


def _state_mask(labels: Iterable[int], states: int) -> NDArray[np.bool_]:
    """Return which states are listed."""
    numbers = np.array(list(labels), dtype=np.int64)
    if ((numbers < 0) | (numbers >= states)).any():
        raise StudyError(f"{numbers.tolist()} has a state out of range; use 0 to {states - 1}")
    return np.isin(np.arange(states), numbers)


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovRewardProcess(_Process):
    """A Markov reward process: the outcomes of each state, the start, and the discount.

    For an MDP under a policy, ``action_of`` is the action that leads to each outcome.
    """

    action_of: Integers | None = None
    policy: Vector | None = None

    def __post_init__(self) -> None:
        if self.outcomes.actions != 1:
            raise StudyError(
                f"a Markov reward process has no actions, and this table has "
                f"{self.outcomes.actions}; choose them by a policy, with MDP.under"
            )
        super().__post_init__()

    @property
    def transitions(self) -> Sparse:
        """P, as a sparse matrix."""
        return self.outcomes.transitions

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """Return the smallest and largest reward that a row can show."""
        rewards = self.outcomes.rewards[self.reachable[self.outcomes.rows]]
        return float(rewards.min()), float(rewards.max())

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """Return whether a trajectory can visit each state."""
        return _reachable_from(self.transitions, self.start > 0)

    @cached_property
    def surely_ends(self) -> NDArray[np.bool_]:
        """Return whether a trajectory from each state ends with probability one."""
        backwards = self.transitions.T.tocsr()
        last = np.zeros(self.states, dtype=bool)
        last[self.outcomes.rows[self.outcomes.successors == END]] = True
        return ~_reachable_from(backwards, ~_reachable_from(backwards, last))

    def require_end(self) -> None:
        """Refuse a process whose trajectories may never end: their expected length is infinite.

        Raises:
            StudyError: if a trajectory can reach a state from which it may never end.
        """
        endless = np.flatnonzero(self.reachable & ~self.surely_ends)
        if endless.size:
            raise StudyError(
                f"a trajectory that visits state {endless[0]} may never end: give the process an "
                "absorbing or terminal state that is always reached, or truncate the trajectories"
            )

    @cached_property
    def values(self) -> Vector:
        """Return V, from the sparse system (I - gamma P) V = r.

        Without discounting, V is NaN in states from which a trajectory may never end.
        """
        solvable = self.surely_ends if self.discount == 1 else np.ones(self.states, dtype=bool)
        rows = np.flatnonzero(solvable)
        values = np.full(self.states, np.nan)
        if rows.size:
            # Solvable states never lead to others: a trajectory that surely ends cannot reach a
            # state from which it may not end.
            system = sparse.eye_array(rows.size) - self.discount * self.transitions[rows][:, rows]
            values[rows] = sparse.linalg.splu(system.tocsc()).solve(
                self.outcomes.expected_rewards[rows]
            )
        return read_only(values)

    @property
    def start_value(self) -> float:
        """Return J = sum_s mu(s) V(s), the expected return of a trajectory."""
        possible = self.start > 0
        return float(self.start[possible] @ self.values[possible])

    @cached_property
    def visits(self) -> VisitProbabilities:
        """Return p_s and p_{s,s'} of one trajectory, and its expected length."""
        self.require_end()
        return visit_probabilities(self.transitions, self.start, self.reachable)


@dataclass(frozen=True, kw_only=True, eq=False)
class MDP(_Process):
    """A finite Markov decision process: outcomes of every state and action, start, discount.

    A policy has any form that ``privalue.study.policy_table`` reads.
    """

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return self.outcomes.actions

    def policy_table(self, policy: Any) -> Vector:
        """Return pi(a | s) as a read-only array whose rows sum to one.

        A table may leave out states where every action ends the trajectory and earns nothing: in an
        improved policy they are ends, and not states.
        """
        chances, rewards = self.outcomes.transitions.sum(axis=1), self.outcomes.expected_rewards
        ends = (chances == 0) & (rewards == 0)
        idle = np.flatnonzero(ends.reshape(self.states, self.actions).all(axis=1))
        table = policy_table(policy, states=self.states, actions=self.actions, idle=idle)
        return read_only(table / table.sum(axis=1, keepdims=True))

    def under(self, policy: Any) -> MarkovRewardProcess:
        """Return the Markov reward process of this MDP under a policy."""
        table = self.policy_table(policy)
        outcomes = self.outcomes
        probabilities = table.ravel()[outcomes.rows] * outcomes.probabilities
        possible = np.flatnonzero(probabilities)
        state, action = np.divmod(outcomes.rows[possible], self.actions)
        return MarkovRewardProcess(
            outcomes=Outcomes(
                states=self.states,
                actions=1,
                rows=state,
                probabilities=probabilities[possible],
                successors=outcomes.successors[possible],
                rewards=outcomes.rewards[possible],
            ),
            start=self.start,
            discount=self.discount,
            action_of=read_only(action, np.int64),
            policy=table,
        )

    def q(self, policy: Any) -> Vector:
        """Return Q, (N, A): the value of taking an action once, then following the policy."""
        return self._action_values(self.under(policy).values)

    def _action_values(self, values: Vector) -> Vector:
        next_values = self.outcomes.transitions @ values
        table = self.outcomes.expected_rewards + self.discount * next_values
        return read_only(table.reshape(self.states, self.actions))

    def value(self, policy: Any) -> float:
        """Return J, the expected return of a trajectory under the policy."""
        return self.under(policy).start_value

    def optimal(self) -> Vector:
        """Return an optimal policy, by value iteration.

        V <- max_a [r(s, a) + gamma sum_s' P(s' | s, a) V(s')] until no value changes by more than
        1e-12 of the largest; then the first action within ``TIE`` of the best. Without discounting
        value iteration may not converge, and that is an error.
        """
        values = np.zeros(self.states)
        for _ in range(MAX_SWEEPS):
            action_values = self._action_values(values)
            previous, values = values, action_values.max(axis=1)
            scale = max(1.0, float(np.abs(values).max()))
            if float(np.abs(values - previous).max()) <= 1e-12 * scale:
                break
        else:
            raise StudyError(
                f"value iteration did not converge in {MAX_SWEEPS} sweeps at discount "
                f"{self.discount}; use a smaller discount, or give a policy"
            )
        near_best = action_values >= values[:, None] - TIE * scale
        return read_only(np.eye(self.actions)[near_best.argmax(axis=1)])


def _reachable_from(graph: Sparse, sources: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which states are reachable from the sources, including the sources."""
    states = graph.shape[0]
    # One more node leads to all sources.
    first = sparse.csr_array(sources.astype(float)[None, :])
    extended: Sparse = sparse.block_array(
        [[graph, None], [first, sparse.csr_array((1, 1))]], format="csr"
    )
    reached = np.zeros(states + 1, dtype=bool)
    reached[sparse.csgraph.breadth_first_order(extended, states, return_predecessors=False)] = True
    return reached[:-1]


def return_range(process: MarkovRewardProcess) -> tuple[float, float]:
    """Return the least and the largest return from a state that a trajectory can visit.

    A bound is infinite if returns have none, as with rewards on a loop at discount 1. At discount 1
    both are infinite if a trajectory may never end.
    """
    if process.discount == 1 and not process.surely_ends[process.reachable].all():
        return -math.inf, math.inf
    return 0.0 - _largest_return(process, -1.0), _largest_return(process, 1.0)


def _largest_return(process: MarkovRewardProcess, sign: float) -> float:
    """Return the largest u_s = max_k (r_k + gamma u_{s'_k}), over the outcomes k that can happen.

    With a discount, sweeps from zero converge; the change in the last sweep bounds the remaining
    error. Without a discount, after k sweeps u is the largest return of paths that end within k
    rows. A path without a loop has at most N rows: if u still changes after N sweeps, some loop has
    a positive reward, and returns are unbounded.
    """
    outcomes, gamma = process.outcomes, process.discount
    continues, rewards = outcomes.successors != END, sign * outcomes.rewards
    first_of_row = np.searchsorted(outcomes.rows, np.arange(process.states))
    tolerance = 1e-12 * float(np.abs(rewards).max()) if gamma < 1 else 0.0
    values = np.full(process.states, 0.0 if gamma < 1 else -np.inf)
    for _ in range(RETURN_SWEEPS if gamma < 1 else min(process.states + 1, RETURN_SWEEPS)):
        next_values = np.where(continues, values[outcomes.successors], 0.0)
        largest = np.maximum.reduceat(rewards + gamma * next_values, first_of_row)
        with np.errstate(invalid="ignore"):  # no path has ended, before or after
            change = float(np.abs(largest - values)[process.reachable].max())
        values = largest
        if change <= tolerance:
            return float(values[process.reachable].max())
    if gamma == 1:
        return math.inf
    return float(values[process.reachable].max()) + change * gamma / (1 - gamma)
