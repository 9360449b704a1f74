"""Compute the probabilities that a trajectory visits a state, two states, or one and not another.

====================  ===========  ========  =====================================================
symbol                code         shape     meaning
====================  ===========  ========  =====================================================
Z = (I - P)^-1        expected     (N, N)    Z[i, s]: expected rows in s of a trajectory from i
h[i, s]               hit          (N, N)    P[s is visited | start in i] = Z[i, s] / Z[s, s]
p_s                   single       (N,)      P[s visited] = sum_i mu(i) h[i, s]
f_{s,s'}              first        (N, N)    P[s visited, and s' not before]
p_{s,s'}              joint        (N, N)    P[s and s' visited]
pbar_{s,s'}           without      (N, N)    P[s visited, s' not]
p_{s,a}               key_visits   (N, A)    P[action a is ever taken in s]
====================  ===========  ========  =====================================================

The p are those of [BGP16] section 5 and appendix E. The system I - P is solved once; no simulation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privalue.core import Integers, Vector


@dataclass(frozen=True, kw_only=True, eq=False)
class VisitProbabilities:
    """The visits of one trajectory: p_s, p_{s,s'}, pbar_{s,s'} and its expected length."""

    single: Vector
    joint: Vector
    without: Vector
    expected_length: float

    def __post_init__(self) -> None:
        for array in (self.single, self.joint, self.without):
            array.flags.writeable = False


def _expected_rows(
    transitions: sparse.csr_array[Any, Any], reachable: NDArray[np.bool_]
) -> tuple[Integers, Vector]:
    """Return the reachable states, and Z among them."""
    kept = np.flatnonzero(reachable)
    system = sparse.eye_array(kept.size) - transitions[kept][:, kept]
    return kept, sparse.linalg.splu(system.tocsc()).solve(np.eye(kept.size))


def visit_probabilities(
    transitions: sparse.csr_array[Any, Any], start: Vector, reachable: NDArray[np.bool_]
) -> VisitProbabilities:
    """Return the visit probabilities of a process that ends, over all pairs in O(N^3) at most.

    Let s != s', let f = f_{s,s'} be the probability that s is visited and s' is not visited before
    it, and f' = f_{s',s}. A visit of s happens first, or after a first visit of s':

        p_s  = f + f' h[s', s]        p_s' = f' + f h[s, s']

        f         = (p_s - p_s' h[s', s]) / (1 - h[s, s'] h[s', s])
        p_{s,s'}  = f h[s, s'] + f' h[s', s]
        pbar      = f (1 - h[s, s'])

    The divisor is positive, or the trajectory would go back and forth for ever. States that no
    trajectory reaches are left out of the system and have p = 0.
    """
    states = start.size
    kept, expected = _expected_rows(transitions, reachable)
    # Rounding may leave a probability outside [0, 1] by about 1e-16.
    hit = np.clip(expected / np.diag(expected), 0, 1)
    visited = np.clip(start[kept] @ hit, 0, 1)

    back = hit.T  # back[s, s'] = h[s', s]
    divisor = 1 - hit * back
    np.fill_diagonal(divisor, 1)
    first = np.clip((visited[:, None] - visited[None, :] * back) / divisor, 0, 1)
    both = np.clip(first * hit + first.T * back, 0, 1)
    np.fill_diagonal(both, visited)
    alone = first * (1 - hit)
    np.fill_diagonal(alone, 0)

    single = np.zeros(states)
    single[kept] = visited
    joint = np.zeros((states, states))
    joint[np.ix_(kept, kept)] = both
    without = np.repeat(single[:, None], states, axis=1)
    without[np.ix_(kept, kept)] = alone
    np.fill_diagonal(without, 0)
    return VisitProbabilities(
        single=single,
        joint=joint,
        without=without,
        expected_length=float(start[kept] @ expected.sum(axis=1)),
    )


def key_visits(
    transitions: sparse.csr_array[Any, Any],
    start: Vector,
    reachable: NDArray[np.bool_],
    *,
    outcomes: sparse.csr_array[Any, Any],
    policy: Vector,
) -> Vector:
    """Return the probability that a trajectory ever takes each action in each state.

    The rows with (s, a) number mu Z[., s] pi(a | s) on average; after the first of them there are,
    the first included, 1 + pi(a | s) sum_s' P(s' | s, a) Z[s', s] on average. So

        p_{s,a} = pi(a | s) (mu Z)_s / (1 + pi(a | s) sum_s' P(s' | s, a) Z[s', s])

    Args:
        transitions: P under the policy, (N, N).
        start: mu.
        reachable: whether a trajectory can visit each state.
        outcomes: P of every state and action, (N * A, N).
        policy: pi, (N, A).
    """
    states, actions = policy.shape
    kept, expected = _expected_rows(transitions, reachable)
    place = np.full(states, -1)
    place[kept] = np.arange(kept.size)
    # A pair that leads out of `kept` is one that the policy never takes: its p is 0 in any case.
    table = outcomes.tocoo()
    row, successor = table.coords
    known = reachable[row // actions] & reachable[successor]
    row, successor, chance = row[known], successor[known], table.data[known]
    weights = chance * expected[place[successor], place[row // actions]]
    again = np.bincount(row, weights=weights, minlength=states * actions).reshape(states, actions)
    taken = policy[kept]
    probabilities = np.zeros((states, actions))
    probabilities[kept] = taken * (start[kept] @ expected)[:, None] / (1 + taken * again[kept])
    probabilities = np.clip(probabilities, 0, 1)
    probabilities.flags.writeable = False
    return probabilities
