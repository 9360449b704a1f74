"""The sharper smooth bound of DP-LSL, for every lambda > 0 (docs/proofs/sharper-dp-lsl.md).

| symbol               | here              | shape | public      |
|----------------------|-------------------|-------|-------------|
| \\|X_s\\| = n_s      | ``counts``        | N     | **private** |
| rho_s                | ``design.weights``| N     | yes         |
| lambda               | ``ridge``         |       | yes         |
| F_abs, M             | ``largest``, ``reach`` |  | yes         |
| mu_k, A_k, N_k       | in ``_general``   |       | **private** |
| psi                  | ``smooth_ridge``  |       | **private** |

theta solves H theta = Phi^T Gamma_rho S with H = Phi^T diag(rho n) Phi + (lambda/2) I. The paper
bounds H from below by lambda/2 alone; here the data's own curvature counts too. sigma is alpha
sqrt(psi), with no further factor.
"""

import heapq
import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg as sl

from privalue.features import UNIT_ROUNDOFF, Design, scaled_rows
from privalue.sensitivity import Integers, sum_of_capped_counts

TOLERANCE = 1e-9  # psi may come out too large by this, relatively, and never too small


def smooth_ridge(
    counts: Integers,
    design: Design,
    *,
    ridge: float,
    trajectories: int,
    beta: float,
    largest: float,
    reach: float,
) -> float:
    """psi: a beta-smooth upper bound of the squared local sensitivity of theta."""
    if indicator_features(design):
        return _indicator(counts, design, ridge, beta, reach)
    return _general(counts, design, ridge, trajectories, beta, largest, reach)


def least_ridge_psi(design: Design, *, ridge: float, trajectories: int, reach: float) -> float:
    """A public lower bound of psi over all data sets of m trajectories."""
    if indicator_features(design):
        group = np.asarray(design.phi.T @ design.weights)
        return float(np.sum((group / (ridge / 2 + trajectories * group)) ** 2)) * reach**2
    curvature = ridge / 2 + design.norm**2 * float(design.weights.max()) * trajectories
    return (design.norm * reach * float(np.linalg.norm(design.weights)) / curvature) ** 2


def most_ridge_psi(
    design: Design, *, ridge: float, trajectories: int, largest: float, reach: float
) -> float:
    """A public upper bound of psi over all data sets of m trajectories."""
    rho, norm = design.weights, design.norm
    visits = math.sqrt(float(rho.sum()) * trajectories / (2 * ridge))
    numerator = norm * (norm * float(rho.max()) * largest * visits + reach * float(rho.sum()))
    return (numerator / (ridge / 2)) ** 2


def indicator_features(design: Design) -> bool:
    """Whether every state has exactly one feature, with value 1: tabular, or aggregation."""
    phi = design.phi
    if not design.one_feature_per_state:
        return False
    if isinstance(phi, np.ndarray):
        return bool((phi.sum(axis=1) == 1).all() and ((phi == 0) | (phi == 1)).all())
    return bool((np.diff(phi.indptr) == 1).all() and (phi.data == 1).all())


def _indicator(counts: Integers, design: Design, ridge: float, beta: float, reach: float) -> float:
    """max_k e^{-k beta} M^2 sum_g [P_g / (lambda/2 + sum_{s in g} rho_s (n_s - k)_+)]^2.

    Each denominator is linear in k between the values of n_s, so the function is log-convex
    there: only k in {0} u {n_s} can be the maximum.
    """
    rho, states_to_groups = design.weights, design.phi.T
    group = np.asarray(states_to_groups @ rho)

    def phi(k: int) -> float:
        left = np.asarray(states_to_groups @ (rho * np.maximum(counts - k, 0)))
        return float(np.sum((group / (ridge / 2 + left)) ** 2))

    candidates = np.unique(np.concatenate([[0], counts])).tolist()
    return reach**2 * _branch_and_bound(candidates, phi, lambda _, last: phi(last), beta)


def _general(
    counts: Integers,
    design: Design,
    ridge: float,
    trajectories: int,
    beta: float,
    largest: float,
    reach: float,
) -> float:
    """max_k e^{-k beta} min{N_k/(lambda/2 + mu_{k+1}), N_{k+1}/(lambda/2 + mu_k)}^2."""
    rho, norm = design.weights, design.norm
    capped = sum_of_capped_counts(counts, rho, trajectories)
    curvature, step = _curvature(counts, design, trajectories)
    slope = norm * float(rho.max()) * largest
    offset = reach * float(np.linalg.norm(rho))

    def mu(k: int) -> float:
        return max(curvature - k * step, 0.0)

    def numerator(k: int) -> float:
        half = ridge / 2
        gain = 1 / math.sqrt(2 * ridge) if mu(k) <= half else math.sqrt(mu(k)) / (mu(k) + half)
        return norm * (slope * math.sqrt(capped(k)) * gain + offset)

    def phi(k: int) -> float:
        ahead = numerator(k) / (ridge / 2 + mu(k + 1))
        behind = numerator(k + 1) / (ridge / 2 + mu(k))
        return min(ahead, behind) ** 2

    def bound(_: int, last: int) -> float:
        return (numerator(last) / (ridge / 2 + mu(last + 1))) ** 2

    return _branch_and_bound(range(trajectories + 1), phi, bound, beta)


def _curvature(counts: Integers, design: Design, trajectories: int) -> tuple[float, float]:
    """mu_0 and B: lambda_min(Phi^T D Phi), rounded down, and what one trajectory can take off it.

    The computed eigenvalue is within a public error of the true one, so between neighbours it
    moves by at most B plus twice that error: adding it to B keeps psi smooth as computed.
    """
    matrix = scaled_rows(design.phi, np.sqrt(design.weights * counts))
    gram = matrix.T @ matrix
    values = sl.eigvalsh(gram if isinstance(gram, np.ndarray) else gram.toarray())
    largest = design.norm**2 * float(design.weights.max()) * trajectories
    error = 8 * (design.states + design.dimension) * UNIT_ROUNDOFF * largest * design.dimension
    return max(float(values[0]) - error, 0.0), design.weighted.high**2 + 2 * error


def _branch_and_bound(
    ks: Sequence[int],
    phi: Callable[[int], float],
    bound: Callable[[int, int], float],
    beta: float,
) -> float:
    """max over ks of e^{-k beta} phi(k), too large by at most ``TOLERANCE``.

    ``bound(a, b)`` is at least phi on [a, b]; the interval that could hold the most is split
    first, until none could hold more than what was found.
    """
    best = phi(ks[0])
    waiting = [(-math.exp(-beta * ks[0]) * bound(ks[0], ks[-1]), 0, len(ks) - 1)]
    while waiting:
        promise, first, last = heapq.heappop(waiting)
        if -promise <= best * (1 + TOLERANCE / 2):
            return max(best, -promise) * (1 + TOLERANCE / 2)
        if first == last:
            continue
        middle = (first + last) // 2
        for begin, end in ((first, middle), (middle + 1, last)):
            best = max(best, math.exp(-beta * ks[end]) * phi(ks[end]))
            best = max(best, math.exp(-beta * ks[begin]) * phi(ks[begin]))
            most = math.exp(-beta * ks[begin]) * bound(ks[begin], ks[end])
            heapq.heappush(waiting, (-most, begin, end))
    return best * (1 + TOLERANCE / 2)
