"""Define DP-LSW: [BGP16] Algorithm 1.

| symbol                      | here                         | public      |
|-----------------------------|------------------------------|-------------|
| R = F_hi - F_lo             | ``high - low``               | yes         |
| ||(Gamma^{1/2} Phi)^+||     | ``design.pseudo_inverse_norm`` | yes       |
| kappa                       | ``pseudo_count``             | yes         |
| L, q                        | ``per_unit``, ``touched``    | yes         |
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
import scipy

from privalue.core._arrays import Integers, Vector
from privalue.core._contributions import VisitStatistics
from privalue.core._design import Design, column_squares, dense
from privalue.core._least_squares import lsw, lsw_float_error
from privalue.core._mechanism import SmoothBound, SmoothMechanism
from privalue.core._sensitivity_lsw import smooth_lsw
from privalue.core._terms import LswTerms, Terms


class LswBound(SmoothBound):
    """||mu_X - mu_X'|| <= R ||(Gamma^{1/2} Phi)^+|| sqrt(psi), without the norm if whitened."""

    def __init__(self, terms: Terms, constants: LswTerms) -> None:
        design, limits, kappa = terms.design, terms.limits, constants.pseudo_count
        low, high = limits.return_bounds
        design.require_well_conditioned()  # else solver_slack bounds nothing
        per_unit, touched = limits.most_trajectories, limits.touched
        self._weights, self._kappa = design.weights, kappa
        self._unit = {"per_person": per_unit, "touched": touched}
        # A W^{-1} has orthonormal columns: whitened, F_X -> u has norm 1.
        norm = 1.0 if constants.whitened else design.pseudo_inverse_norm
        self.factor = (high - low) * norm * design.solver_slack
        largest = max(abs(low), abs(high))
        self.rounding = lsw_float_error(design, largest, whitened=constants.whitened)
        # Public bounds: psi is at least its part at k = 0, whose terms fall as counts grow, and no
        # term at any k exceeds that of a state with L visits (docs/proofs/persons.md, at the end).
        total = float(np.sort(design.weights)[-touched:].sum())
        most_count = max(terms.size.most_count, per_unit)
        self.least = total * (per_unit / (most_count + kappa)) ** 2  # all visit every state
        self.most = total * (per_unit / (per_unit + kappa)) ** 2  # nobody visits anything

    def psi(self, counts: Integers, beta: float) -> float:
        """Return psi_X^w. PRIVATE."""
        return smooth_lsw(counts, self._weights, beta, pseudo_count=self._kappa, **self._unit)


class DpLsw(SmoothMechanism):
    """Algorithm 1: theta, or u = W theta, gets noise."""

    def __init__(self, terms: Terms, constants: LswTerms) -> None:
        super().__init__(terms, constants, LswBound(terms, constants))
        self.constants, self.whitened = constants, constants.whitened
        self.whitening = Whitening(terms.design) if self.whitened else None

    def mean_returns(self, statistics: VisitStatistics) -> Vector:
        """Return F_X with its pseudo-visits, every entry within the return bounds. PRIVATE."""
        constants = self.constants
        return statistics.mean_returns(constants.unvisited, pseudo_count=constants.pseudo_count)

    def center(self, statistics: VisitStatistics) -> Vector:
        """Return theta_X^w, or u = W theta_X^w. PRIVATE."""
        means = self.mean_returns(statistics)
        return lsw(means, self.design) if self.whitening is None else self.whitening.whitened(means)


class Whitening:
    """u = W theta with W^T W = Phi^T Gamma Phi; everything about W is public.

    u is computed as W^{-T} A^T (Gamma^{1/2} F_X), A = Gamma^{1/2} Phi: A W^{-1} has orthonormal
    columns, so u moves by at most ||F_X - F_X'||_{2,Gamma}. theta = W^{-1} u is post-processing.
    The covariance of its noise is at most the paper's, in the Loewner order
    (docs/proofs/whitened-noise.md).
    """

    def __init__(self, design: Design) -> None:
        design.require_full_rank()
        self._design = design
        a = design.weighted_phi
        # W: a diagonal where features do not overlap, else upper triangular.
        self.diagonal = np.sqrt(column_squares(a)) if design.one_feature_per_state else None
        self.triangle: Vector = np.zeros((0, 0))
        self._q: Vector | None = None
        if self.diagonal is None:
            q, r = scipy.linalg.qr(dense(a), mode="economic")
            self._q, self.triangle = np.asarray(q), np.asarray(r)

    def whitened(self, mean_returns: Vector) -> Vector:
        """Return u = W theta_X^w. PRIVATE where the returns are."""
        target = np.sqrt(self._design.weights) * mean_returns
        if self._q is not None:
            return np.asarray(self._q.T @ target)
        return np.asarray(self._design.weighted_phi.T @ target) / self.diagonal
