"""Timing for the benchmarks."""

import compileall
import time
from collections.abc import Callable
from pathlib import Path

MISSED: list[str] = []  # the bars that were missed, each in a line; ``make bench`` fails with them


def seconds(work: Callable[[], object], *, repeat: int = 3) -> float:
    """The best of a few runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def as_installed() -> None:
    """Compile the package to bytecode, as an installer does: commands start with it."""
    import privalue  # noqa: PLC0415

    compileall.compile_dir(Path(privalue.__file__).parent, quiet=2)
