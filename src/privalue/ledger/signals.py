"""Defer Ctrl-C and termination signals between a charge and the storage of its release."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_arrived: list[int] = []  # deferred signals
_handlers: dict[int, Any] = {}  # their original handlers; empty unless signals are being deferred


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer signals until the block ends, or waits for a lock (``let_through``).

    Signals are handled in the main thread only: in other threads this does nothing, as they are
    never interrupted. A block nested in another does nothing either.
    """
    if _handlers or threading.current_thread() is not threading.main_thread():
        yield
        return
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in {None, signal.SIG_IGN}:
            _handlers[number] = signal.signal(number, lambda number, _: _arrived.append(number))
    try:
        yield
    except BaseException:
        _arrived.clear()  # the exception ends the process, or the call, as the signals would
        raise
    finally:
        for number, handler in _handlers.items():
            signal.signal(number, handler)
        _handlers.clear()
    while _arrived:
        signal.raise_signal(_arrived.pop(0))


def let_through() -> None:
    """Deliver deferred signals that have a Python handler.

    A Python handler raises an exception, so that the release drawn can still be stored. A signal
    without one would end the process and lose the release: it stays deferred.
    """
    if _handlers and threading.current_thread() is threading.main_thread():
        for number in {each for each in _arrived if callable(_handlers[each])}:
            _arrived.remove(number)
            signal.signal(number, _handlers.pop(number))  # no longer deferred
            signal.raise_signal(number)
