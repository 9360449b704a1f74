"""DP-LSW: [BGP16] Algorithm 1.

| symbol                      | here                         | public      |
|-----------------------------|------------------------------|-------------|
| R = F_hi - F_lo             | ``spread``                   | yes         |
| ||(Gamma^{1/2} Phi)^+||     | ``design.pseudo_inverse_norm`` | yes       |
| psi_X^w                     | ``psi``                      | **private** |
| tau                         | ``rounding``                 | yes         |

Differs from the paper: returns lie in [F_lo, F_hi] and only their range R counts, since an
unvisited state has a public value inside it (docs/proofs/dp-lsw.md); the float error tau of theta
is added to the sensitivity (docs/proofs/float-error.md); ``whitened`` noise is drawn for
u = W theta with W^T W = Phi^T Gamma Phi, where the sensitivity needs no factor
(docs/proofs/whitened-noise.md).
"""

import math
from collections.abc import Callable

import numpy as np
import scipy.linalg as sl

from privalue.calibration import Calibration
from privalue.features import Design, column_squares
from privalue.least_squares import lsw, lsw_float_error
from privalue.mechanisms.perturbation import Perturbation, Vector, require_finite_noise, unchanged
from privalue.sensitivity import smooth_lsw
from privalue.statistics import VisitStatistics
from privalue.study import Study


def dp_lsw(
    statistics: VisitStatistics, design: Design, study: Study, calibration: Calibration
) -> Perturbation:
    """Algorithm 1 up to the draw of eta."""
    low, high = study.return_bounds
    spread, largest = high - low, max(abs(low), abs(high))
    mean_returns = statistics.mean_returns(study.values.unvisited_value)

    theta = lsw(mean_returns, design)  # line 1
    alpha, beta = calibration.alpha, calibration.beta  # line 2
    if study.mechanism.noise == "whitened":
        whitening = Whitening(design)
        center = whitening.whitened(mean_returns)
        to_theta: Callable[[Vector], Vector] = whitening.theta
        factor = design.solver_slack  # ||A W^{-1}||, rounded up from 1
        rounding = lsw_float_error(design, largest, whitened=True)
    else:
        center, to_theta = theta, unchanged
        factor = design.pseudo_inverse_norm * design.solver_slack
        rounding = lsw_float_error(design, largest)

    def sigma(psi: float) -> float:
        return alpha * (spread * factor * math.sqrt(psi) + 2 * rounding)

    total = float(design.weights.sum())  # psi is largest where nobody visits anything
    require_finite_noise(sigma(total))
    psi = smooth_lsw(statistics.counts, design.weights, beta)  # line 3
    return Perturbation(
        theta=theta,
        center=center,
        psi=psi,
        sigma=sigma(psi),  # line 4
        calibration=calibration,
        # psi is at least its term k = 0 with every state visited by all m trajectories.
        smallest_sigma=sigma(total / statistics.trajectories**2),
        to_theta=to_theta,
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

    def theta(self, u: Vector) -> Vector:
        """theta = W^{-1} u: post-processing of the noisy u."""
        if self._design.one_feature_per_state:
            return u / self._diagonal
        return np.asarray(sl.solve_triangular(self._r, u))
