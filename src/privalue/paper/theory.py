"""What the paper proves about privacy and utility, as published and corrected, in its order.

**A name that ends in ``_as_published`` is a false statement of [BGP16]**, kept so that it can be
refuted (docs/errata.md); nothing may rely on it. The others are proved in docs/proofs/utility.md.
Labels such as ap:lem:max are those of the paper's source.

| symbol                | here                   | shape | public                                  |
|-----------------------|------------------------|-------|-----------------------------------------|
| m                     | ``trajectories``       |       | yes                                     |
| p_s                   | ``chances``            | N     | yes: of the policy, not of the data     |
| p_{s,s'}              | ``joint``              | N x N | yes; its diagonal is p_s                |
| \\|X_s\\| ~ B_{m,p_s} | ``counts``, ``n``      | N     | **private**                             |
| w_s or rho_s          | ``design.weights``     | N     | yes                                     |
| F                     | ``largest``            |       | yes: returns lie in [0, F]              |
| lambda                | ``ridge``              |       | yes                                     |
| C^2, C_lambda^2       | ``lsw_factor``, ``lsl_factor`` | | yes                                   |
| h                     | ``largest_lsl_term(0, beta, m)`` | | yes                                 |

*Excess* is J(theta_X + eta) - J(theta_X), in expectation over the noise eta. Given counts it is
**private**; in expectation over X it is a property of the policy. For DP-LSW the returns may lie in
any interval of width F. Written shorter: pbar_{s,s'} = p_s - p_{s,s'}, K = ||Phi||^2 ||rho||_inf^2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from privalue.core import (
    Calibration,
    Design,
    Integers,
    Profile,
    Vector,
    column_squares,
    privacy_profile,
    row_norms,
    smooth_lsl,
    smooth_lsw,
)
from privalue.errors import UsageError

Noise = Literal["isotropic", "whitened"]
_CANDIDATES = 64  # values of k that a lower bound tries


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """What the theorems assume: m independent trajectories of one policy, returns in [0, F]."""

    design: Design
    calibration: Calibration
    chances: Vector
    trajectories: int
    largest: float
    joint: Vector | None = None  # for DP-LSL
    ridge: float = math.inf  # for DP-LSL, which then needs a finite one

    def __post_init__(self) -> None:
        n, largest = self.design.states, self.largest
        p = _checked(self.chances, self.trajectories, self.calibration.beta)
        _require(p.shape == (n,), f"chances has shape {p.shape}; it must be ({n},), one per state")
        _require(0 < largest < math.inf, f"largest is {largest}; it must be above 0 and finite")
        p.setflags(write=False)
        object.__setattr__(self, "chances", p)
        if self.joint is not None:
            both = _checked(self.joint, 1, 1.0)
            _require(both.shape == (n, n), f"joint has shape {both.shape}; it must be ({n}, {n})")
            fits = np.allclose(np.diag(both), p) and bool(np.all(both <= p[:, None] + 1e-9))
            _require(fits, "joint must have chances as its diagonal, and no row entry above it")
            both.setflags(write=False)
            object.__setattr__(self, "joint", both)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """lower <= the true value <= upper."""

    lower: float
    upper: float


# Privacy: section 4, appendices A, B and C


def lemma_1_delta(epsilon: float, delta: float, dimension: int) -> Profile:
    """The true delta of the constants that Lemma 1 (lem:Gaussian) makes for (epsilon, delta).

    alpha = 5 sqrt(2 ln(2/delta))/epsilon, beta = epsilon/(4 (d + ln(2/delta))). The lemma says that
    it is at most delta, for every epsilon; ``calibration.nissim`` refuses where it is not.
    """
    _require(0 < delta < 1, f"delta is {delta}; it must be above 0 and below 1")
    _require(0 < epsilon < math.inf, f"epsilon is {epsilon}; it must be above 0 and finite")
    log = math.log(2 / delta)
    beta = epsilon / (4 * (dimension + log))
    return privacy_profile(5 * math.sqrt(2 * log) / epsilon, beta, dimension, epsilon)


def phi_lsw(setting: Setting, counts: Integers, k: int = 0) -> float:
    """phi_k^w(v) = sum_s w_s / max(v_s - k, 1)^2 (eq:varphi, ap:lem:maxkw)."""
    return float(np.sum(setting.design.weights / np.maximum(counts - k, 1.0) ** 2))


def phi_lsl(setting: Setting, counts: Integers, k: int = 0) -> float:
    """phi_k^lambda(v) = (c_lambda sqrt(sum_s rho_s min(v_s + k, m)) + ||rho||_2)^2 (eq:psil)."""
    return _phi_lsl(setting, np.minimum(counts + k, setting.trajectories))


def phi_lsl_as_published(setting: Setting, counts: Integers, k: int = 0) -> float:
    """FALSE (lem:phikl, ap:lem:phikl): max{v_s + k, m}, where Algorithm 2 rightly has min."""
    return _phi_lsl(setting, np.maximum(counts + k, setting.trajectories))


def _phi_lsl(setting: Setting, visits: Integers) -> float:
    slope, offset = _slope_and_offset(setting)
    return (slope * math.sqrt(float(setting.design.weights @ visits)) + offset) ** 2


def _slope_and_offset(setting: Setting) -> tuple[float, float]:
    """c_lambda = ||Phi|| ||rho||_inf / sqrt(2 lambda), and ||rho||_2."""
    rho, norm, ridge = setting.design.weights, setting.design.norm, setting.ridge
    least = norm**2 * float(rho.max())
    _require(least < ridge < math.inf, f"ridge is {ridge}; it must be above {least:.6g} and finite")
    return norm * float(rho.max()) / math.sqrt(2 * ridge), float(np.linalg.norm(rho))


def local_sensitivity_lsw(setting: Setting, counts: Integers) -> float:
    """||theta_X^w - theta_X'^w|| <= F ||(Gamma^{1/2} Phi)^+|| sqrt(phi_0^w) (cor:LSw)."""
    norm = setting.design.pseudo_inverse_norm
    return setting.largest * norm * math.sqrt(phi_lsw(setting, counts))


def local_sensitivity_lsl(setting: Setting, counts: Integers) -> float:
    """||theta_X - theta_X'|| <= (C_lambda / alpha) sqrt(phi_0^lambda) (cor:LSl)."""
    return math.sqrt(lsl_factor(setting) * phi_lsl(setting, counts)) / setting.calibration.alpha


# Utility of DP-LSW: section 5, appendix D


def lsw_factor(setting: Setting, noise: Noise = "isotropic") -> float:
    """C^2 = (alpha F ||A^+|| ||A||_F)^2, A = Gamma^{1/2} Phi; (alpha F)^2 d for whitened noise."""
    shape = float(setting.design.dimension)
    if noise == "isotropic":
        frobenius = float(column_squares(setting.design.weighted_phi).sum())
        shape = setting.design.pseudo_inverse_norm**2 * frobenius
    return (setting.calibration.alpha * setting.largest) ** 2 * shape


def lsw_excess_given_counts(
    setting: Setting, counts: Integers, noise: Noise = "isotropic"
) -> float:
    """E_eta[J_X^w(theta + eta) - J_X^w(theta)] = C^2 psi_X^w: no bound (ap:lem:totalexpw)."""
    psi = smooth_lsw(counts, setting.design.weights, setting.calibration.beta)
    return lsw_factor(setting, noise) * psi


def largest_lsw_term_as_published(a: float, b: float) -> float:
    """FALSE (ap:lem:max): "max of e^{-b x}/(a - x)^2 on [0, a - 1]"; rather its minimum."""
    _require(a >= 1 and b > 0, f"a is {a} and b is {b}; they must be at least 1, and above 0")
    if b < 2 / a:
        return 1 / a**2
    return math.exp(1 - a * b) if b > 2 else math.e**2 / 4 * b**2 * math.exp(-a * b)


def largest_lsw_term(a: float, b: float) -> float:
    """max_{0 <= x <= a - 1} e^{-b x}/(a - x)^2 = max{1/a^2, e^{-b (a - 1)}}."""
    _require(a >= 1 and b > 0, f"a is {a} and b is {b}; they must be at least 1, and above 0")
    return max(1 / a**2, math.exp(-b * (a - 1)))


def inverse_square_bound(chances: ArrayLike, trajectories: int) -> Vector:
    """E[B^{-2} 1{B >= 1}] <= 6/(p^2 (m+1)(m+2)) (ap:lem:bin without its negative terms)."""
    p = _checked(chances, trajectories, 1.0)
    return _six_over(p, (trajectories + 1) * (trajectories + 2))


def lsw_term_bound_as_published(chances: ArrayLike, trajectories: int, beta: float) -> Vector:
    """FALSE (ap:lem:expmax): 6/(p^2 (m+1)(m+2)) + (e^2 beta^2/4) (1 - (1 - e^-beta) p)^m."""
    p = _checked(chances, trajectories, beta, most=2)
    tail = math.e**2 / 4 * beta**2 * _power(-math.expm1(-beta) * p, trajectories)
    return np.where(p > 0, inverse_square_bound(p, trajectories) + tail, 1.0)


def lsw_term_bound(chances: ArrayLike, trajectories: int, beta: float) -> Vector:
    """E[max_k e^{-k beta}/max(B - k, 1)^2] <= 6/(p^2 (m+1)(m+2)) + e^beta (1 - (1-e^-beta) p)^m.

    It is never above 1 either, which settles p = 0.
    """
    p = _checked(chances, trajectories, beta)
    tail = np.exp(np.minimum(beta + special.xlog1py(trajectories, math.expm1(-beta) * p), 0))
    return np.minimum(inverse_square_bound(p, trajectories) + tail, 1.0)


def lsw_term_short_bound_as_published(chances: ArrayLike, trajectories: int, beta: float) -> Vector:
    """FALSE (section 5): 6 (1/(p m)^2 + beta^2 (1 - beta p/2)^m) for beta <= 1/2."""
    p = _checked(chances, trajectories, beta, most=0.5)
    tail = 6 * beta**2 * _power(beta / 2 * p, trajectories)
    return np.where(p > 0, _six_over(p, trajectories**2) + tail, 1.0)


def lsw_term_short_bound(chances: ArrayLike, trajectories: int, beta: float) -> Vector:
    """For beta <= 1/2 also at most 6/(p m)^2 + 2 (1 - beta p/2)^m."""
    p = _checked(chances, trajectories, beta, most=0.5)
    tail = 2 * _power(beta / 2 * p, trajectories)
    return np.minimum(_six_over(p, trajectories**2) + tail, 1.0)


def expected_lsw_term(chances: ArrayLike, trajectories: int, beta: float) -> Vector:
    """E[max_k e^{-k beta}/max(B - k, 1)^2] for B ~ B_{m,p}, summed, to a relative 1e-10.

    The maximum is 1 at B = 0, else max{B^-2, e^{-beta (B - 1)}}. Where the second is the larger, it
    is summed over another binomial: e^{-beta n} P[B_{m,p} = n] = E[e^{-beta B}] P[B_{m,q} = n] with
    q = p e^-beta / (1 - (1 - e^-beta) p).
    """
    checked = _checked(chances, trajectories, beta)
    beta = min(beta, 2.0)  # above 2 ln 2 the second is never the larger: all such beta are alike

    def term(p: float) -> float:
        lost = -math.expm1(-beta) * p
        n, mass = _binomial(min(p * math.exp(-beta) / (1 - lost), 1.0), trajectories)
        slow = mass[beta * (n - 1) < 2 * np.log(n)].sum() * _power(lost, trajectories)
        n, mass = _binomial(p, trajectories)
        fast = (mass / n**2)[beta * (n - 1) >= 2 * np.log(n)].sum()
        return float(_power(p, trajectories) + math.exp(beta) * slow + fast)

    return _each(term, checked)


def lsw_excess_bound_as_published(setting: Setting) -> float:
    """FALSE (appendix D, theorem): C^2 sum_s w_s ``lsw_term_bound_as_published``."""
    return lsw_factor(setting) * _weighted(setting, lsw_term_bound_as_published)


def lsw_excess_bound(setting: Setting, noise: Noise = "isotropic") -> float:
    """E[excess] <= C^2 sum_s w_s ``lsw_term_bound``: appendix D's theorem, corrected."""
    return lsw_factor(setting, noise) * _weighted(setting, lsw_term_bound)


def lsw_excess_short_bound_as_published(setting: Setting) -> float:
    """FALSE (section 5, theorem): C^2 sum_s w_s ``lsw_term_short_bound_as_published``."""
    return lsw_factor(setting) * _weighted(setting, lsw_term_short_bound_as_published)


def lsw_excess_short_bound(setting: Setting, noise: Noise = "isotropic") -> float:
    """E[excess] <= C^2 sum_s w_s ``lsw_term_short_bound``: section 5's theorem, corrected."""
    return lsw_factor(setting, noise) * _weighted(setting, lsw_term_short_bound)


def expected_lsw_excess(setting: Setting, noise: Noise = "isotropic") -> Bounds:
    """C^2 E[psi_X^w] between two sums over binomials; nothing is simulated.

    E[psi] <= sum_s w_s T_s with T_s from ``expected_lsw_term``, and both w_s T_s, for any s, and
    e^{-k beta} sum_s w_s E[max(|X_s| - k, 1)^-2], for any k, are at most E[psi].
    """
    p, m, beta = setting.chances, setting.trajectories, setting.calibration.beta
    places = np.unique(np.maximum(np.round(m * p) - 1, 0))
    some = np.linspace(0, len(places) - 1, min(len(places), _CANDIDATES)).astype(np.int64)
    ks = np.concatenate([[0.0], places[some]])

    def phi(p: float) -> Vector:
        n, mass = _binomial(p, m, least=0)
        return np.array([np.sum(mass / np.maximum(n - k, 1.0) ** 2) for k in ks])

    terms = setting.design.weights * expected_lsw_term(p, m, beta)
    at_k = np.exp(-beta * ks) * (setting.design.weights @ _each(phi, p))
    upper, lower = float(terms.sum()), max(float(terms.max()), float(at_k.max()))
    factor = lsw_factor(setting, noise)
    return Bounds(lower=factor * min(lower, upper), upper=factor * upper)


# Utility of DP-LSL: section 5, appendix E


def lsl_factor(setting: Setting) -> float:
    """C_lambda^2, C_lambda = 2 alpha F ||Phi|| / (lambda - ||Phi||^2 ||rho||_inf)."""
    _slope_and_offset(setting)  # refuses a ridge that is too small
    room = setting.ridge - setting.design.norm**2 * float(setting.design.weights.max())
    return (2 * setting.calibration.alpha * setting.largest * setting.design.norm / room) ** 2


def lsl_excess_given_counts(setting: Setting, counts: Integers) -> float:
    """(lambda d/(2 m) + (1/m) sum_s rho_s ||phi_s||^2 |X_s|) C_lambda^2 psi_X^lambda: no bound.

    ap:lem:totalexpl; the expectation over eta of J_X^lambda(theta + eta) - J_X^lambda(theta).
    """
    slope, offset = _slope_and_offset(setting)
    rho, m, beta = setting.design.weights, setting.trajectories, setting.calibration.beta
    psi = smooth_lsl(counts, rho, m, beta, slope=slope, offset=offset)
    curvature = setting.ridge * setting.design.dimension / 2 + float(_energy(setting) @ counts)
    return curvature / m * lsl_factor(setting) * psi


def largest_lsl_term_as_published(a: float, b: float, m: float) -> float:
    """FALSE (appendix E, lemma): "max of e^{-2 b x} (a + x) on [0, m - a]", its cases mixed up."""
    _require(0 <= a <= m and b > 0, f"a is {a}, b is {b}; a must be in [0, {m}], and b above 0")
    if b < a / 2:
        return a
    return m * math.exp(-2 * b * (m - a)) if b > m / 2 else math.exp(2 * a * b) / (2 * math.e * b)


def largest_lsl_term(a: float, c: float, m: float) -> float:
    """max_{0 <= x <= m - a} e^{-c x} (a + x): at 0 if c a >= 1, at the end if c m <= 1."""
    _require(0 <= a <= m and c > 0, f"a is {a}, c is {c}; a must be in [0, {m}], and c above 0")
    if c * a >= 1:
        return a
    return m * math.exp(-c * (m - a)) if c * m <= 1 else math.exp(c * a - 1) / c


def lsl_term_bound_as_published(counts: ArrayLike, trajectories: int, beta: float) -> Vector:
    """FALSE (ap:eq:ubmaxl): n + 1{n = 0}/(2 e beta) for max_k e^{-2 k beta} min(n + k, m)."""
    n = np.asarray(counts, dtype=np.float64)
    _checked(0.0, trajectories, beta, most=0.5)
    return np.asarray(n + (n == 0) / (2 * math.e * beta))


def lsl_term_bound(counts: ArrayLike, trajectories: int, beta: float) -> Vector:
    """max_k e^{-k beta} min(n + k, m) <= n + min{(1 - beta n)_+/(e beta), h}."""
    n = np.asarray(counts, dtype=np.float64)
    _checked(0.0, trajectories, beta)
    room = np.maximum(1 - beta * n, 0.0) / math.e / beta
    return np.asarray(n + np.minimum(room, largest_lsl_term(0.0, beta, trajectories)))


def expected_lsl_term(chances: ArrayLike, trajectories: int, beta: float) -> Vector:
    """E[max_k e^{-k beta} min(B + k, m)] for B ~ B_{m,p}, summed, to a relative 1e-10."""
    checked = _checked(chances, trajectories, beta)
    return _each(lambda p: _lsl_moments(p, trajectories, beta)[0], checked)


def _lsl_moments(p: float, m: int, beta: float) -> Vector:
    """E[G] and E[B G], G = max_k e^{-k beta} min(B + k, m) = j e^{-beta (j - B)}.

    j e^{-beta j} grows up to j = ceil(1/(e^beta - 1)), and j = B + k goes from B to m.
    """
    n, mass = _binomial(p, m, least=0)
    top = math.ceil(min(1 / math.expm1(min(beta, 700.0)), m))
    j = np.maximum(n, top)
    largest = mass * j * np.exp(-beta * (j - n))
    return np.array([largest.sum(), n @ largest])


def lsl_excess_bound_as_published(setting: Setting) -> float:
    """FALSE (appendix E, theorem): with |X_s| + 1{|X_s| = 0}/(2 e beta) for the maximum."""
    p, m, beta = setting.chances, setting.trajectories, setting.calibration.beta
    _checked(p, m, beta, most=0.5)
    alone = p[:, None] - _joint(setting)  # pbar
    one = 1 / (2 * math.e * beta)
    products = _products(setting) + one * m * alone * _power(p, m - 1)
    return _lsl_sum(setting, m * p + one * _power(p, m), products)


def lsl_excess_bound(setting: Setting) -> float:
    """E[excess] with |X_s| + h for the maximum: appendix E's theorem, corrected.

    In its terms: (1-p_s)^m/(2 e beta) and pbar_{s,s'} (1-p_s')^{m-1}/(2 e beta), s != s', become h
    and p_s h, all s and s'. h = 1/(e beta) once m >= 1/beta.
    """
    p, m = setting.chances, setting.trajectories
    h = largest_lsl_term(0.0, setting.calibration.beta, m)
    return _lsl_sum(setting, m * p + h, _products(setting) + m * h * p[:, None])


def lsl_excess_summed_bound(setting: Setting) -> float:
    """E[excess] with the maximum itself, summed over binomials: at most ``lsl_excess_bound``.

    E[|X_s| G_s'] needs no more than B = |X_s'|: given B, the mean of |X_s| is
    B p_{s,s'}/p_s' + (m - B) pbar_{s,s'}/(1 - p_s').
    """
    p, m, joint = setting.chances, setting.trajectories, _joint(setting)
    mean, with_b = _each(lambda x: _lsl_moments(x, m, setting.calibration.beta), p).T
    both = np.divide(joint, p, out=np.zeros_like(joint), where=p > 0)
    alone = np.divide(p[:, None] - joint, 1 - p, out=np.zeros_like(joint), where=p < 1)
    return _lsl_sum(setting, mean, both * with_b + alone * (m * mean - with_b))


def _lsl_sum(setting: Setting, mean: Vector, products: Vector) -> float:
    """C_lambda^2 E[Q (2 ||rho||_2^2 + (K/lambda) sum_s' rho_s' G_s')] from E[G_s'], E[|X_s| G_s'].

    Q = lambda d/(2 m) + (1/m) sum_s rho_s ||phi_s||^2 |X_s|; (a + b)^2 <= 2 a^2 + 2 b^2 in psi.
    """
    rho, m, energy = setting.design.weights, setting.trajectories, _energy(setting)
    slope, offset = _slope_and_offset(setting)
    start = setting.ridge * setting.design.dimension / (2 * m)
    first = 2 * offset**2 * (start + float(energy @ setting.chances))
    second = 2 * slope**2 * float(rho @ (start * mean + energy @ products / m))
    return lsl_factor(setting) * (first + second)


def _products(setting: Setting) -> Vector:
    """E[|X_s| |X_s'|] = m (m - 1) p_s p_s' + m p_{s,s'} (ap:lem:pssp)."""
    p, m = setting.chances, setting.trajectories
    return np.asarray(m * (m - 1) * np.outer(p, p) + m * _joint(setting))


def _energy(setting: Setting) -> Vector:
    """rho_s ||phi_s||^2."""
    return np.asarray(setting.design.weights * row_norms(setting.design.phi) ** 2)


def _joint(setting: Setting) -> Vector:
    _require(setting.joint is not None, "the bounds of DP-LSL need joint, the p_{s,s'}; give it")
    return np.asarray(setting.joint)


# Sums over binomials


def _six_over(p: Vector, product: int) -> Vector:
    """6/(p^2 product), infinite at p = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(6 / product / p / p)


def _power(x: ArrayLike, m: int) -> Vector:
    """(1 - x)^m, for small x and large m, too."""
    return np.asarray(np.exp(special.xlog1py(m, -np.asarray(x))))


def _weighted(setting: Setting, term: Callable[[ArrayLike, int, float], Vector]) -> float:
    terms = term(setting.chances, setting.trajectories, setting.calibration.beta)
    return float(setting.design.weights @ terms)


def _binomial(p: float, m: int, least: int = 1) -> tuple[Vector, Vector]:
    """The n >= least that matter, and P[B_{m,p} = n]: e^{-45}/(m+1)^2 is left out (Bernstein)."""
    exponent = 45 + 2 * math.log(m + 1)
    reach = math.sqrt(2 * exponent * m * p * (1 - p)) + exponent
    first, last = max(least, math.floor(m * p - reach)), min(m, math.ceil(m * p + reach))
    n = np.arange(first, last + 1, dtype=np.float64)
    return n, np.asarray(stats.binom.pmf(n, m, p))


def _each(function: Callable[[float], ArrayLike], p: Vector) -> Vector:
    """The function at every entry of p, computed once for equal ones."""
    distinct, where = np.unique(p, return_inverse=True)
    return np.array([function(float(x)) for x in distinct])[where.reshape(p.shape)]


def _checked(chances: ArrayLike, m: int, beta: float, most: float = math.inf) -> Vector:
    p = np.array(chances, dtype=np.float64)
    bad = p[~((p >= 0) & (p <= 1))]
    _require(not bad.size, f"a probability of a visit is {bad[:1]}; it must be in [0, 1]")
    whole = isinstance(m, Integral) and m >= 1
    _require(whole, f"trajectories is {m}; it must be a whole number of at least 1")
    allowed = "finite" if most == math.inf else f"at most {most:g}"
    _require(0 < beta <= most and beta < math.inf, f"beta is {beta}; it must be above 0, {allowed}")
    return p


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)
