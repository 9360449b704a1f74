"""Define the protection of a total, and compute the cost of a release.

::

    symbol       code                          meaning
    eps, delta   promise                       of a release, under its own neighbouring relation
    L            max_trajectories_per_person   asserted with the total
    k            steps                         of the release's relation for one of the total's

Epsilons of different units or relations do not add. A path of k steps between two data sets makes
(eps, delta) per step into (k eps, delta (1 + e^eps + ... + e^{(k-1) eps})) over the whole: group
privacy, tight (docs/proofs/ledger.md). A release without such a path is refused.

A plain total sums epsilon and delta. A Gaussian total sums mu^2, for releases that have a mu:
Gaussian noise of one public sigma, or pure epsilon-DP. dp-lsw and dp-lsl have none:
(epsilon, delta)-DP with delta > 0 implies no mu-Gaussian-DP, whatever their alpha is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from typing import Any

from privalue.errors import BudgetError, UsageError
from privalue.ledger import gaussian
from privalue.ledger.amounts import DELTA, EPSILON, Amount

PLAIN, GAUSSIAN = "plain", "gaussian"
LARGEST_BOUND = 1_000_000  # of the trajectories of a person
_LARGEST_EXPONENT = 42 * EPSILON  # e^42 > 1e18: even one unit of delta becomes a delta of 1


@dataclass(frozen=True, kw_only=True)
class Protection:
    """The unit that a promise protects, and the neighbouring relation."""

    unit: str
    neighbours: str

    def __post_init__(self) -> None:
        _require_one_of("unit", self.unit, ("trajectory", "person"))
        _require_one_of("neighbours", self.neighbours, ("replace-one", "add-remove"))

    @property
    def protection(self) -> "Protection":
        """Return unit and relation alone."""
        return Protection(unit=self.unit, neighbours=self.neighbours)

    def __str__(self) -> str:
        return f"one {self.unit}, {self.neighbours}"


@dataclass(frozen=True, kw_only=True)
class BudgetTerms(Protection):
    """The unit that a dataset's total protects, and how its costs add up."""

    max_trajectories_per_person: int | None = None  # None: no bound was asserted
    accounting: str = PLAIN  # plain: epsilon and delta add up; Gaussian: mu^2 adds up

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_one_of("accounting", self.accounting, (PLAIN, GAUSSIAN))
        bound, why = self.max_trajectories_per_person, None
        if bound is not None and self.unit == "trajectory":
            why = "it is for totals whose unit is a person; leave it out"
        elif bound is not None and not (type(bound) is int and 1 <= bound <= LARGEST_BOUND):
            why = f"it must be a whole number from 1 to {LARGEST_BOUND}"
        if why is not None:
            raise UsageError(why, argument=("max_trajectories_per_person", bound))

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "BudgetTerms":
        """Return the terms in the body of an entry; raise KeyError or UsageError if it has none."""
        return cls(**{field.name: body[field.name] for field in fields(cls)})

    def __str__(self) -> str:
        bound = self.max_trajectories_per_person
        limit = "" if bound is None else f", at most {bound} trajectories a person"
        return f"{self.protection}{limit}"

    @property
    def is_gaussian(self) -> bool:
        """Return whether the accounting sums mu^2."""
        return self.accounting == GAUSSIAN

    def total(self, promise: Amount) -> Amount:
        """Return the amount that all releases together may spend under a promise."""
        return Amount(mu2=gaussian.mu2_total(*promise.as_floats())) if self.is_gaussian else promise

    def allows(self, total: Amount, promise: Amount) -> bool:
        """Return whether a total is no more than a promise allows; False is proved by bounds."""
        if not self.is_gaussian:
            return total == promise
        return total == Amount(mu2=total.mu2) and not gaussian.is_refuted(
            total.mu2, *promise.as_floats()
        )

    def cost(self, promise: Amount, steps: int, alpha: float | None) -> Amount:
        """Return the cost of a release, rounded up.

        Args:
            promise: epsilon and delta of the release.
            steps: k, of its relation for one of the total's.
            alpha: the noise multiplier, if the release is Gaussian noise of one public sigma.

        Raises:
            BudgetError: a Gaussian total cannot count the release, or its alpha is too small.
        """
        if not self.is_gaussian:
            return group_privacy_cost(promise, steps)
        if alpha is not None:
            if not gaussian.is_certified(alpha, *promise.as_floats()):
                raise BudgetError(f"alpha = {alpha!r} is too small for {promise}")
            return Amount(mu2=gaussian.mu2_of_alpha(alpha, steps))
        if promise.delta:
            raise BudgetError(
                "its total adds up mu^2, and a promise with delta > 0 (dp-lsw, dp-lsl) has no "
                "mu; use dp-ssp, give the mu of Gaussian noise, or declare a plain dataset under"
                " another name: for the same people both totals add up"
            )
        return Amount(mu2=gaussian.mu2_of_pure(steps * promise.epsilon))

    def covers(self, cost: Amount, promise: Amount, steps: int, alpha: float | None) -> bool:
        """Return whether a stored cost is not below the exact one."""
        if not self.is_gaussian:
            return group_privacy_cost(promise, steps).fits(cost)
        if alpha is not None:
            return gaussian.mu2_of_alpha(alpha, steps) <= cost.mu2
        return not promise.delta and gaussian.covers_pure(cost.mu2, steps * promise.epsilon)

    def steps(self, release: Protection) -> int:
        """Return k: how many steps of the release's relation lead to any neighbour of the total's.

        Raises:
            BudgetError: no number of steps does, or it has no known bound.
        """
        if release == self.protection:
            return 1
        if self.unit == "trajectory" and release.unit == "person":
            raise BudgetError(
                "a promise to persons does not protect trajectories; declare a total for persons"
            )
        if release.neighbours == "replace-one":
            if self.neighbours == "add-remove":
                raise BudgetError("replace-one does not hide a presence; release with add-remove")
            if self.max_trajectories_per_person != 1:  # then trajectories and persons are the same
                raise BudgetError(
                    "persons may differ in how many trajectories they have, which replace-one does "
                    "not hide; release for persons, or with add-remove"
                )
            return 1
        # A path removes everything that differs, step by step, and then adds what replaces it.
        steps = 1 if release.neighbours == self.neighbours else 2
        if release.unit == self.unit:
            return steps
        if self.max_trajectories_per_person is None:
            raise BudgetError(
                "the trajectories of a person are not bounded; release for persons, or declare "
                "max_trajectories_per_person with the total"
            )
        return steps * self.max_trajectories_per_person


def _require_one_of(name: str, value: object, allowed: tuple[str, str]) -> None:
    if value not in allowed:
        first, second = allowed
        raise UsageError(f'it must be "{first}" or "{second}"', argument=(name, value))


def group_privacy_cost(promise: Amount, steps: int) -> Amount:
    """Return the group-privacy cost of (eps, delta) over k steps.

    The cost is (k eps, delta (e^{k eps} - 1)/(e^eps - 1)), with delta rounded up to a unit. For
    k > 1 and delta > 0 that delta is never a whole number of units (e^eps is transcendental), so
    rounding up has the same result on every machine.
    """
    epsilon = steps * promise.epsilon
    if steps == 1 or promise.delta == 0:
        return Amount(epsilon, promise.delta)
    if epsilon - promise.epsilon >= _LARGEST_EXPONENT:
        return Amount(epsilon, DELTA)
    with localcontext(Context(prec=60, rounding=ROUND_CEILING)):
        one = Decimal(promise.epsilon) / EPSILON
        # exp rounds to the nearest: the next larger or smaller decimal is a bound.
        above = (one * steps).exp().next_plus() - 1
        below = one.exp().next_minus() - 1
        delta = int((promise.delta * (above / below)).to_integral_value(ROUND_CEILING))
    return Amount(epsilon, min(delta, DELTA))
