"""Releases of wide studies, from rows to the file: seconds and memory, each in its own process."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

import privalue as pv
from benchmarks.streaming import measured

TRAJECTORIES, LENGTH = 20_000, 50


def rows(path: Path, states: int) -> None:
    rng = np.random.default_rng(1)
    steps = np.arange(LENGTH)
    pq.write_table(
        pa.table(
            {
                "trajectory": np.repeat(np.arange(TRAJECTORIES), LENGTH),
                "step": np.tile(steps, TRAJECTORIES),
                "state": rng.integers(0, states, TRAJECTORIES * LENGTH),
                "reward": rng.random(TRAJECTORIES * LENGTH),
            }
        ),
        path,
    )


def release(data: str, states: int, mechanism: str) -> None:
    study = pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        max_states_per_trajectory=LENGTH,
        discount=0.9,
        rewards=(0.0, 1.0),
        states=states,
        mechanism=mechanism,
    )
    with tempfile.TemporaryDirectory() as folder:
        pv.release(study, data, accept_useless=True).save(folder)


def tables(states: int = 10**7) -> Iterator[Table]:
    table = Table(title=f"Wide studies, {TRAJECTORIES * LENGTH:,} steps, from rows to release.json")
    for heading in ("states", "mechanism", "seconds", "GB"):
        table.add_column(heading, justify="right" if heading in {"seconds", "GB"} else "left")
    with tempfile.TemporaryDirectory(prefix="privalue-bench-") as name:
        data = Path(name) / "rows.parquet"
        rows(data, states)
        for mechanism in ("dp-lsw", "dp-lsl", "dp-ssp"):
            started = time.perf_counter()
            cost = measured("wide_release", data, states, mechanism)
            seconds = min(cost.seconds, time.perf_counter() - started)
            table.add_row(f"{states:,}", mechanism, f"{seconds:.0f}", f"{cost.memory:.2f}")
    yield table
