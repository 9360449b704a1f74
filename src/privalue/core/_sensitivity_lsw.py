"""Smooth upper bounds of the local sensitivity: psi^w and psi^lambda, exactly and fast.

| symbol         | here         | shape | public      |
|----------------|--------------|-------|-------------|
| \\|X_s\\|      | ``counts``   | N     | **private** |
| w_s, rho_s     | ``weights``  | N     | yes         |
| beta, lambda   | ``beta``, ``ridge`` | | yes        |
| L              | ``step``     |       | yes         |
| q              | ``terms``    |       | yes         |
| psi^w          | ``smooth_lsw`` |     | **private** |
| psi^lambda     | ``smooth_lsl`` |     | **private** |

One unit of privacy has at most L trajectories, and neighbours differ in at most q states; who
passes which numbers is in docs/proofs/persons.md and docs/proofs/bounded-contribution.md.

[BGP16] evaluates each maximum over k literally, in O(K N) and O(m N). Here psi^w looks only at the
k where it can be (docs/proofs/smooth-maxima.md) and sums what is far away by expansions with a
stated error; psi^lambda is the maximum of a log-concave function, found by ternary search. Both
are rounded up by what covers every error made on the way, ``INFLATION`` at least.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privalue.core._kernels import kernel

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

INFLATION = 1e-12  # of psi, relative
_EXPANSION_ERROR = 5e-13  # of phi, relative
_SEARCH_ERROR = 1e-10  # how much less than the maximum the search for the q largest may settle for
_TERMS = 12  # of an expansion
_LEAF = 16  # counts summed one by one
_BLOCK = 64  # candidates dismissed together
_SEEDS = 12  # candidates evaluated before the search
_CHUNK = 1024  # terms summed before they join a larger sum


def smooth_lsw(
    counts: Integers,
    weights: Vector,
    beta: float,
    *,
    pseudo_count: float = 0.0,
    step: int = 1,
    terms: int | None = None,
) -> float:
    """psi^w = max_{k >= 0} e^{-k beta} top_q_s [w_s L^2 / (max(|X_s| - k L, L) + kappa)^2].

    top_q adds the q largest, chosen anew at every k; all of them without ``terms``. With L = 1
    and all terms it is [BGP16] equation 9, with kappa pseudo-visits (0 in the paper). Between
    neighbouring values of |X_s|/L - 1 every term is log-convex in k, and so are their sums and
    the largest of these: only the k next to such a value can be the maximum, and 0.
    """
    if terms is not None and terms < len(counts):
        counts, weights = counts[weights > 0], weights[weights > 0]
        if terms < len(counts) and weights.min() < weights.max():
            kappas = np.full(len(counts), pseudo_count)
            return step**2 * smooth_largest(
                counts, weights, kappas, beta, step=step, floor=step, terms=terms
            )
        if terms < len(counts):  # equal weights: the smallest counts have the largest terms
            counts, weights = np.partition(counts, terms - 1)[:terms], weights[:terms]
    distinct, mass = _grouped(np.maximum(counts, step), weights)
    candidates = breakpoints(distinct, step, step)
    places = step * candidates
    reached = np.searchsorted(distinct, places + step, side="right")  # counts with max(.) = L
    sums = _running_sums(mass) / (step + pseudo_count) ** 2  # what they add to phi
    points = distinct.astype(np.float64)
    tree = _expansions(points, mass)
    at, error = _best_candidate(
        candidates, places, reached, points, mass, sums, pseudo_count, beta, *tree
    )
    # The tree only chose the candidate; its value is summed afresh, term by term.
    gap = np.maximum(distinct - places[int(at)], step) + pseudo_count
    value = math.exp(-beta * float(candidates[int(at)])) * float(np.sum(mass / gap**2)) * step**2
    return value * (1 + INFLATION + float(error))


def smooth_largest(
    counts: Integers,
    weights: Vector,
    kappas: Vector,
    beta: float,
    *,
    step: int,
    floor: int,
    terms: int,
) -> float:
    """max_{k >= 0} e^{-k beta} top_q_s [w_s / (max(|X_s| - k L, floor) + kappa_s)^2].

    For any positive weights and kappa_s. A few candidates, the first and the last among them, are
    evaluated in full; then a better one is searched for.
    """
    candidates = breakpoints(np.sort(counts), step, floor)
    terms = min(terms, len(counts))

    def value(at: int) -> float:
        gap = np.maximum(counts - step * candidates[at], floor) + kappas
        largest = np.partition(weights / gap**2, len(counts) - terms)[len(counts) - terms :]
        return math.exp(-beta * float(candidates[at])) * float(np.sum(largest))

    seeds = np.unique(np.linspace(0, len(candidates) - 1, _SEEDS).astype(np.int64)).tolist()
    values = {at: value(at) for at in seeds}
    start = max(seeds, key=values.__getitem__)
    points = counts.astype(np.float64)
    best = _best_of_largest(
        candidates, step, floor, points, weights, kappas, terms, beta, start, values[start]
    )
    return value(int(best)) * (1 + INFLATION + _SEARCH_ERROR)


def smooth_lsl(
    counts: Integers,
    weights: Vector,
    most: int | None,
    beta: float,
    *,
    slope: float,
    offset: float,
    step: int = 1,
) -> float:
    """psi^lambda = max_{k >= 0} e^{-k beta} (slope sqrt(A(k)) + offset)^2 ([BGP16] Alg. 2).

    A(k) = sum_s rho_s min(|X_s| + k L, cap) is concave and grows with k, so the logarithm of the
    whole is concave; sorted counts and running sums give A(k) in O(log N). ``most`` is the public
    cap of a count: m, or U L for persons, or None for none. From k = cap/L on A is constant, and
    from k = 1/beta on the whole falls.
    """
    capped = sum_of_capped_counts(counts, weights, most, step)

    def value(k: int) -> float:
        return math.exp(-beta * k) * (slope * math.sqrt(capped(k)) + offset) ** 2

    if most is None:
        return log_concave_maximum(value, 0, math.ceil(1 / beta)) * (1 + 2 * INFLATION)
    return log_concave_maximum(value, 0, -(-most // step)) * (1 + INFLATION)


def sum_of_capped_counts(
    counts: Integers, weights: Vector, most: int | None, step: int = 1
) -> Callable[[int], float]:
    """A(k) = sum_s rho_s min(|X_s| + k L, cap), in O(log N) a call from sorted counts."""
    order = np.argsort(counts, kind="stable")
    ascending = counts[order]
    mass = np.concatenate([[0.0], _running_sums(weights[order])])
    visits = np.concatenate([[0.0], _running_sums(weights[order] * ascending)])
    full = np.concatenate([_running_sums(weights[order][::-1])[::-1], [0.0]])  # no cancellation

    def capped(k: int) -> float:
        more = k * step
        if most is None:
            return float(visits[-1] + more * mass[-1])
        below = int(np.searchsorted(ascending, most - more, side="left"))
        return float(visits[below] + more * mass[below] + most * full[below])

    return capped


def log_concave_maximum(function: Callable[[int], float], first: int, last: int) -> float:
    """max over first .. last of a log-concave function.

    Comparing far-apart points keeps rounding harmless: dropping the wrong third loses no more
    than the rounding error of the comparison (docs/proofs/smooth-maxima.md).
    """
    low, high = first, last
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


def breakpoints(counts: Integers, step: int, floor: int) -> Integers:
    """0, and the whole k >= 0 on either side of (|X_s| - floor)/L, where a term stops growing."""
    below = (counts - floor) // step
    sides = [below] if step == 1 else [below, -((floor - counts) // step)]
    ascending = np.sort(np.maximum(np.concatenate([[0], *sides]), 0), kind="stable")
    return np.asarray(ascending[np.flatnonzero(np.diff(ascending, prepend=-1))])


@kernel()
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


@kernel()
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


@kernel()
def _split(first, last, place, kappa, lower, states, centres, radii, moments, nodes, terms, stack):  # type: ignore[no-untyped-def]
    """Covers the counts from ``first`` on by nodes of the tree, as coarse as the error allows.

    ``nodes`` receives them and ``terms`` how many terms of its expansion each needs, 0 for a leaf
    that is summed one by one: one that is near, or reaches below ``last``. Returned are their
    number and the error of all expansions together; each may have a share of ``lower``. The cover
    holds for every smaller place too, since gaps only grow.
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
        gap = (centres[node] - place) + kappa
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


@kernel()
def _phi(place, kappa, reached, found, points, mass, sums, centres, radii, moments, nodes, terms):  # type: ignore[no-untyped-def]
    """phi = sum_g W_g / (max(c_g - k L, L) + kappa)^2, right to the errors of ``_split``.

    ``place`` is k L; the first ``reached`` counts have max(.) = L, and add ``sums``. Counts and
    places are whole numbers, so kappa comes last: until then nothing is rounded.
    """
    first_leaf = (len(centres) - 1) // 2
    total = sums[reached - 1] if reached > 0 else 0.0
    for j in range(found):
        node = nodes[j]
        if terms[j] == 0:
            begin = (node - first_leaf) * _LEAF
            for i in range(max(begin, reached), min(begin + _LEAF, len(points))):
                distance = (points[i] - place) + kappa
                total += mass[i] / (distance * distance)
            continue
        gap = (centres[node] - place) + kappa
        q = -radii[node] / gap
        series = 0.0
        power = 1.0
        for p in range(terms[j]):
            series += (p + 1) * moments[node, p] * power
            power *= q
        total += series / (gap * gap)
    return total


@kernel()
def _best_candidate(  # type: ignore[no-untyped-def]
    candidates, places, reached, points, mass, sums, kappa, beta, centres, radii, moments
):
    """The index of the candidate k that maximises e^{-k beta} phi(k), and phi's relative error.

    Blocks of candidates are dismissed by e^{-a beta} phi(b) on [a, b], since phi grows with k;
    everything from where e^{-k beta} sum(w) is too small is dismissed at once.
    """
    stack = np.empty((128, 3), dtype=np.int64)
    nodes = np.empty(len(centres), dtype=np.int64)
    terms = np.empty(len(centres), dtype=np.int64)
    ends = np.empty((len(candidates) + _BLOCK - 1) // _BLOCK)
    best = 0
    best_value = 0.0
    largest_error = 0.0
    blocks = len(ends)
    for block in range(-1, len(ends)):  # k = 0 first, then the last candidate of every block
        last = 0 if block < 0 else min((block + 1) * _BLOCK, len(candidates)) - 1
        if block >= 0 and np.exp(-beta * candidates[block * _BLOCK]) * sums[-1] <= best_value:
            blocks = block
            break
        begin = reached[last]
        nearest = (points[0] - places[last]) + kappa
        lower = sums[begin - 1] if begin > 0 else mass[0] / nearest**2
        found, errors = _split(
            begin, begin, places[last], kappa, lower, len(points),
            centres, radii, moments, nodes, terms, stack,
        )  # fmt: skip
        phi = errors + _phi(
            places[last], kappa, begin, found,
            points, mass, sums, centres, radii, moments, nodes, terms,
        )  # fmt: skip
        largest_error = max(largest_error, errors / phi)
        if block >= 0:
            ends[block] = phi
        value = np.exp(-beta * candidates[last]) * phi
        if value > best_value:
            best, best_value = last, value
    for block in range(blocks):
        first, last = block * _BLOCK, min((block + 1) * _BLOCK, len(candidates)) - 1
        if np.exp(-beta * candidates[first]) * ends[block] <= best_value:
            continue
        begin = reached[first]
        lower = sums[begin - 1] if begin > 0 else mass[0] / (points[0] + kappa) ** 2
        found, errors = _split(
            begin, reached[last], places[last], kappa, lower, len(points),
            centres, radii, moments, nodes, terms, stack,
        )  # fmt: skip
        for i in range(first, last + 1):
            decay = np.exp(-beta * candidates[i])
            if decay * ends[block] <= best_value:
                break  # phi(k) <= phi(end of the block) for the rest of it, too
            phi = errors + _phi(
                places[i], kappa, reached[i], found,
                points, mass, sums, centres, radii, moments, nodes, terms,
            )  # fmt: skip
            largest_error = max(largest_error, errors / phi)
            value = decay * phi
            if value > best_value:
                best, best_value = i, value
    return best, largest_error


# The q largest terms under any weights.
#
# Candidates are halved again and again. For k in [a, b] let tau(k) be the q-th largest term; terms
# and tau grow with k. A state whose term is below tau(a) at b is out, one whose term is above
# tau(b) at a is in, on all of [a, b]. What is in and constant, or in and far enough for a power
# series in k, joins one polynomial; only the rest is carried on to the halves. Where
# tau(a) = tau(b) = tau, the sum is q tau + sum_s (t_s - tau)_+, and nothing is selected any more.


@kernel()
def _best_of_largest(  # type: ignore[no-untyped-def]
    candidates, step, floor, counts, weights, kappas, terms, beta, best, best_value
):
    """The index of the candidate k that maximises e^{-k beta} top_q(k), to ``_EXPANSION_ERROR``.

    An interval [a, b] is dismissed where e^{-a beta} top_q(b) is no more than ``best_value``.
    """
    pool = np.arange(len(counts))
    scratch = np.empty(len(counts))
    waiting = np.empty((128, 5), dtype=np.int64)  # first, last, live states from, to, places left
    ends = np.empty((128, 5))  # top_q and tau at a, at b; tau on all of [a, b], or -1
    series = np.zeros((128, _TERMS + 1))  # the polynomial and its centre
    waiting[0] = np.array([0, len(candidates) - 1, 0, len(counts), terms])
    for column, k in ((0, candidates[0]), (2, candidates[-1])):
        ends[0, column], ends[0, column + 1] = _largest_sum(
            pool, float(step * k), floor, counts, weights, kappas, terms, -1.0, scratch
        )
    ends[0, 4] = -1.0
    top = 0
    while top >= 0:
        first, last, begin, end, wanted = waiting[top]
        sum_a, tau_a, sum_b, tau_b, tau = ends[top]
        polynomial, centre = series[top, :_TERMS].copy(), series[top, _TERMS]
        top -= 1
        if last - first < 2 or np.exp(-beta * candidates[first]) * sum_b <= best_value:
            continue
        a, b = float(step * candidates[first]), float(step * candidates[last])
        middle = 0.5 * (a + b)
        _recentre(polynomial, middle - centre)
        if tau < 0 and tau_a == tau_b:
            tau = tau_a
            polynomial[0] += wanted * tau
        if 2 * end - begin > len(pool):
            pool = np.concatenate((pool, np.empty(len(pool) + end, dtype=pool.dtype)))
        kept, joined = _sift(
            pool, begin, end, a, b, floor, counts, weights, kappas, tau_a, tau_b, tau,
            _EXPANSION_ERROR / len(counts) * sum_a, polynomial,
        )  # fmt: skip
        if tau < 0:
            wanted -= joined
        split = (first + last) // 2
        place = float(step * candidates[split])
        sum_s, tau_s = _largest_sum(
            pool[end:kept], place, floor, counts, weights, kappas, wanted, tau, scratch
        )
        sum_s += _evaluate(polynomial, place - middle)
        value = np.exp(-beta * candidates[split]) * sum_s
        if value > best_value:
            best, best_value = split, value
        decay_a, decay_s = np.exp(-beta * candidates[first]), np.exp(-beta * candidates[split])
        left_first = decay_a * sum_s >= decay_s * sum_b
        for right in (left_first, not left_first):  # what is pushed last is taken up first
            top += 1
            waiting[top, 0], waiting[top, 1] = (split, last) if right else (first, split)
            waiting[top, 2], waiting[top, 3], waiting[top, 4] = end, kept, wanted
            ends[top, 0], ends[top, 1] = (sum_s, tau_s) if right else (sum_a, tau_a)
            ends[top, 2], ends[top, 3] = (sum_b, tau_b) if right else (sum_s, tau_s)
            ends[top, 4] = tau
            series[top, :_TERMS] = polynomial
            series[top, _TERMS] = middle
    return best


@kernel()
def _sift(  # type: ignore[no-untyped-def]
    pool, begin, end, a, b, floor, counts, weights, kappas, tau_a, tau_b, tau, allowed, polynomial
):
    """Adds to the polynomial what joins it on [a, b], and to the pool what stays live.

    Returned are the pool's new end and how many joined. A state's series may leave out
    ``allowed``; after P terms w ratio^P (P + 1 - P ratio) / ((1 - ratio) gap)^2 is left.
    """
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    part = np.zeros(_TERMS)
    kept, joined = end, 0
    for j in range(begin, end):
        i = pool[j]
        high = weights[i] / (max(counts[i] - b, floor) + kappas[i]) ** 2
        if high < tau_a or (tau >= 0 and high <= tau):
            continue  # out
        constant = counts[i] - a <= floor
        gap = (counts[i] - middle) + kappas[i]
        far = False
        if not constant and counts[i] - b >= floor and half <= 0.25 * gap:
            far = weights[i] / gap**2 * (half / gap) ** _TERMS * (2 * _TERMS) <= allowed
        if constant or far:
            low = high if constant else weights[i] / ((counts[i] - a) + kappas[i]) ** 2
            far = far and (low > tau_b or (tau >= 0 and low >= tau))
            constant = constant and low > tau_b
        if not (constant or far):
            pool[kept] = i
            kept += 1
            continue
        if constant:
            part[0] += high
        else:
            coefficient = weights[i] / gap**2
            for p in range(_TERMS):
                part[p] += (p + 1) * coefficient
                coefficient /= gap
        if tau >= 0:
            part[0] -= tau
        joined += 1
        if joined % _CHUNK == 0:
            polynomial += part
            part[:] = 0.0
    polynomial += part
    return kept, joined


@kernel()
def _largest_sum(live, place, floor, counts, weights, kappas, wanted, tau, scratch):  # type: ignore[no-untyped-def]
    """The sum of the ``wanted`` largest terms and the smallest of them, tau.

    sum_s (t_s - tau)_+, and ``wanted`` tau unless tau was known: then it is in the polynomial.
    """
    for j in range(len(live)):
        i = live[j]
        scratch[j] = weights[i] / (max(counts[i] - place, floor) + kappas[i]) ** 2
    total = 0.0
    if tau < 0:
        tau = _nth_largest(scratch[: len(live)], wanted)
        total = wanted * tau
    lost = 0.0  # compensated summation
    for j in range(len(live)):
        if scratch[j] > tau:
            term = (scratch[j] - tau) - lost
            new = total + term
            lost = (new - total) - term
            total = new
    return total, tau


@kernel()
def _nth_largest(values, n):  # type: ignore[no-untyped-def]
    """The n-th largest value, 0 if there are no more than n; reorders the values.

    Quickselect in three parts, since many values may be equal.
    """
    if n >= len(values):
        return 0.0
    begin, end = 0, len(values)
    draw = 1
    while True:
        draw = (1103515245 * draw + 12345) % 2147483648  # no order of the values is a bad one
        pivot = values[begin + draw % (end - begin)]
        above, i, below = begin, begin, end
        while i < below:
            value = values[i]
            if value > pivot:
                values[i], values[above] = values[above], value
                above += 1
                i += 1
            elif value < pivot:
                below -= 1
                values[i], values[below] = values[below], value
            else:
                i += 1
        if n <= above:
            end = above
        elif n > below:
            begin = below
        else:
            return pivot


@kernel()
def _evaluate(polynomial, x):  # type: ignore[no-untyped-def]
    total = 0.0
    for p in range(_TERMS - 1, -1, -1):
        total = total * x + polynomial[p]
    return total


@kernel()
def _recentre(polynomial, by):  # type: ignore[no-untyped-def]
    """The same polynomial in x - by, in place."""
    for i in range(_TERMS - 1):
        for p in range(_TERMS - 2, i - 1, -1):
            polynomial[p] += by * polynomial[p + 1]
