"""Fit theta to noisy statistics, by LSW or LSL, with intervals for functions of theta.

| symbol      | here             | shape | public |
|-------------|------------------|-------|--------|
| T~, n~, c   | ``ratios``       | N     | yes    |
| Phi, w, rho | ``design``       |       | yes    |
| lambda      | ``ridge``        |       | yes    |
| theta~      | ``fit.theta``    | d     | yes    |
| theta_X     |                  | d     | **private**, covered by intervals |

| estimator                           | interval of a value                                     |
|-------------------------------------|---------------------------------------------------------|
| tabular LSW                         | exact: the value is one ratio                           |
| LSW                                 | of a sum of debiased means: approximate, rather wide    |
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
    """theta, and a function that returns intervals.

    ``ends(rows, z)`` returns the lower and upper ends for every row times theta; z is the standard
    normal quantile of the level.
    """

    theta: Vector
    ends: Callable[[Matrix, float], tuple[Vector, Vector]]


def fit_lsw(ratios: Ratios, means: Vector, design: Design) -> Fit:
    """Fit LSW to the means; intervals come from sums of independent, nearly unbiased means.

    A state without a reliable ratio may have any value: its coefficient times R/2 bounds the bias,
    and is added to the half-width; where features overlap, the inequality of Cauchy and Schwarz
    bounds the sum. A single tabular value has the interval of its ratio.
    """
    unbiased, variance, bias_bound = ratios.debias()
    unbiased_theta = lsw(unbiased, design)
    inverse, squares = _inverse_gram(design), np.square(design.weights)
    inner = _gram(design, squares * variance)
    # An average of values is within their bounds.
    bounds = ratios.bounds if design.is_indicator else (-np.inf, np.inf)

    def half_bias(rows: Matrix) -> Vector:
        if design.one_feature_per_state:
            share = abs(design.entries).T @ (design.weights * bias_bound) * inverse
            return np.asarray(abs(sp.csr_array(rows)) @ share)
        spread = _gram(design, squares * np.square(bias_bound))
        return np.count_nonzero(bias_bound) ** 0.5 * _deviations(rows, inverse, spread)

    def ends(rows: Matrix, z: float) -> tuple[Vector, Vector]:
        entries = sp.csr_array(rows)
        if design.is_tabular and (entries.sum(axis=1) == 1).all() and (entries.data == 1).all():
            low, high = ratios.intervals(z)
            return low[entries.indices], high[entries.indices]
        value = np.asarray(rows @ unbiased_theta)
        half_width = z * _deviations(rows, inverse, inner) + half_bias(rows)
        return np.clip(value - half_width, *bounds), np.clip(value + half_width, *bounds)

    return Fit(lsw(means, design), ends)


def fit_lsl(ratios: Ratios, design: Design, ridge: float) -> Fit:
    """Solve (Phi^T diag(rho n~) Phi + (lambda/2) I) theta = Phi^T Gamma_rho S~, with any features.

    Without noise no eigenvalue of the matrix is below lambda/2; noisy counts below 0 may give it
    smaller ones, which are raised to lambda/2: neither noise nor rounding, which may exceed a small
    lambda, can make the matrix singular. theta~ - theta_X is the inverse of the matrix times
    Phi^T Gamma_rho e, with e_s normal of variance s_T^2 + (v_s - c)^2 s_n^2. For the intervals each
    eigenvalue is lowered by z times its own noise.
    """
    rho, floor = design.weights, ridge / 2
    right = design.phi.T @ (rho * (ratios.sums + ratios.centre * ratios.counts))
    values = _gram(design, rho * ratios.counts)
    noise = np.square(rho * ratios.count_noise)
    if design.one_feature_per_state:
        theta = np.asarray(right / np.maximum(values + floor, floor))
        eigenvalue_variance = np.asarray((design.phi**4).T @ noise)
    else:
        values, basis = scipy.linalg.eigh(values)
        theta = basis @ (basis.T @ right / np.maximum(values + floor, floor))
        eigenvalue_variance = noise @ np.asarray(design.phi @ basis) ** 4
    offsets = design.values(theta) - ratios.centre
    errors = np.square(ratios.sum_noise) + np.square(offsets * ratios.count_noise)
    inner = _gram(design, np.square(rho) * errors)

    def ends(rows: Matrix, z: float) -> tuple[Vector, Vector]:
        value = np.asarray(rows @ theta)
        inverse = 1 / np.maximum(values + floor - z * np.sqrt(eigenvalue_variance), floor)
        if not design.one_feature_per_state:
            inverse = (basis * inverse) @ basis.T
        half_width = z * _deviations(rows, inverse, inner)
        return value - half_width, value + half_width

    return Fit(theta, ends)


def _inverse_gram(design: Design) -> Vector:
    """Return the inverse of Phi^T Gamma Phi; where features do not overlap, its diagonal."""
    features = design.weighted_features
    if design.one_feature_per_state:
        return 1 / features.column_squares()
    inverse_root = scipy.linalg.solve_triangular(features.root, np.eye(design.dimension))
    return np.asarray(inverse_root @ inverse_root.T)


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


def solve_theta(mechanism: Lsw | Lsl, numbers: Vector) -> Vector:
    """Return theta of a draw of DP-LSW or DP-LSL: W^{-1} u if u = W theta was drawn."""
    if not (isinstance(mechanism, Lsw) and mechanism.terms.whitened):
        return numbers
    root = mechanism.design.weighted_features.root
    if root.ndim == 1:
        return numbers / root
    return np.asarray(scipy.linalg.solve_triangular(root, numbers))
