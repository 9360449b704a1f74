"""Hold Phi and the weights, solve LSW and LSL, and bound what rounding does to both.

| symbol              | here                       | shape  | public |
|---------------------|----------------------------|--------|--------|
| Phi                 | ``design.features``        | N x d  | yes    |
| w or rho            | ``design.weights``         | N      | yes    |
| A = Gamma^{1/2} Phi | ``design.weighted_features`` | N x d | yes    |
| ||Phi||             | ``design.norm``            |        | yes, an upper bound |
| ||A^+||             | ``design.pseudo_inverse_norm`` |    | yes, an upper bound |
| lambda              | ``ridge``                  |        | yes    |
| theta_X^w, theta_X^lambda | ``lsw``, ``lsl``     | d      | **private** |
| F_X, S              | means, sums of returns     | N      | **private** |
| tau                 | ``lsw_float_error``, ``lsl_float_error`` | | yes |

Phi is of one of two kinds: features that do not overlap (tabular, or aggregated: no row has two
entries), solved by division; and dense, solved by QR of the matrix itself, so that nothing is
squared or inverted.

Computed singular values are those of a matrix close to the given one (LAPACK is backward stable),
and every bound is moved by as much in the direction of more noise: up for a norm that multiplies a
sensitivity, down for a smallest singular value, which divides it. What gets noise is the computed
theta, which moves between neighbours by at most the true one's change plus 2 tau: so much is added
to the sensitivity. Proofs: docs/proofs/noise.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core.kernel import UNIT_ROUNDOFF, Integers, Vector
from privalue.core.limits import Limits, refusal

Matrix: TypeAlias = NDArray[np.float64] | sp.csr_array

DENSE_ENTRIES = 4_000_000  # of a sparse matrix of features that overlap: it is made dense


class Spectrum(NamedTuple):
    """The extreme singular values of a matrix: never less than ``low``, never above ``high``."""

    low: float
    high: float

    @property
    def condition(self) -> float:
        """Return an upper bound of the condition number; infinite without full column rank."""
        return self.high / self.low if self.low > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Features:
    """A matrix of N rows: dense, or sparse where no row has two entries.

    The columns of a sparse one share no row, so they are orthogonal: its Gram matrix is diagonal,
    and their norms are its singular values.
    """

    matrix: Matrix

    @property
    def longest_column(self) -> int:
        """Return the most entries that a column has: how many terms a sum over states adds up."""
        return int(np.bincount(sp.csr_array(self.matrix).indices, minlength=1).max())

    def scaled(self, by: Vector) -> "Features":
        """Return diag(by) times the matrix."""
        if isinstance(self.matrix, np.ndarray):
            return Features(by[:, None] * self.matrix)
        return Features(sp.csr_array(self.matrix.multiply(by[:, None])))

    def column_squares(self) -> Vector:
        """Return the squared norm of every column."""
        return np.asarray((self.matrix**2).sum(axis=0))

    def smallest_square(self) -> float:
        """Return the smallest eigenvalue of its Gram matrix."""
        if isinstance(self.matrix, np.ndarray):
            return float(scipy.linalg.eigvalsh(self.matrix.T @ self.matrix).min())
        return float(self.column_squares().min())

    @cached_property
    def spectrum(self) -> Spectrum:
        """Return bounds of the singular values.

        Where columns share no row: a sum of n squares is right to n roundings, relatively, and the
        root to half of that. Else LAPACK's, moved apart by its backward error, 8 max(N, d) u ||A||;
        with fewer rows than columns, some combination of features is 0 everywhere.
        """
        if not isinstance(self.matrix, np.ndarray):
            norms = np.sqrt(self.column_squares())
            error = (self.longest_column + 4) * UNIT_ROUNDOFF
            return Spectrum(float(norms.min()) * (1 - error), float(norms.max()) * (1 + error))
        values = scipy.linalg.svdvals(self.matrix)
        states, dimension = self.matrix.shape
        error = 8 * max(states, dimension) * UNIT_ROUNDOFF * float(values[0])
        low = 0.0 if states < dimension else max(float(values[-1]) - error, 0.0)
        return Spectrum(low, float(values[0]) + error)

    def solve(self, target: Vector, shift: float) -> Vector:
        """Return the theta that minimises ||matrix theta - target||^2 + shift ||theta||^2."""
        if not isinstance(self.matrix, np.ndarray):
            return np.asarray(self.matrix.T @ target / (self.column_squares() + shift))
        if shift:  # the ridge as d more rows: nothing is squared, the condition number neither
            rows = math.sqrt(shift) * np.eye(self.matrix.shape[1])
            extended = Features(np.vstack([self.matrix, rows]))
            return extended.solve(np.concatenate([target, np.zeros(len(rows))]), 0.0)
        return np.asarray(scipy.linalg.solve_triangular(self.root, self.whiten(target)))

    @cached_property
    def _factors(self) -> tuple[Vector, Vector]:
        """Return Q and R of a dense matrix."""
        q, r = scipy.linalg.qr(np.asarray(self.matrix), mode="economic")
        return np.asarray(q), np.asarray(r)

    @property
    def root(self) -> Vector:
        """Return W, upper triangular or a diagonal: W^T W is the Gram matrix."""
        is_dense = isinstance(self.matrix, np.ndarray)
        return self._factors[1] if is_dense else np.sqrt(self.column_squares())

    def whiten(self, target: Vector) -> Vector:
        """Return W theta for the theta of ``solve(target, 0)``, without a division by W^2."""
        if isinstance(self.matrix, np.ndarray):
            return np.asarray(self._factors[0].T @ target)
        return np.asarray(self.matrix.T @ target / self.root)


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Phi with the weights of the regression.

    A sparse ``phi`` whose features overlap is made dense, or refused if it is too large for that.
    """

    phi: Matrix
    weights: Vector

    def __post_init__(self) -> None:
        if isinstance(self.phi, np.ndarray) or self.one_feature_per_state:
            return
        if self.states * self.dimension > DENSE_ENTRIES:
            raise refusal("features-overlap", design=self, most=DENSE_ENTRIES)
        object.__setattr__(self, "phi", self.phi.toarray())

    @property
    def states(self) -> int:
        """N, the number of states."""
        return int(self.phi.shape[0])

    @property
    def dimension(self) -> int:
        """d, the number of features."""
        return int(self.phi.shape[1])

    @cached_property
    def entries(self) -> sp.csr_array:
        """Phi as a sparse matrix."""
        return sp.csr_array(self.phi)

    @cached_property
    def one_feature_per_state(self) -> bool:
        """Return whether no row of Phi has two entries: then the features do not overlap."""
        return bool((np.diff(self.entries.indptr) <= 1).all())

    @cached_property
    def is_indicator(self) -> bool:
        """Return whether every state has exactly one feature, of value 1: tabular, or groups."""
        one_entry = np.diff(self.entries.indptr) == 1
        return bool(one_entry.all() and (self.entries.data == 1).all())

    @cached_property
    def is_tabular(self) -> bool:
        """Return whether Phi is the identity: every state has a feature of its own."""
        in_order = np.array_equal(self.entries.indices, np.arange(self.dimension))
        return self.is_indicator and in_order

    @cached_property
    def features(self) -> Features:
        """Phi, of one of the two kinds."""
        return Features(self.entries if self.one_feature_per_state else self.phi)

    @cached_property
    def weighted_features(self) -> Features:
        """A = Gamma^{1/2} Phi; Phi itself, with its spectrum, where all weights are 1."""
        if (self.weights == 1.0).all():
            return self.features
        return self.features.scaled(np.sqrt(self.weights))

    @property
    def norm(self) -> float:
        """||Phi||, rounded up."""
        return self.features.spectrum.high

    def values(self, theta: Vector) -> Vector:
        """Return Phi theta: the value of every state."""
        return np.asarray(self.phi @ theta)

    @property
    def pseudo_inverse_norm(self) -> float:
        """||A^+|| = 1/sigma_min, rounded up."""
        self.require_full_rank()
        return float(np.nextafter(1.0 / self.weighted_features.spectrum.low, np.inf))

    def require_full_rank(self) -> None:
        """Refuse a design whose least-squares solution is not unique ([BGP16] section 3.1).

        A smallest singular value that rounding cannot distinguish from 0 counts as 0.
        """
        if not self.weighted_features.spectrum.low > 0:
            raise refusal("features-not-independent", design=self)

    @cached_property
    def solver_error(self) -> float:
        """Return eta = p u kappa: how far the solver's public map T is from A^+, relatively.

        The computed factors define a public linear map T from returns to theta. Privacy depends
        on ||T|| alone, not on how far T is from A^+. With eta at most 1/20, which
        ``require_well_conditioned`` demands, ||T|| <= ||A^+|| (1 + 3 eta) (docs/proofs/noise.md).

        [Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., theorems 19.4 and 20.3]
        has a small constant times N d u for p u, and sqrt(d) of that for Q. Where features do not
        overlap, theta is a list of quotients of sums, and kappa amplifies nothing.
        """
        if self.one_feature_per_state:
            return 2.0 * (self.features.longest_column + 8) * UNIT_ROUNDOFF
        size = 8.0 * self.states * self.dimension * math.sqrt(self.dimension)
        return size * UNIT_ROUNDOFF * self.weighted_features.spectrum.condition

    def require_well_conditioned(self) -> None:
        """Refuse a design that floating point cannot solve, by public quantities alone."""
        if not self.solver_error <= 0.05:
            raise refusal("features-ill-conditioned", design=self)


def lsw(mean_returns: Vector, design: Design) -> Vector:
    """Return theta_X^w = A^+ Gamma^{1/2} F_X ([BGP16] equation 8).

    The matrix and its factors are the same for all data sets: theta is a public linear map of
    F_X up to tau, whatever rounding made of the factors.
    """
    design.require_full_rank()
    return design.weighted_features.solve(np.sqrt(design.weights) * mean_returns, 0.0)


def lsl(counts: Integers, return_sums: Vector, design: Design, ridge: float) -> Vector:
    """Return theta_X^lambda: (Phi^T D Phi + (lambda/2) I) theta = Phi^T Gamma_rho S.

    [BGP16] equation 11 multiplied by m: D = diag(rho_s |X_s|), S the sums of returns; there is no
    m in it. As least squares: sqrt(D) Phi over sqrt(lambda/2) I, against sqrt(rho/|X_s|) S over 0.
    """
    visits = np.maximum(counts, 1)  # without visits the sum is 0 anyway
    matrix = design.features.scaled(np.sqrt(design.weights * counts))
    return matrix.solve(np.sqrt(design.weights / visits) * return_sums, ridge / 2)


def lsw_float_error(design: Design, limits: Limits, *, whitened: bool) -> float:
    """Return tau, a public bound of how far theta is from the solver's public linear map of F_X.

    tau = 4 u ((N + 2) sqrt(d) + d^{3/2} kappa) ||b|| / sigma_min for QR, where the target
    b = Gamma^{1/2} F_X has a norm of at most F_abs sqrt(sum w): inner products over the states,
    and a triangular solve, which multiplies errors by kappa.

    Args:
        design: Phi and w.
        limits: F_abs.
        whitened: ask for u = W theta instead, which needs no division by W.

    Returns:
        tau.
    """
    n, d, weighted = design.states, design.dimension, design.weighted_features
    largest_return = limits.largest_return
    if design.one_feature_per_state:  # each entry is a quotient of two sums, with its own error
        largest = abs(sp.csr_array(weighted.matrix)).T @ np.sqrt(design.weights)
        size = np.linalg.norm(largest / (weighted.root if whitened else weighted.column_squares()))
        return 4.0 * (weighted.longest_column + 8.0) * UNIT_ROUNDOFF * largest_return * float(size)
    steps = (n + 2) * d**0.5  # inner products over the states
    if not whitened:
        steps += d**1.5 * weighted.spectrum.condition  # one triangular solve
    target = largest_return * float(np.sqrt(design.weights.sum()))
    error = 4.0 * steps * UNIT_ROUNDOFF * target
    return float(error if whitened else error / weighted.spectrum.low)


def lsl_float_error(design: Design, limits: Limits, ridge: float, cap: int) -> float:
    """Return tau, a public bound of ||computed theta - theta||, from the largest counts possible.

    Here the matrix depends on the counts, so there is no public map, and the error is that against
    the exact solution, over all data sets. No state has more visits than the cap, and all have no
    more than H times it together. By an orthogonal factorisation: 5 p u kappa ||target||/sigma_min.

    Args:
        design: Phi and rho.
        limits: F_abs and H.
        ridge: lambda, above 0.
        cap: the most that a count can be, public: m, or what stands for it.

    Returns:
        tau; where there is no bound, the study is refused, from public numbers.
    """
    low = float(np.sqrt(ridge / 2))  # no singular value of the augmented matrix is smaller
    visits = cap * float(min(limits.max_states_per_trajectory, design.states))
    heaviest = float(design.weights.max())
    weight = min(cap * float(design.weights.sum()), visits * heaviest)
    target = limits.largest_return * float(np.sqrt(weight))
    high = float(np.sqrt(design.norm**2 * heaviest * cap + low**2))
    if design.one_feature_per_state:
        relative = 4.0 * (design.features.longest_column + 8) * UNIT_ROUNDOFF
    else:
        size = 8.0 * (design.states + design.dimension) * design.dimension**1.5 * UNIT_ROUNDOFF
        relative = 5.0 * size * high / low
    if not relative <= 0.25:  # Wedin's theorem presumes kappa e <= 1/20
        raise refusal("regression-ill-conditioned", relative=relative)
    return float(relative * target / low)
