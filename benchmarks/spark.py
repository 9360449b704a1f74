"""The engine spark on this machine, next to the engine local, on the same Parquet file."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from benchmarks.clock import seconds
from benchmarks.kernel import study
from privalue.readers import _local as local
from privalue.readers import spark
from privalue.simulation import parse_world, simulate_episodes

STATES, TRAJECTORIES = 40, 100_000


def tables() -> Iterator[Table]:
    made = simulate_episodes(parse_world(f"chain:N={STATES}"), trajectories=TRAJECTORIES, seed=1)
    names = ("trajectory", "step", "state", "reward")
    ordered = pa.table({name: getattr(made, name) for name in names})
    rows = ordered.num_rows
    shuffled = ordered.take(np.random.default_rng(1).permutation(rows))
    described = study(STATES)
    columns = described.data.model_copy(update={"sorted": True})
    declared = described.model_copy(update={"data": columns})
    table = Table(title=f"Engines on one machine, chain of {STATES} states, {rows:,} steps")
    table.add_column("way")
    table.add_column("ns per step", justify="right")
    table.add_column("times local", justify="right")
    session = spark.session()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for kind, content, way in (("any", shuffled, described), ("sorted", ordered, declared)):
                path = Path(folder) / f"{kind}.parquet"
                pq.write_table(content, path, row_group_size=1 << 18)
                frame = session.read.parquet(str(path))
                works = {
                    "local": lambda path=path, way=way: local.statistics(path, way),
                    "spark, a DataFrame": lambda frame=frame, way=way: spark.statistics(frame, way),
                    "spark, the file's name": lambda path=path, way=way: spark.statistics(
                        path, way, session=session
                    ),
                }
                results = [work() for work in works.values()]  # processes start, code compiles
                assert all(result == results[0] for result in results)
                base = None
                for name, work in works.items():
                    cost = seconds(work) / rows
                    base = base or cost
                    order = "rows in any order" if kind == "any" else "declared sorted"
                    table.add_row(f"{name}; {order}", f"{cost * 1e9:.0f}", f"{cost / base:.1f}")
    finally:
        session.stop()
    yield table
