"""Define ``privalue release``: the one command that spends."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from privalue._folder import require_publishable
from privalue.cli import _screen as terminal
from privalue.cli._console import (
    Json,
    SideFiles,
    StudyFile,
    log,
    notes,
    print_release_json,
    progress,
    screen,
)
from privalue.cli._given import (
    WHOLE,
    Data,
    Engine,
    Justification,
    Memory,
    Threads,
    parse_memory,
)
from privalue.cli._memory import keep_freed_memory
from privalue.cli._paid import published, require_finished
from privalue.cli._report import publish_and_tell
from privalue.core import SeededForExperimentsOnly
from privalue.curator import release as release_data
from privalue.curator import reuse
from privalue.errors import UsageError
from privalue.ledger import open_ledger
from privalue.releases import Release
from privalue.report import load_page
from privalue.study import Study


def release(
    study_file: StudyFile,
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="A folder for the release and its report.")],
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            help="Where the ledger is: a file, or postgresql://...; by default the environment's "
            "PRIVALUE_LEDGER.",
        ),
    ] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Do not record what this release spends.")
    ] = False,
    expect_new: Annotated[
        bool,
        typer.Option(
            "--expect-new", help="Fail (exit 4) if the ledger would answer with an earlier release."
        ),
    ] = False,
    accept_large_delta: Annotated[
        bool, typer.Option("--accept-large-delta", help="Go ahead although delta is at least 1/m.")
    ] = False,
    accept_useless: Annotated[
        bool,
        typer.Option(
            "--accept-useless", help="Go ahead although the plan is no better than guessing."
        ),
    ] = False,
    justification: Justification = None,
    no_report: Annotated[
        bool,
        typer.Option("--no-report", help="Write no report.html; `privalue report` makes it later."),
    ] = False,
    side_files: SideFiles = None,
    engine: Engine = "local",
    memory: Memory = "2GB",
    threads: Threads = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed-not-private",
            **WHOLE,
            help="Draw noise from this seed, for experiments; the result is NOT private.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Release the values once, with noise; this spends budget."""
    if ledger is None and not no_ledger:
        ledger = os.environ.get("PRIVALUE_LEDGER") or None
    if (ledger is None) != no_ledger:
        raise UsageError(
            "choose one: --ledger FILE (or PRIVALUE_LEDGER) records what the release spends; with "
            "--no-ledger nobody does, and you keep count of epsilon and delta yourself"
        )
    limit = parse_memory(memory)
    require_finished(out)
    require_publishable(out)
    study = Study.load(study_file, side_files=side_files)
    keep_freed_memory()
    if not no_report:
        load_page()  # what would fail to load fails before the charge
    with published(out, study=study_file, justification=justification) as outbox:
        with notes(), progress("Reading rows", then="Computing") as update:
            released = release_data(
                study,
                data,
                ledger=None if ledger is None else open_ledger(ledger),
                outbox=outbox,
                expect_new=expect_new,
                accept_large_delta=accept_large_delta,
                accept_useless=accept_useless,
                entropy=None if seed is None else SeededForExperimentsOnly(seed),
                engine=engine,
                memory=limit,
                threads=threads,
                progress=update,
            )
        if released.reused:
            log.print(f"Not new: {reuse(released)}")
        publish_and_tell(
            released,
            out,
            study=study,
            ledger=ledger,
            justification=justification,
            page=not no_report,
        )
    if as_json:
        print_release_json(_with_reuse(released))
    else:
        terminal.print_release(screen(), released)


def _with_reuse(released: Release) -> Iterator[str]:
    """Yield the text of the release, with the one entry that is not part of it: ``reused``."""
    parts = released.json_parts()
    yield f'{{\n  "reused": {json.dumps(released.reused)},'
    yield next(parts).removeprefix("{")
    yield from parts
