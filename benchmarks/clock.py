"""Timing for the benchmarks."""

import time
from collections.abc import Callable

MISSED: list[str] = []  # the bars that were missed, each in a line; ``make bench`` fails with them


def seconds(work: Callable[[], object], *, repeat: int = 3) -> float:
    """The best of a few runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best
