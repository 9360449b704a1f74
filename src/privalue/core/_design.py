"""Hold Phi and the weights, with their norms rounded towards more noise.

| symbol              | here                       | shape  | public |
|---------------------|----------------------------|--------|--------|
| Phi                 | ``design.phi``             | N x d  | yes    |
| w or rho            | ``design.weights``         | N      | yes    |
| Gamma^{1/2} Phi     | ``design.weighted_phi``    | N x d  | yes    |
| ||Phi||             | ``design.norm``            |        | yes, an upper bound |
| ||(Gamma^{1/2} Phi)^+|| | ``design.pseudo_inverse_norm`` |  | yes, an upper bound |

Everything here is public, and so is the floating-point error that it allows for: computed singular
values are those of a matrix close to the given one (LAPACK is backward stable), and every bound is
moved by as much in the direction of more noise. That is up for a norm that multiplies a
sensitivity, and down for a smallest singular value, which divides it. Proofs: docs/proofs/
float-error.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core._arrays import UNIT_ROUNDOFF, Matrix, Vector
from privalue.errors import StudyError

MOST_EIGENVALUES = 1500  # dimensions in which all of them are computed


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """The extreme singular values of a matrix: never more than ``low``, never above ``high``."""

    low: float
    high: float

    @property
    def condition(self) -> float:
        """Return an upper bound of the condition number; infinite without full column rank."""
        return self.high / self.low if self.low > 0 else np.inf


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Phi with the weights of the regression.

    Phi has one of three forms, each with its own way to solve: features that do not overlap (no
    row has two entries), by division; a dense matrix, by QR; a sparse one, by its Gram matrix.
    """

    phi: Matrix
    weights: NDArray[np.float64]

    @property
    def states(self) -> int:
        """N, the number of states."""
        return int(self.phi.shape[0])

    @property
    def dimension(self) -> int:
        """d, the number of features."""
        return int(self.phi.shape[1])

    def values(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Phi theta: the value of every state."""
        return np.asarray(self.phi @ theta)

    @cached_property
    def one_feature_per_state(self) -> bool:
        """Return whether no row of Phi has two entries: then the features do not overlap."""
        return bool((np.diff(sp.csr_array(self.phi).indptr) <= 1).all())

    @cached_property
    def is_indicator(self) -> bool:
        """Return whether every state has exactly one feature, of value 1: tabular, or groups."""
        return is_indicator(self.phi)

    @cached_property
    def is_tabular(self) -> bool:
        """Return whether Phi is the identity: every state has a feature of its own."""
        if self.states != self.dimension or not self.is_indicator:
            return False
        return bool((sp.csr_array(self.phi).indices == np.arange(self.states)).all())

    @property
    def by_gram(self) -> bool:
        """Return whether Phi is sparse and general, and so solved by its Gram matrix."""
        return not (self.one_feature_per_state or isinstance(self.phi, np.ndarray))

    @cached_property
    def weighted_phi(self) -> Matrix:
        """A = Gamma^{1/2} Phi, a new array: the weights themselves stay as they are."""
        return scaled_rows(self.phi, np.sqrt(self.weights))

    @cached_property
    def norm(self) -> float:
        """||Phi||, rounded up."""
        if (self.weights == 1.0).all():  # Gamma^{1/2} Phi is Phi: one spectrum does for both
            return self.weighted.high
        return spectrum(self.phi, self.one_feature_per_state).high

    @cached_property
    def weighted(self) -> Spectrum:
        """The spectrum of Gamma^{1/2} Phi."""
        many = self.by_gram and self.states >= self.dimension > MOST_EIGENVALUES
        return spectrum(
            self.weighted_phi, self.one_feature_per_state, self._factor if many else None
        )

    @property
    def full_rank(self) -> bool:
        """Return whether Gamma^{1/2} Phi certainly has full column rank.

        A smallest singular value that rounding cannot distinguish from 0 counts as 0.
        """
        return self.weighted.low > 0

    @property
    def pseudo_inverse_norm(self) -> float:
        """||(Gamma^{1/2} Phi)^+|| = 1/sigma_min, rounded up."""
        self.require_full_rank()
        return float(np.nextafter(1.0 / self.weighted.low, np.inf))

    @cached_property
    def _factor(self) -> Vector | None:
        """Cholesky's upper factor of Phi^T Gamma Phi; None where that is not positive definite."""
        return cholesky(gram(self.weighted_phi))

    @property
    def root(self) -> Vector:
        """W, upper triangular with W^T W = Phi^T Gamma Phi, from that matrix."""
        self.require_full_rank()
        assert self._factor is not None  # the rank is full by more than rounding could hide
        return self._factor

    def require_full_rank(self) -> None:
        """Refuse a design whose least-squares solution is not unique ([BGP16] section 3.1)."""
        if self.one_feature_per_state and not self.full_rank:
            lost = int(np.argmin(column_squares(self.weighted_phi)))
            raise StudyError(
                f"[weights] nothing determines feature {lost} (counted from 0): Gamma^(1/2) Phi "
                "does not have full column rank, since every state that has this feature has "
                "weight 0; give one of them weight, or drop the feature"
            )
        if not self.full_rank:
            raise StudyError(
                f"[features] Gamma^(1/2) Phi ({self.states} states, {self.dimension} features) "
                "does not have full column rank: the weighted states do not determine every "
                "feature; drop redundant features, or give weight to the states they need"
            )

    @cached_property
    def backward_error(self) -> float:
        """Return p u: a factorisation of the design is exact for a matrix this close, relatively.

        [Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., theorems 19.4 and 20.3]
        has a small constant times N d u, and sqrt(d) of that for Q; where features do not overlap,
        sums are all there is. From the Gram matrix, relative to ||Gamma^{1/2} Phi||^2: the error of
        forming it, and that of Cholesky's factor (theorem 10.3).
        """
        if self.one_feature_per_state:
            return 2.0 * (longest_column(self.phi) + 8) * UNIT_ROUNDOFF
        if self.by_gram:
            steps = 4.0 * (longest_column(self.phi) + self.dimension + 16)
            frobenius = float(column_squares(self.weighted_phi).sum())
            return steps * UNIT_ROUNDOFF * frobenius / self.weighted.high**2
        return 8.0 * self.states * self.dimension * math.sqrt(self.dimension) * UNIT_ROUNDOFF

    @property
    def solver_slack(self) -> float:
        """Return how many times larger than that of the pseudo-inverse the solver's norm can be.

        The computed factors define a public linear map T from returns to theta. Privacy depends
        on ||T|| alone, not on how far T is from (Gamma^{1/2} Phi)^+. With eta = ``backward_error``
        times ``conditioning`` at most 1/20, which ``require_well_conditioned`` demands,
        ||T|| <= ||(Gamma^{1/2} Phi)^+|| (1 + 3 eta) (docs/proofs/float-error.md).
        """
        return 1.0 + 3.0 * self.backward_error * self.conditioning

    def require_well_conditioned(self) -> None:
        """Refuse a design that floating point cannot solve, by public quantities alone."""
        if not self.backward_error * self.conditioning <= 0.05:
            raise StudyError(
                f"[features] Gamma^(1/2) Phi is too ill-conditioned (condition number up to "
                f"{self.weighted.condition:.3g}) for {self.states} states and {self.dimension} "
                "features; use features that are less alike, or weights less extreme"
            )

    @property
    def conditioning(self) -> float:
        """Return what rounding errors are multiplied by: kappa, or kappa^2 by the Gram matrix.

        Where features do not overlap, theta is a list of quotients, and nothing is amplified.
        """
        if self.one_feature_per_state:
            return 1.0
        return self.weighted.condition ** (1 if isinstance(self.phi, np.ndarray) else 2)


def is_indicator(matrix: Matrix) -> bool:
    """Return whether every row has exactly one entry, a 1."""
    entries = sp.csr_array(matrix)
    return bool((np.diff(entries.indptr) == 1).all() and (entries.data == 1).all())


def scaled_rows(matrix: Matrix, scale: NDArray[np.float64]) -> Matrix:
    """Return diag(scale) matrix, in the same storage."""
    if isinstance(matrix, np.ndarray):
        return scale[:, None] * matrix
    return _filled(matrix, matrix.data * np.repeat(scale, np.diff(matrix.indptr)))


def _filled(matrix: sp.csr_array, entries: Vector) -> sp.csr_array:
    """Return a sparse matrix with other entries in the same places."""
    return sp.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)


def spectrum(matrix: Matrix, one_entry_per_row: bool, factor: Vector | None = None) -> Spectrum:
    """Return bounds of the smallest and the largest singular value of an N x d matrix.

    Args:
        matrix: dense or sparse.
        one_entry_per_row: whether no row has two entries.
        factor: Cholesky's of the Gram matrix, if it is at hand.

    Returns:
        A spectrum whose ``low`` is not too large and whose ``high`` is not too small.
    """
    states, dimension = matrix.shape
    if one_entry_per_row:
        return _spectrum_of_disjoint_columns(matrix)
    if states < dimension:  # some combination of features is 0 everywhere
        return Spectrum(low=0.0, high=_spectrum_of_dense(dense(matrix)).high)
    if isinstance(matrix, np.ndarray):
        return _spectrum_of_dense(matrix)
    return _spectrum_by_gram(matrix, factor)


def _spectrum_of_disjoint_columns(matrix: Matrix) -> Spectrum:
    """Return bounds of the columns' norms: they share no row, so these are the singular values.

    A sum of n squares is right to n roundings, relatively, and the root to half of that.
    """
    squares = column_squares(matrix)
    longest = longest_column(matrix)
    error = (longest + 4) * UNIT_ROUNDOFF
    return Spectrum(
        low=float(np.sqrt(squares.min())) * (1 - error),
        high=float(np.sqrt(squares.max())) * (1 + error),
    )


def _spectrum_of_dense(matrix: NDArray[np.float64]) -> Spectrum:
    """Return LAPACK's singular values, moved apart by its backward error, 8 max(N, d) u ||A||."""
    values = scipy.linalg.svdvals(matrix)
    error = 8 * max(matrix.shape) * UNIT_ROUNDOFF * float(values[0])
    return Spectrum(low=max(float(values[-1]) - error, 0.0), high=float(values[0]) + error)


def gram(matrix: Matrix) -> Vector:
    """Return A^T A, dense."""
    return np.asarray(sp.csr_array(matrix.T @ matrix).toarray())


def _spectrum_by_gram(matrix: sp.csr_array, factor: Vector | None) -> Spectrum:
    """Return bounds from the eigenvalues of A^T A.

    The error of forming it is at most (n + 4) u tr(A^T A), n the most entries of a column; that
    of computing or certifying its eigenvalues comes on top of it.
    """
    squares = gram(matrix)
    trace, d = float(np.trace(squares)), len(squares)
    formed = UNIT_ROUNDOFF * (longest_column(matrix) + 4) * trace
    if trace == 0.0:
        return Spectrum(low=0.0, high=0.0)
    if d > MOST_EIGENVALUES:
        low, high = _certified_eigenvalues(squares, matrix, factor)
        # Rump, BIT 46 (2006), theorem 2.3: a factorisation that runs to completion proves that no
        # eigenvalue of its matrix is below minus about (d + 1) u times the trace. The trace of
        # high I - A^T A is at most d high.
        open_low, open_high = (2 * (d + 8) * UNIT_ROUNDOFF * t for t in (trace, d * high))
    else:
        values = scipy.linalg.eigvalsh(squares)
        low, high = float(values[0]), float(values[-1])
        open_low = open_high = UNIT_ROUNDOFF * 8 * d * high
    return Spectrum(
        low=float(np.sqrt(max(low - formed - open_low, 0.0))) * (1 - 4 * UNIT_ROUNDOFF),
        high=float(np.sqrt(high + formed + open_high)) * (1 + 4 * UNIT_ROUNDOFF),
    )


def _certified_eigenvalues(
    squares: Vector, matrix: sp.csr_array, factor: Vector | None
) -> tuple[float, float]:
    """Return two numbers between which all eigenvalues are, up to what Cholesky leaves open.

    Lanczos guesses them. That squares - low I and high I - squares have Cholesky factors, which
    only positive definite matrices have, proves them: a wrong guess costs another factorisation,
    never a wrong bound.
    """
    high = 1.01 * _largest_eigenvalue(len(squares), lambda x: matrix.T @ (matrix @ x))
    while cholesky(-squares, high) is None:
        high *= 1.1
    factor = cholesky(squares) if factor is None else factor
    if factor is None:
        return 0.0, high  # 0 is always a lower bound; the caller refuses the design
    inverse = _largest_eigenvalue(
        len(squares), lambda x: scipy.linalg.cho_solve((factor, False), x, check_finite=False)
    )
    # The inverse's largest eigenvalue is one over the smallest. The guess may be too large, so
    # smaller and smaller shares of it are tried.
    for share in (0.98, 0.9, 0.5, 0.1):
        if cholesky(squares, -share / inverse) is not None:
            return share / inverse, high
    return 0.0, high


def _largest_eigenvalue(size: int, product: Callable[[Vector], Vector]) -> float:
    """Return an approximation of the largest eigenvalue, by Lanczos, to about 1%.

    The start is fixed, so that results are reproducible, and without any symmetry that could make
    it orthogonal to the leading eigenvector. Nothing relies on the answer: it is a guess that
    ``_certified_eigenvalues`` proves or drops.
    """
    operator = sp.linalg.LinearOperator((size, size), matvec=product, dtype=np.float64)
    start = np.cos(np.square(np.arange(size, dtype=np.float64)))
    found = sp.linalg.eigsh(
        operator, k=1, which="LA", v0=start, tol=1e-2, return_eigenvectors=False
    )
    return float(found[0])


def cholesky(matrix: Vector, shift: float = 0.0) -> Vector | None:
    """Return Cholesky's upper factor of matrix + shift I; None where there is none."""
    shifted = matrix.T.copy(order="F")  # a copy in LAPACK's order, which it may overwrite
    shifted[np.diag_indices_from(shifted)] += shift
    factor, failed = scipy.linalg.lapack.dpotrf(shifted, overwrite_a=1)
    return None if failed else factor


def absolute(matrix: Matrix) -> Matrix:
    """Return |matrix|, entry by entry, in the same storage."""
    if isinstance(matrix, np.ndarray):
        return np.abs(matrix)
    return _filled(matrix, np.abs(matrix.data))


def column_squares(matrix: Matrix) -> NDArray[np.float64]:
    """Return the squared norm of every column."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.square(matrix).sum(axis=0))
    squares = np.bincount(matrix.indices, np.square(matrix.data), minlength=matrix.shape[1])
    return squares.astype(np.float64)


def longest_column(matrix: Matrix) -> int:
    """Return the most entries that any column has: how many terms a sum over states adds up."""
    return int(np.bincount(sp.csr_array(matrix).indices, minlength=1).max())


def dense(matrix: Matrix) -> NDArray[np.float64]:
    """Return the matrix as a dense array."""
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
