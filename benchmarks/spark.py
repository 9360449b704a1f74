"""The engine spark in a warm session on this machine: ratios with their bars, and rates.

The ways take turns, and a ratio is the median of the ratios of each turn, so that whatever else the
machine does at the time slows both sides.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from rich.table import Table

import privalue as pv
from benchmarks.clock import MISSED
from privalue.readers import read_statistics, spark

STATES, STEPS = 1000, 100  # of a trajectory
TURNS = 5
BARS = {"the file's name": ("local", 7.0), "a DataFrame": ("Spark alone", 1.5)}
CLUSTERS = ((10**10, 64), (10**12, 1024))  # steps, cores


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


def tables(rows: int = 10**7) -> Iterator[Table]:
    """Yield what was measured, then the rates.

    Args:
        rows: how many steps.
    """
    session = spark.session()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            pq.write_table(_rows(rows), path, row_group_size=1 << 18, compression="zstd")
            turns = _turns(_ways(session, path, study(STATES)))
            yield _ratios("any order", rows, turns)
            yield _rates(session, path, rows, turns)
    finally:
        session.stop()


def _rows(rows: int) -> pa.Table:
    """Return trajectories with ids that are not dense, uneven states and rewards of 24 bits."""
    draw = np.random.default_rng(1)
    count = -(-rows // STEPS)
    ids = np.sort(draw.choice(1 << 31, count, replace=False))
    table = pa.table(
        {
            "trajectory": np.repeat(ids, STEPS)[:rows],
            "step": np.tile(np.arange(STEPS, dtype=np.int32), count)[:rows],
            "state": ((draw.zipf(1.3, rows) - 1) % STATES).astype(np.int32),
            "reward": draw.random(rows, dtype=np.float32),
        }
    )
    return table.take(draw.permutation(rows))


def _ways(session: Any, path: Path, study: Any) -> dict[str, Callable[[], object]]:
    """Return the ways to go through a file, each run once, with results that are alike."""
    frame, limits = session.read.parquet(str(path)), study.limits

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": pa.array([sum(map(len, batches))])})

    def alone() -> object:
        cores = session.sparkContext.defaultParallelism
        return frame.repartition(cores, "trajectory").mapInArrow(count, "rows long").toArrow()

    ways: dict[str, Callable[[], object]] = {
        "local": lambda: read_statistics(path, study, limits),
        "the file's name": lambda: read_statistics(path, study, limits, engine="spark"),
        "Spark alone": alone,
        "a DataFrame": lambda: read_statistics(frame, study, limits, engine="spark"),
    }
    results = {name: way() for name, way in ways.items()}  # processes start, code compiles
    assert results["local"] == results["the file's name"] == results["a DataFrame"]
    return ways


def _turns(ways: dict[str, Callable[[], object]]) -> list[dict[str, float]]:
    """Run the ways by turns, and return the seconds of each."""
    turns = []
    for _ in range(TURNS):
        seconds = {}
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            seconds[name] = time.perf_counter() - started
        turns.append(seconds)
    return turns


def _ratios(kind: str, rows: int, turns: list[dict[str, float]]) -> Table:
    """Return the table of one order of rows; remember the bars that are missed."""
    table = Table(title=f"Spark, {rows:,} steps, {kind}, median of {len(turns)} turns")
    for name in ("way", "seconds", "ns per step", "ratio", "bar"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name in turns[0]:
        cost = median(turn[name] for turn in turns)
        cells = [f"{cost:.2f}", f"{cost / rows * 1e9:.0f}"]
        if name in BARS:
            other, bar = BARS[name]
            ratio = median(turn[name] / turn[other] for turn in turns)
            cells += [f"{ratio:.1f} times {other}", f"{bar}"]
            if ratio > bar:
                MISSED.append(f"Spark, {name}, {kind}: {ratio:.2f} times {other}, bar {bar}")
        table.add_row(name, *cells)
    return table


def _rates(session: Any, path: Path, rows: int, turns: list[dict[str, float]]) -> Table:
    """Return what a row costs, and what follows for clusters."""
    cores = session.sparkContext.defaultParallelism
    described, before = study(STATES), _shuffle_bytes(session)
    read_statistics(path, described, described.limits, engine="spark")
    shuffled = (_shuffle_bytes(session) - before) / rows
    table = Table(title="Rates, and what they say of a cluster")
    table.add_column("what")
    table.add_column("measured", justify="right")
    for steps, cluster in CLUSTERS:
        table.add_column(f"{steps:.0e} steps, {cluster} cores", justify="right")
    for name in BARS:
        rate = rows / median(turn[name] for turn in turns) / cores
        minutes = [f"{steps / rate / cluster / 60:,.0f} minutes" for steps, cluster in CLUSTERS]
        table.add_row(f"{name}: rows a second and core", f"{rate:,.0f}", *minutes)
    table.add_row(
        "bytes shuffled a row",
        f"{shuffled:.1f}",
        *(f"{s * shuffled / 1e9:,.0f} GB" for s, _ in CLUSTERS),
    )
    return table


def _shuffle_bytes(session: Any) -> int:
    """Return how many bytes all stages so far have written for shuffles."""
    store, stage, size = session.sparkContext._jsc.sc().statusStore(), 0, 0
    while True:
        try:
            size += store.lastStageAttempt(stage).shuffleWriteBytes()
        except Py4JJavaError:  # there is no such stage
            return size
        stage += 1
