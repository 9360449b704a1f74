"""Say what squares of mu come to as an epsilon: for people, and for plans.

Nothing here decides what is admitted: a request that was made of these numbers is counted by its
own certified alpha, as any other. What is spent is rounded up, and what is left down.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from privalue.core import gaussian, privacy_profile
from privalue.ledger._squares import ONE, square_cost
from privalue.ledger._units import mu

_LEAST_EPSILON, _MOST_EPSILON = 0.001, 20.0  # of a promise that has a certified alpha


@lru_cache
def epsilon_spent(square: int, delta: float) -> float:
    """Return the least epsilon, to six digits and never below it, that so much has come to."""
    if square == 0:
        return 0.0
    alpha = math.sqrt(ONE / square) * (1 - 2**-50)

    def enough(epsilon: float) -> bool:
        return privacy_profile(alpha, 0.0, 1, epsilon).upper <= delta

    if enough(0.0):
        return 0.0
    return float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(_least(enough))))


@lru_cache
def affordable(square: int, delta: float) -> float | None:
    """Return the largest epsilon, to six digits and never above it, that so much pays for.

    Args:
        square: what there is, in units.
        delta: of the release.

    Returns:
        The epsilon whose certified alpha costs at most so much; None where the least that has one,
        0.001, costs more.
    """

    def fits(epsilon: float) -> bool:
        return square_cost(mu(gaussian(epsilon, delta).alpha), 1) <= square

    if square < 1 or not fits(_LEAST_EPSILON):
        return None
    if fits(_MOST_EPSILON):
        return _MOST_EPSILON
    epsilon = min(epsilon_spent(square, delta), _MOST_EPSILON)
    while epsilon > _LEAST_EPSILON and not fits(epsilon):  # the certificate leaves some room
        epsilon = rounded_down(epsilon * (1 - 2e-6))
    return max(epsilon, _LEAST_EPSILON)


def _least(enough: Callable[[float], bool]) -> float:
    """Return a number that is enough, at most a millionth above the least one."""
    low, high = 0.0, 1e-3
    while not enough(high):
        low, high = high, 4 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def rounded_down(value: float) -> float:
    """Return the number with six digits, never above its shortest decimal."""
    return float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal(repr(value)))
