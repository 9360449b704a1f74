"""Solve LSW and LSL, from the first-visit statistics.

| symbol       | here                | shape | public      |
|--------------|---------------------|-------|-------------|
| theta_X^w    | ``lsw``             | d     | **private** |
| theta_X^lambda | ``lsl``           | d     | **private** |
| F_X, S       | means, sums of returns | N  | **private** |
| lambda       | ``ridge``           |       | yes         |

Every solution comes from an orthogonal factorisation of the matrix itself (by division where
features do not overlap); nothing is inverted. Each solver has a companion that bounds its
floating-point error tau by public quantities alone (docs/proofs/float-error.md). What gets noise is
the computed theta, which moves between neighbours by at most the true one's change plus 2 tau: so
much is added to the sensitivity.
"""

import numpy as np
import scipy

from privalue.core._arrays import UNIT_ROUNDOFF, Matrix, Vector
from privalue.core._contributions import Statistics
from privalue.core._design import (
    Design,
    absolute,
    column_squares,
    dense,
    longest_column,
    scaled_rows,
)
from privalue.errors import StudyError

# A study is refused where rounding could move its values, in root mean square over the states, by
# more than this share of the largest return.
LARGEST_ERROR = 1e-4


def lsw(mean_returns: Vector, design: Design) -> Vector:
    """Return theta_X^w = (Gamma^{1/2} Phi)^+ Gamma^{1/2} F_X ([BGP16] equation 8).

    The matrix and its factors are the same for all data sets: theta is a public linear map of
    F_X up to tau, whatever rounding made of the factors.
    """
    design.require_full_rank()
    target = np.sqrt(design.weights) * mean_returns
    return _solve(design.weighted_phi, target, design.one_feature_per_state)


def lsl(statistics: Statistics, design: Design, ridge: float) -> Vector:
    """Return theta_X^lambda: (Phi^T D Phi + (lambda/2) I) theta = Phi^T Gamma_rho S.

    [BGP16] equation 11 multiplied by m: D = diag(rho_s |X_s|), S the sums of returns; there is no
    m in it. As least squares: sqrt(D) Phi over sqrt(lambda/2) I, against sqrt(rho/|X_s|) S over 0.
    """
    visits = np.maximum(statistics.counts, 1)  # where nobody was, the sum is 0 anyway
    matrix = scaled_rows(design.phi, np.sqrt(design.weights * statistics.counts))
    target = np.sqrt(design.weights / visits) * statistics.return_sums
    return _solve(matrix, target, design.one_feature_per_state, ridge / 2)


def _solve(matrix: Matrix, target: Vector, one_entry_per_row: bool, shift: float = 0.0) -> Vector:
    """Return the theta that minimises ||matrix theta - target||^2 + shift ||theta||^2.

    Args:
        matrix: N x d, of full column rank unless ``shift`` is above 0.
        target: N numbers.
        one_entry_per_row: whether no row of the matrix has two entries.
        shift: lambda/2, or 0.

    Returns:
        theta, d numbers.
    """
    if one_entry_per_row:  # features do not overlap: d separate problems
        right = np.asarray(matrix.T @ target)
        return np.asarray(right / (column_squares(matrix) + shift))
    matrix, dimension = dense(matrix), matrix.shape[1]
    if shift:  # the ridge as d more rows: nothing is squared, the condition number neither
        matrix = np.vstack([matrix, np.sqrt(shift) * np.eye(dimension)])
        target = np.concatenate([target, np.zeros(dimension)])
    q, r = scipy.linalg.qr(matrix, mode="economic")
    return np.asarray(scipy.linalg.solve_triangular(r, q.T @ target))


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
    n, d, condition = design.states, design.dimension, design.weighted.condition
    if design.one_feature_per_state:  # each entry is a quotient of two sums, with its own error
        squares = column_squares(design.weighted_phi)
        largest = np.asarray(absolute(design.weighted_phi).T @ np.sqrt(design.weights))
        size = np.linalg.norm(largest / (np.sqrt(squares) if whitened else squares))
        steps = longest_column(design.phi) + 8.0
        return 4.0 * steps * UNIT_ROUNDOFF * largest_return * float(size)
    products = (n + 2) * d**0.5  # inner products over the states
    triangles = d**1.5  # one triangular solve
    steps = products if whitened else products + triangles * condition
    target = largest_return * float(np.sqrt(design.weights.sum()))
    error = 4.0 * steps * UNIT_ROUNDOFF * target
    return error if whitened else _small(design, error / design.weighted.low, largest_return)


def lsl_float_error(
    design: Design, ridge: float, trajectories: int, largest: float, most_states: int | None = None
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
        most_states: H; None means all states.

    Returns:
        tau; errors that would show in the values are refused, from public numbers.
    """
    low = float(np.sqrt(ridge / 2))  # no singular value of the augmented matrix is smaller
    visits = trajectories * float(min(most_states or design.states, design.states))
    heaviest = float(design.weights.max())
    weight = min(trajectories * float(design.weights.sum()), visits * heaviest)
    target = largest * float(np.sqrt(weight))
    high = float(np.sqrt(design.norm**2 * heaviest * trajectories + low**2))
    if design.one_feature_per_state:
        relative = 4.0 * (longest_column(design.phi) + 8) * UNIT_ROUNDOFF
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
