"""Merge states and actions of an MDP into public groups, and average what follows them.

The merged process is Markov by construction. It is *not* the original one seen through the groups:
there, what follows a group depends on how its members were reached. Averages weigh a pair (s, a) by
how often the behaviour takes it,

    w(s, a) = n_s b(a | s)        n = mu (I - P_b)^-1, the expected rows of a trajectory in s

so that the first step out of a group is as in the original. A pair of groups that the behaviour
never takes weighs its members by n_s alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from privalue.errors import StudyError
from privalue.simulation._markov import MDP
from privalue.simulation._outcomes import END, Outcomes
from privalue.simulation._policies import Policy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privalue.core import Integers, Vector


def grouped(
    mdp: MDP, behaviour: Policy, *, state_groups: ArrayLike, action_groups: ArrayLike
) -> tuple[MDP, Policy]:
    """Return the MDP of groups of states and actions, and the behaviour between them.

    Args:
        mdp: the process to merge; its trajectories must end under the behaviour.
        behaviour: whose occupancy weighs the members of a group.
        state_groups: the group of each state, 0 to G - 1; -1 for a state that nobody visits.
        action_groups: the group of each action, 0 to B - 1.

    Returns:
        The MDP of G states and B actions, and the behaviour's share of each action in each group.

    Raises:
        StudyError: if a group is empty or never visited, or a state without a group is visited.
    """
    state_of = _numbered(state_groups, mdp.states, least=-1, name="state")
    action_of = _numbered(action_groups, mdp.actions, least=0, name="action")
    groups, actions = int(state_of.max()) + 1, int(action_of.max()) + 1
    rows = _expected_rows(mdp, behaviour)
    lost = np.flatnonzero((state_of < 0) & (rows > 0))
    if lost.size:
        raise StudyError(f"state {lost[0]} is visited and has no group; give it one")
    visited = np.flatnonzero(rows)
    seen = np.bincount(state_of[visited], rows[visited], minlength=groups)
    if not np.all(seen):
        raise StudyError(f"nobody visits group {int(np.argmin(seen))}; merge it with another")

    pairs = groups * actions
    pair_of = (np.maximum(state_of, 0)[:, None] * actions + action_of).ravel()
    taken = (rows[:, None] * behaviour.probabilities).ravel()
    totals = np.bincount(pair_of, taken, minlength=pairs)
    weights = np.where(totals[pair_of] > 0, taken, np.repeat(rows, mdp.actions))
    shares = weights / np.bincount(pair_of, weights, minlength=pairs)[pair_of]

    outcomes = mdp.outcomes
    kept = shares[outcomes.rows] > 0
    successors = outcomes.successors[kept]
    if np.any((successors != END) & (state_of[successors] < 0)):
        raise StudyError("an action that is never taken leads to a state without a group")
    merged = MDP(
        outcomes=Outcomes.collect(
            states=groups,
            actions=actions,
            rows=pair_of[outcomes.rows[kept]],
            probabilities=(shares[outcomes.rows] * outcomes.probabilities)[kept],
            successors=np.where(successors == END, END, state_of[successors]),
            rewards=outcomes.rewards[kept],
        ),
        start=np.bincount(state_of[visited], weights=mdp.start[visited], minlength=groups).astype(
            np.float64
        ),
        discount=mdp.discount,
    )
    return merged, Policy(probabilities=totals.reshape(groups, actions) / seen[:, None])


def _numbered(values: ArrayLike, count: int, *, least: int, name: str) -> Integers:
    """Return checked groups: one whole number for each, every number up to the last in use."""
    groups = np.asarray(values)
    if groups.shape != (count,) or groups.dtype.kind not in "iu":
        raise StudyError(
            f"{name} groups have shape {groups.shape}; they must be {count} whole numbers"
        )
    used = np.unique(groups[groups >= 0])
    if groups.min() < least or not np.array_equal(used, np.arange(used.size)) or not used.size:
        raise StudyError(f"{name} groups must be 0, 1, ... without a gap")
    return groups.astype(np.int64)


def _expected_rows(mdp: MDP, policy: Policy) -> Vector:
    """Return how many rows of a trajectory are in each state, on average."""
    process = mdp.under(policy)
    process.require_end()
    kept = np.flatnonzero(process.reachable)
    system = sparse.eye_array(kept.size) - process.transitions[kept][:, kept].T
    expected = np.zeros(mdp.states)
    expected[kept] = np.maximum(sparse.linalg.splu(system.tocsc()).solve(mdp.start[kept]), 0)
    return expected
