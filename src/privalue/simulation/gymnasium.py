"""Make worlds from Gymnasium's transition tables, and roll out any environment.

``env.unwrapped.P[s][a]`` lists (probability, next state, reward, terminated). There is one row per
transition, and the final observation gets none: a terminated transition is the outcome ``END``. The
time limit that ``gymnasium.make`` wraps around an environment is not part of the table, and so not
of the world: trajectories run until they terminate. ``rollout`` obeys the time limit.
"""

import importlib
import warnings
from typing import Any

import numpy as np

from privalue.errors import MissingComponentError, PrivalueWarning, StudyError, UsageError
from privalue.simulation.episodes import CUT, Episodes
from privalue.simulation.mdp import END, MDP, Outcomes
from privalue.simulation.walk import NO_LIMIT
from privalue.simulation.worlds import Parameter, World, check_whole
from privalue.study import policy_table


def _gymnasium() -> Any:
    try:
        return importlib.import_module("gymnasium")
    except ImportError as error:
        raise MissingComponentError(
            "Gymnasium is not installed; install it with: pip install gymnasium"
        ) from error


def from_gymnasium(
    environment: Any, *, policy: Any = "uniform", discount: float = 0.99, **options: Parameter
) -> World:
    """Return the world of an environment with a table ``P`` and an ``initial_state_distrib``.

    Args:
        environment: a Gymnasium environment.
        policy: in any form of ``World.of``.
        discount: gamma, in (0, 1].
        options: the options that the environment was made with, for the world's text.

    Raises:
        StudyError: if it has no table, or its dynamics are not all in the table.
    """
    env = getattr(environment, "unwrapped", environment)
    name = getattr(getattr(env, "spec", None), "id", type(env).__name__)
    table = getattr(env, "P", None)
    start = getattr(env, "initial_state_distrib", None)
    if table is None or start is None:
        raise StudyError(
            f"{name} has no transition table; FrozenLake, CliffWalking and Taxi have one. "
            "Trajectories of other environments come from privalue.rollout"
        )
    if getattr(env, "fickle_passenger", False):
        raise StudyError(
            f"{name} with fickle_passenger changes the destination outside its table; "
            "leave the option out, or use privalue.rollout"
        )
    states, actions = len(table), len(table[0])
    transitions = [
        (state * actions + action, *outcome)
        for state in range(states)
        for action in range(actions)
        for outcome in table[state][action]
    ]
    rows, probabilities, successors, rewards, terminated = (
        np.array(column) for column in zip(*transitions, strict=True)
    )
    mdp = MDP(
        outcomes=Outcomes(
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
    options.pop("render_mode", None)  # rendering does not change the dynamics
    parameters = {"policy": "", "discount": float(discount), **options}
    return World.of(mdp, policy, name=f"gym:{name}", parameters=parameters)


def make(environment: str, **options: Any) -> Any:
    """Return a registered environment; raise UsageError if there is none with these options."""
    module = _gymnasium()
    try:
        return module.make(environment, disable_env_checker=True, **options)
    except (module.error.Error, ImportError, TypeError, ValueError, KeyError) as error:
        raise UsageError(f"Gymnasium cannot make {environment} {options or ''}: {error}") from error


def rollout(
    env: Any, policy: Any, episodes: int, *, seed: int = 0, truncate_at: int | None = None
) -> Episodes:
    """Play episodes of a Gymnasium environment under a policy, and return their rows.

    One row per transition: the observation acted on and the reward received; the final observation
    gets no row. The environment makes one step at a time, so this is some thousand times slower
    than ``simulate`` of a world. If a time limit truncates episodes, the column ``cut`` marks them,
    and a warning says so: keeping them and dropping them both bias the values, and the study has to
    choose one (``truncated_rows``).

    Args:
        env: an environment whose observations are ``Discrete``, or its name.
        policy: "uniform" over discrete actions; a function from the observation to the action; or
            an array of states by actions, nested lists, a DataFrame, a mapping, a CSV file.
        episodes: how many.
        seed: of the environment and of the choice of actions.
        truncate_at: an additional time limit.

    Returns:
        The rows, which ``release`` takes, with ``action`` and ``probability`` if these are known.

    Raises:
        UsageError: if a number is not allowed, or the environment does not fit.
        StudyError: if the policy is not for this environment.

    >>> rows = rollout("FrozenLake-v1", "uniform", episodes=10)
    >>> rows.trajectories, rows.truncated
    (10, 0)
    """
    count = check_whole(episodes, "episodes", 1, NO_LIMIT)
    check_whole(seed, "seed", 0, NO_LIMIT)
    limit = NO_LIMIT if truncate_at is None else truncate_at
    check_whole(limit, "truncate_at", 1, NO_LIMIT)
    if isinstance(env, str):
        env = make(env)
    if not _is_discrete(env.observation_space):
        raise UsageError(
            f"the observations of this environment are {env.observation_space}; they must be "
            "Discrete, one number per state; for other observations, record episodes yourself and "
            "let pv.Study(bins={...}) bin them into states"
        )
    discrete = _is_discrete(env.action_space)
    first_state = int(env.observation_space.start)
    first_action = int(env.action_space.start) if discrete else 0
    table, act = _load_policy(env, policy, np.random.default_rng(seed))

    rows: list[tuple[int, int, int, float, Any, int]] = []
    for episode in range(count):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        step, terminated, truncated = 0, False, False
        while not (terminated or truncated):
            state, action = int(observation) - first_state, act(observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            truncated = bool(truncated) or step + 1 >= limit
            cut = int(truncated and not terminated)
            rows.append((episode, step, state, float(reward), action, cut))
            step += 1
    trajectory, steps, states, rewards, actions_taken, cuts = map(np.array, zip(*rows, strict=True))
    if cuts.any():
        warnings.warn(
            f"{cuts.sum()} of {count} episodes were truncated by a time limit; the column {CUT!r} "
            f"marks them: name it in the study by columns={{'truncated': {CUT!r}}}, and choose "
            "truncated_rows='drop-unit' or 'keep'",
            PrivalueWarning,
            stacklevel=2,
        )
    actions = actions_taken.astype(np.int64) - first_action if discrete else None
    return Episodes(
        trajectory=trajectory,
        step=steps,
        state=states,
        reward=rewards,
        trajectories=count,
        truncated=int(cuts.sum()),
        action=actions,
        probability=None if table is None else table[states, actions],
        cut=cuts,
    )


def _is_discrete(space: Any) -> bool:
    return isinstance(space, _gymnasium().spaces.Discrete)


def _load_policy(env: Any, policy: Any, generator: np.random.Generator) -> tuple[Any, Any]:
    """Return pi(a | s) (None if the policy is a function), and a function that draws actions."""
    if callable(policy):

        def call_policy(observation: Any) -> Any:
            action = policy(observation)
            if isinstance(action, list | tuple | dict) or (
                _is_discrete(env.action_space) and not env.action_space.contains(action)
            ):
                raise UsageError(
                    f"the policy returned {action} for the observation {observation}; a function "
                    f"must return one action of {env.action_space}; for probabilities, give an "
                    "array of states by actions"
                )
            return action

        return None, call_policy
    if not _is_discrete(env.action_space):
        raise UsageError(
            f"the actions of this environment are {env.action_space}; give a function from the "
            "observation to the action"
        )
    states, actions = int(env.observation_space.n), int(env.action_space.n)
    table = np.full((states, actions), 1 / actions)
    if not (isinstance(policy, str) and policy == "uniform"):
        table = policy_table(policy, states=states, actions=actions)
        table = table / table.sum(axis=1, keepdims=True)

    def choose(observation: Any) -> int:
        probabilities = table[int(observation) - int(env.observation_space.start)]
        return int(env.action_space.start) + int(generator.choice(actions, p=probabilities))

    return table, choose
