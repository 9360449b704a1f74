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
from scipy import sparse

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
    """

    name: str
    parameters: Mapping[str, Parameter]
    process: MarkovRewardProcess

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

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


def random_chain(
    *,
    states: int = 40,
    branching: int = 3,
    seed: int = 0,
    start: Start = "uniform",
    discount: float = 0.99,
) -> World:
    """Build a chain with branches from a seed: states are revisited, and every one has a reward.

    From state s the process goes to s + 1 and to ``branching`` - 1 others among s - 2, ..., s + 4,
    s itself included, with random probabilities; being in s pays a random reward in [0, 1). The
    last state is absorbing, with one last row.

    Args:
        states: N, at least 1.
        branching: how many successors a state has, at least 1.
        seed: of the random probabilities and rewards.
        start: "uniform" over the states, or "first".
        discount: gamma, in (0, 1].

    Returns:
        The world ``random-chain``.
    """
    states = _whole(states, 1, "N")
    branching = _whole(branching, 1, "branching")
    seed = _whole(seed, 0, "seed", math.inf)
    # Only .random(), whose stream is the one least likely to change between NumPy versions.
    generator = np.random.default_rng(seed)
    rows, successors, probabilities = [], [], []
    for state in range(states - 1):
        nearby = [k for k in range(max(state - 2, 0), min(state + 5, states)) if k != state + 1]
        chosen = np.argsort(generator.random(len(nearby)))[: branching - 1]
        heads = [state + 1, *(nearby[k] for k in chosen)]
        # The floor keeps the way forward open, and trajectories short.
        weights = 0.25 + generator.random(len(heads))
        rows += [state] * len(heads)
        successors += heads
        probabilities += list(weights / weights.sum())
    rewards = generator.random(states)
    return World(
        name="random-chain",
        parameters={
            "N": states,
            "branching": branching,
            "seed": seed,
            "start": start,
            "discount": float(discount),
        },
        process=MarkovRewardProcess(
            outcomes=Outcomes.collect(
                states=states,
                actions=1,
                rows=[*rows, states - 1],
                probabilities=[*probabilities, 1.0],
                successors=[*successors, END],
                rewards=rewards[[*rows, states - 1]],
            ),
            start=_start_of(start, states),
            discount=discount,
        ),
    )


def grid(
    *,
    rows: int = 4,
    columns: int = 5,
    slip: float = 0.1,
    policy: str | Policy = "uniform",
    start: Start = "uniform",
    discount: float = 0.99,
) -> World:
    """Build a grid with a goal in the last corner, which is absorbing and pays 1 in its last row.

    State r * columns + c is the cell in row r, column c. Actions 0 to 3 move up, right, down and
    left; with probability ``slip`` the move goes to one of the two sides instead, each with
    half of it. A move into the edge stays.

    Args:
        rows: of the grid, at least 1.
        columns: of the grid, at least 1.
        slip: the probability of slipping, in [0, 1].
        policy: "uniform", "greedy", or a Policy.
        start: "uniform" over the cells, or "first".
        discount: gamma, in (0, 1].

    Returns:
        The world ``grid``.
    """
    rows = _whole(rows, 1, "rows")
    columns = _whole(columns, 1, "columns")
    if not 0 <= slip <= 1:
        raise StudyError(f"slip is {slip}; it must be in [0, 1]")
    states = rows * columns
    goal = states - 1
    row, column = np.divmod(np.arange(states), columns)
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    neighbour = np.stack(
        [
            np.clip(row + down, 0, rows - 1) * columns + np.clip(column + right, 0, columns - 1)
            for down, right in moves
        ]
    )
    neighbour[:, goal] = goal
    heads, tails, chances = [], [], []
    for action in range(4):
        for turn, chance in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
            tails.append(np.arange(states) * 4 + action)
            heads.append(neighbour[(action + turn) % 4])
            chances.append(np.full(states, chance))
    mdp = MDP.tabular(
        transitions=sparse.coo_array(
            (np.concatenate(chances), (np.concatenate(tails), np.concatenate(heads))),
            shape=(states * 4, states),
        ),
        rewards=np.eye(1, states, goal)[0],
        start=_start_of(start, states),
        discount=discount,
        absorbing=[goal],
    )
    return World(
        name="grid",
        parameters={
            "rows": rows,
            "columns": columns,
            "slip": float(slip),
            "policy": policy if isinstance(policy, str) else "given",
            "start": start,
            "discount": float(discount),
        },
        process=mdp.under(named_policy(mdp, policy)),
    )
