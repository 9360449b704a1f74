"""Define ``privalue init``: a study file to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from privalue.cli import _screen as terminal
from privalue.cli._console import Json, print_json, say, screen
from privalue.cli._given import require_absent
from privalue.errors import UsageError
from privalue.readers import column_names
from privalue.report import guess, guessed_json
from privalue.study import study_template


def init(
    path: Annotated[Path, typer.Argument(help="Where to write the study file.")] = Path(
        "study.toml"
    ),
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="Fill in [data] from the names of this file's columns; reads no row."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a commented study file."""
    require_absent(path, force)
    guessed = None if data is None else guess(*column_names(data))
    text = (
        study_template()
        if guessed is None
        else study_template(guessed.values, {**guessed.questions, **guessed.hints})
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror}") from None
    if as_json:
        print_json({"study": str(path), **({} if guessed is None else guessed_json(guessed))})
    elif guessed is None:
        say(f"Wrote {path}. Edit it, then: privalue check {path}")
    else:
        terminal.print_guesses(screen(), guessed)
        say(f"Wrote {path}. Answer what it asks, then: privalue check {path}")
