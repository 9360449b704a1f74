"""Define what DP-LSW and DP-LSL have in common: a smooth bound, its calibration, the noise.

| symbol   | here                | shape | public      |
|----------|---------------------|-------|-------------|
| mu_X     | ``center``          | d     | **private** |
| psi_X    | ``psi``             |       | **private** |
| sigma_X  | ``sigma``           |       | **private**, but for dp-ssp |
| tau      | ``rounding``        |       | yes         |
| alpha, beta | ``calibration``  |       | yes         |

A mechanism is made of ``Terms``, which are public, before anything is charged: whatever is refused
is refused there. ``perturbation`` turns statistics into where the noise goes, and fails on no
statistics whatever. What is made of the drawn numbers is post-processing, and not here.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privalue.core._arrays import Integers, Vector
from privalue.core._calibration import PUBLISHED, Calibration, exact
from privalue.core._contributions import VisitStatistics
from privalue.core._noise import public_grid
from privalue.core._private import Private, sealed
from privalue.core._terms import SmoothTerms, Terms
from privalue.errors import StudyError

LARGEST = 1e150  # of what is multiplied: its square is a double


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
    calibration: Calibration  # public
    laplace: tuple[Fraction, ...] = ()  # public; scales of discrete Laplace noise in its place

    def __post_init__(self) -> None:
        # Copied and read-only: what was computed is what gets noise.
        array = np.array(self.center)
        array.setflags(write=False)
        object.__setattr__(self, "center", array)

    def _public_shape(self) -> str:
        return f"dimension={len(self.center)}"


class SmoothBound(ABC):
    """sensitivity(X) <= factor sqrt(psi(counts, beta)) + 2 rounding; the attributes are public.

    ``least`` and ``most`` hold for every data set that the limits allow. The grid comes from the
    one, and the largest noise there can be from the other.
    """

    factor: float
    rounding: float
    least: float  # no data set has a smaller psi
    most: float  # nor a larger one

    @abstractmethod
    def psi(self, counts: Integers, beta: float) -> float:
        """Return the beta-smooth upper bound of the squared local sensitivity. PRIVATE.

        Between neighbours its logarithm differs by at most beta, and it is never below the
        squared local sensitivity itself (Nissim, Raskhodnikova and Smith 2011).
        """

    def sigma(self, psi: float, alpha: float) -> float:
        """Return alpha (factor sqrt(psi) + 2 tau).

        The computed centre is off by up to tau at both neighbours. Adding a public constant keeps
        ln sigma^2 beta-smooth (docs/proofs/dp-lsw.md, "Adding a constant").
        """
        return alpha * (self.factor * math.sqrt(psi) + 2 * self.rounding)

    def require_representable(self) -> None:
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


class SmoothMechanism(ABC):
    """DP-LSW or DP-LSL: noise of one scale, which follows the data through psi."""

    ridge: float | None = None  # lambda
    whitened = False

    def __init__(self, terms: Terms, constants: SmoothTerms, bound: SmoothBound) -> None:
        self.terms, self.design, self.bound = terms, terms.design, bound
        bound.require_representable()
        # A beta of the terms goes with exact calibration; the published pairs bring their own.
        promise = (terms.epsilon, terms.delta, terms.design.dimension)
        self.calibration = (
            PUBLISHED[constants.calibration](*promise)
            if constants.beta is None
            else exact(*promise, constants.beta)
        )
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
    def center(self, statistics: VisitStatistics) -> Vector:
        """Return what gets noise. PRIVATE."""

    def perturbation(self, statistics: VisitStatistics) -> Perturbation:
        """Follow [BGP16] Algorithms 1 and 2 up to the draw of eta. PRIVATE.

        Nothing here raises, whatever the statistics are: it is called after the charge.
        """
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
