"""First-visit statistics: nanoseconds per step, next to what people would write."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from rich.table import Table

import privalue as pv
from benchmarks.clock import seconds
from privalue.core._contributions import Contributions
from privalue.readers._local import statistics
from privalue.simulation import parse_world, simulate_episodes, simulate_to_file


def study(states: int) -> pv.Study:
    return pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.99,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=states,
    )


def literal(trajectory, state, reward, discount, states):
    """The definition in plain Python: a dictionary of first visits per trajectory."""
    counts, sums = [0] * states, [0.0] * states
    end = len(state)
    while end > 0:
        begin = end
        while begin > 0 and trajectory[begin - 1] == trajectory[end - 1]:
            begin -= 1
        value, first = 0.0, {}
        for t in range(end - 1, begin - 1, -1):
            value = reward[t] + discount * value
            first[state[t]] = value
        for s, value in first.items():
            counts[s] += 1
            sums[s] += min(max(value, 0.0), 1.0)
        end = begin
    return counts, sums


def by_pandas(frame, discount):
    def one(part):
        returns = np.zeros(len(part))
        value = 0.0
        for t, reward in zip(
            range(len(part) - 1, -1, -1), part["reward"].to_numpy()[::-1], strict=True
        ):
            value = reward + discount * value
            returns[t] = value
        return part.assign(value=returns).drop_duplicates("state")[["state", "value"]]

    first = frame.groupby("trajectory", sort=False, group_keys=False)[["state", "reward"]].apply(
        one
    )
    return first.groupby("state")["value"].agg(["count", "sum"])


def tables() -> Iterator[Table]:
    for states in (40, 1000):
        yield table_for(states)


def table_for(states: int) -> Table:
    made = simulate_episodes(
        parse_world(f"chain:N={states}"), trajectories=4_000_000 // states, seed=1
    )
    rows = len(made.state)
    described = study(states)
    ids, states_met = made.trajectory[:, None, None], made.state.astype(np.int32)

    def kernel():
        contributions = Contributions(described.limits)
        contributions.add(ids, made.step, states_met, made.reward)
        return contributions.finish()

    kernel()
    few = int(np.searchsorted(made.trajectory, made.trajectory[min(rows - 1, 200_000)]))
    lists = [a[:few].tolist() for a in (made.trajectory, made.state, made.reward)]
    frame = pd.DataFrame({"trajectory": lists[0], "state": lists[1], "reward": lists[2]})
    table = Table(title=f"First-visit statistics, chain of {states} states, {rows:,} steps")
    table.add_column("way")
    table.add_column("ns per step", justify="right")
    table.add_column("times the kernel", justify="right")
    own = seconds(kernel) / rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d.parquet"
        simulate_to_file(
            parse_world(f"chain:N={states}"), trajectories=4_000_000 // states, seed=1, out=path
        )
        scan = seconds(
            lambda: duckdb.sql(
                "SELECT sum(trajectory), sum(step), sum(state), sum(reward) FROM "
                f"read_parquet('{path}')"
            ).fetchall()
        )
        read = seconds(lambda: statistics(path, described), repeat=2)
    ways = [
        ("kernel (ordered rows in memory)", own),
        ("DuckDB merely sums the four columns of the Parquet file", scan / rows),
        ("privalue, Parquet file in order to statistics", read / rows),
        (
            f"plain Python, first {few:,} steps",
            seconds(lambda: literal(*lists, 0.99, states), repeat=1) / few,
        ),
        (
            f"pandas groupby-apply, first {few:,} steps",
            seconds(lambda: by_pandas(frame, 0.99), repeat=1) / few,
        ),
    ]
    for name, cost in ways:
        table.add_row(name, f"{cost * 1e9:.1f}", f"{cost / own:.1f}")
    return table
