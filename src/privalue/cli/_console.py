"""Print: results to stdout, the log to stderr."""

import io
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from privalue.errors import PrivalueWarning

_AT_ONCE = 1 << 16  # numbers of an array that are written as one text
_WIDTH = 100  # of a table that goes into a log

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]

StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY", readable=False, help="The study file (TOML).")
]
SideFiles = Annotated[
    Path | None,
    typer.Option(
        "--side-files",
        metavar="DIR",
        help="One more folder in which side files may be; by default only the study's own.",
    ),
]


# What a terminal takes for an order, or for another direction of writing: controls of one byte and
# of two (C0, C1), marks of lines and directions; and halves of characters, which cannot be sent.
_ORDERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def shown(text: str) -> str:
    r"""Return a text as a terminal may get it: what would be an order is written out.

    Files, columns, labels and names of files may hold anything, and whoever wrote them may not
    write to the terminal. Ends of lines and tabs stay.

    >>> print(shown("well\x1b[2J"))
    well\x1b[2J
    """
    return _ORDERS.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    """Return a character as Python would write it."""
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file's name that is no character
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class _Shown(Console):
    """A console that shows what texts hold, and obeys none of it.

    Every text that rich lays out comes by here, before its width is measured.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text to be laid out, orders written out."""
        return super().render_str(shown(text), **options)


class Log(_Shown):
    """What is logged beside the results, on stderr.

    Messages and warnings are lines for people, or with ``as_json`` objects for the log of a job,
    one a line, with level and message; with ``quiet`` there are none. An error is always logged,
    and so is the label that something is PRIVATE.
    """

    as_json = False
    quiet = False

    def __init__(self) -> None:
        super().__init__(stderr=True, markup=False, highlight=False)

    @property
    def is_terminal(self) -> bool:
        """Return whether a person is watching, so that progress is worth showing."""
        return super().is_terminal and not (self.as_json or self.quiet)

    def print(self, *objects: Any, level: str = "info", **options: Any) -> None:
        """Log a message. If no terminal is attached, a line is never broken in two."""
        if self.quiet:
            return
        if self.as_json:
            self._log(level, _as_text(*objects))
        else:
            super().print(*objects, **{"soft_wrap": not self.is_terminal, **options})

    def warn(self, line: str, style: str = "bold yellow") -> None:
        """Log a message that should not be overlooked."""
        self.print(line, style=style, level="warning")

    def label(self, line: str) -> None:
        """Log that what is shown is private, even with ``quiet``."""
        quiet, self.quiet = self.quiet, False
        try:
            self.warn(line, style="bold red")
        finally:
            self.quiet = quiet

    def fail(self, message: str, code: int, traceback: str | None) -> None:
        """Log in one line what went wrong.

        Args:
            message: the error.
            code: the exit code.
            traceback: printed before the message, if there is one.
        """
        message = " ".join(message.split())
        with suppress(OSError):  # the terminal may be gone: the exit code still tells
            if self.as_json:
                more = {} if traceback is None else {"traceback": traceback}
                self._log("error", message, exit_code=code, **more)
            else:
                self.file.write(shown(f"{traceback or ''}privalue: {message}\n"))

    def _log(self, level: str, message: str, **more: Any) -> None:
        """Write one JSON object on one line."""
        self.file.write(json.dumps({"level": level, "message": message, **more}) + "\n")


def _as_text(*objects: Any) -> str:
    """Return objects as plain text, tables included."""
    plain = Console(file=io.StringIO(), width=_WIDTH, markup=False, highlight=False)
    with plain.capture() as text:
        plain.print(*objects, soft_wrap=all(isinstance(each, str) for each in objects))
    return text.get().strip("\n")


log = Log()


def screen() -> Console:
    """Return the console for results: plain text, in which brackets are not markup."""
    return _Shown(markup=False, highlight=False)


def say(line: str) -> None:
    """Print a line of the results, never broken in two."""
    print(shown(line))


def print_release_json(parts: Iterable[str]) -> None:
    """Print the JSON of a release: the same JSON, with what a terminal would obey escaped."""
    sys.stdout.writelines(_ORDERS.sub(lambda found: f"\\u{ord(found[0]):04x}", p) for p in parts)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object; an array becomes a list, and is written a part at a time."""
    parts = {
        key: _array(entry)
        if isinstance(entry, np.ndarray)
        else [json.dumps(entry, allow_nan=False)]
        for key, entry in value.items()
    }
    for number, (key, texts) in enumerate(parts.items()):
        sys.stdout.write(f"{', ' if number else '{'}{json.dumps(key)}: ")
        sys.stdout.writelines(texts)
    sys.stdout.write("}\n")


def _array(array: NDArray[Any]) -> Iterator[str]:
    """Yield an array as JSON, so that a long one is never held as text."""
    yield "["
    for start in range(0, len(array), _AT_ONCE):
        part = json.dumps(array[start : start + _AT_ONCE].tolist(), allow_nan=False)
        yield (", " if start else "") + part[1:-1]
    yield "]"


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
            if issubclass(category, PrivalueWarning):
                log.warn(f"Note: {message}.", style="yellow")
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


@contextmanager
def progress(what: str, then: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on stderr, with rate and time left; it disappears at the end.

    Where no terminal is attached, there is no bar.

    Args:
        what: what is being done.
        then: what is still being done after everything was counted.
    """
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _Count("{task.completed:,}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=log,
        transient=True,
        disable=not log.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None) -> None:
            over = total is not None and done >= total
            bar.update(
                task,
                completed=done,
                total=None if over else total,
                description=then if over and then else what,
            )

        yield update


class _Count(TextColumn):
    """A column that shows how much is done, of how much, and how fast if it is fast."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        if not task.completed:
            return Text()
        text = super().render(task)
        if task.total is not None:
            text.append(f"/{task.total:,.0f}")
        if task.speed is not None and task.speed >= 1000:
            text.append(f", {task.speed / 1e6:.2f} million a second")
        return text
