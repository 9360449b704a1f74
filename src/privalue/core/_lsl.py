"""Define DP-LSL: [BGP16] Algorithm 2.

| symbol              | here              | public      |
|---------------------|-------------------|-------------|
| lambda              | ``ridge``         | yes         |
| F_abs = max(|F_lo|, |F_hi|) | ``largest`` | yes       |
| M = max(F_hi, 0) - min(F_lo, 0) | ``reach`` | yes     |
| c_lambda            | ``slope``         | yes         |
| psi_X^lambda        | ``psi``           | **private** |
| tau                 | ``rounding``      | yes         |

Differs from the paper: for returns in [F_lo, F_hi] the norm of theta is bounded by F_abs and the
change of the return sums by M, not by the range (docs/proofs/dp-lsl.md); with [0, F] both are F and
the formulas are the paper's. With ``exact`` calibration the sharper bound is used, which allows
every lambda > 0 (docs/proofs/sharper-dp-lsl.md); with the paper's constants, the paper's bound. The
float error tau of theta is added to the sensitivity.
"""

import math

import numpy as np

from privalue.core._arrays import UNIT_ROUNDOFF, Integers, Vector
from privalue.core._contributions import VisitStatistics
from privalue.core._least_squares import lsl, lsl_float_error
from privalue.core._mechanism import SmoothBound, SmoothMechanism
from privalue.core._sensitivity_lsl import RidgeSensitivity, smooth_lsl
from privalue.core._terms import LslTerms, Terms
from privalue.errors import StudyError


def lsl_bound(terms: Terms, constants: LslTerms) -> SmoothBound:
    """Return the sharper bound with exact calibration, the paper's with the paper's constants."""
    return (SharperBound if constants.calibration == "exact" else PaperBound)(terms, constants)


class _LslBound(SmoothBound):
    """What both bounds are made of.

    The range R is not enough here: a trajectory that no longer visits s takes its return away,
    which may be as large as F_abs > R (docs/proofs/dp-lsl.md, "Why not the range R").
    """

    def __init__(self, terms: Terms, constants: LslTerms) -> None:
        limits, (low, high) = terms.limits, terms.limits.return_bounds
        self._at = at = RidgeSensitivity(
            design=terms.design,
            ridge=constants.ridge,
            cap=terms.size.most_count,
            largest=max(abs(low), abs(high)),
            reach=max(high, 0.0) - min(low, 0.0),
            per_person=limits.most_trajectories,
            # L visits in each of so many states are the worst: the change of the return sums is
            # convex in the visits (docs/proofs/persons.md). So 2H, or H, and not 2HL as for LSW.
            touched=min(limits.keys, limits.most_keys * (1 if limits.add_remove else 2)),
        )
        _ = terms.design.weighted  # psi needs it: what could fail is tried before the charge
        self.rounding = lsl_float_error(at.design, at.ridge, at.cap, at.largest, limits.most_keys)


class SharperBound(_LslBound):
    """||theta_X - theta_X'|| <= sqrt(psi), for every lambda > 0 (docs/proofs/sharper-dp-lsl.md)."""

    factor = 1.0

    def __init__(self, terms: Terms, constants: LslTerms) -> None:
        super().__init__(terms, constants)
        self.least, self.most = self._at.least(), self._at.most()

    def psi(self, counts: Integers, beta: float) -> float:
        """Return the sharper psi. PRIVATE."""
        return self._at.smooth(counts, beta)


class PaperBound(_LslBound):
    """||theta_X - theta_X'|| <= 2 L M ||Phi|| sqrt(psi)/(lambda - ||Phi||^2 ||rho||_inf).

    That is line 4 of [BGP16] Algorithm 2, with M for its F and the factor L for persons
    (docs/proofs/dp-lsl.md and docs/proofs/persons.md).
    """

    def __init__(self, terms: Terms, constants: LslTerms) -> None:
        super().__init__(terms, constants)
        at, rho, norm, ridge = self._at, terms.design.weights, terms.design.norm, constants.ridge
        smallest = norm**2 * float(rho.max())
        if not ridge > smallest * (1 + 1e-9):
            raise StudyError(
                f"[mechanism] lambda = {ridge:.6g} is too small: with the paper's constants dp-lsl "
                f"needs more than ||Phi||^2 max(rho) = {smallest:.6g}; raise ridge or ridge_scale, "
                'or use calibration = "exact"'
            )
        room = ridge - smallest - 4 * UNIT_ROUNDOFF * ridge  # rounded down
        self.factor = 2 * at.per_person * at.reach * norm / room
        # ||theta_X|| <= F_abs sqrt(sum rho n)/sqrt(2 lambda), and the change of the return sums
        # weighted by rho is at most L M times the norm of the q largest rho.
        self._slope = at.largest / at.reach * norm * float(rho.max()) / math.sqrt(2 * ridge)
        self._offset = float(np.linalg.norm(np.sort(rho)[-(at.touched or 0) :]))
        all_visit_everything = math.sqrt(float(rho.sum()) * at.cap)
        self.least = self._offset**2  # nobody visits anything
        self.most = (self._slope * all_visit_everything + self._offset) ** 2

    def psi(self, counts: Integers, beta: float) -> float:
        """Return psi_X^lambda. PRIVATE."""
        rho, cap, per_person = self._at.design.weights, self._at.cap, self._at.per_person
        line = {"slope": self._slope, "offset": self._offset}
        return smooth_lsl(counts, rho, cap, beta, **line, per_person=per_person)


class DpLsl(SmoothMechanism):
    """Algorithm 2: theta gets noise."""

    def __init__(self, terms: Terms, constants: LslTerms) -> None:
        super().__init__(terms, constants, lsl_bound(terms, constants))
        self.ridge: float = constants.ridge

    def center(self, statistics: VisitStatistics) -> Vector:
        """Return theta_X^lambda. PRIVATE."""
        return lsl(statistics, self.design, self.ridge)
