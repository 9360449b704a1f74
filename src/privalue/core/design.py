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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core.kernel import UNIT_ROUNDOFF, Integers, Vector
from privalue.errors import StudyError

Matrix: TypeAlias = NDArray[np.float64] | sp.csr_array

DENSE_ENTRIES = 4_000_000  # of a sparse matrix of features that overlap: it is made dense
# A study is refused where rounding could move its values, in root mean square over the states, by
# more than this share of the largest return.
LARGEST_ERROR = 1e-4


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """The extreme singular values of a matrix: never more than ``low``, never above ``high``."""

    low: float
    high: float

    @property
    def condition(self) -> float:
        """Return an upper bound of the condition number; infinite without full column rank."""
        return self.high / self.low if self.low > 0 else np.inf


@dataclass(frozen=True, eq=False)
class Disjoint:
    """A matrix of which no row has two entries: row s has ``scale_s`` in column ``index_s``."""

    index: Integers
    scale: Vector
    dimension: int
    longest_column: int  # the most entries that any has: how many terms a sum over states adds up

    def scaled(self, by: Vector) -> "Disjoint":
        """Return diag(by) times it."""
        return replace(self, scale=self.scale * by)

    def times(self, theta: Vector) -> Vector:
        """Return its product with a vector of d numbers."""
        return np.asarray(self.scale * theta[self.index] + 0.0)  # no -0.0

    def transposed_times(self, values: Vector) -> Vector:
        """Return the product of its transpose with a vector of N numbers."""
        return self._column_sums(self.scale * values)

    def column_squares(self) -> Vector:
        """Return the squared norm of every column."""
        return self._column_sums(np.square(self.scale))

    def _column_sums(self, entries: Vector) -> Vector:
        sums = np.bincount(self.index, entries, minlength=self.dimension)
        return np.asarray(sums, dtype=np.float64)

    def spectrum(self) -> Spectrum:
        """Return bounds of the columns' norms: they share no row, so these are singular values.

        A sum of n squares is right to n roundings, relatively, and the root to half of that.
        """
        squares = self.column_squares()
        error = (self.longest_column + 4) * UNIT_ROUNDOFF
        return Spectrum(
            low=float(np.sqrt(squares.min())) * (1 - error),
            high=float(np.sqrt(squares.max())) * (1 + error),
        )

    def solve(self, target: Vector, shift: float) -> Vector:
        """Return the theta that minimises ||matrix theta - target||^2 + shift ||theta||^2."""
        return np.asarray(self.transposed_times(target) / (self.column_squares() + shift))


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix whose columns may overlap."""

    matrix: Vector  # N x d

    def scaled(self, by: Vector) -> "Dense":
        """Return diag(by) times it."""
        return Dense(by[:, None] * self.matrix)

    def times(self, theta: Vector) -> Vector:
        """Return its product with a vector of d numbers."""
        return np.asarray(self.matrix @ theta)

    def column_squares(self) -> Vector:
        """Return the squared norm of every column."""
        return np.asarray(np.square(self.matrix).sum(axis=0))

    def spectrum(self) -> Spectrum:
        """Return LAPACK's singular values, moved apart by its backward error, 8 max(N, d) u ||A||.

        With fewer rows than columns, some combination of features is 0 everywhere.
        """
        values = scipy.linalg.svdvals(self.matrix)
        states, dimension = self.matrix.shape
        error = 8 * max(states, dimension) * UNIT_ROUNDOFF * float(values[0])
        low = 0.0 if states < dimension else max(float(values[-1]) - error, 0.0)
        return Spectrum(low=low, high=float(values[0]) + error)

    def solve(self, target: Vector, shift: float) -> Vector:
        """Return the theta that minimises ||matrix theta - target||^2 + shift ||theta||^2."""
        matrix = self.matrix
        if shift:  # the ridge as d more rows: nothing is squared, the condition number neither
            identity = np.eye(matrix.shape[1])
            matrix = np.vstack([matrix, np.sqrt(shift) * identity])
            target = np.concatenate([target, np.zeros(len(identity))])
        q, r = scipy.linalg.qr(matrix, mode="economic")
        return np.asarray(scipy.linalg.solve_triangular(r, q.T @ target))


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Phi with the weights of the regression.

    A sparse ``phi`` whose features overlap is made dense, or refused if it is too large for that.
    """

    phi: Matrix
    weights: Vector

    def __post_init__(self) -> None:
        states, dimension = self.phi.shape
        if isinstance(self.phi, np.ndarray) or self.one_feature_per_state:
            return
        if states * dimension > DENSE_ENTRIES:
            raise StudyError(
                f"[features] {states} x {dimension}: a sparse matrix whose features overlap is "
                f"made dense, and may have at most {DENSE_ENTRIES:,} entries, zeros included; use "
                "fewer features, or features of which every state has one"
            )
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
    def _entries(self) -> sp.csr_array:
        return sp.csr_array(self.phi)

    @cached_property
    def one_feature_per_state(self) -> bool:
        """Return whether no row of Phi has two entries: then the features do not overlap."""
        return bool((np.diff(self._entries.indptr) <= 1).all())

    @cached_property
    def is_indicator(self) -> bool:
        """Return whether every state has exactly one feature, of value 1: tabular, or groups."""
        rows, values = np.diff(self._entries.indptr), self._entries.data
        return bool((rows == 1).all() and (values == 1).all())

    @cached_property
    def is_tabular(self) -> bool:
        """Return whether Phi is the identity: every state has a feature of its own."""
        if self.states != self.dimension or not self.is_indicator:
            return False
        return bool((self._entries.indices == np.arange(self.states)).all())

    @cached_property
    def features(self) -> Disjoint | Dense:
        """Phi, of one of the two kinds."""
        if not self.one_feature_per_state:
            return Dense(dense(self.phi))
        some = np.diff(self._entries.indptr) == 1
        index, scale = np.zeros(self.states, dtype=np.int64), np.zeros(self.states)
        index[some], scale[some] = self._entries.indices, self._entries.data
        longest = int(np.bincount(self._entries.indices, minlength=1).max())
        return Disjoint(index, scale, self.dimension, longest)

    @cached_property
    def weighted_features(self) -> Disjoint | Dense:
        """A = Gamma^{1/2} Phi."""
        return self.features.scaled(np.sqrt(self.weights))

    @cached_property
    def weighted_squares(self) -> Vector:
        """The squared norms of the columns of A."""
        return self.weighted_features.column_squares()

    @cached_property
    def weighted(self) -> Spectrum:
        """The spectrum of A."""
        return self.weighted_features.spectrum()

    @cached_property
    def norm(self) -> float:
        """||Phi||, rounded up."""
        if (self.weights == 1.0).all():  # A is Phi: one spectrum does for both
            return self.weighted.high
        return self.features.spectrum().high

    def values(self, theta: Vector) -> Vector:
        """Return Phi theta: the value of every state."""
        return self.features.times(theta)

    @property
    def full_rank(self) -> bool:
        """Return whether A certainly has full column rank.

        A smallest singular value that rounding cannot distinguish from 0 counts as 0.
        """
        return self.weighted.low > 0

    @property
    def pseudo_inverse_norm(self) -> float:
        """||A^+|| = 1/sigma_min, rounded up."""
        self.require_full_rank()
        return float(np.nextafter(1.0 / self.weighted.low, np.inf))

    def require_full_rank(self) -> None:
        """Refuse a design whose least-squares solution is not unique ([BGP16] section 3.1)."""
        if not self.full_rank:
            raise StudyError(
                f"[features] Gamma^(1/2) Phi ({self.states} states, {self.dimension} features) "
                "does not have full column rank: the states with weight do not determine every "
                "feature; drop redundant features, or give weight to the states they need"
            )

    @cached_property
    def backward_error(self) -> float:
        """Return p u: a factorisation of the design is exact for a matrix this close, relatively.

        [Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., theorems 19.4 and 20.3]
        has a small constant times N d u, and sqrt(d) of that for Q; where features do not overlap,
        sums are all there is.
        """
        if isinstance(self.features, Disjoint):
            return 2.0 * (self.features.longest_column + 8) * UNIT_ROUNDOFF
        return 8.0 * self.states * self.dimension * math.sqrt(self.dimension) * UNIT_ROUNDOFF

    @property
    def conditioning(self) -> float:
        """Return what rounding errors are multiplied by: kappa.

        Where features do not overlap, theta is a list of quotients, and nothing is amplified.
        """
        return 1.0 if self.one_feature_per_state else self.weighted.condition

    @property
    def solver_slack(self) -> float:
        """Return how many times larger than that of the pseudo-inverse the solver's norm can be.

        The computed factors define a public linear map T from returns to theta. Privacy depends
        on ||T|| alone, not on how far T is from A^+. With eta = ``backward_error`` times
        ``conditioning`` at most 1/20, which ``require_well_conditioned`` demands,
        ||T|| <= ||A^+|| (1 + 3 eta) (docs/proofs/noise.md).
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


def dense(matrix: Matrix) -> Vector:
    """Return the matrix as a dense array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


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
    visits = np.maximum(counts, 1)  # where nobody was, the sum is 0 anyway
    matrix = design.features.scaled(np.sqrt(design.weights * counts))
    return matrix.solve(np.sqrt(design.weights / visits) * return_sums, ridge / 2)


def lsw_float_error(design: Design, largest_return: float, *, whitened: bool = False) -> float:
    """Return tau, a public bound of how far theta is from the solver's public linear map of F_X.

    tau = 4 u ((N + 2) sqrt(d) + d^{3/2} kappa) ||b|| / sigma_min for QR, where the target
    b = Gamma^{1/2} F_X has a norm of at most F_abs sqrt(sum w): inner products over the states,
    and a triangular solve, which multiplies errors by kappa.

    Args:
        design: Phi and w.
        largest_return: F_abs.
        whitened: ask for u = W theta instead, which needs no division by W.

    Returns:
        tau. Where theta is divided by sigma_min, a tau that would show in the values is refused.
    """
    n, d, weighted = design.states, design.dimension, design.weighted_features
    if isinstance(weighted, Disjoint):  # each entry is a quotient of two sums, with its own error
        squares = design.weighted_squares
        absolute = replace(weighted, scale=np.abs(weighted.scale))
        largest = absolute.transposed_times(np.sqrt(design.weights))
        size = np.linalg.norm(largest / (np.sqrt(squares) if whitened else squares))
        return 4.0 * (weighted.longest_column + 8.0) * UNIT_ROUNDOFF * largest_return * float(size)
    products = (n + 2) * d**0.5  # inner products over the states
    triangles = d**1.5  # one triangular solve
    steps = products if whitened else products + triangles * design.weighted.condition
    target = largest_return * float(np.sqrt(design.weights.sum()))
    error = 4.0 * steps * UNIT_ROUNDOFF * target
    return error if whitened else _small(design, error / design.weighted.low, largest_return)


def lsl_float_error(
    design: Design, ridge: float, trajectories: int, largest: float, most_states: int
) -> float:
    """Return tau, a public bound of ||computed theta - theta||, from the largest counts possible.

    Here the matrix depends on the counts, so there is no public map, and the error is that against
    the exact solution, over all data sets. No state has more than m visits, and all have no more
    than m H together. By an orthogonal factorisation: 5 p u kappa ||target|| / sigma_min.

    Args:
        design: Phi and rho.
        ridge: lambda, above 0.
        trajectories: the most that a count can be, public: m, or the cap that stands for it.
        largest: F_abs.
        most_states: H.

    Returns:
        tau; errors that would show in the values are refused, from public numbers.
    """
    low = float(np.sqrt(ridge / 2))  # no singular value of the augmented matrix is smaller
    visits = trajectories * float(min(most_states, design.states))
    heaviest = float(design.weights.max())
    weight = min(trajectories * float(design.weights.sum()), visits * heaviest)
    target = largest * float(np.sqrt(weight))
    high = float(np.sqrt(design.norm**2 * heaviest * trajectories + low**2))
    if isinstance(design.features, Disjoint):
        relative = 4.0 * (design.features.longest_column + 8) * UNIT_ROUNDOFF
    else:
        size = 8.0 * (design.states + design.dimension) * design.dimension**1.5 * UNIT_ROUNDOFF
        relative = 5.0 * size * high / low
    if not relative <= 0.25:  # Wedin's theorem presumes kappa e <= 1/20
        relative = np.inf
    return _small(design, relative * target / low, largest)


def _small(design: Design, error: float, largest_return: float) -> float:
    """Return the error, or refuse the study where it is not small beside the values.

    An error of theta moves the values by at most ||Phi|| times it, in norm over the states.
    """
    largest = LARGEST_ERROR * largest_return * float(np.sqrt(design.states)) / design.norm
    if not error <= largest:
        raise StudyError(
            f"[features] the regression is too ill-conditioned: rounding could move its solution "
            f"by {error:.2g}, and {largest:.2g} is allowed; use features that are less alike, "
            "weights less extreme, a larger ridge, or max_states_per_trajectory"
        )
    return error
