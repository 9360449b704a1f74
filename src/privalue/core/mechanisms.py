"""Define the mechanisms, and draw: statistics become the numbers that leave.

| symbol      | here               | shape | public                                          |
|-------------|--------------------|-------|-------------------------------------------------|
| mu_X        | ``center``         | d     | **private**                                     |
| sigma_X     | ``deviations``     | d     | dp-ssp, dp-ope: yes; dp-lsw, dp-lsl: **private** |
| psi_X       | ``psi``            |       | likewise: the squared sensitivity               |
| alpha, beta | ``calibration``    |       | yes                                             |
| alpha_j     | ``stages``         |       | yes, of each stage                              |
| R, F_abs, M | of ``return_bounds`` |     | yes: the range, the largest size, the reach from 0 |
| H, L, q     | ``Limits``         |       | yes                                             |

A mechanism is made of ``Terms``, which are public, before anything is charged: whatever is refused
is refused there. ``perturb`` turns statistics into where the noise goes, and fails on no statistics
whatever. Everything between statistics and ``Draw`` is private, and nothing of it is returned: what
is drawn is all that post-processing ever sees.

| mechanism | what gets noise                            | noise         | docs/proofs          |
|-----------|--------------------------------------------|---------------|----------------------|
| dp-ssp    | first-visit sums and counts                | Gaussian      | dp-ssp               |
| dp-lsw    | theta^w of [BGP16] Algorithm 1, or W theta | Gaussian, psi | dp-lsw               |
| dp-lsl    | theta^lambda of [BGP16] Algorithm 2        | Gaussian, psi | dp-lsl               |
| dp-ope    | sums of weights and weighted returns       | Laplace       | weights              |
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from privalue.core import noise, sensitivity
from privalue.core.calibration import Calibration, exact, gaussian, published
from privalue.core.contributions import Statistics
from privalue.core.design import Design, lsl, lsl_float_error, lsw, lsw_float_error
from privalue.core.kernel import GRID_STEPS, UNIT_ROUNDOFF, Integers, Vector, running_sums
from privalue.core.limits import Limits, PublicSize, refusal
from privalue.core.noise import Entropy, SeededForExperimentsOnly, public_grid
from privalue.core.private import Private, sealed
from privalue.errors import BoundaryError

STAGES = ("bounds", "values")  # in the order in which they are drawn
LARGEST = 1e150  # of what is multiplied: its square is a double
FAR = 64.0  # standard deviations that no draw is away: the chance is below 1e-800
_ROUNDING = 1 + 1e-14  # a few roundings of doubles, towards more noise

_Constants = TypeVar("_Constants")


class StageRules(Protocol):
    """A public rule by which a stage chooses, from noisy numbers and their standard deviation.

    It is no part of the core: whatever it returns is checked, and costs accuracy at most. It is a
    value with a method, not a function: a mechanism is part of private types, which hold none.
    """

    @property
    def name(self) -> str:
        """What a release calls the rule."""

    def choose_level(self, histogram: Vector, deviation: float) -> int:
        """Return a level, from the noisy numbers of trajectories by their largest level."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SspTerms:
    """The constants of DP-SSP."""

    shape: Vector  # omega: how precisely each key is released
    count_weight: float  # c_w, in units of R: what a count weighs beside a sum
    shares: Mapping[str, float]  # of mu^2, by stage; the values get the rest
    rules: StageRules | None


@dataclass(frozen=True, kw_only=True, eq=False)
class OpeTerms:
    """The constants of DP-OPE: what its numbers weigh beside the weighted return, in its range."""

    count_weight: float  # c_w: the weight of a trajectory
    value_weight: float  # c_b: its return without the weight
    size_weight: float  # c_m: one for each trajectory; 0 where their number is public


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothTerms:
    """The constants that DP-LSW and DP-LSL share."""

    calibration: Literal["exact", "nissim", "appendix"]
    beta: float | None  # None where the calibration says it


@dataclass(frozen=True, kw_only=True, eq=False)
class LswTerms(SmoothTerms):
    """The constants of DP-LSW."""

    whitened: bool
    pseudo_count: float  # kappa
    unvisited: float  # the value of a key that nobody visits, inside the bounds


@dataclass(frozen=True, kw_only=True, eq=False)
class LslTerms(SmoothTerms):
    """The constants of DP-LSL."""

    ridge: float  # lambda


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """All that a release follows from besides the data; public.

    The release publishes this very object: an error made on the way from the study file to here
    gives a release that says what was really done.
    """

    epsilon: float
    delta: float
    limits: Limits
    size: PublicSize
    design: Design
    mechanism: Literal["dp-ssp", "dp-lsw", "dp-lsl", "dp-ope"]
    constants: SspTerms | LswTerms | LslTerms | OpeTerms


# What leaves, and public from here on: the noisy numbers of each stage, in the order in which they
# were drawn; those of the last one, "values", are what values are made of.
Draw: TypeAlias = Mapping[str, Vector]


@dataclass(frozen=True, kw_only=True)
class NoiseLaw:
    """What is public of the noise that the values get."""

    law: Literal["gaussian", "laplace"]
    grid: float  # of dp-ssp and dp-ope, that of sums of returns, in units of returns
    sigma: float | None  # of the same; None where it follows the data


@sealed
@dataclass(frozen=True, repr=False, eq=False, slots=True)
class Perturbation(Private):
    """Where the noise goes: N(center, deviations^2), rounded to the grids, is the mechanism.

    It is all that ``draw`` needs, and private but for what is marked: the deviations of DP-LSW
    and DP-LSL follow the counts.
    """

    center: Vector | Integers
    deviations: float | Vector  # sigma, or one for each coordinate
    grids: float | Vector  # public
    psi: float  # the squared sensitivity that the deviations are for, without rounding
    calibration: Calibration  # public: of this stage
    laplace: tuple[Fraction, ...] = ()  # public; scales of discrete Laplace noise in its place

    def _public_shape(self) -> str:
        return f"dimension={len(self.center)}"


class Mechanism(ABC):
    """What all mechanisms have in common; every attribute is public."""

    stages: Mapping[str, float]  # alpha of each stage, in the order in which they are drawn

    def __init__(self, terms: Terms, calibration: Calibration) -> None:
        self.terms, self.design, self.calibration = terms, terms.design, calibration
        self.stages = {"values": calibration.alpha}

    @abstractmethod
    def perturb(self, statistics: Statistics, stage: str, released: Draw) -> Perturbation:
        """Return what gets noise in a stage, by what was released before it. PRIVATE.

        Nothing raises, whatever the statistics are: it is called after the charge.
        """

    @abstractmethod
    def public_noise(self, released: Draw) -> NoiseLaw:
        """Return what is public of the noise of the values."""

    @abstractmethod
    def largest_numbers(self) -> Vector:
        """Return the largest values that could be drawn: what fails on them fails beforehand."""


# A caller may have turned warnings into errors, and an error after the charge would depend on
# private values: none is raised here.
@np.errstate(all="ignore")
def draw(mechanism: Mechanism, statistics: Statistics, entropy: Entropy) -> Draw:
    """Draw the noise, once: the one place where private numbers become public ones.

    Each call is a release of its own: whoever calls it twice with the same statistics spends
    epsilon and delta twice. Each stage goes by the statistics and by what was released before it.

    Args:
        mechanism: with its public constants.
        statistics: what the data adds up to. PRIVATE.
        entropy: where the noise comes from.

    Returns:
        The noisy numbers of every stage.
    """
    if statistics.limits != mechanism.terms.limits:  # noise and data are held to the same
        raise BoundaryError("limits", 0)
    released: dict[str, Vector] = {}
    for name in mechanism.stages:
        at = mechanism.perturb(statistics, name, released)
        released[name] = add_noise(at, entropy)
    return released


def add_noise(at: Perturbation, entropy: Entropy) -> Vector:
    """Draw the noise of one perturbation."""
    if at.laplace:
        return noise.laplace_on_grid(at.center, at.laplace, entropy)
    return noise.gaussian_on_grid(at.center, sigma=at.deviations, grid=at.grids, entropy=entropy)


def compile_draw() -> None:
    """Compile every kernel that ``draw`` calls, before a charge: afterwards nothing may fail."""
    for sigma in (1.0, 2.0**80):  # of many grid steps: the second word of a number is needed
        source = SeededForExperimentsOnly(0)
        noise.gaussian_on_grid(np.zeros(1), sigma=sigma, grid=1.0, entropy=source)
    running_sums(np.zeros(1))


def _constants(terms: Terms, kind: type[_Constants]) -> _Constants:
    """Return the constants of a mechanism, or refuse those of another one."""
    if not isinstance(terms.constants, kind):
        raise refusal("constants-of-another", terms=terms)
    return terms.constants


# DP-SSP. Returns are clamped to an interval I = [a, b], the return bounds or what a stage before
# chose within them; c is the middle of I, R its range.
#
# | symbol                        | here            | shape | public      |
# |-------------------------------|-----------------|-------|-------------|
# | n_s                           | ``counts``      | N     | **private** |
# | T_s = S_s - c n_s             | ``centred``     | N     | **private** |
# | I = [a, b]                    | ``interval``    |       | yes, in grid steps |
# | omega_s                       | ``shape``       | N     | yes         |
# | c_w, in units of R            | ``weight``      |       | yes         |
# | Delta, in units of R          | ``delta``       |       | yes         |
# | sigma = alpha R Delta         | ``sigma``       |       | yes         |
#
# Noise of standard deviation sigma / omega_s is added to T_s, and sigma / (c_w R omega_s) to n_s:
# what is analysed is the vector of omega_s T_s and omega_s c_w R n_s, whose sensitivity is R Delta,
# with noise sigma. Both statistics are whole numbers (of grid steps, of visits), so nothing is
# rounded before the noise. sigma is the same for all data sets; values, intervals, other features
# are post-processing.
#
# A stage adds noise of standard deviation alpha_j Delta_j to a vector of whole numbers, and is
# 1/alpha_j-Gaussian-DP whatever was released before. Stages compose exactly: they are mu-GDP
# together where the sum of 1/alpha_j^2 is at most mu^2 = 1/alpha^2, also if each is chosen by what
# the earlier ones released (Smith and Thakurta 2022; docs/proofs/dp-ssp.md).
#
# | stage  | what gets noise                                                    | block: M, D     |
# |--------|--------------------------------------------------------------------|-----------------|
# | bounds | trajectories by their largest level                                | 1, 2            |
# | values | sums and counts, returns clamped to the interval that was chosen   | 1/4 + c_w^2, 1  |


def stage_alphas(alpha: float, shares: Mapping[str, float]) -> dict[str, float]:
    """Return alpha_j = alpha/sqrt(share_j), rounded up; the values get what is left.

    In exact arithmetic the sum of 1/alpha_j^2 is at most 1/alpha^2: it is checked.
    """
    if not shares:
        return {"values": alpha}
    parts = {name: Fraction(shares[name]) for name in STAGES if name in shares}
    parts["values"] = 1 - sum(parts.values(), start=Fraction(0))
    if not (set(shares) < set(STAGES) and min(parts.values()) > 0):
        raise refusal("stage-shares-invalid", shares=dict(shares))
    alphas = {name: alpha / math.sqrt(part) * (1 + 2**-50) for name, part in parts.items()}
    spent = sum(1 / Fraction(each) ** 2 for each in alphas.values())
    if spent > 1 / Fraction(alpha) ** 2:  # no assertion: python -O would leave it out
        raise refusal("stage-shares-too-large")
    return alphas


def bounds_sensitivity(limits: Limits) -> float:
    """Return Delta of the numbers of trajectories by their largest level."""
    return sensitivity.block_sensitivity(limits, np.ones(1), 1.0, 2.0) * (1 + 1e-15)


class StatisticsNoise:
    """How much noise each statistic gets: public, and settled by what was released before."""

    def __init__(self, terms: Terms, alpha: float, level: int) -> None:
        limits, constants = terms.limits, _constants(terms, SspTerms)
        weight, shape = constants.count_weight, constants.shape
        low, high = limits.return_bounds
        delta = sensitivity.visit_sensitivity(limits, shape, weight)
        self.level = level
        self.interval = first, last = limits.clamping_interval(level)
        self.squared_sensitivity = delta**2  # in units of R^2
        share = (last - first) / GRID_STEPS  # R of the whole range
        self.sigma = alpha * delta * ((high - low) * share) * _ROUNDING
        self.of_counts = alpha * delta / weight / shape * _ROUNDING
        self.of_steps = alpha * delta * (last - first) / shape * _ROUNDING
        self.deviations = np.concatenate([self.of_steps, self.of_counts])
        # One grid for all sums and one for all counts, each from the least noise among them.
        self.steps_grid = public_grid(float(self.of_steps.min()))
        self.counts_grid = public_grid(float(self.of_counts.min()))
        self.step = (high - low) / GRID_STEPS  # of a return, on its grid
        # The upper bound itself where the interval reaches it.
        upper = high if last == GRID_STEPS else low + last * self.step
        self.bounds = (low + first * self.step, upper)


class Ssp(Mechanism):
    """DP-SSP, the Gaussian mechanism on the statistics: its scale is the same for all data sets."""

    def __init__(self, terms: Terms) -> None:
        # The analytic Gaussian mechanism (Balle and Wang 2018), certified.
        super().__init__(terms, gaussian(terms.epsilon, terms.delta))
        constants = _constants(terms, SspTerms)
        self.stages = stage_alphas(self.calibration.alpha, constants.shares)
        self.rules = constants.rules
        self.noise = StatisticsNoise(terms, self.stages["values"], terms.limits.levels - 1)
        # inf for a stage that is not asked for: it would release noise alone
        alpha = self.stages.get("bounds", math.inf)
        self.bounds_sigma = alpha * bounds_sensitivity(terms.limits) * _ROUNDING

    def noise_at(self, level: int | None) -> StatisticsNoise:
        """Return the noise of the values with returns clamped to a level; None: as declared."""
        if level is None:
            return self.noise
        return StatisticsNoise(self.terms, self.stages["values"], level)

    def level(self, released: Draw) -> int | None:
        """Return the level that a stage chose by what it released; None if there was none; public.

        Whatever a rule returns, later stages get the noise that it calls for: it can cost accuracy,
        and never privacy. It reads released numbers alone, so that even its failure would tell
        nothing else; but what is paid for has to arrive, so a rule that fails chooses nothing.
        """
        if "bounds" not in released or self.rules is None:
            return None
        try:
            level = self.rules.choose_level(released["bounds"], self.bounds_sigma)
            return int(level) if level in range(self.terms.limits.levels) else None
        except Exception:
            return None

    def perturb(self, statistics: Statistics, stage: str, released: Draw) -> Perturbation:
        """Return what gets noise in a stage, and the noise of each number. PRIVATE.

        T_s counts returns from the middle of the interval: from there none is further than R/2,
        where from its lower end it could be R.
        """
        own = Calibration(name="exact", alpha=self.stages[stage], beta=0.0)
        if stage == "bounds":
            sigma, psi = self.bounds_sigma, (self.bounds_sigma / own.alpha) ** 2
            return Perturbation(statistics.largest_levels, sigma, public_grid(sigma), psi, own)
        at, counts = self.noise_at(self.level(released)), statistics.counts
        middle = sum(at.interval) // 2  # a whole step: both ends are even
        centred = statistics.clamped_steps(at.level) - counts * middle  # exact
        center = np.concatenate([centred, counts])
        grids = np.repeat([at.steps_grid, at.counts_grid], len(counts))
        return Perturbation(center, at.deviations, grids, at.squared_sensitivity, own)

    def public_noise(self, released: Draw) -> NoiseLaw:
        """Return what is public of the noise: of the sums, whose grid is in units of returns."""
        at = self.noise_at(self.level(released))
        return NoiseLaw(law="gaussian", grid=at.steps_grid * at.step, sigma=at.sigma)

    def largest_numbers(self) -> Vector:
        """Return what could be drawn if everybody visited every state."""
        most = np.repeat([GRID_STEPS / 2, 1.0], self.design.states) * self.terms.size.most_count
        return np.asarray(most + FAR * self.noise.deviations)


# DP-LSW and DP-LSL: a smooth bound of the local sensitivity, its calibration, the noise.


@dataclass(frozen=True, eq=False)
class SmoothBound:
    """sensitivity(X) <= factor sqrt(psi(counts, beta)) + 2 rounding; all of it is public.

    psi is a beta-smooth upper bound of the squared local sensitivity: between neighbours its
    logarithm differs by at most beta (Nissim, Raskhodnikova and Smith 2011). Of counts it is
    PRIVATE. The grid comes from the least that it can be, the largest noise from the most.
    """

    factor: float
    rounding: float  # tau
    local: sensitivity.LswSensitivity | sensitivity.LslSensitivity | sensitivity.RidgeSensitivity

    def __post_init__(self) -> None:
        """Refuse a bound whose public parts come near the ends of what doubles can hold.

        There products would underflow, and the noise with them, or overflow.
        """
        least, most = self.local.least(), self.local.most()
        parts = (least, most, self.factor, self.factor * math.sqrt(most))
        inside = all(1 / LARGEST <= part <= LARGEST for part in parts)
        if not inside or not self.rounding <= LARGEST:
            raise refusal("noise-not-computable")


def smooth_bound(terms: Terms) -> SmoothBound:
    """Return the bound of dp-lsw or dp-lsl; beta may be still to choose."""
    return _lsw_bound(terms) if isinstance(terms.constants, LswTerms) else _lsl_bound(terms)


def _lsw_bound(terms: Terms) -> SmoothBound:
    """Return ||mu_X - mu_X'|| <= R ||A^+|| sqrt(psi), without the norm if whitened.

    Differs from [BGP16] Algorithm 1: returns lie in [F_lo, F_hi] and only their range R counts,
    since an unvisited state has a public value inside it; every state may get kappa pseudo-visits
    at that value; a person may have L trajectories, and neighbours may differ in q states only
    (docs/proofs/dp-lsw.md); the float error tau of theta is added (docs/proofs/noise.md).
    """
    design, limits, constants = terms.design, terms.limits, _constants(terms, LswTerms)
    design.require_well_conditioned()  # else the solver's norm has no bound
    # A W^{-1} has orthonormal columns: whitened, F_X -> u has norm 1.
    norm = 1.0 if constants.whitened else design.pseudo_inverse_norm
    low, high = limits.return_bounds
    factor = (high - low) * norm * (1.0 + 3.0 * design.solver_error)
    tau = lsw_float_error(design, limits, whitened=constants.whitened)
    cap, kappa = terms.size.most_count, constants.pseudo_count
    return SmoothBound(factor, tau, sensitivity.LswSensitivity(limits, design.weights, cap, kappa))


def _lsl_bound(terms: Terms) -> SmoothBound:
    """Return the sharper bound with exact calibration, the paper's with the paper's constants.

    ||theta_X - theta_X'|| <= sqrt(psi), for every lambda > 0 (docs/proofs/dp-lsl.md), or
    <= 2 L M ||Phi|| sqrt(psi)/(lambda - ||Phi||^2 ||rho||_inf): line 4 of [BGP16] Algorithm 2, with
    M for its F and the factor L for persons (docs/proofs/dp-lsl.md).
    """
    design, limits, constants = terms.design, terms.limits, _constants(terms, LslTerms)
    cap, ridge, rho, norm = terms.size.most_count, constants.ridge, design.weights, design.norm
    at = sensitivity.RidgeSensitivity(limits, design, cap, ridge)
    _ = design.weighted  # psi needs it: what could fail is tried before the charge
    tau = lsl_float_error(design, limits, ridge, cap)
    if constants.calibration == "exact":
        return SmoothBound(1.0, tau, at)
    smallest = norm**2 * float(rho.max())
    if not ridge > smallest * (1 + 1e-9):
        raise refusal("ridge-too-small", ridge=ridge, smallest=smallest)
    room = ridge - smallest - 4 * UNIT_ROUNDOFF * ridge  # rounded down
    # ||theta_X|| <= F_abs sqrt(sum rho n)/sqrt(2 lambda), and the change of the return sums
    # weighted by rho is at most L M times the norm of the q largest rho.
    slope = limits.largest_return / at.reach * norm * float(rho.max()) / math.sqrt(2 * ridge)
    offset = float(np.linalg.norm(np.sort(rho)[-at.max_keys_changed :]))
    factor = 2 * limits.max_trajectories_per_person * at.reach * norm / room
    return SmoothBound(factor, tau, sensitivity.LslSensitivity(limits, rho, cap, slope, offset))


class SmoothMechanism(Mechanism):
    """DP-LSW or DP-LSL: noise of one scale, which follows the data through psi."""

    def __init__(self, terms: Terms, constants: SmoothTerms) -> None:
        self.bound = smooth_bound(terms)
        # A beta of the terms goes with exact calibration; the published pairs bring their own.
        promise = (terms.epsilon, terms.delta, terms.design.dimension)
        if constants.beta is None:
            super().__init__(terms, published(constants.calibration, *promise))
        else:
            super().__init__(terms, exact(*promise, constants.beta))
        largest = self.sigma(self.bound.local.most())
        if not largest <= LARGEST:
            raise refusal("noise-too-large", largest=largest)
        # From the least sigma over all data sets: that of this one would give itself away.
        self.grid = public_grid(self.sigma(self.bound.local.least()))

    def sigma(self, psi: float) -> float:
        """Return alpha (factor sqrt(psi) + 2 tau). PRIVATE if psi is.

        The computed centre is off by up to tau at both neighbours. Adding a public constant keeps
        ln sigma^2 beta-smooth (docs/proofs/dp-lsw.md, "Adding a constant").
        """
        bound = self.bound
        return self.calibration.alpha * (bound.factor * math.sqrt(psi) + 2 * bound.rounding)

    @abstractmethod
    def center(self, statistics: Statistics) -> Vector:
        """Return what gets noise. PRIVATE."""

    @abstractmethod
    def largest_center(self) -> float:
        """Return an upper bound of the norm of what gets noise, for all data sets."""

    def perturb(self, statistics: Statistics, stage: str, released: Draw) -> Perturbation:
        """Follow [BGP16] Algorithms 1 and 2 up to the draw of eta. PRIVATE."""
        center = self.center(statistics)  # line 1
        psi = self.bound.local.smooth(statistics.counts, self.calibration.beta)  # line 3
        sigma = self.sigma(psi)  # line 4
        return Perturbation(center, sigma, self.grid, psi, self.calibration)

    def public_noise(self, released: Draw) -> NoiseLaw:
        """Return what is public of the noise; its scale is not."""
        return NoiseLaw(law="gaussian", grid=self.grid, sigma=None)

    def largest_numbers(self) -> Vector:
        """Return what could be drawn at the largest centre with the largest noise."""
        size = self.largest_center() + FAR * self.sigma(self.bound.local.most())
        return np.full(self.design.dimension, size)


class Lsw(SmoothMechanism):
    """DP-LSW, [BGP16] Algorithm 1: theta gets noise, or u = W theta with W^T W = Phi^T Gamma Phi.

    u is computed as W^{-T} A^T (Gamma^{1/2} F_X), A = Gamma^{1/2} Phi: A W^{-1} has orthonormal
    columns, so u moves by at most ||F_X - F_X'||_{2,Gamma}. theta = W^{-1} u is post-processing.
    The covariance of its noise is at most the paper's, in the Loewner order
    (docs/proofs/dp-lsw.md). Everything about W is public.
    """

    def __init__(self, terms: Terms) -> None:
        self.constants = _constants(terms, LswTerms)
        super().__init__(terms, self.constants)
        terms.design.require_full_rank()
        _ = terms.design.weighted_features.root  # what could fail is tried before the charge

    def mean_returns(self, statistics: Statistics) -> Vector:
        """Return F_X with its pseudo-visits, every entry within the return bounds. PRIVATE."""
        constants = self.constants
        return statistics.mean_returns(constants.unvisited, pseudo_count=constants.pseudo_count)

    def center(self, statistics: Statistics) -> Vector:
        """Return theta_X^w, or u = W theta_X^w. PRIVATE."""
        means, design = self.mean_returns(statistics), self.design
        if not self.constants.whitened:
            return lsw(means, design)
        return design.weighted_features.whiten(np.sqrt(design.weights) * means)

    def largest_center(self) -> float:
        """||u_X|| <= F_abs sqrt(sum w); ||theta_X^w|| <= ||(Gamma^{1/2} Phi)^+|| times that."""
        norm = 1.0 if self.constants.whitened else self.design.pseudo_inverse_norm
        return norm * self.terms.limits.largest_return * math.sqrt(self.design.weights.sum())


class Lsl(SmoothMechanism):
    """DP-LSL, [BGP16] Algorithm 2: theta gets noise."""

    def __init__(self, terms: Terms) -> None:
        constants = _constants(terms, LslTerms)
        super().__init__(terms, constants)
        self.ridge = constants.ridge

    def center(self, statistics: Statistics) -> Vector:
        """Return theta_X^lambda. PRIVATE."""
        return lsl(statistics.counts, statistics.return_sums, self.design, self.ridge)

    def largest_center(self) -> float:
        """||theta_X^lambda|| <= F_abs sqrt(A/(2 lambda)), A at most m sum rho."""
        weight = self.terms.size.most_count * float(self.design.weights.sum())
        return self.terms.limits.largest_return * math.sqrt(weight / (2 * self.ridge))


# DP-OPE: what another policy would have been worth, by clipped weights.
#
# | symbol                      | here             | shape | public      |
# |-----------------------------|------------------|-------|-------------|
# | rho, in 2^30 steps of C     | ``weight_steps`` summed  | N | **private** |
# | t = rho (G - c), in 2^30 steps of C R | ``weighted_steps`` summed | N | **private** |
# | c_w, c_b, c_m               | ``constants``    |       | yes         |
# | M, D                        | ``alone``, ``both`` |    | yes         |
# | Delta                       | ``sensitivity``  |       | yes         |
# | s                           | ``scales``       | parts | yes: of the noise, in steps |
#
# A trajectory counts once, for the key at which it starts; one key stands for all where there are
# no groups. It adds (x, c_w rho, c_b y, c_m) there, in units of C R: |y| <= 1/2 is its centred
# return, rho from 0 to 1 its weight, and 2|x| <= rho. The size of data set and groups is private
# but where one trajectory is replaced and there are no groups: then c_m is 0, and the last number
# left out. Everything is a whole number of steps, to which discrete Laplace noise is added: pure
# epsilon (docs/proofs/weights.md).


class Ope(Mechanism):
    """DP-OPE, Laplace noise on sums of weights and of weighted returns."""

    def __init__(self, terms: Terms) -> None:
        limits, constants = terms.limits, _constants(terms, OpeTerms)
        weights = (1.0, constants.count_weight, constants.value_weight, constants.size_weight)
        positive = all(1e-6 <= weight <= 1e6 for weight in weights[:3]) and 0 <= weights[3] <= 1e6
        if not (limits.clip and positive and 1e-6 <= terms.epsilon <= 1e6 and terms.delta == 0):
            raise refusal("ope-terms-invalid", terms=terms)
        super().__init__(terms, Calibration(name="laplace", alpha=1 / terms.epsilon, beta=0.0))
        alone, both = weighted_block(constants)
        if not limits.add_remove:  # one that is replaced may have another key
            alone = max(alone if limits.keys == 1 else 2 * alone, both)
        self.sensitivity = alone * limits.max_trajectories_per_person
        # A ledger charges the decimal that epsilon is written as: no more than that is spent.
        spent = min(Fraction(terms.epsilon), Fraction(repr(float(terms.epsilon))))
        # In steps of each part, what one unit of the analysed vector is; nothing is rounded.
        steps = (GRID_STEPS, GRID_STEPS, GRID_STEPS, 1)
        units = (Fraction(step) / Fraction(w) for step, w in zip(steps, weights, strict=True) if w)
        self.exact_scales = [self.sensitivity / spent * unit for unit in units]
        self.scales = [float(scale) for scale in self.exact_scales]
        self.deviations = np.repeat(self.scales, limits.keys) * math.sqrt(2)
        low, high = limits.return_bounds
        self.step = limits.clip * (high - low) / GRID_STEPS  # of weighted returns

    def perturb(self, statistics: Statistics, stage: str, released: Draw) -> Perturbation:
        """Return what gets noise: weighted returns, weights, returns and sizes. PRIVATE."""
        centred = statistics.return_steps - statistics.counts * (GRID_STEPS // 2)
        sums = (statistics.weighted_steps, statistics.weight_steps, centred, statistics.counts)
        center = np.concatenate(sums[: len(self.scales)])
        laplace = tuple(x for x in self.exact_scales for _ in range(len(statistics.counts)))
        psi = float(self.sensitivity) ** 2
        return Perturbation(center, self.deviations, 1.0, psi, self.calibration, laplace)

    def public_noise(self, released: Draw) -> NoiseLaw:
        """Return what is public of the noise: all of it, of the weighted returns."""
        sigma = float(self.deviations[0]) * self.step
        return NoiseLaw(law="laplace", grid=self.step, sigma=sigma)

    def largest_numbers(self) -> Vector:
        """Return what could be drawn if everybody had the largest weight."""
        sizes = np.array([GRID_STEPS / 2, GRID_STEPS, GRID_STEPS / 2, 1.0])[: len(self.scales)]
        most = np.repeat(sizes * self.terms.size.most_count, self.terms.limits.keys)
        return np.asarray(most + FAR * self.deviations)


def weighted_block(constants: OpeTerms) -> tuple[Fraction, Fraction]:
    """Return M and D in the norm of sums, exactly.

    In units of C R. One trajectory adds at most M = 1/2 + c_w + c_b/2 + c_m, and two of one key
    differ by at most D = max(1, 1/2 + c_w) + c_b (docs/proofs/weights.md, lemma 1).
    """
    given = (0.5, constants.count_weight, constants.value_weight, constants.size_weight)
    half, w, b, m = map(Fraction, given)
    return half + w + half * b + m, max(Fraction(1), half + w) + b


# By their names in a study; each refuses terms from which it cannot be made, by public numbers.
MECHANISMS: Mapping[str, Callable[[Terms], Mechanism]] = {
    "dp-ssp": Ssp,
    "dp-lsw": Lsw,
    "dp-lsl": Lsl,
    "dp-ope": Ope,
}
