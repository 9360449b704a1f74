"""Print: results to stdout, the log to stderr."""

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from privalue.errors import PrivalueWarning

# What a terminal takes for an order, or for another direction of writing: controls of one byte and
# of two (C0, C1), marks of lines and directions; and halves of characters, which cannot be sent.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    r"""Return a text as a terminal may get it: what would be an order is written out.

    Files, columns, labels and names of files may hold anything, and their author may not write
    to the terminal. Ends of lines and tabs stay.

    >>> print(escape_controls("well\x1b[2J"))
    well\x1b[2J
    """
    return _CONTROLS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file's name that is no character
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class SafeConsole(Console):
    """A console that shows what texts hold, and obeys none of it.

    Every text that rich lays out comes by here, before its width is measured.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text to be laid out, orders written out."""
        return super().render_str(escape_controls(text), **options)


class Log(SafeConsole):
    """The log, on stderr: lines for people, or one JSON object per event."""

    as_json: bool
    errors_only: bool  # and that something is PRIVATE
    dataset: str | None  # whose budget the command is about

    def __init__(self) -> None:
        super().__init__(stderr=True)
        self.reset()

    def reset(self) -> None:
        """Forget the options of a command."""
        self.as_json = self.errors_only = False
        self.dataset = None

    @property
    def is_terminal(self) -> bool:
        """Return whether a person is watching, so that progress is worth showing."""
        return super().is_terminal and not (self.as_json or self.errors_only)

    def event(
        self, code: str, message: str, *, level: str = "info", style: str = "", **more: Any
    ) -> None:
        """Log an event.

        Args:
            code: what happened, in a word that stays.
            message: the same for people.
            level: info, warning or error.
            style: of the line on a terminal.
            more: public numbers; ``private=True`` marks a line that quotes the data.
        """
        if self.errors_only and level != "error" and not more.get("private"):
            return
        with suppress(OSError):  # the terminal may be gone: the exit code still tells
            if self.as_json:
                at = datetime.now(UTC).isoformat(timespec="milliseconds")
                about = {} if self.dataset is None else {"dataset": self.dataset}
                line = {"time": at, "level": level, "code": code, **about, "message": message}
                self.file.write(json.dumps(line | more, default=_plain) + "\n")
            elif level == "error":
                text = f"{more.get('traceback', '')}privalue: {message}\n"
                self.file.write(escape_controls(text))
            else:
                self.print(message, style=style, soft_wrap=not self.is_terminal)

    def warn(self, code: str, message: str, **more: Any) -> None:
        """Log what should not be overlooked."""
        self.event(code, message, level="warning", style="bold yellow", **more)


log = Log()


def screen() -> Console:
    """Return the console for results: plain text, in which brackets are not markup."""
    return SafeConsole()


def say(line: str) -> None:
    """Print a line of the results, never broken in two."""
    print(escape_controls(line))


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(value, default=_plain, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Return what JSON has no word for: arrays, paths."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(type(value).__name__)


class _Events(logging.Handler):
    """Hand on what the package logs, as it happens."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log an event of the package."""
        log.event(getattr(record, "code", "note"), record.getMessage())


@contextmanager
def notes() -> Iterator[None]:
    """Log what the package says, and PrivalueWarnings, about what is probably not meant."""
    package, handler = logging.getLogger("privalue"), _Events()
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    package.propagate = False  # what other libraries log goes to the root
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", PrivalueWarning)
            usual = warnings.showwarning

            def show(message: Warning | str, *where: Any, **more: Any) -> None:
                if isinstance(message, PrivalueWarning):
                    log.event(message.code, f"Note: {message}.", level="warning", style="yellow")
                else:
                    usual(message, *where, **more)

            warnings.showwarning = show
            yield
    finally:
        package.propagate = True
        package.removeHandler(handler)


@contextmanager
def progress(what: str, then: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on stderr; it disappears at the end. Without a terminal there is none.

    Args:
        what: what is being done.
        then: what is still being done after everything was counted.
    """
    with Progress(console=log, transient=True, disable=not log.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None) -> None:
            over = total is not None and done >= total
            text = then if over and then else what
            bar.update(task, completed=done, total=None if over else total, description=text)

        yield update
