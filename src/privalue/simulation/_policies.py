"""Define policies as tables of probabilities, and find the optimal one by value iteration.

=============  ===============  ========  ====================================
symbol         code             shape     meaning
=============  ===============  ========  ====================================
pi(a | s)      probabilities    (N, A)    of taking action a in state s
Q(s, a)        values           (N, A)    r(s, a) + gamma sum_s' P(s'|s,a) V(s')
=============  ===============  ========  ====================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privalue.errors import StudyError
from privalue.simulation._outcomes import TOLERANCE, read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privalue.core import Vector
    from privalue.simulation._markov import MDP

TIE = 1e-9
"""Actions whose values differ by less count as equal, and the first of them is taken."""

MAX_SWEEPS = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """pi(a | s), one row per state."""

    probabilities: Vector

    def __post_init__(self) -> None:
        table: Vector = read_only(self.probabilities)
        if table.ndim != 2 or 0 in table.shape:
            raise StudyError(f"a policy has shape {table.shape}; it must be (states, actions)")
        wrong = np.argwhere(~(table >= 0))
        if wrong.size:
            state, action = (int(part) for part in wrong[0])
            raise StudyError(
                f"the policy takes action {action} in state {state} with probability "
                f"{table[state, action]}; it must be at least 0"
            )
        sums = table.sum(axis=1)
        off = np.flatnonzero(~(np.abs(sums - 1) <= TOLERANCE))
        if off.size:
            raise StudyError(
                f"the policy's probabilities in state {off[0]} sum to {sums[off[0]]:.12g}; "
                "they must sum to one"
            )
        object.__setattr__(self, "probabilities", read_only(table / sums[:, None]))

    @property
    def states(self) -> int:
        """N, the number of states."""
        return int(self.probabilities.shape[0])

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return int(self.probabilities.shape[1])

    @classmethod
    def uniform(cls, *, states: int, actions: int) -> Policy:
        """Return the policy that takes every action with the same probability."""
        return cls(probabilities=np.full((states, actions), 1 / actions))

    @classmethod
    def deterministic(cls, choices: ArrayLike, *, actions: int) -> Policy:
        """Return the policy that takes the action ``choices[s]`` in state s."""
        chosen = np.asarray(choices, dtype=np.int64)
        wrong = np.flatnonzero((chosen < 0) | (chosen >= actions))
        if wrong.size:
            raise StudyError(
                f"the policy takes action {chosen[wrong[0]]} in state {wrong[0]}; "
                f"actions are 0 to {actions - 1}"
            )
        return cls(probabilities=np.eye(actions)[chosen])

    def towards(self, other: Policy, share: float) -> Policy:
        """Return the policy that follows the other one with probability ``share``, row by row."""
        if not 0 <= share <= 1:
            raise StudyError(f"share is {share}; it must be in [0, 1]")
        return Policy(probabilities=(1 - share) * self.probabilities + share * other.probabilities)


def optimal_policy(mdp: MDP) -> Policy:
    """Return the greedy policy of the optimal values, by value iteration at the MDP's discount.

    V <- max_a [r(s, a) + gamma sum_s' P(s' | s, a) V(s')] until no value moves by more than
    1e-12 of the largest; then the first action within ``TIE`` of the best. Without discounting
    the sweeps may never settle, and that is an error.
    """
    transitions, rewards = mdp.outcomes.transitions, mdp.outcomes.expected_rewards
    values = np.zeros(mdp.states)
    for _ in range(MAX_SWEEPS):
        action_values = (rewards + mdp.discount * (transitions @ values)).reshape(
            mdp.states, mdp.actions
        )
        previous, values = values, action_values.max(axis=1)
        scale = max(1.0, float(np.abs(values).max()))
        if float(np.abs(values - previous).max()) <= 1e-12 * scale:
            break
    else:
        raise StudyError(
            f"value iteration did not settle in {MAX_SWEEPS} sweeps at discount {mdp.discount}; "
            "use a smaller discount, or give a policy"
        )
    near_best = action_values >= action_values.max(axis=1, keepdims=True) - TIE * scale
    return Policy.deterministic(near_best.argmax(axis=1), actions=mdp.actions)


POLICIES = ("uniform", "greedy", "optimal", "optimal:SHARE")
"""The policies that every MDP has by name."""


def share_of(name: str) -> float | None:
    """Return the share of the optimal policy that ``greedy`` or ``optimal:0.5`` names, or None."""
    if name in {"greedy", "optimal"}:
        return 1.0
    word, _, number = name.partition(":")
    try:
        share = float(number)
    except ValueError:
        return None
    return share if word == "optimal" and 0 <= share <= 1 else None


def named_policy(mdp: MDP, policy: str | Policy, behaviour: Policy | None = None) -> Policy:
    """Return the policy that a name stands for; a Policy is returned as it is.

    Args:
        mdp: what the policy is for.
        policy: "uniform"; "greedy" or "optimal", which are the same; "optimal:0.5", half of the way
            there from the behaviour; or a Policy.
        behaviour: the world's own policy; uniform, if left out.
    """
    if isinstance(policy, Policy):
        return policy
    uniform = Policy.uniform(states=mdp.states, actions=mdp.actions)
    if policy == "uniform":
        return uniform
    share = share_of(policy)
    if share is None:
        raise StudyError(
            f"policy is {policy!r}; it must be 'uniform' or 'greedy', "
            "or 'optimal:SHARE' with a share in [0, 1]"
        )
    return (behaviour or uniform).towards(mdp.optimal(), share)
