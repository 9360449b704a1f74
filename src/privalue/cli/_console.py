"""Where the command line prints: results to stdout, talk to stderr."""

import io
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

from privalue.cli._options import in_options
from privalue.errors import PrivalueWarning

_AT_ONCE = 1 << 16
_WIDTH = 100  # of a table that goes into a log

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]

StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY", readable=False, help="The study file (TOML).")
]


class Talk(Console):
    """What is said beside the results, on stderr.

    Talk and warnings are lines for people, or with ``as_json`` objects for the log of a job, one a
    line, with level and message; with ``quiet`` there are none. An error is always said, and so is
    that something is PRIVATE.
    """

    as_json = False
    quiet = False

    def __init__(self) -> None:
        super().__init__(stderr=True, markup=False, highlight=False)

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks on, and progress is worth showing."""
        return super().is_terminal and not (self.as_json or self.quiet)

    def print(self, *objects: Any, level: str = "info", **options: Any) -> None:
        """Say it. In a log a line is never broken in two."""
        if self.quiet:
            return
        if self.as_json:
            self._log(level, _as_text(*objects))
        else:
            super().print(*objects, **{"soft_wrap": not self.is_terminal, **options})

    def warn(self, line: str, style: str = "bold yellow") -> None:
        """Say what should not be overlooked."""
        self.print(line, style=style, level="warning")

    def label(self, line: str) -> None:
        """Say what is said even to whoever wants quiet: that what is shown is private."""
        quiet, self.quiet = self.quiet, False
        try:
            self.warn(line, style="bold red")
        finally:
            self.quiet = quiet

    def fail(self, message: str, code: int, traceback: str | None) -> None:
        """Say in one line what went wrong; a traceback, if there is one, comes with it."""
        message = " ".join(message.split())
        if self.as_json:
            more = {} if traceback is None else {"traceback": traceback}
            self._log("error", message, exit_code=code, **more)
        else:
            self.file.write(f"{traceback or ''}privalue: {message}\n")

    def _log(self, level: str, message: str, **more: Any) -> None:
        self.file.write(json.dumps({"level": level, "message": message, **more}) + "\n")


def _as_text(*objects: Any) -> str:
    """Plain text, of tables, too."""
    plain = Console(file=io.StringIO(), width=_WIDTH, markup=False, highlight=False)
    with plain.capture() as text:
        plain.print(*objects, soft_wrap=all(isinstance(each, str) for each in objects))
    return text.get().strip("\n")


talk = Talk()


class LibrariesTalk(logging.Handler):
    """Warnings and logs of the libraries beneath, said in the manner of the rest."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass it on in one line."""
        talk.warn(f"{record.name}: {' '.join(record.getMessage().split())}")


def screen() -> Console:
    """Plain text: the brackets of a study's sections are not markup."""
    return Console(markup=False, highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout; an array is a list, and is written a part at a time."""
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
    yield "["
    for start in range(0, len(array), _AT_ONCE):
        part = json.dumps(array[start : start + _AT_ONCE].tolist(), allow_nan=False)
        yield (", " if start else "") + part[1:-1]
    yield "]"


@contextmanager
def notes() -> Iterator[None]:
    """Shows what is allowed and probably not meant as notes on stderr, a line each."""
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
                talk.warn(f"Note: {in_options(str(message))}.", style="yellow")
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


@contextmanager
def progress(what: str, then: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """A bar on stderr, with rate and time left; gone when done, and silent where nobody looks.

    ``then`` is what still goes on when all that was counted is done.
    """
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _Count("{task.completed:,}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=talk,
        transient=True,
        disable=not talk.is_terminal,
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
    """What is done, of how much, and how fast, where it is fast enough to be a rate."""

    def render(self, task: Task) -> Text:
        if not task.completed:
            return Text()
        text = super().render(task)
        if task.total is not None:
            text.append(f"/{task.total:,.0f}")
        if task.speed is not None and task.speed >= 1000:
            text.append(f", {task.speed / 1e6:.2f} million a second")
        return text
