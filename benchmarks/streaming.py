"""From files to statistics: seconds and memory, next to DuckDB's bare scan and the usual ways.

Every measurement is a process of its own, so that its peak memory is its own too. The scan and our
statistics run twice, and the second time counts: what is told is the cost of a row, not that of a
start; ``large`` has whole commands. ``python -m benchmarks streaming --steps 1e6`` is quick.
"""

# ruff: noqa: NPY002 - compiled code knows no other generator

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple

import duckdb
import numba
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from rich.table import Table

import privalue as pv

DISCOUNT = 0.99
LIMIT = 2 << 30
MEAN_LENGTH = 50
ROW_GROUP = 1 << 20
TURNS = 3


# The data


@numba.njit
def walk(rows, states, seed, trajectory, step, state):  # pragma: no cover - compiled
    """Random walks over the states with geometric lengths; how many trajectories there are."""
    np.random.seed(seed)
    number, at, here = 0, 0, np.random.randint(states)
    for row in range(rows):
        trajectory[row], step[row], state[row] = number, at, here
        at, here = at + 1, (here + np.random.randint(1, 20)) % states
        if np.random.random() * MEAN_LENGTH < 1:
            number, at, here = number + 1, 0, np.random.randint(states)
    return number + 1


def made(steps: int, states: int) -> Iterator[pa.Table]:
    """Rows in order, a few million at a time; rewards have three decimals."""
    rng, trajectories = np.random.default_rng(1), 0
    for start in range(0, steps, 10 * ROW_GROUP):
        rows = min(10 * ROW_GROUP, steps - start)
        trajectory, step, state = (np.empty(rows, dtype=np.int64) for _ in range(3))
        count = walk(rows, states, start, trajectory, step, state)
        yield pa.table(
            {
                "trajectory": trajectory + trajectories,
                "step": step,
                "state": state,
                "reward": rng.integers(0, 1001, rows) / 1000,
            }
        )
        trajectories += count


def write(path: Path, tables: Iterator[pa.Table]) -> Path:
    """One file of all rows, and beside it one of the first few."""
    first = next(tables)
    kind = pacsv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
    for name, rows in ((_few(path), [first.slice(0, 1000)]), (path, chain([first], tables))):
        with kind(name, first.schema) as writer:
            for table in rows:
                writer.write_table(table, ROW_GROUP)
    return path


def _few(path: Path) -> Path:
    return path.with_name(f"few-{path.name}")


# The ways


def scan(path: str) -> None:
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.sql(
            f"SELECT sum(trajectory), sum(step), sum(state), sum(reward) FROM '{path}'"
        ).fetchall()


def study(states: int) -> pv.Study:
    return pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=DISCOUNT,
        rewards=(0.0, 1.0),
        returns=(0.0, 100.0),
        states=states,
    )


def ours(path: str, states: int) -> None:
    from privalue.readers._local import statistics  # noqa: PLC0415

    statistics(path, study(states), memory=LIMIT)


def by_duckdb(path: str) -> None:
    """Windows: discounted by the step, summed from the end, first visits by number."""
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.sql(
            f"""
            SELECT state, count(*), sum(least(value, 100)) FROM (
              SELECT state,
                sum(reward * pow({DISCOUNT}, step)) OVER (
                  PARTITION BY trajectory ORDER BY step
                  ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) / pow({DISCOUNT}, step) value,
                row_number() OVER (PARTITION BY trajectory, state ORDER BY step) visit
              FROM '{path}')
            WHERE visit = 1 GROUP BY state
            """
        ).fetchall()


def by_polars(path: str) -> None:
    import polars as pl  # noqa: PLC0415

    power = pl.lit(DISCOUNT) ** pl.col("step")
    ahead = (pl.col("reward") * power).reverse().cum_sum().reverse().over("trajectory")
    (
        pl.scan_parquet(path)
        .sort("trajectory", "step")
        .with_columns(value=ahead / power)
        .unique(["trajectory", "state"], keep="first", maintain_order=True)
        .group_by("state")
        .agg(pl.len(), pl.col("value").clip(0, 100).sum())
        .collect()
    )


def by_pandas(path: str) -> None:
    import pandas as pd  # noqa: PLC0415

    from benchmarks.kernel import by_pandas as literally  # noqa: PLC0415

    literally(pd.read_parquet(path).sort_values(["trajectory", "step"]), DISCOUNT)


def wide_release(*given: object) -> None:
    from benchmarks.wide import release  # noqa: PLC0415 - which builds on this

    release(*given)


WAYS = {way.__name__: way for way in (scan, ours, by_duckdb, by_polars, by_pandas, wide_release)}


# Measuring


class Cost(NamedTuple):
    first: float  # seconds of the first run
    seconds: float
    processor: float  # seconds of all threads
    memory: float  # the process's peak, in GB


def run(way: str, *given: object) -> None:
    """In the process that is measured: on a few rows, for whatever is set up, then in earnest."""
    path, *rest = given
    if _few(Path(str(path))).exists():
        WAYS[way](str(_few(Path(str(path)))), *rest)
    first = seconds = processor = 0.0
    for _ in range(2 if way in {"scan", "ours"} else 1):
        started, before = time.perf_counter(), time.process_time()
        WAYS[way](path, *rest)
        first = first or time.perf_counter() - started
        seconds, processor = time.perf_counter() - started, time.process_time() - before
    with open("/proc/self/status", encoding="ascii") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps(Cost(first, seconds, processor, peak / 1e6)))


def measured(way: str, *given: object) -> Cost:
    plain = [str(value) if isinstance(value, Path) else value for value in given]
    code = f"from benchmarks.streaming import run; run({way!r}, *{plain!r})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return Cost(*json.loads(found.stdout.splitlines()[-1]))


def tables(steps: int = 10**7) -> Iterator[Table]:
    with tempfile.TemporaryDirectory(prefix="privalue-bench-") as name:
        yield usual_ways(Path(name), min(steps, 10**7))


def usual_ways(folder: Path, steps: int) -> Table:
    table = Table(title="What people would write; Parquet in order, 1,000 states")
    for heading in ("way", "steps", "ns per step", "times DuckDB's scan", "peak memory, GB"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    path = write(folder / "ordered.parquet", made(steps, 1000))
    few = write(folder / "a-twentieth.parquet", made(max(steps // 20, 1000), 1000))
    bare = median(measured("scan", path).seconds for _ in range(TURNS)) / steps
    for way, given, size, turns, name in (
        ("scan", (path,), steps, TURNS, "DuckDB merely sums the four columns"),
        ("ours", (path, 1000), steps, TURNS, "privalue"),
        ("by_duckdb", (path,), steps, 1, "DuckDB, window functions"),
        ("by_polars", (path,), steps, 1, "Polars, lazily"),
        ("by_pandas", (few,), max(steps // 20, 1000), 1, "pandas, groupby-apply"),
    ):
        runs = [measured(way, *given) for _ in range(turns)]
        cost = median(one.seconds for one in runs) / size
        memory = max(one.memory for one in runs)
        table.add_row(name, f"{size:,}", f"{cost * 1e9:.1f}", f"{cost / bare:.1f}", f"{memory:.2f}")
    return table
