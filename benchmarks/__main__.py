"""``make bench``: every benchmark, each side by side with the literal way in the same run.

``python -m benchmarks NAME ...`` runs some of them.
"""

import platform
import sys
from importlib import import_module
from importlib.metadata import version

from rich.console import Console

given = sys.argv[1:]
at = given.index("--steps") if "--steps" in given else len(given)
STEPS = [int(float(number)) for number in given[at + 1 :]]  # of the benchmark of streaming
NAMES = given[:at] or [
    "kernel",
    "before",
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
        *(STEPS if name == "streaming" else ())
    ):
        console.print(table)
