"""(epsilon, delta, d) -> (alpha, beta): how much noise a smooth bound needs.

| symbol         | here                | public |
|----------------|---------------------|--------|
| alpha          | ``calibration.alpha`` | yes  |
| beta           | ``calibration.beta``  | yes  |
| d              | ``dimension``       | yes    |

A mechanism N(mu_X, sigma_X^2 I_d) is (epsilon, delta)-DP if, for all neighbours,
sigma_X >= alpha ||mu_X - mu_X'|| and |ln sigma_X^2 - ln sigma_X'^2| <= beta, for constants that
suit (epsilon, delta, d). Two published pairs:

* ``nissim``: [BGP16] Lemma 1, from Nissim, Raskhodnikova and Smith (2011). The lemma needs a
  condition on epsilon that its statement lacks (at d = 1, delta = 0.1 it first fails near 51), so
  the pair is re-checked here each time, and refused where it fails.
* ``appendix``: [BGP16] appendix A, proved for epsilon <= 5.

Both are rounded towards more noise: alpha up, beta down (a smaller beta makes psi larger).
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import integrate, stats

from privalue.errors import StudyError

_ROUNDING = 1e-15  # relative; a few units in the last place
_SLACK = 1e-11  # psi is inflated by 1e-12: sigma of neighbours may differ by that much more
_LARGEST_EPSILON = 500.0  # beyond, nothing is promised that a re-check could compute


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The pair of constants, and which lemma it is from."""

    name: str
    alpha: float
    beta: float


def calibrate(name: str, *, epsilon: float, delta: float, dimension: int) -> Calibration:
    """The pair of a published lemma, or a refusal where the lemma does not hold."""
    return {"nissim": nissim, "appendix": appendix}[name](epsilon, delta, dimension)


def nissim(epsilon: float, delta: float, dimension: int) -> Calibration:
    """alpha = 5 sqrt(2 ln(2/delta)) / epsilon, beta = epsilon / (4 (d + ln(2/delta))).

    [BGP16] Lemma 1 and line 2 of Algorithms 1 and 2.
    """
    log = math.log(2 / delta)
    return _checked(
        Calibration(
            name="nissim",
            alpha=5 * math.sqrt(2 * log) / epsilon * (1 + _ROUNDING),
            beta=epsilon / (4 * (dimension + log)) * (1 - _ROUNDING),
        ),
        epsilon,
        delta,
        dimension,
    )


def appendix(epsilon: float, delta: float, dimension: int) -> Calibration:
    """alpha = 15 sqrt(2 ln(4/delta)) / epsilon, beta = (2 ln 2) epsilon / (5 (sqrt d + C)^2).

    [BGP16] appendix A, C = sqrt(2 ln(4/delta)); proved for epsilon <= 5, where beta <= ln 2.
    """
    if epsilon > 5:
        raise StudyError(
            f'[mechanism] calibration = "appendix" is proved for epsilon <= 5 only, and epsilon = '
            f'{epsilon:g}; use a smaller epsilon or calibration = "nissim"'
        )
    tail = math.sqrt(2 * math.log(4 / delta))
    return _checked(
        Calibration(
            name="appendix",
            alpha=15 * tail / epsilon * (1 + _ROUNDING),
            beta=2 * math.log(2) * epsilon / (5 * (math.sqrt(dimension) + tail) ** 2),
        ),
        epsilon,
        delta,
        dimension,
    )


# Re-checking a pair
#
# For neighbours, scaled so that sigma_X = 1, the mechanism's outputs are N(0, I) and
# N(s e_1, r^2 I) with r in [e^{-beta/2}, e^{beta/2}] and s <= min(1, r)/alpha. The smallest delta
# is the largest hockey-stick divergence D between them, attained at r = e^{-beta/2}, 1 or
# e^{beta/2} with s = min(1, r)/alpha (docs/proofs/calibration.md).


def _checked(pair: Calibration, epsilon: float, delta: float, dimension: int) -> Calibration:
    """The pair itself, if it holds with room for the rounding of sigma (docs/proofs)."""
    worst = 1.0
    if epsilon <= _LARGEST_EPSILON:
        worst = worst_case_delta(
            pair.alpha * (1 - _SLACK),
            pair.beta + _SLACK,
            epsilon=epsilon,
            dimension=dimension,
            enough=delta,
        )
    if not worst <= delta:
        raise StudyError(
            f'[mechanism] calibration = "{pair.name}" does not hold at epsilon = {epsilon:g}, '
            f"delta = {delta:g} with {dimension} feature(s): the true delta would be {worst:.3g}; "
            "use a smaller epsilon"
        )
    return pair


def worst_case_delta(
    alpha: float, beta: float, *, epsilon: float, dimension: int, enough: float = 0.0
) -> float:
    """An upper bound of delta at ``epsilon``: a quick one if it is ``enough``, else D itself."""
    ends = (math.exp(-beta / 2), 1.0, math.exp(beta / 2))
    cases = [(r, min(1.0, r) / alpha) for r in ends]
    quick = max(_chernoff(epsilon, dimension, r, s) for r, s in cases)
    if quick <= enough:
        return quick
    return max(_divergence(epsilon, dimension, r, s) for r, s in cases)


def _chernoff(epsilon: float, dimension: int, r: float, s: float) -> float:
    """D <= t^t/(1+t)^(1+t) e^{-t epsilon} E[e^{t L}] for every t > 0, L the privacy loss.

    (1 - e^{-x})_+ <= e^{t x} t^t/(1+t)^(1+t); L is quadratic in Gaussians, so the expectation is
    elementary. Any t will do; the search only makes the bound small.
    """
    spread = 1 / r**2 - 1

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        room = 1 - t * spread
        if room <= 0:
            return math.inf
        moment = t * dimension * math.log(r) - dimension / 2 * math.log(room)
        moment += t * s**2 / (2 * r**2) + (t * s / r**2) ** 2 / (2 * room)
        return moment - t * epsilon + t * log_t - (1 + t) * math.log1p(t)

    low, high, best = -8.0, 14.0, 0.0  # D <= 1 in any case
    for _ in range(3):
        grid = np.linspace(low, high, 45).tolist()
        values = [bound(log_t) for log_t in grid]
        at = values.index(min(values))
        low, high, best = grid[max(at - 1, 0)], grid[min(at + 1, 44)], min(best, values[at])
    return math.exp(best) * (1 + 1e-9)


def _divergence(epsilon: float, dimension: int, r: float, s: float) -> float:
    """D of N(0, I) and N(s e_1, r^2 I), by integrating along the shift (math: section 3).

    With u the coordinate along the shift and q the squared norm of the rest, L > epsilon is a
    condition on q for each u, and q is chi-square with d - 1 degrees of freedom.
    """
    if r == 1:
        return float(
            stats.norm.cdf(s / 2 - epsilon / s)
            - math.exp(epsilon + stats.norm.logcdf(-s / 2 - epsilon / s))
        )
    spread = 1 / r**2 - 1

    def threshold(u: float) -> float:  # L > epsilon where q lies beyond this
        rest = epsilon - dimension * math.log(r) - (u - s) ** 2 / (2 * r**2) + u**2 / 2
        return 2 * rest / spread

    def beyond(x: float) -> float:
        if dimension == 1:
            return float(x < 0 if spread > 0 else x > 0)
        tail = stats.chi2.sf if spread > 0 else stats.chi2.cdf
        return float(tail(x, dimension - 1))

    def integrand(u: float) -> float:
        x = threshold(u)
        here = stats.norm.pdf(u) * beyond(x)
        there = math.exp(epsilon + stats.norm.logpdf(u, s, r)) * beyond(x / r**2)
        return float(here - there)

    # threshold(u) = -u^2 + 2 b u + c with b = s/(1 - r^2): kinks at its roots.
    b, c = s / (1 - r**2), threshold(0.0)
    kinks = [b - math.sqrt(b * b + c), b + math.sqrt(b * b + c)] if b * b + c > 0 else []
    edge = 12.0 * max(1.0, r) + s
    marks = sorted({-edge, edge, *(k for k in kinks if -edge < k < edge)})
    parts = [
        integrate.quad(integrand, low, high, limit=200, epsabs=1e-14)
        for low, high in itertools.pairwise(marks)
    ]
    return sum(value + error for value, error in parts) + 2 * float(stats.norm.sf(12.0))
