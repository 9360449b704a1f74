"""Bound how far what gets noise differs between neighbours: for all data sets, or smoothly.

| symbol       | here                    | shape | public      |
|--------------|-------------------------|-------|-------------|
| H, L, q      | ``Limits``              |       | yes         |
| omega_k      | ``shape``               | N     | yes         |
| M, D         | ``max_sq_norm``, ``max_sq_distance`` | | yes |
| Delta        | ``block_sensitivity``   |       | yes         |
| c_w          | ``count_weight``, in units of R | | yes       |
| n_s          | ``counts``              | N     | **private** |
| w_s, rho_s   | ``weights``             | N     | yes         |
| kappa        | ``pseudo_count``        |       | yes         |
| lambda       | ``ridge``               |       | yes         |
| beta         | ``beta``                |       | yes         |
| cap of a count | ``cap``               |       | yes: m, or U L, or what the software takes |
| k            | units that are exchanged |      | **private** if from counts |
| phi          | of the most sensitive data set at distance k | | **private** |
| psi          | ``smooth`` of each kind of sensitivity |  | **private** |

*Sums.* A trajectory contributes, at its first visit to each of its first H distinct keys k, one
vector omega_k v, v one of the vectors that are possible at k. No such v has a squared norm above
M_k, and no two of them a squared distance above D_k (docs/proofs/contribution.md calls them psi).

*Smooth bounds.* psi = max_{k >= 0} e^{-beta k} phi(k) ([BGP16] Algorithms 1 and 2, line 3). Data
sets further away include those nearby, so phi never falls as k grows: that is all that the search
for the maximum needs (docs/proofs/dp-lsl.md). One unit has at most L trajectories, and
neighbours differ in at most q states (docs/proofs/contribution.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privalue.core.design import Design
from privalue.core.kernel import UNIT_ROUNDOFF, Integers, Vector
from privalue.core.limits import Limits
from privalue.errors import UsageError

# A smooth bound is never too small, and too large by at most TOLERANCE, relatively: the calibration
# has room for that (docs/proofs/calibration.md).
TOLERANCE = 1e-9
_GAP = 0.5e-9  # the search stops where it could gain no more than this
_ROUNDING = 0.1e-9  # more than the floating-point error of phi and of e^{-beta k}, both relative


def block_sensitivity(
    limits: Limits, shape: Vector, max_sq_norm: float, max_sq_distance: float
) -> float:
    """Return Delta: the most that the sums of neighbours differ by, in the Euclidean norm.

    With m_k = omega_k^2 M_k, d_k = omega_k^2 D_k, m'_k = max(m_k, d_k/2), e_k = (d_k - m'_k)_+,

        Delta^2 = the sum of the 2H largest of {m'_k} and {e_k}   (one unit replaced),
        Delta^2 = the sum of the H largest m_k                    (one unit added or removed),

    and L times Delta where a unit has up to L trajectories. A key that both the old and the new
    trajectory visit takes two of 2H places, a key that one of them visits takes one.

    Args:
        limits: the relation, H and L.
        shape: omega_k, one number above 0 for every key.
        max_sq_norm: M_k; it counts where one of two trajectories visits k.
        max_sq_distance: D_k; it counts where both do. 0 where only one vector is possible.

    Returns:
        Delta, never too small: what rounding does goes up.
    """
    omega = np.asarray(shape, dtype=np.float64)
    if not (len(omega) and ((omega > 0) & (omega < np.inf)).all()):
        raise UsageError("shape must be a list of finite numbers above 0, one for each state")
    top = float(omega.max())
    squares = np.square(omega / top)  # at most 1: none overflows
    m, d = squares * max_sq_norm, squares * max_sq_distance
    places = min(limits.max_states_per_trajectory, len(omega))
    if not limits.add_remove:
        m = np.maximum(m, d / 2)
        m, places = np.concatenate([m, np.maximum(d - m, 0.0)]), 2 * places
    total = float(_q_largest(m, places).sum())
    # A sum of positive terms is right to 2N roundings. d - m cancels, but wherever it is among the
    # largest so is m, which is no smaller: its error is a few roundings of what is added anyway.
    slack = 2 * (len(omega) + 16) * UNIT_ROUNDOFF
    return limits.max_trajectories_per_person * top * math.sqrt(total) * (1 + slack)


def visit_sensitivity(limits: Limits, shape: Vector, count_weight: float) -> float:
    """Return Delta of DP-SSP, in units of R, where a visit adds (f, c_w) with |f| <= 1/2.

    No such vector is longer than M = 1/4 + c_w^2, squared, and no two are further apart than D = 1.
    """
    return block_sensitivity(limits, shape, 0.25 + count_weight**2, 1.0)


def branch_and_bound(ks: range | Integers, phi: Callable[[int], float], beta: float) -> float:
    """Return max_k e^{-beta k} phi(k) over the given k, rounded up.

    If k is strictly between a and b, then e^{-beta k} phi(k) <= e^{-beta (a + 1)} phi(b). An
    interval is dismissed where all that it could hold is no more than the best value found, up to
    ``_GAP``, and halved otherwise; the best value is raised by that much in the end, so that no
    dismissed k can exceed the result.

    Args:
        ks: the k to try, ascending: an array, or a range from 0, which may be of any length.
        phi: a function that is not negative and does not fall from one k to a later one. Rounding
            may break that by less than ``_ROUNDING``.
        beta: above 0.

    Returns:
        A number from the maximum to (1 + ``TOLERANCE``) times the maximum.
    """

    def decay(at: int) -> float:
        """Return e^{-beta k} at a place of the list."""
        return math.exp(-beta * int(ks[at]))

    end = ks.stop - 1 if isinstance(ks, range) else len(ks) - 1  # len(range) stops at 2^63
    at_end = phi(int(ks[end]))
    best = max(decay(0) * phi(int(ks[0])), decay(end) * at_end)
    intervals = [(0, end, at_end)]  # of places: both ends, and phi at the second
    while intervals:
        first, last, at_last = intervals.pop()
        if last - first < 2 or decay(first + 1) * at_last <= best * (1 + _GAP):
            continue
        middle = (first + last) // 2
        at_middle = phi(int(ks[middle]))
        best = max(best, decay(middle) * at_middle)
        intervals += [(middle, last, at_last), (first, middle, at_middle)]
    return best * (1 + _GAP + _ROUNDING)


# Squared local sensitivities, each with a smooth upper bound. All that they hold is public. They
# are classes, not closures: a mechanism is part of private types, which hold no function.


@dataclass(frozen=True, eq=False)
class LswSensitivity:
    """The squared sensitivity of LSW, in units of R^2 ||A^+||^2: [BGP16] equation 9, Algorithm 1.

    psi^w = max_k e^{-k beta} top_q_s [w_s L^2 / (max(n_s - k L, L) + kappa)^2], where top_q adds
    the q largest, chosen anew at every k. The paper has L = 1, kappa = 0 and all terms.
    """

    limits: Limits
    weights: Vector  # w_s, at least 0
    cap: int  # the most that a count can be; public
    pseudo_count: float  # kappa, visits that every state has besides (docs/proofs/dp-lsw.md)

    def smooth(self, counts: Integers, beta: float) -> float:
        """Return psi^w. PRIVATE. Only those k are tried where the maximum can be.

        Args:
            counts: n_s, the visits of every state. PRIVATE.
            beta: how much ln psi may differ between neighbours, above 0.

        Returns:
            A number that is never too small, and too large by at most ``TOLERANCE``, relatively.
        """
        per_person, has_weight = self.limits.max_trajectories_per_person, self.weights > 0
        # A count below L acts as L: breaks below k = 0 change nothing.
        counts, weights = np.maximum(counts[has_weight], per_person), self.weights[has_weight]

        def phi(k: int) -> float:
            """Return top_q of the terms at distance k, without the factor L^2."""
            # Counts and k L are whole and far below 2^53, so that their difference is exact; kappa
            # comes last, and nothing cancels.
            remaining = np.maximum(counts - k * per_person, per_person)
            terms = weights / np.square(remaining + self.pseudo_count)
            return float(_q_largest(terms, self.limits.max_keys_changed).sum())

        breaks = _breakpoints(counts, per_person, per_person)
        return per_person**2 * branch_and_bound(breaks, phi, beta)

    # Public bounds: psi is at least its part at k = 0, whose terms fall as counts grow, and no
    # term at any k exceeds that of a state with L visits (docs/proofs/dp-lsw.md).

    def extremes(self) -> tuple[float, float]:
        """Return psi with the most visits of every state, and without any visits.

        No data set has less than the one, nor more than the other.
        """
        top = float(np.sort(self.weights)[-self.limits.max_keys_changed :].sum())
        most, kappa = self.limits.max_trajectories_per_person, self.pseudo_count
        return top * (most / (max(self.cap, most) + kappa)) ** 2, top * (most / (most + kappa)) ** 2


@dataclass(frozen=True, eq=False)
class LslSensitivity:
    """The squared sensitivity of LSL: psi^lambda = max_k e^{-k beta} (slope sqrt(A(k)) + offset)^2.

    [BGP16] Algorithm 2. A(k) = sum_s rho_s min(n_s + k L, cap) grows with k up to k = cap/L, and
    then no more: later k need not be tried.
    """

    limits: Limits
    weights: Vector  # rho_s, at least 0
    cap: int  # the most that a count can be
    slope: float  # c_lambda
    offset: float  # the norm of the q largest rho_s

    def smooth(self, counts: Integers, beta: float) -> float:
        """Return psi^lambda, as ``LswSensitivity.smooth`` returns psi^w. PRIVATE."""
        per_person = self.limits.max_trajectories_per_person
        weighted_visits = sum_of_capped_counts(counts, self.weights, self.cap, self.limits)

        def phi(k: int) -> float:
            return (self.slope * math.sqrt(weighted_visits(k)) + self.offset) ** 2

        return branch_and_bound(range(-(-self.cap // per_person) + 1), phi, beta)

    def extremes(self) -> tuple[float, float]:
        """Return psi without any visits, the least, and with the most visits of every state."""
        visits = math.sqrt(float(self.weights.sum()) * self.cap)
        return self.offset**2, (self.slope * visits + self.offset) ** 2


class RidgeSensitivity:
    """The squared local sensitivity of theta with a ridge, bounded for every lambda > 0.

    theta solves H theta = Phi^T Gamma_rho S with H = Phi^T diag(rho n) Phi + (lambda/2) I. The
    paper bounds H from below by lambda/2 alone; this counts the data's own curvature, too, and
    needs no further factor (docs/proofs/dp-lsl.md): for indicator features (tabular, or
    groups) group by group, for general features by the smallest eigenvalue of Phi^T D Phi.
    """

    def __init__(self, limits: Limits, design: Design, cap: int, ridge: float) -> None:
        """Take what is public: the limits, Phi and rho, the most of a count, and lambda > 0."""
        self.limits, self.design, self.cap, self.ridge = limits, design, cap, ridge
        self.per_person = limits.max_trajectories_per_person  # L
        # M, the length of the shortest interval that holds every return and 0. The range R is not
        # enough: a trajectory that no longer visits s takes its return away, which may be as large
        # as F_abs > R (docs/proofs/dp-lsl.md, "Why M and not the range R").
        low, high = limits.return_bounds
        self.reach = max(high, 0.0) - min(low, 0.0)
        # q: 2H, or H, and not 2HL as for LSW. L visits in each of so many states are the worst: the
        # change of the return sums is convex in the visits (docs/proofs/dp-lsl.md).
        most = limits.max_states_per_trajectory
        self.max_keys_changed = min(limits.keys, most if limits.add_remove else 2 * most)
        # L B, by which L visits can move an eigenvalue: computed here, before the charge
        self.fall = self.per_person * design.weighted_features.spectrum.high**2

    def change(self) -> float:
        """Return the norm of the q largest rho_s: how far the return sums can move, over L M."""
        return float(np.linalg.norm(_q_largest(self.design.weights, self.max_keys_changed)))

    def smooth(self, counts: Integers, beta: float) -> float:
        """Return psi, a beta-smooth upper bound, never too small, too large by ``TOLERANCE``.

        Args:
            counts: n_s, the visits of every state. PRIVATE.
            beta: how much ln psi may differ between neighbours, above 0.
        """
        if self.design.is_indicator:
            return (self.per_person * self.reach) ** 2 * self._indicator(counts, beta)
        return self.per_person**2 * self._general(counts, beta)

    def extremes(self) -> tuple[float, float]:
        """Return public bounds of psi, over all data sets whose counts are at most the cap.

        psi is at least its k = 0 part, which falls as counts grow.
        """
        rho, norm, half = self.design.weights, self.design.norm, self.ridge / 2
        heaviest, unit = float(rho.max()), self.per_person * self.reach
        if self.design.is_indicator:
            groups = _Groups(self.design, self.max_keys_changed)
            least = unit**2 * groups.change(half + self.cap * groups.sums(groups.rho))
        else:
            least = (unit * norm * self.change() / (half + norm**2 * heaviest * self.cap)) ** 2
        visits = math.sqrt(float(rho.sum()) * self.cap / (2 * self.ridge))
        change = self.reach * float(_q_largest(rho, self.max_keys_changed).sum())
        theta = norm * heaviest * self.limits.largest_return * visits
        return least, (self.per_person * norm * (theta + change) / half) ** 2

    def _indicator(self, counts: Integers, beta: float) -> float:
        """Return max_k e^{-k beta} sum_g [P_g / (lambda/2 + sum_{s in g} rho_s (n_s - k L)_+)]^2.

        For features that put every state into one group g: psi without the factor (L M)^2, of the
        q states that can change the most. Each denominator is linear in k between the values of
        n_s/L, so the function is log-convex there: only the k next to such a value can be the
        maximum, and 0.
        """
        groups = _Groups(self.design, self.max_keys_changed)
        counts = counts[groups.order]

        def phi(k: int) -> float:
            """Return the squared change at distance k: so many units may have left."""
            remaining = groups.rho * np.maximum(counts - k * self.per_person, 0)
            return groups.change(self.ridge / 2 + groups.sums(remaining))

        return branch_and_bound(_breakpoints(counts, self.per_person, 0), phi, beta)

    def _general(self, counts: Integers, beta: float) -> float:
        """Return max_k e^{-k beta} min{N_k/(lambda/2 + mu_{k+1}), N_{k+1}/(lambda/2 + mu_k)}^2.

        For any features: psi without the factor L^2. N_k never falls with k and mu_k never grows,
        so that both quotients, and the smaller one, never fall; from k = cap/L on nothing changes.
        """
        rho, norm, half = self.design.weights, self.design.norm, self.ridge / 2
        weighted_visits = sum_of_capped_counts(counts, rho, self.cap, self.limits)
        curvature, fall = self._curvature(counts)
        slope = norm * float(rho.max()) * self.limits.largest_return
        offset = self.reach * self.change()

        def mu(k: int) -> float:
            """Return mu_k = (mu(n) - k L B)_+: each unit lowers the eigenvalue by at most L B."""
            return max(curvature - k * fall, 0.0)

        def numerator(k: int) -> float:
            """Return N_k/L: how far the right side of the normal equations can move."""
            # The largest x/(x^2 + lambda/2) over x^2 >= mu: what bounds the norm of theta
            root = math.sqrt(mu(k))
            gain = 1 / math.sqrt(4 * half) if mu(k) <= half else root / (mu(k) + half)
            return norm * (slope * math.sqrt(weighted_visits(k)) * gain + offset)

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
        design = self.design
        smallest = design.features.scaled(np.sqrt(design.weights * counts)).smallest_square()
        highest = design.norm**2 * float(design.weights.max()) * self.cap
        error = 8 * (design.states + design.dimension) * UNIT_ROUNDOFF * highest * design.dimension
        return max(smallest - error, 0.0), self.fall + 2 * error


class _Groups:
    """The states, sorted by the group that indicator features put them into, the heaviest first.

    At most q states change, and so at most q of a group: P_g is the sum of its q largest rho_s.
    """

    def __init__(self, design: Design, changed: int) -> None:
        group_of_state, self.changed = design.entries.indices, changed
        self.order = np.lexsort((-design.weights, group_of_state))
        self.rho = design.weights[self.order]
        self.first = np.flatnonzero(np.diff(group_of_state[self.order], prepend=-1))
        self.sizes = np.diff(self.first, append=len(self.order))
        rank = np.arange(len(self.rho)) - np.repeat(self.first, self.sizes)
        largest = self.sums(np.where(rank < changed, self.rho, 0.0))  # P_g
        self.shares = self.rho * np.repeat(largest, self.sizes)

    def sums(self, values: Vector) -> Vector:
        """Return the sum of every group that has a state, of values in ``order``.

        NumPy adds each group pairwise: rounding stays small however many states a group has.
        """
        return np.add.reduceat(values, self.first)

    def change(self, b: Vector) -> float:
        """Return the most that theta/(L M) can change by, squared, with denominators b_g.

        sum_g (sum_{changed s in g} rho_s)^2 / b_g^2 <= top_q_s [rho_s P_g / b_g^2].
        """
        terms = self.shares / np.square(np.repeat(b, self.sizes))
        return float(_q_largest(terms, self.changed).sum())


def sum_of_capped_counts(
    counts: Integers, weights: Vector, cap: int, limits: Limits
) -> Callable[[int], float]:
    """Return A(k) = sum_s rho_s min(n_s + k L, cap) as a function of k. PRIVATE.

    States with equal counts are taken together, since they stay together: of many states few
    counts differ. NumPy adds pairwise, so that rounding stays small however many there are.
    """
    order = np.argsort(counts, kind="stable")
    first = np.flatnonzero(np.diff(counts[order], prepend=-1))
    distinct, mass = counts[order][first], np.add.reduceat(weights[order], first)

    def weighted_visits(k: int) -> float:
        visits = np.minimum(distinct + k * limits.max_trajectories_per_person, cap)
        return float((mass * visits).sum())

    return weighted_visits


def _breakpoints(counts: Integers, per_person: int, floor: int) -> Integers:
    """Return 0, and the whole k >= 0 on either side of each (n_s - floor)/L, ascending.

    There a term stops growing. Between two neighbours of this list, e^{-k beta} phi(k) is
    log-convex in k, hence largest at one of them; after the last one it falls.
    """
    below = (counts - floor) // per_person
    above = -((floor - counts) // per_person)
    return np.unique(np.maximum(np.concatenate([[0], below, above]), 0))


def _q_largest(values: Vector, q: int) -> Vector:
    """Return the q largest values, in any order; all of them if q is too large."""
    return values if q >= len(values) else np.partition(values, -q)[-q:]
