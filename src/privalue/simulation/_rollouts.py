"""Collect trajectories of any Gymnasium environment with discrete observations.

One row per transition: the observation acted on and the reward received; the final observation
gets no row. An environment is asked for one step at a time, so this is some thousand times slower
than the simulation of a world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privalue.errors import UsageError
from privalue.simulation._policies import Policy
from privalue.simulation._simulation import (
    BIAS,
    Episodes,
    Truncated,
    checked_count,
    checked_truncation,
    none_left,
)
from privalue.simulation._toy_text import gymnasium

if TYPE_CHECKING:
    from privalue.core import Vector


def rollout(
    env: Any,
    policy: Literal["uniform"] | Policy | Callable[[int], Any] = "uniform",
    *,
    trajectories: int,
    seed: int,
    truncated: Truncated | None = None,
    truncate_at: int | None = None,
    actions: bool = False,
) -> Episodes:
    """Collect rows of an environment under a policy.

    Args:
        env: a Gymnasium environment whose observations are ``Discrete``; state 0 is its first.
        policy: "uniform" over discrete actions, a Policy, or a function from the observation
            to the action.
        trajectories: how many; with ``truncated="drop"`` some of these are left out.
        seed: of the environment and of the choice of actions.
        truncated: "keep" or "drop" the trajectories that are cut by a time limit. Required if
            the environment has one, or if one is cut: either choice biases the values.
        truncate_at: a time limit of your own, for environments without one.
        actions: whether to record the action of every row, 0 for the first, and how likely it was;
            the latter not for a function, which does not give it.

    Returns:
        The rows, and how many trajectories were truncated and dropped.

    Raises:
        UsageError: if a choice is missing or not allowed.
    """
    wanted = checked_count(trajectories, name="trajectories", least=1)
    checked_count(seed, name="seed", least=0)
    if truncate_at is not None or truncated not in (None, "keep", "drop"):
        checked_truncation(truncate_at, truncated)
    limit = _time_limit(env)
    if limit is not None and truncated is None:
        raise UsageError(
            f"this environment truncates trajectories after {limit} steps, and truncated is not "
            f"given; it must be 'keep' or 'drop': {BIAS}"
        )
    first_state = _first_observation(env)
    act = _chooser(env, policy, np.random.default_rng(seed), first_state)
    first_action = _first_action(env) if actions else 0

    rows: list[tuple[int, int, int, float]] = []
    taken: list[int] = []
    kept = cut = 0
    for index in range(wanted):
        observation, _ = env.reset(seed=seed if index == 0 else None)
        begin, step, over, stopped = len(rows), 0, False, False
        while not (over or stopped):
            state = int(observation) - first_state
            action = act(observation)
            observation, reward, over, stopped, _ = env.step(action)
            if actions:
                taken.append(int(action) - first_action)
            rows.append((kept, step, state, float(reward)))
            step += 1
            stopped = bool(stopped) or (truncate_at is not None and step >= truncate_at)
        if not over:
            if truncated is None:
                raise UsageError(
                    f"the environment truncated trajectory {index} after {step} steps, and "
                    f"truncated is not given; it must be 'keep' or 'drop': {BIAS}"
                )
            cut += 1
            if truncated == "drop":
                del rows[begin:], taken[begin:]
                continue
        kept += 1
    if not kept:
        raise UsageError(none_left(wanted))
    trajectory, step_of, state_of, reward_of = zip(*rows, strict=True)
    return Episodes(
        trajectory=np.array(trajectory, dtype=np.int64),
        step=np.array(step_of, dtype=np.int64),
        state=np.array(state_of, dtype=np.int64),
        reward=np.array(reward_of, dtype=np.float64),
        trajectories=kept,
        truncated=cut,
        dropped=wanted - kept,
        action=np.array(taken, dtype=np.int64) if actions else None,
        probability=_chances(env, policy, state_of, taken) if actions else None,
    )


def _time_limit(env: Any) -> int | None:
    """Return the steps after which a wrapper of this environment truncates, or None."""
    layer = env
    while layer is not layer.unwrapped:
        if isinstance(layer, gymnasium().wrappers.TimeLimit):
            return int(layer._max_episode_steps)
        layer = layer.env
    return None


def _first_observation(env: Any) -> int:
    """Return the smallest observation; raise UsageError unless they are discrete."""
    space = env.observation_space
    if not isinstance(space, gymnasium().spaces.Discrete):
        raise UsageError(
            f"the observations of this environment are {space}; they must be Discrete, "
            "one number per state"
        )
    return int(space.start)


def _first_action(env: Any) -> int:
    """Return the smallest action; raise UsageError unless they are discrete."""
    space = env.action_space
    if not isinstance(space, gymnasium().spaces.Discrete):
        raise UsageError(
            f"the actions of this environment are {space}; only Discrete ones are recorded"
        )
    return int(space.start)


def _chances(env: Any, policy: Any, states: Sequence[int], taken: list[int]) -> Vector | None:
    """Return how likely the policy was to take each action, if that is known."""
    if isinstance(policy, Policy):
        found: Vector = policy.probabilities[list(states), taken]
        return found
    return None if callable(policy) else np.full(len(taken), 1 / int(env.action_space.n))


def _chooser(
    env: Any, policy: Any, generator: np.random.Generator, first_state: int
) -> Callable[[Any], Any]:
    """Return the function that chooses an action for an observation."""
    space = env.action_space
    discrete = isinstance(space, gymnasium().spaces.Discrete)
    if callable(policy):
        return _checked(policy, space) if discrete else policy
    if not discrete:
        raise UsageError(
            f"the actions of this environment are {space}; give a function from the observation "
            "to the action"
        )
    count, first = int(space.n), int(space.start)
    if isinstance(policy, Policy):
        expected = (int(env.observation_space.n), count)
        if (policy.states, policy.actions) != expected:
            raise UsageError(
                f"the policy is for {policy.states} states and {policy.actions} actions; "
                f"this environment has {expected[0]} and {expected[1]}"
            )
        table = policy.probabilities
        return lambda observation: (
            first + int(generator.choice(count, p=table[int(observation) - first_state]))
        )
    if policy == "uniform":
        return lambda observation: first + int(generator.integers(count))
    raise UsageError(
        f"policy is {policy!r}; it must be 'uniform', a Policy, or a function from the "
        "observation to the action"
    )


def _checked(policy: Callable[[Any], Any], space: Any) -> Callable[[Any], Any]:
    """Return a policy that raises UsageError for what is no action."""

    def act(observation: Any) -> Any:
        action = policy(observation)
        if isinstance(action, list | tuple) or np.ndim(action):
            raise UsageError(
                f"the policy returned {action} for the observation {observation}; it must return "
                f"one action of {space}; for probabilities, give a "
                "privalue.simulation.Policy(probabilities=...), with a row for each state"
            )
        return action

    return act
