"""What every mechanism has in common: a smooth bound, its calibration, and where the noise goes.

| symbol   | here                | shape | public      |
|----------|---------------------|-------|-------------|
| mu_X     | ``center``          | d     | **private** |
| psi_X    | ``psi``             |       | **private** |
| sigma_X  | ``sigma``           |       | **private**, but for dp-ssp |
| theta~   | ``theta``           | d     | yes, after the draw |
| tau      | ``rounding``        |       | yes         |
| alpha, beta | ``calibration``  |       | yes         |

A mechanism is made of public things alone, before anything is charged. ``perturbation`` turns
statistics into where the noise goes, and fails on no statistics whatever; ``estimates`` is
post-processing of what was drawn. What only ``inspect`` asks for, theta before noise and the noise
of every value, is computed when it asks.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privalue.core._arrays import Integers, Vector
from privalue.core._calibration import Calibration, calibrate, exact
from privalue.core._contributions import VisitStatistics
from privalue.core._design import Design
from privalue.core._noise import public_grid
from privalue.core._private import Private, sealed
from privalue.core._size import PublicSize
from privalue.errors import StudyError
from privalue.estimate._intervals import (
    ReleasedScale,
    distinct_directions,
    laplace_scale,
    privacy_intervals,
    scale_grid,
    scale_share,
)
from privalue.estimate._statistics import Estimates
from privalue.study._choices import automatic_beta, guessed_counts
from privalue.study._side_files import Matrix
from privalue.study._study import Study

WIDEST_SPREAD = 20.0  # of ln sigma^2: a released scale is off by e^{spread/2} or more, often
FAR = 64.0  # standard deviations that no draw is away: the chance is below 1e-800


@dataclass(frozen=True, kw_only=True)
class SmoothBound:
    """sensitivity(X) <= factor sqrt(psi(counts, beta)) + 2 rounding; all of it is public."""

    psi: Callable[[Integers, float], float]
    factor: float
    rounding: float
    least: float  # no data set of m trajectories has a smaller psi
    most: float  # nor a larger one


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Perturbation(Private):
    """N(center, deviations^2), rounded to the grids, is the analysed mechanism."""

    center: Vector | Integers
    deviations: float | Vector  # sigma, or one for each coordinate
    grids: float | Vector  # public
    psi: float
    sigma: float
    calibration: Calibration  # public

    def __post_init__(self) -> None:
        array = np.array(self.center)
        array.setflags(write=False)
        object.__setattr__(self, "center", array)

    def _public_shape(self) -> str:
        return f"dimension={len(self.center)}"


class Mechanism(Protocol):
    """An algorithm with all its public constants, ready for any statistics."""

    calibration: Calibration
    ridge: float | None  # lambda, where one is in use

    def perturbation(self, statistics: VisitStatistics) -> Perturbation:
        """Where the noise goes, and how much of it. PRIVATE."""

    def estimates(self, drawn: Vector, scale: ReleasedScale | None = None) -> Estimates:
        """What is published, from what was drawn and the noise scale if that was released."""

    def rehearsal(self) -> Estimates | None:
        """What would be published of the largest numbers that could be drawn; public.

        None where nothing can fail.
        """

    def theta_before_noise(self, statistics: VisitStatistics) -> Vector:
        """theta as the same fit gives it without noise. PRIVATE, and no part of a release."""

    def noise_by_state(self, statistics: VisitStatistics, sigma: float) -> Vector:
        """The standard deviation of each value's noise. PRIVATE, and no part of a release."""


class SmoothMechanism(ABC):
    """What DP-LSW and DP-LSL share: noise of one scale, which follows the data through psi."""

    ridge: float | None = None
    whitened = False

    def __init__(self, study: Study, design: Design, size: PublicSize, bound: SmoothBound) -> None:
        self.study, self.design = study, design
        self.bound = require_representable(bound)
        self.calibration = resolve_calibration(study, design.dimension, size, bound)
        self.grid = public_grid(self.sigma(bound.least))
        require_share(study, self.calibration)

    def sigma(self, psi: float) -> float:
        """alpha (factor sqrt(psi) + 2 tau)."""
        return sigma_of(psi, self.bound, self.calibration)

    @abstractmethod
    def center(self, statistics: VisitStatistics) -> Vector:
        """What gets noise. PRIVATE."""

    @abstractmethod
    def largest_center(self) -> float:
        """An upper bound of its norm, for all data sets."""

    @abstractmethod
    def theta_before_noise(self, statistics: VisitStatistics) -> Vector:
        """theta_X. PRIVATE, and no part of a release."""

    def to_theta(self, drawn: Vector) -> Vector:
        """theta from what was drawn."""
        return drawn

    def factors(self, rows: Matrix) -> Vector:
        """The standard deviations of linear combinations of theta's coordinates, over sigma."""
        return row_norms(rows)

    def perturbation(self, statistics: VisitStatistics) -> Perturbation:
        """[BGP16] Algorithms 1 and 2 up to the draw of eta."""
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

    def noise_by_state(self, statistics: VisitStatistics, sigma: float) -> Vector:
        """The standard deviation of each value's noise. PRIVATE, and no part of a release."""
        return sigma * self.factors(self.design.phi)

    def rehearsal(self) -> Estimates:
        """What would be published of the largest numbers that could be drawn; public."""
        sigma = self.sigma(self.bound.most)
        drawn = np.full(self.design.dimension, self.largest_center() + FAR * sigma)
        share, _ = scale_share(self.study.privacy.epsilon, self.study.mechanism.noise_scale_share)
        if not share:
            return self.estimates(drawn)
        beta = self.calibration.beta
        scale = ReleasedScale(
            sigma=sigma, laplace=laplace_scale(beta, share), grid=scale_grid(beta)[0]
        )
        return self.estimates(drawn, scale)

    def estimates(self, drawn: Vector, scale: ReleasedScale | None = None) -> Estimates:
        """theta, values and, with the scale of the noise, intervals.

        Each coordinate was rounded by at most half the grid, and what was drawn for is off by at
        most ``rounding`` in all: together they move a combination by at most sqrt(d) grid/2 +
        rounding times its factor.
        """
        study, design, factors = self.study, self.design, self.factors
        start, level = study.start_distribution, study.report.level
        theta = self.to_theta(drawn)
        values = design.values(theta)
        policy = None if start is None else float(np.dot(start, values))
        if scale is None:
            plain = Estimates(theta=theta, values=values, policy_value=policy)
            return plain.within(study.return_bounds)
        share = 0.5 * self.grid * math.sqrt(design.dimension) + self.bound.rounding
        spread = factors(design.phi) * design.solver_slack
        low, high = privacy_intervals(values, spread, scale, level, slack=share * spread)
        band_low, band_high = privacy_intervals(
            values,
            spread,
            scale,
            level,
            slack=share * spread,
            directions=distinct_directions(design.phi),
            dimension=design.dimension,
        )
        interval = None
        if start is not None:
            mixture = factors(np.asarray(design.phi.T @ start).reshape(1, -1))
            mixture = mixture * design.solver_slack
            ends = privacy_intervals(
                np.array([policy]), mixture, scale, level, slack=share * mixture
            )
            interval = (float(ends[0][0]), float(ends[1][0]))
        return Estimates(
            theta=theta,
            values=values,
            level=level,
            low=low,
            high=high,
            band_low=band_low,
            band_high=band_high,
            policy_value=policy,
            policy_interval=interval,
        ).within(study.return_bounds)


def require_share(study: Study, calibration: Calibration) -> None:
    """Refuses a share of epsilon that leaves too little to the release of the noise scale."""
    chosen = study.mechanism.noise_scale_share
    share, _ = scale_share(study.privacy.epsilon, chosen)
    if share and not laplace_scale(calibration.beta, share) <= WIDEST_SPREAD:
        raise StudyError(
            f"[mechanism] noise_scale_share = {chosen:g} leaves too little to the noise scale: its "
            f"own noise would be a factor of more than e^{WIDEST_SPREAD / 2:g}, and intervals no "
            "use to anybody; use a share such as 0.1"
        )


def sigma_of(psi: float, bound: SmoothBound, calibration: Calibration) -> float:
    """sigma = alpha (factor sqrt(psi) + 2 tau)."""
    return calibration.alpha * (bound.factor * math.sqrt(psi) + 2 * bound.rounding)


def resolve_calibration(
    study: Study, dimension: int, size: PublicSize, bound: SmoothBound
) -> Calibration:
    """alpha and beta from public numbers: the study, d, and the size.

    beta = "auto" minimises the noise at guessed counts. Refuses, from public numbers alone, a
    study whose noise could not be written down.
    """
    _, epsilon = scale_share(study.privacy.epsilon, study.mechanism.noise_scale_share)
    delta = study.privacy.delta
    name, beta = study.mechanism.calibration, study.mechanism.beta
    if name != "exact":
        chosen = calibrate(name, epsilon=epsilon, delta=delta, dimension=dimension)
    else:
        if isinstance(beta, str):
            guess = guessed_counts(study, size.required('beta = "auto"'))
            beta = automatic_beta(
                epsilon, delta, dimension, lambda candidate: bound.psi(guess, candidate)
            )
        chosen = exact(epsilon, delta, dimension, beta)
    largest = sigma_of(bound.most, bound, chosen)
    if not largest <= 1e150:
        raise StudyError(
            f"[privacy] the noise could be larger than a computer's numbers allow (up to "
            f"{largest:.3g}); use a larger epsilon"
        )
    return chosen


def require_representable(bound: SmoothBound) -> SmoothBound:
    """Refuses a bound whose public parts come near the ends of what doubles can hold.

    There products would underflow, and the noise with them, or overflow.
    """
    parts = (bound.least, bound.most, bound.factor, bound.factor * math.sqrt(bound.most))
    if not all(1e-150 <= part <= 1e150 for part in parts) or not bound.rounding <= 1e150:
        raise StudyError(
            "[weights] weights, features, returns or ridge are so large or small that the noise "
            "could not be computed; state them in other units"
        )
    return bound


def row_norms(matrix: Matrix) -> Vector:
    """||phi_s|| of every state."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.linalg.norm(matrix, axis=1))
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
