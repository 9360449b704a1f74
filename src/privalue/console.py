"""Where the command line prints: results to stdout, talk to stderr."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
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

talk = Console(stderr=True, markup=False, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def screen() -> Console:
    """Plain text: the brackets of a study's sections are not markup."""
    return Console(markup=False, highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


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
