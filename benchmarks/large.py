"""Whole releases of large files, beside DuckDB summing the same four columns: seconds and memory.

Every measurement is a command of its own, with the interpreter's start, the report, and memory that
the machine must first find. The two commands that are compared take turns. There are two kinds of
files:

- *dense*: dense ids, random walks, rewards of three decimals, as earlier tables had them;
- *realistic*: ids with gaps, states by Zipf's law, rewards as floats of 32 bits with all their
  digits, 32-bit columns, zstd. The bars are for these; the last column has the worse of both kinds.

``python -m benchmarks large --steps 1e7`` is quick; at less than 10^8 steps the start weighs more.
"""

# ruff: noqa: NPY002 - compiled code knows no other generator

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import duckdb
import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from benchmarks.clock import MISSED, as_installed
from privalue.readers.local import usable_cores

STATES = 1000
MEAN_LENGTH = 50
ROW_GROUP = 1 << 20
TURNS = 5
STUDY = f"""
[privacy]
epsilon = 1.0
delta = 1e-9
unit = "trajectory"

[values]
discount = 0.99
rewards = [0.0, 1.0]
returns = [0.0, 100.0]

[states]
count = {STATES}
"""
INTEGERS = '\n[data]\nid_type = "integer"\n'
LOOSE = STUDY.replace("returns = [0.0, 100.0]\n", "")  # sums for every bound that may be chosen


class Form(NamedTuple):
    """A way to hold rows, and what a release of them may take."""

    name: str
    file: str
    study: str
    bar: float  # times DuckDB's sums
    memory: float | None = None  # GB


FORMS = (
    Form("Parquet, in order", "ordered.parquet", "study.toml", 2.4, 0.7),
    Form("Parquet, shuffled", "shuffled.parquet", "study.toml", 6.0, 2.6),
    Form("CSV", "ordered.csv", "study.toml", 1.5),
    Form('CSV, id_type = "integer"', "ordered.csv", "integers.toml", 1.5),
    Form("Parquet, in order, a stage for bounds", "ordered.parquet", "loose.toml", 2.4, 0.7),
)


@numba.njit
def walk(rows, seed, trajectory, step, state):  # pragma: no cover - compiled
    """Fill rows with random walks of geometric lengths; return how many trajectories there are."""
    np.random.seed(seed)
    number, at, here = 0, 0, np.random.randint(STATES)
    for row in range(rows):
        trajectory[row], step[row], state[row] = number, at, here
        at, here = at + 1, (here + np.random.randint(1, 20)) % STATES
        if np.random.random() * MEAN_LENGTH < 1:
            number, at, here = number + 1, 0, np.random.randint(STATES)
    return number + 1


def dense_rows(steps: int) -> Iterator[pa.Table]:
    """Rows in order, a few million at a time; rewards have three decimals."""
    rng, trajectories = np.random.default_rng(1), 0
    for start in range(0, steps, 10 * ROW_GROUP):
        rows = min(10 * ROW_GROUP, steps - start)
        trajectory, step, state = (np.empty(rows, dtype=np.int64) for _ in range(3))
        count = walk(rows, start, trajectory, step, state)
        yield pa.table(
            {
                "trajectory": trajectory + trajectories,
                "step": step,
                "state": state,
                "reward": rng.integers(0, 1001, rows) / 1000,
            }
        )
        trajectories += count


def realistic_rows(steps: int) -> Iterator[pa.Table]:
    """Rows in order as other people's programs write them, a few million at a time."""
    rng, last = np.random.default_rng(20261116), 10**12
    share = 1 / np.arange(1, STATES + 1) ** 1.1
    below = np.cumsum(share / share.sum())
    names = rng.permutation(STATES).astype(np.int32)  # common states are not the first ones
    for start in range(0, steps, 5 * ROW_GROUP):
        rows = min(5 * ROW_GROUP, steps - start)
        ends = np.cumsum(rng.geometric(1 / 30, rows))
        ends = np.append(ends[ends < rows], rows)
        lengths = np.diff(ends, prepend=0)
        ids = last + np.cumsum(rng.integers(1, 2000, len(ends)))
        last = int(ids[-1])
        yield pa.table(
            {
                "trajectory": np.repeat(ids, lengths),
                "step": (np.arange(rows) - np.repeat(ends - lengths, lengths)).astype(np.int32),
                "state": names[np.searchsorted(below, rng.random(rows)).clip(max=STATES - 1)],
                "reward": rng.random(rows, dtype=np.float32),
            }
        )


KINDS: dict[str, tuple[Callable[[int], Iterator[pa.Table]], str]] = {
    "dense": (dense_rows, "snappy"),
    "realistic": (realistic_rows, "zstd"),
}
BARS_FOR = "realistic"  # the last kind: the bars are for it


def tables(steps: int = 10**8) -> Iterator[Table]:
    """One table of every kind and form, and one of threads."""
    table = Table(title=f"Whole commands, {steps:,} steps, {usable_cores()} cores, {TURNS} turns")
    numbers = ("release, s", "DuckDB, s", "ratio", "bar", "GB", "bar, GB", "worse ratio")
    for heading in ("files", "rows", *numbers):
        table.add_column(heading, justify="right" if heading in numbers else "left")
    ratios: dict[tuple[Form, str], float] = {}
    as_installed()
    for kind, (rows, compression) in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="privalue-bench-") as name:
            folder = Path(name)
            write(folder, rows(steps), compression)
            for form in FORMS:
                ours, theirs, memory = compare(folder, form)
                ratios[form, kind] = ours / theirs
                has_bars = kind == BARS_FOR
                table.add_row(
                    kind,
                    form.name,
                    f"{ours:.2f}",
                    f"{theirs:.2f}",
                    f"{ours / theirs:.2f}",
                    f"{form.bar:g}" if has_bars else "",
                    f"{memory:.2f}",
                    "" if form.memory is None else f"{form.memory:g}",
                    f"{max(ratios[form, other] for other in KINDS):.2f}" if has_bars else "",
                )
                if form.memory is not None and memory > form.memory:
                    MISSED.append(f"large, {kind}, {form.name}: {memory:.2f} GB, bar {form.memory}")
            if kind == BARS_FOR:
                threads = by_threads(folder)
    yield table
    for form in FORMS:
        ratio = ratios[form, BARS_FOR]
        if ratio > form.bar:
            MISSED.append(f"large, {form.name}: {ratio:.2f} times DuckDB's sums, bar {form.bar:g}")
    yield threads


def write(folder: Path, rows: Iterator[pa.Table], compression: str) -> None:
    """Write all forms of the rows, and the studies."""
    ordered = folder / "ordered.parquet"
    first = next(rows)
    with pq.ParquetWriter(ordered, first.schema, compression=compression) as writer:
        writer.write_table(first, ROW_GROUP)
        for table in rows:
            writer.write_table(table, ROW_GROUP)
    spill = {"temp_directory": str(folder / "spill"), "memory_limit": "8GB"}
    with duckdb.connect(config=spill) as connection:
        how = f"(format parquet, compression {compression}, row_group_size {ROW_GROUP})"
        mixed = f"(FROM '{ordered}' ORDER BY random())"
        connection.execute(f"COPY {mixed} TO '{folder / 'shuffled.parquet'}' {how}")
        connection.execute(f"COPY (FROM '{ordered}') TO '{folder / 'ordered.csv'}' (header)")
    (folder / "study.toml").write_text(STUDY)
    (folder / "integers.toml").write_text(STUDY + INTEGERS)
    (folder / "loose.toml").write_text(LOOSE)


def compare(folder: Path, form: Form) -> tuple[float, float, float]:
    """Return seconds of a release and of DuckDB's sums, in turns, and the release's peak in GB."""
    sums = (
        f"import duckdb; duckdb.connect(config={{'threads': {usable_cores()}}}).sql(\"SELECT "
        f"sum(trajectory), sum(step), sum(state), sum(reward) FROM '{form.file}'\").fetchall()"
    )
    ours, theirs, memory = [], [], 0.0
    for turn in range(TURNS):
        theirs.append(clock(folder, [sys.executable, "-c", sums])[0])
        seconds, peak = clock(folder, release(form, f"{form.name} {turn}"))
        ours.append(seconds)
        memory = max(memory, peak)
    return median(ours), median(theirs), memory


def release(form: Form, out: str, *more: str) -> list[str]:
    """Return the command line."""
    begin = [sys.executable, "-m", "privalue", "release", form.study, "--data", form.file]
    return [*begin, "--no-ledger", "--quiet", "--out", out, *more]


# A small process in between: what a child of this one held before its command began would count.
BETWEEN = """
import resource, subprocess, sys
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
code = subprocess.call(sys.argv[1:], **quiet)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def clock(folder: Path, command: list[str]) -> tuple[float, float]:
    """Return how long a command takes, in seconds, and its peak memory, in GB."""
    start = time.perf_counter()
    child = subprocess.run(
        [sys.executable, "-S", "-c", BETWEEN, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - start, int(child.stdout) / 1e6


def by_threads(folder: Path) -> Table:
    """Return what a second thread saves, and what more of them could by Amdahl's law."""
    table = Table(title="Threads, realistic files; sixteen by Amdahl's law from one and two")
    for heading in ("rows", "one, s", "two, s", "done by one thread alone, s", "sixteen, s"):
        table.add_column(heading, justify="left" if heading == "rows" else "right")
    for form in FORMS[:3]:
        one, two = (
            median(
                clock(folder, release(form, f"{form.name} {count} {turn}", "--threads", count))[0]
                for turn in range(3)
            )
            for count in ("1", "2")
        )
        # One thread takes alone + shared, two take alone + shared / 2.
        alone = max(2 * two - one, 0.0)
        ahead = alone + (one - alone) / 16
        table.add_row(form.name, f"{one:.2f}", f"{two:.2f}", f"{alone:.2f}", f"{ahead:.2f}")
    return table
