"""Compute how much noise a promise needs: (alpha, beta) from (epsilon, delta, d), certified.

| symbol         | here                  | public |
|----------------|-----------------------|--------|
| alpha          | ``calibration.alpha`` | yes    |
| beta           | ``calibration.beta``  | yes    |
| d              | ``dimension``         | yes    |

A mechanism N(mu_X, sigma_X^2 I_d) is (epsilon, delta)-DP if, for all neighbours,
||mu_X - mu_X'|| <= min(sigma_X, sigma_X')/alpha and |ln sigma_X^2 - ln sigma_X'^2| <= beta, for
constants that suit (epsilon, delta, d):

* ``exact``: any public beta, and the smallest alpha that suffices with it; ``gaussian``: beta = 0.
* ``nissim``: [BGP16] Lemma 1, from Nissim, Raskhodnikova and Smith (2011). The lemma needs a
  condition on epsilon that its statement lacks (at d = 1, delta = 0.1 it fails from 50.53 on).
* ``appendix``: [BGP16] appendix A, proved for epsilon <= 5.

The published pairs are re-checked by the true profile each time, and refused where they fail. All
are rounded towards more noise: alpha up, beta down (a smaller beta makes psi larger).

The true delta of such a mechanism is the rest of this module. Proofs are in
docs/proofs/calibration.md, by section. Everything here is public.

::

    symbol    code         meaning
    D         divergence   sup_E P(E) - e^epsilon Q(E), P = N(0, I_d), Q = N(s e_1, r^2 I_d)
    r, s      r, s         the ratio of the scales; the shift, in units of the scale of P
    L                      the privacy loss ln(p/q), a quadratic function of a normal vector
    tau, w    tau, w       ln r^2; r^-2 - 1
    kappa     shift_ratio  s^2/r^2
    q         q            1 - w z
    M(z)                   E_P[e^{zL}]
    f(z)      exp(log_f)   M(z) e^{-epsilon z} / (z (1 + z))
    c, h, J   c, h, last   the nodes are c + i j h, j = 0, ..., J
    c'        c2           a second abscissa, for the lower bound only
    theta     theta        the speed of the phase of f far up the line Re z = c
    b, B      phase_curvature, phase_bound   s^2/(2 (1 - r^2)^2); d/2 + 2 + b/(|w| J h)
    u         UNIT_ROUNDOFF  2^-53

Sections 1 and 2: delta is the largest of D at r = e^{-beta/2}, 1 and e^{beta/2}, each with
s = min(1, r)/alpha. Section 3: for every c > 0 with M(c) finite, D is 1/(2 pi i) times the
integral of f over the line Re z = c, and

    M(z) = exp( (d/2) (z tau - ln q) + (kappa/2) z (1 + z)/q ).

Section 4: the trapezoidal sum of this integral, (h/2 pi) sum_j f(c + i j h) over all integers j,
is D plus positive terms, which are known. Section 5 bounds what is left out after J, section 6 the
rounding. Assumed of the arithmetic: IEEE doubles; real exp, log and expm1 and complex products,
quotients and exp within 8 u of the true value, relative to it; complex log within 8 u, relative
to the larger of 1 and the value.

Differs from [BW18] (Balle and Wang, Improving the Gaussian mechanism for differential privacy,
ICML 2018) in that scales may differ: beta = 0 is their analytic Gaussian mechanism.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privalue.core.kernel import UNIT_ROUNDOFF, Vector
from privalue.core.limits import refusal

_TINY = 1e-300  # a smaller number is reported as "from 0 to this"
_FINE = (1e-9, 2**18)  # the relative width of the bounds, and the most nodes for it
_QUICK = (1e-6, 2**13)
_ROUNDING = 1e-15  # relative; a few units in the last place
# psi is never too small, and too large by a relative 1e-9 at most: ln sigma^2 of neighbours may
# differ by that much more than beta says (docs/proofs/calibration.md).
_SLACK = 5e-9
_MARGIN = 1e-6  # alpha is accepted where the upper bound is at most delta (1 - _MARGIN)
_ROOM = 2e-3  # beta is accepted where scales alone take at most delta (1 - _ROOM)

# Candidates for the last node of a sum; computing them takes a fifth of the time of a divergence.
_candidates = functools.cache(lambda most: np.unique(np.geomspace(8, most, 60).astype(np.int64)))

_Complex = NDArray[np.complexfloating[Any, Any]]


class Profile(NamedTuple):
    """A number between proven bounds, lower <= true value <= upper, and its best estimate."""

    lower: float
    estimate: float
    upper: float


def privacy_profile(alpha: float, beta: float, d: int, epsilon: float) -> Profile:
    """Return the smallest delta for which (alpha, beta) give (epsilon, delta)-DP.

    Args:
        alpha: sigma is at least alpha times the distance of neighbours' centres.
        beta: ln sigma^2 of neighbours differs by at most this much.
        d: how many coordinates get noise.
        epsilon: the level, at least 0.

    Returns:
        delta between bounds that hold for every mechanism with these constants.

    >>> profile = privacy_profile(122.387, 5.8145e-4, 40, 0.1)  # the paper's, for delta = 0.1
    >>> f"{profile.estimate:.3g}"
    '1.53e-22'
    """
    _require(alpha=(alpha, 1e-100, 1e100), beta=(beta, 0, 100))
    _require(d=(d, 1, 10**9), epsilon=(epsilon, 0, 10**6))
    return _worst(alpha, beta, d, epsilon, _FINE)


def divergence(epsilon: float, d: int, r: float, s: float) -> Profile:
    """Return D(r, s), the smallest delta for N(0, I_d) against N(s e_1, r^2 I_d), one way round.

    Args:
        epsilon: the level, at least 0.
        d: the dimension.
        r: the ratio of the scales, above 0.
        s: the distance of the centres, in units of the first scale.

    Returns:
        D between proven bounds. The other way round is D(1/r, s/r).
    """
    _require(epsilon=(epsilon, 0, 10**6), d=(d, 1, 10**9), r=(r, 1e-20, 1e20), s=(s, 0, 1e100))
    loss = _Loss(d / 2, 2 * math.log(r), (1 - r) / r * ((1 + r) / r), (s / r) ** 2, epsilon)
    return loss.divergence(*_FINE)


@functools.lru_cache
def largest_beta(epsilon: float, delta: float, d: int) -> float:
    """Return the largest beta, to about four digits, for which ``exact_alpha`` has an answer.

    Scales that differ by e^{beta/2} can be distinguished even with no shift, s = 0, and then D
    grows with beta (section 2). What is left for the shift must be at least 0.2% of delta: with
    less, alpha would be uselessly large. This is not certified: ``exact_alpha`` certifies.
    """
    _require_promise(epsilon, delta, d)

    def excess(log_beta: float) -> float:
        worst = _worst(math.inf, math.exp(log_beta), d, epsilon, _QUICK)
        return math.log(max(worst.estimate, _TINY) / (delta * (1 - _ROOM)))

    root: float = scipy.optimize.brentq(excess, math.log(1e-12), math.log(100), xtol=1e-7)
    return math.exp(root) * (1 - 1e-4)


def _require(**parameters: tuple[float, float, float]) -> None:
    """Refuse a number that is not from the smallest to the largest allowed; all are public."""
    for name, (value, low, high) in parameters.items():
        if not low <= value <= high:
            raise refusal("number-out-of-range", name=name, value=value, low=low, high=high)


def _require_promise(epsilon: float, delta: float, d: int) -> None:
    """Refuse a promise outside of the range that exact calibration is offered for."""
    _require(epsilon=(epsilon, 0.001, 20), delta=(delta, 1e-15, 0.5), d=(d, 1, 10**7))


# Sections 1 and 2: the supremum over neighbours


def _worst(alpha: float, beta: float, d: int, epsilon: float, effort: tuple[float, int]) -> Profile:
    """Return the largest of D(e^{-beta/2}), D(1), D(e^{beta/2}), each at s = min(1, r)/alpha.

    No ratio between these three is worse (section 2, the theorem), and none may be left out:
    r = 1 can be the worst.

    Args:
        alpha: infinite for no shift at all.
        beta: at least 0.
        d: the dimension.
        epsilon: the level.
        effort: the relative width of the bounds, and the most nodes for it.

    Returns:
        The true delta between bounds.
    """
    profiles = []
    for tau in {-beta, 0.0, beta}:
        shift_ratio = math.exp(-max(tau, 0.0)) / alpha**2  # (s/r)^2 = min(1/r, 1)^2/alpha^2
        loss = _Loss(d / 2, tau, math.expm1(-tau), shift_ratio, epsilon)
        profiles.append(loss.divergence(*effort))
    return Profile(*map(max, zip(*profiles, strict=True)))  # the largest of each bound


# Sections 3 to 6: one divergence


@dataclass(frozen=True)
class _Loss:
    """The privacy loss of N(0, I_d) against N(s e_1, r^2 I_d), and the level epsilon."""

    half: float  # d/2
    tau: float
    w: float
    shift_ratio: float
    epsilon: float

    def log_f(self, z: _Complex) -> tuple[_Complex, Vector]:
        """Return ln f, and how far off it may be by rounding (section 6).

        Logarithms: factors of f overflow or underflow where D itself is an ordinary number.
        """
        q = 1 - self.w * z
        log_q, log_z, log_1z = np.log(q), np.log(z), np.log(1 + z)
        shift = self.shift_ratio / 2 * (z * (1 + z) / q)
        value = self.half * (z * self.tau - log_q) + shift - self.epsilon * z - log_z - log_1z
        spread = (1 + abs(self.w * z)) / abs(q)
        terms = self.half * (abs(self.tau * z) + abs(log_q) + spread) + spread * abs(shift)
        terms += self.epsilon * abs(z) + abs(log_z) + abs(log_1z) + 2
        return value, 64 * UNIT_ROUNDOFF * terms

    def slope(self, c: float) -> float:
        """Return (ln f)' on the positive line, where ln f is convex."""
        q = 1 - self.w * c
        slope = self.half * (self.tau + self.w / q) - self.epsilon - 1 / c - 1 / (1 + c)
        return slope + self.shift_ratio / 2 * (1 + 2 * c + self.w * c * (1 + c) / q) / q

    def abscissae(self) -> tuple[float, float]:
        """Return (c, c'): about where f is smallest on the positive line, and a point beyond.

        The bounds hold for any two; they are narrow for these, since near the minimum the
        integrand is positive and bell-shaped, and nothing cancels. c stays where rounding is small.
        ln f is convex there, so bisection of its slope finds the minimum.
        """
        has_pole = self.w > 1e-60  # otherwise the pole of f, z = 1/w, is out of the way
        pole = 1 / self.w if has_pole else math.inf
        most = math.log(2.0**30 / (self.half * abs(self.tau) + self.epsilon + _TINY))

        def point(x: float) -> float:
            return pole / (1 + math.exp(-x)) if has_pole else math.exp(x)

        low, high = -60.0, min(60.0, most)
        if has_pole:
            low, high = -60 - max(0.0, math.log(pole)), 30.0
        while high - low > 0.01:
            middle = (low + high) / 2
            low, high = (low, middle) if self.slope(point(middle)) > 0 else (middle, high)
        c = point(low)
        return c, c + min(c, (pole - c) / 2)

    def divergence(self, width: float, most: int) -> Profile:
        """Return D, with bounds about ``width`` apart, relatively, if ``most`` nodes are enough."""
        # For w < 0 the largest loss is epsilon + theta: if theta is below 0 beyond doubt, D = 0.
        shift = self.shift_ratio / (2 * self.w) if self.w else 0.0
        parts = (self.half * self.tau, -self.epsilon, -shift)
        theta, phase_error = sum(parts), 32 * UNIT_ROUNDOFF * sum(map(abs, parts))
        if (self.w < 0 and theta < -phase_error) or (self.w == 0 and self.shift_ratio == 0):
            return Profile(lower=0.0, estimate=0.0, upper=0.0)  # section 3: L <= epsilon always
        with np.errstate(all="ignore"):
            return self._integrate(width, most, theta, phase_error)

    def _integrate(self, width: float, most: int, theta: float, phase_error: float) -> Profile:
        """Return D by the trapezoidal sum, with every error that it has (sections 4 to 6).

        Errors go into the bounds, never into the estimate: ``upper`` is at least D, however badly
        h and J were chosen, and a NaN leads to the trivial bounds 0 and 1, or Chernoff's.

        Args:
            width: the relative width of the bounds to aim at.
            most: how many nodes there may be.
            theta: the speed of the phase of f far up the line.
            phase_error: how far off ``theta`` may be by rounding.

        Returns:
            D between bounds.
        """
        c, c2 = self.abscissae()
        value, error = self.log_f(np.array([c, c2], dtype=np.complex128))
        top, top2 = value.real
        step = (c2 - c) / 1000
        rough = -0.5 * np.log(2 * math.pi * (self.slope(c + step) - self.slope(c)) / step)
        log_d = top + rough  # about ln D: good enough to choose h and J by

        # Section 4: the sum over all j is D plus positive terms, so that it is an upper bound for
        # every h. It exceeds D by at most ``extra``, which only the lower bound has to subtract.
        # Chernoff's bound, D <= c f(c), stands beside it.
        exponent = 1 - math.log(width) - log_d
        h = 2 * math.pi * min(c / exponent, (c2 - c) / max(exponent + top2 + math.log(c2), 1.0))
        h = math.ldexp(1.0, math.frexp(h)[1] - 1)  # a power of two: the nodes are exact
        extra = 1 / np.expm1(2 * math.pi * c / h)
        extra += c2 * np.exp(top2 + error[1]) / np.expm1(2 * math.pi * (c2 - c) / h)
        chernoff = c * np.exp(top + error[0])
        if chernoff < _TINY:
            return Profile(lower=0.0, estimate=0.0, upper=_TINY)

        aim, phase = width * np.exp(rough), (theta, phase_error)
        last, weight, cut, slack = self._last_node(c, h, top, aim, most, phase)
        value, error = self.log_f(c + 1j * (h * np.arange(last + 1)))
        terms = np.exp(value - top)  # in units of f(c): the largest is 1
        terms[0] /= 2  # f at the conjugate nodes is conjugate: one half of the line is summed
        terms[-1] *= weight
        # Section 6: the exponent's error, e^top's, and that of adding J + 1 terms up.
        error = np.expm1(3 * error + 8 * UNIT_ROUNDOFF * abs(top)) + (last + 64) * UNIT_ROUNDOFF
        error[-1] += slack
        total = h / math.pi * terms.real.sum()
        cut += 1.05 * h / math.pi * (abs(terms) * error).sum()
        scale = np.exp(top)
        # fmin and fmax pass over a NaN: what is left is a bound all the same.
        upper = float(np.fmin(np.fmin(1.0, chernoff), scale * (total + cut)))
        lower = float(np.fmax(0.0, scale * (total - cut) - 1.05 * extra))
        estimate = float(scale * total)
        inside = lower <= estimate <= upper  # not so only where D is about 1, or nothing is known
        return Profile(lower=lower, estimate=estimate if inside else upper, upper=upper)

    def _last_node(
        self, c: float, h: float, top: float, aim: float, most: int, phase: tuple[float, float]
    ) -> tuple[int, complex, float, float]:
        """Return the last node of the sum, and what is left out after it (section 5).

        Two bounds hold at any J: a plain one, by the modulus of f, and one for a sum whose last
        node is weighted by 1/(1 - e^{i h theta}), which makes up for a phase that turns steadily.
        J is the first of 60 candidates where the smaller one is small enough.

        Args:
            c: the abscissa.
            h: the distance of the nodes.
            top: ln f(c).
            aim: how much may be left out, in units of f(c).
            most: the largest J.
            phase: theta, the speed of the phase of f far up the line, and its error by rounding.

        Returns:
            J, the weight of node J, how much is left out in units of f(c), the weight's error.
        """
        theta, phase_error = phase
        steps = _candidates(most)
        y = h * steps
        z = c + 1j * y
        value, error = self.log_f(z)
        modulus = np.exp(value.real + error - top) * abs(z * (1 + z))
        modulus_bound = modulus / (math.pi * y)
        gap = 2 * abs(np.sin(h * theta / 2))
        phase_curvature = self.shift_ratio * math.exp(-self.tau) / (2 * np.float64(self.w) ** 2)
        phase_bound = self.half + 2 + phase_curvature / (abs(self.w) * y)
        turns = phase_bound**2 + 2 * phase_bound
        weighted_bound = modulus * turns * 2 * h**2 / (3 * math.pi * y**3 * gap**2)
        slack = 2 * (h * phase_error + 16 * UNIT_ROUNDOFF) / gap
        if not slack < 0.01:  # the phase hardly turns between nodes: the weight is uncertain
            weighted_bound[:] = np.inf
        # 1.05 covers the rounding of the bounds themselves.
        cut = 1.05 * np.fmin(modulus_bound, weighted_bound)
        at = int(np.argmax(cut <= aim)) if (cut <= aim).any() else -1
        if weighted_bound[at] < modulus_bound[at]:
            return int(steps[at]), 1 / (1 - np.exp(1j * h * theta)), float(cut[at]), float(slack)
        return int(steps[at]), 1.0, float(cut[at]), 0.0


# Section 7: the smallest alpha


@functools.lru_cache(maxsize=1024)
def exact_alpha(epsilon: float, delta: float, d: int, beta: float) -> float:
    """Return the smallest alpha that suffices with beta, at most 0.1% above it, never below.

    Certified: ``privacy_profile(alpha, beta, d, epsilon).upper <= delta * (1 - 1e-6)``, however
    the search for it went. Every larger alpha suffices, too: D does not fall as the shift grows
    (section 1).

    Args:
        epsilon: of the promise, from 0.001 to 20.
        delta: of the promise, from 1e-15 to 0.5.
        d: how many coordinates get noise.
        beta: ln sigma^2 of neighbours differs by at most this much.

    Returns:
        alpha.

    >>> f"{exact_alpha(0.1, 0.1, 40, 5.8145e-4):.4f}"
    '2.8473'
    """
    _require_promise(epsilon, delta, d)
    _require(beta=(beta, 0, 100))
    if not _worst(math.inf, beta, d, epsilon, _QUICK).estimate <= delta * (1 - _ROOM):
        largest = largest_beta(epsilon, delta, d)
        promise = {"epsilon": epsilon, "delta": delta, "d": d}
        raise refusal("beta-too-large", beta=beta, largest=largest, **promise)

    def certified(alpha: float) -> bool:
        return _worst(alpha, beta, d, epsilon, _FINE).upper <= delta * (1 - _MARGIN)

    alpha, step = _search(epsilon, delta, d, beta), 1e-5
    while not certified(alpha):
        alpha, step = alpha * (1 + step), 2 * step
        if alpha > 1e30:
            raise refusal("beta-not-certified", beta=beta)
    return alpha


def _search(epsilon: float, delta: float, d: int, beta: float) -> float:
    """Find where the estimate of delta is a little below delta; nothing here is certified.

    Args:
        epsilon: of the promise.
        delta: of the promise.
        d: the dimension.
        beta: at least 0.

    Returns:
        An alpha to begin with.
    """

    def excess(log_alpha: float) -> float:
        worst = _worst(math.exp(log_alpha), beta, d, epsilon, _QUICK)
        return math.log(max(worst.estimate, _TINY) / (delta * (1 - 2 * _MARGIN)))

    # A guess from the tails of the case beta = 0; steps to either side bracket the root.
    tail = math.sqrt(-2 * math.log(delta))
    low = math.log(min((tail + math.sqrt(tail**2 + 2 * epsilon)) / (2 * epsilon), 0.4 / delta))
    high = low
    while (at_low := excess(low)) <= 0:
        low -= 0.5
    while (at_high := excess(high)) > 0:
        high += 0.5
    # Secants; an end that stays twice counts half (the rule of Illinois). SciPy's optimisers take
    # longer to import than a small release, and dp-ssp needs nothing else of them.
    excess_at_high, last_moved = at_high, ""
    while excess_at_high < -1e-7 and high - low > 1e-9:
        middle = min(max(high - at_high * (high - low) / (at_high - at_low), low), high)
        at_middle = excess(middle)
        if at_middle > 0:
            at_high /= 2 if last_moved == "low" else 1
            low, at_low, last_moved = middle, at_middle, "low"
        else:
            at_low /= 2 if last_moved == "high" else 1
            high, at_high, last_moved = middle, at_middle, "high"
            excess_at_high = at_middle
    return math.exp(high)


# The pairs that mechanisms use


class Calibration(NamedTuple):
    """The pair of constants."""

    alpha: float
    beta: float


def exact(epsilon: float, delta: float, dimension: int, beta: float) -> Calibration:
    """Return the smallest alpha for a beta, certified (docs/proofs/calibration.md).

    The certificate is for a little less noise and a little larger beta than are used: ``_SLACK``
    covers what rounding does to psi and sigma (docs/proofs/calibration.md).

    Args:
        epsilon: of the promise.
        delta: of the promise.
        dimension: d, how many coordinates get noise.
        beta: public, and no larger than ``largest_beta``.

    Returns:
        The pair, alpha at most 0.1% above the smallest one.
    """
    alpha = exact_alpha(epsilon, delta, dimension, beta + _SLACK)
    return Calibration(alpha=alpha * (1 + _SLACK), beta=beta)


def gaussian(epsilon: float, delta: float) -> Calibration:
    """Return the smallest alpha where sigma is the same for all data sets: beta = 0.

    This is the analytic Gaussian mechanism (Balle and Wang 2018), certified as every other alpha.
    The dimension does not matter: only the coordinate along the shift differs between neighbours.
    """
    alpha = exact_alpha(epsilon, delta, 1, 0.0)
    return Calibration(alpha=alpha * (1 + _ROUNDING), beta=0.0)


@functools.lru_cache
def published_pair(name: str, epsilon: float, delta: float, dimension: int) -> Calibration:
    """Return the pair of a published lemma, rounded towards more noise.

    | ``nissim``   | [BGP16] Lemma 1, and line 2 of Algorithms 1 and 2                            |
    |--------------|------------------------------------------------------------------------------|
    | alpha        | 5 sqrt(2 ln(2/delta))/epsilon                                                |
    | beta         | epsilon/(4 (d + ln(2/delta)))                                                |

    | ``appendix`` | [BGP16] appendix A, with C = sqrt(2 ln(4/delta)), proved for epsilon <= 5    |
    |--------------|------------------------------------------------------------------------------|
    | alpha        | 15 C/epsilon                                                                 |
    | beta         | (2 ln 2) epsilon/(5 (sqrt d + C)^2), at most ln 2                            |

    It is refused where its true delta is not small enough, with room for the rounding of sigma.

    Args:
        name: "nissim" or "appendix".
        epsilon: of the promise.
        delta: of the promise.
        dimension: d, how many coordinates get noise.
    """
    log, tail = math.log(2 / delta), math.sqrt(2 * math.log(4 / delta))
    spread = 5 * (math.sqrt(dimension) + tail) ** 2
    pairs = {
        "nissim": (5 * math.sqrt(2 * log) / epsilon, epsilon / (4 * (dimension + log))),
        "appendix": (15 * tail / epsilon, 2 * math.log(2) * epsilon / spread),
    }
    alpha, beta = pairs[name]
    alpha, beta = alpha * (1 + _ROUNDING), beta * (1 - _ROUNDING)
    worst = privacy_profile(alpha * (1 - _SLACK), beta + _SLACK, dimension, epsilon).upper
    if not worst <= delta or (name == "appendix" and epsilon > 5):
        facts = {"epsilon": epsilon, "delta": delta, "dimension": dimension, "worst": worst}
        raise refusal("calibration-does-not-hold", name=name, **facts)
    return Calibration(alpha=alpha, beta=beta)
