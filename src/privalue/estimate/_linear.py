"""Compute values and intervals of DP-LSW and DP-LSL: linear maps of the drawn numbers.

All of it is post-processing. Intervals need the scale of the noise, which is private: there are
none unless a share of epsilon released it.
"""

import math

import numpy as np
import scipy

from privalue.core import DpLsl, DpLsw, Matrix, ReleasedScale, Vector, Whitening, dense
from privalue.estimate._intervals import distinct_directions, privacy_intervals
from privalue.estimate._statistics import Estimates


def theta_of(mechanism: DpLsw | DpLsl, drawn: Vector) -> Vector:
    """Return theta = W^{-1} u where u = W theta was drawn, else what was drawn."""
    whitening = mechanism.whitening if isinstance(mechanism, DpLsw) else None
    if whitening is None:
        return drawn
    if whitening.diagonal is not None:
        return drawn / whitening.diagonal
    return np.asarray(scipy.linalg.solve_triangular(whitening.triangle, drawn))


def noise_factors(mechanism: DpLsw | DpLsl, rows: Matrix) -> Vector:
    """Return the standard deviations of rows times theta, over sigma: ||W^{-T} row||, or ||row||.

    Args:
        mechanism: with its constants.
        rows: a state's features each, or a mixture of them.
    """
    whitening = mechanism.whitening if isinstance(mechanism, DpLsw) else None
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


def linear_estimates(
    mechanism: DpLsw | DpLsl,
    drawn: Vector,
    scale: ReleasedScale | None,
    *,
    start: Vector | None,
    level: float,
) -> Estimates:
    """Return theta, values and, with the scale of the noise, intervals.

    Each coordinate was rounded by at most half the grid, and what was drawn for is off by at
    most ``rounding`` in all: together they move a combination by at most sqrt(d) grid/2 +
    rounding times its factor.

    Args:
        mechanism: with its constants.
        drawn: theta, or u = W theta, with noise.
        scale: of the noise, if it was released.
        start: a distribution over states, for the overall value of the policy.
        level: of the intervals.

    Returns:
        What is published, moved between the return bounds; without intervals if ``scale`` is None.
    """
    design, bounds = mechanism.design, mechanism.terms.limits.return_bounds
    theta = theta_of(mechanism, drawn)
    values = design.values(theta)
    policy = None if start is None else float(np.dot(start, values))
    if scale is None:
        return Estimates(theta=theta, values=values, policy_value=policy).within(bounds)
    share = 0.5 * mechanism.grid * math.sqrt(design.dimension) + mechanism.bound.rounding
    spread = noise_factors(mechanism, design.phi) * design.solver_slack
    low, high = privacy_intervals(values, spread, scale, level, slack=share * spread)
    band_low, band_high = privacy_intervals(
        values,
        spread,
        scale,
        level,
        slack=share * spread,
        directions=distinct_directions(design.phi),
        dimension=design.dimension,
    )
    interval = None
    if start is not None:
        mixture = noise_factors(mechanism, np.asarray(design.phi.T @ start).reshape(1, -1))
        mixture = mixture * design.solver_slack
        ends = privacy_intervals(np.array([policy]), mixture, scale, level, slack=share * mixture)
        interval = (float(ends[0][0]), float(ends[1][0]))
    return Estimates(
        theta=theta,
        values=values,
        level=level,
        low=low,
        high=high,
        band_low=band_low,
        band_high=band_high,
        policy_value=policy,
        policy_interval=interval,
    ).within(bounds)


def row_norms(matrix: Matrix) -> Vector:
    """Return ||phi_s|| of every state."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.linalg.norm(matrix, axis=1))
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
