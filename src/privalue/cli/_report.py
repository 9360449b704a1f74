"""Define ``privalue report``: the page of a release, made again from what is public."""

import os
from pathlib import Path
from typing import Annotated

import typer

from privalue._folder import FILE_NAME, PAGE, REGISTRY, VALUES, require_no_private_page
from privalue.cli._console import Json, SideFiles, log, print_json, say
from privalue.cli._given import Justification
from privalue.errors import PrivalueError, UnavailableError, UsageError
from privalue.ledger import Account, open_ledger
from privalue.releases import Release
from privalue.report import (
    answers_in,
    charge_words,
    publish,
    release_page,
    require_same_study,
    write_report,
    write_text,
)
from privalue.study import Study


def report(
    release_file: Annotated[
        Path, typer.Argument(metavar="RELEASE", readable=False, help="A release, or its folder.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write only the page, to this .html file; by default beside the release."
        ),
    ] = None,
    study_file: Annotated[
        Path | None,
        typer.Option(
            "--study", help="The study of the release; needed for what its side files say."
        ),
    ] = None,
    side_files: SideFiles = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger", help="The ledger of the release, to show the budget; or PRIVALUE_LEDGER."
        ),
    ] = None,
    justification: Justification = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite existing files, but never the release itself."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the pages and tables of a release again; spends nothing."""
    release = Release.load(release_file)
    folder = _folder(release_file, out)
    names = [PAGE, REGISTRY, VALUES] if out is None else [out.name]
    # What a release with --no-report left is made anew with its page.
    beside = {REGISTRY, VALUES} if out is None and not (folder / PAGE).exists() else set()
    for name in names:
        if (folder / name).exists() and name not in beside and not force:
            raise UsageError(f"{folder / name} exists; use --force to overwrite it, or --out FILE")
    require_no_private_page(folder)
    study = None if study_file is None else Study.load(study_file, side_files=side_files)
    if study is not None:
        require_same_study(release, study)
    answers = answers_in(_folder(release_file, None) / REGISTRY)
    if justification is None and answers.unread:
        log.warn(
            f"{REGISTRY}: its justification is not one plain text, and the page shows none; give "
            "--justification"
        )
    account = _account_if_known(release) if ledger is None else account_of(release, ledger)
    why = justification or answers.justification
    if out is None:
        made = write_report(
            release, folder, study=study, account=account, justification=justification
        )
        written = list(made.values())
    else:
        text = release_page(release, study=study, account=account, justification=why)
        written = [write_text(out, text)]
    if as_json:
        print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        say(f"Wrote {path}")


def _folder(release_file: Path, out: Path | None) -> Path:
    """Return the folder that the pages go to, or raise UsageError."""
    if out is None:
        return release_file if release_file.is_dir() else release_file.parent
    if out.suffix.lower() != ".html" or out.name == FILE_NAME:
        raise UsageError(f"--out {out}: it must end in .html")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: {out.parent} is not a directory; create it first")
    return out.parent


def _account_if_known(release: Release) -> Account | None:
    """Return how the dataset stands on the environment's ledger; if that is not known, say so."""
    if release.ledger_head is None:
        return None
    ledger = os.environ.get("PRIVALUE_LEDGER")
    why = "this release is on a ledger, and none is named"
    try:
        if ledger:
            return account_of(release, ledger)
    except PrivalueError as problem:
        why = f"PRIVALUE_LEDGER: {problem}"
    log.warn(f"{why}; the page shows no budget: --ledger LEDGER names it")
    return None


def account_of(release: Release, ledger: str) -> Account:
    """Return how the release's dataset stands on a ledger.

    The ledger must have this release on its record.
    """
    opened, dataset = open_ledger(ledger), release.study["study"].get("dataset")
    if dataset is None or release.ledger_head is None:
        raise UsageError(
            "this release is on no ledger: it was made with --no-ledger; leave --ledger out"
        )
    return opened.account(dataset, head=release.ledger_head)


def publish_and_tell(
    release: Release,
    out: Path,
    *,
    study: Study | None = None,
    ledger: str | None = None,
    justification: str | None = None,
    page: bool = True,
    saved: bool = False,
) -> None:
    """Write everything that a command leaves, the release first, and log where it is.

    If the ledger does not answer any more, the page states no budget: the release itself is valid.

    Args:
        release: what was paid for.
        out: the folder.
        study: for what side files say.
        ledger: where the release was charged, if anywhere.
        justification: why these parameters; public.
        page: whether to write the page.
        saved: whether the folder holds the release itself already.
    """

    def account() -> Account | None:
        try:
            if ledger is None:
                return None
            found = account_of(release, ledger)
            if not release.reused:
                log.print(charge_words(release, found))
            return found
        except UnavailableError as problem:
            log.warn(
                f"Ledger: {problem}; the page shows no budget: privalue report "
                f"{out} --ledger LEDGER --force makes it again"
            )
            return None

    def wrote(*paths: Path) -> None:
        log.print(f"Wrote {', '.join(map(str, paths))}")

    if saved:
        require_no_private_page(out)
        made = write_report(
            release, out, study=study, account=account(), justification=justification
        )
        wrote(*made.values())
        return
    publish(
        release,
        out,
        study=study,
        account=account,
        justification=justification,
        page=page,
        wrote=wrote,
    )
