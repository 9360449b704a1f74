"""``make bench``: every benchmark, each side by side with the literal way in the same run.

``python -m benchmarks NAME ...`` runs some of them. A bar that is missed makes it exit with 1.
"""

import platform
import sys
from importlib import import_module
from importlib.metadata import version

from rich.console import Console

from benchmarks.clock import MISSED

given = sys.argv[1:]
at = given.index("--steps") if "--steps" in given else len(given)
STEPS = [
    int(float(number)) for number in given[at + 1 :]
]  # of the benchmarks of streaming and Spark
NAMES = given[:at] or [
    "start",
    "kernel",
    "before",
    "large",
    "streaming",
    "wide",
    "spark",
    "psi",
    "calibration",
    "beta",
    "ledger",
]

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
console.print(
    f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}, "
    f"duckdb {version('duckdb')}, pyarrow {version('pyarrow')}, {platform.machine()}"
)
for name in NAMES:
    for table in import_module(f"benchmarks.{name}").tables(
        *(STEPS if name in {"large", "streaming", "spark"} else ())
    ):
        console.print(table)
for line in MISSED:
    console.print(f"missed: {line}")
sys.exit(bool(MISSED))
