"""What every mechanism has in common: a smooth bound, its calibration, and where the noise goes.

| symbol   | here                | shape | public      |
|----------|---------------------|-------|-------------|
| theta_X  | ``theta``           | d     | **private** |
| mu_X     | ``center``          | d     | **private** |
| psi_X    | ``psi``             |       | **private** |
| sigma_X  | ``sigma``           |       | **private** |
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
from privalue.private import Private, sealed
from privalue.sensitivity import Integers
from privalue.side_files import Matrix
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
    """N(center, sigma^2 I) is the analysed mechanism; ``to_theta`` is post-processing of it."""

    theta: Vector
    center: Vector
    psi: float
    sigma: float
    calibration: Calibration
    smallest_sigma: float  # public: no data set of m trajectories has a smaller sigma
    to_theta: Callable[[Vector], Vector]
    noise_factors: Callable[[], Vector]  # public: the noise of a state's value, over sigma

    def __post_init__(self) -> None:
        for name in ("theta", "center"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def _public_shape(self) -> str:
        return f"dimension={len(self.center)}"


def sigma_of(psi: float, bound: SmoothBound, calibration: Calibration) -> float:
    """sigma = alpha (factor sqrt(psi) + 2 tau)."""
    return calibration.alpha * (bound.factor * math.sqrt(psi) + 2 * bound.rounding)


def resolve_calibration(
    study: Study, dimension: int, trajectories: int, bound: SmoothBound
) -> Calibration:
    """alpha and beta from public numbers: the study, d, and m.

    beta = "auto" minimises the noise at guessed counts. Refuses, from public numbers alone, a
    study whose noise could not be written down.
    """
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    name, beta = study.mechanism.calibration, study.mechanism.beta
    if name != "exact":
        chosen = calibrate(name, epsilon=epsilon, delta=delta, dimension=dimension)
    else:
        if isinstance(beta, str):
            guess = guessed_counts(study, trajectories)
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


def unchanged(center: Vector) -> Vector:
    """``to_theta`` of isotropic noise, which is drawn for theta itself."""
    return center
