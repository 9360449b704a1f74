"""Print: results to stdout, the log to stderr."""

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from privalue.errors import PrivalueWarning

# What a terminal takes for an order, or for another direction of writing: controls of one byte and
# of two (C0, C1), marks of lines and directions; and halves of characters, which cannot be sent.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    r"""Return a text as a terminal may get it: what would be an order is written out.

    Files, columns, labels and names of files may hold anything, and whoever wrote them may not
    write to the terminal. Ends of lines and tabs stay.

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
    """The log, on stderr: lines for people, or one JSON object per event.

    With ``errors_only`` there is nothing else, but that something is PRIVATE.
    """

    as_json = False
    errors_only = False  # and that something is PRIVATE
    dataset: str | None = None  # whose budget the command is about

    def __init__(self) -> None:
        super().__init__(stderr=True)

    @property
    def is_terminal(self) -> bool:
        """Return whether a person is watching, so that progress is worth showing."""
        return super().is_terminal and not (self.as_json or self.errors_only)

    def event(
        self, code: str, message: str, *, level: str = "info", style: str = "", **numbers: Any
    ) -> None:
        """Log an event.

        Args:
            code: what happened, in a word that stays.
            message: the same for people.
            level: info, warning or error.
            style: of the line on a terminal.
            numbers: public numbers; ``private=True`` marks a line that quotes the data.
        """
        if self.errors_only and level != "error" and not numbers.get("private"):
            return
        with suppress(OSError):  # the terminal may be gone: the exit code still tells
            if self.as_json:
                self._write(level, code, message, numbers)
            else:
                self.print(message, style=style, soft_wrap=not self.is_terminal)

    def warn(self, code: str, message: str, **numbers: Any) -> None:
        """Log what should not be overlooked."""
        self.event(code, message, level="warning", style="bold yellow", **numbers)

    def fail(
        self, code: str, message: str, exit_code: int, *, private: bool, traceback: str | None
    ) -> None:
        """Log in one line what went wrong."""
        message = " ".join(message.split())
        with suppress(OSError):
            if self.as_json:
                more: dict[str, Any] = {"exit_code": exit_code}
                more |= {"private": True} if private else {}
                more |= {} if traceback is None else {"traceback": traceback, "private": True}
                self._write("error", code, message, more)
            else:
                self.file.write(escape_controls(f"{traceback or ''}privalue: {message}\n"))

    def finish(self, exit_code: int) -> None:
        """Log, for jobs, that the command is done."""
        if self.as_json and not self.errors_only:
            with suppress(OSError):
                self._write("info", "done", "done", {"exit_code": exit_code})

    def _write(self, level: str, code: str, message: str, more: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        about = {} if self.dataset is None else {"dataset": self.dataset}
        line = {"time": at, "level": level, "code": code, **about, "message": message, **more}
        self.file.write(json.dumps(line, default=_plain) + "\n")


log = Log()


def screen() -> Console:
    """Return the console for results: plain text, in which brackets are not markup."""
    return SafeConsole()


def say(line: str) -> None:
    """Print a line of the results, never broken in two."""
    print(escape_controls(line))


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(value, default=_plain, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Return what JSON has no word for: arrays, paths, tuples of names."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(type(value).__name__)


@contextmanager
def notes() -> Iterator[None]:
    """Log PrivalueWarnings, about what is allowed and probably not meant, a line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrivalueWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if isinstance(message, PrivalueWarning):
                log.event(message.code, f"Note: {message}.", level="warning", style="yellow")
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


@contextmanager
def progress(what: str, then: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on stderr; it disappears at the end. Without a terminal there is none.

    Args:
        what: what is being done.
        then: what is still being done after everything was counted.
    """
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=log,
        transient=True,
        disable=not log.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None) -> None:
            over = total is not None and done >= total
            text = then if over and then else what
            bar.update(task, completed=done, total=None if over else total, description=text)

        yield update
