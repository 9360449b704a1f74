"""What every mechanism hands to the curator: where the noise goes, and how much of it.

| symbol   | here                | shape | public      |
|----------|---------------------|-------|-------------|
| theta_X  | ``theta``           | d     | **private** |
| mu_X     | ``center``          | d     | **private** |
| psi_X    | ``psi``             |       | **private** |
| sigma_X  | ``sigma``           |       | **private** |
| alpha, beta | ``calibration``  |       | yes         |
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.calibration import Calibration
from privalue.errors import StudyError
from privalue.private import Private

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Perturbation(Private):
    """N(center, sigma^2 I) is the analysed mechanism; ``to_theta`` is post-processing of it."""

    theta: Vector
    center: Vector
    psi: float
    sigma: float
    calibration: Calibration
    smallest_sigma: float  # public: no data set of m trajectories has a smaller sigma
    to_theta: Callable[[Vector], Vector]

    def __post_init__(self) -> None:
        for name in ("theta", "center"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def _public_shape(self) -> str:
        return f"dimension={len(self.center)}"


def unchanged(center: Vector) -> Vector:
    """``to_theta`` of isotropic noise, which is drawn for theta itself."""
    return center


def require_finite_noise(largest_sigma: float) -> None:
    """Refuses, from public numbers alone, a study whose noise could not be written down."""
    if not largest_sigma <= 1e250:
        raise StudyError(
            "[privacy] epsilon, or the weights and features, make the noise larger than a "
            f"computer's numbers allow (up to {largest_sigma:.3g}); use a larger epsilon or less "
            "extreme weights"
        )
