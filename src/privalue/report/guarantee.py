"""Bound what an attacker can learn, rounded towards the weaker promise.

A test that distinguishes neighbours with false-alarm rate a has power at most
min(e^eps a + delta, 1 - e^-eps (1 - delta - a)): both directions of the definition (Wasserman and
Zhou 2010; Kairouz, Oh and Viswanath 2015).
"""

import math

from privalue.report.numbers import format_power


def odds_factor(epsilon: float) -> str:
    """Return e^epsilon, rounded up: the odds change by at most this factor.

    >>> odds_factor(1.0), odds_factor(0.2), odds_factor(0.001), odds_factor(12.0)
    ('2.72', '1.23', '1.0011', '162755')
    """
    if epsilon > 20:
        return format_power(10.0 ** min(math.ceil(epsilon / math.log(10)), 308))
    factor = math.exp(epsilon)
    if factor >= 100:
        return str(math.ceil(factor))
    digits = 2 if epsilon >= 0.1 else 2 + math.ceil(-math.log10(epsilon) - 1)
    return f"{math.ceil(factor * 10**digits) / 10**digits:.10g}"


def detection(epsilon: float, delta: float, alarms: float) -> float:
    """Return the highest power of a test of two neighbours with this false-alarm rate.

    >>> round(detection(1.0, 0.0, 0.05), 3)
    0.136
    """
    forward = math.exp(min(epsilon, 700.0)) * alarms + delta
    reverse = 1 - math.exp(-epsilon) * max(1 - delta - alarms, 0.0)
    return min(1.0, max(min(forward, reverse), alarms))


def format_detection(epsilon: float, delta: float, alarms: float) -> str:
    """Return the highest power in percent, rounded up.

    >>> format_detection(1.0, 1e-06, 0.05)
    '13.6%'
    """
    return f"{min(math.ceil(detection(epsilon, delta, alarms) * 1e4 - 1e-9) / 100, 100.0):g}%"
