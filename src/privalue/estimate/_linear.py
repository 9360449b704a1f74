"""Compute values of DP-LSW and DP-LSL: linear maps of the drawn numbers.

All of it is post-processing. Intervals would need the scale of the noise, which is private: there
are none.
"""

import numpy as np
import scipy

from privalue.core import Lsl, Lsw, Matrix, Vector, Whitening, dense
from privalue.estimate._arms import Overall
from privalue.estimate._statistics import Estimates


def theta_of(mechanism: Lsw | Lsl, drawn: Vector) -> Vector:
    """Return theta = W^{-1} u where u = W theta was drawn, else what was drawn."""
    whitening = mechanism.whitening if isinstance(mechanism, Lsw) else None
    if whitening is None:
        return drawn
    if whitening.diagonal is not None:
        return drawn / whitening.diagonal
    return np.asarray(scipy.linalg.solve_triangular(whitening.triangle, drawn))


def noise_factors(mechanism: Lsw | Lsl, rows: Matrix) -> Vector:
    """Return the standard deviations of rows times theta, over sigma: ||W^{-T} row||, or ||row||.

    Args:
        mechanism: with its constants.
        rows: a state's features each, or a mixture of them.
    """
    whitening = mechanism.whitening if isinstance(mechanism, Lsw) else None
    if whitening is None:
        return row_norms(rows)
    return _whitened_factors(whitening, rows)


def _whitened_factors(whitening: Whitening, rows: Matrix) -> Vector:
    """Return ||W^{-T} row|| of every row, by whichever form W has."""
    if whitening.diagonal is not None:
        shares = 1 / whitening.diagonal
        return row_norms(
            rows * shares if isinstance(rows, np.ndarray) else rows.multiply(shares).tocsr()
        )
    return row_norms(
        np.asarray(scipy.linalg.solve_triangular(whitening.triangle, dense(rows).T, trans="T")).T
    )


def linear_estimates(mechanism: Lsw | Lsl, drawn: Vector, *, start: Vector | None) -> Estimates:
    """Return theta and values, without intervals.

    Args:
        mechanism: with its constants.
        drawn: theta, or u = W theta, with noise.
        start: a distribution over states, for the overall value of the policy.

    Returns:
        What is published, moved between the return bounds.
    """
    theta = theta_of(mechanism, drawn)
    values, bounds = mechanism.design.values(theta), mechanism.terms.limits.return_bounds
    policy = None if start is None else Overall(value=float(np.clip(start @ values, *bounds)))
    return Estimates(theta=theta, values=np.clip(values, *bounds), policy=policy)


def row_norms(matrix: Matrix) -> Vector:
    """Return ||phi_s|| of every state."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.linalg.norm(matrix, axis=1))
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
