"""Fix what a release gets that asks for a share of what is left.

The rules then count the request as any other: what does not fit is refused.
"""

import math
import re
from fractions import Fraction

from privalue.core import gaussian
from privalue.errors import StudyError, UsageError
from privalue.ledger._balance import Balance
from privalue.ledger._book import Book
from privalue.ledger._conversions import affordable, rounded_down
from privalue.ledger._terms import GAUSSIAN, Protection
from privalue.ledger._units import Cost, cost


def share_of(text: str) -> Fraction:
    """Return the share that "25%" names, or raise UsageError."""
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", text)
    share = Fraction(found[1]) / 100 if found else Fraction(0)
    if not 0 < share <= 1:
        raise UsageError(f'spend = {text!r}: it must be a share such as "25%", at most 100%')
    return share


def fixed_share(
    book: Book, dataset: str, whom: Protection, share: Fraction, requested: str
) -> tuple[Cost, float]:
    """Return the promise and the alpha of a release that takes a share of what is unspent.

    Args:
        book: the record.
        dataset: whose total it is.
        whom: whom the release protects.
        share: of what is unspent.
        requested: for the message.

    Raises:
        BudgetError: as for ``Book.steps``, or that is too little.
    """
    steps = book.steps(dataset, requested, whom)
    try:
        promise = _promise(book.balances[dataset], share, steps)
        if promise is not None:
            return cost(dataset, *promise), gaussian(*promise).alpha
    except StudyError:  # no certified alpha: epsilon below 0.001, or delta below 1e-15
        pass
    raise book.refusal(dataset, requested, "that is too little for a release by dp-ssp")


def _promise(balance: Balance, share: Fraction, steps: int) -> tuple[float, float] | None:
    """Return the epsilon and delta of a share, rounded down; None, if it is too little for any.

    Of a Gaussian book it takes that share of mu^2, at the whole delta of the pool; of a plain one,
    that share of epsilon and of delta. Releases in progress do not change it: the epsilon is
    published, and would tell of them.

    Args:
        balance: of the dataset.
        share: above 0 and at most 1.
        steps: of the release's relation, for one of the total's.
    """
    unspent = balance.total - balance.spent
    if balance.terms.accounting == GAUSSIAN:
        delta = balance.telling.rest.as_dict()["delta"]
        epsilon = affordable(math.floor(unspent.square * share / steps**2), delta)
        return None if epsilon is None else (epsilon, delta)
    part = Cost(
        epsilon=math.floor(unspent.epsilon * share), delta=math.floor(unspent.delta * share)
    )
    if steps > 1 or min(part.epsilon, part.delta) < 1:
        return None
    told = part.as_dict()
    return rounded_down(told["epsilon"]), rounded_down(told["delta"])
