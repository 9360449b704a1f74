"""``make bench``: start, large, spark and ledger; ``accuracy`` and ``planning`` by their names.

``python -m benchmarks NAME ...`` runs some of them. A bar that is missed makes it exit with 1.
"""

import argparse
import platform
import sys
from importlib import import_module
from importlib.metadata import version

from rich.console import Console

from benchmarks.clock import MISSED

NAMES = ["start", "large", "spark", "ledger"]
parser = argparse.ArgumentParser(prog="python -m benchmarks")
parser.add_argument("names", nargs="*", default=NAMES)
parser.add_argument(
    "--steps", nargs="+", default=[], type=lambda text: int(float(text)), help="large, spark"
)
parser.add_argument("--quick", action="store_true", help="accuracy: a part of the tables")
parser.add_argument("--seed", type=int, help="accuracy: of an earlier table")
options = parser.parse_args()

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
console.print(
    f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}, "
    f"duckdb {version('duckdb')}, pyarrow {version('pyarrow')}, {platform.machine()}"
)
for name in options.names:
    benchmark = import_module(f"benchmarks.{name}")
    if name == "accuracy":
        tables = benchmark.tables(quick=options.quick, seed=options.seed)
    else:
        tables = benchmark.tables(*(options.steps if name in {"large", "spark"} else ()))
    for table in tables:
        console.print(table)
for line in MISSED:
    console.print(f"missed: {line}")
sys.exit(bool(MISSED))
