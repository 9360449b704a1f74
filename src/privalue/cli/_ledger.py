"""Define ``privalue ledger``: the budget of a dataset, and what has been spent of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from privalue.artefact import Release
from privalue.cli import _screen as terminal
from privalue.cli._console import Json, log, print_json, screen
from privalue.cli._finish import finish
from privalue.cli._options import in_options
from privalue.ledger import Account, open_ledger
from privalue.report import account_json, account_rows, draw_spending

ledgers = typer.Typer(
    no_args_is_help=False, help="The budget of a dataset, and what has been spent of it."
)
LedgerFile = Annotated[
    str,
    typer.Option(
        "--ledger", envvar="PRIVALUE_LEDGER", help="The ledger: a file, or postgresql://..."
    ),
]
DEFAULT_LEDGER = "ledger.db"


@ledgers.command()
def declare(
    dataset: Annotated[str, typer.Argument(help="Which people: [study] dataset.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The total of all releases.")],
    delta: Annotated[float, typer.Option("--delta", help="The total of all releases.")],
    unit: Annotated[
        str, typer.Option("--unit", help="Whom the total protects: trajectory or person.")
    ],
    neighbours: Annotated[
        str, typer.Option("--neighbours", help="How: replace-one or add-remove.")
    ] = "replace-one",
    most: Annotated[
        int | None,
        typer.Option(
            "--max-trajectories-per-person",
            help="You vouch that no person has more; converts releases for trajectories.",
        ),
    ] = None,
    accounting: Annotated[
        str, typer.Option("--accounting", help="plain: epsilons and deltas are summed.")
    ] = "plain",
    ledger: LedgerFile = DEFAULT_LEDGER,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change a total, on the record.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Give a dataset its total; makes the ledger if there is none."""
    account = open_ledger(ledger).declare(
        dataset,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
        max_trajectories_per_person=most,
        accounting=accounting,
        replace=replace,
    )
    _print_account(account, as_json)


@ledgers.command()
def show(
    dataset: Annotated[str | None, typer.Argument(help="One dataset; all, if left out.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="A folder for a picture of spending.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what is spent, reserved and left."""
    opened = open_ledger(ledger)
    names = opened.datasets() if dataset is None else (dataset,)
    accounts = [opened.show(name) for name in names]
    if picture is not None:
        picture.mkdir(parents=True, exist_ok=True)
        for number, account in enumerate(accounts, start=1):
            name = "spending" if len(accounts) == 1 else f"spending-{number}"
            for file in draw_spending(account, folder=picture, name=name):
                log.print(f"Wrote {file}")
    if as_json and dataset is None:
        print_json({"datasets": [_json(account) for account in accounts]})
        return
    for account in accounts:
        _print_account(account, as_json)


@ledgers.command()
def verify(
    ledger: LedgerFile = DEFAULT_LEDGER,
    head: Annotated[
        str | None, typer.Option("--head", help="A hash that must be on the record.")
    ] = None,
    released: Annotated[
        Path | None, typer.Option("--release", help="A release.json that must be on the record.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find any change, removal or reordering; exit 5 if there is one."""
    artefact = None
    if released is not None:
        found = Release.load(released)
        artefact, head = found.to_json(), head or found.ledger_head
    verified = open_ledger(ledger).verify(head=head, artefact=artefact)
    if as_json:
        print_json(
            {
                "valid": True,
                "entries": verified.entries,
                "head": verified.head,
                "notices": [in_options(line) for line in verified.notices],
            }
        )
        return
    tell(verified.notices)
    print(f"The ledger is whole: {verified.entries} entries, head {verified.head}")


@ledgers.command()
def settle(
    entry: Annotated[int, typer.Argument(help="The reservation that was left behind.")],
    charge: Annotated[bool, typer.Option("--charge/--cancel", help="What becomes of it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, for the record.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """End a reservation that a crash left behind, on your word."""
    _print_account(open_ledger(ledger).settle(entry, charge=charge, reason=reason), as_json)


ledgers.command()(finish)


def _print_account(account: Account, as_json: bool) -> None:
    """Print an account as a table, or as JSON."""
    if as_json:
        print_json(_json(account))
        return
    screen().print(terminal.facts(f"Dataset {account.dataset}", account_rows(account)))
    tell(account.notices)


def _json(account: Account) -> dict[str, Any]:
    """Return an account as JSON, its notices in the words of the command line."""
    return account_json(account) | {"notices": [in_options(line) for line in account.notices]}


def tell(notices: Iterable[str]) -> None:
    """Log what a ledger found, in the words of the command line."""
    for line in notices:
        log.print(f"Ledger: {in_options(line)}")
