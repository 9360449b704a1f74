"""``make bench``: every benchmark, each side by side with the literal way in the same run."""

import platform
from importlib.metadata import version

from rich.console import Console

from benchmarks import kernel, psi

console = Console(highlight=False)
console.print(
    f"Python {platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}, "
    f"duckdb {version('duckdb')}, pyarrow {version('pyarrow')}, {platform.machine()}"
)
for benchmark in (kernel, psi):
    for table in benchmark.tables():
        console.print(table)
