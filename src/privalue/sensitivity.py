"""Smooth upper bounds of the local sensitivity: psi^w and psi^lambda, exactly and fast.

| symbol         | here         | shape | public      |
|----------------|--------------|-------|-------------|
| \\|X_s\\|      | ``counts``   | N     | **private** |
| w_s, rho_s     | ``weights``  | N     | yes         |
| beta, lambda   | ``beta``, ``ridge`` | | yes        |
| psi^w          | ``smooth_lsw`` |     | **private** |
| psi^lambda     | ``smooth_lsl`` |     | **private** |

[BGP16] evaluates each maximum over k literally, in O(K N) and O(m N). Here psi^w looks only at the
k where it can be (docs/proofs/smooth-maxima.md) and sums what is far away by expansions with a
stated error; psi^lambda is the maximum of a log-concave function, found by ternary search. Both
are rounded up by ``INFLATION``, which covers every error made on the way.
"""

import math
from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

INFLATION = 1e-12  # of psi, relative
_EXPANSION_ERROR = 5e-13  # of phi, relative
_TERMS = 12  # of an expansion
_LEAF = 16  # counts summed one by one
_BLOCK = 64  # candidates dismissed together


def smooth_lsw(
    counts: Integers, weights: Vector, beta: float, *, pseudo_count: float = 0.0
) -> float:
    """psi^w = max_{0 <= k <= K} e^{-k beta} sum_s w_s / (max(|X_s| - k, 1) + kappa)^2.

    [BGP16] equation 12, with kappa pseudo-visits (0 in the paper). Between two neighbouring
    values of |X_s| - 1 every term is log-convex in k, and so is their sum: only k in
    {0} u {|X_s| - 1} can be the maximum.
    """
    distinct, mass = _grouped(np.maximum(counts, 1), weights)
    candidates = distinct - 1
    if candidates[0] != 0:
        candidates = np.concatenate([[0], candidates])
    points = (distinct + pseudo_count).astype(np.float64)
    reached = _running_sums(mass) / (1 + pseudo_count) ** 2  # what counts up to k + 1 add to phi(k)
    tree = _expansions(points, mass)
    at, error = _best_candidate(candidates, points, mass, reached, beta, *tree)
    best = candidates[int(at)]
    # The tree only chose the candidate; its value is summed afresh, term by term.
    gap = np.maximum(distinct - best, 1) + pseudo_count
    value = math.exp(-beta * float(best)) * float(np.sum(mass / gap**2))
    return value * (1 + INFLATION + float(error))


def smooth_lsl(
    counts: Integers,
    weights: Vector,
    trajectories: int,
    beta: float,
    *,
    slope: float,
    offset: float,
) -> float:
    """psi^lambda = max_{0 <= k <= m} e^{-k beta} (slope sqrt(A(k)) + offset)^2 ([BGP16] Alg. 2).

    A(k) = sum_s rho_s min(|X_s| + k, m) is concave and grows with k, so the logarithm of the
    whole is concave; sorted counts and running sums give A(k) in O(log N).
    """
    capped = sum_of_capped_counts(counts, weights, trajectories)

    def value(k: int) -> float:
        return math.exp(-beta * k) * (slope * math.sqrt(capped(k)) + offset) ** 2

    return _log_concave_maximum(value, trajectories) * (1 + INFLATION)


def sum_of_capped_counts(counts: Integers, weights: Vector, most: int) -> Callable[[int], float]:
    """A(k) = sum_s rho_s min(|X_s| + k, m), in O(log N) a call from sorted counts."""
    order = np.argsort(counts, kind="stable")
    ascending = counts[order]
    mass = np.concatenate([[0.0], _running_sums(weights[order])])
    visits = np.concatenate([[0.0], _running_sums(weights[order] * ascending)])
    full = np.concatenate([_running_sums(weights[order][::-1])[::-1], [0.0]])  # no cancellation

    def capped(k: int) -> float:
        below = int(np.searchsorted(ascending, most - k, side="left"))
        return float(visits[below] + k * mass[below] + most * full[below])

    return capped


def _log_concave_maximum(function: Callable[[int], float], last: int) -> float:
    """max over 0 .. last of a log-concave function.

    Comparing far-apart points keeps rounding harmless: dropping the wrong third loses no more
    than the rounding error of the comparison (docs/proofs/smooth-maxima.md).
    """
    low, high = 0, last
    while high - low > 2:
        third = (high - low) // 3
        left, right = low + third, high - third
        if function(left) < function(right):
            low = left
        else:
            high = right
    return max(function(k) for k in range(low, high + 1))


def _grouped(counts: Integers, weights: Vector) -> tuple[Integers, Vector]:
    """The distinct counts in ascending order, and the weight of the states that have each."""
    order = np.argsort(counts, kind="stable")
    ascending = counts[order]
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    return ascending[first], np.add.reduceat(weights[order], first)


@numba.njit(cache=True)
def _running_sums(values):  # type: ignore[no-untyped-def]
    """Prefix sums by compensated summation, each right to a few units in the last place."""
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


# Sums over far-away counts by expansion.
#
# For a node of the tree with centre z and radius r, whose counts are c_i with mass W_i, and a gap
# D = z - k with q = r/D < 1,
#
#     sum_i W_i / (c_i - k)^2 = sum_p (-1)^p (p+1) M_p q^p / D^2,   M_p = sum_i W_i ((c_i - z)/r)^p,
#
# and cutting it after P terms leaves at most M_0 q^P (P + 1 - P q) / ((1 - q)^2 D^2).


def _expansions(points: Vector, mass: Vector) -> tuple[Vector, Vector, Vector]:
    """A binary tree over the sorted counts: centres, radii and moments, node by node.

    Level by level in heap order over blocks of ``_LEAF`` counts; node i has children 2i+1, 2i+2.
    """
    leaves = 1
    while leaves * _LEAF < len(points):
        leaves *= 2
    nodes = 2 * leaves - 1
    tree: tuple[Vector, Vector, Vector] = _fill_tree(
        points, mass, leaves, np.zeros(nodes), np.zeros(nodes), np.zeros((nodes, _TERMS))
    )
    return tree


@numba.njit(cache=True)
def _fill_tree(points, mass, leaves, centres, radii, moments):  # type: ignore[no-untyped-def]
    width = leaves * _LEAF
    first_of_level = 0
    nodes_in_level = 1
    while nodes_in_level <= leaves:
        span = width // nodes_in_level
        for j in range(nodes_in_level):
            node = first_of_level + j
            begin = j * span
            end = min(begin + span, len(points))
            if begin >= end:
                continue
            centre = 0.5 * (points[begin] + points[end - 1])
            radius = 0.5 * (points[end - 1] - points[begin])
            centres[node] = centre
            radii[node] = radius
            for i in range(begin, end):
                power = mass[i]
                x = (points[i] - centre) / radius if radius > 0 else 0.0
                for p in range(_TERMS):
                    moments[node, p] += power
                    power *= x
        first_of_level += nodes_in_level
        nodes_in_level *= 2
    return centres, radii, moments


@numba.njit(cache=True)
def _split(first, last, k, lower, states, centres, radii, moments, nodes, terms, stack):  # type: ignore[no-untyped-def]
    """Covers the counts from ``first`` on by nodes of the tree, as coarse as the error allows.

    ``nodes`` receives them and ``terms`` how many terms of its expansion each needs, 0 for a leaf
    that is summed one by one: one that is near, or reaches below ``last``. Returned are their
    number and the error of all expansions together; each may have a share of ``lower``. The cover
    holds for every smaller k too, since gaps only grow.
    """
    leaves = (len(centres) + 1) // 2
    allowed = _EXPANSION_ERROR / 512 * lower
    found = 0
    errors = 0.0
    top = 0
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, leaves * _LEAF
    while top >= 0:
        node, begin, end = stack[top, 0], stack[top, 1], stack[top, 2]
        top -= 1
        if end <= first or begin >= states:
            continue
        needed = 0
        gap = centres[node] - k
        if begin >= last and radii[node] < 0.5 * gap:
            q = radii[node] / gap
            unit = moments[node, 0] / ((gap - radii[node]) * (gap - radii[node]))
            power = 1.0
            for p in range(_TERMS):
                power *= q
                left = unit * power * (p + 2 - (p + 1) * q)
                if left <= allowed:
                    needed = p + 1
                    errors += left
                    break
        if needed or end - begin <= _LEAF:
            nodes[found], terms[found] = node, needed
            found += 1
            continue
        middle = (begin + end) // 2
        top += 1
        stack[top, 0], stack[top, 1], stack[top, 2] = 2 * node + 2, middle, end
        top += 1
        stack[top, 0], stack[top, 1], stack[top, 2] = 2 * node + 1, begin, middle
    return found, errors


@numba.njit(cache=True)
def _phi(k, reached, found, points, mass, sums, centres, radii, moments, nodes, terms):  # type: ignore[no-untyped-def]
    """phi(k) = sum_g W_g / (max(c_g - k, 1) + kappa)^2, right to the errors of ``_split``.

    ``points`` are the c_g + kappa; the first ``reached`` counts have max(.) = 1, and add ``sums``.
    """
    first_leaf = (len(centres) - 1) // 2
    total = sums[reached - 1] if reached > 0 else 0.0
    for j in range(found):
        node = nodes[j]
        if terms[j] == 0:
            begin = (node - first_leaf) * _LEAF
            for i in range(max(begin, reached), min(begin + _LEAF, len(points))):
                distance = points[i] - k
                total += mass[i] / (distance * distance)
            continue
        gap = centres[node] - k
        q = -radii[node] / gap
        series = 0.0
        power = 1.0
        for p in range(terms[j]):
            series += (p + 1) * moments[node, p] * power
            power *= q
        total += series / (gap * gap)
    return total


@numba.njit(cache=True)
def _best_candidate(candidates, points, mass, sums, beta, centres, radii, moments):  # type: ignore[no-untyped-def]
    """The index of the candidate k that maximises e^{-k beta} phi(k), and phi's relative error.

    Blocks of candidates are dismissed by e^{-a beta} phi(b) on [a, b], since phi grows with k;
    everything from where e^{-k beta} sum(w) is too small is dismissed at once.
    """
    stack = np.empty((128, 3), dtype=np.int64)
    nodes = np.empty(len(centres), dtype=np.int64)
    terms = np.empty(len(centres), dtype=np.int64)
    ends = np.empty((len(candidates) + _BLOCK - 1) // _BLOCK)
    offset = len(candidates) - len(points)  # candidate i has max(.) = 1 up to count i - offset
    best = 0
    best_value = 0.0
    largest_error = 0.0
    blocks = len(ends)
    for block in range(-1, len(ends)):  # k = 0 first, then the last candidate of every block
        last = 0 if block < 0 else min((block + 1) * _BLOCK, len(candidates)) - 1
        if block >= 0 and np.exp(-beta * candidates[block * _BLOCK]) * sums[-1] <= best_value:
            blocks = block
            break
        k, reached = candidates[last], last + 1 - offset
        lower = sums[reached - 1] if reached > 0 else mass[0] / (points[0] - k) ** 2
        found, errors = _split(
            reached, reached, k, lower, len(points), centres, radii, moments, nodes, terms, stack
        )
        phi = errors + _phi(
            k, reached, found, points, mass, sums, centres, radii, moments, nodes, terms
        )
        largest_error = max(largest_error, errors / phi)
        if block >= 0:
            ends[block] = phi
        if np.exp(-beta * k) * phi > best_value:
            best, best_value = last, np.exp(-beta * k) * phi
    for block in range(blocks):
        first, last = block * _BLOCK, min((block + 1) * _BLOCK, len(candidates)) - 1
        if np.exp(-beta * candidates[first]) * ends[block] <= best_value:
            continue
        reached = first + 1 - offset
        lower = sums[reached - 1] if reached > 0 else mass[0] / points[0] ** 2
        cover = last + 1 - offset
        found, errors = _split(
            max(reached, 0), cover, candidates[last], lower, len(points),
            centres, radii, moments, nodes, terms, stack,
        )  # fmt: skip
        for i in range(first, last + 1):
            decay = np.exp(-beta * candidates[i])
            if decay * ends[block] <= best_value:
                break  # phi(k) <= phi(end of the block) for the rest of it, too
            phi = errors + _phi(
                candidates[i], i + 1 - offset, found,
                points, mass, sums, centres, radii, moments, nodes, terms,
            )  # fmt: skip
            largest_error = max(largest_error, errors / phi)
            value = decay * phi
            if value > best_value:
                best, best_value = i, value
    return best, largest_error
