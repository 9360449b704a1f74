"""Count privacy loss in whole units, so that sums are exact and fit a 64-bit integer.

A unit is 1e-12 of epsilon, 1e-18 of delta and 1e-17 of mu^2. A double is read as the shortest
decimal that rounds to it: 0.1 is one tenth, as in the study file and in the release. Costs are
rounded up to a unit and totals down; from there on all arithmetic is on integers. The double that a
mechanism computes with differs from this decimal by at most a relative 2^-53; calibration leaves
room for more.
"""

import math
import operator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from numbers import Real
from typing import NamedTuple

from privalue.errors import UsageError

EPSILON, DELTA, MU2 = 10**12, 10**18, 10**17  # units in 1
LARGEST = 2**62 - 1  # the largest amount: the sum of two is still a 64-bit integer
_LARGEST_EPSILON = 10**6


class Amount(NamedTuple):
    """Epsilon and delta of a plain total, or mu^2 of a Gaussian one, in units."""

    epsilon: int = 0
    delta: int = 0
    mu2: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum, part by part."""
        return Amount(*map(operator.add, self, other))

    def minus(self, other: "Amount") -> "Amount":
        """Return the difference, part by part, at least 0: less is left only by damage."""
        return Amount(*(max(mine - its, 0) for mine, its in zip(self, other, strict=True)))

    def maximum(self, other: "Amount") -> "Amount":
        """Return the larger of both, part by part."""
        return Amount(*map(max, self, other))

    def fits(self, other: "Amount") -> bool:
        """Return whether no part exceeds the other's."""
        return all(map(operator.le, self, other))

    def as_floats(self) -> tuple[float, float]:
        """Return epsilon and delta as the nearest doubles, which print as the same decimals."""
        return float(Decimal(self.epsilon) / EPSILON), float(Decimal(self.delta) / DELTA)

    def as_dict(self) -> dict[str, float]:
        """Return epsilon and delta for JSON."""
        return dict(zip(("epsilon", "delta"), self.as_floats(), strict=True))

    def __str__(self) -> str:
        if self.mu2:
            return f"mu {format_mu(self.mu2, up=True)}"
        return f"epsilon {_format(self.epsilon, EPSILON)}, delta {_format(self.delta, DELTA)}"


ZERO = Amount()


def cost_of(epsilon: float, delta: float) -> Amount:
    """Return the epsilon and delta of one release, rounded up to a unit."""
    return _amount(epsilon, delta, ROUND_CEILING)


def total_of(epsilon: float, delta: float) -> Amount:
    """Return the epsilon and delta of a total, rounded down to a unit."""
    return _amount(epsilon, delta, ROUND_FLOOR)


def format_mu(mu2: int, *, up: bool) -> str:
    """Return mu with six digits: rounded up for an amount spent, down for an amount left."""
    scaled = mu2 * (10**24 // MU2)
    root = math.isqrt(scaled)
    mu = Decimal(root + (up and root * root < scaled)).scaleb(-12)
    rounding = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(rounding.create_decimal(mu)):.6g}"


def _amount(epsilon: float, delta: float, rounding: str) -> Amount:
    parts = []
    for name, value, scale, largest in (
        ("epsilon", epsilon, EPSILON, _LARGEST_EPSILON * EPSILON),
        ("delta", delta, DELTA, DELTA - 1),
    ):
        units = _units(value, scale, rounding)
        is_too_small = units == 0 and (name == "epsilon" or value != 0)
        if units is None or is_too_small or not 0 <= units <= largest:
            allowed = "from 1e-12 to 1e6" if name == "epsilon" else "0, or from 1e-18 to below 1"
            raise UsageError(f"it must be {allowed}", code="out-of-range", argument=(name, value))
        parts.append(units)
    return Amount(*parts)


def _units(value: object, scale: int, rounding: str) -> int | None:
    """Return a value in whole units; None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        exact = Decimal(repr(float(value)))
    except OverflowError:
        return None
    return int((exact * scale).to_integral_value(rounding)) if exact.is_finite() else None


def _format(units: int, scale: int) -> str:
    value = (Decimal(units) / scale).normalize()
    return f"{value:{'f' if value.adjusted() > -4 else 'e'}}"
