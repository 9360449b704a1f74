"""Tell how many cores this process may use: by its affinity, and by its group's share of time."""

import os
from pathlib import Path

from privalue.errors import UsageError

MOST_THREADS = 1024
_GROUPS = Path("/sys/fs/cgroup")


def usable_cores(groups: Path = _GROUPS) -> int:
    """Return how many cores this process may use, at least 1.

    Args:
        groups: where the system lists control groups; containers see their own there.
    """
    allowed = getattr(os, "sched_getaffinity", None)  # Linux; elsewhere all cores count
    cores = len(allowed(0)) if allowed is not None else os.cpu_count() or 1
    return max(1, min(cores, _share(groups) or cores))


def _share(groups: Path) -> int | None:
    """Return how many cores the group's share of time comes to, rounded up; None if unlimited."""
    for quota, period in (
        ("cpu.max", None),  # version 2: both numbers in one file
        ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),  # version 1
    ):
        try:
            words = (groups / quota).read_text().split()
            words += [] if period is None else (groups / period).read_text().split()
            time, each = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):  # "max", or no such file
            continue
        if time > 0 and each > 0:
            return -(-time // each)
    return None


def chosen_threads(threads: int | None) -> int:
    """Return the number of threads that was asked for, or one for each core; refuse any other."""
    if threads is None:
        return usable_cores()
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads={threads!r} must be a whole number from 1 to {MOST_THREADS}")
    return threads
