"""Define ``ledger``: declare, show and verify budgets, and finish interrupted releases.

A release is stored in an outbox, in the folder that it is published to, from before its commit
until all files are written. If the command is interrupted, ``finish`` continues from the outbox.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from privalue.cli.after_charge import remove_partial_outboxes, tolerate_output_errors
from privalue.cli.console import log, print_json, print_line
from privalue.cli.inputs import load_ledger
from privalue.cli.options import ADDRESS, DEFAULT_LEDGER, Json, argument, option
from privalue.cli.terminal import print_description, print_sentence
from privalue.curator import finish as finish_release
from privalue.curator import request_for
from privalue.errors import BudgetError, DataError, PrivalueError, UsageError
from privalue.ledger import OUTBOX_NAME, Account, Envelope, Outbox, open_ledger
from privalue.ledger.files import read_whole
from privalue.releases import FILE_NAME, Release
from privalue.report import (
    describe_account,
    describe_statement,
    read_answers,
    sentence,
    statement_rows,
)
from privalue.report.folders import require_publishable

_LONGEST = 1 << 26  # bytes, of a file of heads

ledger = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=False,
    help="Track a dataset's privacy budget.",
)
LedgerAddress = Annotated[
    str, option("The ledger: a file, or postgresql://...", "--ledger", envvar=ADDRESS)
]
Dataset = Annotated[
    str, typer.Argument(help="The dataset whose budget it is, as the study names it.")
]


@ledger.command()
def declare(
    dataset: Dataset,
    epsilon: Annotated[float, option("The total epsilon of all releases.")],
    delta: Annotated[float, option("The total delta of all releases.")],
    unit: Annotated[str, option("Whom the total protects: trajectory or person.")],
    neighbours: Annotated[
        str, option("How neighbours differ: replace-one or add-remove.")
    ] = "replace-one",
    max_trajectories_per_person: Annotated[
        int | None, option("The most trajectories that one person has; you assert this.")
    ] = None,
    accounting: Annotated[
        str, option("plain: add epsilons and deltas; gaussian: add squares of mu (for dp-ssp).")
    ] = "plain",
    address: LedgerAddress = DEFAULT_LEDGER,
    replace: Annotated[
        bool, option("Change an existing total; the change is recorded.", "--replace")
    ] = False,
    reason: Annotated[str | None, option("Why, for the record and the statement.")] = None,
    as_json: Json = False,
) -> None:
    """Declare a dataset's total budget; creates the ledger if there is none."""
    ledger = load_ledger(address, dataset)
    account = ledger.declare(
        dataset,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
        max_trajectories_per_person=max_trajectories_per_person,
        accounting=accounting,
        replace=replace,
        reason=reason,
    )
    with tolerate_output_errors():
        _print_account(account, ledger.place, as_json)


@ledger.command()
def spend(
    dataset: Dataset,
    unit: Annotated[str, option("Whom the other tool protects: trajectory or person.")],
    neighbours: Annotated[str, option("How its neighbours differ: replace-one or add-remove.")],
    what: Annotated[str, option('What is released, e.g. "OpenDP: admissions by month".')],
    epsilon: Annotated[float | None, option("Its epsilon.")] = None,
    delta: Annotated[float | None, option("Its delta; 0 if it has none.")] = None,
    mu: Annotated[
        float | None,
        option("In place of both: mu of Gaussian noise, on a Gaussian total."),
    ] = None,
    address: LedgerAddress = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Charge what another tool is about to release; on exit 4 it must not be released."""
    ledger = load_ledger(address, dataset)
    account = ledger.spend(
        dataset,
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        unit=unit,
        neighbours=neighbours,
        what=what,
    )
    with tolerate_output_errors():
        _print_account(account, ledger.place, as_json)


@ledger.command()
def show(
    dataset: Annotated[str | None, typer.Argument(help="One dataset; by default all.")] = None,
    address: LedgerAddress = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show what a dataset has spent and left."""
    ledger = load_ledger(address, dataset)
    accounts = ledger.accounts() if dataset is None else [ledger.account(dataset)]
    if as_json and dataset is None:
        print_json({"datasets": [item.as_dict() | {"ledger": ledger.place} for item in accounts]})
        return
    for account in accounts:
        _print_account(account, ledger.place, as_json)


@ledger.command()
def statement(
    dataset: Dataset,
    address: LedgerAddress = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """List a dataset's entries: day, author, description, cost, amount left."""
    ledger = load_ledger(address, dataset)
    account, lines = ledger.account(dataset), list(ledger.statement(dataset))
    if as_json:
        rows = statement_rows(account, lines)
        print_json({"dataset": dataset, "ledger": ledger.place, "lines": rows})
    else:
        print_description(describe_statement(account, lines))


@ledger.command()
def verify(
    address: LedgerAddress = DEFAULT_LEDGER,
    heads: Annotated[
        list[str] | None, option("A head that must be on the record; repeatable.", "--head")
    ] = None,
    heads_file: Annotated[
        Path | None, option("A file of such heads; the newest is added.", "--heads")
    ] = None,
    release_files: Annotated[
        list[Path] | None, option("A release that must be on the record; repeatable.", "--release")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify that no entry was changed, removed or reordered; exit 5 if one was."""
    earlier = [] if heads_file is None else _read_heads(heads_file)
    releases = release_files or []
    ledger = open_ledger(address)
    result = ledger.verify(
        heads=[*earlier, *map(_parse_head, heads or ())],
        releases={str(path): Release.load(path).to_json() for path in releases},
    )
    if heads_file is not None and not earlier:
        log.warn("no-earlier-heads", sentence("no_earlier_heads", file=heads_file))
    if heads_file is not None and result.head not in earlier:
        with heads_file.open("a", encoding="utf-8") as file:
            file.write(f"{ledger.place} {result.head}\n")
    if as_json:
        sizes = {"entries": result.entries, "releases": len(releases)}
        print_json({"valid": True, "head": result.head, **sizes})
    else:
        print_sentence("verified", entries=result.entries, head=result.head, releases=releases)


def _parse_head(line: str) -> str:
    """Return the hash in a line of ``ledger head``: its last word."""
    if not line.split():
        raise UsageError("--head is empty; give a line of `privalue ledger head`, or its hash")
    return line.rsplit(maxsplit=1)[-1]


def _read_heads(path: Path) -> list[str]:
    """Return the hashes in a file of lines of ``ledger head``; none if there is no such file."""
    try:
        text = read_whole(path, _LONGEST).decode()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text"
        raise DataError(f"--heads {path} cannot be read: {why}") from None
    return [_parse_head(line) for line in text.splitlines() if line.strip()]


@ledger.command()
def head(address: LedgerAddress = DEFAULT_LEDGER, as_json: Json = False) -> None:
    """Print the ledger's name and head (the hash of its last entry), for verify --head."""
    ledger = open_ledger(address)
    digest = ledger.head()
    if as_json:
        print_json({"ledger": ledger.place, "head": digest})
    else:
        print_line(f"{ledger.place} {digest}")


@ledger.command()
def finish(
    outbox: Annotated[Path, argument("FILE", "The file release.outbox, or its folder.")],
    ledger: Annotated[
        str | None, option("The ledger that was charged; by default as the outbox says.")
    ] = None,
    out: Annotated[
        Path | None, option("A folder for the release; by default that of the outbox.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish a release that was charged but not published yet; spends nothing."""
    from privalue.cli.followup_commands import print_release, publish_and_log  # noqa: PLC0415 - heavy

    if outbox.is_dir():
        outbox /= OUTBOX_NAME
    folder = outbox.parent if out is None else out
    address = ledger or os.environ.get(ADDRESS) or None
    if os.path.lexists(folder / FILE_NAME) and not os.path.lexists(outbox):
        release = _require_recorded(outbox, folder, address or DEFAULT_LEDGER)
        log.event("finished-already", sentence("finished_already", file=folder / FILE_NAME))
    else:
        pending = Outbox.read(outbox)
        release, folder = Release.parse(pending.text), out or _folder(outbox, pending)
        is_saved = _holds_release(folder, release)
        if not is_saved:
            require_publishable(folder)
        ledger = ledger or (address if pending.needs_address else pending.ledger)
        finish_release(pending, ledger=ledger)
        log.dataset = pending.charge.dataset
        publish_and_log(
            release, folder, ledger=ledger, answers=_answers(pending), is_saved=is_saved
        )
        outbox.unlink(missing_ok=True)
        remove_partial_outboxes(outbox.parent)
    print_release(release, folder, as_json=as_json)


def _folder(outbox: Path, pending: Envelope) -> Path:
    """Return the folder of a release: that of its outbox, unless the outbox is a temporary file."""
    folder = None if outbox.name == OUTBOX_NAME or pending.folder is None else Path(pending.folder)
    return outbox.parent if folder is None else folder


def _require_recorded(outbox: Path, folder: Path, address: str) -> Release:
    """Return the release in a folder without an outbox; DataError if the ledger lacks it."""
    release, ledger, text = Release.load(folder), open_ledger(address), None
    with suppress(BudgetError):  # there is no such ledger
        if release.ledger_head is not None:
            earlier = ledger.find(request_for(release.privacy, release.study))
            text = None if earlier is None else earlier.release
    if text != release.to_json():
        file = folder / FILE_NAME
        raise DataError(sentence("not_recorded", outbox=outbox, file=file, ledger=ledger.place))
    return release


def _holds_release(folder: Path, release: Release) -> bool:
    """Return whether the folder holds this release; refuse a folder with another release."""
    file = folder / FILE_NAME
    if not os.path.lexists(file):
        return False
    if Release.load(folder).to_json() != release.to_json():
        raise UsageError(
            f"{file} is another release, and a release is never overwritten; give another folder",
            code="exists",
        )
    return True


def _answers(pending: Envelope) -> dict[str, str]:
    """Return the curator's answers, if they can still be read beside the study's file."""
    try:
        return read_answers(
            None if pending.study is None else Path(pending.study), pending.justification
        )
    except PrivalueError as problem:
        log.warn(problem.code, f"The registry's entry goes without answers: {problem}")
        return read_answers(None, pending.justification)


def _print_account(account: Account, place: str, as_json: bool) -> None:
    """Print an account as a table, or as JSON."""
    if as_json:
        print_json(account.as_dict() | {"ledger": place})
    else:
        print_description(describe_account(account, place), sections=("budget",))
