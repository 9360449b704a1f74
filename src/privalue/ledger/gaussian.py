"""Count releases by mu^2, in whole units of 1e-17 (docs/proofs/ledger.md).

::

    symbol   code              meaning
    alpha    alpha             noise multiplier: sigma / sensitivity, a double certified by the core
    k        steps             steps of the release's relation for one of the total's
    E, D     epsilon, delta    the promise of all releases of a Gaussian total together
    mu_T     mu2_total         1/alpha(E, D), certified: never above the true value

Gaussian noise of one public sigma is mu-Gaussian-DP with mu = 1/alpha; over k steps it is k mu.
Pure epsilon-DP is mu-Gaussian-DP with Phi(mu/2) = e^epsilon/(1 + e^epsilon). Adaptively chosen
releases are together mu_T-Gaussian-DP if the sum of their mu^2 is at most mu_T^2. Costs are rounded
up, and totals down.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from privalue.core.calibration import gaussian, privacy_profile
from privalue.errors import StudyError, UsageError
from privalue.ledger.amounts import EPSILON, LARGEST, MU2

_SLACK = 1 - 1e-9  # of a total's alpha: a release of the whole total fits despite rounding
_MIN_EPSILON, _MAX_EPSILON = 0.001, 20.0  # the range in which alpha is certified
_MAX_PURE = 20 * EPSILON  # the mu^2 of a larger epsilon exceeds every total
_MIN_MU, _MAX_MU = 1e-6, 100.0  # of another tool's release; the largest exceeds every total
_PI = Decimal("3.14159265358979323846264338327950288419716939937511")  # rounded up


@lru_cache
def is_certified(alpha: float, epsilon: float, delta: float) -> bool:
    """Return whether 1/alpha-Gaussian-DP implies (epsilon, delta)-DP, proved by bounds."""
    try:
        return privacy_profile(alpha, 0.0, 1, epsilon).upper <= delta
    except StudyError:  # outside the range that the profile can compute
        return False


def is_refuted(mu2: int, epsilon: float, delta: float) -> bool:
    """Return whether mu^2 is more than (epsilon, delta) allows, proved by bounds."""
    alpha = math.sqrt(MU2 / mu2) * (1 + 2**-50)
    return privacy_profile(alpha, 0.0, 1, epsilon).lower > delta


def mu2_of_alpha(alpha: float, steps: int) -> int:
    """Return k^2/alpha^2 in units, an exact rational of the double, rounded up."""
    return math.ceil(MU2 * (steps / Fraction(alpha)) ** 2)


def alpha_of_mu(mu: float) -> float:
    """Return the double 1/mu, rounded down so that the cost is never rounded down."""
    if not _MIN_MU <= mu <= _MAX_MU:  # NaN fails, too
        allowed = f"it must be a number from {_MIN_MU:g} to {_MAX_MU:g}"
        raise UsageError(allowed, code="out-of-range", argument=("mu", mu))
    exact = Fraction(repr(float(mu)))  # the decimal as written, as for all amounts
    alpha = 1 / float(mu)
    while Fraction(alpha) * exact > 1:
        alpha = math.nextafter(alpha, 0)
    return alpha


@lru_cache
def mu2_of_pure(epsilon: int) -> int:
    """Return mu^2 of a Gaussian that dominates epsilon-DP, in units, rounded up.

    A first guess in doubles is raised until exact decimals certify it.

    Args:
        epsilon: in units, over all steps.
    """
    if epsilon > _MAX_PURE:
        return LARGEST + 1
    mu = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon / EPSILON)))
    mu2 = max(1, math.ceil(MU2 * Fraction(mu) ** 2))
    increment = 1
    while not covers_pure(mu2, epsilon):
        mu2, increment = mu2 + increment, 2 * increment
    return mu2


def covers_pure(mu2: int, epsilon: int) -> bool:
    """Return whether mu^2 is enough for epsilon-DP, certified: the same on every machine.

    Phi(x) - 1/2 = phi(x) (x + x^3/3 + x^5/15 + ...) at x = mu/2. All terms are positive, so that a
    partial sum, rounded down, is a lower bound. It must be at least
    (e^epsilon - 1)/(2 (e^epsilon + 1)), rounded up.

    Args:
        mu2: in units.
        epsilon: in units.
    """
    with localcontext(Context(prec=50, rounding=ROUND_CEILING)):
        odds = (Decimal(epsilon) / EPSILON).exp().next_plus()  # exp rounds to the nearest
        bound = (odds - 1) / (odds + 1).next_minus() / 2
    with localcontext(Context(prec=50, rounding=ROUND_FLOOR)):
        square = Decimal(mu2) / (4 * MU2)
        term = total = square.sqrt().next_minus()  # sqrt rounds to the nearest, too
        odd = 1
        while term > Decimal("1e-45"):
            odd += 2
            term = term * square / odd
            total += term
        with localcontext(Context(prec=50, rounding=ROUND_CEILING)):
            above = (Decimal(mu2) / (8 * MU2)).exp().next_plus() * (2 * _PI).sqrt().next_plus()
        return total / above >= bound


def mu2_total(epsilon: float, delta: float) -> int:
    """Return the largest certified mu^2 that implies (epsilon, delta), in units, rounded down."""
    try:
        alpha = gaussian(epsilon, delta).alpha
    except StudyError as problem:
        raise UsageError(f"a Gaussian total has no mu: {problem}") from None
    if is_certified(alpha * _SLACK, epsilon, delta):
        alpha *= _SLACK
    return min(math.floor(MU2 / Fraction(alpha) ** 2), LARGEST)


@lru_cache
def epsilon_of(mu2: int, delta: float) -> float:
    """Return the least epsilon that mu^2 implies at this delta, rounded up to six digits."""
    if mu2 == 0:
        return 0.0
    alpha = math.sqrt(MU2 / mu2) * (1 - 2**-50)

    def is_enough(epsilon: float) -> bool:
        return privacy_profile(alpha, 0.0, 1, epsilon).upper <= delta

    if is_enough(0.0):
        return 0.0
    low, high = 0.0, 1e-3
    while not is_enough(high):
        low, high = high, 4 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(high)))


@lru_cache
def max_epsilon(mu2: int, delta: float) -> float | None:
    """Return the largest epsilon that mu^2 pays for at this delta, rounded down to six digits.

    Args:
        mu2: the amount left, in units.
        delta: of the release.

    Returns:
        The epsilon whose certified alpha costs at most ``mu2``; None if the least epsilon with a
        certified alpha, 0.001, costs more.
    """

    def fits(epsilon: float) -> bool:
        return mu2_of_alpha(gaussian(epsilon, delta).alpha, 1) <= mu2

    if not fits(_MIN_EPSILON):
        return None
    epsilon = min(epsilon_of(mu2, delta), _MAX_EPSILON)
    rounding = Context(prec=6, rounding=ROUND_FLOOR)
    while epsilon > _MIN_EPSILON and not fits(epsilon):  # a certified alpha is slightly larger
        epsilon = float(rounding.create_decimal(repr(epsilon * (1 - 2e-6))))
    return max(epsilon, _MIN_EPSILON)
