"""Define ``privalue release``: the one command that spends."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from privalue._folder import require_publishable
from privalue._rooms import Room
from privalue.cli._console import (
    Json,
    SideFiles,
    StudyFile,
    notes,
    print_release_json,
    progress,
    screen,
    tell,
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
from privalue.core import SeededForExperimentsOnly
from privalue.curator import release as release_data
from privalue.errors import UsageError
from privalue.study import Study

if TYPE_CHECKING:
    from privalue import ledger as ledgers
    from privalue import report as pages
    from privalue.artefact import Release
    from privalue.cli import _report as publishing
    from privalue.cli import _screen as terminal
else:
    ledgers, pages = Room("privalue.ledger"), Room("privalue.report")
    publishing, terminal = Room("privalue.cli._report"), Room("privalue.cli._screen")

# What a release needs after its rows, in that order.
_LATER = ("privalue.planning", "privalue._charged", "privalue.cli._report", "privalue.cli._screen")


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
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Go ahead although the plan is no better than guessing."),
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
    rest = _Rest(page=not no_report)
    with published(
        out, study=study_file, justification=justification, ready=rest.require
    ) as outbox:
        with notes(), progress("Reading rows", then="Computing") as update:
            released = release_data(
                study,
                data,
                ledger=None if ledger is None else ledgers.open_ledger(ledger),
                outbox=outbox,
                expect_new=expect_new,
                accept_large_delta=accept_large_delta,
                accept_useless=anyway,
                entropy=None if seed is None else SeededForExperimentsOnly(seed),
                engine=engine,
                memory=limit,
                threads=threads,
                progress=rest.beside(update),
                say=lambda line: tell([line]),
            )
        publishing.publish_and_tell(
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


class _Rest:
    """All that comes after the rows: loaded while they are read, and before the charge."""

    def __init__(self, *, page: bool) -> None:
        self._page = page
        self._thread: Thread | None = None

    def beside(
        self, update: Callable[[int, int | None], None]
    ) -> Callable[[int, int | None], None]:
        """Return ``update``, which has a thread load the rest when it is first called.

        Threads that read rows need Python for moments only, and ought to get it at once.
        """

        def also(done: int, total: int | None) -> None:
            if self._thread is None:
                sys.setswitchinterval(2e-4)
                self._thread = Thread(target=self._try, daemon=True)
                self._thread.start()
            update(done, total)

        return also

    def require(self) -> None:
        """Load what is not loaded yet; raise whatever goes wrong."""
        if self._thread is not None:
            self._thread.join()
        self._load()

    def _try(self) -> None:
        with suppress(Exception):  # ``require`` tells
            self._load()

    def _load(self) -> None:
        for name in _LATER:
            import_module(name)
        if self._page:
            pages.load_page()


def _with_reuse(released: "Release") -> Iterator[str]:
    """Yield the text of the release, with the one entry that is not part of it: ``reused``."""
    parts = released.json_parts()
    yield f'{{\n  "reused": {json.dumps(released.reused)},'
    yield next(parts).removeprefix("{")
    yield from parts
