"""Put Ctrl-C, and requests to end, off while something that is paid for is at stake."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Deferral:
    """Handlers that are put off, and the signals that arrived meanwhile."""

    def __init__(self) -> None:
        self.arrived: list[int] = []
        self.handlers: dict[int, Any] = {}
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            handler = None if number is None else signal.getsignal(number)
            if number is not None and handler not in {None, signal.SIG_IGN}:
                self.handlers[number] = handler

    def deliver(self) -> None:
        """Do what the original handlers do for each signal that arrived."""
        arrived, self.arrived = self.arrived, []
        for number in arrived:
            handler = self.handlers[number]
            if callable(handler):
                handler(number, None)
            else:  # the system's own: the process ends here
                signal.signal(number, handler)
                signal.raise_signal(number)


_active: list[_Deferral] = []


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put interrupts off until the block ends, or waits for a lock (``let_through``).

    Handlers of signals belong to the main thread: elsewhere nothing is changed, and nothing
    interrupts.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferral = _Deferral()
    _active.append(deferral)
    for number in deferral.handlers:
        signal.signal(number, lambda number, _: deferral.arrived.append(number))
    try:
        yield
    finally:
        for number, handler in deferral.handlers.items():
            signal.signal(number, handler)
        _active.remove(deferral)
    deferral.deliver()


def let_through() -> None:
    """Deliver interrupts that were put off: nothing is lost by one while a lock is waited for."""
    if _active and threading.current_thread() is threading.main_thread():
        for deferral in reversed(_active):
            deferral.deliver()
