"""Make worlds from the transition tables of Gymnasium's toy-text environments.

``env.unwrapped.P[s][a]`` lists (probability, next state, reward, terminated). There is one row per
transition, and the final observation gets none: a terminated transition is the outcome ``END``. The
time limit that ``gymnasium.make`` puts around an environment is not part of the table, and so not
of the world: trajectories run until they terminate. For rows as they are under the limit, use
``rollout``.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any

import numpy as np

from privalue.errors import MissingComponentError, StudyError, UsageError
from privalue.simulation._markov import MDP
from privalue.simulation._outcomes import END, Outcomes
from privalue.simulation._policies import Policy
from privalue.simulation._worlds import Parameter, World


def gymnasium() -> Any:
    """Import Gymnasium when it is needed, and return the module.

    Raises:
        MissingComponentError: if it is not installed.
    """
    try:
        return importlib.import_module("gymnasium")
    except ImportError as error:
        raise MissingComponentError(
            "Gymnasium is not installed; install it with: pip install gymnasium"
        ) from error


def environment_options(environment: str) -> list[str]:
    """Return the options that a registered environment takes, other than how it is drawn.

    Raises:
        UsageError: if there is no such environment.
    """
    module = gymnasium()
    if environment not in module.registry:
        near = difflib.get_close_matches(environment, module.registry, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise UsageError(
            f"Gymnasium has no environment {environment!r}{hint} "
            "known with a table: FrozenLake, CliffWalking, Taxi, with their versions"
        )
    entry = module.registry[environment].entry_point
    if isinstance(entry, str):
        package, _, name = entry.partition(":")
        try:
            entry = getattr(importlib.import_module(package), name)
        except ImportError as error:
            raise MissingComponentError(
                f"{environment} needs what is not installed: {error}"
            ) from error
    return [name for name in inspect.signature(entry).parameters if name != "render_mode"]


def from_gymnasium(environment: Any, *, discount: float = 0.99) -> MDP:
    """Return the MDP of an environment with a table ``P`` and an ``initial_state_distrib``.

    Raises:
        StudyError: if it has not, or its dynamics are not all in the table.
    """
    env = environment.unwrapped
    name = getattr(env.spec, "id", type(env).__name__)
    table = getattr(env, "P", None)
    start = getattr(env, "initial_state_distrib", None)
    if table is None or start is None:
        raise StudyError(
            f"{name} has no transition table; FrozenLake, CliffWalking and Taxi have one. "
            "Trajectories of other environments come from privalue.simulation.rollout"
        )
    if getattr(env, "fickle_passenger", False):
        raise StudyError(
            f"{name} with fickle_passenger changes the destination outside its table; "
            "leave the option out, or use privalue.simulation.rollout"
        )
    states, actions = len(table), len(table[0])
    listed = [
        (state * actions + action, *outcome)
        for state in range(states)
        for action in range(actions)
        for outcome in table[state][action]
    ]
    rows, probabilities, successors, rewards, terminated = (
        np.array(column) for column in zip(*listed, strict=True)
    )
    return MDP(
        outcomes=Outcomes.collect(
            states=states,
            actions=actions,
            rows=rows,
            probabilities=probabilities,
            successors=np.where(terminated, END, successors),
            rewards=rewards,
        ),
        start=start,
        discount=discount,
    )


def toy_text(
    environment: str,
    *,
    policy: str | Policy = "uniform",
    discount: float = 0.99,
    **options: Parameter,
) -> World:
    """Return the world of a registered environment under a policy.

    Args:
        environment: such as "FrozenLake-v1".
        policy: "uniform", "greedy" (optimal, by value iteration at the discount), "optimal:0.5"
            (half of the way there), or a Policy.
        discount: gamma, in (0, 1].
        options: of the environment, such as ``is_slippery=False``.

    Returns:
        The world, whose text names the environment and every option.
    """
    allowed = environment_options(environment)
    for name in options:
        if name not in allowed:
            raise UsageError(f"{environment} has no option {name!r}; known: {', '.join(allowed)}")
    try:
        env = gymnasium().make(environment, disable_env_checker=True, **options)
    except (gymnasium().error.Error, TypeError, ValueError, KeyError) as error:
        raise UsageError(
            f"{environment} cannot be made with the options {options}: {error!r}"
        ) from error
    try:
        mdp = from_gymnasium(env, discount=discount)
    finally:
        env.close()
    return World.of(
        mdp,
        policy,
        name=f"gym:{environment}",
        parameters={"policy": "", "discount": float(discount), **options},
    )
