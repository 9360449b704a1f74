"""Where the command line prints: results to stdout, talk to stderr."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

talk = Console(stderr=True, markup=False, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def screen() -> Console:
    """Plain text: the brackets of a study's sections are not markup."""
    return Console(markup=False, highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
