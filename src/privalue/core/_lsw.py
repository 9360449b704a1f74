"""DP-LSW: [BGP16] Algorithm 1.

| symbol                      | here                         | public      |
|-----------------------------|------------------------------|-------------|
| R = F_hi - F_lo             | ``high - low``               | yes         |
| ||(Gamma^{1/2} Phi)^+||     | ``design.pseudo_inverse_norm`` | yes       |
| kappa                       | ``pseudo_count``             | yes         |
| L, q                        | ``per_person``, ``touched``  | yes         |
| psi_X^w                     | ``psi``                      | **private** |
| tau                         | ``rounding``                 | yes         |

Differs from the paper: returns lie in [F_lo, F_hi] and only their range R counts, since an
unvisited state has a public value inside it (docs/proofs/dp-lsw.md); every state may get kappa
pseudo-visits at that value (docs/proofs/pseudo-counts.md); a person may have L trajectories, and
neighbours may differ in q states only (docs/proofs/persons.md and bounded-contribution.md); the
float error tau of theta is added to the sensitivity (docs/proofs/float-error.md); ``whitened``
noise is drawn for u = W theta with W^T W = Phi^T Gamma Phi, where the sensitivity needs no factor
(docs/proofs/whitened-noise.md).
"""

import numpy as np
import scipy.linalg as sl

from privalue.core._arrays import Vector
from privalue.core._contributions import VisitStatistics
from privalue.core._design import Design, column_squares, row_quadratics
from privalue.core._least_squares import lsw, lsw_float_error
from privalue.core._mechanism import (
    SmoothBound,
    SmoothMechanism,
    row_norms,
)
from privalue.core._sensitivity_lsw import smooth_lsw
from privalue.core._size import PublicSize
from privalue.study._side_files import Matrix
from privalue.study._study import Study


def lsw_bound(study: Study, design: Design, size: PublicSize) -> SmoothBound:
    """||mu_X - mu_X'|| <= R ||(Gamma^{1/2} Phi)^+|| sqrt(psi), without the norm if whitened."""
    low, high = study.return_bounds
    largest = max(abs(low), abs(high))
    whitened = study.mechanism.noise == "whitened"
    norm = 1.0 if whitened else design.pseudo_inverse_norm
    weights, kappa = design.weights, study.mechanism.pseudo_count
    per_person, touched = study.trajectories_per_person, study.states_touched
    total = float(np.sort(weights)[-touched:].sum())
    return SmoothBound(
        psi=lambda counts, beta: smooth_lsw(
            counts, weights, beta, pseudo_count=kappa, per_person=per_person, touched=touched
        ),
        factor=(high - low) * norm * design.solver_slack,
        rounding=lsw_float_error(design, largest, whitened=whitened),
        least=total
        * (per_person / (max(size.most_count, per_person) + kappa)) ** 2,  # all visit every state
        most=total * (per_person / (per_person + kappa)) ** 2,  # nobody visits anything
    )


class DpLsw(SmoothMechanism):
    """Algorithm 1: theta, or u = W theta, gets noise."""

    def __init__(self, study: Study, design: Design, size: PublicSize) -> None:
        super().__init__(study, design, size, lsw_bound(study, design, size))
        self.whitened = study.mechanism.noise == "whitened"
        self._whitening = Whitening(design) if self.whitened else None

    def center(self, statistics: VisitStatistics) -> Vector:
        """theta_X^w, or u = W theta_X^w. PRIVATE."""
        if self._whitening is None:
            return self.theta_before_noise(statistics)
        return self._whitening.whitened(self._mean_returns(statistics))

    def theta_before_noise(self, statistics: VisitStatistics) -> Vector:
        """theta_X^w. PRIVATE; where the noise is whitened, no part of a release."""
        return lsw(self._mean_returns(statistics), self.design)

    def _mean_returns(self, statistics: VisitStatistics) -> Vector:
        return statistics.mean_returns(
            self.study.values.unvisited_value, pseudo_count=self.study.mechanism.pseudo_count
        )

    def largest_center(self) -> float:
        """||u_X|| <= F_abs sqrt(sum w), and theta is at most ||(Gamma^{1/2} Phi)^+|| times that."""
        largest = max(map(abs, self.study.return_bounds))
        norm = largest * float(np.sqrt(self.design.weights.sum()))
        return norm * (self.design.pseudo_inverse_norm if self._whitening is None else 1.0)

    def to_theta(self, drawn: Vector) -> Vector:
        """theta = W^{-1} u where u was drawn."""
        return drawn if self._whitening is None else self._whitening.theta(drawn)

    def factors(self, rows: Matrix) -> Vector:
        """||W^{-T} row||, or ||row||."""
        return row_norms(rows) if self._whitening is None else self._whitening.factors(rows)


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
            self._r = design.root

    def whitened(self, mean_returns: Vector) -> Vector:
        """u = W theta_X^w."""
        design = self._design
        target = np.sqrt(design.weights) * mean_returns
        if design.one_feature_per_state:
            return np.asarray(design.weighted_phi.T @ target) / self._diagonal
        if isinstance(design.weighted_phi, np.ndarray):
            return np.asarray(self._q.T @ target)
        return np.asarray(sl.solve_triangular(self._r, design.weighted_phi.T @ target, trans="T"))

    def factors(self, rows: Matrix) -> Vector:
        """||W^{-T} row|| of every row: a state's features, or a mixture of them."""
        if self._design.one_feature_per_state:
            shares = 1 / self._diagonal
            return row_norms(
                rows * shares if isinstance(rows, np.ndarray) else rows.multiply(shares).tocsr()
            )
        if isinstance(rows, np.ndarray):
            return row_norms(np.asarray(sl.solve_triangular(self._r, rows.T, trans="T")).T)
        return np.sqrt(row_quadratics(rows, self._design.upper_inverse))

    def theta(self, u: Vector) -> Vector:
        """theta = W^{-1} u: post-processing of the noisy u."""
        if self._design.one_feature_per_state:
            return u / self._diagonal
        return np.asarray(sl.solve_triangular(self._r, u))
