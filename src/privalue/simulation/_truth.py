"""Write what is true of a world beside its rows: exact values, policies, and a study for them.

===================  ===============================  ==============================================
file                 columns                          what it is
===================  ===============================  ==============================================
study.toml                                            describes the rows; edit it as you like
values.csv           state, value                     V under the world's policy
start.csv            state, probability               where trajectories start
action_values.csv    state, action, value             Q of the policy, for worlds with actions
policy.csv           state, action, probability       the policy that people follow
optimal.csv          state, action, probability       a best one
===================  ===============================  ==============================================

States that no trajectory can visit have no value there, and a pair has one if its state can be
visited, whether the policy takes it or not.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privalue.errors import UsageError
from privalue.simulation._outcomes import END
from privalue.simulation._policy_files import write_csv, write_policy
from privalue.simulation._simulation import CUT

if TYPE_CHECKING:
    from privalue.simulation._markov import MarkovRewardProcess
    from privalue.simulation._worlds import World

SWEEPS = 20_000
MOST_STATES = 5_000  # whose visits are found in seconds


def write_truth(
    world: World,
    folder: str | os.PathLike[str],
    *,
    trajectories: int,
    actions: bool = False,
    cut: bool = False,
) -> list[Path]:
    """Write a study and the exact answers into a folder, which is made.

    Args:
        world: what is simulated.
        folder: where to write; files of the same names are replaced.
        trajectories: how many the study says there are.
        actions: whether the rows have actions, and the study is one of pairs.
        cut: whether the rows mark trajectories that were cut.

    Returns:
        The files.

    Raises:
        UsageError: if they cannot be written.
    """
    try:
        return _written(world, Path(folder), trajectories, actions=actions, cut=cut)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror or error}; choose another folder"
        ) from error


def _written(world: World, out: Path, trajectories: int, *, actions: bool, cut: bool) -> list[Path]:
    """Write the files, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    process = world.process
    visited = np.flatnonzero(process.reachable).tolist()
    begins = np.flatnonzero(process.start).tolist()
    write_csv(out / "values.csv", ["state", "value"], [(s, process.values[s]) for s in visited])
    write_csv(out / "start.csv", ["state", "probability"], [(s, process.start[s]) for s in begins])
    written = ["values.csv", "start.csv"]
    if actions:
        mdp, policy = world.decisions
        values = mdp.q(policy)
        write_csv(
            out / "action_values.csv",
            ["state", "action", "value"],
            [(s, a, values[s, a]) for s in visited for a in range(mdp.actions)],
        )
        write_policy(policy, out / "policy.csv")
        write_policy(mdp.optimal(), out / "optimal.csv")
        written += ["action_values.csv", "policy.csv", "optimal.csv"]
    (out / "study.toml").write_text(_study(world, trajectories, actions=actions, cut=cut))
    return [out / name for name in ("study.toml", *written)]


def _study(world: World, trajectories: int, *, actions: bool, cut: bool) -> str:
    """Return the text of a study that describes the rows."""
    process = world.process
    rewards = process.reward_bounds
    lines = [
        f"# Rows of the world {world.text}.",
        "[study]",
        f'name = "{world.name}"',
        f"trajectories = {trajectories}",
        "",
        "[privacy]",
        "epsilon = 1.0",
        "delta = 1e-6",
        'unit = "trajectory"',
        *_most_keys(world, actions=actions),
        "",
        "[values]",
        f"discount = {process.discount!r}",
        f"rewards = [{rewards[0]!r}, {rewards[1]!r}]",
        *_returns(process),
        'start = "start.csv"',
        "",
        "[states]",
        f"count = {process.states}",
    ]
    if actions:
        lines += ["", "[actions]", f"count = {world.decisions[0].actions}"]
    if cut:
        lines += ["", "[data]", f'truncated = "{CUT}"']
    return "\n".join([*lines, ""])


def _most_keys(world: World, *, actions: bool) -> list[str]:
    """Return the line for H, half more than a trajectory's distinct keys: where that is few."""
    process = world.process
    if process.states > MOST_STATES or not process.surely_ends[process.reachable].all():
        return []
    chances = world.key_visits if actions else process.visits.single
    most = int(np.ceil(1.5 * chances.sum()))
    return [f"max_states_per_trajectory = {most}"] if 2 * most <= chances.size else []


def _returns(process: MarkovRewardProcess) -> list[str]:
    """Return the line for the bounds of returns, rounded outwards; or why there are none."""
    low, high = return_range(process)
    if math.isinf(low) or math.isinf(high):
        return [
            "# Returns of this world have no bound: without a discount, rewards on a loop add up.",
            "# Say to what bounds they are clamped, such as returns = [0.0, 100.0].",
        ]
    if low == high:  # a study's bounds differ
        low, high = min(low, 0.0), max(high, 0.0)
    low, high = -math.ceil(-low * 1e4 - 1e-3) / 1e4, math.ceil(high * 1e4 - 1e-3) / 1e4
    return [f"returns = [{low!r}, {high!r}]"]


def return_range(process: MarkovRewardProcess) -> tuple[float, float]:
    """Return the least and the largest return from a state that a trajectory can visit.

    An end is infinite if returns have no bound, as with rewards on a loop and no discount; and so
    are both where a trajectory may never end, without a discount.
    """
    if process.discount == 1 and not process.surely_ends[process.reachable].all():
        return -math.inf, math.inf
    return 0.0 - _largest(process, -1.0), _largest(process, 1.0)


def _largest(process: MarkovRewardProcess, sign: float) -> float:
    """Return the largest u_s = max_k (r_k + gamma u_{s'_k}), over the outcomes k that can happen.

    With a discount, sweeps from zero converge; what moved in the last of them bounds what is left.
    Without one, u is that of paths that have ended within as many rows as there were sweeps. A
    path without a loop has at most N rows: if u still moves after N sweeps, a loop pays.
    """
    outcomes, gamma = process.outcomes, process.discount
    going_on, rewards = outcomes.successors != END, sign * outcomes.rewards
    tolerance = 1e-12 * max(float(np.abs(rewards).max()), 1e-300)
    values = np.full(process.states, 0.0 if gamma < 1 else -np.inf)
    for _ in range(SWEEPS if gamma < 1 else min(process.states + 1, SWEEPS)):
        following = np.where(going_on, values[outcomes.successors], 0.0)
        largest = np.maximum.reduceat(rewards + gamma * following, outcomes.offsets[:-1])
        with np.errstate(invalid="ignore"):  # no path has ended, before or after
            moved = float(np.abs(largest - values)[process.reachable].max())
        values = largest
        if moved <= tolerance:
            return float(values[process.reachable].max())
    if gamma == 1:
        return math.inf
    return float(values[process.reachable].max()) + moved * gamma / (1 - gamma)
