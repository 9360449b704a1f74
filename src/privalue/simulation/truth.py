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

import csv
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from privalue.core import Vector
from privalue.errors import UsageError
from privalue.ledger.files import whole_file
from privalue.simulation.episodes import CUT
from privalue.simulation.mdp import MarkovRewardProcess, return_range
from privalue.simulation.worlds import World

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

    Raises:
        UsageError: if the files cannot be written.
    """
    out, process = Path(folder), world.process
    visited = np.flatnonzero(process.reachable).tolist()
    starts = np.flatnonzero(process.start).tolist()
    files: dict[str, tuple[str, Iterable[tuple[Any, ...]]]] = {
        "values.csv": ("state,value", [(s, process.values[s]) for s in visited]),
        "start.csv": ("state,probability", [(s, process.start[s]) for s in starts]),
    }
    if actions:
        mdp, policy = world.decisions
        pairs = [(s, a) for s in visited for a in range(mdp.actions)]
        q = mdp.q(policy)
        files["action_values.csv"] = ("state,action,value", [(*p, q[p]) for p in pairs])
        for name, table in (("policy.csv", policy), ("optimal.csv", mdp.optimal())):
            files[name] = ("state,action,probability", _policy_rows(table))
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, (heading, rows) in files.items():
            with whole_file(out / name) as partial, partial.open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(heading.split(","))
                # The shortest text that gives a number back.
                writer.writerows((*row[:-1], repr(float(row[-1]))) for row in rows)
        (out / "study.toml").write_text(_study(world, trajectories, actions=actions, cut=cut))
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror or error}; choose another folder"
        ) from error
    return [out / name for name in ("study.toml", *files)]


def _policy_rows(table: Vector) -> list[tuple[int, int, float]]:
    return [(s, a, table[s, a]) for s, a in np.argwhere(table > 0).tolist()]


def _study(world: World, trajectories: int, *, actions: bool, cut: bool) -> str:
    """Return the text of a study that describes the rows."""
    process = world.process
    low, high = process.reward_bounds
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
        *_max_states(world, actions=actions),
        "",
        "[values]",
        f"discount = {process.discount!r}",
        f"rewards = [{low!r}, {high!r}]",
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


def _max_states(world: World, *, actions: bool) -> list[str]:
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
    low, high = math.floor(low * 1e4) / 1e4, math.ceil(high * 1e4) / 1e4
    return [f"returns = [{low!r}, {high!r}]"]
