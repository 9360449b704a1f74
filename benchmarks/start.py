"""Whole commands as a user waits for them, beside Python importing the libraries beneath.

Every measurement is a process of its own, and those that are compared take turns. A bar is a ratio
of medians. The small release is 200,000 rows of CSV over 40 states, its report included. Compiling
is measured where no cache can be written, without the import of Numba.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich.table import Table

from benchmarks.clock import MISSED, as_installed

TURNS = 7
BEGIN = [sys.executable, "-m", "privalue"]
BASES = {
    "typer, rich": [sys.executable, "-c", "import typer, rich"],
    "numpy, pyarrow, scipy.linalg": [
        *(sys.executable, "-c", "import numpy, pyarrow, scipy.linalg"),
    ],
}
SMALL = [*BEGIN, "release", "study.toml", "--data", "rows.csv", "--no-ledger", "--quiet", "--out"]
WAYS = {
    "privalue --version": ([*BEGIN, "--version"], "typer, rich", 1.5),
    "privalue --help": ([*BEGIN, "--help"], "typer, rich", 1.5),
    "import privalue": (
        [sys.executable, "-c", "import privalue"],
        "numpy, pyarrow, scipy.linalg",
        1.3,
    ),
    "from privalue import *": (
        [sys.executable, "-c", "from privalue import *"],
        "numpy, pyarrow, scipy.linalg",
        None,
    ),
    # Plain imports are worth half a second of a command that runs once a month.
    "a small release": (SMALL, "numpy, pyarrow, scipy.linalg", 5.5),
    "the same, --no-report": (
        [*SMALL[:-1], "--no-report", "--out"],
        "numpy, pyarrow, scipy.linalg",
        None,
    ),
}
COMPILING = 2.0  # seconds
# Numba's own clock of each compilation; threads that compile the same kernel wait for each other.
COMPILED = """
import time
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()  # the rest of Numba's import
cpu_target.target_context.refresh()
compile, within, seconds = Dispatcher.compile, [0], [0.0]
def timed(self, signature):
    begun, within[0] = time.thread_time(), within[0] + 1
    try:
        return compile(self, signature)
    finally:
        within[0] -= 1
        seconds[0] += (time.thread_time() - begun) * (within[0] == 0)
Dispatcher.compile = timed
import privalue as pv
pv.release(pv.Study.load("study.toml"), "rows.csv")
print(seconds[0])
"""


def tables() -> Iterator[Table]:
    """One table of commands, and one line about the kernels."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        _prepare(folder)
        took = _measure(folder)
        table = Table(title=f"Whole commands, the median of {TURNS} turns")
        for heading in ("what", "ms", "beside", "ms", "ratio", "bar"):
            table.add_column(heading, justify="left" if heading in {"what", "beside"} else "right")
        for name, (_, base, bar) in WAYS.items():
            ours, theirs = median(took[name]), median(took[base])
            _add(table, name, ours, base, theirs, bar)
        yield table
        compiled = float(_run([sys.executable, "-c", COMPILED], folder, HOME="~").stdout)
        if compiled > COMPILING:
            MISSED.append(f"start, compiling: {compiled:.1f} s, bar {COMPILING:g} s")
        kernels = Table(title="Where no cache can be written")
        for heading in ("what", "seconds", "bar"):
            kernels.add_column(heading)
        kernels.add_row(
            "compile what a release from CSV needs", f"{compiled:.2f}", f"{COMPILING:g}"
        )
        yield kernels


def _add(table: Table, name: str, ours: float, base: str, theirs: float, bar: float | None) -> None:
    """Add a row, and remember a bar that is missed."""
    ratio = ours / theirs
    limit = "" if bar is None else f"{bar:g}"
    table.add_row(name, f"{1e3 * ours:.0f}", base, f"{1e3 * theirs:.0f}", f"{ratio:.2f}", limit)
    if bar is not None and ratio > bar:
        MISSED.append(f"start, {name}: {ratio:.2f} times {base}, bar {bar:g}")


def _prepare(folder: Path) -> None:
    """Write the rows, and the study that ``init`` writes."""
    as_installed()
    rows = [*BEGIN, "simulate", "chain:N=40", "--trajectories", "5000", "--out", "rows.csv"]
    _run(rows, folder)
    _run([*BEGIN, "init", "study.toml"], folder)
    _run([*SMALL, "warm"], folder)  # kernels go to the cache


def _measure(folder: Path) -> dict[str, list[float]]:
    """Return the seconds of every way and every base, which take turns."""
    took: dict[str, list[float]] = {name: [] for name in (*BASES, *WAYS)}
    for turn in range(TURNS):
        for name, command in [*BASES.items(), *((name, way[0]) for name, way in WAYS.items())]:
            words = [*command, f"{turn}-{len(command)}"] if command[-1] == "--out" else command
            start = time.perf_counter()
            _run(words, folder)
            took[name].append(time.perf_counter() - start)
    return took


def _run(words: list[str], folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=folder, check=True, capture_output=True, text=True, env={**os.environ, **more}
    )
