"""What every mechanism has in common: a smooth bound, its calibration, and where the noise goes.

| symbol   | here                | shape | public      |
|----------|---------------------|-------|-------------|
| theta_X  | ``theta``           | d     | **private** |
| mu_X     | ``center``          | d     | **private** |
| psi_X    | ``psi``             |       | **private** |
| sigma_X  | ``sigma``           |       | **private**, but for dp-ssp |
| tau      | ``rounding``        |       | yes         |
| alpha, beta | ``calibration``  |       | yes         |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.calibration import Calibration, automatic_beta, calibrate, exact
from privalue.errors import StudyError
from privalue.features import Design
from privalue.intervals import (
    ReleasedScale,
    distinct_directions,
    privacy_intervals,
    scale_share,
)
from privalue.noisy_statistics import Estimates
from privalue.private import Private, sealed
from privalue.sensitivity import Integers
from privalue.side_files import Matrix
from privalue.size import PublicSize
from privalue.study import Study

Vector = NDArray[np.float64]


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
    """N(center, deviations^2), rounded to the grids, is the analysed mechanism.

    ``estimates`` is post-processing of what was drawn, and of the noise scale where that was
    released, too.
    """

    theta: Vector
    center: Vector | Integers
    deviations: float | Vector  # sigma, or one for each coordinate
    grids: float | Vector  # public
    psi: float
    sigma: float
    calibration: Calibration
    estimates: Callable[[Vector, ReleasedScale | None], Estimates]
    noise_by_state: Callable[[], Vector]  # the standard deviation of each value's noise

    def __post_init__(self) -> None:
        for name in ("theta", "center"):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def _public_shape(self) -> str:
        return f"dimension={len(self.center)}"


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


def guessed_counts(study: Study, trajectories: int) -> Integers:
    """Visits to expect of every state, less three standard deviations, from public numbers.

    p_s is the study's prior of visits; without one, 1/N, 2/N, ..., 1: anything from a state that
    one trajectory in N visits to one that all visit. Three digits are kept: it is a guess.
    """
    p = study.visit_prior
    if p is None:
        p = np.arange(1, study.state_count + 1) / study.state_count
    expected = trajectories * p
    low = expected - 3 * np.sqrt(expected * (1 - p))
    counts = np.maximum(np.floor(low), 0).astype(np.int64)
    digit = 10 ** np.maximum(np.floor(np.log10(np.maximum(counts, 1))).astype(np.int64) - 2, 0)
    return np.asarray(counts // digit * digit)


def row_norms(matrix: Matrix) -> Vector:
    """||phi_s|| of every state."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.linalg.norm(matrix, axis=1))
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())


def perturbation_of_theta(
    study: Study,
    design: Design,
    theta: Vector,
    psi: float,
    sigma: float,
    grid: float,
    rounding: float,
    calibration: Calibration,
) -> Perturbation:
    """Isotropic noise, drawn for theta itself."""
    return Perturbation(
        theta=theta,
        center=theta,
        deviations=sigma,
        grids=grid,
        psi=psi,
        sigma=sigma,
        calibration=calibration,
        estimates=linear_estimates(study, design, lambda drawn: drawn, row_norms, grid, rounding),
        noise_by_state=lambda: sigma * row_norms(design.phi),
    )


def linear_estimates(
    study: Study,
    design: Design,
    to_theta: Callable[[Vector], Vector],
    factors: Callable[[Matrix], Vector],
    grid: float,
    rounding: float,
) -> Callable[[Vector, ReleasedScale | None], Estimates]:
    """What a vector with the same noise in every coordinate becomes: theta, values, intervals.

    ``factors`` are the standard deviations of linear combinations of features, over sigma. Each
    coordinate was rounded by at most half the grid, and what was drawn for is off by at most
    ``rounding`` in all: together they move a combination by at most sqrt(d) grid/2 + rounding times
    its factor.
    """
    level, start = study.report.level, study.start_distribution
    share = 0.5 * grid * math.sqrt(design.dimension) + rounding

    def estimates(drawn: Vector, scale: ReleasedScale | None) -> Estimates:
        theta = to_theta(drawn)
        values = design.values(theta)
        policy = None if start is None else float(np.dot(start, values))
        if scale is None:
            return Estimates(theta=theta, values=values, policy_value=policy)
        spread = factors(design.phi) * design.solver_slack
        directions = distinct_directions(design.phi)
        low, high = privacy_intervals(values, spread, scale, level, slack=share * spread)
        band_low, band_high = privacy_intervals(
            values,
            spread,
            scale,
            level,
            slack=share * spread,
            directions=directions,
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
        )

    return estimates
