"""Make sure that a charged release is published: if a command is interrupted, its outbox stays."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privalue.cli.app import discard_output, explain
from privalue.cli.console import log
from privalue.cli.options import ADDRESS
from privalue.errors import ChargedError, DataError, UsageError
from privalue.ledger import OUTBOX_NAME, Outbox
from privalue.report import sentence
from privalue.report.folders import require_publishable


def require_unused(out: Path) -> None:
    """Refuse, before any work, a folder that holds a release or the outbox of an unfinished one.

    Raises:
        UsageError: it holds one; the message has the command that finishes an unfinished release.
    """
    remove_partial_outboxes(out)
    outbox = out / OUTBOX_NAME
    if os.path.lexists(outbox):
        message = sentence("outbox_exists", outbox=outbox, command=_command(outbox))
        raise UsageError(message, code="already-charged")
    require_publishable(out)


def remove_partial_outboxes(folder: Path) -> None:
    """Remove partial outboxes of killed processes: they may hold private details of the ledger."""
    for file in folder.glob(f".{OUTBOX_NAME}.*.partial"):
        with suppress(OSError):
            file.unlink()


@contextmanager
def open_outbox(out: Path, *, study: Path, justification: str | None) -> Iterator[Outbox]:
    """Yield the outbox of a release, which is removed once the block has published everything.

    Raises:
        ChargedError: the release was charged, but not published yet; the message says how to
            continue.
    """
    with Outbox(out / OUTBOX_NAME, study=study, justification=justification) as outbox:
        try:
            yield outbox
        except (Exception, KeyboardInterrupt) as problem:
            has_release = isinstance(problem, ChargedError) and problem.envelope is not None
            if not (has_release or outbox.is_filled or outbox.is_recorded):
                raise
            failure = explain(problem)
            message = sentence(
                "charged_not_published",
                why=problem.why if isinstance(problem, ChargedError) else failure.message,
                command=_command(outbox.path) if outbox.is_filled else None,
                is_recorded=outbox.is_recorded,
                folder=outbox.path.parent,
            )
            raise ChargedError(message, exit_code=failure.exit_code) from problem


@contextmanager
def tolerate_output_errors() -> Iterator[None]:
    """Log that results cannot be printed, which is no error: the charge or the files remain."""
    try:
        yield
        print(end="", flush=True)
    except OSError as problem:
        discard_output()
        why = problem.strerror or "the pipe is closed"
        log.warn("not-printed", sentence("not_printed", why=why))


def _command(outbox: Path) -> str:
    """Return the command that publishes the release in an outbox."""
    address = ""
    if not os.environ.get(ADDRESS):
        with suppress(DataError, MemoryError):  # the command itself will report a damaged outbox
            address = " --ledger LEDGER" * Outbox.read(outbox).needs_address
    return f"privalue ledger finish {shlex.quote(str(outbox))}{address}"
