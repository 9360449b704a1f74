"""Define ``privalue ledger finish``: publish what is paid for.

A release keeps what it drew in an outbox, in the folder that it publishes to, from before its
commit until all files are there. Whatever ends it in between, ``finish`` goes on from there.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from privalue._folder import FILE_NAME, require_publishable
from privalue.cli import _screen as terminal
from privalue.cli._console import Json, log, print_json, screen
from privalue.cli._given import DEFAULT_LEDGER
from privalue.cli._paid import ADDRESS, remove_remains
from privalue.cli._report import publish_and_tell
from privalue.curator import finish as finish_release
from privalue.errors import BudgetError, DataError, PrivalueError, UsageError
from privalue.ledger import NAME, Outbox, Paid, open_ledger
from privalue.ledger.files import remove_litter
from privalue.releases import Release
from privalue.report import request_for, require_same_study
from privalue.study import Study


def finish(
    outbox: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            readable=False,
            help="The file release.outbox, or the folder that holds it.",
        ),
    ],
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            help="The ledger that was charged; by default as the outbox says, or PRIVALUE_LEDGER.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for the release; by default that of the outbox."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish a release that is paid for but not published yet; spends nothing."""
    if outbox.is_dir():
        outbox /= NAME
    folder = outbox.parent if out is None else out
    if os.path.lexists(folder / FILE_NAME) and not os.path.lexists(outbox):
        _require_recorded(outbox, folder, ledger or os.environ.get(ADDRESS) or DEFAULT_LEDGER)
        log.print(f"Finished already: {folder / FILE_NAME} is on record; nothing is left to do")
        if as_json:
            told = Release.load(folder).study["study"]["dataset"]
            print_json({"release": str(folder / FILE_NAME), "dataset": told})
        return
    paid = Outbox.read(outbox)
    release, folder = Release.parse(paid.text), out or _folder(outbox, paid)
    remove_litter(folder)
    there = _published(release, folder)
    if not there:
        require_publishable(folder)
    if ledger is None:
        ledger = (os.environ.get(ADDRESS) or None) if paid.needs_address else paid.ledger
    finish_release(paid, ledger=ledger)
    publish_and_tell(
        release,
        folder,
        study=_study(paid),
        ledger=ledger,
        justification=paid.justification,
        saved=there,
    )
    outbox.unlink(missing_ok=True)
    remove_remains(outbox.parent)
    if as_json:
        print_json({"release": str(folder / FILE_NAME), "dataset": paid.charge.dataset})
    else:
        terminal.print_release(screen(), release)


def _folder(outbox: Path, paid: Paid) -> Path:
    """Return where a release goes: beside its outbox, unless that had to go elsewhere itself."""
    meant = None if outbox.name == NAME or paid.folder is None else Path(paid.folder)
    return outbox.parent if meant is None else meant


def _require_recorded(outbox: Path, folder: Path, ledger: str) -> None:
    """Raise DataError unless a ledger has the release of a folder, whose outbox is gone."""
    release, opened, text = Release.load(folder), open_ledger(ledger), None
    with suppress(BudgetError):  # there is no such ledger
        if release.ledger_head is not None:
            earlier = opened.find(request_for(release))
            text = None if earlier is None else earlier.release
    if text != release.to_json():
        raise DataError(
            f"{outbox} does not exist, and {folder / FILE_NAME} is not on the record of the ledger "
            f"{opened.place}; if it is finished, name the ledger that it was charged on: "
            "--ledger LEDGER"
        )


def _published(release: Release, folder: Path) -> bool:
    """Return whether the folder holds this very release; refuse one that holds another."""
    if not os.path.lexists(folder / FILE_NAME):
        return False
    if Release.load(folder).to_json() != release.to_json():
        raise UsageError(
            f"{folder / FILE_NAME} is another release, and a release is never overwritten; give "
            "another folder: --out DIR"
        )
    return True


def _study(paid: Paid) -> Study | None:
    """Return the study of a release, if its file is there and still says the same."""
    if paid.study is None:
        return None
    try:
        release = Release.parse(paid.text)
        study = Study.load(Path(paid.study))
        require_same_study(release, study)
    except PrivalueError as problem:
        log.warn(f"The pages go without what {paid.study} says of states: {problem}")
        return None
    return study
