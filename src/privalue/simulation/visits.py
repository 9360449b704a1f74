"""Compute the probabilities that a trajectory visits a state, two states, or one and not another.

====================  ===========  ========  =====================================================
symbol                code         shape     meaning
====================  ===========  ========  =====================================================
Z = (I - P)^-1        expected     (N, N)    Z[i, s]: expected rows in s of a trajectory from i
h[i, s]               hit          (N, N)    P[s is visited | start in i] = Z[i, s] / Z[s, s]
p_s                   single       (N,)      P[s visited] = sum_i mu(i) h[i, s]
f_{s,s'}              first        (N, N)    P[s visited, and s' not visited before s]
p_{s,s'}              joint        (N, N)    P[s and s' visited]
====================  ===========  ========  =====================================================

The p are those of [BGP16] section 5 and appendix E. They are exact: I - P is factorised once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privalue.core import Vector


@dataclass(frozen=True, kw_only=True, eq=False)
class VisitProbabilities:
    """The visits of one trajectory: p_s, p_{s,s'} and its expected length."""

    single: Vector
    joint: Vector
    expected_length: float

    def __post_init__(self) -> None:
        for array in (self.single, self.joint):
            array.flags.writeable = False


def visit_probabilities(
    transitions: sparse.csr_array[Any, Any], start: Vector, reachable: NDArray[np.bool_]
) -> VisitProbabilities:
    """Return the visit probabilities of a process that surely ends, in at most O(N^3).

    Let s != s', let f = f_{s,s'} be the probability that s is visited and s' is not visited before
    it, and f' = f_{s',s}. A visit of s happens first, or after a first visit of s':

        p_s  = f + f' h[s', s]        p_s' = f' + f h[s, s']

        f         = (p_s - p_s' h[s', s]) / (1 - h[s, s'] h[s', s])
        p_{s,s'}  = f h[s, s'] + f' h[s', s]

    The divisor is positive: if it were 0, the trajectory would alternate between the two states for
    ever. States that no trajectory reaches are left out of the system and have p = 0.
    """
    states = start.size
    index = np.flatnonzero(reachable)
    system = sparse.eye_array(index.size) - transitions[index][:, index]
    expected = sparse.linalg.splu(system.tocsc()).solve(np.eye(index.size))
    # Rounding may leave a probability outside [0, 1] by about 1e-16.
    hit = np.clip(expected / np.diag(expected), 0, 1)
    visited = np.clip(start[index] @ hit, 0, 1)

    back = hit.T  # back[s, s'] = h[s', s]
    divisor = 1 - hit * back
    np.fill_diagonal(divisor, 1)
    first = np.clip((visited[:, None] - visited[None, :] * back) / divisor, 0, 1)
    both = np.clip(first * hit + first.T * back, 0, 1)
    np.fill_diagonal(both, visited)

    single = np.zeros(states)
    single[index] = visited
    joint = np.zeros((states, states))
    joint[np.ix_(index, index)] = both
    return VisitProbabilities(
        single=single,
        joint=joint,
        expected_length=float(start[index] @ expected.sum(axis=1)),
    )
