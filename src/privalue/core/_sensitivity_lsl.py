"""The sharper smooth bound of DP-LSL, for every lambda > 0 (docs/proofs/sharper-dp-lsl.md).

| symbol               | here              | shape | public      |
|----------------------|-------------------|-------|-------------|
| \\|X_s\\| = n_s      | ``counts``        | N     | **private** |
| rho_s                | ``design.weights``| N     | yes         |
| lambda               | ``ridge``         |       | yes         |
| F_abs, M             | ``largest``, ``reach`` |  | yes         |
| L, q                 | ``step``, ``terms`` |     | yes         |
| cap of a count       | ``trajectories``  |       | yes         |
| mu_k, A_k, N_k       | in ``_general``   |       | **private** |
| psi                  | ``smooth_ridge``  |       | **private** |

theta solves H theta = Phi^T Gamma_rho S with H = Phi^T diag(rho n) Phi + (lambda/2) I. The paper
bounds H from below by lambda/2 alone; here the data's own curvature counts too. sigma is alpha
sqrt(psi), with no further factor.

One unit of privacy has at most L trajectories, and neighbours differ in at most q states (all of
them where ``terms`` is None): docs/proofs/persons.md and docs/proofs/bounded-contribution.md.
"""

import heapq
import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg as sl

from privalue.core._arrays import UNIT_ROUNDOFF, Integers, Vector
from privalue.core._design import MOST_EIGENVALUES, Design, longest_column, scaled_rows
from privalue.core._sensitivity_lsw import (
    breakpoints,
    log_concave_maximum,
    smooth_largest,
    sum_of_capped_counts,
)
from privalue.core._terms import MOST_TRAJECTORIES
from privalue.study._sections import SMALLEST

TOLERANCE = 1e-9  # psi may come out too large by this, relatively, and never too small


def smooth_ridge(
    counts: Integers,
    design: Design,
    *,
    ridge: float,
    trajectories: int | None,
    beta: float,
    largest: float,
    reach: float,
    step: int = 1,
    terms: int | None = None,
) -> float:
    """psi: a beta-smooth upper bound of the squared local sensitivity of theta.

    ``trajectories`` is the public cap of a count: m, or U L for persons, or None for none.
    """
    if terms is not None and terms >= design.states:
        terms = None
    if indicator_features(design):
        return _indicator(counts, design, ridge, beta, reach, step, terms)
    return _general(counts, design, ridge, trajectories, beta, largest, reach, step, terms)


def least_ridge_psi(
    design: Design,
    *,
    ridge: float,
    trajectories: int | None,
    reach: float,
    step: int = 1,
    terms: int | None = None,
) -> float:
    """A public lower bound of psi over all data sets whose counts are at most the cap.

    psi is at least its k = 0 part, which falls as counts grow. Without a cap it is the most that
    the program takes.
    """
    cap = MOST_TRAJECTORIES if trajectories is None else trajectories
    if indicator_features(design):
        group = np.asarray(design.phi.T @ design.weights)
        total = _changes(design, terms)(ridge / 2 + cap * group)
        return total * (step * reach) ** 2
    curvature = ridge / 2 + design.norm**2 * float(design.weights.max()) * cap
    change = float(np.linalg.norm(_largest(design.weights, terms)))
    return (step * design.norm * reach * change / curvature) ** 2


def most_ridge_psi(
    design: Design,
    *,
    ridge: float,
    trajectories: int | None,
    largest: float,
    reach: float,
    step: int = 1,
    terms: int | None = None,
) -> float:
    """A public upper bound of psi over all data sets whose counts are at most the cap.

    Without a cap counts are at most what the program takes, and e^{-k beta} k L <= L/(e beta).
    """
    rho, norm = design.weights, design.norm
    cap = trajectories if trajectories is not None else MOST_TRAJECTORIES + step / SMALLEST
    visits = math.sqrt(float(rho.sum()) * cap / (2 * ridge))
    change = reach * float(_largest(rho, terms).sum())
    numerator = step * norm * (norm * float(rho.max()) * largest * visits + change)
    return (numerator / (ridge / 2)) ** 2


def indicator_features(design: Design) -> bool:
    """Whether every state has exactly one feature, with value 1: tabular, or aggregation."""
    phi = design.phi
    if not design.one_feature_per_state:
        return False
    if isinstance(phi, np.ndarray):
        return bool((phi.sum(axis=1) == 1).all() and ((phi == 0) | (phi == 1)).all())
    return bool((np.diff(phi.indptr) == 1).all() and (phi.data == 1).all())


def _indicator(
    counts: Integers,
    design: Design,
    ridge: float,
    beta: float,
    reach: float,
    step: int,
    terms: int | None,
) -> float:
    """max_k e^{-k beta} (L M)^2 sum_g [P_g / (lambda/2 + sum_{s in g} rho_s (n_s - k L)_+)]^2.

    With ``terms``, of the q states that can change the most. Each denominator is linear in k
    between the values of n_s/L, so the function is log-convex there: only the k next to such a
    value can be the maximum, and 0. Where every state is its own group, a state's part is
    1/((n_s - k L)_+ + lambda/(2 rho_s))^2.
    """
    rho, states_to_groups = design.weights, design.phi.T
    alone = design.dimension == design.states and np.bincount(_groups(design)).max() == 1
    if alone and (step > 1 or terms is not None):
        weighty = rho > 0
        most = smooth_largest(
            counts[weighty],
            np.ones(int(weighty.sum())),
            ridge / 2 / rho[weighty],
            beta,
            step=step,
            floor=0,
            terms=terms or design.states,
        )
        return (step * reach) ** 2 * most
    changes = _changes(design, terms)

    def phi(k: int) -> float:
        left = np.asarray(states_to_groups @ (rho * np.maximum(counts - k * step, 0)))
        return changes(ridge / 2 + left)

    candidates = breakpoints(counts, step, 0).tolist()
    most = _branch_and_bound(candidates, len(candidates) - 1, phi, lambda _, last: phi(last), beta)
    summed = 1 + 4 * longest_column(design.phi) * UNIT_ROUNDOFF  # a group's sum, and its square
    return (step * reach) ** 2 * most * summed


def _changes(design: Design, terms: int | None) -> Callable[[Vector], float]:
    """What the denominators b_g make of the change of theta/(L M): sum_g (P_g/b_g)^2.

    With ``terms`` at most q states change, so at most q of a group: P_g shrinks to its q largest
    rho_s, and sum_g (sum_{changed s in g} rho_s)^2 / b_g^2 <= top_q_s [rho_s P_g / b_g^2].
    """
    rho = design.weights
    if terms is None or terms >= design.states:
        group = np.asarray(design.phi.T @ rho)
        return lambda b: float(np.sum((group / b) ** 2))
    groups = _groups(design)
    order = np.lexsort((-rho, groups))
    ordered = groups[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered, side="left")
    first = order[rank < terms]
    group = np.bincount(groups[first], rho[first], minlength=design.dimension)
    shares = rho * group[groups]
    return lambda b: float(_largest(shares / b[groups] ** 2, terms).sum())


def _groups(design: Design) -> Integers:
    """The group of every state, for indicator features."""
    phi = design.phi
    return np.asarray(phi.argmax(axis=1) if isinstance(phi, np.ndarray) else phi.indices)


def _largest(values: Vector, terms: int | None) -> Vector:
    """The q largest values; all of them, as they stand, if q is None or too large."""
    if terms is None or terms >= len(values):
        return values
    return np.partition(values, len(values) - terms)[len(values) - terms :]


def _general(
    counts: Integers,
    design: Design,
    ridge: float,
    trajectories: int | None,
    beta: float,
    largest: float,
    reach: float,
    step: int,
    terms: int | None,
) -> float:
    """max_k e^{-k beta} min{N_k/(lambda/2 + mu_{k+1}), N_{k+1}/(lambda/2 + mu_k)}^2.

    k runs to where nothing changes any more. Without a cap A_k always does; but from mu_k = 0 on
    the whole is log-concave, and falls from k = 1/beta on.
    """
    rho, norm = design.weights, design.norm
    capped = sum_of_capped_counts(counts, rho, trajectories, step)
    curvature, fall = _curvature(counts, design, trajectories, step)
    slope = norm * float(rho.max()) * largest
    offset = reach * float(np.linalg.norm(_largest(rho, terms)))

    def mu(k: int) -> float:
        return max(curvature - k * fall, 0.0)

    def numerator(k: int) -> float:
        half = ridge / 2
        gain = 1 / math.sqrt(2 * ridge) if mu(k) <= half else math.sqrt(mu(k)) / (mu(k) + half)
        return step * norm * (slope * math.sqrt(capped(k)) * gain + offset)

    def phi(k: int) -> float:
        ahead = numerator(k) / (ridge / 2 + mu(k + 1))
        behind = numerator(k + 1) / (ridge / 2 + mu(k))
        return min(ahead, behind) ** 2

    def bound(_: int, last: int) -> float:
        return (numerator(last) / (ridge / 2 + mu(last + 1))) ** 2

    if trajectories is not None:
        last = -(-trajectories // step)
        return _branch_and_bound(range(last + 1), last, phi, bound, beta)
    beta = max(beta, SMALLEST)  # less could overflow, and psi would be no smoother for it
    last = math.ceil(curvature / fall)
    beyond = log_concave_maximum(
        lambda k: math.exp(-beta * k) * phi(k), last, max(last, math.ceil(1 / beta))
    )
    before = _branch_and_bound(range(last + 1), last, phi, bound, beta)
    return max(before, beyond * (1 + TOLERANCE / 2))


def _curvature(
    counts: Integers, design: Design, trajectories: int | None, step: int
) -> tuple[float, float]:
    """mu_0 and L B: lambda_min(Phi^T D Phi), rounded down, and what L trajectories can take off it.

    The computed eigenvalue is within a public error of the true one, so between neighbours it
    moves by at most L B plus twice that error: adding it to L B keeps psi smooth as computed.
    In very many dimensions 0 stands for it, which is no larger and moves by nothing.
    """
    if design.by_gram and design.dimension > MOST_EIGENVALUES:
        return 0.0, step * design.weighted.high**2
    cap = MOST_TRAJECTORIES if trajectories is None else trajectories
    matrix = scaled_rows(design.phi, np.sqrt(design.weights * counts))
    gram = matrix.T @ matrix
    values = sl.eigvalsh(gram if isinstance(gram, np.ndarray) else gram.toarray())
    largest = design.norm**2 * float(design.weights.max()) * cap
    error = 8 * (design.states + design.dimension) * UNIT_ROUNDOFF * largest * design.dimension
    return max(float(values[0]) - error, 0.0), step * design.weighted.high**2 + 2 * error


def _branch_and_bound(
    ks: Sequence[int],
    last: int,
    phi: Callable[[int], float],
    bound: Callable[[int, int], float],
    beta: float,
) -> float:
    """max over ks[0] .. ks[last] of e^{-k beta} phi(k), too large by at most ``TOLERANCE``.

    ``bound(a, b)`` is at least phi on [a, b]; the interval that could hold the most is split
    first, until none could hold more than what was found.
    """
    best = phi(ks[0])
    waiting = [(-math.exp(-beta * ks[0]) * bound(ks[0], ks[last]), 0, last)]
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
