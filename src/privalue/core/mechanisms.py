"""Define the mechanisms, and draw: statistics become the numbers that leave.

| symbol      | here               | shape | public                                          |
|-------------|--------------------|-------|-------------------------------------------------|
| mu_X        | ``center``         | d     | **private**                                     |
| sigma_X     | ``deviations``     | d     | dp-ssp, dp-ope: yes; dp-lsw, dp-lsl: **private** |
| psi_X       | ``psi``            |       | **private** for dp-lsw, dp-lsl                  |
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, TypeVar

import numpy as np
import scipy

from privalue.core import noise, sensitivity
from privalue.core.calibration import PUBLISHED, Calibration, exact, gaussian
from privalue.core.contributions import Statistics
from privalue.core.design import Dense, Design, lsl, lsl_float_error, lsw, lsw_float_error
from privalue.core.kernel import GRID_STEPS, UNIT_ROUNDOFF, Integers, Vector
from privalue.core.limits import Limits, LslTerms, LswTerms, OpeTerms, SmoothTerms, SspTerms, Terms
from privalue.core.noise import Entropy, SeededForExperimentsOnly, public_grid
from privalue.core.private import Private, sealed
from privalue.errors import BoundaryError, StudyError

STAGES = ("bounds", "values")  # in the order in which they are drawn
LARGEST = 1e150  # of what is multiplied: its square is a double
FAR = 64.0  # standard deviations that no draw is away: the chance is below 1e-800
_ROUNDING = 1 + 1e-14  # a few roundings of doubles, towards more noise

_Constants = TypeVar("_Constants")


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """What a stage released; public."""

    name: str
    alpha: float
    numbers: Vector  # the centre plus noise, on its grid
    sigma: float | Vector | None  # the standard deviation of each number, where that is public


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """What leaves: the output of the analysed mechanism, and public from here on."""

    stages: tuple[Stage, ...]  # in the order in which they were drawn

    @property
    def numbers(self) -> Vector:
        """Return those of the last stage, which the values are made of."""
        return self.stages[-1].numbers


@dataclass(frozen=True, kw_only=True)
class NoiseLaw:
    """What is public of the noise that the values get."""

    law: Literal["gaussian", "laplace"]
    alpha: float
    beta: float
    grid: float  # of dp-ssp and dp-ope, that of sums of returns, in units of returns
    sigma: float | None  # of the same; None where it follows the data


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Perturbation(Private):
    """Where the noise goes: N(center, deviations^2), rounded to the grids, is the mechanism.

    It is all that ``draw`` needs, and private but for what is marked: the deviations of DP-LSW
    and DP-LSL follow the counts.
    """

    center: Vector | Integers
    deviations: float | Vector  # sigma, or one for each coordinate
    grids: float | Vector  # public
    psi: float
    sigma: float
    calibration: Calibration  # public: of this stage
    laplace: tuple[Fraction, ...] = ()  # public; scales of discrete Laplace noise in its place

    def __post_init__(self) -> None:
        # Copied and read-only: what was computed is what gets noise.
        array = np.array(self.center)
        array.setflags(write=False)
        object.__setattr__(self, "center", array)

    def _public_shape(self) -> str:
        return f"dimension={len(self.center)}"


class Mechanism(Protocol):
    """What all mechanisms have in common; every attribute is public."""

    terms: Terms
    design: Design
    calibration: Calibration
    stages: Mapping[str, float]  # alpha of each stage, in the order in which they are drawn
    sigma_is_public: bool  # the same for all data sets

    def perturb(
        self, statistics: Statistics, stage: str = "values", released: Sequence[Stage] = ()
    ) -> Perturbation:
        """Return what gets noise in a stage, by what was released before it. PRIVATE.

        Nothing raises, whatever the statistics are: it is called after the charge.
        """

    def public_noise(self, released: Sequence[Stage] = ()) -> NoiseLaw:
        """Return what is public of the noise of the values."""

    def largest(self) -> Draw:
        """Return the largest numbers that could be drawn: what fails on them fails beforehand."""


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
    released: list[Stage] = []
    for name, alpha in mechanism.stages.items():
        at = mechanism.perturb(statistics, name, released)
        sigma = at.deviations if mechanism.sigma_is_public else None
        released.append(Stage(name=name, alpha=alpha, numbers=add_noise(at, entropy), sigma=sigma))
    return Draw(stages=tuple(released))


def add_noise(at: Perturbation, entropy: Entropy) -> Vector:
    """Draw the noise of one perturbation."""
    if at.laplace:
        return noise.laplace_on_grid(at.center, at.laplace, entropy)
    return noise.gaussian_on_grid(at.center, sigma=at.deviations, grid=at.grids, entropy=entropy)


def compile_draw() -> None:
    """Compile every kernel that ``draw`` calls, before a charge: afterwards nothing may fail."""
    for sigma in (1.0, 2.0**80):  # of many grid steps: the second word of a number is needed
        noise.gaussian_on_grid(
            np.zeros(1), sigma=sigma, grid=1.0, entropy=SeededForExperimentsOnly(0)
        )
    sensitivity.sum_of_capped_counts(np.zeros(1, dtype=np.int64), np.ones(1), cap=1, per_unit=1)


def _constants(terms: Terms, kind: type[_Constants]) -> _Constants:
    """Return the constants of a mechanism, or refuse those of another one."""
    if not isinstance(terms.constants, kind):
        raise StudyError(f"{terms.constants} are no constants of {terms.mechanism}")
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
# | values | sums and counts, returns clamped to the interval that was chosen   | ``visit_block`` |


def stage_alphas(alpha: float, shares: Mapping[str, float]) -> dict[str, float]:
    """Return alpha_j = alpha/sqrt(share_j), rounded up; the values get what is left.

    In exact arithmetic the sum of 1/alpha_j^2 is at most 1/alpha^2: it is checked.
    """
    if not shares:
        return {"values": alpha}
    parts = {name: Fraction(shares[name]) for name in STAGES if name in shares}
    parts["values"] = 1 - sum(parts.values(), start=Fraction(0))
    if not (set(shares) < set(STAGES) and min(parts.values()) > 0):
        raise StudyError(f"[mechanism] stage_shares: {dict(shares)} are no shares of a whole")
    alphas = {name: alpha / math.sqrt(part) * (1 + 2**-50) for name, part in parts.items()}
    spent = sum(1 / Fraction(each) ** 2 for each in alphas.values())
    if spent > 1 / Fraction(alpha) ** 2:  # no assertion: python -O would leave it out
        raise StudyError("[mechanism] stage_shares: these spend more than there is")
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
        delta = sensitivity.block_sensitivity(limits, shape, *sensitivity.visit_block(weight))
        self.level = level
        self.interval = first, last = limits.interval(level)
        self.squared_sensitivity = delta**2  # in units of R^2
        share = (last - first) / GRID_STEPS  # R of the whole range
        self.sigma = alpha * delta * ((high - low) * share) * _ROUNDING
        self.of_counts = alpha * delta / weight / shape * _ROUNDING
        self.of_steps = alpha * delta * (last - first) / shape * _ROUNDING
        # One grid for all sums and one for all counts, each from the least noise among them.
        self.counts_grid = public_grid(float(self.of_counts.min()))
        self.steps_grid = public_grid(float(self.of_steps.min()))
        self.step = (high - low) / GRID_STEPS  # of a return, on its grid
        # The upper bound itself where the interval reaches it.
        upper = high if last == GRID_STEPS else low + last * self.step
        self.bounds = (low + first * self.step, upper)

    @property
    def deviations(self) -> Vector:
        """Return the standard deviations: of the sums in grid steps, then of the counts."""
        return np.concatenate([self.of_steps, self.of_counts])


class Ssp:
    """DP-SSP, the Gaussian mechanism on the statistics: its scale is the same for all data sets."""

    sigma_is_public = True

    def __init__(self, terms: Terms) -> None:
        self.terms, self.design = terms, terms.design
        self._constants = _constants(terms, SspTerms)
        # The analytic Gaussian mechanism (Balle and Wang 2018), certified.
        self.calibration: Calibration = gaussian(terms.epsilon, terms.delta)
        self.stages: Mapping[str, float] = stage_alphas(
            self.calibration.alpha, self._constants.shares
        )
        self.noise = self._noise_at(terms.limits.levels - 1)
        self.bounds_sigma: float | None = None
        if "bounds" in self.stages:
            delta = bounds_sensitivity(terms.limits)
            self.bounds_sigma = self.stages["bounds"] * delta * _ROUNDING

    def noise_at(self, level: int | None) -> StatisticsNoise:
        """Return the noise of the values with returns clamped to a level; None: as declared."""
        return self.noise if level is None else self._noise_at(level)

    def _noise_at(self, level: int) -> StatisticsNoise:
        return StatisticsNoise(self.terms, self.stages["values"], level)

    def level(self, released: Sequence[Stage]) -> int | None:
        """Return the level that a stage chose by what it released; None if there was none; public.

        Whatever a rule returns, later stages get the noise that it calls for: it can cost accuracy,
        and never privacy. It reads released numbers alone, so that even its failure would tell
        nothing else; but what is paid for has to arrive, so a rule that fails chooses nothing.
        """
        limits, rules = self.terms.limits, self._constants.rules
        for stage in released:
            if stage.name == "bounds" and rules is not None and self.bounds_sigma is not None:
                try:
                    level = rules.bound(stage.numbers, self.bounds_sigma)
                    if level in range(limits.levels):
                        return int(level)
                except Exception:
                    return None
        return None

    def perturb(
        self, statistics: Statistics, stage: str = "values", released: Sequence[Stage] = ()
    ) -> Perturbation:
        """Return what gets noise in a stage, and the noise of each number. PRIVATE.

        T_s counts returns from the middle of the interval: from there none is further than R/2,
        where from its lower end it could be R.
        """
        alpha = self.stages[stage]
        calibration = Calibration(name="exact", alpha=alpha, beta=0.0)
        if stage == "bounds" and self.bounds_sigma is not None:
            return Perturbation(
                center=statistics.largest_levels,
                deviations=self.bounds_sigma,
                grids=public_grid(self.bounds_sigma),
                psi=(self.bounds_sigma / alpha) ** 2,
                sigma=self.bounds_sigma,
                calibration=calibration,
            )
        at, counts = self.noise_at(self.level(released)), statistics.counts
        middle = sum(at.interval) // 2  # a whole step: both ends are even
        centred = statistics.clamped_steps(at.level) - counts * middle  # exact
        return Perturbation(
            center=np.concatenate([centred, counts]),
            deviations=at.deviations,
            grids=np.repeat([at.steps_grid, at.counts_grid], len(counts)),
            psi=at.squared_sensitivity,
            sigma=at.sigma,
            calibration=calibration,
        )

    def public_noise(self, released: Sequence[Stage] = ()) -> NoiseLaw:
        """Return what is public of the noise: of the sums, whose grid is in units of returns."""
        at, alpha = self.noise_at(self.level(released)), self.calibration.alpha
        grid = at.steps_grid * at.step
        return NoiseLaw(law="gaussian", alpha=alpha, beta=0.0, grid=grid, sigma=at.sigma)

    def largest(self) -> Draw:
        """Return what could be drawn if everybody visited every state."""
        most = np.repeat([GRID_STEPS / 2, 1.0], self.design.states) * self.terms.size.most_count
        return _one_stage(self, most + FAR * self.noise.deviations, self.noise.deviations)


def _one_stage(mechanism: Mechanism, numbers: Vector, sigma: Vector | None = None) -> Draw:
    """Return made-up numbers of the values, without the stages before."""
    alpha = mechanism.stages["values"]
    return Draw(stages=(Stage(name="values", alpha=alpha, numbers=numbers, sigma=sigma),))


# DP-LSW and DP-LSL: a smooth bound of the local sensitivity, its calibration, the noise.


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothBound:
    """sensitivity(X) <= factor sqrt(psi(counts, beta)) + 2 rounding; all of it is public.

    psi is a beta-smooth upper bound of the squared local sensitivity: between neighbours its
    logarithm differs by at most beta (Nissim, Raskhodnikova and Smith 2011). Of counts it is
    PRIVATE. ``least`` and ``most`` hold for every data set that the limits allow: the grid comes
    from the one, and the largest noise there can be from the other.
    """

    factor: float
    rounding: float  # tau
    least: float  # no data set has a smaller psi
    most: float  # nor a larger one
    local: sensitivity.SmoothSensitivity

    def __post_init__(self) -> None:
        """Refuse a bound whose public parts come near the ends of what doubles can hold.

        There products would underflow, and the noise with them, or overflow.
        """
        parts = (self.least, self.most, self.factor, self.factor * math.sqrt(self.most))
        inside = all(1 / LARGEST <= part <= LARGEST for part in parts)
        if not inside or not self.rounding <= LARGEST:
            raise StudyError(
                "[weights] weights, features, returns or ridge are so large or small that the "
                "noise could not be computed; state them in other units"
            )

    def psi(self, counts: Integers, beta: float) -> float:
        """Return the beta-smooth upper bound of the squared local sensitivity. PRIVATE."""
        return self.local.smooth(counts, beta)

    def sigma(self, psi: float, alpha: float) -> float:
        """Return alpha (factor sqrt(psi) + 2 tau).

        The computed centre is off by up to tau at both neighbours. Adding a public constant keeps
        ln sigma^2 beta-smooth (docs/proofs/dp-lsw.md, "Adding a constant").
        """
        return alpha * (self.factor * math.sqrt(psi) + 2 * self.rounding)


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
    low, high = limits.return_bounds
    per_unit, kappa = limits.max_trajectories_per_person, constants.pseudo_count
    design.require_well_conditioned()  # else solver_slack bounds nothing
    # A W^{-1} has orthonormal columns: whitened, F_X -> u has norm 1.
    norm = 1.0 if constants.whitened else design.pseudo_inverse_norm
    # Public bounds: psi is at least its part at k = 0, whose terms fall as counts grow, and no
    # term at any k exceeds that of a state with L visits (docs/proofs/dp-lsw.md).
    total = float(np.sort(design.weights)[-limits.touched :].sum())
    most_count = max(terms.size.most_count, per_unit)
    return SmoothBound(
        factor=(high - low) * norm * design.solver_slack,
        rounding=lsw_float_error(design, _largest_return(limits), whitened=constants.whitened),
        least=total * (per_unit / (most_count + kappa)) ** 2,  # all visit every state
        most=total * (per_unit / (per_unit + kappa)) ** 2,  # nobody visits anything
        local=sensitivity.LswSensitivity(limits, design.weights, kappa),
    )


def _lsl_bound(terms: Terms) -> SmoothBound:
    """Return the sharper bound with exact calibration, the paper's with the paper's constants.

    ||theta_X - theta_X'|| <= sqrt(psi), for every lambda > 0 (docs/proofs/dp-lsl.md), or
    <= 2 L M ||Phi|| sqrt(psi)/(lambda - ||Phi||^2 ||rho||_inf): line 4 of [BGP16] Algorithm 2, with
    M for its F and the factor L for persons (docs/proofs/dp-lsl.md).
    """
    design, limits, constants = terms.design, terms.limits, _constants(terms, LslTerms)
    cap, ridge, rho, norm = terms.size.most_count, constants.ridge, design.weights, design.norm
    at = sensitivity.RidgeSensitivity(limits=limits, design=design, ridge=ridge, cap=cap)
    _ = design.weighted  # psi needs it: what could fail is tried before the charge
    tau = lsl_float_error(design, ridge, cap, at.largest, limits.max_states_per_trajectory)
    if constants.calibration == "exact":
        least, most = at.least(), at.most()
        return SmoothBound(factor=1.0, rounding=tau, least=least, most=most, local=at)
    smallest = norm**2 * float(rho.max())
    if not ridge > smallest * (1 + 1e-9):
        raise StudyError(
            f"[mechanism] lambda = {ridge:.6g} is too small: with the paper's constants dp-lsl "
            f"needs more than ||Phi||^2 max(rho) = {smallest:.6g}; raise ridge or ridge_scale, "
            'or use calibration = "exact"'
        )
    room = ridge - smallest - 4 * UNIT_ROUNDOFF * ridge  # rounded down
    # ||theta_X|| <= F_abs sqrt(sum rho n)/sqrt(2 lambda), and the change of the return sums
    # weighted by rho is at most L M times the norm of the q largest rho.
    slope = at.largest / at.reach * norm * float(rho.max()) / math.sqrt(2 * ridge)
    offset = float(np.linalg.norm(np.sort(rho)[-at.touched :]))
    line, all_visit_everything = sensitivity.Line(slope, offset), math.sqrt(float(rho.sum()) * cap)
    return SmoothBound(
        factor=2 * limits.max_trajectories_per_person * at.reach * norm / room,
        rounding=tau,
        least=offset**2,  # nobody visits anything
        most=(slope * all_visit_everything + offset) ** 2,
        local=sensitivity.LslSensitivity(limits, rho, cap, line),
    )


class SmoothMechanism(ABC):
    """DP-LSW or DP-LSL: noise of one scale, which follows the data through psi."""

    sigma_is_public = False
    ridge: float | None = None  # lambda
    whitened = False

    def __init__(self, terms: Terms, constants: SmoothTerms) -> None:
        self.terms, self.design = terms, terms.design
        self.bound = bound = smooth_bound(terms)
        # A beta of the terms goes with exact calibration; the published pairs bring their own.
        promise = (terms.epsilon, terms.delta, terms.design.dimension)
        self.calibration: Calibration = (
            PUBLISHED[constants.calibration](*promise)
            if constants.beta is None
            else exact(*promise, constants.beta)
        )
        self.stages: Mapping[str, float] = {"values": self.calibration.alpha}
        largest = self.sigma(bound.most)
        if not largest <= LARGEST:
            raise StudyError(
                f"[privacy] the noise could be larger than a computer's numbers allow (up to "
                f"{largest:.3g}); use a larger epsilon"
            )
        # From the least sigma over all data sets: that of this one would give itself away.
        self.grid = public_grid(self.sigma(bound.least))

    def sigma(self, psi: float) -> float:
        """Return alpha (factor sqrt(psi) + 2 tau). PRIVATE if psi is."""
        return self.bound.sigma(psi, self.calibration.alpha)

    @abstractmethod
    def center(self, statistics: Statistics) -> Vector:
        """Return what gets noise. PRIVATE."""

    @abstractmethod
    def largest_center(self) -> float:
        """Return an upper bound of the norm of what gets noise, for all data sets."""

    def perturb(
        self, statistics: Statistics, stage: str = "values", released: Sequence[Stage] = ()
    ) -> Perturbation:
        """Follow [BGP16] Algorithms 1 and 2 up to the draw of eta. PRIVATE."""
        center = self.center(statistics)  # line 1
        psi = self.bound.psi(statistics.counts, self.calibration.beta)  # line 3; line 2 is before
        sigma = self.sigma(psi)  # line 4
        return Perturbation(
            center=center,
            deviations=sigma,
            grids=self.grid,
            psi=psi,
            sigma=sigma,
            calibration=self.calibration,
        )

    def public_noise(self, released: Sequence[Stage] = ()) -> NoiseLaw:
        """Return what is public of the noise; its scale is not."""
        alpha, beta = self.calibration.alpha, self.calibration.beta
        return NoiseLaw(law="gaussian", alpha=alpha, beta=beta, grid=self.grid, sigma=None)

    def largest(self) -> Draw:
        """Return what could be drawn at the largest centre with the largest noise."""
        size = self.largest_center() + FAR * self.sigma(self.bound.most)
        return _one_stage(self, np.full(self.design.dimension, size))


class Lsw(SmoothMechanism):
    """DP-LSW, [BGP16] Algorithm 1: theta gets noise, or u = W theta."""

    def __init__(self, terms: Terms) -> None:
        self.constants = _constants(terms, LswTerms)
        super().__init__(terms, self.constants)
        self.whitened = self.constants.whitened
        self.whitening = Whitening(terms.design) if self.whitened else None

    def mean_returns(self, statistics: Statistics) -> Vector:
        """Return F_X with its pseudo-visits, every entry within the return bounds. PRIVATE."""
        constants = self.constants
        return statistics.mean_returns(constants.unvisited, pseudo_count=constants.pseudo_count)

    def center(self, statistics: Statistics) -> Vector:
        """Return theta_X^w, or u = W theta_X^w. PRIVATE."""
        means = self.mean_returns(statistics)
        return lsw(means, self.design) if self.whitening is None else self.whitening.whitened(means)

    def largest_center(self) -> float:
        """||u_X|| <= F_abs sqrt(sum w); ||theta_X^w|| <= ||(Gamma^{1/2} Phi)^+|| times that."""
        size = _largest_return(self.terms.limits) * math.sqrt(float(self.design.weights.sum()))
        return size * (1.0 if self.whitened else self.design.pseudo_inverse_norm)


class Lsl(SmoothMechanism):
    """DP-LSL, [BGP16] Algorithm 2: theta gets noise."""

    def __init__(self, terms: Terms) -> None:
        constants = _constants(terms, LslTerms)
        super().__init__(terms, constants)
        self.ridge: float = constants.ridge

    def center(self, statistics: Statistics) -> Vector:
        """Return theta_X^lambda. PRIVATE."""
        return lsl(statistics.counts, statistics.return_sums, self.design, self.ridge)

    def largest_center(self) -> float:
        """||theta_X^lambda|| <= F_abs sqrt(A/(2 lambda)), A at most m sum rho."""
        weight = self.terms.size.most_count * float(self.design.weights.sum())
        return _largest_return(self.terms.limits) * math.sqrt(weight / (2 * self.ridge))


def _largest_return(limits: Limits) -> float:
    """Return F_abs."""
    return max(map(abs, limits.return_bounds))


class Whitening:
    """u = W theta with W^T W = Phi^T Gamma Phi; everything about W is public.

    u is computed as W^{-T} A^T (Gamma^{1/2} F_X), A = Gamma^{1/2} Phi: A W^{-1} has orthonormal
    columns, so u moves by at most ||F_X - F_X'||_{2,Gamma}. theta = W^{-1} u is post-processing.
    The covariance of its noise is at most the paper's, in the Loewner order
    (docs/proofs/dp-lsw.md).
    """

    def __init__(self, design: Design) -> None:
        design.require_full_rank()
        self._design, weighted = design, design.weighted_features
        # W: a diagonal where features do not overlap, else upper triangular.
        self.diagonal: Vector | None = None
        if isinstance(weighted, Dense):
            q, r = scipy.linalg.qr(weighted.matrix, mode="economic")
            self._q, self.triangle = np.asarray(q), np.asarray(r)
        else:
            self._disjoint, self.diagonal = weighted, np.sqrt(design.weighted_squares)

    def whitened(self, mean_returns: Vector) -> Vector:
        """Return u = W theta_X^w. PRIVATE where the returns are."""
        target = np.sqrt(self._design.weights) * mean_returns
        if self.diagonal is None:
            return np.asarray(self._q.T @ target)
        return self._disjoint.transposed_times(target) / self.diagonal


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


class Ope:
    """DP-OPE, Laplace noise on sums of weights and of weighted returns."""

    sigma_is_public = True

    def __init__(self, terms: Terms) -> None:
        self.terms, self.design = terms, terms.design
        limits, constants = terms.limits, _constants(terms, OpeTerms)
        weights = (1.0, constants.count_weight, constants.value_weight, constants.size_weight)
        inside = all(1e-6 <= weight <= 1e6 for weight in weights[:3]) and 0 <= weights[3] <= 1e6
        if not (limits.clip and inside):
            raise StudyError(f"[policy] these are no constants of dp-ope: {constants}")
        sizes = zip(weights, (GRID_STEPS, GRID_STEPS, GRID_STEPS, 1), strict=True)
        # In steps of each part, what one unit of the analysed vector is.
        units = [Fraction(steps) / Fraction(weight) for weight, steps in sizes if weight]
        if not 1e-6 <= terms.epsilon <= 1e6 or terms.delta:
            raise StudyError("[privacy] laplace noise: epsilon from 1e-6 to 1e6, delta = 0")
        self.calibration = Calibration(name="laplace", alpha=1 / terms.epsilon, beta=0.0)
        self.stages: Mapping[str, float] = {"values": self.calibration.alpha}
        alone, both = weighted_block(constants)
        if not limits.add_remove:  # one that is replaced may have another key
            alone = max(alone if limits.keys == 1 else 2 * alone, both)
        exact = alone * limits.max_trajectories_per_person
        # A ledger charges the decimal that epsilon is written as: no more than that is spent.
        spent = min(Fraction(terms.epsilon), Fraction(repr(float(terms.epsilon))))
        self.sensitivity = float(exact)
        self.exact_scales = [exact / spent * unit for unit in units]  # nothing is rounded
        self.scales = [float(scale) for scale in self.exact_scales]
        # Standard deviations, and that of the weighted returns in units of returns.
        self.deviations = np.array(self.scales) * math.sqrt(2)
        low, high = limits.return_bounds
        self.sigma = float(self.deviations[0]) * (limits.clip * (high - low) / GRID_STEPS)

    def perturb(
        self, statistics: Statistics, stage: str = "values", released: Sequence[Stage] = ()
    ) -> Perturbation:
        """Return what gets noise: weighted returns, weights, returns and sizes. PRIVATE."""
        centred = statistics.return_steps - statistics.counts * (GRID_STEPS // 2)
        sums = (statistics.weighted_steps, statistics.weight_steps, centred, statistics.counts)
        keys, parts = len(statistics.counts), len(self.scales)
        return Perturbation(
            center=np.concatenate(sums[:parts]),
            deviations=np.repeat(self.deviations, keys),
            grids=1.0,
            laplace=tuple(scale for scale in self.exact_scales for _ in range(keys)),
            psi=self.sensitivity**2,
            sigma=self.sigma,
            calibration=self.calibration,
        )

    def public_noise(self, released: Sequence[Stage] = ()) -> NoiseLaw:
        """Return what is public of the noise: all of it."""
        alpha, grid = self.calibration.alpha, self.sigma / float(self.deviations[0])
        return NoiseLaw(law="laplace", alpha=alpha, beta=0.0, grid=grid, sigma=self.sigma)

    def largest(self) -> Draw:
        """Return what could be drawn if everybody had the largest weight."""
        sizes = np.array([GRID_STEPS / 2, GRID_STEPS, GRID_STEPS / 2, 1.0])[: len(self.scales)]
        largest = sizes * self.terms.size.most_count + FAR * self.deviations
        keys = self.terms.limits.keys
        return _one_stage(self, np.repeat(largest, keys), np.repeat(self.deviations, keys))


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
