"""Tell amounts of a dataset to people and programs: of a Gaussian book as mu and as epsilon."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from privalue.ledger._squares import affordable, epsilon_spent, mu_of
from privalue.ledger._units import Cost


@dataclass(frozen=True, kw_only=True, slots=True)
class Telling:
    """What it takes to tell amounts: the promise, the pools, and whether squares are summed."""

    gaussian: bool
    promise: Cost  # epsilon and delta of everything together
    total: Cost  # of each pool

    @property
    def rest(self) -> Cost:
        """Return epsilon and delta of the Gaussian pool: what the plain one leaves."""
        plain = Cost(epsilon=self.total.epsilon, delta=self.total.delta)
        return self.promise - plain

    def stated(self, amount: Cost, *, left: bool = False) -> dict[str, float]:
        """Return an amount as epsilon and delta, and of a Gaussian book as mu, too, for JSON.

        The epsilon of the Gaussian pool is what its mu comes to at the pool's whole delta; the
        plain pool's is added (basic composition).

        Args:
            amount: of this dataset.
            left: whether it may still be spent: its epsilon is then rounded down, else up.
        """
        told = amount.as_dict()
        if not self.gaussian:
            return told
        if amount == self.total:
            return {**self.promise.as_dict(), "mu": mu_of(amount.square)}
        alone = self._epsilon(amount.square, left)
        # What is spent may come to an epsilon of 0, and then to all of its delta.
        counts = alone if left else amount.square
        return {
            "epsilon": told["epsilon"] + alone,
            "delta": told["delta"] + (self.rest.as_dict()["delta"] if counts else 0.0),
            "mu": mu_of(amount.square),
        }

    def words(self, amount: Cost, *, left: bool = False) -> str:
        """Return an amount for people; see ``stated``."""
        if not self.gaussian:
            return str(amount)
        epsilon = self._epsilon(amount.square, left)
        at = f"epsilon {epsilon:.15g} at delta {self.rest.written_delta}"  # it has no more digits
        rounding = ROUND_FLOOR if left else ROUND_CEILING
        six = Context(prec=6, rounding=rounding).create_decimal(Decimal(mu_of(amount.square)))
        mu = f"mu {float(six):.6g} ({at})"
        plain = Cost(epsilon=amount.epsilon, delta=amount.delta)
        return f"{mu}; plain pool: {plain}" if self.total.epsilon else mu

    def _epsilon(self, square: int, left: bool) -> float:
        """Return what an amount of the Gaussian pool comes to, at the pool's whole delta."""
        rest = self.rest.as_dict()
        if square == self.total.square:
            return rest["epsilon"]
        if left:
            return affordable(square, rest["delta"]) or 0.0
        return epsilon_spent(square, rest["delta"])
