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

from privalue.calibration import Calibration
from privalue.errors import StudyError
from privalue.features import UNIT_ROUNDOFF, Design
from privalue.least_squares import lsl, lsl_float_error
from privalue.mechanisms.perturbation import (
    Perturbation,
    SmoothBound,
    row_norms,
    sigma_of,
    unchanged,
)
from privalue.ridge_sensitivity import least_ridge_psi, most_ridge_psi, smooth_ridge
from privalue.sensitivity import smooth_lsl
from privalue.statistics import VisitStatistics
from privalue.study import Study


def resolve_ridge(study: Study, design: Design, trajectories: int) -> float:
    """lambda, from the study and the public m; refuses what the sensitivity bound does not allow.

    [BGP16] Corollary 10 needs lambda > ||Phi||^2 ||rho||_inf; the sharper bound does not.
    """
    chosen = study.mechanism.ridge
    sqrt = isinstance(chosen, str)
    ridge = study.mechanism.ridge_scale * math.sqrt(trajectories) if sqrt else float(chosen)
    smallest = design.norm**2 * float(design.weights.max())
    if study.mechanism.calibration != "exact" and not ridge > smallest * (1 + 1e-9):
        raised = "ridge_scale" if sqrt else "ridge"
        raise StudyError(
            f"[mechanism] lambda = {ridge:.6g} is too small: with the paper's constants dp-lsl "
            f"needs more than ||Phi||^2 max(rho) = {smallest:.6g}; raise {raised}, or use "
            'calibration = "exact"'
        )
    return ridge


def lsl_bound(study: Study, design: Design, trajectories: int) -> SmoothBound:
    """The paper's bound with the paper's constants, the sharper one with exact calibration."""
    low, high = study.return_bounds
    largest, reach = max(abs(low), abs(high)), max(high, 0.0) - min(low, 0.0)
    rho, m = design.weights, trajectories
    ridge = resolve_ridge(study, design, m)
    rounding = lsl_float_error(design, ridge, m, largest)
    if study.mechanism.calibration == "exact":
        return SmoothBound(
            psi=lambda counts, beta: smooth_ridge(
                counts,
                design,
                ridge=ridge,
                trajectories=m,
                beta=beta,
                largest=largest,
                reach=reach,
            ),
            factor=1.0,
            rounding=rounding,
            least=least_ridge_psi(design, ridge=ridge, trajectories=m, reach=reach),
            most=most_ridge_psi(design, ridge=ridge, trajectories=m, largest=largest, reach=reach),
        )
    slope = largest / reach * design.norm * float(rho.max()) / math.sqrt(2 * ridge)
    offset = float(np.linalg.norm(rho))
    # lambda - ||Phi||^2 ||rho||_inf, rounded down
    room = ridge - design.norm**2 * float(rho.max()) - 4 * UNIT_ROUNDOFF * ridge
    return SmoothBound(
        psi=lambda counts, beta: smooth_lsl(counts, rho, m, beta, slope=slope, offset=offset),
        factor=2 * reach * design.norm / room,
        rounding=rounding,
        least=offset**2,  # nobody visits anything
        most=(slope * math.sqrt(float(rho.sum()) * m) + offset) ** 2,  # everybody everything
    )


def dp_lsl(
    statistics: VisitStatistics, design: Design, study: Study, calibration: Calibration
) -> Perturbation:
    """Algorithm 2 up to the draw of eta."""
    bound = lsl_bound(study, design, statistics.trajectories)
    ridge = resolve_ridge(study, design, statistics.trajectories)
    theta = lsl(statistics, design, ridge)  # line 1
    psi = bound.psi(statistics.counts, calibration.beta)  # line 3; alpha and beta are line 2
    sigma = sigma_of(psi, bound, calibration)  # line 4
    return Perturbation(
        theta=theta,
        center=theta,
        psi=psi,
        sigma=sigma,
        calibration=calibration,
        smallest_sigma=sigma_of(bound.least, bound, calibration),
        to_theta=unchanged,
        noise_factors=lambda: row_norms(design.phi),
    )
