"""Compute (alpha, beta) from (epsilon, delta, d): how much noise a smooth bound needs.

| symbol         | here                  | public |
|----------------|-----------------------|--------|
| alpha          | ``calibration.alpha`` | yes    |
| beta           | ``calibration.beta``  | yes    |
| d              | ``dimension``         | yes    |

A mechanism N(mu_X, sigma_X^2 I_d) is (epsilon, delta)-DP if, for all neighbours,
sigma_X >= alpha ||mu_X - mu_X'|| and |ln sigma_X^2 - ln sigma_X'^2| <= beta, for constants that
suit (epsilon, delta, d):

* ``exact``: any public beta, and the smallest alpha that will do with it (``profile``).
* ``nissim``: [BGP16] Lemma 1, from Nissim, Raskhodnikova and Smith (2011). The lemma needs a
  condition on epsilon that its statement lacks (at d = 1, delta = 0.1 it fails from 50.53 on).
* ``appendix``: [BGP16] appendix A, proved for epsilon <= 5.

The published pairs are re-checked by the true profile each time, and refused where they fail. All
are rounded towards more noise: alpha up, beta down (a smaller beta makes psi larger).
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from privalue.core._profile import exact_alpha, largest_beta, privacy_profile
from privalue.errors import StudyError

_ROUNDING = 1e-15  # relative; a few units in the last place
# psi is never too small, and too large by a relative 1e-9 at most: ln sigma^2 of neighbours may
# differ by that much more than beta says (docs/proofs/calibration.md).
_SLACK = 5e-9


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The pair of constants, and where it is from."""

    name: str
    alpha: float
    beta: float


@contextmanager
def _concerning(key: str) -> Iterator[None]:
    """Say which key of the study an error is about."""
    try:
        yield
    except StudyError as problem:
        raise StudyError(f"{key}{problem}") from None


@lru_cache
def largest_exact_beta(epsilon: float, delta: float, dimension: int) -> float:
    """Return the largest beta that has an alpha, or refuse what has none at all.

    A larger one would leave less than 0.2% of delta to the shift, or nothing at all.
    """
    with _concerning('[mechanism] calibration = "exact": '):
        return largest_beta(epsilon, delta, dimension)


@lru_cache
def exact(epsilon: float, delta: float, dimension: int, beta: float) -> Calibration:
    """Return the smallest alpha for a beta, certified (docs/proofs/exact-calibration.md).

    The certificate is for a little less noise and a little larger beta than are used: ``_SLACK``
    covers what rounding does to psi and sigma (docs/proofs/calibration.md).

    Args:
        epsilon: of the promise.
        delta: of the promise.
        dimension: d, how many coordinates get noise.
        beta: public, and no larger than ``largest_exact_beta``.

    Returns:
        The pair, alpha at most 0.1% above the smallest one.
    """
    with _concerning('[mechanism] calibration = "exact": '):
        alpha = exact_alpha(epsilon, delta, dimension, beta + _SLACK)
    return Calibration(name="exact", alpha=alpha * (1 + _SLACK), beta=beta)


@lru_cache
def gaussian(epsilon: float, delta: float) -> Calibration:
    """Return the smallest alpha where sigma is the same for all data sets: beta = 0.

    This is the analytic Gaussian mechanism (Balle and Wang 2018), certified as every other alpha.
    The dimension does not matter: only the coordinate along the shift differs between neighbours.
    """
    with _concerning("[privacy] "):
        alpha = exact_alpha(epsilon, delta, 1, 0.0)
    return Calibration(name="exact", alpha=alpha * (1 + _ROUNDING), beta=0.0)


@lru_cache
def nissim(epsilon: float, delta: float, dimension: int) -> Calibration:
    """Return alpha = 5 sqrt(2 ln(2/delta))/epsilon, beta = epsilon/(4 (d + ln(2/delta))).

    These are the constants of [BGP16] Lemma 1 and of line 2 of Algorithms 1 and 2.
    """
    log = math.log(2 / delta)
    pair = 5 * math.sqrt(2 * log) / epsilon, epsilon / (4 * (dimension + log))
    return _checked("nissim", pair, epsilon, delta, dimension)


@lru_cache
def appendix(epsilon: float, delta: float, dimension: int) -> Calibration:
    """Return alpha = 15 C/epsilon, beta = (2 ln 2) epsilon/(5 (sqrt d + C)^2).

    These are the constants of [BGP16] appendix A, with C = sqrt(2 ln(4/delta)). They are proved
    for epsilon <= 5, where beta <= ln 2.
    """
    if epsilon > 5:
        raise StudyError(
            f'[mechanism] calibration = "appendix" is proved for epsilon <= 5 only, and epsilon = '
            f'{epsilon:g}; use a smaller epsilon or calibration = "exact"'
        )
    tail = math.sqrt(2 * math.log(4 / delta))
    beta = 2 * math.log(2) * epsilon / (5 * (math.sqrt(dimension) + tail) ** 2)
    return _checked("appendix", (15 * tail / epsilon, beta), epsilon, delta, dimension)


def _checked(
    name: str, pair: tuple[float, float], epsilon: float, delta: float, dimension: int
) -> Calibration:
    """Return the pair, if its true delta is small enough with room for the rounding of sigma.

    Args:
        name: of the lemma.
        pair: alpha and beta as published; they are rounded up and down.
        epsilon: of the promise.
        delta: of the promise.
        dimension: d, how many coordinates get noise.

    Returns:
        The pair; one whose certified delta exceeds the promise is refused.
    """
    alpha, beta = pair[0] * (1 + _ROUNDING), pair[1] * (1 - _ROUNDING)
    with _concerning(f'[mechanism] calibration = "{name}": '):
        worst = privacy_profile(alpha * (1 - _SLACK), beta + _SLACK, dimension, epsilon).upper
    if not worst <= delta:
        raise StudyError(
            f'[mechanism] calibration = "{name}" does not hold at epsilon = {epsilon:g}, '
            f"delta = {delta:g} with {dimension} feature(s): the true delta would be {worst:.3g}; "
            'use a smaller epsilon or calibration = "exact"'
        )
    return Calibration(name=name, alpha=alpha, beta=beta)


# The pairs of published lemmas, by their names in a study; both refuse it where they do not hold.
PUBLISHED = {"nissim": nissim, "appendix": appendix}
