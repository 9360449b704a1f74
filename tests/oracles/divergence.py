"""The divergence D with proven digits, by two ways that share nothing with the package.

D is the largest P(E) - e^epsilon Q(E), P = N(0, I_d), Q = N(s e_1, r^2 I_d), and tau = ln r^2. The
best event E is a ball (r > 1) or the outside of one (r < 1), with centre -s/(r^2 - 1) e_1, so that
P(E) and Q(E) are non-central chi-square probabilities; for r = 1 it is a half-space.

* ``by_chi_square``: the non-central chi-square as the Poisson mixture of central ones, in ball
  arithmetic (Arb). It loses digits by cancellation as r -> 1, which the balls show; more bits help.
* ``by_integral``: the integral over the coordinate u along the shift of
  phi(u) P(L > epsilon | u) - e^epsilon phi((u - s)/r)/r Q(L > epsilon | u), both being central
  chi-square tails with d - 1 degrees of freedom, in doubles, by Gauss-Legendre rules on panels
  that end where the chi-square argument is 0 (a kink) and at its mean +- j standard deviations.
"""

import math
from itertools import pairwise

import numpy as np
from flint import arb, ctx, fmpq
from scipy import special

BITS = 300
DEVIATIONS = 16  # of the Poisson law that are summed on either side
SMALL = 1e-70


def exactly(x: float) -> arb:
    return arb(fmpq(*float(x).as_integer_ratio()))


def by_chi_square(epsilon: float, d: int, tau: float, s: arb | float, bits: int = BITS) -> arb:
    """D as a ball; s may be a ball itself (min(1, r)/alpha is no double)."""
    with ctx.workprec(bits):
        level, shift = exactly(epsilon), s if isinstance(s, arb) else exactly(s)
        growth = level.exp()
        if tau == 0:  # Balle and Wang (2018), theorem 5
            if not shift > 0:
                return arb(0)
            root = arb(2).sqrt()
            first = ((level / shift - shift / 2) / root).erfc() / 2
            return first - growth * ((level / shift + shift / 2) / root).erfc() / 2
        r2 = exactly(tau).exp()
        y = r2 - 1
        x = (shift / y) ** 2 + (d * exactly(tau) - 2 * level) / y
        if not x > 0:
            assert x < 0
            return arb(0) if tau > 0 else 1 - growth  # an empty ball; E is everything
        here = ball_probability(d, (shift / y) ** 2, r2 * x, outside=tau < 0)
        there = ball_probability(d, r2 * (shift / y) ** 2, x, outside=tau < 0)
        return here - growth * there


def ball_probability(d: int, noncentrality: arb, x: arb, *, outside: bool) -> arb:
    """P(non-central chi-square < x), or > x: sum_j Poisson(j; lambda/2) P(chi^2_{d+2j} < x).

    P(chi^2_{2a} < 2t) = sum_{i >= 0} T(a + i), T(a) = t^a e^{-t}/Gamma(a + 1): all terms positive.
    The sum is made once, for the largest j, and T(a) added for each smaller one.
    """
    mean, half = noncentrality / 2, x / 2
    middle = math.floor(float(mean))
    reach = math.ceil(DEVIATIONS * (math.sqrt(middle) + DEVIATIONS)) if mean > 0 else 0
    first, last = max(0, middle - reach), middle + reach
    shape = arb(fmpq(d, 2)) + last
    term = (shape * half.log() - half - (shape + 1).lgamma()).exp()
    lower, ahead, at = arb(0), term, shape
    while not (ahead < SMALL and half + 1 < at):
        lower += ahead
        at += 1
        ahead *= half / at
    lower += arb(0, (ahead * at / (at - half)).abs_upper())  # the rest: a geometric series
    poisson = (last * mean.log() - mean - arb(last + 1).lgamma()).exp() if mean > 0 else arb(1)
    total, mass = arb(0), arb(0)
    for j in range(last, first - 1, -1):
        total += poisson * (1 - lower if outside else lower)
        mass += poisson
        poisson = poisson * j / mean if j else poisson
        term *= shape / half
        shape -= 1
        lower += term
    missing = 1 - mass  # of the Poisson weights; what they weigh is between 0 and 1
    return total + arb(0, missing.abs_upper())


def worst(epsilon: float, d: int, alpha: float, beta: float) -> arb:
    """The largest D at r = e^{-beta/2}, 1, e^{beta/2} and s = min(1, r)/alpha, as a ball."""
    with ctx.workprec(BITS):
        divergences = [
            by_chi_square(epsilon, d, tau, shift_at(tau, alpha))
            for tau in ([-beta, 0.0, beta] if beta else [0.0])
        ]
        largest = divergences[0]
        for other in divergences[1:]:
            largest = largest.max(other)
        return largest


def shift_at(tau: float, alpha: float) -> arb:
    """min(1, r)/alpha."""
    with ctx.workprec(BITS):
        return (exactly(min(tau, 0.0)) / 2).exp() / exactly(alpha)


def by_integral(epsilon: float, d: int, tau: float, s: float, points: int = 24) -> float:
    """D by the integral over u, for d >= 2 and r != 1.

    With u the coordinate along the shift and q the squared norm of the rest, L > epsilon is
    q > x(u) for r < 1 and q < x(u) for r > 1, where x(u) = -u^2 + 2 b u + x(0), b = s/(1 - r^2).
    """
    w, r = math.expm1(-tau), math.exp(tau / 2)
    b = s * (1 + w) / w
    start = 2 * (epsilon - d * tau / 2) / w - s * b
    freedom = d - 1

    def integrand(u):
        x = np.maximum(2 * b * u - u * u + start, 0.0)
        tail = special.gammaincc if w > 0 else special.gammainc
        here = np.exp(-(u**2) / 2) * tail(freedom / 2, x / 2)
        there = math.exp(epsilon) / r * np.exp(-(((u - s) / r) ** 2) / 2)
        return (here - there * tail(freedom / 2, x * (1 + w) / 2)) / math.sqrt(2 * math.pi)

    edge = 14.0 * max(1.0, r) + s
    marks = {*np.linspace(-edge, edge, 57)}
    for scale in (1.0, 1 / (1 + w)):
        levels = [scale * (freedom + j * math.sqrt(2 * freedom)) for j in range(-16, 17)]
        for level in [0.0, *levels]:  # where x(u) = level
            under = b * b + start - level
            if level >= 0 and under > 0:
                far = b + math.copysign(math.sqrt(under), b)
                marks |= {far, (level - start) / far}
    ends = sorted(mark for mark in marks if -edge <= mark <= edge)
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return math.fsum(
        (high - low) / 2 * float(weights @ integrand((low + high) / 2 + (high - low) / 2 * nodes))
        for low, high in pairwise(ends)
    )
