"""Describe the account of a dataset on its ledger, for people."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from privalue.ledger import Account, StatementLine
from privalue.report.description import Description, Fact, Listing
from privalue.report.html import fact


def account_facts(account: Account) -> Iterator[Fact]:
    """Yield the facts of an account: amounts left and spent, the total, and whom it protects."""
    yield fact("budget.left", account.numbers(account.left, is_left=True), account=account)
    yield fact("budget.spent", account.numbers(account.spent), account=account)
    yield fact("budget.total", account.numbers(account.total, is_left=True), account=account)
    if account.largest != account.promise:
        yield fact("budget.largest", str(account.largest))
    yield fact("budget.protects", str(account.terms))
    yield fact("budget.is_gaussian", account.terms.is_gaussian)
    yield fact("budget.releases", account.balance.releases)


def describe_account(account: Account, place: str) -> Description:
    """Return the description of an account."""
    ledger, head = fact("budget.ledger", place), fact("budget.head", account.head)
    facts = (ledger, *account_facts(account), head)
    return Description(title=f"Dataset {account.dataset}", facts=facts)


def statement_rows(account: Account, lines: Iterable[StatementLine]) -> list[dict[str, Any]]:
    """Return a statement of account for programs."""
    return [
        {
            **asdict(line),
            "cost": account.numbers(line.cost),
            "left": account.numbers(line.left, is_left=True),
        }
        for line in lines
    ]


def describe_statement(account: Account, lines: Iterable[StatementLine]) -> Description:
    """Return a statement of account for people, one row per entry."""
    heads = ("entry", "day", "author", "description", "cost", "left")
    rows = [
        (
            str(line.entry),
            line.at,
            line.author,
            line.what,
            account.format(line.cost) if any(line.cost) else "",
            account.format(line.left, is_left=True),
        )
        for line in lines
    ]
    title = f"Statement of {account.dataset}"
    return Description(title=title, listings=(Listing("statement", title, heads, rows),))
