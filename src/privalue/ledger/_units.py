"""Count what a release costs in whole units: 1e-12 of epsilon, 1e-18 of delta, 1e-24 of mu^2.

A double is read as the shortest decimal that names it: 0.1 is one tenth, as the study file and the
release say. Costs are then rounded up to a unit and totals down, and everything after is integers.
The double that the mechanism computes with differs from its decimal by a relative 2^-53 at most;
calibration leaves room for more than that (docs/decisions/0006-ledger.md).
"""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from numbers import Real

from privalue.errors import UsageError

EPSILON_DIGITS = 12
DELTA_DIGITS = 18
SQUARE_DIGITS = 24
MOST_EPSILON = 10**6  # far beyond any promise; its units, and delta's, fit a 64-bit integer


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """An amount in units: epsilon and delta of the plain pool, mu^2 of the Gaussian one.

    A plain book has no Gaussian pool, and a Gaussian book a plain one only where it was declared.
    """

    epsilon: int = 0
    delta: int = 0
    square: int = 0

    @property
    def parts(self) -> tuple[int, int, int]:
        """Return epsilon, delta and mu^2, in units."""
        return self.epsilon, self.delta, self.square

    def __add__(self, other: "Cost") -> "Cost":
        return of_parts(map(operator.add, self.parts, other.parts))

    def __sub__(self, other: "Cost") -> "Cost":
        return of_parts(map(operator.sub, self.parts, other.parts))

    def or_more(self, other: "Cost") -> "Cost":
        """Return the larger of both, part by part."""
        return of_parts(map(max, self.parts, other.parts))

    def within(self, other: "Cost") -> bool:
        """Return whether no part exceeds the other's."""
        return all(here <= there for here, there in zip(self.parts, other.parts, strict=True))

    def times_in(self, other: "Cost") -> int:
        """Return how many times this amount fits into another."""
        return min(
            there // here for here, there in zip(self.parts, other.parts, strict=True) if here > 0
        )

    @property
    def decimals(self) -> tuple[Decimal, Decimal]:
        """Return epsilon and delta of the plain pool, exactly."""
        return _decimal(self.epsilon, EPSILON_DIGITS), _decimal(self.delta, DELTA_DIGITS)

    def as_dict(self) -> dict[str, float]:
        """Return epsilon and delta of the plain pool as the nearest doubles, for JSON."""
        epsilon, delta = self.decimals
        return {"epsilon": float(epsilon), "delta": float(delta)}

    @property
    def written_delta(self) -> str:
        """Return delta for people."""
        _, delta = self.decimals
        return f"{delta:{'f' if delta.adjusted() > -4 else 'e'}}"

    def __str__(self) -> str:
        """Return the amount for people, as one that is asked for or used: mu is rounded up."""
        plain = f"epsilon {self.decimals[0]:f}, delta {self.written_delta}"
        if not self.square:
            return plain
        mu = f"mu {six_digits(self.square, up=True)}"
        return f"{mu}, and {plain}" if self.epsilon or self.delta else mu


def of_parts(parts: Iterable[int]) -> Cost:
    """Return an amount from its parts in units: epsilon, delta, and mu^2 of a Gaussian book."""
    return Cost(**dict(zip(("epsilon", "delta", "square"), parts, strict=False)))


NOTHING = Cost()


def cost(dataset: str, epsilon: float, delta: float) -> Cost:
    """Return what one release costs, rounded up to a unit."""
    return _amount(dataset, epsilon, delta, ROUND_CEILING)


def total(dataset: str, epsilon: float, delta: float) -> Cost:
    """Return what a dataset may spend in all, rounded down to a unit."""
    return _amount(dataset, epsilon, delta, ROUND_FLOOR)


def mu(alpha: float | None) -> str:
    """Return mu = 1/alpha of a Gaussian release, exactly, as text ("1/4.25"); else "none"."""
    return "none" if alpha is None else check_mu(f"1/{float(alpha)!r}")


def check_mu(text: str) -> str:
    """Return the text itself, or raise UsageError if ``mu`` could not have made it."""
    try:
        alpha = float(text.removeprefix("1/"))
    except ValueError:
        alpha = 0.0
    if text != "none" and not (0 < alpha < math.inf and text == f"1/{alpha!r}"):
        raise UsageError(f'mu = {text!r}: it must be "none", or 1/ and a number above 0')
    return text


def square_root(square: int, *, up: bool) -> Decimal:
    """Return mu from its square in units, to twelve places, rounded up or down."""
    units = math.isqrt(square - 1) + 1 if up and square else math.isqrt(square)
    return _decimal(units, SQUARE_DIGITS // 2)


def six_digits(square: int, *, up: bool) -> str:
    """Return mu for people: asked and used rounded up, left down, so that no refusal is absurd."""
    rounding = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(rounding.create_decimal(square_root(square, up=up))):.6g}"


def _amount(dataset: str, epsilon: float, delta: float, rounding: str) -> Cost:
    """Return epsilon and delta in units; raise UsageError for what is out of range."""
    units = _units(epsilon, EPSILON_DIGITS, rounding)
    if units is None or not 1 <= units <= MOST_EPSILON * 10**EPSILON_DIGITS:
        raise UsageError(
            f'dataset "{dataset}": epsilon = {epsilon} is not a number from 1e-{EPSILON_DIGITS} '
            f"to {MOST_EPSILON:g}"
        )
    delta_units = _units(delta, DELTA_DIGITS, rounding)
    vanishes = delta_units == 0 and delta > 0
    if delta_units is None or vanishes or not 0 <= delta_units < 10**DELTA_DIGITS:
        raise UsageError(
            f'dataset "{dataset}": delta = {delta} is neither 0 nor a number from '
            f"1e-{DELTA_DIGITS} to below 1"
        )
    return Cost(epsilon=units, delta=delta_units)


def _units(value: object, digits: int, rounding: str) -> int | None:
    """Return whole units of 10^-digits, or None for a value that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        named = Decimal(repr(float(value)))
    except OverflowError:
        return None
    if not named.is_finite():
        return None
    return int(named.scaleb(digits).to_integral_value(rounding=rounding))


def _decimal(units: int, digits: int) -> Decimal:
    """Return so many units as a decimal number."""
    return Decimal(units).scaleb(-digits).normalize()
