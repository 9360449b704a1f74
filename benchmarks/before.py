"""This tree against an earlier commit of it: whole releases and their statistics, side by side.

``python -m benchmarks before`` makes a copy of the commit named by ``PRIVALUE_BEFORE`` (by default
the one before the rooms) and lets both trees read the same files, in turns, each in processes of
its own. Rewards have full precision and states are uneven. The first run of each tree compiles and
is not counted; the ratio is of the medians, and the worst pair is printed beside it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

BEFORE = "0549e45"
ROWS = 10_000_000
TURNS = 5
ROOT = Path(__file__).parents[1]

# Runs in either tree: the engine's name for the same function differs.
_WORK = """
import json, sys, time
import privalue as pv
try:
    from privalue.readers._local import statistics
except ImportError:
    from privalue.engines.local import statistics
study = pv.Study(
    epsilon=1.0, delta=1e-9, unit="trajectory",
    discount=0.99, rewards=(0.0, 1.0), returns=(0.0, 50.0),
    states=1000,
)
seed = pv.SeededForExperimentsOnly(1)
found = {}
for name in sys.argv[2:4]:  # a few rows in either order: kernels are loaded, nothing is timed
    statistics(name, study)
for name in sys.argv[4:]:
    started = time.perf_counter()
    made = statistics(name, study)
    read = time.perf_counter() - started
    started = time.perf_counter()
    released = pv.release(study, name, entropy=seed, accept_useless=True)
    whole = time.perf_counter() - started
    found[name] = [read, whole, int(made.counts.sum()), int(made.return_steps.sum())]
json.dump(found, open(sys.argv[1], "w"))
"""


def earlier_tree(commit: str, folder: Path) -> Path | None:
    """Copy the sources of a commit; None where it is not in this copy of the repository."""
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{commit}}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    if known.returncode:
        print(f"The commit {commit} is not in this copy of the repository: not compared with it.")
        return None
    old = folder / "before"
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
    )
    old.mkdir()
    subprocess.run(["tar", "-x", "-C", str(old)], input=archive.stdout, check=True)
    return old


def tables() -> Iterator[Table]:
    """The one table, or none where the commit is not in this copy of the repository."""
    commit = os.environ.get("PRIVALUE_BEFORE", BEFORE)
    with tempfile.TemporaryDirectory() as folder:
        old = earlier_tree(commit, Path(folder))
        if old is None:
            return
        few, files = (dict(_files(Path(folder) / str(rows), rows)) for rows in (1000, ROWS))
        times: dict[str, list[dict[str, list[float]]]] = {"before": [], "now": []}
        for turn in range(TURNS + 1):
            order = [("before", old / "src"), ("now", ROOT / "src")]
            for name, tree in order if turn % 2 else reversed(order):
                times[name].append(_run(tree, [*list(few)[:2], *files], Path(folder)))
        yield _table(commit, files, {name: turns[1:] for name, turns in times.items()})


def _files(folder: Path, rows: int) -> Iterator[tuple[str, str]]:
    """Write the rows; yield each file and what it holds."""
    folder.mkdir()
    generator = np.random.default_rng(1)
    for length in (50, 2):
        units = rows // length
        columns = {
            "trajectory": np.repeat(np.arange(units), length),
            "step": np.tile(np.arange(length), units),
            "state": np.minimum(generator.zipf(1.3, units * length) - 1, 999),
            "reward": generator.random(units * length),
        }
        table = pa.table(columns)
        for kind in ("sorted", "shuffled"):
            if kind == "shuffled":
                table = table.take(pa.array(generator.permutation(len(table))))
            path = folder / f"{kind}-{length}.parquet"
            pq.write_table(table, path, row_group_size=1 << 20)
            yield str(path), f"{kind}, {length} steps a trajectory"


def _run(tree: Path, files: list[str], folder: Path) -> dict[str, list[float]]:
    answer = folder / "answer.json"
    cache = folder / f"cache-{tree.parent.name}"
    environment = {**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", _WORK, str(answer), *files], env=environment, check=True)
    found: dict[str, list[float]] = json.loads(answer.read_text())
    return found


def _table(
    commit: str, files: dict[str, str], times: dict[str, list[dict[str, list[float]]]]
) -> Table:
    table = Table(title=f"This tree against {commit}: {ROWS:,} rows of Parquet, in turns")
    for heading in ("rows", "what", "before, ns a row", "now", "ratio", "worst pair"):
        table.add_column(heading, justify="left" if heading in {"rows", "what"} else "right")
    for path, described in files.items():
        before, now = times["before"], times["now"]
        assert before[0][path][2:] == now[0][path][2:], "the sums differ"
        for at, what in enumerate(("statistics", "release")):
            old, new = ([turn[path][at] for turn in turns] for turns in (before, now))
            pairs = [b / a for a, b in zip(old, new, strict=True)]
            table.add_row(
                described,
                what,
                f"{statistics.median(old) / ROWS * 1e9:.0f}",
                f"{statistics.median(new) / ROWS * 1e9:.0f}",
                f"{statistics.median(new) / statistics.median(old):.2f}",
                f"{max(pairs):.2f}",
            )
    return table
