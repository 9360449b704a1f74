"""DP-LSL: [BGP16] Algorithm 2.

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

from privalue.core._arrays import UNIT_ROUNDOFF, Vector
from privalue.core._contributions import VisitStatistics
from privalue.core._design import Design
from privalue.core._least_squares import lsl, lsl_float_error
from privalue.core._mechanism import (
    SmoothBound,
    SmoothMechanism,
)
from privalue.core._sensitivity_lsl import least_ridge_psi, most_ridge_psi, smooth_lsl, smooth_ridge
from privalue.core._size import PublicSize
from privalue.errors import StudyError
from privalue.study._study import Study


def fits_by_lsl(study: Study) -> bool:
    """Whether a ridge is in use: always with dp-lsl, with dp-ssp where the study gives one."""
    chosen = study.mechanism
    return chosen.name == "dp-lsl" or (
        chosen.name == "dp-ssp" and bool(chosen.given & {"ridge", "ridge_scale"})
    )


def ridge_of(study: Study, design: Design, size: PublicSize) -> float | None:
    """lambda, where one is in use."""
    return resolve_ridge(study, design, size) if fits_by_lsl(study) else None


def resolve_ridge(study: Study, design: Design, size: PublicSize) -> float:
    """lambda, from the study and the public m; refuses what the sensitivity bound does not allow.

    [BGP16] Corollary 8 needs lambda > ||Phi||^2 ||rho||_inf; the sharper bound does not.
    """
    chosen = study.mechanism.ridge
    sqrt = isinstance(chosen, str)
    if sqrt:
        trajectories = size.required('ridge = "sqrt"')
        ridge = study.mechanism.ridge_scale * math.sqrt(trajectories)
    else:
        ridge = float(chosen)
    smallest = design.norm**2 * float(design.weights.max())
    if study.mechanism.calibration != "exact" and not ridge > smallest * (1 + 1e-9):
        raised = "ridge_scale" if sqrt else "ridge"
        raise StudyError(
            f"[mechanism] lambda = {ridge:.6g} is too small: with the paper's constants dp-lsl "
            f"needs more than ||Phi||^2 max(rho) = {smallest:.6g}; raise {raised}, or use "
            'calibration = "exact"'
        )
    return ridge


def lsl_bound(study: Study, design: Design, size: PublicSize) -> SmoothBound:
    """The paper's bound with the paper's constants, the sharper one with exact calibration."""
    low, high = study.return_bounds
    largest, reach = max(abs(low), abs(high)), max(high, 0.0) - min(low, 0.0)
    rho, most = design.weights, size.most_count
    per_person, one = study.trajectories_per_person, study.states_per_trajectory
    # L visits in each of so many states are the worst (docs/proofs/persons.md).
    touched = min(study.state_count, 2 * one if study.privacy.neighbours == "replace-one" else one)
    ridge = resolve_ridge(study, design, size)
    _ = design.weighted  # computed now, before anything is charged
    rounding = lsl_float_error(design, ridge, most, largest, one)
    if study.mechanism.calibration == "exact":
        return SmoothBound(
            psi=lambda counts, beta: smooth_ridge(
                counts,
                design,
                ridge=ridge,
                trajectories=most,
                beta=beta,
                largest=largest,
                reach=reach,
                per_person=per_person,
                touched=touched,
            ),
            factor=1.0,
            rounding=rounding,
            least=least_ridge_psi(
                design,
                ridge=ridge,
                trajectories=most,
                reach=reach,
                per_person=per_person,
                touched=touched,
            ),
            most=most_ridge_psi(
                design,
                ridge=ridge,
                trajectories=most,
                largest=largest,
                reach=reach,
                per_person=per_person,
                touched=touched,
            ),
        )
    slope = largest / reach * design.norm * float(rho.max()) / math.sqrt(2 * ridge)
    offset = float(np.linalg.norm(np.sort(rho)[-touched:]))
    # lambda - ||Phi||^2 ||rho||_inf, rounded down
    room = ridge - design.norm**2 * float(rho.max()) - 4 * UNIT_ROUNDOFF * ridge
    return SmoothBound(
        psi=lambda counts, beta: smooth_lsl(
            counts, rho, most, beta, slope=slope, offset=offset, per_person=per_person
        ),
        factor=2 * per_person * reach * design.norm / room,
        rounding=rounding,
        least=offset**2,  # nobody visits anything
        most=(slope * math.sqrt(float(rho.sum()) * most) + offset) ** 2,  # all visit everything
    )


class DpLsl(SmoothMechanism):
    """Algorithm 2: theta gets noise."""

    def __init__(self, study: Study, design: Design, size: PublicSize) -> None:
        super().__init__(study, design, size, lsl_bound(study, design, size))
        self._lambda = self.ridge = resolve_ridge(study, design, size)
        self._most_count = size.most_count

    def center(self, statistics: VisitStatistics) -> Vector:
        """theta_X^lambda. PRIVATE."""
        return self.theta_before_noise(statistics)

    def theta_before_noise(self, statistics: VisitStatistics) -> Vector:
        """theta_X^lambda. PRIVATE."""
        return lsl(statistics, self.design, self._lambda)

    def largest_center(self) -> float:
        """||theta_X|| <= F_abs sqrt(A/(2 lambda)), A at most m sum rho."""
        largest = max(map(abs, self.study.return_bounds))
        visits = self._most_count * float(self.design.weights.sum())
        return largest * math.sqrt(visits / (2 * self._lambda))
