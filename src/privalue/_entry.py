"""Answer an interrupt of the command while it is still being imported: one line, no traceback.

This is the first module that the package imports, since importing the others takes a second.
Nothing is under way by then, so that the process may leave at once. A program that imports the
package keeps its own handlers.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

INTERRUPTED = 130


def _is_the_command() -> bool:
    """Return whether this process is ``privalue`` or ``python -m privalue``."""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    if name == "-m":  # as long as Python looks for the module
        return ("-m", "privalue") in pairwise(sys.orig_argv) or "-mprivalue" in sys.orig_argv
    return name in {"privalue", "privalue.exe"}


def _leave(*_: object) -> None:
    """Say that it was interrupted, and end the process."""
    words = sys.argv
    as_json = "--log-format=json" in words or ("--log-format", "json") in pairwise(words)
    line = (
        f'{{"level": "error", "message": "interrupted", "exit_code": {INTERRUPTED}}}\n'
        if as_json
        else "privalue: interrupted\n"
    )
    with suppress(OSError):
        os.write(2, line.encode())
    os._exit(INTERRUPTED)


def _compile_when_called() -> None:
    """Have Python compile the functions of data classes when they are first called.

    It makes up to six for every class, of which there are two hundred, and most are never called:
    another twentieth of a second. A constructor is compiled at once: it is asked for its arguments.
    """
    import dataclasses  # noqa: PLC0415 - a program that imports the package may need none

    at_once = getattr(dataclasses, "_create_fn", None)
    if at_once is None:  # from Python 3.13 on; it compiles once for every class
        return

    def when_called(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        make: Callable[[], Callable[..., Any]] = partial(at_once, name, *args, **kwargs)
        if name == "__init__":
            return make()
        made: list[Callable[..., Any]] = []

        def function(*given: Any) -> Any:
            if not made:
                made.append(make())
            return made[0](*given)

        function.__name__ = name
        return function

    dataclasses._create_fn = when_called  # type: ignore[attr-defined]


if _is_the_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, _leave)

if _is_the_command():
    # Importing makes much and drops nothing: the collector would look through all of it, again and
    # again, for a tenth of a second. Most commands end before it is called once.
    gc.set_threshold(1_000_000, 20, 20)
    _compile_when_called()
