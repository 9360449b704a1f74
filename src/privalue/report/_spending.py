"""Show the ledger to people: how a dataset stands, its statement, what a release was charged."""

from collections.abc import Iterable
from typing import Any

from privalue.ledger import Account, Amount, ReleaseRequest, StatementLine, study_hash
from privalue.releases import Release
from privalue.report._registry import gaussian_alpha


def account_rows(account: Account) -> list[tuple[str, object]]:
    """Return what ``ledger show`` prints, as pairs."""
    is_lowered = account.largest != account.promise
    return [
        ("left", account.format(account.left, is_left=True)),
        ("spent", account.format(account.spent)),
        ("total", account.promise),
        *([("promised, since it was more", account.largest)] if is_lowered else []),
        ("protects", account.terms),
        ("adds up", "mu^2" if account.terms.is_gaussian else "epsilon and delta"),
        ("releases", account.balance.releases),
        ("head", account.head),
    ]


def statement_rows(account: Account, lines: Iterable[StatementLine]) -> list[dict[str, Any]]:
    """Return a statement of account as a bank would print it: day, who, what, cost, left."""

    def written(amount: Amount, *, is_left: bool) -> str:
        return account.format(amount, is_left=is_left) if any(amount) or is_left else ""

    return [
        {
            "entry": line.entry,
            "day": line.at[:10],
            "who": line.author,
            "what": line.what,
            "cost": written(line.cost, is_left=False),
            "left": written(line.left, is_left=True),
        }
        for line in lines
    ]


def request_for(release: Release) -> ReleaseRequest:
    """Return what a release asked of its ledger."""
    privacy, study = release.privacy, release.study["study"]
    return ReleaseRequest(
        dataset=study["dataset"],
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
        alpha=gaussian_alpha(release),
        what="a release",
        study=study_hash(release.study),
    )


def charge_words(release: Release, account: Account) -> str:
    """Return the line on what a new release was charged, and what that leaves."""
    cost = account.format(account.cost(request_for(release)))
    left = account.format(account.left, is_left=True)
    return f"Charged {cost} to {account.dataset}; left: {left}"
