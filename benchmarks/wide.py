"""Releases of wide studies, from rows to the file: seconds and memory, each in its own process."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from rich.table import Table

import privalue as pv
from benchmarks.streaming import measured

TRAJECTORIES, LENGTH, FEATURES_OF_A_STATE = 20_000, 50, 4


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


def tiles(path: Path, states: int, features: int) -> None:
    """Four features of every state, chosen at random, and every feature somewhere."""
    rng = np.random.default_rng(2)
    columns = rng.integers(0, features, (states, FEATURES_OF_A_STATE))
    columns[:features, 0] = np.arange(features)
    row = np.repeat(np.arange(states), FEATURES_OF_A_STATE)
    phi = sp.csr_array((np.ones(columns.size), (row, columns.ravel())), shape=(states, features))
    sp.save_npz(path, phi)


def release(data: str, states: int, matrix: str, mechanism: str) -> None:
    described = {"kind": "matrix", "file": matrix} if matrix else {"kind": "tabular"}
    study = pv.Study(
        privacy={
            "epsilon": 1.0,
            "delta": 1e-6,
            "unit": "trajectory",
            "max_states_per_trajectory": LENGTH,
        },
        values={"discount": 0.9, "rewards": (0.0, 1.0)},
        states={"count": states},
        features=described,
        mechanism={"name": mechanism},
    )
    with tempfile.TemporaryDirectory() as folder:
        pv.release(study, data, accept_useless=True).save(folder)


def tables(states: tuple[int, int] = (10**6, 10**7), features: int = 10**4) -> Iterator[Table]:
    table = Table(title=f"Wide studies, {TRAJECTORIES * LENGTH:,} steps, from rows to release.json")
    for heading in ("features", "states", "mechanism", "seconds", "GB"):
        table.add_column(heading, justify="right" if heading in {"seconds", "GB"} else "left")
    with tempfile.TemporaryDirectory(prefix="privalue-bench-") as name:
        folder = Path(name)
        for count, matrix in zip(states, ("phi.npz", ""), strict=True):
            rows(folder / "rows.parquet", count)
            if matrix:
                tiles(folder / matrix, count, features)
            for mechanism in ("dp-lsw", "dp-lsl", "dp-ssp"):
                given = (folder / "rows.parquet", count, str(folder / matrix) if matrix else "")
                started = time.perf_counter()
                cost = measured("wide_release", *given, mechanism)
                seconds = min(cost.seconds, time.perf_counter() - started)
                kind = f"sparse, d = {features:,}" if matrix else "tabular"
                table.add_row(kind, f"{count:,}", mechanism, f"{seconds:.0f}", f"{cost.memory:.2f}")
    yield table
