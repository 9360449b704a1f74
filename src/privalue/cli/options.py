"""Define the options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from privalue.errors import UsageError

DEFAULT_LEDGER = "ledger.db"  # for commands that always need a ledger
ADDRESS = "PRIVALUE_LEDGER"  # environment variable


def option(text: str, *names: str, **more: Any) -> Any:
    """Return an option, named after its parameter unless other names are given."""
    return typer.Option(*names, help=text, **more)


def advanced(text: str, *names: str, **more: Any) -> Any:
    """Return an option that the help text lists under "Advanced"."""
    return option(text, *names, rich_help_panel="Advanced", **more)


def argument(metavar: str, text: str) -> Any:
    """Return an argument that may name a file; the command itself checks that it can be read."""
    return typer.Argument(metavar=metavar, readable=False, help=text)


Json = Annotated[bool, option("Print one JSON object instead of tables.", "--json")]
Force = Annotated[bool, option("Overwrite existing files, but never a release.", "--force")]
StudyFile = Annotated[Path, argument("STUDY", "The study file (TOML).")]
ReleaseFile = Annotated[Path, argument("RELEASE", "A release, or its folder.")]
SideFiles = Annotated[
    Path | None, advanced("Another folder to search for side files.", metavar="DIR")
]
Justification = Annotated[
    str | None, option("Why these parameters: text for the report and the registry.")
]
Data = Annotated[
    str,
    option(
        "A file, folder or quoted glob (CSV, Parquet), FILE.xlsx::SHEET, "
        "FILE.duckdb::TABLE, "
        "FILE.sqlite::TABLE, postgresql://...::TABLE, a query in place of TABLE, or minari:NAME."
    ),
]
Engine = Annotated[str, advanced("Where rows are read: local, or spark (a cluster).")]
Memory = Annotated[
    str | None,
    advanced("Memory for rows, e.g. 2GB; by default half of the machine's."),
]
Threads = Annotated[int | None, advanced("Threads that read rows; by default one per core.")]


def require_absent(path: Path, force: bool) -> None:
    """Raise UsageError if the file exists, unless it may be overwritten."""
    if path.exists() and not force:
        message = f"{path} exists; use --force to overwrite it, or give another name"
        raise UsageError(message, code="exists")
