"""DP-LSW: [BGP16] Algorithm 1.

| symbol                      | here                         | public      |
|-----------------------------|------------------------------|-------------|
| R = F_hi - F_lo             | ``high - low``               | yes         |
| ||(Gamma^{1/2} Phi)^+||     | ``design.pseudo_inverse_norm`` | yes       |
| kappa                       | ``pseudo_count``             | yes         |
| psi_X^w                     | ``psi``                      | **private** |
| tau                         | ``rounding``                 | yes         |

Differs from the paper: returns lie in [F_lo, F_hi] and only their range R counts, since an
unvisited state has a public value inside it (docs/proofs/dp-lsw.md); every state may get kappa
pseudo-visits at that value (docs/proofs/pseudo-counts.md); the float error tau of theta is added
to the sensitivity (docs/proofs/float-error.md); ``whitened`` noise is drawn for u = W theta with
W^T W = Phi^T Gamma Phi, where the sensitivity needs no factor (docs/proofs/whitened-noise.md).
"""

import numpy as np
import scipy.linalg as sl

from privalue.calibration import Calibration
from privalue.features import Design, absolute, column_squares
from privalue.least_squares import lsw, lsw_float_error
from privalue.mechanisms.perturbation import (
    Perturbation,
    SmoothBound,
    Vector,
    row_norms,
    sigma_of,
    unchanged,
)
from privalue.sensitivity import smooth_lsw
from privalue.statistics import VisitStatistics
from privalue.study import Study


def lsw_bound(study: Study, design: Design, trajectories: int) -> SmoothBound:
    """||mu_X - mu_X'|| <= R ||(Gamma^{1/2} Phi)^+|| sqrt(psi), without the norm if whitened."""
    low, high = study.return_bounds
    largest = max(abs(low), abs(high))
    whitened = study.mechanism.noise == "whitened"
    norm = 1.0 if whitened else design.pseudo_inverse_norm
    weights, kappa = design.weights, study.mechanism.pseudo_count
    total = float(weights.sum())
    return SmoothBound(
        psi=lambda counts, beta: smooth_lsw(counts, weights, beta, pseudo_count=kappa),
        factor=(high - low) * norm * design.solver_slack,
        rounding=lsw_float_error(design, largest, whitened=whitened),
        least=total / (trajectories + kappa) ** 2,  # every state visited by all
        most=total / (1 + kappa) ** 2,  # nobody visits anything
    )


def dp_lsw(
    statistics: VisitStatistics, design: Design, study: Study, calibration: Calibration
) -> Perturbation:
    """Algorithm 1 up to the draw of eta."""
    bound = lsw_bound(study, design, statistics.trajectories)
    mean_returns = statistics.mean_returns(
        study.values.unvisited_value, pseudo_count=study.mechanism.pseudo_count
    )
    theta = lsw(mean_returns, design)  # line 1
    psi = bound.psi(statistics.counts, calibration.beta)  # line 3; alpha and beta are line 2
    sigma = sigma_of(psi, bound, calibration)  # line 4
    whitening = Whitening(design) if study.mechanism.noise == "whitened" else None
    return Perturbation(
        theta=theta,
        center=theta if whitening is None else whitening.whitened(mean_returns),
        psi=psi,
        sigma=sigma,
        calibration=calibration,
        smallest_sigma=sigma_of(bound.least, bound, calibration),
        to_theta=unchanged if whitening is None else whitening.theta,
        noise_factors=(lambda: row_norms(design.phi)) if whitening is None else whitening.factors,
    )


class Whitening:
    """u = W theta with W^T W = Phi^T Gamma Phi; everything about W is public.

    u is computed as W^{-T} A^T (Gamma^{1/2} F_X), A = Gamma^{1/2} Phi: A W^{-1} has orthonormal
    columns, so u moves by at most ||F_X - F_X'||_{2,Gamma}.
    """

    def __init__(self, design: Design) -> None:
        design.require_full_rank()
        self._design = design
        a = design.weighted_phi
        if design.one_feature_per_state:
            self._diagonal = np.sqrt(column_squares(a))
        elif isinstance(a, np.ndarray):
            self._q, self._r = sl.qr(a, mode="economic")
        else:
            self._r = sl.cholesky((a.T @ a).toarray())

    def whitened(self, mean_returns: Vector) -> Vector:
        """u = W theta_X^w."""
        design = self._design
        target = np.sqrt(design.weights) * mean_returns
        if design.one_feature_per_state:
            return np.asarray(design.weighted_phi.T @ target) / self._diagonal
        if isinstance(design.weighted_phi, np.ndarray):
            return np.asarray(self._q.T @ target)
        return np.asarray(sl.solve_triangular(self._r, design.weighted_phi.T @ target, trans="T"))

    def factors(self) -> Vector:
        """||W^{-T} phi_s|| of every state."""
        phi = self._design.phi
        if self._design.one_feature_per_state:
            return np.asarray(absolute(phi) @ (1 / self._diagonal))
        dense = phi if isinstance(phi, np.ndarray) else phi.toarray()
        return row_norms(np.asarray(sl.solve_triangular(self._r, dense.T, trans="T")).T)

    def theta(self, u: Vector) -> Vector:
        """theta = W^{-1} u: post-processing of the noisy u."""
        if self._design.one_feature_per_state:
            return u / self._diagonal
        return np.asarray(sl.solve_triangular(self._r, u))
