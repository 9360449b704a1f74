"""Define ``privalue ledger finish``, and see to it that what is paid for is published.

A release keeps what it drew in an outbox, in the folder that it publishes to, from before its
commit until all files are there. Whatever ends it in between, ``finish`` goes on from there.
"""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from privalue._charged import finish as finish_release
from privalue._files import remove_litter
from privalue._outbox import NAME, Outbox, Paid
from privalue.artefact import FILE_NAME, Release
from privalue.cli import _screen as terminal
from privalue.cli._console import Json, log, print_json, screen
from privalue.cli._given import DEFAULT_LEDGER, study_of
from privalue.cli._options import in_options
from privalue.cli._report import publish_and_tell
from privalue.errors import BudgetError, ChargedError, DataError, PrivalueError, UsageError
from privalue.ledger import open_ledger, study_hash
from privalue.report import PAGE, REGISTRY, VALUES, require_publishable, require_same_study
from privalue.study import Study

_ADDRESS = "PRIVALUE_LEDGER"


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
        _require_recorded(outbox, folder, ledger or os.environ.get(_ADDRESS) or DEFAULT_LEDGER)
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
        ledger = (os.environ.get(_ADDRESS) or None) if paid.needs_address else paid.ledger
    finish_release(
        paid,
        ledger=None if ledger is None else open_ledger(ledger),
        say=lambda line: log.print(f"Ledger: {in_options(line)}"),
    )
    publish_and_tell(
        release,
        folder,
        study=_study(paid),
        ledger=ledger,
        justification=paid.justification,
        saved=there,
    )
    outbox.unlink(missing_ok=True)
    if as_json:
        print_json({"release": str(folder / FILE_NAME), "dataset": paid.dataset})
    else:
        terminal.print_release(screen(), release)


def _folder(outbox: Path, paid: Paid) -> Path:
    """Return where a release goes: beside its outbox, unless that had to go elsewhere itself."""
    meant = None if outbox.name == NAME or paid.folder is None else Path(paid.folder)
    return outbox.parent if meant is None else meant


def _require_recorded(outbox: Path, folder: Path, ledger: str) -> None:
    """Raise DataError unless a ledger has the release of a folder, whose outbox is gone."""
    release, opened = Release.load(folder), open_ledger(ledger)
    dataset = release.study["study"].get("dataset")
    stored = None
    if dataset is not None and release.ledger_head is not None:
        with suppress(BudgetError):  # there is no such ledger
            stored = opened.stored(dataset, study_hash(release.study))
    if stored is None or stored.artefact != release.to_json():
        raise DataError(
            f"{outbox} does not exist, and {folder / FILE_NAME} is not on the record of the ledger "
            f"{opened.place}; if it is finished, name the ledger that it was charged on: "
            "--ledger LEDGER"
        )


def require_finished(out: Path) -> None:
    """Refuse a folder in which an earlier release was ended midway, and say what finishes it.

    Raises:
        UsageError: it holds an outbox, or a release without its pages.
    """
    remove_litter(out)
    if os.path.lexists(out / NAME):
        raise UsageError(
            f"{out / NAME} holds a release that is charged: do not run again; "
            f"`{_command(out / NAME)}` publishes it, and spends nothing"
        )
    pages = {name: os.path.lexists(out / name) for name in (VALUES, REGISTRY, PAGE)}
    if os.path.lexists(out / FILE_NAME) and not all(pages.values()):
        missing = ", ".join(name for name, there in pages.items() if not there)
        force = " --force" * any(pages.values())
        raise UsageError(
            f"{out / FILE_NAME} exists, and a release is never overwritten; `privalue report "
            f"{_quoted(out)}{force}` makes what is missing there ({missing}), and spends nothing"
        )


@contextmanager
def published(out: Path, *, study: Path, justification: str | None) -> Iterator[Outbox]:
    """Yield the outbox of a release, which goes away once the block has published everything.

    Args:
        out: the folder that the release goes to.
        study: the study's file.
        justification: why these parameters; public.

    Raises:
        ChargedError: it was charged, and is not published yet; the message says how to go on.
    """
    with Outbox(out / NAME, study=study, justification=justification) as outbox:
        try:
            yield outbox
        except ChargedError as problem:
            raise _in_words(problem, outbox) from problem
        except (Exception, KeyboardInterrupt) as problem:
            if not (outbox.filled or outbox.recorded):
                raise
            raise _unpublished(problem, outbox) from problem


def _in_words(problem: ChargedError, outbox: Outbox) -> ChargedError:
    """Return the same error, with the command that goes on."""
    if problem.paid is None:
        return problem
    if outbox.filled:
        told = f"charged: do not run again; `{_command(outbox.path)}` ({problem.why})"
    else:
        told = (
            f"charged, and lost: what was drawn could be kept neither in {outbox.path.parent}, nor "
            f"in the folder for temporary files, nor on the ledger ({problem.why}); the amount "
            "stays spent"
        )
    return ChargedError(told, exit_code=problem.exit_code)


def _unpublished(problem: BaseException, outbox: Outbox) -> ChargedError:
    """Return what to raise if publishing what was paid for was ended, or failed."""
    if isinstance(problem, KeyboardInterrupt):
        why, code = "interrupted", 130
    elif isinstance(problem, PrivalueError):
        why, code = str(problem), problem.exit_code
    elif isinstance(problem, OSError):
        why, code = f"the system refused: {problem.strerror or type(problem).__name__}", 3
    else:
        why, code = f"internal error ({type(problem).__name__})", 70
    how = (
        f"do not run again; `{_command(outbox.path)}`"
        if outbox.filled
        else "the same command with another --out gets it from the ledger, and spends nothing"
    )
    stands = "charged, and on record" if outbox.recorded else "charged"
    return ChargedError(f"{stands}: {how} ({why})", exit_code=code)


def _command(outbox: Path) -> str:
    """Return the command that finishes what an outbox holds."""
    address = ""
    if not os.environ.get(_ADDRESS):
        with suppress(DataError, MemoryError):  # then the command says what is wrong with it
            address = " --ledger LEDGER" * Outbox.read(outbox).needs_address
    return f"privalue ledger finish {_quoted(outbox)}{address}"


def _quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))


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
        study = study_of(release, Path(paid.study))
        require_same_study(release, study)
    except PrivalueError as problem:
        log.warn(f"The pages go without what {paid.study} says of states: {problem}")
        return None
    return study
