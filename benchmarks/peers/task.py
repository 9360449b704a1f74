"""The task: the paper's chain, simulated, with first-visit returns for those who have none."""

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from benchmarks.peers.exchange import RELATIONS, Task
from privalue.simulation import parse_world, simulate_to_file

RETURNS = (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A world and a budget."""

    title: str
    world: str
    trajectories: int
    epsilon: float
    delta: float
    most_states: int | None = None  # H, where it is below N


CHAIN = "chain:N=40,p=0.5,discount=0.99"
QUESTIONS = {
    "chain": Question(
        title="The chain at (1, 1e-6)",
        world=CHAIN,
        trajectories=10_000,
        epsilon=1.0,
        delta=1e-6,
    ),
    "hospital": Question(
        title="A hospital at (1, 1e-6): 713 states, 20 for each person",
        world="icu-sepsis",
        trajectories=20_000,
        epsilon=1.0,
        delta=1e-6,
        most_states=20,
    ),
    "paper": Question(
        title="The chain at (0.1, 0.1), the paper's budget",
        world=CHAIN,
        trajectories=10_000,
        epsilon=0.1,
        delta=0.1,
    ),
}

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def first_visits(
    trajectory: Integers, state: Integers, reward: Floats, discount: float
) -> tuple[Integers, Integers, Floats]:
    """Trajectory, state and return of every first visit; rows are sorted by trajectory and step.

    The return is G = r + gamma G, backwards from the end of the trajectory.
    """
    returns = np.empty(len(reward))
    following = 0.0
    for t in range(len(reward) - 1, -1, -1):
        if t + 1 == len(reward) or trajectory[t + 1] != trajectory[t]:
            following = 0.0
        returns[t] = following = reward[t] + discount * following
    pairs = np.stack([trajectory, state])
    _, first = np.unique(pairs, axis=1, return_index=True)  # the index of the first occurrence
    first.sort()
    return trajectory[first], state[first], returns[first]


def make_tasks(
    folder: Path,
    *,
    seed: int,
    releases: int,
    slow_releases: int,
    seconds: float,
    question: Question = QUESTIONS["chain"],
) -> dict[str, Task]:
    """Simulate, and write a task file for each relation; all files are replaced.

    ``truth.json`` beside them has the exact values. It goes to no library. States after the last
    one that can be visited are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    world = parse_world(question.world)
    process, trajectories = world.process, question.trajectories
    states = int(np.flatnonzero(process.reachable)[-1]) + 1
    rows = folder / "rows.parquet"
    simulate_to_file(world, trajectories=trajectories, seed=seed, out=rows)
    table = pyarrow.parquet.read_table(rows)
    trajectory, state, reward = (
        table[name].to_numpy() for name in ("trajectory", "state", "reward")
    )
    visited = first_visits(trajectory, state, reward, process.discount)
    visits_file = folder / "first-visits.csv"
    with visits_file.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trajectory", "state", "value"])
        values = np.clip(visited[2], *RETURNS)
        writer.writerows(
            zip(visited[0].tolist(), visited[1].tolist(), values.tolist(), strict=True)
        )
    task = Task(
        relation=RELATIONS[0],
        epsilon=question.epsilon,
        delta=question.delta,
        world=question.world,
        seed=seed,
        trajectories=trajectories,
        states=states,
        most_states=question.most_states or states,
        discount=process.discount,
        returns=RETURNS,
        visits=tuple(np.clip(process.visits.single[:states], 0, 1).tolist()),
        rows=str(rows),
        first_visits=str(visits_file),
        releases=releases,
        slow_releases=slow_releases,
        seconds=seconds,
    )
    tasks = {relation: replace(task, relation=relation) for relation in RELATIONS}
    for relation, item in tasks.items():
        item.save(task_file(folder, relation))
    (folder / "truth.json").write_text(json.dumps(process.values[:states].tolist()) + "\n")
    return tasks


def task_file(folder: Path, relation: str) -> Path:
    """Where the task of a relation is."""
    return folder / f"task.{relation}.json"


def truth(folder: Path) -> Floats:
    """The exact values."""
    return np.array(json.loads((folder / "truth.json").read_text()))


def mean_returns(task: Task) -> Floats:
    """The mean first-visit return of every state, without noise; else the middle."""
    table = np.loadtxt(task.first_visits, delimiter=",", skiprows=1, ndmin=2)
    states = table[:, 1].astype(np.int64)
    counts = np.bincount(states, minlength=task.states)
    sums = np.bincount(states, table[:, 2], minlength=task.states)
    return np.where(counts > 0, sums / np.maximum(counts, 1), task.middle)
