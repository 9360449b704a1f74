"""Tell amounts of a dataset to people and programs: of a Gaussian book as mu and as epsilon."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from privalue.errors import StudyError
from privalue.ledger._conversions import affordable, epsilon_spent
from privalue.ledger._units import Cost, six_digits, square_root


@dataclass(frozen=True, kw_only=True, slots=True)
class Telling:
    """What it takes to tell amounts: the promise, the pools, and whether squares are summed."""

    gaussian: bool
    promise: Cost  # epsilon and delta of everything together, in units
    total: Cost  # of each pool

    @property
    def rest(self) -> Cost:
        """Return epsilon and delta of the Gaussian pool: what the plain one leaves."""
        plain = Cost(epsilon=self.total.epsilon, delta=self.total.delta)
        return self.promise - plain

    def of(self, units: Cost, *, left: bool = False) -> "Amount":
        """Return an amount that can be told; ``left`` says whether it may still be spent."""
        return Amount(units=units, telling=self, is_left=left)

    def room(self, left: Cost, asked: Cost, steps: int) -> str:
        """Return what a refusal says of the largest epsilon that fits at the asked delta.

        Args:
            left: what may still be spent.
            asked: what the release promises that was refused.
            steps: of its relation, for one of the total's.
        """
        try:
            most = affordable(left.square // steps**2, asked.as_dict()["delta"])
        except StudyError:  # no release has so small a delta
            return ""
        at = f"at your delta, {asked.written_delta}, "
        return f"; {at}no epsilon fits" if most is None else f"; {at}epsilon up to {most:g} fits"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Amount:
    """An amount of a dataset as numbers: what is left rounded down, all else rounded up.

    In a Gaussian book ``mu`` is exact up to that rounding. ``epsilon`` is what it comes to at the
    whole delta of the Gaussian pool, plus the plain pool's (basic composition); so the epsilons of
    what is spent and of what is left add up to more than the total's.
    """

    units: Cost  # whole units of 1e-12 epsilon, 1e-18 delta, 1e-24 mu^2: what the ledger adds up
    telling: Telling
    is_left: bool = False

    @property
    def epsilon(self) -> float:
        """Return epsilon; of a Gaussian book, at the declared delta."""
        plain, _ = self.units.decimals
        whole = self.telling.gaussian and self.units == self.telling.total
        if whole:
            plain, _ = self.telling.promise.decimals
        elif self.telling.gaussian:
            plain += Decimal(repr(self._alone))
        return self._double(plain)

    @property
    def delta(self) -> float:
        """Return delta; of a Gaussian book, its pool's whole delta where anything of it counts."""
        _, plain = self.units.decimals
        # What is spent may come to an epsilon of 0, and then to all of its delta.
        if self.telling.gaussian and (self._alone if self.is_left else self.units.square):
            plain += self.telling.rest.decimals[1]
        return self._double(plain)

    @property
    def mu(self) -> float | None:
        """Return mu of the Gaussian pool; None in a plain book."""
        if not self.telling.gaussian:
            return None
        return self._double(square_root(self.units.square, up=not self.is_left))

    def in_six_digits(self) -> dict[str, float]:
        """Return the same as ``as_dict`` as pages show it, rounded as ``str`` does."""
        rounding = Context(prec=6, rounding=ROUND_FLOOR if self.is_left else ROUND_CEILING)
        return {
            name: float(rounding.create_decimal(repr(value)))
            for name, value in self.as_dict().items()
        }

    def as_dict(self) -> dict[str, float]:
        """Return epsilon and delta, and of a Gaussian book mu, too, for JSON."""
        mu = {} if self.mu is None else {"mu": self.mu}
        return {"epsilon": self.epsilon, "delta": self.delta, **mu}

    def __str__(self) -> str:
        if not self.telling.gaussian:
            return str(self.units)
        # It has no more digits.
        at = f"epsilon {self._alone:.15g} at delta {self.telling.rest.written_delta}"
        mu = f"mu {six_digits(self.units.square, up=not self.is_left)} ({at})"
        plain = Cost(epsilon=self.units.epsilon, delta=self.units.delta)
        return f"{mu}; plain pool: {plain}" if self.telling.total.epsilon else mu

    def __repr__(self) -> str:
        return f"Amount({self})"

    @property
    def _alone(self) -> float:
        """Return what the Gaussian pool's part comes to, at the pool's whole delta."""
        square, rest = self.units.square, self.telling.rest.as_dict()
        if square == self.telling.total.square:
            return rest["epsilon"]
        if self.is_left:
            return affordable(square, rest["delta"]) or 0.0
        return epsilon_spent(square, rest["delta"])

    def _double(self, exact: Decimal) -> float:
        """Return a double whose shortest decimal is on the safe side of a number."""
        found = float(exact)
        away = -math.inf if self.is_left else math.inf
        while (Decimal(repr(found)) - exact) * (1 if self.is_left else -1) > 0:
            found = math.nextafter(found, away)
        return found


def plainly(units: Cost, *, left: bool = False) -> Amount:
    """Return epsilon and delta that no pool changes: of a promise, of a release, of one pool."""
    return Telling(gaussian=False, promise=units, total=units).of(units, left=left)
