"""Compute the paper's bounds on privacy and utility, as published and corrected, in its order.

**A function ending in ``_as_published`` is a false statement of [BGP16]**, kept so that tests can
refute it (docs/errata.md); do not use it. All others are proved in docs/proofs/utility.md.
Labels such as ap:lem:max are those of the paper's source.

| symbol                | here                   | shape | public                                  |
|-----------------------|------------------------|-------|-----------------------------------------|
| m                     | ``trajectories``       |       | yes                                     |
| p_s                   | ``visits``             | N     | yes: of the policy, not of the data     |
| p_{s,s'}              | ``joint``              | N x N | yes; its diagonal is p_s                |
| \\|X_s\\| ~ B_{m,p_s} | ``counts``, ``n``      | N     | **private**                             |
| w_s or rho_s          | ``design.weights``     | N     | yes                                     |
| F                     | ``largest``            |       | yes: returns lie in [0, F]              |
| lambda                | ``ridge``              |       | yes                                     |
| C^2, C_lambda^2       | ``lsw_factor``, ``lsl_factor`` | | yes                                   |
| h                     | ``largest_lsl_term(0, beta, m)`` | | yes                                 |

*Excess* is J(theta_X + eta) - J(theta_X), in expectation over the noise eta. Given counts it is
**private**; in expectation over X it is a property of the policy. For DP-LSW the returns may lie in
any interval of width F. Abbreviations: pbar_{s,s'} = p_s - p_{s,s'}, K = ||Phi||^2 ||rho||_inf^2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from privalue.core import Design, Integers, Limits, LslSensitivity, LswSensitivity, Vector
from privalue.core.calibration import Calibration, Profile, privacy_profile
from privalue.errors import UsageError

Noise = Literal["isotropic", "whitened"]
_CANDIDATES = 64  # values of k that a lower bound tries


def paper_limits(states: int) -> Limits:
    """Return the paper's neighbours: one trajectory, replaced by any other."""
    return Limits(
        unit="trajectory",
        neighbours="replace-one",
        keys=states,
        arms=1,
        max_states_per_trajectory=states,
        max_trajectories_per_person=1,
        discount=1.0,
        return_bounds=(0.0, 1.0),
        reward_bounds=(0.0, 1.0),
        levels=1,
        clip=0.0,
        drop_invalid=False,
        has_ends=False,
        drop_truncated=False,
        size_is_public=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The assumptions of the theorems: m independent trajectories, and returns in [0, F]."""

    design: Design
    calibration: Calibration
    visits: Vector
    trajectories: int
    largest: float
    joint: Vector | None = None  # for DP-LSL
    ridge: float = math.inf  # for DP-LSL, which needs a finite one

    def __post_init__(self) -> None:
        n, largest = self.design.states, self.largest
        p = _check_visits(self.visits, self.trajectories, self.calibration.beta)
        _require(p.shape == (n,), f"visits has shape {p.shape}; it must be ({n},), one per state")
        _require(0 < largest < math.inf, f"largest is {largest}; it must be above 0 and finite")
        p.setflags(write=False)
        object.__setattr__(self, "visits", p)
        if self.joint is not None:
            both = _check_visits(self.joint, 1, 1.0)
            _require(both.shape == (n, n), f"joint has shape {both.shape}; it must be ({n}, {n})")
            fits = np.allclose(np.diag(both), p) and bool(np.all(both <= p[:, None] + 1e-9))
            _require(fits, "joint must have visits as its diagonal, and no row entry above it")
            both.setflags(write=False)
            object.__setattr__(self, "joint", both)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """lower <= the true value <= upper."""

    lower: float
    upper: float


# Privacy: section 4, appendices A, B and C


def lemma_1_delta(epsilon: float, delta: float, dimension: int) -> Profile:
    """Return the true delta of Lemma 1's constants (lem:Gaussian) for (epsilon, delta).

    alpha = 5 sqrt(2 ln(2/delta))/epsilon, beta = epsilon/(4 (d + ln(2/delta))). The lemma claims
    that it is at most delta for every epsilon; ``calibration.published_pair`` refuses constants for
    which it is not.
    """
    _require(0 < delta < 1, f"delta is {delta}; it must be above 0 and below 1")
    _require(0 < epsilon < math.inf, f"epsilon is {epsilon}; it must be above 0 and finite")
    log = math.log(2 / delta)
    beta = epsilon / (4 * (dimension + log))
    return privacy_profile(5 * math.sqrt(2 * log) / epsilon, beta, dimension, epsilon)


def phi_lsl_as_published(setting: Setting, counts: Integers, k: int = 0) -> float:
    """Return phi_k^lambda(v) with max{v_s + k, m}, which is FALSE (lem:phikl, ap:lem:phikl).

    Algorithm 2 rightly has min.
    """
    slope, offset = _slope_and_offset(setting)
    shifted_counts = np.maximum(counts + k, setting.trajectories)
    return (slope * math.sqrt(float(setting.design.weights @ shifted_counts)) + offset) ** 2


def _slope_and_offset(setting: Setting) -> tuple[float, float]:
    """Return c_lambda = ||Phi|| ||rho||_inf / sqrt(2 lambda), and ||rho||_2."""
    rho, norm, ridge = setting.design.weights, setting.design.norm, setting.ridge
    least = norm**2 * float(rho.max())
    _require(least < ridge < math.inf, f"ridge is {ridge}; it must be above {least:.6g} and finite")
    return norm * float(rho.max()) / math.sqrt(2 * ridge), float(np.linalg.norm(rho))


# Utility of DP-LSW: section 5, appendix D


def lsw_factor(setting: Setting, noise: Noise = "isotropic") -> float:
    """Return C^2 = (alpha F ||A^+|| ||A||_F)^2, A = Gamma^{1/2} Phi; whitened: (alpha F)^2 d."""
    shape = float(setting.design.dimension)
    if noise == "isotropic":
        frobenius = float(setting.design.weighted_features.column_squares().sum())
        shape = setting.design.pseudo_inverse_norm**2 * frobenius
    return (setting.calibration.alpha * setting.largest) ** 2 * shape


def lsw_excess_given_counts(
    setting: Setting, counts: Integers, noise: Noise = "isotropic"
) -> float:
    """Return C^2 psi_X^w = E_eta[J_X^w(theta + eta) - J_X^w(theta)].

    It is an equality, not a bound (ap:lem:totalexpw).
    """
    limits, m = paper_limits(len(counts)), setting.trajectories
    psi = LswSensitivity(limits, setting.design.weights, m, pseudo_count=0.0)
    return lsw_factor(setting, noise) * psi.smooth(counts, setting.calibration.beta)


def largest_lsw_term_as_published(a: float, b: float) -> float:
    """Return "max of e^{-b x}/(a - x)^2 on [0, a - 1]", which is FALSE (ap:lem:max).

    It is the minimum instead.
    """
    _require(a >= 1 and b > 0, f"a is {a} and b is {b}; they must be at least 1, and above 0")
    if b < 2 / a:
        return 1 / a**2
    return math.exp(1 - a * b) if b > 2 else math.e**2 / 4 * b**2 * math.exp(-a * b)


def largest_lsw_term(a: float, b: float) -> float:
    """Return max_{0 <= x <= a - 1} e^{-b x}/(a - x)^2 = max{1/a^2, e^{-b (a - 1)}}."""
    _require(a >= 1 and b > 0, f"a is {a} and b is {b}; they must be at least 1, and above 0")
    return max(1 / a**2, math.exp(-b * (a - 1)))


def inverse_square_bound(visits: ArrayLike, trajectories: int) -> Vector:
    """Return 6/(p^2 (m+1)(m+2)) >= E[B^{-2} 1{B >= 1}] (ap:lem:bin without negative terms)."""
    p = _check_visits(visits, trajectories, 1.0)
    return _six_over(p, (trajectories + 1) * (trajectories + 2))


def lsw_term_bound_as_published(visits: ArrayLike, trajectories: int, beta: float) -> Vector:
    """Return 6/(p^2 (m+1)(m+2)) + (e^2 beta^2/4) (1 - (1 - e^-beta) p)^m.

    As a bound it is FALSE (ap:lem:expmax).
    """
    p = _check_visits(visits, trajectories, beta, most=2)
    tail = math.e**2 / 4 * beta**2 * _power(-math.expm1(-beta) * p, trajectories)
    return np.where(p > 0, inverse_square_bound(p, trajectories) + tail, 1.0)


def lsw_term_bound(visits: ArrayLike, trajectories: int, beta: float) -> Vector:
    """Return 6/(p^2 (m+1)(m+2)) + e^beta (1 - (1-e^-beta) p)^m.

    It bounds E[max_k e^{-k beta}/max(B - k, 1)^2], which is at most 1; the case p = 0 follows.
    """
    p = _check_visits(visits, trajectories, beta)
    tail = np.exp(np.minimum(beta + special.xlog1py(trajectories, math.expm1(-beta) * p), 0))
    return np.minimum(inverse_square_bound(p, trajectories) + tail, 1.0)


def lsw_term_short_bound_as_published(visits: ArrayLike, trajectories: int, beta: float) -> Vector:
    """Return 6 (1/(p m)^2 + beta^2 (1 - beta p/2)^m) for beta <= 1/2.

    As a bound it is FALSE (section 5).
    """
    p = _check_visits(visits, trajectories, beta, most=0.5)
    tail = 6 * beta**2 * _power(beta / 2 * p, trajectories)
    return np.where(p > 0, _six_over(p, trajectories**2) + tail, 1.0)


def lsw_term_short_bound(visits: ArrayLike, trajectories: int, beta: float) -> Vector:
    """Return 6/(p m)^2 + 2 (1 - beta p/2)^m, which bounds the same for beta <= 1/2."""
    p = _check_visits(visits, trajectories, beta, most=0.5)
    tail = 2 * _power(beta / 2 * p, trajectories)
    return np.minimum(_six_over(p, trajectories**2) + tail, 1.0)


def expected_lsw_term(visits: ArrayLike, trajectories: int, beta: float) -> Vector:
    """Return E[max_k e^{-k beta}/max(B - k, 1)^2] for B ~ B_{m,p}, to a relative 1e-10.

    The maximum is 1 at B = 0, else max{B^-2, e^{-beta (B - 1)}}. Where the second term is larger,
    it is summed over another binomial: e^{-beta n} P[B_{m,p} = n] = E[e^{-beta B}] P[B_{m,q} = n]
    with q = p e^-beta / (1 - (1 - e^-beta) p).
    """
    probabilities = _check_visits(visits, trajectories, beta)
    beta = min(beta, 2.0)  # above 2 ln 2 the second term is never larger: the result is constant

    def term(p: float) -> float:
        complement = -math.expm1(-beta) * p
        n, mass = _binomial(min(p * math.exp(-beta) / (1 - complement), 1.0), trajectories)
        slow = mass[beta * (n - 1) < 2 * np.log(n)].sum() * _power(complement, trajectories)
        n, mass = _binomial(p, trajectories)
        fast = (mass / n**2)[beta * (n - 1) >= 2 * np.log(n)].sum()
        return float(_power(p, trajectories) + math.exp(beta) * slow + fast)

    return _map_distinct(term, probabilities)


def lsw_excess_bound_as_published(setting: Setting) -> float:
    """Return C^2 sum_s w_s ``lsw_term_bound_as_published``: FALSE (appendix D, theorem)."""
    return lsw_factor(setting) * _weighted_sum(setting, lsw_term_bound_as_published)


def lsw_excess_bound(setting: Setting, noise: Noise = "isotropic") -> float:
    """Return C^2 sum_s w_s ``lsw_term_bound`` >= E[excess]: appendix D's theorem, corrected."""
    return lsw_factor(setting, noise) * _weighted_sum(setting, lsw_term_bound)


def lsw_excess_short_bound_as_published(setting: Setting) -> float:
    """Return C^2 sum_s w_s ``lsw_term_short_bound_as_published``: FALSE (section 5, theorem)."""
    return lsw_factor(setting) * _weighted_sum(setting, lsw_term_short_bound_as_published)


def lsw_excess_short_bound(setting: Setting, noise: Noise = "isotropic") -> float:
    """Return C^2 sum_s w_s ``lsw_term_short_bound``: section 5's theorem, corrected."""
    return lsw_factor(setting, noise) * _weighted_sum(setting, lsw_term_short_bound)


def expected_lsw_excess(setting: Setting, noise: Noise = "isotropic") -> Bounds:
    """Return bounds of C^2 E[psi_X^w] by sums over binomials, without simulation.

    E[psi] <= sum_s w_s T_s with T_s from ``expected_lsw_term``. E[psi] >= w_s T_s for any s, and
    E[psi] >= e^{-k beta} sum_s w_s E[max(|X_s| - k, 1)^-2] for any k.
    """
    p, m, beta = setting.visits, setting.trajectories, setting.calibration.beta
    places = np.unique(np.maximum(np.round(m * p) - 1, 0))
    chosen_places = np.linspace(0, len(places) - 1, min(len(places), _CANDIDATES)).astype(np.int64)
    ks = np.concatenate([[0.0], places[chosen_places]])

    def phi(p: float) -> Vector:
        n, mass = _binomial(p, m, least=0)
        return np.array([np.sum(mass / np.maximum(n - k, 1.0) ** 2) for k in ks])

    terms = setting.design.weights * expected_lsw_term(p, m, beta)
    at_k = np.exp(-beta * ks) * (setting.design.weights @ _map_distinct(phi, p))
    upper, lower = float(terms.sum()), max(float(terms.max()), float(at_k.max()))
    factor = lsw_factor(setting, noise)
    return Bounds(lower=factor * min(lower, upper), upper=factor * upper)


# Utility of DP-LSL: section 5, appendix E


def lsl_factor(setting: Setting) -> float:
    """Return C_lambda^2, C_lambda = 2 alpha F ||Phi|| / (lambda - ||Phi||^2 ||rho||_inf)."""
    _slope_and_offset(setting)  # refuses a ridge that is too small
    margin = setting.ridge - setting.design.norm**2 * float(setting.design.weights.max())
    return (2 * setting.calibration.alpha * setting.largest * setting.design.norm / margin) ** 2


def lsl_excess_given_counts(setting: Setting, counts: Integers) -> float:
    """Return (lambda d/(2 m) + (1/m) sum_s rho_s ||phi_s||^2 |X_s|) C_lambda^2 psi_X^lambda.

    It equals E_eta[J_X^lambda(theta + eta) - J_X^lambda(theta)]: an equality, not a bound
    (ap:lem:totalexpl).
    """
    slope, offset = _slope_and_offset(setting)
    rho, m, beta = setting.design.weights, setting.trajectories, setting.calibration.beta
    psi = LslSensitivity(paper_limits(len(counts)), rho, m, slope, offset).smooth(counts, beta)
    curvature = setting.ridge * setting.design.dimension / 2 + float(_energy(setting) @ counts)
    return curvature / m * lsl_factor(setting) * psi


def largest_lsl_term_as_published(a: float, b: float, m: float) -> float:
    """Return "max of e^{-2 b x} (a + x) on [0, m - a]", which is FALSE (appendix E, lemma).

    Its cases are interchanged.
    """
    _require(0 <= a <= m and b > 0, f"a is {a}, b is {b}; a must be in [0, {m}], and b above 0")
    if b < a / 2:
        return a
    return m * math.exp(-2 * b * (m - a)) if b > m / 2 else math.exp(2 * a * b) / (2 * math.e * b)


def largest_lsl_term(a: float, c: float, m: float) -> float:
    """Return max_{0 <= x <= m - a} e^{-c x} (a + x): at 0 if c a >= 1, at the end if c m <= 1."""
    _require(0 <= a <= m and c > 0, f"a is {a}, c is {c}; a must be in [0, {m}], and c above 0")
    if c * a >= 1:
        return a
    return m * math.exp(-c * (m - a)) if c * m <= 1 else math.exp(c * a - 1) / c


def expected_lsl_term(visits: ArrayLike, trajectories: int, beta: float) -> Vector:
    """Return E[max_k e^{-k beta} min(B + k, m)] for B ~ B_{m,p}, summed, to a relative 1e-10."""
    p = _check_visits(visits, trajectories, beta)
    return _map_distinct(lambda x: _lsl_moments(x, trajectories, beta)[0], p)


def _lsl_moments(p: float, m: int, beta: float) -> Vector:
    """Return E[G] and E[B G], G = max_k e^{-k beta} min(B + k, m) = j e^{-beta (j - B)}.

    j e^{-beta j} grows up to j = ceil(1/(e^beta - 1)), and j = B + k goes from B to m.
    """
    n, mass = _binomial(p, m, least=0)
    top = math.ceil(min(1 / math.expm1(min(beta, 700.0)), m))
    j = np.maximum(n, top)
    largest = mass * j * np.exp(-beta * (j - n))
    return np.array([largest.sum(), n @ largest])


def lsl_excess_bound_as_published(setting: Setting) -> float:
    """Return the bound that replaces the maximum by |X_s| + 1{|X_s| = 0}/(2 e beta).

    It is FALSE (appendix E, theorem).
    """
    p, m, beta = setting.visits, setting.trajectories, setting.calibration.beta
    _check_visits(p, m, beta, most=0.5)
    alone = p[:, None] - _joint(setting)  # pbar
    one = 1 / (2 * math.e * beta)
    products = _products(setting) + one * m * alone * _power(p, m - 1)
    return _lsl_sum(setting, m * p + one * _power(p, m), products)


def lsl_excess_bound(setting: Setting) -> float:
    """Return the bound of E[excess] that replaces the maximum by |X_s| + h: appendix E, corrected.

    The paper's terms (1-p_s)^m/(2 e beta) and pbar_{s,s'} (1-p_s')^{m-1}/(2 e beta), s != s',
    become h and p_s h, for all s and s'. h = 1/(e beta) once m >= 1/beta.
    """
    p, m = setting.visits, setting.trajectories
    h = largest_lsl_term(0.0, setting.calibration.beta, m)
    return _lsl_sum(setting, m * p + h, _products(setting) + m * h * p[:, None])


def lsl_excess_summed_bound(setting: Setting) -> float:
    """Return the bound of E[excess] with the exact maximum, summed over binomials.

    It is at most ``lsl_excess_bound``.

    E[|X_s| G_s'] depends on B = |X_s'| alone: given B, the mean of |X_s| is
    B p_{s,s'}/p_s' + (m - B) pbar_{s,s'}/(1 - p_s').
    """
    p, m, joint = setting.visits, setting.trajectories, _joint(setting)
    mean, with_b = _map_distinct(lambda x: _lsl_moments(x, m, setting.calibration.beta), p).T
    both = np.divide(joint, p, out=np.zeros_like(joint), where=p > 0)
    alone = np.divide(p[:, None] - joint, 1 - p, out=np.zeros_like(joint), where=p < 1)
    return _lsl_sum(setting, mean, both * with_b + alone * (m * mean - with_b))


def _lsl_sum(setting: Setting, mean: Vector, products: Vector) -> float:
    """Return C_lambda^2 E[Q (2 ||rho||_2^2 + (K/lambda) sum_s' rho_s' G_s')].

    Args:
        setting: m, the design and the constants.
        mean: E[G_s'].
        products: E[|X_s| G_s'].

    Q = lambda d/(2 m) + (1/m) sum_s rho_s ||phi_s||^2 |X_s|; (a + b)^2 <= 2 a^2 + 2 b^2 in psi.
    """
    rho, m, energy = setting.design.weights, setting.trajectories, _energy(setting)
    slope, offset = _slope_and_offset(setting)
    start = setting.ridge * setting.design.dimension / (2 * m)
    first = 2 * offset**2 * (start + float(energy @ setting.visits))
    second = 2 * slope**2 * float(rho @ (start * mean + energy @ products / m))
    return lsl_factor(setting) * (first + second)


def _products(setting: Setting) -> Vector:
    """Return E[|X_s| |X_s'|] = m (m - 1) p_s p_s' + m p_{s,s'} (ap:lem:pssp)."""
    p, m = setting.visits, setting.trajectories
    return np.asarray(m * (m - 1) * np.outer(p, p) + m * _joint(setting))


def _energy(setting: Setting) -> Vector:
    """Return rho_s ||phi_s||^2."""
    return np.asarray(setting.design.weights * (setting.design.phi**2).sum(axis=1))


def _joint(setting: Setting) -> Vector:
    """Return the p_{s,s'} of the setting, or raise UsageError if it has none."""
    _require(setting.joint is not None, "the bounds of DP-LSL need joint, the p_{s,s'}; give it")
    return np.asarray(setting.joint)


# Sums over binomials


def _six_over(p: Vector, product: int) -> Vector:
    """Return 6/(p^2 product), infinite at p = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(6 / product / p / p)


def _power(x: ArrayLike, m: int) -> Vector:
    """Return (1 - x)^m, accurate for small x and large m, too."""
    return np.asarray(np.exp(special.xlog1py(m, -np.asarray(x))))


def _weighted_sum(setting: Setting, term: Callable[[ArrayLike, int, float], Vector]) -> float:
    """Return the sum over states of the weights times a term of p_s, m and beta."""
    terms = term(setting.visits, setting.trajectories, setting.calibration.beta)
    return float(setting.design.weights @ terms)


def _binomial(p: float, m: int, least: int = 1) -> tuple[Vector, Vector]:
    """Return the n >= least of non-negligible probability, and P[B_{m,p} = n].

    The mass left out is at most e^{-45}/(m+1)^2 (Bernstein's inequality).
    """
    exponent = 45 + 2 * math.log(m + 1)
    reach = math.sqrt(2 * exponent * m * p * (1 - p)) + exponent
    first, last = max(least, math.floor(m * p - reach)), min(m, math.ceil(m * p + reach))
    n = np.arange(first, last + 1, dtype=np.float64)
    return n, np.asarray(stats.binom.pmf(n, m, p))


def _map_distinct(function: Callable[[float], ArrayLike], p: Vector) -> Vector:
    """Return the function at every entry of p, computed once per distinct value."""
    distinct, where = np.unique(p, return_inverse=True)
    return np.array([function(float(x)) for x in distinct])[where.reshape(p.shape)]


def _check_visits(visits: ArrayLike, m: int, beta: float, most: float = math.inf) -> Vector:
    """Return the probabilities as an array; raise UsageError for p, m or beta out of range."""
    p = np.array(visits, dtype=np.float64)
    bad = p[~((p >= 0) & (p <= 1))]
    _require(not bad.size, f"a probability of a visit is {bad[:1]}; it must be in [0, 1]")
    whole = isinstance(m, Integral) and m >= 1
    _require(whole, f"trajectories is {m}; it must be a whole number of at least 1")
    allowed = "finite" if most == math.inf else f"at most {most:g}"
    _require(0 < beta <= most and beta < math.inf, f"beta is {beta}; it must be above 0, {allowed}")
    return p


def _require(condition: bool, message: str) -> None:
    """Raise UsageError with the message unless the condition holds."""
    if not condition:
        raise UsageError(message)
