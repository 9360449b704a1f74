"""Define finite MDPs and the Markov reward processes that policies induce, with exact answers.

================  ===================  ========  =================================================
symbol            code                 shape     meaning
================  ===================  ========  =================================================
P                 transitions          (N, N)    sub-stochastic: the lacking mass ends after the row
r                 expected_rewards     (N,)      of the row of s
mu                start                (N,)      distribution of the first row's state
gamma             discount             ()        in (0, 1]
V                 values               (N,)      V = r + gamma P V
Q                 MDP.q                (N, A)    Q(s, a) = r(s, a) + gamma sum_s' P(s'|s, a) V(s')
J                 MDP.value            ()        sum_s mu(s) V(s)
================  ===================  ========  =================================================

V(s) is the expected discounted return from the first visit of s, [BGP16] section 2.2: after a
first visit the process is as if it had started there. Everything here is public.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import sparse

from privalue.errors import StudyError
from privalue.simulation._outcomes import END, Outcomes, distribution, read_only
from privalue.simulation._policies import Policy, optimal_policy
from privalue.simulation._tables import outcomes_of
from privalue.simulation._visits import VisitProbabilities, key_visits, visit_probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privalue.core import Integers, Vector
    from privalue.simulation._outcomes import Matrix
    from privalue.simulation._tables import TransitionTable


def _checked_discount(discount: float) -> float:
    if not 0 < discount <= 1:
        raise StudyError(f"discount is {discount}; it must be above 0 and at most 1")
    return float(discount)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Process:
    """The parts that both kinds of process have: outcomes, start and discount."""

    outcomes: Outcomes
    start: Vector
    discount: float

    def __post_init__(self) -> None:
        start = distribution(self.start, size=self.outcomes.states, name="start")
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "discount", _checked_discount(self.discount))

    @property
    def states(self) -> int:
        """N, the number of states."""
        return self.outcomes.states

    @classmethod
    def tabular(
        cls,
        *,
        transitions: TransitionTable,
        rewards: TransitionTable,
        start: Vector,
        discount: float,
        absorbing: Iterable[int] = (),
        terminal: Iterable[int] = (),
    ) -> Self:
        """Build the process of a transition table.

        Args:
            transitions: (N, A, N), or (N * A, N) dense or sparse, in rows of state * A + action;
                of a reward process (N, N). Rows sum to one.
            rewards: on states (N,), on states and actions (N, A), or on transitions, in the shape
                of ``transitions``.
            start: distribution of the first state.
            discount: gamma, in (0, 1].
            absorbing: states that get one last row. Their own transitions must be loops; the
                reward of that row is the reward of the loop.
            terminal: states that end the trajectory when entered and get no row.

        Returns:
            The process.

        Raises:
            StudyError: if a shape, a probability or a reward is wrong, an absorbing state can be
                left, or a trajectory could start in a terminal state.
        """
        outcomes = outcomes_of(
            transitions=transitions,
            rewards=rewards,
            start=start,
            absorbing=absorbing,
            terminal=terminal,
        )
        return cls(outcomes=outcomes, start=start, discount=discount)


@dataclass(frozen=True, kw_only=True, eq=False)
class MDP(_Process):
    """A finite Markov decision process: outcomes of every state and action, start, discount."""

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return self.outcomes.actions

    def under(self, policy: Policy) -> MarkovRewardProcess:
        """Return the Markov reward process in which every action is drawn from the policy."""
        rows, chances = self._drawn_by(policy)
        return MarkovRewardProcess(
            outcomes=Outcomes.collect(
                states=self.states,
                actions=1,
                rows=rows // self.actions,
                probabilities=chances,
                successors=self.outcomes.successors,
                rewards=self.outcomes.rewards,
            ),
            start=self.start,
            discount=self.discount,
        )

    def _drawn_by(self, policy: Policy) -> tuple[Integers, Vector]:
        """Return the row of each outcome, and pi(a | s) P(k | s, a), its chance in state s."""
        if (policy.states, policy.actions) != (self.states, self.actions):
            raise StudyError(
                f"the policy is for {policy.states} states and {policy.actions} actions; "
                f"this MDP has {self.states} and {self.actions}"
            )
        rows = self.outcomes.rows
        return rows, policy.probabilities.ravel()[rows] * self.outcomes.probabilities

    def choices(self, policy: Policy) -> tuple[MarkovRewardProcess, Integers]:
        """Return the process under a policy, and the action that each of its outcomes came by.

        It has the law of ``under``. Outcomes of different actions stay apart there, though they may
        have the same successor and reward, so that whoever draws an outcome knows the action.
        """
        rows, chances = self._drawn_by(policy)
        kept = np.flatnonzero(chances)
        state, action = np.divmod(rows[kept], self.actions)
        return MarkovRewardProcess(
            outcomes=Outcomes(
                states=self.states,
                actions=1,
                offsets=np.searchsorted(state, np.arange(self.states + 1)),
                probabilities=chances[kept],
                successors=self.outcomes.successors[kept],
                rewards=self.outcomes.rewards[kept],
            ),
            start=self.start,
            discount=self.discount,
        ), read_only(action, np.int64)

    def q(self, policy: Policy) -> Vector:
        """Return Q, (N, A): the value of taking an action once, and of the policy from then on."""
        going_on = self.outcomes.transitions @ self.under(policy).values
        values = self.outcomes.expected_rewards + self.discount * going_on
        return read_only(values.reshape(self.states, self.actions))

    def value(self, policy: Policy) -> float:
        """Return J, the expected return of a trajectory under the policy."""
        return self.under(policy).start_value

    def optimal(self) -> Policy:
        """Return a policy that no other one beats, in any state."""
        return optimal_policy(self)

    def key_visits(self, policy: Policy) -> Vector:
        """Return (N, A): the probability that a trajectory ever takes each action in each state."""
        process = self.under(policy)
        process.require_end()
        return key_visits(
            process.transitions,
            self.start,
            process.reachable,
            outcomes=self.outcomes.transitions,
            policy=policy.probabilities,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovRewardProcess(_Process):
    """A policy at work: the outcomes of each state, the start of trajectories, and the discount."""

    def __post_init__(self) -> None:
        if self.outcomes.actions != 1:
            raise StudyError(
                f"a Markov reward process has no actions, and this table has "
                f"{self.outcomes.actions}; choose them by a policy, with MDP.under"
            )
        super().__post_init__()

    @property
    def transitions(self) -> Matrix:
        """P, as a sparse matrix."""
        return self.outcomes.transitions

    @property
    def expected_rewards(self) -> Vector:
        """r, the expected reward of a row in each state."""
        return self.outcomes.expected_rewards

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """Return the smallest and largest reward that a row can show."""
        seen = self.outcomes.rewards[self.reachable[self.outcomes.rows]]
        return float(seen.min()), float(seen.max())

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """Return whether a trajectory can visit each state."""
        return _reached(self.transitions, self.start > 0)

    @cached_property
    def surely_ends(self) -> NDArray[np.bool_]:
        """Return whether a trajectory from each state ends with probability one."""
        backwards = self.transitions.T.tocsr()
        can_end = _reached(
            backwards,
            np.bincount(
                self.outcomes.rows, weights=self.outcomes.successors == END, minlength=self.states
            )
            > 0,
        )
        return ~_reached(backwards, ~can_end)

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

        Without discounting V is NaN in the states from which a trajectory may never end.
        """
        solvable = self.surely_ends if self.discount == 1 else np.ones(self.states, dtype=bool)
        kept = np.flatnonzero(solvable)
        values = np.full(self.states, np.nan)
        if kept.size:
            # A kept state never leads to one that is left out: a trajectory that surely ends cannot
            # reach a state from which it may not.
            system = sparse.eye_array(kept.size) - self.discount * self.transitions[kept][:, kept]
            values[kept] = sparse.linalg.splu(system.tocsc()).solve(self.expected_rewards[kept])
        return read_only(values)

    @property
    def start_value(self) -> float:
        """Return sum_s mu(s) V(s), the expected return of a trajectory."""
        started = self.start > 0
        return float(self.start[started] @ self.values[started])

    @cached_property
    def visits(self) -> VisitProbabilities:
        """Return p_s, p_{s,s'} and pbar_{s,s'} of one trajectory, and its expected length."""
        self.require_end()
        return visit_probabilities(self.transitions, self.start, self.reachable)


def _reached(graph: Matrix, sources: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the states that paths from the sources lead to, sources included."""
    states = graph.shape[0]
    first = np.flatnonzero(sources)
    rows, columns = graph.nonzero()
    extended = sparse.csr_array(
        (
            np.ones(rows.size + first.size),
            (
                np.concatenate([rows, np.full(first.size, states)]),
                np.concatenate([columns, first]),
            ),
        ),
        shape=(states + 1, states + 1),
    )
    reached = np.zeros(states + 1, dtype=bool)
    reached[sparse.csgraph.breadth_first_order(extended, states, return_predecessors=False)] = True
    return reached[:-1]
