"""Fit theta to noisy statistics, by LSW or LSL, with intervals of what is made of theta.

| symbol      | here             | shape | public |
|-------------|------------------|-------|--------|
| T~, n~, c   | ``ratios``       | N     | yes    |
| Phi, w, rho | ``design``       |       | yes    |
| lambda      | ``ridge``        |       | yes    |
| theta~      | ``fit.theta``    | d     | yes    |
| theta_X     |                  | d     | **private**, what intervals cover |

| estimator                           | interval of a value                                     |
|-------------------------------------|---------------------------------------------------------|
| tabular LSW; LSL with one 1 per row | exact: the value is one ratio                           |
| LSW                                 | of a sum of means without bias: approximate, rather wide |
| LSL                                 | first order in the noise of the matrix, rather wide     |

docs/proofs/intervals.md has the arguments. Where features do not overlap, matrices are diagonal,
and vectors stand for them; otherwise they are d x d, and nothing is N x N.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy
import scipy.sparse as sp

from privalue.core import (
    Design,
    Lsl,
    Lsw,
    Matrix,
    Vector,
    Whitening,
    dense,
    lsw,
)
from privalue.estimate.ratios import Ratios, ratio_intervals, summands

_ENTRIES = 4_000_000  # of Phi that are multiplied at a time


class Fit(NamedTuple):
    """theta, and a function that gives intervals.

    ``ends(rows, z)`` returns the lower and upper ends for every row times theta; z is the quantile
    of a standard normal number that goes with the level.
    """

    theta: Vector
    ends: Callable[[Matrix, float], tuple[Vector, Vector]]
    directions: int  # values that differ
    dimension: int  # of the noise, where chi applies; 0 where it does not


def fit_ratios(ratios: Ratios, values: Vector, at: float) -> Fit:
    """Return the fit whose theta is one ratio for each coordinate, moved into an interval of it.

    A row with one 1 has the interval of its ratio. Others, such as a start distribution, have the
    usual one of a sum, with everything possible for ratios whose count is not clear.

    Args:
        ratios: sums over counts, with their noise.
        values: theta, before it is moved.
        at: the z of the interval that holds it.

    Returns:
        The fit.
    """
    inner = ratio_intervals(ratios, at)

    def ends(rows: Matrix, z: float) -> tuple[Vector, Vector]:
        entries = sp.csr_array(rows)
        if (np.diff(entries.indptr) == 1).all() and (entries.data == 1).all():
            chosen = entries.indices
            low, high = inner if z == at else ratio_intervals(ratios, z)
            return low[chosen], high[chosen]
        centre, variance, unknown = summands(ratios)
        middle = np.asarray(rows @ centre)
        half = z * np.sqrt(_quadratic(rows, variance)) + _absolute(rows) @ unknown
        # A distribution's mean of numbers between bounds is between them.
        return np.clip(middle - half, *ratios.bounds), np.clip(middle + half, *ratios.bounds)

    theta = np.clip(values, *inner)
    return Fit(theta, ends, len(theta), 0)


def group_ratios(ratios: Ratios, design: Design, ridge: float) -> Ratios:
    """Return theta of LSL, where every state has one feature of value 1, as a ratio per group.

    theta_g = (sum rho S)/(lambda/2 + sum rho n) over the group, S = T + c n, so that
    theta_g - c = (sum rho T - c lambda/2)/(lambda/2 + sum rho n). It lies between the bounds and 0.
    """
    rho, members = design.weights, design.phi.T
    least = 1e-9 * ridge  # of noise, where no state of a group has weight
    low, high = ratios.bounds
    return Ratios(
        sums=members @ (rho * ratios.sums) - ratios.centre * ridge / 2,
        counts=members @ (rho * ratios.counts) + ridge / 2,
        sum_noise=np.sqrt(members @ np.square(rho * ratios.sum_noise)) + least * (high - low),
        count_noise=np.sqrt(members @ np.square(rho * ratios.count_noise)) + least,
        centre=ratios.centre,
        bounds=(min(low, 0.0), max(high, 0.0)),
    )


def fit_groups(ratios: Ratios, design: Design, ridge: float, z: float) -> Fit:
    """Fit LSL with indicator features.

    True counts are at least 0, so that no true divisor is below lambda/2; noisy ones are raised
    to that.

    Args:
        ratios: of the states.
        design: Phi, with one 1 in every row, and rho.
        ridge: lambda.
        z: of the intervals that hold theta.

    Returns:
        The fit, one coordinate for each group.
    """
    groups = group_ratios(ratios, design, ridge)
    theta = groups.centre + groups.sums / np.maximum(groups.counts, ridge / 2)
    return fit_ratios(groups, np.clip(theta, *groups.bounds), z)


def fit_lsw(ratios: Ratios, means: Vector, design: Design) -> Fit:
    """Fit LSW to the means; intervals come from sums of independent means without bias.

    A state whose count is not clear may have any value: it adds |map| R/2 to the half-width, or,
    where features overlap, what the inequality of Cauchy and Schwarz makes of that.
    """
    centre, variance, unknown = summands(ratios)
    middle = lsw(centre, design)
    deviations = _deviations(design, variance)
    bounds = ratios.bounds if design.is_indicator else (-np.inf, np.inf)
    if design.one_feature_per_state:
        whole = design.weighted_squares
        share = np.asarray(_absolute(design.phi).T @ (design.weights * unknown)) / whole

        def slack(rows: Matrix) -> Vector:
            return np.asarray(_absolute(rows) @ share)
    else:
        spread, many = _deviations(design, np.square(unknown)), np.count_nonzero(unknown) ** 0.5

        def slack(rows: Matrix) -> Vector:
            return many * spread(rows)

    def ends(rows: Matrix, z: float) -> tuple[Vector, Vector]:
        value = np.asarray(rows @ middle)
        half = z * deviations(rows) + slack(rows)
        return np.clip(value - half, *bounds), np.clip(value + half, *bounds)

    return Fit(lsw(means, design), ends, *_freedom(design))


class RidgeFit(NamedTuple):
    """theta, and the matrix Phi^T diag(rho n) Phi by its eigenvalues and eigenvectors.

    Where ``basis`` is None the matrix is diagonal, and the values are its entries.
    """

    theta: Vector
    values: Vector
    basis: Vector | None


def ridge_fit(design: Design, counts: Vector, sums: Vector, ridge: float) -> RidgeFit:
    """Solve (Phi^T diag(rho n) Phi + (lambda/2) I) theta = Phi^T Gamma_rho S, for any counts.

    Eigenvalues below lambda/2 are raised to it: neither noise in the counts nor rounding, which
    may be larger than a small lambda, can make the matrix singular.

    Args:
        design: Phi and rho.
        counts: n, which noise may have made negative.
        sums: S, the sums of returns.
        ridge: lambda.

    Returns:
        theta, and the matrix without the ridge, by its eigenvalues.
    """
    rho, least = design.weights, ridge / 2
    right = np.asarray(design.phi.T @ (rho * sums))
    values = _gram(design, rho * counts)
    if design.one_feature_per_state:
        return RidgeFit(right / np.maximum(values + least, least), values, None)
    values, basis = scipy.linalg.eigh(values)
    theta = basis @ (basis.T @ right / np.maximum(values + least, least))
    return RidgeFit(theta, values, basis)


def fit_lsl(ratios: Ratios, design: Design, ridge: float) -> Fit:
    """Fit LSL to the noisy statistics, with any features.

    Counts below 0 may give the matrix any eigenvalues; without noise none is below lambda/2, so
    those that are below are raised to it. theta~ - theta_X is the inverse of the matrix times
    Phi^T Gamma_rho e, e_s normal with variance s_T^2 + (v_s - c)^2 s_n^2. For the intervals each
    eigenvalue is lowered by z times its own noise.
    """
    rho, least = design.weights, ridge / 2
    sums = ratios.sums + ratios.centre * ratios.counts
    theta, values, basis = ridge_fit(design, ratios.counts, sums, ridge)
    noise = np.square(rho * ratios.count_noise)
    if basis is None:
        wobble = np.asarray(_powers(design.phi, 4).T @ noise)
    else:
        wobble = np.zeros(design.dimension)
        for block, part in _blocks(dense(design.phi), noise):
            wobble += part @ (block @ basis) ** 4
    away = design.values(theta) - ratios.centre
    errors = np.square(ratios.sum_noise) + np.square(away * ratios.count_noise)
    inner = _gram(design, np.square(rho) * errors)

    def ends(rows: Matrix, z: float) -> tuple[Vector, Vector]:
        value = np.asarray(rows @ theta)
        inverse = 1 / np.maximum(values + least - z * np.sqrt(wobble), least)
        if basis is None:
            covariance = inner * np.square(inverse)
        else:
            solver = (basis * inverse) @ basis.T
            covariance = solver @ inner @ solver
        half = z * np.sqrt(_quadratic(rows, covariance))
        return value - half, value + half

    return Fit(theta, ends, *_freedom(design))


def _freedom(design: Design) -> tuple[int, int]:
    """Return how many values differ, and in how many dimensions.

    States that share their one feature have the same value, up to a factor.
    """
    count = design.dimension if design.one_feature_per_state else design.states
    return count, design.dimension


def _deviations(design: Design, variances: Vector) -> Callable[[Matrix], Vector]:
    """Return a function from feature rows R to the standard deviations of R G^{-1} Phi^T Gamma x.

    G = Phi^T Gamma Phi, and x has independent entries with the given variances.
    """
    inner = _gram(design, np.square(design.weights) * variances)
    if design.one_feature_per_state:
        covariance = inner / np.square(design.weighted_squares)
    else:
        root = np.linalg.qr(np.sqrt(design.weights)[:, None] * dense(design.phi), mode="r")
        covariance = scipy.linalg.cho_solve(
            (root, False), scipy.linalg.cho_solve((root, False), inner).T
        )
    return lambda rows: np.sqrt(_quadratic(rows, np.asarray(covariance)))


def _gram(design: Design, diagonal: Vector) -> Vector:
    """Return Phi^T diag(diagonal) Phi; where features do not overlap, its diagonal."""
    if design.one_feature_per_state:
        return np.asarray(_powers(design.phi, 2).T @ diagonal)
    return np.asarray(design.phi.T @ (diagonal[:, None] * design.phi))


def _quadratic(rows: Matrix, matrix: Vector) -> Vector:
    """Return row matrix row^T for each row, not below 0; a vector stands for a diagonal matrix."""
    if matrix.ndim == 1:
        return np.asarray(_powers(rows, 2) @ matrix)
    full = dense(rows)
    return np.asarray(np.maximum(np.einsum("ij,ij->i", full @ matrix, full), 0.0))


def _absolute(matrix: Matrix) -> Matrix:
    """Return |matrix|, entry by entry, in the same storage."""
    return np.abs(matrix) if isinstance(matrix, np.ndarray) else sp.csr_array(abs(matrix))


def _powers(matrix: Matrix, power: int) -> Matrix:
    """Return every entry to a power, in the same storage."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix**power)
    return sp.csr_array(matrix.power(power))


def _blocks(matrix: Vector, vector: Vector) -> Iterator[tuple[Vector, Vector]]:
    """Yield some rows at a time, with their part of the vector."""
    size = max(_ENTRIES // matrix.shape[1], 1)
    for begin in range(0, len(matrix), size):
        yield matrix[begin : begin + size], vector[begin : begin + size]


# theta of DP-LSW and DP-LSL: their numbers are linear in it, and the scale of its noise is private


def solve_theta(mechanism: Lsw | Lsl, drawn: Vector) -> Vector:
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


def row_norms(matrix: Matrix) -> Vector:
    """Return ||phi_s|| of every state."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.linalg.norm(matrix, axis=1))
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
