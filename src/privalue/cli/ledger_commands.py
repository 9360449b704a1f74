"""Define ``ledger``: the budget of a dataset, what was spent of it, and what is left to publish.

A release keeps what it drew in an outbox, in the folder that it publishes to, from before its
commit until all files are there. Whatever ends it in between, ``finish`` goes on from there.
"""

import csv
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from privalue._folder import FILE_NAME, require_publishable
from privalue.cli import terminal
from privalue.cli.after_charge import remove_remains
from privalue.cli.console import log, print_json, say, screen
from privalue.cli.options import ADDRESS, DEFAULT_LEDGER, NUMBER, WHOLE, Json, argument, option
from privalue.curator import finish as finish_release
from privalue.errors import BudgetError, DataError, PrivalueError, UsageError
from privalue.ledger import NAME, Account, Outbox, Paid, open_ledger
from privalue.ledger.files import read_whole, remove_litter
from privalue.releases import Release
from privalue.report import (
    describe_account,
    describe_statement,
    read_answers,
    request_for,
    statement_rows,
)

_LONGEST = 1 << 26  # bytes, of a file of heads

ledger = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    suggest_commands=False,  # the program itself does
    no_args_is_help=False,
    help="Track a dataset's privacy budget.",
)
LedgerFile = Annotated[str, option("The ledger: a file, or postgresql://...", envvar=ADDRESS)]
Dataset = Annotated[
    str, typer.Argument(help="The name of the people, as the study calls its dataset.")
]


@ledger.command()
def declare(
    dataset: Dataset,
    epsilon: Annotated[float, option("The total epsilon of all releases.", **NUMBER)],
    delta: Annotated[float, option("The total delta of all releases.", **NUMBER)],
    unit: Annotated[str, option("Whom the total protects: trajectory or person.")],
    neighbours: Annotated[
        str, option("How neighbours differ: replace-one or add-remove.")
    ] = "replace-one",
    max_trajectories_per_person: Annotated[
        int | None, option("How many anyone has at most, on your word.", **WHOLE)
    ] = None,
    accounting: Annotated[
        str, option("plain: add epsilons and deltas; gaussian: add squares of mu (for dp-ssp).")
    ] = "plain",
    ledger: LedgerFile = DEFAULT_LEDGER,
    replace: Annotated[
        bool, option("Change an existing total; the change is recorded.", "--replace")
    ] = False,
    reason: Annotated[str | None, option("Why, for the record and the statement.")] = None,
    as_json: Json = False,
) -> None:
    """Declare how much a dataset may spend in all; creates the ledger if there is none."""
    opened = open_ledger(ledger)
    account = opened.declare(
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
    _print_account(account, opened.place, as_json)


@ledger.command()
def show(
    dataset: Annotated[str | None, typer.Argument(help="One dataset; by default all.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show what a dataset has spent and left."""
    opened = open_ledger(ledger)
    accounts = opened.accounts() if dataset is None else [opened.account(dataset)]
    if as_json and dataset is None:
        entries = [account.as_dict() | {"ledger": opened.place} for account in accounts]
        print_json({"datasets": entries})
        return
    for account in accounts:
        _print_account(account, opened.place, as_json)


@ledger.command()
def statement(
    dataset: Dataset,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_csv: Annotated[bool, option("Print CSV on stdout.", "--csv")] = False,
    as_json: Json = False,
) -> None:
    """Print the account as a bank would: day, who, what, cost, left."""
    opened = open_ledger(ledger)
    account = opened.account(dataset)
    lines = list(opened.statement(dataset))
    rows = statement_rows(account, lines)
    if as_json:
        for row, line in zip(rows, lines, strict=True):
            row["at"], row["kind"] = line.at, line.kind
            row["cost"] = account.numbers(line.cost)
            row["left"] = account.numbers(line.left, is_left=True)
        print_json({"dataset": dataset, "ledger": opened.place, "lines": rows})
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        terminal.show(screen(), describe_statement(account, rows))


@ledger.command()
def verify(
    more: Annotated[
        list[Path] | None, argument("[RELEASE]...", "Further releases, as after --release.")
    ] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    heads: Annotated[
        list[str] | None, option("A head that must be on the record; repeatable.", "--head")
    ] = None,
    heads_file: Annotated[
        Path | None, option("A file of such heads; the newest is added.", "--heads")
    ] = None,
    released: Annotated[
        list[Path] | None, option("A release that must be on the record; repeatable.", "--release")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check that nobody changed, removed or reordered entries; exit 5 if somebody did."""
    releases = [*(released or ()), *(more or ())]
    kept = [] if heads_file is None else _heads_in(heads_file)
    opened = open_ledger(ledger)
    verified = opened.verify(
        heads=[*kept, *map(_hash_in, heads or ())],
        releases=[Release.load(path).to_json() for path in releases],
    )
    if heads_file is not None and verified.head not in kept:
        with heads_file.open("a", encoding="utf-8") as file:
            file.write(f"{opened.place} {verified.head}\n")
    if as_json:
        found = {"entries": verified.entries, "head": verified.head, "releases": len(releases)}
        print_json({"valid": True, **found})
        return
    say(f"The ledger is intact: {verified.entries} entries, head {verified.head}")
    if releases:
        say(f"On its record: {', '.join(map(str, releases))}")


def _hash_in(line: str) -> str:
    """Return the hash in a line of ``ledger head``: what stands last."""
    if not line.split():
        raise UsageError("--head is empty; give a line of `privalue ledger head`, or its hash")
    return line.rsplit(maxsplit=1)[-1]


def _heads_in(path: Path) -> list[str]:
    """Return the hashes in a file of lines of ``ledger head``; none if there is no such file."""
    try:
        text = read_whole(path, _LONGEST).decode()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise DataError(f"--heads {path} cannot be read: {problem.strerror}") from None
    except UnicodeError:
        raise DataError(f"--heads {path} is no text") from None
    return [_hash_in(line) for line in text.splitlines() if line.strip()]


@ledger.command()
def head(ledger: LedgerFile = DEFAULT_LEDGER, as_json: Json = False) -> None:
    """Print a line with the ledger's name and head; keep it for verify --head."""
    opened = open_ledger(ledger)
    hashed = opened.head()
    if as_json:
        print_json({"ledger": opened.place, "head": hashed})
    else:
        say(f"{opened.place} {hashed}")


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
    """Publish a release that is paid for but not published yet; spends nothing."""
    from privalue.cli.followup_commands import publish_and_log  # noqa: PLC0415 - heavy
    from privalue.cli.release_commands import show_release  # noqa: PLC0415 - heavy

    if outbox.is_dir():
        outbox /= NAME
    folder = outbox.parent if out is None else out
    if os.path.lexists(folder / FILE_NAME) and not os.path.lexists(outbox):
        _require_recorded(outbox, folder, ledger or os.environ.get(ADDRESS) or DEFAULT_LEDGER)
        log.event(
            "finished-already",
            f"Finished already: {folder / FILE_NAME} is on record; nothing is left to do",
        )
        if as_json:
            dataset = Release.load(folder).study["study"]["dataset"]
            print_json({"release": folder / FILE_NAME, "dataset": dataset})
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
    log.dataset = paid.charge.dataset
    publish_and_log(release, folder, ledger=ledger, answers=_answers(paid), is_saved=there)
    outbox.unlink(missing_ok=True)
    remove_remains(outbox.parent)
    if as_json:
        print_json({"release": folder / FILE_NAME, "dataset": paid.charge.dataset})
    else:
        show_release(release)


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


def _answers(paid: Paid) -> dict[str, str]:
    """Return the curator's answers, if the study's file is where it was."""
    answers = {}
    try:
        answers = read_answers(None if paid.study is None else Path(paid.study))
    except PrivalueError as problem:
        log.warn(problem.code, f"The registry's entry goes without answers: {problem}")
    if paid.justification is not None:
        answers["justification"] = paid.justification
    return answers


def _print_account(account: Account, place: str, as_json: bool) -> None:
    """Print an account as a table, or as JSON."""
    if as_json:
        print_json(account.as_dict() | {"ledger": place})
        return
    terminal.show(screen(), describe_account(account, place), sections=("budget",))
