"""Show the ledger to people: the rows of a table, and the line on what a release was charged."""

from decimal import ROUND_CEILING, Context

from privalue.artefact import Release
from privalue.ledger import Account, Protection, Standing
from privalue.report._registry import gaussian_alpha


def account_rows(account: Account) -> list[tuple[str, object]]:
    """Return what ``ledger show`` prints, as pairs."""
    return [
        ("left", _left(account)),
        ("further releases of this size", _further(account)),
        ("protects", account.terms),
        *([("promises", _promise(account))] if account.promises_apart else []),
        ("total", account.total),
        ("spent", account.spent),
        ("reserved", account.reserved),
        *_epsilons(account),
        ("releases", len(account.releases)),
        *[("converted", each) for each in account.converted],
        *([("plain sums would say", f"spent {account.plain_sum}")] if account.gaussian else []),
        ("head", account.head),
    ]


def _pools(account: Account) -> list[str]:
    """Return the pools of a total: one, or two."""
    if not account.gaussian:
        return ["plain"]
    return ["gaussian", *(["plain"] if account.total.units.epsilon else [])]


def _left(account: Account) -> str:
    """Return what is left: in percent of each pool, then as amounts."""
    pools = _pools(account)
    shares = [f"{account.percent_left(pool)}%" for pool in pools]
    if account.gaussian:
        shares[0] += " of mu²"
    if len(pools) > 1:
        shares[1] += " of the plain pool"
    return f"{', '.join(shares)}: {account.left}"


def _further(account: Account) -> str:
    """Return how many more releases like the last fit; with two pools, into each of them."""
    if account.like_the_last is None:
        return "no release yet"
    if len(_pools(account)) == 1:
        return f"{account.like_the_last}"
    other = "plain" if account.last_pool == "gaussian" else "gaussian"
    more = account.like_the_last_of.get(other)
    beside = "none yet" if more is None else f"{more} like its last"
    return f"{account.like_the_last} ({account.last_pool} pool); {other} pool: {beside}"


def _epsilons(account: Account) -> list[tuple[str, object]]:
    """Return why the epsilons of a Gaussian book do not add up, once there are two of them."""
    if not account.spent.units.square:
        return []
    return [
        (
            "spent and left",
            "squares of mu add up, and epsilons do not: told as epsilons, both come to more than "
            "the total",
        )
    ]


def charge_words(release: Release, standing: Standing) -> str:
    """Return the line on what a new release was charged, and what that leaves."""
    privacy = release.privacy
    whom = Protection(unit=privacy.unit, neighbours=privacy.neighbours)
    paid = standing.charge(privacy.epsilon, privacy.delta, gaussian_alpha(release), whom)
    pool = "gaussian" if paid.square else "plain"
    told = f"{paid}"
    if paid.square:
        told += f" (epsilon {_up(privacy.epsilon)} at delta {_up(privacy.delta)})"
    elif standing.gaussian:
        told += " of the plain pool"
    left = f"{standing.percent_left(pool)}%, {standing.unspent}"
    return (
        f"Charged {told} to {standing.dataset}; left: {left}; further releases of this size: "
        f"{paid.times_in(standing.unspent.units)}"
    )


def _up(spent: float) -> str:
    """Return six digits of what was spent, rounded up, and written as amounts are."""
    rounded = Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(spent))
    return f"{float(rounded):g}".replace("e-0", "e-")


def _promise(account: Account) -> str:
    """Return what all releases together promise, and what of it a move left behind."""
    before = account.before
    moved = "" if before is None else f" (the delta of the plain total before, {before}, included)"
    return f"{account.promise}{moved}"
