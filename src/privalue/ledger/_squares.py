"""Count what Gaussian releases cost: mu squared, in whole units of 1e-24.

::

    symbol   code                what it is
    alpha    mu, as "1/alpha"    sigma over the sensitivity, a double that the core certified
    k        steps               steps of the release's relation for one of the total's
    E, D     epsilon, delta      what the Gaussian releases of a book promise together
    mu_T     mu, of a total      1/alpha(E, D), certified: never above the true one

N(u, sigma^2 I) of one public sigma is mu-Gaussian-DP with mu = 1/alpha; k steps are k mu; and
releases that are chosen with all earlier ones in view are together mu_T-Gaussian-DP where the sum
of mu^2 is at most mu_T^2 (docs/proofs/gaussian-ledger.md). A cost is k^2/alpha^2, an exact rational
of the double, rounded up to a unit; a total is 1/alpha^2, rounded down. Everything after is whole
numbers: a sum of the rationals themselves would grow with every release.

A release of (epsilon, 0) that is not Gaussian is dominated by mu-Gaussian-DP with
Phi(mu/2) = e^epsilon/(1 + e^epsilon). That mu is computed in decimal arithmetic, which is the same
on every machine, because whoever replays has to find the same number.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from privalue.core import privacy_profile
from privalue.errors import StudyError
from privalue.ledger._units import EPSILON_DIGITS, SQUARE_DIGITS

ONE: int = 10**SQUARE_DIGITS  # a mu of 1, squared
HOPELESS = 1_000_000 * ONE  # no total has so much
_MOST_PURE = 20 * 10**EPSILON_DIGITS  # no Gaussian total promises more
_MU_UNITS: int = 10 ** (SQUARE_DIGITS // 2)
_PI = Decimal("3.14159265358979323846264338327950288419716939937511")  # rounded up


def square_cost(stated: str, steps: int) -> int:
    """Return k^2/alpha^2 in units, rounded up, for a mu that is stated as "1/alpha"."""
    ratio = steps / _alpha(stated)
    return math.ceil(ONE * ratio * ratio)


def square_total(stated: str) -> int:
    """Return 1/alpha^2 in units, rounded down, for the mu of a total."""
    alpha = _alpha(stated)
    return math.floor(ONE / (alpha * alpha))


@lru_cache
def is_certified(stated: str, epsilon: float, delta: float) -> bool:
    """Return whether mu-Gaussian-DP implies (epsilon, delta)-DP, proved by bounds."""
    try:
        return privacy_profile(float(_alpha(stated)), 0.0, 1, epsilon).upper <= delta
    except StudyError:  # outside of what can be computed
        return False


@lru_cache
def dominating_square(epsilon: int) -> int:
    """Return mu^2 of the Gaussian that dominates (epsilon, 0)-DP, in units, rounded up.

    Phi(mu/2) - 1/2 = phi(x) (x + x^3/3 + x^5/15 + ...) at x = mu/2: all terms are positive, so that
    a sum that stops, rounded down, is a lower bound.

    Args:
        epsilon: in units of the ledger.
    """
    if epsilon > _MOST_PURE:
        return HOPELESS
    with localcontext(Context(prec=50, rounding=ROUND_CEILING)):
        odds = Decimal(epsilon).scaleb(-EPSILON_DIGITS).exp().next_plus()
        needed = (odds - 1) / (odds + 1).next_minus() / 2
    guess = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon / 10**EPSILON_DIGITS)))
    found = round(guess * _MU_UNITS)  # where the search begins; the answer does not depend on it
    while _least_middle(found) < needed:
        found += 1
    while found > 1 and _least_middle(found - 1) >= needed:
        found -= 1
    return found * found


def _least_middle(units: int) -> Decimal:
    """Return Phi(mu/2) - 1/2 from below, for a mu in units of 1e-12."""
    with localcontext(Context(prec=50, rounding=ROUND_FLOOR)):
        x = Decimal(units) / _MU_UNITS / 2
        square = x * x  # exact, as x: it has 26 digits at most
        term, total, odd = x, x, 1
        while term > Decimal("1e-45"):
            odd += 2
            term = term * square / odd
            total += term
        # exp and sqrt round to the nearest: the next number down is a bound.
        density = (-square / 2).exp().next_minus() / (2 * _PI).sqrt().next_plus()
        return density * total


def _alpha(stated: str) -> Fraction:
    """Return alpha, exactly, of a mu that is stated as "1/alpha"."""
    return Fraction(float(stated.removeprefix("1/")))
