"""alpha: the paper's constant and the exact one at the paper's beta, and what finding it takes."""

import os
import tempfile
import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from benchmarks.clock import seconds
from privalue.core import _profile as profile
from privalue.core._calibration import nissim

SETTINGS = [  # epsilon, delta, d
    (0.1, 0.1, 40),
    (0.1, 1e-5, 1),
    (0.1, 1e-5, 40),
    (1.0, 1e-6, 1),
    (1.0, 1e-6, 2),
    (1.0, 1e-6, 40),
    (1.0, 1e-6, 1000),
    (1.0, 1e-6, 100_000),
    (5.0, 1e-9, 40),
    (10.0, 1e-12, 300),
    (0.001, 1e-15, 3),
    (20.0, 0.5, 1),
]


def tables() -> Iterator[Table]:
    table = Table(title="alpha at the paper's beta (times in ms, without the cache)")
    for name in (
        "epsilon", "delta", "d", "beta", "paper", "exact", "ratio", "true delta of the paper's",
        "search", "certification",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    profile._search(1.0, 1e-6, 40, 1e-3)  # warm-up
    for epsilon, delta, d in SETTINGS:
        pair = nissim(epsilon, delta, d)
        target = (epsilon, delta, d, pair.beta)
        search = seconds(lambda target=target: profile._search(*target))
        alpha, whole = uncached(target)
        truth = profile.privacy_profile(pair.alpha, pair.beta, d, epsilon).estimate
        table.add_row(
            f"{epsilon:g}",
            f"{delta:g}",
            f"{d:,}",
            f"{pair.beta:.3g}",
            f"{pair.alpha:.6g}",
            f"{alpha:.6g}",
            f"{pair.alpha / alpha:.1f}",
            f"{truth:.2g}",
            f"{1000 * search:.1f}",
            f"{1000 * max(whole - search, 0):.1f}",
        )
    yield table


def uncached(target: tuple[float, float, int, float]) -> tuple[float, float]:
    """alpha, and the seconds for it with nothing remembered in memory or on disk."""
    best, before = float("inf"), os.environ.get("XDG_CACHE_HOME")
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            profile._exact_alpha.cache_clear()
            started = time.perf_counter()
            alpha = profile.exact_alpha(*target)
            best = min(best, time.perf_counter() - started)
    os.environ.pop("XDG_CACHE_HOME")
    if before is not None:
        os.environ["XDG_CACHE_HOME"] = before
    return alpha, best


if __name__ == "__main__":
    for each in tables():
        Console(highlight=False).print(each)
