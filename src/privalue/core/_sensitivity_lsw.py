"""Bound the local sensitivity of LSW smoothly: psi^w of [BGP16] equation 9.

| symbol         | here             | shape | public      |
|----------------|------------------|-------|-------------|
| \\|X_s\\| = n_s | ``counts``       | N     | **private** |
| w_s            | ``weights``      | N     | yes         |
| kappa          | ``pseudo_count`` |       | yes         |
| beta           | ``beta``         |       | yes         |
| L              | ``per_person``   |       | yes         |
| q              | ``touched``      |       | yes         |
| psi^w          | ``smooth_lsw``   |       | **private** |

One unit of privacy has at most L trajectories, and neighbours differ in at most q states; who
passes which numbers is in docs/proofs/persons.md and docs/proofs/bounded-contribution.md. The
paper tries every k; here only those are tried where the maximum can be (``breakpoints``), and of
these only those that branch and bound cannot dismiss (docs/proofs/smooth-maxima.md).
"""

import numpy as np

from privalue.core._arrays import Integers, Vector, q_largest
from privalue.core._maximum import branch_and_bound


def smooth_lsw(
    counts: Integers,
    weights: Vector,
    beta: float,
    *,
    pseudo_count: float = 0.0,
    per_person: int = 1,
    touched: int | None = None,
) -> float:
    """Return psi^w = max_k e^{-k beta} top_q_s [w_s L^2 / (max(n_s - k L, L) + kappa)^2].

    top_q adds the q largest, chosen anew at every k. With L = 1, kappa = 0 and all terms it is
    [BGP16] equation 9 and line 3 of Algorithm 1.

    Args:
        counts: n_s, the visits of every state. PRIVATE.
        weights: w_s, at least 0.
        beta: how much ln psi may differ between neighbours, above 0.
        pseudo_count: kappa, visits that every state has besides (docs/proofs/pseudo-counts.md).
        per_person: L, the most trajectories of one unit of privacy.
        touched: q, the most states in which neighbours differ; None for all of them.

    Returns:
        psi^w. PRIVATE. Never too small, and too large by at most ``TOLERANCE``, relatively.
    """
    matter = weights > 0
    # A count below L acts as L: breaks below k = 0 change nothing.
    counts, weights = np.maximum(counts[matter], per_person), weights[matter]
    q = touched if touched is not None and touched < len(counts) else None
    if q is not None and weights.min() == weights.max():
        # The smallest counts have the largest terms at every k: the choice is made once.
        counts, weights, q = np.partition(counts, q - 1)[:q], weights[:q], None
    if q is None:
        counts, weights = _grouped(counts, weights)

    def phi(k: int) -> float:
        """Return top_q of the terms at distance k, without the factor L^2."""
        # Counts and k L are whole and far below 2^53, so that their difference is exact; kappa
        # comes last, and nothing cancels.
        terms = weights / np.square(np.maximum(counts - k * per_person, per_person) + pseudo_count)
        return float(q_largest(terms, q).sum())

    return per_person**2 * branch_and_bound(breakpoints(counts, per_person, per_person), phi, beta)


def breakpoints(counts: Integers, per_person: int, floor: int) -> Integers:
    """Return 0, and the whole k >= 0 on either side of each (n_s - floor)/L, ascending.

    There a term stops growing. Between two neighbours of this list, e^{-k beta} phi(k) is
    log-convex in k, hence largest at one of them; after the last one it falls.
    """
    below = (counts - floor) // per_person
    above = -((floor - counts) // per_person)
    ascending = np.sort(np.maximum(np.concatenate([[0], below, above]), 0), kind="stable")
    return np.asarray(ascending[np.flatnonzero(np.diff(ascending, prepend=-1))])


def _grouped(counts: Integers, weights: Vector) -> tuple[Integers, Vector]:
    """Return the distinct counts, ascending, and the weight of all states that have each.

    States of one count have terms in one proportion at every k, so that their weights add up.
    """
    order = np.argsort(counts, kind="stable")
    ascending = counts[order]
    first = np.flatnonzero(np.diff(ascending, prepend=-1))
    return ascending[first], np.add.reduceat(weights[order], first)  # pairwise, not one by one
