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
from jinja2 import Environment, PackageLoader

from privalue.core import Vector
from privalue.errors import UsageError
from privalue.ledger.files import atomic_file
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
            with atomic_file(out / name) as partial, partial.open("w", newline="") as file:
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
    # Where nothing ends by itself, everybody is cut off, and there is nobody else to count.
    ends = process.surely_ends[process.reachable].all()
    environment = Environment(
        loader=PackageLoader("privalue.simulation", ""),
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    return environment.get_template("study.toml.j2").render(
        world=world,
        trajectories=trajectories,
        max_states=_max_states(world, actions=actions),
        rewards=process.reward_bounds,
        returns=_returns(process),
        actions=world.decisions[0].actions if actions else None,
        truncated=CUT if cut else None,
        truncated_rows="drop-unit" if ends else "keep",
    )


def _max_states(world: World, *, actions: bool) -> int | None:
    """Return H, half more than a trajectory's distinct states, or rows: where that is few."""
    process = world.process
    if process.states > MOST_STATES or not process.surely_ends[process.reachable].all():
        return None
    visits, keys = process.visits, process.states
    distinct = float(visits.single.sum())
    if actions:  # a row has one pair
        distinct, keys = visits.expected_length, keys * world.decisions[0].actions
    most = math.ceil(1.5 * distinct)
    return most if 2 * most <= keys else None


def _returns(process: MarkovRewardProcess) -> tuple[float, float] | None:
    """Return the bounds of returns, rounded outwards; None if there are none."""
    low, high = return_range(process)
    if math.isinf(low) or math.isinf(high):
        return None
    if low == high:  # a study's bounds differ
        low, high = min(low, 0.0), max(high, 0.0)
    return math.floor(low * 1e4) / 1e4, math.ceil(high * 1e4) / 1e4
