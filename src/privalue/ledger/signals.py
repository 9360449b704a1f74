"""Put Ctrl-C, and requests to end, off while something that is paid for is at stake."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_arrived: list[int] = []  # signals that are put off
_handlers: dict[int, Any] = {}  # those that are to have them; empty unless some are put off


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put interrupts off until the block ends, or waits for a lock (``let_through``).

    Handlers of signals belong to the main thread: elsewhere nothing is changed, and nothing
    interrupts. A block inside another changes nothing.
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
        _arrived.clear()  # this ends it, too
        raise
    finally:
        for number, handler in _handlers.items():
            signal.signal(number, handler)
        _handlers.clear()
    _deliver()


def let_through() -> None:
    """Deliver interrupts that were put off, to handlers that let what was drawn be kept.

    A signal without a handler would end the process, and what it holds: it waits for the block.
    """
    if _handlers and threading.current_thread() is threading.main_thread():
        for number in {each for each in _arrived if callable(_handlers[each])}:
            _arrived.remove(number)
            signal.signal(number, _handlers.pop(number))  # it is not put off any more
            signal.raise_signal(number)


def _deliver() -> None:
    while _arrived:
        signal.raise_signal(_arrived.pop(0))
