"""Define ``privalue ledger``: the budget of a dataset, and what has been spent of it."""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from privalue.cli import _screen as terminal
from privalue.cli._console import Json, print_json, say, screen
from privalue.cli._finish import finish
from privalue.cli._given import DEFAULT_LEDGER, NUMBER, WHOLE
from privalue.errors import DataError, UsageError
from privalue.ledger import Account, open_ledger
from privalue.ledger.files import read_whole
from privalue.releases import Release
from privalue.report import account_rows, statement_rows

_LONGEST = 1 << 26  # bytes, of a file of heads

ledgers = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    suggest_commands=False,  # the program itself does
    no_args_is_help=False,
    help="Keep the budget of a dataset, and what was spent of it.",
)
LedgerFile = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="PRIVALUE_LEDGER",
        help="Where the ledger is: a file, or postgresql://...",
    ),
]
Dataset = Annotated[str, typer.Argument(help="The name of the people, as in [study] dataset.")]


@ledgers.command()
def declare(
    dataset: Dataset,
    epsilon: Annotated[
        float, typer.Option("--epsilon", **NUMBER, help="The total epsilon of all releases.")
    ],
    delta: Annotated[
        float, typer.Option("--delta", **NUMBER, help="The total delta of all releases.")
    ],
    unit: Annotated[
        str, typer.Option("--unit", help="Whom the total protects: trajectory or person.")
    ],
    neighbours: Annotated[
        str, typer.Option("--neighbours", help="How neighbours differ: replace-one or add-remove.")
    ] = "replace-one",
    most: Annotated[
        int | None,
        typer.Option(
            "--max-trajectories-per-person",
            **WHOLE,
            help="How many trajectories anyone has at most, on your word; to convert releases.",
        ),
    ] = None,
    accounting: Annotated[
        str,
        typer.Option(
            "--accounting",
            help="plain: add epsilons and deltas; gaussian: add squares of mu (for dp-ssp).",
        ),
    ] = "plain",
    ledger: LedgerFile = DEFAULT_LEDGER,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change an existing total; the change is recorded.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why, for the record and the statement.")
    ] = None,
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
        max_trajectories_per_person=most,
        accounting=accounting,
        replace=replace,
        reason=reason,
    )
    _print_account(account, opened.place, as_json)


@ledgers.command()
def show(
    dataset: Annotated[str | None, typer.Argument(help="One dataset; by default all.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show what a dataset has spent and left."""
    opened = open_ledger(ledger)
    accounts = opened.accounts() if dataset is None else [opened.account(dataset)]
    if as_json and dataset is None:
        told = [account.as_dict() | {"ledger": opened.place} for account in accounts]
        print_json({"datasets": told})
        return
    for account in accounts:
        _print_account(account, opened.place, as_json)


@ledgers.command()
def statement(
    dataset: Dataset,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV on stdout.")] = False,
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
        screen().print(terminal.listing(f"Statement of {dataset}", rows))


@ledgers.command()
def verify(
    more: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RELEASE]...", readable=False, help="Further releases, as after --release."
        ),
    ] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    heads: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            help="A line of ledger head, or its hash, that must be on the record. May be repeated.",
        ),
    ] = None,
    heads_file: Annotated[
        Path | None,
        typer.Option(
            "--heads", help="A file of heads that must be on the record; the newest is added."
        ),
    ] = None,
    released: Annotated[
        list[Path] | None,
        typer.Option(
            "--release",
            help="A release.json, or its folder, that must be on the record. May be repeated.",
        ),
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
        told = {"entries": verified.entries, "head": verified.head, "releases": len(releases)}
        print_json({"valid": True, **told})
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


@ledgers.command()
def head(ledger: LedgerFile = DEFAULT_LEDGER, as_json: Json = False) -> None:
    """Print a line with the ledger's name and head; keep it for verify --head."""
    opened = open_ledger(ledger)
    hashed = opened.head()
    if as_json:
        print_json({"ledger": opened.place, "head": hashed})
    else:
        say(f"{opened.place} {hashed}")


ledgers.command()(finish)


def _print_account(account: Account, place: str, as_json: bool) -> None:
    """Print an account as a table, or as JSON."""
    if as_json:
        print_json(account.as_dict() | {"ledger": place})
        return
    rows = [("ledger", place), *account_rows(account)]
    screen().print(terminal.facts(f"Dataset {account.dataset}", rows))
