"""Compute a dataset's account: its total, the amounts spent and left, the cost of a release."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from privalue.errors import BudgetError, StudyError
from privalue.ledger.amounts import EPSILON, Amount, format_mu
from privalue.ledger.entries import Balance, LedgerEntry, ReleaseRequest
from privalue.ledger.gaussian import epsilon_of, max_epsilon, mu2_of_alpha
from privalue.ledger.terms import BudgetTerms


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account of a dataset at one moment.

    All releases together satisfy the promise ``largest``: the largest total in force since the
    first charge. The amount spent so far is informative, and not a guarantee.
    """

    dataset: str
    terms: BudgetTerms
    promise: Amount  # epsilon and delta of the total, as declared
    largest: Amount
    balance: Balance  # its total is the promise, or the mu^2 that implies it
    head: str  # hash of the ledger's last entry

    @property
    def total(self) -> Amount:
        """Return the total."""
        return self.balance.total

    @property
    def spent(self) -> Amount:
        """Return the amount spent so far."""
        return self.balance.spent

    @property
    def left(self) -> Amount:
        """Return the amount that may still be spent."""
        return self.total.minus(self.spent)

    def cost(self, request: ReleaseRequest) -> Amount:
        """Return the cost of a release; raise BudgetError if this total cannot count it."""
        try:
            steps = self.terms.steps(request.protection)
            return self.terms.cost(request.promise, steps, request.alpha)
        except BudgetError as problem:
            raise self.refusal(self._describe(request), str(problem), "not-convertible") from None

    def affordable_cost(self, request: ReleaseRequest) -> Amount:
        """Return the cost of a release; raise BudgetError if it exceeds the amount left."""
        cost = self.cost(request)
        if cost.fits(self.left):
            return cost
        amount, why = self._describe(request), f"its total is {self.promise}, for {self.terms}"
        if cost != request.promise:
            amount += f" (which costs {cost})"
        if request.alpha is not None and self.terms.is_gaussian:
            steps = self.terms.steps(request.protection)
            with suppress(StudyError):  # the delta is too small for any release
                epsilon = max_epsilon(self.left.mu2 // steps**2, request.delta)
                fits = "no epsilon" if epsilon is None else f"epsilon up to {epsilon:g}"
                why += f"; at delta {request.delta:g} {fits} fits"
        raise self.refusal(amount, why, "budget-exceeded")

    def gaussian_promise(self, alpha: float) -> tuple[float, float]:
        """Return the epsilon of Gaussian noise at the total's delta, and that delta.

        Raises:
            BudgetError: the total is plain.
        """
        mu2 = mu2_of_alpha(alpha, 1)
        if not self.terms.is_gaussian:
            why = "its total adds up epsilon and delta; give those of the release in place of mu"
            raise self.refusal(f"mu {format_mu(mu2, up=True)}", why, "not-convertible")
        delta = self.promise.as_floats()[1]
        return max(epsilon_of(mu2, delta), 1 / EPSILON), delta

    def _describe(self, request: ReleaseRequest) -> str:
        is_same = request.protection == self.terms.protection
        return f"{request.promise}" + ("" if is_same else f" for {request.protection}")

    def refusal(self, amount: object, why: str, code: str, hint: str = "") -> BudgetError:
        """Return the error that refuses a request: its amount, the amount left, and the reason."""
        left = self.format(self.left, is_left=True)
        message = f'dataset "{self.dataset}": requested {amount}; left {left}; {why}'
        return BudgetError(message, code=code, hint=hint)

    def format(self, amount: Amount, *, is_left: bool = False) -> str:
        """Return an amount as text: an amount left is rounded down, any other is rounded up."""
        if not self.terms.is_gaussian:
            return str(amount)
        numbers = self.numbers(amount, is_left=is_left)
        delta = self.promise.as_floats()[1]
        return f"mu {numbers['mu']:g} (epsilon {numbers['epsilon']:.15g} at delta {delta:g})"

    def numbers(self, amount: Amount, *, is_left: bool = False) -> dict[str, float]:
        """Return an amount for programs: epsilon, delta, and mu for a Gaussian total.

        For a Gaussian total, epsilon is that of mu at the whole delta; so the epsilons of the
        amounts spent and left add up to more than the total's.
        """
        if not self.terms.is_gaussian:
            return amount.as_dict()
        epsilon, delta = self.promise.as_floats()
        if amount != self.total:
            epsilon = (max_epsilon if is_left else epsilon_of)(amount.mu2, delta) or 0.0
        mu = float(format_mu(amount.mu2, up=not is_left))
        return {"epsilon": epsilon, "delta": delta if amount.mu2 else 0.0, "mu": mu}

    def as_dict(self) -> dict[str, Any]:
        """Return the account for JSON."""
        return {
            "dataset": self.dataset,
            **vars(self.terms),
            "declared": self.promise.as_dict(),
            "promise": self.largest.as_dict(),
            "total": self.numbers(self.total, is_left=True),
            "spent": self.numbers(self.spent),
            "left": self.numbers(self.left, is_left=True),
            "releases": self.balance.releases,
            "head": self.head,
        }


@dataclass(frozen=True, kw_only=True)
class StatementLine:
    """One line of a statement of account."""

    entry: int
    at: str
    author: str
    kind: str  # declare, charge, or commit
    what: str  # the study, or another tool's description; of a declaration, the total and reason
    cost: Amount
    left: Amount  # after this entry

    @classmethod
    def of(cls, entry: LedgerEntry) -> "StatementLine":
        """Return the line of an entry; its texts are untrusted."""
        body = entry.body
        what = {"charge": str(body.get("what")), "commit": f"release of entry {body.get('charge')}"}
        if entry.kind == "declare":
            reason = f": {body.get('reason')}" if body.get("reason") else ""
            what["declare"] = f"total of {entry.promise()}{reason}"
        return cls(
            entry=entry.number,
            at=str(body.get("at")),
            author=str(body.get("author")),
            kind=entry.kind,
            what=what[entry.kind],
            cost=entry.cost,
            left=entry.balance.total.minus(entry.balance.spent),
        )
