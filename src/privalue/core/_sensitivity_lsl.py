"""Bound the local sensitivity of LSL smoothly: the paper's psi^lambda, and a sharper one.

| symbol               | here              | shape | public      |
|----------------------|-------------------|-------|-------------|
| \\|X_s\\| = n_s      | ``counts``        | N     | **private** |
| rho_s                | ``design.weights``| N     | yes         |
| lambda               | ``ridge``         |       | yes         |
| F_abs, M             | ``largest``, ``reach`` |  | yes         |
| L, q                 | ``per_person``, ``touched`` | | yes     |
| cap of a count       | ``trajectories``, ``cap`` |  | yes      |
| mu_k, A_k, N_k       | in ``_general``   |       | **private** |
| psi^lambda           | ``smooth_lsl``    |       | **private** |
| psi                  | ``smooth_ridge``  |       | **private** |

theta solves H theta = Phi^T Gamma_rho S with H = Phi^T diag(rho n) Phi + (lambda/2) I. The paper
bounds H from below by lambda/2 alone; the sharper bound counts the data's own curvature, too, and
holds for every lambda > 0 (docs/proofs/sharper-dp-lsl.md). There sigma is alpha sqrt(psi), with no
further factor.

One unit of privacy has at most L trajectories, and neighbours differ in at most q states (all of
them where ``touched`` is None): docs/proofs/persons.md and docs/proofs/bounded-contribution.md.
How each maximum over k is found is in docs/proofs/smooth-maxima.md.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy.linalg as sl

from privalue.core._arrays import UNIT_ROUNDOFF, Integers, Vector
from privalue.core._design import MOST_EIGENVALUES, Design, longest_column, scaled_rows
from privalue.core._kernels import kernel
from privalue.core._maximum import branch_and_bound
from privalue.core._sensitivity_lsw import breakpoints, q_largest


def smooth_lsl(
    counts: Integers,
    weights: Vector,
    cap: int,
    beta: float,
    *,
    slope: float,
    offset: float,
    per_person: int = 1,
) -> float:
    """Return psi^lambda = max_k e^{-k beta} (slope sqrt(A(k)) + offset)^2 ([BGP16] Algorithm 2).

    A(k) = sum_s rho_s min(n_s + k L, cap) grows with k up to k = cap/L, and then no more: later
    k need not be tried.

    Args:
        counts: n_s, the visits of every state. PRIVATE.
        weights: rho_s, at least 0.
        cap: the most that a count can be, public: m, or U L for persons, or what the software
            takes where neither is public.
        beta: how much ln psi may differ between neighbours, above 0.
        slope: c_lambda, what the norm of theta grows by.
        offset: the norm of the q largest rho_s.
        per_person: L, the most trajectories of one unit of privacy.

    Returns:
        psi^lambda. PRIVATE. Never too small, and too large by at most ``TOLERANCE``, relatively.
    """
    capped = sum_of_capped_counts(counts, weights, cap, per_person)
    return branch_and_bound(
        range(-(-cap // per_person) + 1),
        lambda k: (slope * math.sqrt(capped(k)) + offset) ** 2,
        beta,
    )


def smooth_ridge(
    counts: Integers,
    design: Design,
    *,
    ridge: float,
    trajectories: int,
    beta: float,
    largest: float,
    reach: float,
    per_person: int = 1,
    touched: int | None = None,
) -> float:
    """Return psi, a beta-smooth upper bound of the squared local sensitivity of theta.

    Args:
        counts: n_s, the visits of every state. PRIVATE.
        design: Phi and rho.
        ridge: lambda, above 0.
        trajectories: the cap: the most that a count can be, public.
        beta: how much ln psi may differ between neighbours, above 0.
        largest: F_abs, the most that a return can be in size.
        reach: M, the length of the shortest interval that holds every return and 0.
        per_person: L, the most trajectories of one unit of privacy.
        touched: q, the most states in which neighbours differ; None for all of them.

    Returns:
        psi. PRIVATE. Never too small, and too large by at most 1.5 ``TOLERANCE``, relatively.
    """
    if design.is_indicator:
        return (per_person * reach) ** 2 * _indicator(
            counts, design, ridge, beta, per_person, touched
        )
    return per_person**2 * _general(
        counts, design, ridge, trajectories, beta, largest, reach, per_person, touched
    )


def least_ridge_psi(
    design: Design,
    *,
    ridge: float,
    trajectories: int,
    reach: float,
    per_person: int = 1,
    touched: int | None = None,
) -> float:
    """Return a public lower bound of psi over all data sets whose counts are at most the cap.

    psi is at least its k = 0 part, which falls as counts grow. The arguments are those of
    ``smooth_ridge``.
    """
    if design.is_indicator:
        group = np.asarray(design.phi.T @ design.weights)
        total = _changes(design, touched)(ridge / 2 + trajectories * group)
        return total * (per_person * reach) ** 2
    curvature = ridge / 2 + design.norm**2 * float(design.weights.max()) * trajectories
    change = float(np.linalg.norm(q_largest(design.weights, touched)))
    return (per_person * design.norm * reach * change / curvature) ** 2


def most_ridge_psi(
    design: Design,
    *,
    ridge: float,
    trajectories: int,
    largest: float,
    reach: float,
    per_person: int = 1,
    touched: int | None = None,
) -> float:
    """Return a public upper bound of psi over all data sets whose counts are at most the cap.

    The arguments are those of ``smooth_ridge``.
    """
    rho, norm = design.weights, design.norm
    visits = math.sqrt(float(rho.sum()) * trajectories / (2 * ridge))
    change = reach * float(q_largest(rho, touched).sum())
    numerator = per_person * norm * (norm * float(rho.max()) * largest * visits + change)
    return (numerator / (ridge / 2)) ** 2


def _indicator(
    counts: Integers,
    design: Design,
    ridge: float,
    beta: float,
    per_person: int,
    touched: int | None,
) -> float:
    """Return max_k e^{-k beta} sum_g [P_g / (lambda/2 + sum_{s in g} rho_s (n_s - k L)_+)]^2.

    For features that put every state into one group g: psi without the factor (L M)^2; with
    ``touched``, of the q states that can change the most. Each denominator is linear in k between
    the values of n_s/L, so the function is log-convex there: only the k next to such a value can
    be the maximum, and 0.
    """
    rho, states_to_groups = design.weights, design.phi.T
    changes = _changes(design, touched)

    def phi(k: int) -> float:
        left = np.asarray(states_to_groups @ (rho * np.maximum(counts - k * per_person, 0)))
        return changes(ridge / 2 + left)

    most = branch_and_bound(breakpoints(counts, per_person, 0), phi, beta)
    # A group's sum is taken one state after the other, and its rounding counts twice: a square.
    return most * (1 + 4 * longest_column(design.phi) * UNIT_ROUNDOFF)


def _changes(design: Design, touched: int | None) -> Callable[[Vector], float]:
    """Return the function that turns denominators b_g into sum_g (P_g/b_g)^2.

    That is the most that theta/(L M) can change by, squared. If at most q states change, then at
    most q of a group do: P_g shrinks to its q largest rho_s, and
    sum_g (sum_{changed s in g} rho_s)^2 / b_g^2 <= top_q_s [rho_s P_g / b_g^2].
    """
    rho, phi = design.weights, design.phi
    if touched is None or touched >= design.states:
        group = np.asarray(phi.T @ rho)
        return lambda b: float(np.sum((group / b) ** 2))
    groups = np.asarray(phi.argmax(axis=1) if isinstance(phi, np.ndarray) else phi.indices)
    order = np.lexsort((-rho, groups))
    ordered = groups[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered, side="left")
    first = order[rank < touched]
    group = np.bincount(groups[first], rho[first], minlength=design.dimension)
    shares = rho * group[groups]
    return lambda b: float(q_largest(shares / b[groups] ** 2, touched).sum())


def _general(
    counts: Integers,
    design: Design,
    ridge: float,
    cap: int,
    beta: float,
    largest_return: float,
    reach: float,
    per_person: int,
    touched: int | None,
) -> float:
    """Return max_k e^{-k beta} min{N_k/(lambda/2 + mu_{k+1}), N_{k+1}/(lambda/2 + mu_k)}^2.

    For any features: psi without the factor L^2. N_k never falls with k and mu_k never grows, so
    that both quotients, and the smaller one, never fall; from k = cap/L on nothing changes.
    """
    rho, norm, half = design.weights, design.norm, ridge / 2
    capped = sum_of_capped_counts(counts, rho, cap, per_person)
    curvature, fall = _curvature(counts, design, cap, per_person)
    slope = norm * float(rho.max()) * largest_return
    offset = reach * float(np.linalg.norm(q_largest(rho, touched)))

    def mu(k: int) -> float:
        return max(curvature - k * fall, 0.0)

    def numerator(k: int) -> float:
        # The largest x/(x^2 + lambda/2) over x^2 >= mu: what bounds the norm of theta
        gain = 1 / math.sqrt(2 * ridge) if mu(k) <= half else math.sqrt(mu(k)) / (mu(k) + half)
        return norm * (slope * math.sqrt(capped(k)) * gain + offset)

    def phi(k: int) -> float:
        return min(numerator(k) / (half + mu(k + 1)), numerator(k + 1) / (half + mu(k))) ** 2

    return branch_and_bound(range(-(-cap // per_person) + 1), phi, beta)


def _curvature(counts: Integers, design: Design, cap: int, per_person: int) -> tuple[float, float]:
    """Return mu_0 and L B: lambda_min(Phi^T D Phi), rounded down, and how far L can move it.

    The computed eigenvalue is within a public error of the true one, so between neighbours it
    moves by at most L B plus twice that error: adding it to L B keeps psi smooth as computed.
    In very many dimensions 0 stands for it, which is no larger and moves by nothing.
    """
    if design.by_gram and design.dimension > MOST_EIGENVALUES:
        return 0.0, per_person * design.weighted.high**2
    matrix = scaled_rows(design.phi, np.sqrt(design.weights * counts))
    gram = matrix.T @ matrix
    values = sl.eigvalsh(gram if isinstance(gram, np.ndarray) else gram.toarray())
    highest = design.norm**2 * float(design.weights.max()) * cap
    error = 8 * (design.states + design.dimension) * UNIT_ROUNDOFF * highest * design.dimension
    return max(float(values[0]) - error, 0.0), per_person * design.weighted.high**2 + 2 * error


def sum_of_capped_counts(
    counts: Integers, weights: Vector, cap: int, per_person: int
) -> Callable[[int], float]:
    """Return A(k) = sum_s rho_s min(n_s + k L, cap) as a function of k, O(log N) a call.

    Counts are sorted once: those below cap - k L add k L, the others have reached the cap. Sums
    from either end, of positive numbers, lose nothing to cancellation.
    """
    order = np.argsort(counts, kind="stable")
    ascending, rho = counts[order], weights[order]
    mass = np.concatenate([[0.0], _running_sums(rho)])
    visits = np.concatenate([[0.0], _running_sums(rho * ascending)])
    full = np.concatenate([_running_sums(rho[::-1])[::-1], [0.0]])

    def capped(k: int) -> float:
        more = k * per_person
        below = int(np.searchsorted(ascending, cap - more, side="left"))
        return float(visits[below] + more * mass[below] + cap * full[below])

    return capped


@kernel()
def _running_sums(values):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return prefix sums by compensated summation, each right to a few units in the last place.

    One after the other they would be off by as many roundings as there are states.
    """
    sums = np.empty(len(values))
    total = 0.0
    lost = 0.0
    for i in range(len(values)):
        term = values[i] - lost
        new = total + term
        lost = (new - total) - term
        total = new
        sums[i] = total
    return sums
