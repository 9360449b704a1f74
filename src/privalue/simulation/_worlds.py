"""Define worlds, which are processes with a name that rebuilds them, and the built-in ones.

The chain is the domain of [BGP16] section 6: N stages, a probability p of staying in one, and a
last, absorbing stage that gets one row, with the only reward.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from privalue.errors import StudyError
from privalue.simulation._markov import MDP, MarkovRewardProcess
from privalue.simulation._outcomes import END, Outcomes
from privalue.simulation._policies import Policy, named_policy

if TYPE_CHECKING:
    from privalue.core import Vector

Parameter = str | int | float | bool

MOST_STATES = 10_000_000  # what a machine of ordinary size can hold
Start = Literal["uniform", "first"]


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """A Markov reward process with the name and the parameters that made it.

    ``text`` spells out every parameter; ``parse_world(world.text)`` is the same world again,
    unless a policy was handed over as a table, which the text calls ``given``.

    Where people choose, ``mdp`` has the outcomes of every choice, ``policy`` is what they follow,
    and ``process`` is the one under the other. ``behaviour`` is the world's own policy.
    """

    name: str
    parameters: Mapping[str, Parameter]
    process: MarkovRewardProcess
    mdp: MDP | None = None
    policy: Policy | None = None
    behaviour: Policy | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @classmethod
    def of(
        cls,
        mdp: MDP,
        policy: str | Policy = "uniform",
        *,
        name: str = "given",
        parameters: Mapping[str, Parameter] | None = None,
        behaviour: Policy | None = None,
    ) -> World:
        """Return the world of an MDP under a policy.

        Args:
            mdp: what follows every choice.
            policy: a Policy, or the name of one: "uniform", "greedy", "optimal:0.5", or "expert",
                which is the behaviour.
            name: of the world.
            parameters: that made it; "policy" is set here.
            behaviour: the world's own policy; uniform, if left out.
        """
        named = "expert" if behaviour is not None and policy == "expert" else None
        chosen = behaviour if named else named_policy(mdp, policy, behaviour)
        assert chosen is not None
        spelled = policy if isinstance(policy, str) else "given"
        return cls(
            name=name,
            parameters={**(parameters or {}), "policy": spelled},
            process=mdp.under(chosen),
            mdp=mdp,
            policy=chosen,
            behaviour=behaviour,
        )

    def under(self, policy: str | Policy) -> World:
        """Return the world in which people follow another policy.

        Raises:
            StudyError: if nobody chooses in this world, or the policy is not for it.
        """
        return World.of(
            self.decisions[0],
            policy,
            name=self.name,
            parameters=self.parameters,
            behaviour=self.behaviour,
        )

    @property
    def decisions(self) -> tuple[MDP, Policy]:
        """Return the MDP and the policy; raise StudyError where nobody chooses."""
        if self.mdp is None or self.policy is None:
            raise StudyError(
                f"nobody chooses in the world {self.text}; worlds with actions are garnet, "
                "gym:FrozenLake-v1 and its like, and icu-sepsis"
            )
        return self.mdp, self.policy

    @property
    def key_visits(self) -> Vector:
        """Return (N, A): the probability that a trajectory ever takes each action in each state."""
        mdp, policy = self.decisions
        return mdp.key_visits(policy)

    @property
    def text(self) -> str:
        """Return the name and the parameters, as ``parse_world`` reads them."""
        settings = ",".join(f"{key}={_spelled(value)}" for key, value in self.parameters.items())
        joint = "," if ":" in self.name else ":"
        return self.name + joint + settings if settings else self.name


def _spelled(value: Parameter) -> str:
    """Return a parameter as ``parse_world`` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start_of(start: str, states: int) -> Vector:
    """Return the distribution of the first state that a name stands for."""
    if start == "uniform":
        return np.full(states, 1 / states)
    if start == "first":
        first: Vector = np.eye(1, states)[0]
        return first
    raise StudyError(f"start is {start!r}; it must be 'uniform' or 'first'")


def _whole(value: int, least: int, name: str, most: float = MOST_STATES) -> int:
    """Return a whole number between two bounds, or raise StudyError."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        above = f" and at most {most}" if most < math.inf else ""
        raise StudyError(
            f"{name} is {value!r}; it must be a whole number of at least {least}{above}"
        )
    return number


def chain(
    *, states: int = 40, stay: float = 0.5, start: Start = "uniform", discount: float = 0.99
) -> World:
    """Build the paper's chain: stay with probability ``stay``, else advance.

    The last state alone pays a reward, which is 1. Every state that is visited gets a row, the last
    one included, so V(last) = 1 and V(s) = g V(s + 1) with
    g = discount (1 - stay) / (1 - discount stay).

    Args:
        states: N, at least 1.
        stay: p, the probability of staying, in [0, 1).
        start: "uniform" over the states, or "first".
        discount: gamma, in (0, 1].

    Returns:
        The world ``chain``.
    """
    states = _whole(states, 1, "N")
    if not 0 <= stay < 1:
        raise StudyError(f"p is {stay}; the probability of staying must be in [0, 1)")
    walking = np.arange(states - 1)
    last = states - 1
    return World(
        name="chain",
        parameters={
            "N": states,
            "p": float(stay),
            "start": start,
            "discount": float(discount),
        },
        process=MarkovRewardProcess(
            outcomes=Outcomes.collect(
                states=states,
                actions=1,
                rows=np.concatenate([walking, walking, [last]]),
                probabilities=np.concatenate([np.full(last, stay), np.full(last, 1 - stay), [1.0]]),
                successors=np.concatenate([walking, walking + 1, [END]]),
                rewards=np.concatenate([np.zeros(2 * last), [1.0]]),
            ),
            start=_start_of(start, states),
            discount=discount,
        ),
    )


def garnet(
    *,
    states: int = 20,
    actions: int = 4,
    branching: int = 3,
    least_end: float = 0.02,
    most_end: float = 0.25,
    seed: int = 0,
    policy: str | Policy = "uniform",
    start: Start = "uniform",
    discount: float = 0.95,
) -> World:
    """Build a Garnet [Archibald, McKinnon and Thomas 1995] that may end in every row.

    Every action in every state leads to ``branching`` successors, drawn without replacement among
    all states, with random probabilities (the spacings of uniform numbers); it pays a reward that
    is uniform in [0, 1), and ends the trajectory with a probability that is uniform between
    ``least_end`` and ``most_end``.

    Args:
        states: N, at least 1.
        actions: A, at least 1.
        branching: how many successors a pair of state and action has, from 1 to N.
        least_end: the least probability that a row is the last, above 0.
        most_end: the largest, at most 1.
        seed: of everything that is random.
        policy: "uniform", "greedy", "optimal:0.5", or a Policy.
        start: "uniform" over the states, or "first".
        discount: gamma, in (0, 1].

    Returns:
        The world ``garnet``.
    """
    states = _whole(states, 1, "N")
    actions = _whole(actions, 1, "A")
    branching = _whole(branching, 1, "branching", states)
    seed = _whole(seed, 0, "seed", math.inf)
    if not 0 < least_end <= most_end <= 1:
        raise StudyError(
            f"least_end is {least_end} and most_end {most_end}; "
            "they must be above 0 and at most 1, the least first"
        )
    # Only .random(), whose stream is the one least likely to change between NumPy versions.
    generator = np.random.default_rng(seed)
    pairs = states * actions
    ends = least_end + (most_end - least_end) * generator.random(pairs)
    rewards = generator.random(pairs)
    heads = np.argsort(generator.random((pairs, states)), axis=1)[:, :branching]
    cuts = np.sort(generator.random((pairs, branching - 1)), axis=1)
    spacings = np.diff(np.column_stack([np.zeros(pairs), cuts, np.ones(pairs)]), axis=1)
    rows = np.arange(pairs)
    mdp = MDP(
        outcomes=Outcomes.collect(
            states=states,
            actions=actions,
            rows=np.concatenate([np.repeat(rows, branching), rows]),
            probabilities=np.concatenate([((1 - ends)[:, None] * spacings).ravel(), ends]),
            successors=np.concatenate([heads.ravel(), np.full(pairs, END)]),
            rewards=np.concatenate([np.repeat(rewards, branching), rewards]),
        ),
        start=_start_of(start, states),
        discount=discount,
    )
    return World.of(
        mdp,
        policy,
        name="garnet",
        parameters={
            "N": states,
            "A": actions,
            "branching": branching,
            "least_end": float(least_end),
            "most_end": float(most_end),
            "seed": seed,
            "policy": "",
            "start": start,
            "discount": float(discount),
        },
    )
