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
the formulas are the paper's. The float error tau of theta is added to the sensitivity.
"""

import math

import numpy as np

from privalue.calibration import Calibration
from privalue.errors import StudyError
from privalue.features import UNIT_ROUNDOFF, Design
from privalue.least_squares import lsl, lsl_float_error
from privalue.mechanisms.perturbation import Perturbation, require_finite_noise, unchanged
from privalue.sensitivity import smooth_lsl
from privalue.statistics import VisitStatistics
from privalue.study import Study


def resolve_ridge(study: Study, design: Design, trajectories: int) -> float:
    """lambda, from the study and the public m; refuses what the sensitivity bound does not allow.

    [BGP16] Corollary 10 needs lambda > ||Phi||^2 ||rho||_inf.
    """
    chosen = study.mechanism.ridge
    sqrt = isinstance(chosen, str)
    ridge = study.mechanism.ridge_scale * math.sqrt(trajectories) if sqrt else float(chosen)
    smallest = design.norm**2 * float(design.weights.max())
    if not ridge > smallest * (1 + 1e-9):
        raised = "ridge_scale" if sqrt else "ridge"
        raise StudyError(
            f"[mechanism] lambda = {ridge:.6g} is too small: dp-lsl needs more than ||Phi||^2 "
            f"max(rho) = {smallest:.6g}; raise {raised}"
        )
    return ridge


def dp_lsl(
    statistics: VisitStatistics, design: Design, study: Study, calibration: Calibration
) -> Perturbation:
    """Algorithm 2 up to the draw of eta."""
    low, high = study.return_bounds
    largest, reach = max(abs(low), abs(high)), max(high, 0.0) - min(low, 0.0)
    rho, m = design.weights, statistics.trajectories
    ridge = resolve_ridge(study, design, m)
    rounding = lsl_float_error(design, ridge, m, largest)

    theta = lsl(statistics, design, ridge)  # line 1
    alpha, beta = calibration.alpha, calibration.beta  # line 2
    slope = largest / reach * design.norm * float(rho.max()) / math.sqrt(2 * ridge)
    offset = float(np.linalg.norm(rho))
    # lambda - ||Phi||^2 ||rho||_inf, rounded down
    room = ridge - design.norm**2 * float(rho.max()) - 4 * UNIT_ROUNDOFF * ridge

    def sigma(psi: float) -> float:
        return alpha * (2 * reach * design.norm / room * math.sqrt(psi) + 2 * rounding)

    everywhere = slope * math.sqrt(float(rho.sum()) * m) + offset
    require_finite_noise(sigma(everywhere**2))
    psi = smooth_lsl(statistics.counts, rho, m, beta, slope=slope, offset=offset)  # line 3
    return Perturbation(
        theta=theta,
        center=theta,
        psi=psi,
        sigma=sigma(psi),  # line 4
        calibration=calibration,
        smallest_sigma=sigma(offset**2),  # psi is at least its term without any visits
        to_theta=unchanged,
    )
