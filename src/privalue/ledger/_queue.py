"""Let the writers of a file take turns in the order in which they came.

SQLite's own waiting is by chance: whoever tries at the right moment is next, and with many writers
somebody waits for long. So a writer draws a number first (a counter in a file beside the ledger),
locks the byte of that number for as long as its turn lasts, and waits until no lower byte is
locked. The kernel frees the bytes of a process that dies. Fairness is all that depends on it: what
keeps writers apart is SQLite's lock, and where the file or such locks cannot be had, that is
enough.
"""

import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl as _locks
except ImportError:  # Windows
    _locks = None  # type: ignore[assignment]

_fcntl: Any = _locks
_COUNTER = struct.Struct("<Q")
_LOCK = struct.Struct("hhqqi4x")  # Linux's struct flock: type, whence, start, length, process
_SHORTEST, _LONGEST = 0.0005, 0.02  # s between two looks: the nearer the turn, the shorter


@contextmanager
def turn(beside: Path, wait: float) -> Iterator[float]:
    """Yield, when it is this writer's turn, how many seconds of the wait are left.

    Args:
        beside: the ledger's file.
        wait: how many seconds to wait at most.

    Raises:
        TimeoutError: the turn did not come in time.
    """
    queue = _opened(beside)
    if queue is None:
        yield wait
        return
    deadline = time.monotonic() + wait
    try:
        _wait_for_turn(queue, deadline)
        yield max(0.0, deadline - time.monotonic())
    finally:
        os.close(queue)  # frees its bytes


def _opened(beside: Path) -> int | None:
    """Return the open file of the queue, or None where there can be none."""
    if sys.maxsize < 2**32 or not hasattr(_fcntl, "F_OFD_SETLK"):
        return None  # locks that belong to an open file, and not to a process, are Linux's
    try:
        mode = beside.stat().st_mode & 0o666  # for who may use the ledger, and nobody else
        name = beside.with_name(f"{beside.name}-queue")
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    except OSError:
        return None


def _wait_for_turn(queue: int, deadline: float) -> None:
    """Draw a number, and wait until no lower one is taken."""
    while not _lock(queue, _fcntl.F_WRLCK, 0):
        _sleep(_SHORTEST, deadline)
    (last,) = _COUNTER.unpack(os.pread(queue, 8, 0).ljust(8, b"\0"))
    number = last % 2**60 + 1  # whatever the file says; its byte is the next after it
    _lock(queue, _fcntl.F_WRLCK, number + 1)
    os.pwrite(queue, _COUNTER.pack(number), 0)
    _lock(queue, _fcntl.F_UNLCK, 0)
    while ahead := _ahead(queue, number):
        _sleep(min(_LONGEST, _SHORTEST * ahead), deadline)


def _ahead(queue: int, number: int) -> int:
    """Return how far ahead a lower number is that is still taken; 0 if none is."""
    asked = _LOCK.pack(_fcntl.F_RDLCK, os.SEEK_SET, 1, number, 0)
    kind, _, start, _, _ = _LOCK.unpack(_fcntl.fcntl(queue, _fcntl.F_OFD_GETLK, asked))
    return 0 if kind == _fcntl.F_UNLCK else max(1, number + 1 - start)


def _lock(queue: int, kind: int, byte: int) -> bool:
    """Take or free the lock on a byte; return whether that was possible at once."""
    try:
        _fcntl.fcntl(queue, _fcntl.F_OFD_SETLK, _LOCK.pack(kind, os.SEEK_SET, byte, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _sleep(seconds: float, deadline: float) -> None:
    """Sleep, unless the wait is over."""
    if time.monotonic() > deadline:
        raise TimeoutError
    time.sleep(seconds)
