"""Describe how a dataset stands on its ledger, for people."""

from collections.abc import Iterable, Iterator
from typing import Any

from privalue.ledger import Account, Amount, ReleaseRequest, StatementLine, study_hash
from privalue.releases import Release
from privalue.report.description import Description, Fact, Listing


def account_facts(account: Account) -> Iterator[Fact]:
    """Yield total, spent and left."""
    left = account.format(account.left, is_left=True)
    yield Fact("budget.left", account.numbers(account.left, is_left=True), "Left", left)
    spent = account.format(account.spent)
    yield Fact("budget.spent", account.numbers(account.spent), "Spent", spent)
    total = account.numbers(account.total, is_left=True)
    yield Fact("budget.total", total, "Total", str(account.promise))
    if account.largest != account.promise:
        label = "Promised, since the total was larger before"
        yield Fact("budget.largest", str(account.largest), label)
    yield Fact("budget.protects", str(account.terms), "Protects")
    adds = "squares of mu" if account.terms.is_gaussian else "epsilon and delta"
    yield Fact("budget.adds_up", adds, "Adds up")
    yield Fact("budget.releases", account.balance.releases, "Releases on record")


def describe_account(account: Account, place: str) -> Description:
    """Return how a dataset stands."""
    facts = [
        Fact("budget.ledger", place, "Ledger"),
        *account_facts(account),
        Fact("budget.head", account.head, "Head"),
    ]
    return Description(title=f"Dataset {account.dataset}", facts=tuple(facts))


def statement_rows(account: Account, lines: Iterable[StatementLine]) -> list[dict[str, Any]]:
    """Return a statement of account as a bank prints it: day, who, what, cost, left."""

    def text(amount: Amount, *, is_left: bool) -> str:
        return account.format(amount, is_left=is_left) if any(amount) or is_left else ""

    return [
        {
            "entry": line.entry,
            "day": line.at[:10],
            "who": line.author,
            "what": line.what,
            "cost": text(line.cost, is_left=False),
            "left": text(line.left, is_left=True),
        }
        for line in lines
    ]


def describe_statement(account: Account, rows: list[dict[str, Any]]) -> Description:
    """Return a statement as one listing."""
    heads = ("entry", "day", "who", "what", "cost", "left")
    cells = [[str(row[head]) for head in heads] for row in rows]
    title = f"Statement of {account.dataset}"
    return Description(title=title, facts=(), listings=(Listing("statement", title, heads, cells),))


def request_for(release: Release) -> ReleaseRequest:
    """Return what a release asked of its ledger."""
    privacy, study = release.privacy, release.study["study"]
    return ReleaseRequest(
        dataset=study["dataset"],
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
        alpha=release.noise.alpha if release.mechanism == "dp-ssp" else None,
        what="a release",
        study=study_hash(release.study),
    )
