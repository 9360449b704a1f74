"""Bound the local sensitivity of LSL smoothly: the paper's psi^lambda, and a sharper one.

| symbol               | here              | shape | public      |
|----------------------|-------------------|-------|-------------|
| \\|X_s\\| = n_s      | ``counts``        | N     | **private** |
| rho_s                | ``design.weights``| N     | yes         |
| lambda               | ``ridge``         |       | yes         |
| F_abs, M             | ``largest``, ``reach`` |  | yes         |
| L, q                 | ``per_person``, ``touched`` | | yes     |
| cap of a count       | ``cap``           |       | yes         |
| mu_k, A_k, N_k       | in ``_general``   |       | **private** |
| psi^lambda           | ``smooth_lsl``    |       | **private** |
| psi                  | ``RidgeSensitivity.smooth`` | | **private** |

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
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse as sp

from privalue.core._arrays import UNIT_ROUNDOFF, Integers, Vector, q_largest
from privalue.core._design import Design, scaled_rows
from privalue.core._kernels import kernel
from privalue.core._maximum import branch_and_bound
from privalue.core._sensitivity_lsw import breakpoints


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


@dataclass(frozen=True, kw_only=True, eq=False)
class RidgeSensitivity:
    """The squared local sensitivity of theta with a ridge, bounded for every lambda > 0.

    docs/proofs/sharper-dp-lsl.md proves it: for indicator features (tabular, or groups) group by
    group, for general features by the smallest eigenvalue of Phi^T D Phi.
    """

    design: Design  # Phi and rho
    ridge: float  # lambda, above 0
    cap: int  # the most that a count can be: m, or U L, or what the software takes; public
    largest: float  # F_abs, the most that a return can be in size
    reach: float  # M, the length of the shortest interval that holds every return and 0
    per_person: int = 1  # L, the most trajectories of one unit of privacy
    touched: int | None = None  # q, the most states in which neighbours differ; None for all

    def smooth(self, counts: Integers, beta: float) -> float:
        """Return psi, a beta-smooth upper bound.

        Args:
            counts: n_s, the visits of every state. PRIVATE.
            beta: how much ln psi may differ between neighbours, above 0.

        Returns:
            psi. PRIVATE. Never too small, and too large by at most ``TOLERANCE``, relatively.
        """
        if self.design.is_indicator:
            return (self.per_person * self.reach) ** 2 * self._indicator(counts, beta)
        return self.per_person**2 * self._general(counts, beta)

    def least(self) -> float:
        """Return a public lower bound of psi over all data sets whose counts are at most the cap.

        psi is at least its k = 0 part, which falls as counts grow.
        """
        design, half, unit = self.design, self.ridge / 2, self.per_person * self.reach
        if design.is_indicator:
            groups = _Groups(design)
            rho = design.weights[groups.order]
            return groups.changes(rho, self.touched)(half + self.cap * groups.sums(rho)) * unit**2
        curvature = half + design.norm**2 * float(design.weights.max()) * self.cap
        change = float(np.linalg.norm(q_largest(design.weights, self.touched)))
        return (unit * design.norm * change / curvature) ** 2

    def most(self) -> float:
        """Return a public upper bound of psi over data sets whose counts are at most the cap."""
        rho, norm = self.design.weights, self.design.norm
        visits = math.sqrt(float(rho.sum()) * self.cap / (2 * self.ridge))
        change = self.reach * float(q_largest(rho, self.touched).sum())
        theta = norm * float(rho.max()) * self.largest * visits
        return (self.per_person * norm * (theta + change) / (self.ridge / 2)) ** 2

    def _indicator(self, counts: Integers, beta: float) -> float:
        """Return max_k e^{-k beta} sum_g [P_g / (lambda/2 + sum_{s in g} rho_s (n_s - k L)_+)]^2.

        For features that put every state into one group g: psi without the factor (L M)^2; with
        ``touched``, of the q states that can change the most. Each denominator is linear in k
        between the values of n_s/L, so the function is log-convex there: only the k next to such
        a value can be the maximum, and 0.
        """
        groups, per_person = _Groups(self.design), self.per_person
        counts, rho = counts[groups.order], self.design.weights[groups.order]
        changes = groups.changes(rho, self.touched)

        def phi(k: int) -> float:
            """Return the squared change at distance k: so many units may have left."""
            left = groups.sums(rho * np.maximum(counts - k * per_person, 0))
            return changes(self.ridge / 2 + left)

        return branch_and_bound(breakpoints(counts, per_person, 0), phi, beta)

    def _general(self, counts: Integers, beta: float) -> float:
        """Return max_k e^{-k beta} min{N_k/(lambda/2 + mu_{k+1}), N_{k+1}/(lambda/2 + mu_k)}^2.

        For any features: psi without the factor L^2. N_k never falls with k and mu_k never grows,
        so that both quotients, and the smaller one, never fall; from k = cap/L on nothing changes.
        """
        rho, norm, half = self.design.weights, self.design.norm, self.ridge / 2
        capped = sum_of_capped_counts(counts, rho, self.cap, self.per_person)
        curvature, fall = self._curvature(counts)
        slope = norm * float(rho.max()) * self.largest
        offset = self.reach * float(np.linalg.norm(q_largest(rho, self.touched)))

        def mu(k: int) -> float:
            """Return mu_k = (mu(n) - k L B)_+: each unit lowers the eigenvalue by at most L B."""
            return max(curvature - k * fall, 0.0)

        def numerator(k: int) -> float:
            """Return N_k/L: how far the right side of the normal equations can move."""
            # The largest x/(x^2 + lambda/2) over x^2 >= mu: what bounds the norm of theta
            root = math.sqrt(mu(k))
            gain = 1 / math.sqrt(4 * half) if mu(k) <= half else root / (mu(k) + half)
            return norm * (slope * math.sqrt(capped(k)) * gain + offset)

        def phi(k: int) -> float:
            """Return phi_k/L^2: the smaller of two bounds of the change.

            Numerator and denominator belong to different neighbours, and only the counts of one
            are known: those of the other are at most one step away, hence k + 1.
            """
            return min(numerator(k) / (half + mu(k + 1)), numerator(k + 1) / (half + mu(k))) ** 2

        return branch_and_bound(range(-(-self.cap // self.per_person) + 1), phi, beta)

    def _curvature(self, counts: Integers) -> tuple[float, float]:
        """Return mu_0 and L B: lambda_min(Phi^T D Phi), rounded down, and how far L can move it.

        The computed eigenvalue is within a public error of the true one, so between neighbours it
        moves by at most L B plus twice that error: adding it to L B keeps psi smooth as computed.
        """
        design, fall = self.design, self.per_person * self.design.weighted.high**2
        matrix = scaled_rows(design.phi, np.sqrt(design.weights * counts))
        gram = matrix.T @ matrix
        # Features that do not overlap have a diagonal matrix: its entries are the eigenvalues.
        values = scipy.linalg.eigvalsh(gram) if isinstance(gram, np.ndarray) else gram.diagonal()
        highest = design.norm**2 * float(design.weights.max()) * self.cap
        error = 8 * (design.states + design.dimension) * UNIT_ROUNDOFF * highest * design.dimension
        return max(float(values.min()) - error, 0.0), fall + 2 * error


class _Groups:
    """Sort states by the group that indicator features put them into, the heaviest first."""

    def __init__(self, design: Design) -> None:
        of_state = sp.csr_array(design.phi).indices
        self.order = np.lexsort((-design.weights, of_state))
        self.first = np.flatnonzero(np.diff(of_state[self.order], prepend=-1))
        self.sizes = np.diff(self.first, append=len(self.order))

    def sums(self, values: Vector) -> Vector:
        """Return the sum of every group that has a state, of values in ``order``.

        NumPy adds each group pairwise: rounding stays small however many states a group has.
        """
        if len(self.first) == len(values):
            return values
        return np.add.reduceat(values, self.first)

    def changes(self, rho: Vector, touched: int | None) -> Callable[[Vector], float]:
        """Return the function that turns denominators b_g into sum_g (P_g/b_g)^2.

        That is the most that theta/(L M) can change by, squared. If at most q states change, then
        at most q of a group do: P_g shrinks to its q largest rho_s, and
        sum_g (sum_{changed s in g} rho_s)^2 / b_g^2 <= top_q_s [rho_s P_g / b_g^2].
        """
        if touched is None or touched >= len(rho):
            mass = self.sums(rho)
            return lambda b: float(np.sum(np.square(mass / b)))
        rank = np.arange(len(rho)) - np.repeat(self.first, self.sizes)
        mass = self.sums(np.where(rank < touched, rho, 0.0))
        shares = rho * np.repeat(mass, self.sizes)
        return lambda b: float(
            q_largest(shares / np.square(np.repeat(b, self.sizes)), touched).sum()
        )


def sum_of_capped_counts(
    counts: Integers, weights: Vector, cap: int, per_person: int
) -> Callable[[int], float]:
    """Return A(k) = sum_s rho_s min(n_s + k L, cap) as a function of k, O(log N) a call.

    Counts are sorted once: those below cap - k L add k L, the others have reached the cap. Sums
    from either end, of positive numbers, lose nothing to cancellation.

    Args:
        counts: n_s, the visits of every state. PRIVATE.
        weights: rho_s, at least 0.
        cap: the most that a count can be, public.
        per_person: L, the most trajectories of one unit of privacy.

    Returns:
        The function k -> A(k). PRIVATE, like the counts in it.
    """
    order = np.argsort(counts, kind="stable")
    ascending, rho = counts[order], weights[order]
    mass = np.concatenate([[0.0], _running_sums(rho)])
    visits = np.concatenate([[0.0], _running_sums(rho * ascending)])
    # Contiguous, as the others are: another layout would be compiled anew, after the charge.
    full = np.concatenate([_running_sums(np.ascontiguousarray(rho[::-1]))[::-1], [0.0]])

    def capped(k: int) -> float:
        """Return A(k) from three running sums, at the place where counts reach the cap."""
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
