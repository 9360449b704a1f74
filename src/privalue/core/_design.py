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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core._arrays import UNIT_ROUNDOFF, Matrix, Vector
from privalue.errors import StudyError


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

    Phi has one of two forms, each with its own way to solve: features that do not overlap (no row
    has two entries), by division, dense or sparse; features that do, by QR, dense.
    """

    phi: Matrix
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not (isinstance(self.phi, np.ndarray) or self.one_feature_per_state):
            raise ValueError("features that overlap need a dense matrix")

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
        return spectrum(self.weighted_phi, self.one_feature_per_state)

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
        sums are all there is.
        """
        if self.one_feature_per_state:
            return 2.0 * (longest_column(self.phi) + 8) * UNIT_ROUNDOFF
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
        """Return what rounding errors are multiplied by: kappa.

        Where features do not overlap, theta is a list of quotients, and nothing is amplified.
        """
        return 1.0 if self.one_feature_per_state else self.weighted.condition


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


def spectrum(matrix: Matrix, one_entry_per_row: bool) -> Spectrum:
    """Return bounds of the smallest and the largest singular value of an N x d matrix.

    Args:
        matrix: dense; or sparse, if no row has two entries.
        one_entry_per_row: whether no row has two entries.

    Returns:
        A spectrum whose ``low`` is not too large and whose ``high`` is not too small.
    """
    if one_entry_per_row:
        return _spectrum_of_disjoint_columns(matrix)
    found = _spectrum_of_dense(dense(matrix))
    if matrix.shape[0] < matrix.shape[1]:  # some combination of features is 0 everywhere
        return Spectrum(low=0.0, high=found.high)
    return found


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
