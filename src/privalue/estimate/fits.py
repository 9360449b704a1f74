"""Fit theta to noisy statistics, by LSW or LSL, with intervals for functions of theta.

| symbol      | here             | shape | public |
|-------------|------------------|-------|--------|
| T~, n~, c   | ``ratios``       | N     | yes    |
| Phi, w, rho | ``design``       |       | yes    |
| lambda      | ``ridge``        |       | yes    |
| theta~      | ``fit.theta``    | d     | yes    |
| theta_X     |                  | d     | **private**, what intervals cover |

| estimator                           | interval of a value                                     |
|-------------------------------------|---------------------------------------------------------|
| tabular LSW                         | exact: the value is one ratio                           |
| LSW                                 | of a sum of means without bias: approximate, rather wide |
| LSL                                 | first order in the noise of the matrix, rather wide     |

docs/proofs/intervals.md has the arguments. Where features do not overlap, matrices are diagonal,
and vectors stand for them; otherwise they are d x d, and nothing is N x N.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
import scipy.sparse as sp

from privalue.core import Design, Lsl, Lsw, Matrix, Vector, lsw
from privalue.estimate.ratios import Ratios


class Fit(NamedTuple):
    """theta, and a function that gives intervals.

    ``ends(rows, z)`` returns the lower and upper ends for every row times theta; z is the quantile
    of a standard normal number that goes with the level.
    """

    theta: Vector
    ends: Callable[[Matrix, float], tuple[Vector, Vector]]


def fit_lsw(ratios: Ratios, means: Vector, design: Design) -> Fit:
    """Fit LSW to the means; intervals come from sums of independent means without bias.

    A state whose count is not clear may have any value: it adds |map| R/2 to the half-width, or,
    where features overlap, what the inequality of Cauchy and Schwarz makes of that. A single
    tabular value has the interval of its ratio.
    """
    centre, variance, unknown = ratios.summands()
    middle = lsw(centre, design)
    inverse, squares = _inverse_gram(design), np.square(design.weights)
    inner = _gram(design, squares * variance)
    # A distribution's mean of numbers between bounds is between them.
    bounds = ratios.bounds if design.is_indicator else (-np.inf, np.inf)

    def slack(rows: Matrix) -> Vector:
        if design.one_feature_per_state:
            share = abs(design.entries).T @ (design.weights * unknown) * inverse
            return np.asarray(abs(sp.csr_array(rows)) @ share)
        spread = _gram(design, squares * np.square(unknown))
        return np.count_nonzero(unknown) ** 0.5 * _deviations(rows, inverse, spread)

    def ends(rows: Matrix, z: float) -> tuple[Vector, Vector]:
        entries = sp.csr_array(rows)
        if design.is_tabular and (entries.sum(axis=1) == 1).all() and (entries.data == 1).all():
            low, high = ratios.intervals(z)
            return low[entries.indices], high[entries.indices]
        value = np.asarray(rows @ middle)
        half = z * _deviations(rows, inverse, inner) + slack(rows)
        return np.clip(value - half, *bounds), np.clip(value + half, *bounds)

    return Fit(lsw(means, design), ends)


def fit_lsl(ratios: Ratios, design: Design, ridge: float) -> Fit:
    """Solve (Phi^T diag(rho n~) Phi + (lambda/2) I) theta = Phi^T Gamma_rho S~, with any features.

    Counts below 0 may give the matrix any eigenvalues; without noise none is below lambda/2, so
    those that are below are raised to it: neither noise nor rounding, which may be larger than a
    small lambda, can make the matrix singular. theta~ - theta_X is the inverse of the matrix times
    Phi^T Gamma_rho e, e_s normal with variance s_T^2 + (v_s - c)^2 s_n^2. For the intervals each
    eigenvalue is lowered by z times its own noise.
    """
    rho, least = design.weights, ridge / 2
    right = design.phi.T @ (rho * (ratios.sums + ratios.centre * ratios.counts))
    values = _gram(design, rho * ratios.counts)
    noise = np.square(rho * ratios.count_noise)
    if design.one_feature_per_state:
        theta = np.asarray(right / np.maximum(values + least, least))
        wobble = np.asarray((design.phi**4).T @ noise)
    else:
        values, basis = scipy.linalg.eigh(values)
        theta = basis @ (basis.T @ right / np.maximum(values + least, least))
        wobble = noise @ np.asarray(design.phi @ basis) ** 4
    away = design.values(theta) - ratios.centre
    errors = np.square(ratios.sum_noise) + np.square(away * ratios.count_noise)
    inner = _gram(design, np.square(rho) * errors)

    def ends(rows: Matrix, z: float) -> tuple[Vector, Vector]:
        value = np.asarray(rows @ theta)
        inverse = 1 / np.maximum(values + least - z * np.sqrt(wobble), least)
        if not design.one_feature_per_state:
            inverse = (basis * inverse) @ basis.T
        half = z * _deviations(rows, inverse, inner)
        return value - half, value + half

    return Fit(theta, ends)


def _inverse_gram(design: Design) -> Vector:
    """Return the inverse of Phi^T Gamma Phi; where features do not overlap, its diagonal."""
    features = design.weighted_features
    if design.one_feature_per_state:
        return 1 / features.column_squares()
    half = scipy.linalg.solve_triangular(features.root, np.eye(design.dimension))
    return np.asarray(half @ half.T)


def _gram(design: Design, diagonal: Vector) -> Vector:
    """Return Phi^T diag(diagonal) Phi; where features do not overlap, its diagonal."""
    if design.one_feature_per_state:
        return np.asarray((design.phi**2).T @ diagonal)
    return np.asarray(design.phi.T @ (diagonal[:, None] * design.phi))


def _deviations(rows: Matrix, inverse: Vector, inner: Vector) -> Vector:
    """Return the roots of row inverse inner inverse row^T; vectors stand for diagonal matrices."""
    if inverse.ndim == 1:
        variances = rows**2 @ (inner * np.square(inverse))
    else:
        across = np.asarray(rows @ inverse)
        variances = np.maximum(np.einsum("ij,ij->i", across @ inner, across), 0.0)
    return np.asarray(np.sqrt(variances))


# theta of DP-LSW and DP-LSL: their numbers are linear in it, and the scale of its noise is private


def solve_theta(mechanism: Lsw | Lsl, drawn: Vector) -> Vector:
    """Return theta = W^{-1} u where u = W theta was drawn, else what was drawn."""
    if not (isinstance(mechanism, Lsw) and mechanism.terms.whitened):
        return drawn
    root = mechanism.design.weighted_features.root
    if root.ndim == 1:
        return drawn / root
    return np.asarray(scipy.linalg.solve_triangular(root, drawn))
