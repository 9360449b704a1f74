"""Defer Ctrl-C and termination signals between a charge and the storage of its release."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_deferred: list[int] = []  # deferred signals
_handlers: dict[int, Any] = {}  # their original handlers; empty unless signals are being deferred


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals until the block ends, or waits for a lock (``deliver_signals``).

    In other threads than the main one this does nothing, since signals never interrupt them. A
    block nested in another does nothing either.
    """
    if _handlers or threading.current_thread() is not threading.main_thread():
        yield
        return
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(kind) not in {None, signal.SIG_IGN}:
            _handlers[kind] = signal.signal(kind, lambda number, _: _deferred.append(number))
    try:
        yield
    except BaseException:
        _deferred.clear()  # the exception ends the process, or the call, as the signals would
        raise
    finally:
        for number, handler in _handlers.items():
            signal.signal(number, handler)
        _handlers.clear()
    while _deferred:
        signal.raise_signal(_deferred.pop(0))


def deliver_signals() -> None:
    """Deliver deferred signals that have a Python handler.

    A Python handler raises an exception, after which a drawn release can still be stored. Any other
    signal would end the process and lose the release: it stays deferred.
    """
    if _handlers and threading.current_thread() is threading.main_thread():
        for number in {number for number in _deferred if callable(_handlers[number])}:
            _deferred.remove(number)
            signal.signal(number, _handlers.pop(number))  # no longer deferred
            signal.raise_signal(number)
