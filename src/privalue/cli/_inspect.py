"""Define ``privalue inspect``: what the data says, for the curator alone."""

from pathlib import Path
from typing import Annotated

import typer

from privalue.cli import _screen as terminal
from privalue.cli._console import Json, SideFiles, StudyFile, log, print_json, progress, screen
from privalue.cli._given import Data, Engine, Memory, Threads, parse_memory
from privalue.cli._memory import keep_freed_memory
from privalue.curator import inspect as inspect_data
from privalue.errors import UsageError
from privalue.report import require_private_place, write_private_page
from privalue.study import Study


def inspect(
    study_file: StudyFile,
    data: Data,
    page: Annotated[
        Path | None,
        typer.Option("--page", help="Also write a PRIVATE .html page that only you can read."),
    ] = None,
    side_files: SideFiles = None,
    engine: Engine = "local",
    memory: Memory = "2GB",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Show the curator the results before noise: PRIVATE."""
    limit = parse_memory(memory)
    if page is not None:
        require_private_place(page)
    study = Study.load(study_file, side_files=side_files)
    if page is not None and study.values_a_policy:
        raise UsageError(
            "--page is not for dp-ope, whose private numbers are few; leave it out, or use --json"
        )
    keep_freed_memory()
    with progress("Reading rows", then="Computing") as update:
        diagnostics = inspect_data(
            study, data, engine=engine, memory=limit, threads=threads, progress=update
        )
    log.label("PRIVATE: for the curator only. None of this may be published.")
    if page is not None:
        log.print(f"Wrote {write_private_page(diagnostics, page)}, PRIVATE")
    if as_json:
        print_json(diagnostics.private_columns())
    else:
        terminal.print_private_diagnostics(screen(), diagnostics)
