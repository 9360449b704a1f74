"""Define worlds (processes with a name and parameters), and build the built-in ones.

The chain is the domain of [BGP16] section 6: N stages, a probability p of staying in a stage, and a
last, absorbing stage, which gets one row and the only reward.
"""

import inspect
import json
import math
import operator
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from privalue.core import Vector
from privalue.errors import StudyError, UsageError
from privalue.simulation.mdp import END, MDP, MarkovRewardProcess, Outcomes

Parameter = str | int | float | bool

MAX_STATES = 10_000_000  # what a machine of ordinary size can hold
KEYS = {"N": "states", "A": "actions", "p": "stay"}  # of a text, and their arguments
POLICY_NAMES = "uniform, greedy (or optimal), optimal:SHARE with a share from 0 to 1"


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """A Markov reward process with its name and parameters, from which it can be rebuilt.

    ``text`` spells out every parameter; ``parse_world(world.text)`` is the same world again,
    unless the policy was passed as a table, which the text calls ``given``.

    In a world with actions, ``process`` is the MDP ``mdp`` under ``policy``. ``behaviour`` is the
    policy that the world came with.
    """

    name: str
    parameters: Mapping[str, Parameter]
    process: MarkovRewardProcess
    mdp: MDP | None = None
    behaviour: Vector | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @classmethod
    def of(
        cls,
        mdp: MDP,
        policy: Any = "uniform",
        *,
        name: str = "given",
        parameters: Mapping[str, Parameter] | None = None,
        behaviour: Any = None,
    ) -> "World":
        """Return the world of an MDP under a policy.

        Args:
            mdp: the MDP.
            policy: "uniform"; "greedy" or "optimal", which are the same; "optimal:0.5", an equal
                mixture of the optimal policy and the behaviour; "expert", the behaviour; or an
                array, lists, a DataFrame, a mapping, a CSV file, a function of the state.
            name: of the world.
            parameters: of the world's text; "policy" is filled in here.
            behaviour: the policy that the world comes with; uniform, if left out.
        """
        table = None if behaviour is None else mdp.policy_table(behaviour)
        by_name = isinstance(policy, str) and not policy.lower().endswith(".csv")
        return cls(
            name=name,
            parameters={**(parameters or {}), "policy": policy if by_name else "given"},
            process=mdp.under(_policy_by_name(mdp, policy, table) if by_name else policy),
            mdp=mdp,
            behaviour=table,
        )

    def under(self, policy: Any) -> "World":
        """Return the same world under another policy, in any form of ``World.of``.

        Raises:
            UsageError: if this world has no actions.
            StudyError: if the policy is not for it.
        """
        mdp, _ = self.decisions
        return World.of(
            mdp, policy, name=self.name, parameters=self.parameters, behaviour=self.behaviour
        )

    @property
    def decisions(self) -> tuple[MDP, Vector]:
        """Return the MDP and the policy; raise UsageError if the world has no actions."""
        if self.mdp is None or self.policy is None:
            raise UsageError(
                f"the world {self.text} has no actions; worlds with actions are garnet, "
                "gym:FrozenLake-v1 and its like, and icu-sepsis"
            )
        return self.mdp, self.policy

    @property
    def policy(self) -> Vector | None:
        """Return pi(a | s), (N, A); None if the world has no actions."""
        return self.process.policy

    @property
    def values(self) -> Vector:
        """Return V, exact: the expected return from each state."""
        return self.process.values

    @property
    def value(self) -> float:
        """Return J, exact: the expected return of a trajectory."""
        return self.process.start_value

    @property
    def q(self) -> Vector:
        """Return Q(s, a), (N, A), exact."""
        mdp, policy = self.decisions
        return mdp.q(policy)

    @property
    def optimal_policy(self) -> Vector:
        """Return an optimal policy, as an array of states by actions."""
        return self.decisions[0].optimal()

    @property
    def visits(self) -> Vector:
        """Return p_s, exact: the probability that a trajectory visits each state."""
        return self.process.visits.single

    @property
    def text(self) -> str:
        """Return the name and the parameters, as ``parse_world`` reads them."""
        settings = ",".join(
            f"{key}={str(value).lower() if isinstance(value, bool) else value}"
            for key, value in self.parameters.items()
        )
        joint = "," if ":" in self.name else ":"
        return self.name + joint + settings if settings else self.name

    def __repr__(self) -> str:
        return f"World({self.text})"


def _policy_by_name(mdp: MDP, name: str, behaviour: Vector | None) -> Vector:
    """Return the policy that a name stands for."""
    if name == "expert" and behaviour is not None:
        return behaviour
    uniform = np.full((mdp.states, mdp.actions), 1 / mdp.actions)
    if name == "uniform":
        return uniform
    word, _, number = name.partition(":")
    share = math.nan
    if name in {"greedy", "optimal"}:
        share = 1.0
    elif word == "optimal":
        with suppress(ValueError):
            share = float(number)
    if not 0 <= share <= 1:
        choices = "" if behaviour is None else "expert, "
        allowed = f"it must be {choices}{POLICY_NAMES}, or a CSV file"
        raise UsageError(allowed, code="policy-unknown", argument=("policy", name))
    return (1 - share) * (uniform if behaviour is None else behaviour) + share * mdp.optimal()


def _start_of(start: str, states: int) -> Vector:
    if start == "uniform":
        return np.full(states, 1 / states)
    if start == "first":
        first: Vector = np.eye(1, states)[0]
        return first
    raise StudyError(f"start is {start!r}; it must be 'uniform' or 'first'")


def check_whole(value: Any, name: str, least: int, most: float) -> int:
    """Return a whole number between two bounds; raise UsageError if the value is not one."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        allowed = f"it must be a whole number from {least} to {most}"
        raise UsageError(allowed, code="out-of-range", argument=(name, value))
    return number


def chain(
    *, states: int = 40, stay: float = 0.5, start: str = "uniform", discount: float = 0.99
) -> World:
    """Build the paper's chain: stay with probability ``stay``, else advance.

    Only the last state pays a reward, which is 1. Every visited state gets a row, including the
    last, so V(last) = 1 and V(s) = g V(s + 1) with
    g = discount (1 - stay) / (1 - discount stay).

    Args:
        states: N, at least 1.
        stay: p, the probability of staying, in [0, 1).
        start: "uniform" over the states, or "first".
        discount: gamma, in (0, 1].
    """
    states = check_whole(states, "N", 1, MAX_STATES)
    if not 0 <= stay < 1:
        raise StudyError(f"p is {stay}; the probability of staying must be in [0, 1)")
    stages = np.arange(states - 1)
    last = states - 1
    process = MarkovRewardProcess(
        outcomes=Outcomes(
            states=states,
            actions=1,
            rows=np.concatenate([stages, stages, [last]]),
            probabilities=np.concatenate([np.full(last, stay), np.full(last, 1 - stay), [1.0]]),
            successors=np.concatenate([stages, stages + 1, [END]]),
            rewards=np.concatenate([np.zeros(2 * last), [1.0]]),
        ),
        start=_start_of(start, states),
        discount=discount,
    )
    parameters: dict[str, Parameter] = {"N": states, "p": float(stay), "start": start}
    parameters["discount"] = float(discount)
    return World(name="chain", parameters=parameters, process=process)


def garnet(
    *,
    states: int = 20,
    actions: int = 4,
    branching: int = 3,
    least_end: float = 0.02,
    most_end: float = 0.25,
    seed: int = 0,
    policy: Any = "uniform",
    start: str = "uniform",
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
        policy: in any form of ``World.of``.
        start: "uniform" over the states, or "first".
        discount: gamma, in (0, 1].
    """
    states = check_whole(states, "N", 1, MAX_STATES)
    actions = check_whole(actions, "A", 1, MAX_STATES)
    branching = check_whole(branching, "branching", 1, states)
    seed = check_whole(seed, "seed", 0, math.inf)
    if not 0 < least_end <= most_end <= 1:
        raise StudyError(
            f"least_end is {least_end} and most_end {most_end}; "
            "they must be above 0 and at most 1, the least first"
        )
    # Only .random() is used: its stream is the least likely to change between NumPy versions.
    generator = np.random.default_rng(seed)
    pairs = states * actions
    ends = least_end + (most_end - least_end) * generator.random(pairs)
    rewards = generator.random(pairs)
    heads = np.argsort(generator.random((pairs, states)), axis=1)[:, :branching]
    cuts = np.sort(generator.random((pairs, branching - 1)), axis=1)
    spacings = np.diff(np.column_stack([np.zeros(pairs), cuts, np.ones(pairs)]), axis=1)
    rows = np.arange(pairs)
    mdp = MDP(
        outcomes=Outcomes(
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
    parameters: dict[str, Parameter] = {"N": states, "A": actions, "branching": branching}
    parameters |= {"least_end": float(least_end), "most_end": float(most_end), "seed": seed}
    parameters |= {"policy": "", "start": start, "discount": float(discount)}
    return World.of(mdp, policy, name="garnet", parameters=parameters)


def world_of(source: Any, *, policy: Any = None, discount: float | None = None) -> World:
    """Return a world with its exact values: the ground truth of simulations.

    Args:
        source: a text such as "chain:N=40,p=0.5", "garnet:seed=7", "gym:FrozenLake-v1" or
            "icu-sepsis"; a Gymnasium environment that has a transition table; an ``MDP``; a world.
        policy: the behaviour, in a world with actions: "uniform" (the default of most worlds),
            "greedy", "optimal:0.5", "expert", or an array of states by actions, nested lists, a
            DataFrame, a mapping, a CSV file, a function of the state.
        discount: gamma; if left out, the source's own, and 0.99 for an environment.

    Returns:
        The world: ``values`` (V), ``q``, ``value`` (J), ``visits``, ``policy``,
        ``optimal_policy``, and ``under(policy)``.

    Raises:
        UsageError: if a text names no world, or a policy is given and the world has no actions.
        StudyError: if the policy is invalid, or does not fit this world.

    >>> world_of("chain:N=3,p=0", discount=0.5).values
    array([0.25, 0.5 , 1.  ])
    """
    from privalue.simulation.gymnasium import from_gymnasium  # noqa: PLC0415 - it needs World

    try:
        if isinstance(source, World):
            world = source
        elif isinstance(source, str):
            world = parse_world(source)
        elif isinstance(source, MDP):
            world = World.of(source)
        else:
            options = getattr(getattr(source, "spec", None), "kwargs", {})
            plain: dict[str, Any] = {
                key: value for key, value in options.items() if isinstance(value, str | int | float)
            }
            world = from_gymnasium(source, **plain)
        if discount is not None:
            mdp = None if world.mdp is None else replace(world.mdp, discount=discount)
            world = replace(
                world,
                parameters={**world.parameters, "discount": float(discount)},
                process=replace(world.process, discount=discount),
                mdp=mdp,
            )
    except (StudyError, UsageError) as error:  # about a parameter of the world
        raise UsageError(str(error), code="world-invalid") from None
    return world if policy is None else world.under(policy)


def parse_world(text: str) -> World:
    """Return the world that a text names, such as ``chain`` or ``chain:N=40,p=0.5,start=first``.

    Raises:
        UsageError: if the name or a key is unknown, or a value has the wrong type.
        StudyError: if a value is outside what the world allows.
        MissingComponentError: if the world needs an extra that is not installed.

    Example:
        >>> parse_world("chain:N=3,p=0.25").text
        'chain:N=3,p=0.25,start=uniform,discount=0.99'
    """
    from privalue.simulation.gymnasium import from_gymnasium, make  # noqa: PLC0415
    from privalue.simulation.icu_sepsis import icu_sepsis  # noqa: PLC0415 - they need World

    name, _, rest = (part.strip() for part in text.partition(":"))
    items = [item.strip() for item in rest.split(",") if item.strip()]
    if name == "gym":
        if not items or "=" in items[0]:
            raise UsageError(
                "gym needs an environment first, as in gym:FrozenLake-v1,policy=uniform"
            )
        options = _settings(items[0], items[1:], None)
        arguments = {
            key: _convert(kind, key, str(options.pop(key)))
            for key, kind in (("policy", str), ("discount", float))
            if key in options
        }
        return from_gymnasium(make(items[0], **options), **arguments, **options)
    builders: dict[str, Any] = {"chain": chain, "garnet": garnet, "icu-sepsis": icu_sepsis}
    if name not in builders:
        raise UsageError(f"unknown world {name!r}; known: {', '.join(builders)}, gym")
    short_names = {argument: key for key, argument in KEYS.items()}
    kinds = {
        short_names.get(parameter.name, parameter.name): type(parameter.default)
        for parameter in inspect.signature(builders[name]).parameters.values()
    }
    settings = _settings(name, items, kinds)
    world: World = builders[name](**{KEYS.get(key, key): value for key, value in settings.items()})
    return world


def _settings(name: str, items: list[str], kinds: Mapping[str, type] | None) -> dict[str, Any]:
    """Return the values of ``key=value`` items; without ``kinds``, types are guessed."""
    settings: dict[str, Any] = {}
    for item in items:
        key, _, value = (part.strip() for part in item.partition("="))
        if not key or not value:
            raise UsageError(f"{item!r} is not a setting; write key=value, separated by commas")
        if kinds is not None and key not in kinds:
            raise UsageError(f"{name} has no parameter {key!r}; known: {', '.join(kinds)}")
        if key in settings:
            raise UsageError(f"{name} is given {key} twice; give it once")
        settings[key] = _parse_value(value) if kinds is None else _convert(kinds[key], key, value)
    return settings


def _convert(kind: type, key: str, value: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise UsageError(f"{key} is {value!r}; it must be {expected}") from None


def _parse_value(value: str) -> Parameter:
    """Return a truth value or a number if the text reads like one.

    The environment checks its own options.
    """
    with suppress(ValueError):
        number = json.loads(value.lower())
        if isinstance(number, bool | int | float):
            return number
    return value
