"""Make requests of what people ask for: the mu and the pools of a total.

The rules then judge a request as any other, whoever made it: a mu that is not certified is no
total, and what does not fit is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from privalue.core import gaussian
from privalue.errors import BudgetError, StudyError, UsageError
from privalue.ledger._balance import Balance
from privalue.ledger._squares import is_certified
from privalue.ledger._terms import GAUSSIAN, PLAIN, BudgetTerms
from privalue.ledger._units import NOTHING, Cost, mu, total

_ROOM = 1e-9


@contextmanager
def refusing(what: str, nothing: str) -> Iterator[None]:
    """Say in the first words of a refusal what was refused, and that it cost nothing.

    Args:
        what: the release, or the total.
        nothing: what did not happen.
    """
    try:
        yield
    except BudgetError as problem:
        raise BudgetError(f"{what} was refused, and nothing was {nothing}: {problem}") from None


def total_mu(epsilon: float, delta: float) -> str:
    """Return the mu of a total as "1/alpha", certified for (epsilon, delta).

    The alpha of a release that promises as much leaves some room: one smaller by a relative 1e-9 is
    certified, too. So a release that asks for everything gets it, though its cost is rounded up and
    this total down, and though another machine computed it.
    """
    try:
        alpha = gaussian(epsilon, delta).alpha
        roomy = mu(alpha * (1 - _ROOM))
        return roomy if is_certified(roomy, epsilon, delta) else mu(alpha)
    except StudyError as problem:
        raise UsageError(
            f"a Gaussian total: {str(problem).removeprefix('[privacy] ')}; it is what is left "
            "beside the plain pool"
        ) from None


def release_mu(alpha: float | None, asked: Cost) -> str:
    """Return the mu of a release as the record states it.

    Args:
        alpha: of a Gaussian release; None for others.
        asked: what it promises.

    Raises:
        UsageError: it is certified for that by so little that another machine, whose last digits
            differ, might ignore the entry, and spend its amount again.
    """
    stated = mu(alpha)
    if alpha is not None and is_certified(stated, **asked.as_dict()):
        smaller = mu(alpha * (1 - _ROOM))
        if not is_certified(smaller, **asked.as_dict()):
            raise UsageError(
                f"gaussian_alpha = {alpha!r} is enough for {asked} by less than a billionth, and "
                "other machines might find otherwise; give a larger one"
            )
    return stated


def declared_pools(
    dataset: str,
    promise: Cost,
    accounting: str,
    plain_epsilon: float | None,
    plain_delta: float | None,
) -> dict[str, Any]:
    """Return what a declaration says of pools: nothing in a plain book.

    Args:
        dataset: for messages.
        promise: epsilon and delta of everything together.
        accounting: "plain" or "gaussian".
        plain_epsilon: of the plain pool, if there is one.
        plain_delta: likewise.
    """
    if accounting == PLAIN:
        if plain_epsilon is not None or plain_delta is not None:
            raise UsageError(
                "plain_epsilon and plain_delta make a second pool beside a Gaussian one; leave them"
                ' out, or say accounting="gaussian"'
            )
        return {}
    plain = NOTHING
    if plain_epsilon is not None:
        plain = total(dataset, plain_epsilon, 0.0 if plain_delta is None else plain_delta)
    elif plain_delta is not None:
        raise UsageError(f"plain_delta = {plain_delta} needs a plain_epsilon; give both, or none")
    rest = promise - plain
    if rest.epsilon < 1 or rest.delta < 1:
        raise UsageError(
            f"a plain pool of {plain} leaves nothing of a total of {promise} for Gaussian "
            "releases, which need an epsilon and a delta; make it smaller, or the total larger"
        )
    return {
        "mu": total_mu(**rest.as_dict()),
        "plain_epsilon": plain.epsilon,
        "plain_delta": plain.delta,
    }


def pool_notes(dataset: str, plain_epsilon: float | None, plain_delta: float | None) -> list[str]:
    """Return what to know of a plain pool that was declared without a delta."""
    if plain_epsilon is None or plain_delta is not None:
        return []
    return [
        f'dataset "{dataset}": its plain pool has delta 0, for releases of pure epsilon alone; '
        "dp-lsw and dp-lsl need plain_delta=D"
    ]


def differences(known: Balance, promise: Cost, pools: Cost, terms: BudgetTerms) -> str:
    """Return in what a declaration differs from the total that a dataset has."""
    old, new = known.terms, terms
    plain, asked = (str(replace(each, square=0)) for each in (known.total, pools))
    both = old.accounting == new.accounting == GAUSSIAN
    pairs = [
        ("accounting", old.accounting, new.accounting),
        ("whom it protects", str(old), str(new)),
        ("the total", str(known.promise), str(promise)),
        ("the plain pool", plain if both else "", asked if both else ""),
    ]
    found = [f"{what}: {was} there, {now} here" for what, was, now in pairs if was != now]
    stood = known.telling.of(known.total, left=True)
    return f"its total is {stood} ({'; '.join(found) or 'another mu'})"
