"""Say how a dataset stands: its total, what is spent and left, and what a release would cost."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from privalue.errors import BudgetError, StudyError
from privalue.ledger.amounts import DELTA, EPSILON, Amount, format_mu, mu_of, safe_float
from privalue.ledger.gaussian import affordable, epsilon_of
from privalue.ledger.terms import Protection, Terms


@dataclass(frozen=True, kw_only=True)
class Account:
    """How a dataset stands at one moment.

    What is promised is ``largest``: the total, or the largest one that was in force since something
    was spent. That is what all releases together keep. What is spent so far is information.
    """

    dataset: str
    terms: Terms
    promise: Amount  # epsilon and delta of the total, as declared
    largest: Amount
    total: Amount  # what may be spent: the promise, or the mu^2 that keeps it
    spent: Amount
    releases: int  # charges so far
    last_cost: Amount | None  # of the newest charge
    head: str  # hash of the ledger's last entry

    @property
    def left(self) -> Amount:
        """Return what may still be spent."""
        return self.total.minus(self.spent)

    @property
    def further_releases(self) -> int | None:
        """Return how many more releases at the last one's cost fit; None before the first."""
        return None if self.last_cost is None else self.last_cost.times_in(self.left)

    def price(self, promise: Amount, protection: Protection, alpha: float | None) -> Amount:
        """Return what a release costs this total.

        Args:
            promise: epsilon and delta of the release.
            protection: whom it protects.
            alpha: sigma over the sensitivity, if it is Gaussian noise of one public sigma.

        Raises:
            BudgetError: it cannot be converted or counted, or not enough is left.
        """
        try:
            steps = self.terms.steps(protection)
            price = self.terms.price(promise, steps, alpha)
        except BudgetError as problem:
            own = "" if protection == self.terms.protection else f" for {protection}"
            raise self.refusal(f"{promise}{own}", f"{problem}") from None
        if price.fits(self.left):
            return price
        asked = self.format(price) if self.terms.is_gaussian or steps > 1 else str(promise)
        why = f"its total is {self.promise}, for {self.terms}"
        if self.terms.is_gaussian and promise.delta:
            why += self._largest_that_fits(promise.as_floats()[1], steps)
        raise self.refusal(asked, why)

    def refusal(self, asked: object, why: str) -> BudgetError:
        """Return a refusal: what was asked, what is left, and why not."""
        left = self.format(self.left, is_left=True)
        return BudgetError(f'dataset "{self.dataset}": requested {asked}; left {left}; {why}')

    def format(self, amount: Amount, *, is_left: bool = False) -> str:
        """Return an amount for people: what is left rounded down, all else rounded up."""
        if not self.terms.is_gaussian:
            return str(amount)
        numbers = self.numbers(amount, is_left=is_left)
        mu = format_mu(amount.mu2, up=not is_left)
        return (
            f"mu {mu} (epsilon {numbers['epsilon']:.15g} at delta {self.promise.as_floats()[1]:g})"
        )

    def numbers(self, amount: Amount, *, is_left: bool = False) -> dict[str, float]:
        """Return an amount for programs: epsilon and delta, and of a Gaussian total mu.

        Of a Gaussian total, epsilon is what mu comes to at the whole delta; so the epsilons of what
        is spent and of what is left add up to more than the total's.
        """
        if not self.terms.is_gaussian:
            return {
                "epsilon": safe_float(Decimal(amount.epsilon) / EPSILON, up=not is_left),
                "delta": safe_float(Decimal(amount.delta) / DELTA, up=not is_left),
            }
        epsilon, delta = self.promise.as_floats()
        if amount != self.total:
            of = affordable if is_left else epsilon_of
            epsilon = of(amount.mu2, delta) or 0.0
        mu = safe_float(mu_of(amount.mu2, up=not is_left), up=not is_left)
        return {"epsilon": epsilon, "delta": delta if amount.mu2 else 0.0, "mu": mu}

    def as_dict(self) -> dict[str, Any]:
        """Return the account for JSON."""
        epsilon, delta = self.promise.as_floats()
        largest_epsilon, largest_delta = self.largest.as_floats()
        return {
            "dataset": self.dataset,
            "unit": self.terms.protection.unit,
            "neighbours": self.terms.protection.neighbours,
            "max_trajectories_per_person": self.terms.max_trajectories_per_person,
            "accounting": self.terms.accounting,
            "declared": {"epsilon": epsilon, "delta": delta},
            "promise": {"epsilon": largest_epsilon, "delta": largest_delta},
            "total": self.numbers(self.total, is_left=True),
            "spent": self.numbers(self.spent),
            "left": self.numbers(self.left, is_left=True),
            "releases": self.releases,
            "further_releases": self.further_releases,
            "head": self.head,
        }

    def _largest_that_fits(self, delta: float, steps: int) -> str:
        try:
            epsilon = affordable(self.left.mu2 // steps**2, delta)
        except StudyError:  # no release has so small a delta
            return ""
        fits = "no epsilon" if epsilon is None else f"epsilon up to {epsilon:g}"
        return f"; at delta {delta:g} {fits} fits"


@dataclass(frozen=True, kw_only=True)
class StatementLine:
    """One line of a statement of account."""

    entry: int
    at: str
    author: str
    kind: str  # declare, charge, or commit
    what: str  # the study or the other tool's words, or why a total was declared
    cost: Amount
    left: Amount  # after it
