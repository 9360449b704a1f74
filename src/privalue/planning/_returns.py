"""Compute the law of first-visit returns in a public world: how often states are met, and moments.

| symbol       | here               | shape | public |
|--------------|--------------------|-------|--------|
| p_s          | ``visits``         | N     | yes    |
| V            | ``means``          | N     | yes    |
| M2           | second moments     | N     | yes    |
| e_g(i)       | ``entries``        | raw   | yes    |
| G            | a return           |       | yes    |

A world is made up, so everything about it is public. After a first visit the process is as if it
had started there, so the return from a first visit of a raw state i has the mean V(i) and the
second moment M2(i), whatever came before:

    V  = E[r] + gamma P V
    M2 = E[r^2] + 2 gamma E[r V(s')] + gamma^2 P M2

A group of raw states is met first in one of its members; e_g(i) is the probability that it is met
first in i, p_g = sum_i e_g(i), and its moments are the mixtures sum_i e_g(i) M(i) / p_g.

The same holds of pairs (state, action), where people choose: Q in the place of V, and rows

    (mu Z)_{s,a}   = (mu Z)_s pi(a | s)
    Z[(s, a), (s', a')] = 1{same} + sum_s'' P(s'' | s, a) Z[s'', s'] pi(a' | s')
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privalue.core import Integers, Vector
from privalue.simulation import END, MDP, MarkovRewardProcess, Outcomes

MOST_EXACT = 20_000  # raw states; more would take minutes
MOST_EXACT_WITH_ACTIONS = 3000  # raw states; a matrix of all pairs of them is held
_DENSE = 3000  # raw states; up to here a matrix of all pairs is held


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstVisits:
    """p_s, and mean and variance of the return from a first visit; NaN in states nobody visits."""

    visits: Vector
    means: Vector
    variances: Vector


def second_moments(process: MarkovRewardProcess) -> Vector:
    """Return M2 of every raw state.

    It solves the sparse system (I - gamma^2 P) M2 = E[r^2 + 2 gamma r V(s')]. M2 is NaN where V is:
    without discounting, in states from which a trajectory may never end.
    """
    gamma, values = process.discount, process.values
    right = _expected_squares(process.outcomes, gamma, values)
    kept = np.flatnonzero(np.isfinite(values))
    moments = np.full(process.states, np.nan)
    if kept.size:
        system = sparse.eye_array(kept.size) - gamma**2 * process.transitions[kept][:, kept]
        moments[kept] = sparse.linalg.splu(system.tocsc()).solve(right[kept])
    return moments


def _expected_squares(outcomes: Outcomes, gamma: float, values: Vector) -> Vector:
    """Return E[r^2 + 2 gamma r V(s')] of every row of the table."""
    follows = outcomes.successors != END
    value_next = np.where(follows, values[np.where(follows, outcomes.successors, 0)], 0.0)
    rewards = outcomes.rewards
    weights = outcomes.probabilities * (rewards**2 + 2 * gamma * rewards * value_next)
    return np.bincount(
        outcomes.rows, weights=weights, minlength=outcomes.states * outcomes.actions
    ).astype(np.float64)


def entries(expected: Vector, rows: Vector) -> Vector:
    """Return e_g: the probabilities that a group is met, and first in each of its members.

    With Z[i, j] the expected rows in j of a trajectory from i, the rows that a trajectory spends in
    the group are those after its entry: (mu Z)_g = e_g Z_gg.
    """
    return np.clip(np.linalg.solve(expected.T, rows), 0.0, 1.0)


class _RowCounts(Protocol):
    """The expected rows of a trajectory, in raw states or in pairs."""

    def of_start(self, members: Integers) -> Vector: ...

    def within(self, members: Integers) -> Vector: ...


class _ExpectedRows:
    """The expected rows of a trajectory: mu Z, and blocks of Z = (I - P)^{-1}."""

    def __init__(self, process: MarkovRewardProcess) -> None:
        kept = np.flatnonzero(process.reachable)
        self._place = np.full(process.states, -1)
        self._place[kept] = np.arange(kept.size)
        passing = process.transitions[kept][:, kept]
        self._whole: Vector | None = None
        if kept.size <= _DENSE:
            self._whole = np.linalg.inv(np.eye(kept.size) - passing.toarray()).astype(np.float64)
            self._of_start = process.start[kept] @ self._whole
        else:
            system = sparse.eye_array(kept.size) - passing
            self._solver = sparse.linalg.splu(system.tocsc())
            self._of_start = sparse.linalg.splu(system.T.tocsc()).solve(process.start[kept])

    def of_start(self, members: Integers) -> Vector:
        """Return (mu Z)_g, the expected rows of a trajectory in each member of the group."""
        return np.asarray(self._of_start[self._place[members]])

    def within(self, members: Integers) -> Vector:
        """Return Z_gg, the expected rows in one member of the group after a start in another."""
        at = self._place[members]
        if self._whole is not None:
            return np.asarray(self._whole[np.ix_(at, at)])
        units = np.zeros((len(self._of_start), at.size))
        units[at, np.arange(at.size)] = 1.0
        return np.asarray(self._solver.solve(units)[at])


class _ExpectedChoices:
    """The same for pairs, numbered s A + a, from the expected rows in states."""

    def __init__(self, mdp: MDP, policy: Vector, process: MarkovRewardProcess) -> None:
        self._actions = mdp.actions
        self._taken = policy.ravel()
        kept = np.flatnonzero(process.reachable)
        self._place = np.full(process.states, -1)
        self._place[kept] = np.arange(kept.size)
        system = sparse.eye_array(kept.size) - process.transitions[kept][:, kept]
        self._rows = sparse.linalg.splu(system.tocsc()).solve(np.eye(kept.size))
        self._of_start = process.start[kept] @ self._rows
        # Whoever takes a pair that people take stays among the states that they visit.
        self._next = mdp.outcomes.transitions.tocsr()[:, kept]

    def of_start(self, members: Integers) -> Vector:
        """Return the expected rows of a trajectory with each pair of the group."""
        return np.asarray(
            self._of_start[self._place[members // self._actions]] * self._taken[members]
        )

    def within(self, members: Integers) -> Vector:
        """Return the expected rows with one pair of the group, from the first row with another."""
        after = self._next[members] @ self._rows[:, self._place[members // self._actions]]
        return np.asarray(np.eye(members.size) + after * self._taken[members])


def expected_length(process: MarkovRewardProcess) -> float:
    """Return the expected number of rows of a trajectory."""
    kept = np.flatnonzero(process.reachable)
    system = sparse.eye_array(kept.size) - process.transitions[kept][:, kept]
    return float(process.start[kept] @ sparse.linalg.splu(system.tocsc()).solve(np.ones(kept.size)))


def first_visits(process: MarkovRewardProcess, state_of: Integers, states: int) -> FirstVisits:
    """Return the exact moments for every state of a study.

    Args:
        process: the world's process, whose trajectories must end.
        state_of: for each raw state its state of the study, or -1.
        states: the number of states of the study.
    """
    process.require_end()
    return _grouped(
        _ExpectedRows(process),
        process.values,
        second_moments(process),
        process.reachable,
        state_of,
        states,
    )


def first_choices(
    mdp: MDP, policy: Vector, process: MarkovRewardProcess, key_of: Integers, keys: int
) -> FirstVisits:
    """Return the exact moments for every pair (state, action) of a study.

    Args:
        mdp: what follows every choice.
        policy: what people follow.
        process: the MDP under the policy, whose trajectories must end.
        key_of: for each raw pair, numbered s A + a, its pair of the study, or -1.
        keys: the number of pairs of the study.
    """
    process.require_end()
    gamma, values = mdp.discount, process.values
    second = _expected_squares(mdp.outcomes, gamma, values)
    second += gamma**2 * np.asarray(mdp.outcomes.transitions @ second_moments(process))
    taken = np.repeat(process.reachable, mdp.actions) & (policy.ravel() > 0)
    return _grouped(
        _ExpectedChoices(mdp, policy, process),
        mdp.q(policy).ravel(),
        second,
        taken,
        key_of,
        keys,
    )


def _grouped(
    expected: _RowCounts,
    values: Vector,
    second: Vector,
    reachable: NDArray[np.bool_],
    state_of: Integers,
    states: int,
) -> FirstVisits:
    """Return the moments of groups of raw states, or of raw pairs."""
    visits = np.zeros(states)
    means, squares = np.full(states, np.nan), np.full(states, np.nan)
    order = np.argsort(state_of, kind="stable")
    limits = np.searchsorted(state_of[order], np.arange(states + 1))
    for state in range(states):
        members = order[limits[state] : limits[state + 1]]
        met = members[reachable[members]]
        if met.size:
            first = entries(expected.within(met), expected.of_start(met))
            visits[state] = min(float(first.sum()), 1.0)
            share = first / first.sum()
            means[state] = share @ values[met]
            squares[state] = share @ second[met]
        elif members.size == 1:  # no trajectory visits the state, but its value is known
            means[state] = values[members[0]]
            squares[state] = second[members[0]]
    return FirstVisits(visits=visits, means=means, variances=np.maximum(squares - means**2, 0.0))
