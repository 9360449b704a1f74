"""Print: results to stdout, the log to stderr."""

import json
import logging
import re
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

# Characters that control a terminal or change the direction of writing (C0, C1, line and direction
# marks), and lone surrogates, which cannot be encoded.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    r"""Return a text with control characters escaped, so that it is safe to print on a terminal.

    Untrusted texts (labels, columns, names of files) must not control the terminal. Ends of lines
    and tabs stay.

    >>> print(escape_controls("well\x1b[2J"))
    well\x1b[2J
    """
    return _CONTROLS.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file's name that is not valid UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class SafeConsole(Console):
    """A console that escapes control characters and does not interpret markup.

    ``render_str`` gets every text before rich measures its width.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text for rich, with control characters escaped."""
        return super().render_str(escape_controls(text), **options)

    def on_broken_pipe(self) -> None:
        """Raise; rich would end the process, though a line of the log is all that is lost."""
        raise BrokenPipeError


class Log(SafeConsole):
    """The log, on stderr: lines for people, or one JSON object per event."""

    as_json: bool
    errors_only: bool  # except for messages marked private
    dataset: str | None  # the dataset of the command, for its events

    def __init__(self) -> None:
        super().__init__(stderr=True)
        self.reset()

    def reset(self) -> None:
        """Reset the options to their defaults, for the next command."""
        self.as_json = self.errors_only = False
        self.dataset = None

    @property
    def is_terminal(self) -> bool:
        """Return whether to show progress: stderr is a terminal, and the log is text."""
        return super().is_terminal and not (self.as_json or self.errors_only)

    def event(
        self, code: str, message: str, *, level: str = "info", style: str = "", **more: Any
    ) -> None:
        """Log an event.

        Args:
            code: a stable code for programs.
            message: a sentence for people.
            level: info, warning or error.
            style: of the line on a terminal.
            more: public numbers; ``private=True`` marks a message that quotes the data.
        """
        if self.errors_only and level != "error" and not more.get("private"):
            return
        with suppress(OSError):  # the terminal may be closed; the exit code remains
            if self.as_json:
                time = datetime.now(UTC).isoformat(timespec="milliseconds")
                about = {} if self.dataset is None else {"dataset": self.dataset}
                line = {"time": time, "level": level, "code": code, **about, "message": message}
                self.file.write(json.dumps(line | more, default=_plain) + "\n")
            elif level == "error":
                text = f"{more.get('traceback', '')}privalue: {message}\n"
                self.file.write(escape_controls(text))
            else:
                self.print(message, style=style, soft_wrap=not self.is_terminal)

    def warn(self, code: str, message: str, **more: Any) -> None:
        """Log a warning."""
        self.event(code, message, level="warning", style="bold yellow", **more)


log = Log()


def print_line(line: str) -> None:
    """Print a line of the results, without wrapping it."""
    print(escape_controls(line))


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(value, default=_plain, allow_nan=False))


def _plain(value: Any) -> Any:
    """Convert arrays and paths to values that JSON can represent."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(type(value).__name__)


class _PackageLog(logging.Handler):
    """Forwards log records of this package to the log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record as an event."""
        log.event(getattr(record, "code", "note"), record.getMessage())


@contextmanager
def log_warnings() -> Iterator[None]:
    """Log the package's records and PrivalueWarnings while the block runs."""
    package, handler = logging.getLogger("privalue"), _PackageLog()
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    package.propagate = False  # the root logger is for other libraries
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", PrivalueWarning)
            show_other = warnings.showwarning

            def show(message: Warning | str, *where: Any, **more: Any) -> None:
                if isinstance(message, PrivalueWarning):
                    log.event(message.code, f"Note: {message}.", level="warning", style="yellow")
                else:
                    show_other(message, *where, **more)

            warnings.showwarning = show
            yield
    finally:
        package.propagate = True
        package.removeHandler(handler)


@contextmanager
def progress(what: str, then: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal.

    Args:
        what: the name of the task.
        then: the name of the task after the last item, if it goes on.
    """
    with Progress(console=log, transient=True, disable=not log.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None) -> None:
            is_over = total is not None and done >= total
            text = then if is_over and then else what
            bar.update(task, completed=done, total=None if is_over else total, description=text)

        yield update
