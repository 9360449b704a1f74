"""See to it that what is paid for is published: whatever ends a release, its outbox is kept."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privalue._folder import FILE_NAME, PAGE, REGISTRY, VALUES
from privalue.cli.options import ADDRESS
from privalue.errors import ChargedError, DataError, PrivalueError, UsageError
from privalue.ledger import NAME, Outbox
from privalue.ledger.files import remove_litter


def require_finished(out: Path) -> None:
    """Refuse a folder in which an earlier release was ended midway, and say what finishes it.

    Raises:
        UsageError: it holds an outbox, or a release without its pages.
    """
    remove_litter(out)
    remove_remains(out)
    if os.path.lexists(out / NAME):
        raise UsageError(
            f"{out / NAME} holds a release that is charged: do not run again; "
            f"`{_command(out / NAME)}` publishes it, and spends nothing",
            code="already-charged",
        )
    pages = {name: os.path.lexists(out / name) for name in (VALUES, REGISTRY, PAGE)}
    if os.path.lexists(out / FILE_NAME) and not all(pages.values()):
        missing = ", ".join(name for name, there in pages.items() if not there)
        force = " --force" * any(pages.values())
        raise UsageError(
            f"{out / FILE_NAME} exists, and a release is never overwritten; `privalue report "
            f"{shlex.quote(str(out))}{force}` makes what is missing there ({missing}), and spends "
            "nothing",
            code="exists",
        )


def remove_remains(folder: Path) -> None:
    """Remove what a killed process left of an outbox beside it: it may tell of the ledger."""
    for file in folder.glob(f".{NAME}.*.partial"):
        with suppress(OSError):
            file.unlink()


@contextmanager
def outbox_of(out: Path, *, study: Path, justification: str | None) -> Iterator[Outbox]:
    """Yield the outbox of a release, which goes away once the block has published everything.

    Raises:
        ChargedError: it was charged, and is not published yet; the message says how to go on.
    """
    with Outbox(out / NAME, study=study, justification=justification) as outbox:
        try:
            yield outbox
        except ChargedError as problem:
            raise _with_command(problem, outbox) from problem
        except (Exception, KeyboardInterrupt) as problem:
            if not (outbox.is_filled or outbox.is_recorded):
                raise
            raise _unpublished(problem, outbox) from problem


def _with_command(problem: ChargedError, outbox: Outbox) -> ChargedError:
    """Return the same error, with the command that goes on."""
    if problem.paid is None:
        return problem
    if outbox.is_filled:
        message = f"charged: do not run again; `{_command(outbox.path)}` ({problem.why})"
    else:
        message = (
            f"charged, and lost: what was drawn could be kept neither in {outbox.path.parent}, nor "
            f"in the folder for temporary files, nor on the ledger ({problem.why}); the amount "
            "stays spent"
        )
    return ChargedError(message, exit_code=problem.exit_code)


def _unpublished(problem: BaseException, outbox: Outbox) -> ChargedError:
    """Return what to raise if publishing what was paid for was ended, or failed."""
    if isinstance(problem, KeyboardInterrupt):
        why, code = "interrupted", 130
    elif isinstance(problem, PrivalueError):
        why, code = problem.with_options(), problem.exit_code
    elif isinstance(problem, OSError):
        why, code = f"the system refused: {problem.strerror or type(problem).__name__}", 3
    else:
        why, code = f"internal error ({type(problem).__name__})", 70
    how = (
        f"do not run again; `{_command(outbox.path)}`"
        if outbox.is_filled
        else "the same command with another --out gets it from the ledger, and spends nothing"
    )
    stands = "charged, and on record" if outbox.is_recorded else "charged"
    return ChargedError(f"{stands}: {how} ({why})", exit_code=code)


def _command(outbox: Path) -> str:
    """Return the command that finishes what an outbox holds."""
    address = ""
    if not os.environ.get(ADDRESS):
        with suppress(DataError, MemoryError):  # then the command says what is wrong with it
            address = " --ledger LEDGER" * Outbox.read(outbox).needs_address
    return f"privalue ledger finish {shlex.quote(str(outbox))}{address}"
