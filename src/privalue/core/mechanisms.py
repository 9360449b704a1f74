"""Define the mechanisms, and draw: statistics become the numbers that leave.

| symbol      | here               | shape | public                                          |
|-------------|--------------------|-------|-------------------------------------------------|
| mu_X        | ``center``         | d     | **private**                                     |
| sigma_X     | ``deviations``     | d     | dp-ssp, dp-ope: yes; dp-lsw, dp-lsl: **private** |
| psi_X       | ``psi``            |       | dp-lsw, dp-lsl: **private**, the squared sensitivity |
| alpha, beta | ``calibration``    |       | yes                                             |
| alpha_j     | ``stages``         |       | yes, of each stage                              |
| R, F_abs, M | of ``return_bounds`` |     | yes: the range, the largest size, the reach from 0 |
| H, L, q     | ``Limits``         |       | yes                                             |

A mechanism is built from ``Terms``, which are public, before anything is charged; terms that it
cannot use are refused there. ``perturb`` returns what gets noise, and how much; it never fails,
whatever the statistics are. Everything between statistics and ``Draw`` is private and stays here:
post-processing sees the draw alone.

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
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from privalue.core import noise, sensitivity
from privalue.core.calibration import Calibration, exact, gaussian, published_pair
from privalue.core.contributions import Statistics
from privalue.core.design import Design, lsl, lsl_float_error, lsw, lsw_float_error
from privalue.core.kernel import GRID_STEPS, UNIT_ROUNDOFF, Integers, Vector
from privalue.core.limits import Limits, PublicSize, refusal
from privalue.core.noise import Entropy, OperatingSystemEntropy, public_grid
from privalue.core.private import Private, sealed
from privalue.errors import BoundaryError

LARGEST_FACTOR = 1e100  # a product of three such factors is a double
LARGEST_Z = 64.0  # a draw is further from its centre with a chance below 1e-800, Laplace 1e-38
_ROUNDING = 1 + 1e-14  # a few roundings of doubles, towards more noise


class StageRule(Protocol):
    """A public rule by which a stage chooses, from noisy numbers and their standard deviation.

    Rules are not part of the core: their choice is checked, and can cost accuracy only. A rule is a
    value with a method, not a function: private types have mechanisms in them, and no function.
    """

    def choose_level(self, histogram: Vector, deviation: float) -> int:
        """Return a level, from the noisy numbers of trajectories by their largest level."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """All that determines a release besides data and noise; public. Mechanisms add constants.

    The release publishes this very object: after an error between the study file and here, the
    release states what was really done.
    """

    mechanism: ClassVar[str]  # a name of ``MECHANISMS``
    epsilon: float
    delta: float
    limits: Limits
    size: PublicSize
    design: Design


@dataclass(frozen=True, kw_only=True, eq=False)
class SspTerms(Terms):
    """The terms of DP-SSP."""

    mechanism = "dp-ssp"
    shape: Vector  # omega: how precisely each key is released
    count_weight: float  # c_w, in units of R: what a count weighs beside a sum
    shares: Mapping[str, float]  # of mu^2, by stage; the values get the rest
    rules: StageRule | None


@dataclass(frozen=True, kw_only=True, eq=False)
class OpeTerms(Terms):
    """The terms of DP-OPE: the weights of its numbers, relative to the weighted return."""

    mechanism = "dp-ope"
    count_weight: float  # c_w: the weight of a trajectory
    value_weight: float  # c_b: its return without the weight
    size_weight: float  # c_m: one for each trajectory; 0 where their number is public


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothTerms(Terms):
    """The terms that DP-LSW and DP-LSL share, each with a sensitivity from which beta is chosen."""

    calibration: Literal["exact", "nissim", "appendix"]
    beta: float | None  # None where the calibration determines it


@dataclass(frozen=True, kw_only=True, eq=False)
class LswTerms(SmoothTerms):
    """The terms of DP-LSW."""

    mechanism = "dp-lsw"
    whitened: bool
    pseudo_count: float  # kappa
    unvisited: float  # the value of a key without visits, inside the bounds

    def local_sensitivity(self) -> sensitivity.LswSensitivity:
        """Return the squared local sensitivity of F_X, in the norm of the weights."""
        cap = self.size.most_count
        return sensitivity.LswSensitivity(self.limits, self.design.weights, cap, self.pseudo_count)


@dataclass(frozen=True, kw_only=True, eq=False)
class LslTerms(SmoothTerms):
    """The terms of DP-LSL."""

    mechanism = "dp-lsl"
    ridge: float  # lambda

    def local_sensitivity(self) -> sensitivity.RidgeSensitivity:
        """Return the squared local sensitivity of theta, for exact calibration."""
        cap = self.size.most_count
        return sensitivity.RidgeSensitivity(self.limits, self.design, cap, self.ridge)


# The noisy numbers of each stage, in the order of the draw: public from here on. Values follow from
# the last stage, "values".
Draw: TypeAlias = Mapping[str, Vector]


class NoiseLaw(NamedTuple):
    """What is public of the noise that the values get."""

    law: Literal["gaussian", "laplace"]
    grid: float  # of dp-ssp and dp-ope, that of sums of returns, in units of returns
    sigma: float | None  # of the same; None where it follows the data


@sealed
@dataclass(frozen=True, repr=False, eq=False, slots=True)
class Perturbation(Private):
    """What gets noise, and how much: N(center, deviations^2), rounded to the grids, is drawn.

    With ``laplace`` it is the center plus discrete Laplace noise; ``deviations`` are then its
    standard deviations, for plans. Fields that are not marked as public are private: the deviations
    of DP-LSW and DP-LSL depend on the counts.
    """

    center: Vector | Integers
    deviations: float | Vector  # sigma, or one for each coordinate
    grids: float | Vector  # public
    laplace: tuple[Fraction, ...] = ()  # public; scales of discrete Laplace noise in its place


class Mechanism(ABC):
    """What all mechanisms have in common; every attribute is public."""

    stages: Mapping[str, float]  # alpha of each stage, in the order of the draw
    law: NoiseLaw  # of the values, where no stage comes before them

    def __init__(self, terms: Terms, calibration: Calibration) -> None:
        self.terms, self.design, self.calibration = terms, terms.design, calibration
        self.stages = {"values": calibration.alpha}

    @abstractmethod
    def largest_draw(self) -> Draw:
        """Return the largest numbers that could be drawn: post-processing is rehearsed on them."""

    @abstractmethod
    def perturb(self, statistics: Statistics, stage: str, earlier: Draw) -> Perturbation:
        """Return what gets noise in a stage, and how much, after earlier draws. PRIVATE.

        It never raises, whatever the statistics are: it is called after the charge.
        """

    def public_noise(self, earlier: Draw) -> NoiseLaw:
        """Return what is public of the noise of the values, after earlier draws."""
        return self.law


# A caller may have turned warnings into errors, and an error after the charge would depend on
# private values: none is raised here.
@np.errstate(all="ignore")
def draw(mechanism: Mechanism, statistics: Statistics, entropy: Entropy) -> Draw:
    """Draw the noise, once: the one place where private numbers become public ones.

    Each call is a release of its own: two calls with the same statistics spend epsilon and delta
    twice. Each stage follows from the statistics and from earlier draws.

    Args:
        mechanism: with its public constants.
        statistics: the sums of the data. PRIVATE.
        entropy: the source of the noise.

    Returns:
        The noisy numbers of every stage.
    """
    if statistics.limits != mechanism.terms.limits:  # noise and data must have the same
        raise BoundaryError("limits", 0)
    numbers: dict[str, Vector] = {}
    for name in mechanism.stages:
        numbers[name] = add_noise(mechanism.perturb(statistics, name, numbers), entropy)
    return numbers


def add_noise(at: Perturbation, entropy: Entropy) -> Vector:
    """Draw the noise of one perturbation."""
    if at.laplace:
        return noise.laplace_on_grid(at.center, at.laplace, entropy)
    return noise.gaussian_on_grid(at.center, sigma=at.deviations, grid=at.grids, entropy=entropy)


def compile_draw() -> None:
    """Compile every kernel that ``draw`` calls, before a charge: afterwards nothing may fail."""
    # Noise of so many grid steps needs the second word of a number, and with it every kernel.
    noise.gaussian_on_grid(np.zeros(1), sigma=2.0**80, grid=1.0, entropy=OperatingSystemEntropy())


# DP-SSP. Returns are clamped to an interval I = [a, b], the return bounds or what a stage before
# chose within them; c is the middle of I, R its range.
#
# | symbol                        | here            | shape | public      |
# |-------------------------------|-----------------|-------|-------------|
# | n_s                           | ``counts``      | N     | **private** |
# | T_s = S_s - c n_s             | ``centred_sums`` | N    | **private** |
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
    parts = {name: Fraction(share) for name, share in shares.items()}
    parts["values"] = 1 - sum(parts.values(), start=Fraction(0))
    if not (set(shares) == {"bounds"} and min(parts.values()) > 0):
        raise refusal("stage-shares-invalid", shares=dict(shares))
    alphas = {name: alpha / math.sqrt(part) * (1 + 2**-50) for name, part in parts.items()}
    total = sum(1 / Fraction(stage_alpha) ** 2 for stage_alpha in alphas.values())
    if total > 1 / Fraction(alpha) ** 2:  # no assertion: python -O would leave it out
        raise refusal("stage-shares-too-large")
    return alphas


class StatisticsNoise:
    """The noise of each statistic, and what follows from it: public, as earlier draws are."""

    def __init__(self, terms: SspTerms, alpha: float, level: int) -> None:
        limits, weight, shape = terms.limits, terms.count_weight, terms.shape
        low, high = limits.return_bounds
        delta = sensitivity.visit_sensitivity(limits, shape, weight)
        self.level = level
        self.interval = first, last = limits.clamping_interval(level)
        self.squared_sensitivity = delta**2  # in units of R^2
        share = (last - first) / GRID_STEPS  # R of the whole range
        self.sigma = alpha * delta * ((high - low) * share) * _ROUNDING
        self.count_noise = alpha * delta / weight / shape * _ROUNDING
        self.step_noise = alpha * delta * (last - first) / shape * _ROUNDING
        self.deviations = np.concatenate([self.step_noise, self.count_noise])
        # One grid for all sums and one for all counts, each from the least noise among them.
        self.steps_grid = public_grid(float(self.step_noise.min()))
        self.counts_grid = public_grid(float(self.count_noise.min()))
        self.step = (high - low) / GRID_STEPS  # of a return, on its grid
        self.law = NoiseLaw("gaussian", grid=self.steps_grid * self.step, sigma=self.sigma)
        # The upper bound itself where the interval reaches it.
        upper = high if last == GRID_STEPS else low + last * self.step
        self.bounds = (low + first * self.step, upper)


class Ssp(Mechanism):
    """DP-SSP, the Gaussian mechanism on the statistics: its scale is the same for all data sets."""

    terms: SspTerms

    def __init__(self, terms: SspTerms) -> None:
        # The analytic Gaussian mechanism (Balle and Wang 2018), certified.
        super().__init__(terms, gaussian(terms.epsilon, terms.delta))
        self.stages = stage_alphas(self.calibration.alpha, terms.shares)
        self.rules = terms.rules
        self.noise = StatisticsNoise(terms, self.stages["values"], terms.limits.levels - 1)
        self.law = self.noise.law
        # Infinite without the stage: should it be drawn, it would be noise alone.
        alpha = self.stages.get("bounds", math.inf)
        delta = sensitivity.block_sensitivity(terms.limits, np.ones(1), 1.0, 2.0) * (1 + 1e-15)
        self.bounds_sigma = alpha * delta * _ROUNDING

    def noise_after(self, earlier: Draw) -> StatisticsNoise:
        """Return the noise of the values with returns clamped as a stage chose; public.

        Whatever level a rule chooses, the values get the noise that the level needs: a rule can
        cost accuracy, never privacy. It sees released numbers alone, so that even its failure would
        reveal nothing more. But a charged release must not be lost, so a rule that fails chooses
        nothing, and returns are clamped as declared.
        """
        if "bounds" in earlier and self.rules is not None:
            with suppress(Exception):
                level = self.rules.choose_level(earlier["bounds"], self.bounds_sigma)
                if level in range(self.terms.limits.levels):
                    return StatisticsNoise(self.terms, self.stages["values"], int(level))
        return self.noise

    def largest_draw(self) -> Draw:
        """Return what could be drawn if every trajectory visited every state, beyond all bounds."""
        most = np.repeat([GRID_STEPS / 2, 1.0], self.design.states) * self.terms.size.most_count
        histogram = np.full(self.terms.limits.levels, self.terms.size.most_count, dtype=np.float64)
        stages = {"bounds": histogram, "values": most + LARGEST_Z * self.noise.deviations}
        return {stage: stages[stage] for stage in self.stages}

    def perturb(self, statistics: Statistics, stage: str, earlier: Draw) -> Perturbation:
        """Return what gets noise in a stage, and the noise of each number. PRIVATE.

        T_s counts returns from the middle of the interval: from there none is further than R/2,
        where from its lower end it could be R.
        """
        if stage == "bounds":
            grid = public_grid(self.bounds_sigma)
            return Perturbation(statistics.largest_levels, self.bounds_sigma, grid)
        noise, counts = self.noise_after(earlier), statistics.counts
        middle = sum(noise.interval) // 2  # a whole step: both ends are even
        centred_sums = statistics.clamped_steps(noise.level) - counts * middle  # exact
        grids = np.repeat([noise.steps_grid, noise.counts_grid], len(counts))
        return Perturbation(np.concatenate([centred_sums, counts]), noise.deviations, grids)

    def public_noise(self, earlier: Draw) -> NoiseLaw:
        """Return what is public of the noise: of the sums, whose grid is in units of returns."""
        return self.noise_after(earlier).law


# DP-LSW and DP-LSL: a smooth bound of the local sensitivity, its calibration, the noise.


class SmoothMechanism(Mechanism):
    """DP-LSW or DP-LSL: noise of one scale, which follows the data through psi.

    sensitivity(X) <= factor sqrt(psi(counts, beta)) + 2 rounding. psi is a beta-smooth upper bound
    of the squared local sensitivity: between neighbours its logarithm differs by at most beta
    (Nissim, Raskhodnikova and Smith 2011). Of counts it is PRIVATE, and all else is public.
    """

    factor: float
    rounding: float  # tau
    largest_center: float  # an upper bound of the norm of what gets noise
    local: sensitivity.LswSensitivity | sensitivity.LslSensitivity | sensitivity.RidgeSensitivity

    def __init__(self, terms: LswTerms | LslTerms) -> None:
        """Calibrate the noise, once the bound of the sensitivity is known.

        A bound whose parts come near the ends of what doubles can hold is refused: there products
        would underflow, and the noise with them, or overflow.
        """
        least, most = self.local.extremes()
        parts = (least, most, self.factor, self.factor * math.sqrt(most))
        inside = all(1 / LARGEST_FACTOR <= part <= LARGEST_FACTOR for part in parts)
        if not inside or not self.rounding + self.largest_center <= LARGEST_FACTOR:
            raise refusal("noise-not-computable")
        # A beta of the terms goes with exact calibration; the published pairs bring their own.
        promise = (terms.epsilon, terms.delta, terms.design.dimension)
        if terms.beta is None:
            super().__init__(terms, published_pair(terms.calibration, *promise))
        else:
            super().__init__(terms, exact(*promise, terms.beta))
        # From the least sigma over all data sets: that of this one would give itself away.
        self.law = NoiseLaw("gaussian", grid=public_grid(self.sigma(least)), sigma=None)
        self.largest_number = self.largest_center + LARGEST_Z * self.sigma(most)

    def psi(self, counts: Integers) -> float:
        """Return psi_X by the counts: line 3 of [BGP16] Algorithms 1 and 2. PRIVATE."""
        return self.local.smooth(counts, self.calibration.beta)

    def sigma(self, psi: float) -> float:
        """Return alpha (factor sqrt(psi) + 2 tau). PRIVATE if psi is.

        The computed centre is off by up to tau at both neighbours. Adding a public constant keeps
        ln sigma^2 beta-smooth (docs/proofs/dp-lsw.md, "Adding a constant").
        """
        return self.calibration.alpha * (self.factor * math.sqrt(psi) + 2 * self.rounding)

    @abstractmethod
    def center(self, statistics: Statistics) -> Vector:
        """Return what gets noise. PRIVATE."""

    def largest_draw(self) -> Draw:
        """Return what could be drawn at the largest centre with the largest noise."""
        return {"values": np.full(self.design.dimension, self.largest_number)}

    def perturb(self, statistics: Statistics, stage: str, earlier: Draw) -> Perturbation:
        """Follow [BGP16] Algorithms 1 and 2 up to the draw of eta. PRIVATE."""
        sigma = self.sigma(self.psi(statistics.counts))  # lines 3 and 4
        return Perturbation(self.center(statistics), sigma, self.law.grid)


class Lsw(SmoothMechanism):
    """DP-LSW, [BGP16] Algorithm 1: theta gets noise, or u = W theta with W^T W = Phi^T Gamma Phi.

    u is computed as W^{-T} A^T (Gamma^{1/2} F_X), A = Gamma^{1/2} Phi: A W^{-1} has orthonormal
    columns, so u moves by at most ||F_X - F_X'||_{2,Gamma}. theta = W^{-1} u is post-processing.
    The covariance of its noise is at most the paper's, in the Loewner order
    (docs/proofs/dp-lsw.md). Everything about W is public.
    """

    terms: LswTerms

    def __init__(self, terms: LswTerms) -> None:
        """Bound ||mu_X - mu_X'|| by R ||A^+|| sqrt(psi), without the norm if whitened.

        Differs from [BGP16] Algorithm 1: returns lie in [F_lo, F_hi] and only their range R counts,
        since an unvisited state has a public value inside it; every state may get kappa
        pseudo-visits at that value; a person may have L trajectories, and neighbours may differ in
        q states only (docs/proofs/dp-lsw.md); the float error tau of theta is added
        (docs/proofs/noise.md).
        """
        design, limits = terms.design, terms.limits
        design.require_full_rank()
        design.require_well_conditioned()  # else the solver's norm has no bound
        _ = design.weighted_features.root  # what could fail is tried before the charge
        # A W^{-1} has orthonormal columns: if whitened, F_X -> u has norm 1.
        norm = 1.0 if terms.whitened else design.pseudo_inverse_norm
        low, high = limits.return_bounds
        self.factor = (high - low) * norm * (1.0 + 3.0 * design.solver_error)
        self.rounding = lsw_float_error(design, limits, whitened=terms.whitened)
        # ||u_X|| <= F_abs sqrt(sum w), and ||theta_X^w|| <= ||A^+|| times that
        self.largest_center = norm * limits.largest_return * math.sqrt(design.weights.sum())
        self.local = terms.local_sensitivity()
        super().__init__(terms)

    def center(self, statistics: Statistics) -> Vector:
        """Return theta_X^w, or u = W theta_X^w. PRIVATE."""
        terms, design = self.terms, self.design
        means = statistics.mean_returns(terms.unvisited, pseudo_count=terms.pseudo_count)
        if not terms.whitened:
            return lsw(means, design)
        return design.weighted_features.whiten(np.sqrt(design.weights) * means)


class Lsl(SmoothMechanism):
    """DP-LSL, [BGP16] Algorithm 2: theta gets noise."""

    terms: LslTerms

    def __init__(self, terms: LslTerms) -> None:
        """Take the sharper bound with exact calibration, the paper's with the paper's constants.

        ||theta_X - theta_X'|| <= sqrt(psi), for every lambda > 0 (docs/proofs/dp-lsl.md), or
        <= 2 L M ||Phi|| sqrt(psi)/(lambda - ||Phi||^2 ||rho||_inf): line 4 of [BGP16] Algorithm 2,
        with M for its F and the factor L for persons (docs/proofs/dp-lsl.md).
        """
        design, limits, ridge = terms.design, terms.limits, terms.ridge
        cap, rho, norm = terms.size.most_count, design.weights, design.norm
        heaviest, largest = float(rho.max()), limits.largest_return
        self.factor, sharp_bound = 1.0, terms.local_sensitivity()
        self.local = sharp_bound
        self.rounding = lsl_float_error(design, limits, ridge, cap)
        # ||theta_X^lambda|| <= F_abs sqrt(A/(2 lambda)), A at most m sum rho
        self.largest_center = largest * math.sqrt(cap * float(rho.sum()) / (2 * ridge))
        if terms.calibration != "exact":
            smallest = norm**2 * heaviest
            if not ridge > smallest * (1 + 1e-9):
                raise refusal("ridge-too-small", ridge=ridge, smallest=smallest)
            excess = ridge - smallest - 4 * UNIT_ROUNDOFF * ridge  # rounded down
            self.factor = 2 * limits.max_trajectories_per_person * sharp_bound.reach * norm / excess
            # ||theta_X|| <= F_abs sqrt(sum rho n)/sqrt(2 lambda), and the change of the return sums
            # weighted by rho is at most L M times the norm of the q largest rho.
            slope = largest / sharp_bound.reach * norm * heaviest / math.sqrt(2 * ridge)
            offset = float(np.linalg.norm(np.sort(rho)[-sharp_bound.max_keys_changed :]))
            self.local = sensitivity.LslSensitivity(limits, rho, cap, slope, offset)
        super().__init__(terms)

    def center(self, statistics: Statistics) -> Vector:
        """Return theta_X^lambda. PRIVATE."""
        return lsl(statistics.counts, statistics.return_sums, self.design, self.terms.ridge)


# DP-OPE: the value of another policy, by clipped importance weights.
#
# | symbol                      | here             | shape | public      |
# |-----------------------------|------------------|-------|-------------|
# | rho, in 2^30 steps of C     | ``weight_steps`` summed  | N | **private** |
# | t = rho (G - c), in 2^30 steps of C R | ``weighted_steps`` summed | N | **private** |
# | c_w, c_b, c_m               | ``terms``        |       | yes         |
# | M, D                        | ``norm``, ``distance`` | | yes         |
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

    def __init__(self, terms: OpeTerms) -> None:
        limits = terms.limits
        weights = (1.0, terms.count_weight, terms.value_weight, terms.size_weight)
        positive = all(1e-6 <= weight <= 1e6 for weight in (terms.epsilon, *weights[:3]))
        if not (limits.clip and positive and 0 <= terms.size_weight <= 1e6 and terms.delta == 0):
            raise refusal("ope-terms-invalid", terms=terms)
        super().__init__(terms, Calibration(alpha=1 / terms.epsilon, beta=0.0))
        norm, distance = weighted_block(terms)
        if not limits.add_remove:  # one that is replaced may have another key
            norm = max(norm if limits.keys == 1 else 2 * norm, distance)
        self.sensitivity = norm * limits.max_trajectories_per_person
        # A ledger charges epsilon as a decimal number: no more than that is spent.
        epsilon = min(Fraction(terms.epsilon), Fraction(repr(float(terms.epsilon))))
        # One unit of the analysed vector in the steps of each part, exactly.
        steps = (GRID_STEPS, GRID_STEPS, GRID_STEPS, 1)
        units = (Fraction(step) / Fraction(w) for step, w in zip(steps, weights, strict=True) if w)
        self.exact_scales = [self.sensitivity / epsilon * unit for unit in units]
        self.scales = [float(scale) for scale in self.exact_scales]
        self.deviations = np.repeat(self.scales, limits.keys) * math.sqrt(2)
        low, high = limits.return_bounds
        step = limits.clip * (high - low) / GRID_STEPS  # of weighted returns
        self.law = NoiseLaw("laplace", grid=step, sigma=float(self.deviations[0]) * step)

    def largest_draw(self) -> Draw:
        """Return what could be drawn if every trajectory had the largest weight."""
        sizes = np.array([GRID_STEPS / 2, GRID_STEPS, GRID_STEPS / 2, 1.0])[: len(self.scales)]
        most = np.repeat(sizes * self.terms.size.most_count, self.terms.limits.keys)
        return {"values": most + LARGEST_Z * self.deviations}

    def perturb(self, statistics: Statistics, stage: str, earlier: Draw) -> Perturbation:
        """Return what gets noise: weighted returns, weights, returns and sizes. PRIVATE."""
        centred_sums = statistics.return_steps - statistics.counts * (GRID_STEPS // 2)
        sums = (statistics.weighted_steps, statistics.weight_steps, centred_sums, statistics.counts)
        center = np.concatenate(sums[: len(self.scales)])
        laplace = tuple(x for x in self.exact_scales for _ in range(len(statistics.counts)))
        return Perturbation(center, self.deviations, 1.0, laplace)


def weighted_block(terms: OpeTerms) -> tuple[Fraction, Fraction]:
    """Return M and D in the norm of sums, exactly.

    In units of C R. One trajectory adds at most M = 1/2 + c_w + c_b/2 + c_m, and two of one key
    differ by at most D = max(1, 1/2 + c_w) + c_b (docs/proofs/weights.md, lemma 1).
    """
    half, w, b, m = map(Fraction, (0.5, terms.count_weight, terms.value_weight, terms.size_weight))
    return half + w + half * b + m, max(Fraction(1), half + w) + b


# By their names in a study; a mechanism refuses terms that it cannot use, by public numbers alone.
MECHANISMS: Mapping[str, Callable[[Any], Mechanism]]
MECHANISMS = {"dp-ssp": Ssp, "dp-lsw": Lsw, "dp-lsl": Lsl, "dp-ope": Ope}
