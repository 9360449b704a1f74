"""Define ``privalue ledger``: the budget of a dataset, and what has been spent of it."""

from os.path import isfile
from pathlib import Path
from typing import Annotated, Any

import typer

from privalue.artefact import Release
from privalue.cli import _screen as terminal
from privalue.cli._console import Json, print_json, screen, tell
from privalue.cli._finish import finish
from privalue.cli._given import DEFAULT_LEDGER, NUMBER, WHOLE
from privalue.errors import UsageError
from privalue.ledger import (
    MARK,
    Account,
    Evidence,
    Ledger,
    open_ledger,
    require_signed,
    sign_head,
)
from privalue.report import account_rows

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
SealFile = Annotated[
    Path | None,
    typer.Option("--seal", help="A file with the key or passphrase that seals totals."),
]


@ledgers.command()
def declare(
    dataset: Annotated[str, typer.Argument(help="The name of the people, as in [study] dataset.")],
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
    plain_epsilon: Annotated[
        float | None,
        typer.Option(
            "--plain-epsilon",
            **NUMBER,
            help="With gaussian: the epsilon that is set aside for releases other than dp-ssp.",
        ),
    ] = None,
    plain_delta: Annotated[
        float | None,
        typer.Option(
            "--plain-delta", **NUMBER, help="With gaussian: the delta that is set aside for them."
        ),
    ] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change an existing total; the change is recorded.")
    ] = False,
    add_deltas: Annotated[
        bool,
        typer.Option(
            "--add-deltas",
            help="With --replace: move a used total to gaussian, and promise the sum of deltas.",
        ),
    ] = False,
    seal: SealFile = None,
    as_json: Json = False,
) -> None:
    """Declare how much a dataset may spend in all; creates the ledger if there is none."""
    opened = open_ledger(ledger, seal=seal)
    account = opened.declare(
        dataset,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
        max_trajectories_per_person=most,
        accounting=accounting,
        plain_epsilon=plain_epsilon,
        plain_delta=plain_delta,
        replace=replace,
        add_deltas=add_deltas,
    )
    _print_account(account, opened, as_json)


@ledgers.command()
def show(
    dataset: Annotated[str | None, typer.Argument(help="One dataset; by default all.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show what a dataset has spent, reserved and left."""
    opened = open_ledger(ledger)
    names = opened.datasets() if dataset is None else (dataset,)
    accounts = [opened.show(name) for name in names]
    if as_json and dataset is None:
        print_json({"datasets": [_json(account, opened) for account in accounts]})
        return
    for account in accounts:
        _print_account(account, opened, as_json)


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
            help="A line of ledger head, its hash, or a file of lines; each must be on the record. "
            "May be repeated.",
        ),
    ] = None,
    released: Annotated[
        list[Path] | None,
        typer.Option(
            "--release",
            help="A release.json, or its folder, that must be on the record. May be repeated.",
        ),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            "--public-key", help="Require that every --head is signed with the key in this file."
        ),
    ] = None,
    seal: SealFile = None,
    as_json: Json = False,
) -> None:
    """Check that nobody changed, removed or reordered entries; exit 5 if somebody did."""
    releases = [*(released or ()), *(more or ())]
    kept = [each for text in heads or () for each in _heads(text)]
    if public_key is not None:
        if not kept:
            raise UsageError("--public-key checks signatures of heads: give them with --head")
        for given, signature in kept:
            require_signed(given.head or "", signature, public_key)
    evidence = [given for given, _ in kept]
    for path in releases:
        found = Release.load(path)
        evidence.append(Evidence(name=str(path), head=found.ledger_head, artefact=found.to_json()))
    verified = open_ledger(ledger, seal=seal).verify(also=evidence)
    if as_json:
        print_json(
            {
                "valid": True,
                "entries": verified.entries,
                "head": verified.head,
                "seals": verified.seals,
                "releases": len(releases),
                "notices": list(verified.notices),
            }
        )
        return
    tell(verified.notices)
    print(f"The ledger is intact: {verified.entries} entries, head {verified.head}")
    if verified.seals != "none":
        without = "" if seal else ": that takes the secret, --seal FILE"
        print(f"The seals of its totals were {verified.seals}{without}")
    if releases:
        print(f"On its record: {', '.join(map(str, releases))}")


def _heads(text: str) -> list[tuple[Evidence, str | None]]:
    """Return heads with their signatures: of a hash, a line of ``head``, or a file of lines."""
    try:
        lines = Path(text).read_text("utf-8").splitlines() if isfile(text) else [text]
    except (OSError, ValueError):
        raise UsageError(f"--head {text}: the file cannot be read as text") from None
    return [_head(line.strip()) for line in lines if line.strip()]


def _head(line: str) -> tuple[Evidence, str | None]:
    """Return the head in a line of ``head``, or a hash alone, and the signature if there is one."""
    *before, last = line.rsplit(maxsplit=1)
    signature = last if before and last.startswith(MARK) else None
    *name, hashed = (line if signature is None else before[0]).rsplit(maxsplit=1)
    return Evidence(head=hashed, ledger=name[0] if name else None), signature


@ledgers.command()
def head(
    ledger: LedgerFile = DEFAULT_LEDGER,
    key: Annotated[
        Path | None,
        typer.Option("--sign", help="Sign the line with this private Ed25519 key (PEM)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a line with the ledger's name and head; keep it for verify --head."""
    opened = open_ledger(ledger)
    found = opened.head()
    signature = None if key is None else sign_head(found, key)
    if as_json:
        signed = {} if signature is None else {"signature": signature}
        print_json({"ledger": opened.place, "head": found, **signed})
    else:
        print(" ".join(filter(None, (opened.place, found, signature))))
    tell(opened.notices)


@ledgers.command("accept-head")
def accept_head(
    reason: Annotated[str, typer.Option("--reason", help="Why you do this, for the record.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Go on with a ledger that you restored from an older copy on purpose."""
    opened = open_ledger(ledger)
    found = opened.accept_head(reason=reason)
    if as_json:
        print_json({"ledger": opened.place, "head": found})
    else:
        print(f"Accepted: the ledger {opened.place} goes on from the head {found}")
    tell(opened.notices)


@ledgers.command()
def settle(
    entry: Annotated[
        int, typer.Argument(help="The number of the reservation that was left behind.")
    ],
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why you do this, for the record; always needed.")
    ] = None,
    charge: Annotated[
        bool, typer.Option("--charge", help="Keep its amount spent; this is always safe.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Give its amount back; only if it was never charged.")
    ] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """End a reservation that a crash left behind; you say how."""
    if charge == cancel:
        raise UsageError(
            "choose one: --charge keeps what it reserved spent, and is always safe; --cancel gives "
            "it back, if you know that nothing came of it"
        )
    if reason is None:
        raise UsageError("--reason TEXT says why, for the record")
    opened = open_ledger(ledger)
    _print_account(opened.settle(entry, charge=charge, reason=reason), opened, as_json)


ledgers.command()(finish)


@ledgers.command("grant-sql")
def grant_sql(
    role: Annotated[
        str, typer.Option("--role", help="The role that releases, and cannot declare.")
    ],
    keeper: Annotated[
        str | None,
        typer.Option(
            "--keeper", help="The role that declares; by default the owner of the tables."
        ),
    ] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
) -> None:
    """Print the SQL that gives roles of PostgreSQL their rights on the ledger."""
    print(open_ledger(ledger).grant_sql(role, keeper=keeper))


def _print_account(account: Account, ledger: Ledger, as_json: bool) -> None:
    """Print an account as a table, or as JSON."""
    if as_json:
        print_json(_json(account, ledger))
        return
    rows = [("ledger", ledger.place), *account_rows(account)]
    screen().print(terminal.facts(f"Dataset {account.dataset}", rows))
    tell((*ledger.notices, *account.notices))


def _json(account: Account, ledger: Ledger) -> dict[str, Any]:
    """Return an account as JSON, with all notices in the words of the command line."""
    found = (*ledger.notices, *account.notices)
    told = {"ledger": ledger.place, "notices": list(found)}
    return account.as_dict() | told
