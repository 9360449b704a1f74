"""Insist on a step of the ledger, and put interrupts off while something paid for is at stake.

Between the charge and the commit a failure costs the amount that was charged, or the person who has
to mend it some work. So what passes is waited for: a server that restarts, a lock that others hold,
a disk that somebody is clearing. And Ctrl-C, or an end from outside, waits for the next moment at
which nothing is lost by it.
"""

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from privalue.errors import LedgerError, UnavailableError

PATIENCE = 55.0  # seconds of attempts and pauses, after which a person has to look
TOLD_AFTER = 2.0  # seconds: longer waits are explained
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

# What a person, or time, mends without touching the ledger: a full disk, one that is away.
_SQLITE = {
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY),
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED),
}
# The same of a server, by class of SQLSTATE: connection, resources, operator, system.
_POSTGRES = ("08", "53", "57", "58")

Result = TypeVar("Result")


class Hold:
    """Interrupts that arrived while they were put off."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._arrived: list[int] = []

    def sleep(self, seconds: float) -> None:
        """Pause; an interrupt gets through here."""
        until = time.monotonic() + seconds
        while not self._arrived and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        self.let_through()

    def let_through(self) -> None:
        """Do what the handlers that were there before do for each interrupt that arrived."""
        arrived, self._arrived = self._arrived, []
        for number in arrived:
            handler = self._before[number]
            if callable(handler):
                handler(number, None)
            else:  # the system's own: the process ends here
                signal.signal(number, handler)
                signal.raise_signal(number)

    def _take(self) -> None:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            before = None if number is None else signal.getsignal(number)
            if number is not None and before not in {None, signal.SIG_IGN}:
                self._before[number] = before
                signal.signal(number, lambda number, _: self._arrived.append(number))

    def _give_back(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


@contextmanager
def uninterrupted() -> Iterator[Hold]:
    """Put interrupts off until the block ends, or pauses (``Hold.sleep``).

    Handlers of signals belong to the main thread: elsewhere nothing is changed, and nothing
    interrupts.
    """
    hold = Hold()
    if threading.current_thread() is not threading.main_thread():
        yield hold
        return
    hold._take()
    try:
        yield hold
    finally:
        hold._give_back()
    hold.let_through()


def insist(
    step: Callable[[], Result],
    *,
    sleep: Callable[[float], None],
    waiting: str,
    say: Callable[[str], None] | None,
    passes: Callable[[BaseException], bool] | None = None,
) -> Result:
    """Take a step of the ledger, again and again while what stops it may pass.

    Args:
        step: what is to be done; doing it twice must be the same as once.
        sleep: what pauses between two attempts.
        waiting: the message after two seconds.
        say: what receives it, from another thread; nothing, if None.
        passes: which errors may be over in a while; ``may_pass``, if left out.

    Returns:
        What the step returns.

    Raises:
        LedgerError: it cannot be done, or could not for a minute.
        UnavailableError: nobody answered for a minute.
    """
    until, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    teller = threading.Timer(TOLD_AFTER, say or (lambda _: None), [waiting])
    teller.daemon = True
    teller.start()
    try:
        while True:
            begun = time.monotonic()
            try:
                return step()
            except (LedgerError, UnavailableError) as problem:
                failed = time.monotonic()  # the next attempt may take as long as this one did
                if not (passes or may_pass)(problem) or failed + pause + (failed - begun) > until:
                    raise
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    finally:
        teller.cancel()


def may_pass(problem: BaseException) -> bool:
    """Return whether what went wrong may be over in a while: no answer, a lock, a full disk."""
    if isinstance(problem, UnavailableError):
        return True
    cause = problem.__cause__
    while cause is not None:
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE:  # without the extended part
            return True
        if str(getattr(cause, "sqlstate", None) or "")[:2] in _POSTGRES:
            return True
        cause = cause.__cause__
    return False


def tell(lines: Iterable[str], say: Callable[[str], None] | None) -> None:
    """Pass lines on to whoever asked for them."""
    for line in lines:
        if say is not None:
            say(line)
