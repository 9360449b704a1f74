"""Write a world's exact values and policies, and a study that fits its simulated rows.

===================  ===============================  ==============================================
file                 columns                          content
===================  ===============================  ==============================================
study.toml                                            describes the rows; edit it as you like
values.csv           state, value                     V under the world's policy
start.csv            state, probability               where trajectories start
action_values.csv    state, action, value             Q of the policy, for worlds with actions
policy.csv           state, action, probability       the behaviour policy
optimal.csv          state, action, probability       an optimal policy
===================  ===============================  ==============================================

States that no trajectory can visit are left out. A pair of state and action is listed if its state
can be visited, even if the policy never takes the action.
"""

import csv
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader

from privalue.errors import UsageError
from privalue.ledger.files import atomic_file
from privalue.simulation.episodes import CUT
from privalue.simulation.mdp import MarkovRewardProcess, return_range
from privalue.simulation.worlds import World

MAX_STATES = 5_000  # the computation of visit probabilities takes seconds


def write_truth(
    world: World,
    folder: str | os.PathLike[str],
    *,
    trajectories: int,
    actions: bool = False,
    truncated: bool = False,
) -> list[Path]:
    """Write a study and the exact answers into a folder, which is created if missing.

    Args:
        world: the world that is simulated.
        folder: where to write; files of the same names are replaced.
        trajectories: the number that the study declares.
        actions: whether rows have actions, and the study's keys are pairs of state and action.
        truncated: whether a column of the rows marks truncated trajectories.

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
            entries = [(s, a, table[s, a]) for s, a in np.argwhere(table > 0).tolist()]
            files[name] = ("state,action,probability", entries)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, (heading, rows) in files.items():
            with atomic_file(out / name) as partial, partial.open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(heading.split(","))
                # repr is the shortest text that reads back as the same number.
                writer.writerows((*row[:-1], repr(float(row[-1]))) for row in rows)
        text = _study(world, trajectories, actions=actions, truncated=truncated)
        (out / "study.toml").write_text(text)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror or error}; choose another folder"
        ) from error
    return [out / name for name in ("study.toml", *files)]


def _study(world: World, trajectories: int, *, actions: bool, truncated: bool) -> str:
    """Return the text of a study that describes the rows."""
    process = world.process
    # If no trajectory ends by itself, all are truncated, and dropping them would leave none.
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
        truncated=CUT if truncated else None,
        truncated_rows="drop-unit" if ends else "keep",
    )


def _max_states(world: World, *, actions: bool) -> int | None:
    """Return H: 1.5 times the expected distinct states (or rows); None if H would hardly limit."""
    process = world.process
    if process.states > MAX_STATES or not process.surely_ends[process.reachable].all():
        return None
    visits, keys = process.visits, process.states
    distinct = float(visits.single.sum())
    if actions:  # a row has one pair
        distinct, keys = visits.expected_length, keys * world.decisions[0].actions
    most = math.ceil(1.5 * distinct)
    return most if 2 * most <= keys else None


def _returns(process: MarkovRewardProcess) -> tuple[float, float] | None:
    """Return the bounds of returns, rounded outwards; None if returns are unbounded."""
    low, high = return_range(process)
    if math.isinf(low) or math.isinf(high):
        return None
    if low == high:  # a study needs two different bounds
        low, high = min(low, 0.0), max(high, 0.0)
    return math.floor(low * 1e4) / 1e4, math.ceil(high * 1e4) / 1e4
