"""DP-SSP, written out slowly: neighbours one by one, intervals point by point.

Nothing here imports the package. Returns are centred and in units of their range R, so that they
lie in [-1/2, 1/2]; a state's pair is (return sum, count weight times count), times omega.
"""

import functools
import itertools
import math

import numpy as np


def trajectories(states, most_states):
    """Every trajectory that can matter: what it visits, and a return at either bound."""
    for pairs in itertools.product(((0, 0.0), (1, 0.5), (1, -0.5)), repeat=states):
        if sum(visited for visited, _ in pairs) <= most_states:
            yield pairs


@functools.cache
def persons(states, most_states, times):
    """(visits, sums) of every person with up to ``times`` trajectories; each kind once."""
    kinds = set()
    for person in itertools.product(trajectories(states, most_states), repeat=times):
        kinds.add(
            tuple(
                (sum(t[s][0] for t in person), sum(t[s][1] for t in person)) for s in range(states)
            )
        )
    return kinds


def distance(one, other, shape, count_weight):
    """How far two contributions are apart."""
    total = 0.0
    for (n, t), (n_, t_), omega in zip(one, other, shape, strict=True):
        total += omega**2 * ((t - t_) ** 2 + count_weight**2 * (n - n_) ** 2)
    return math.sqrt(total)


def sensitivity(shape, most_states, count_weight, times=1, add_remove=False):
    """The largest distance of neighbours, by trying all of them."""
    states = len(shape)
    limit = states if most_states is None else most_states
    kinds = list(persons(states, limit, times))
    nobody = [tuple((0, 0.0) for _ in range(states))]
    return max(
        distance(one, other, shape, count_weight)
        for one in kinds
        for other in (nobody if add_remove else kinds)
    )


def by_common_states(shape, most_states, count_weight, times=1, add_remove=False):
    """The sensitivity from the number t of states that either trajectory visits, t by t."""
    squares = sorted((omega**2 for omega in shape), reverse=True)
    states = len(squares)
    limit = states if most_states is None else min(most_states, states)
    kappa = 0.25 + count_weight**2

    def largest(count):
        return math.fsum(squares[:count])

    either = min(states, 2 * limit)
    if add_remove:
        squared = kappa * largest(limit)
    elif kappa >= 1:
        squared = kappa * largest(either)
    else:
        squared = max(
            (1 - kappa) * largest(2 * limit - t) + kappa * largest(t)
            for t in range(limit, either + 1)
        )
    return times * math.sqrt(squared)


def quotient(v, total, count, sum_noise, count_noise, centre):
    """(T~ - y n~)^2/(s_T^2 + y^2 s_n^2) at y = v - c."""
    y = v - centre
    return (total - y * count) ** 2 / (sum_noise**2 + (y * count_noise) ** 2)


def interval(total, count, sum_noise, count_noise, centre, bounds, z, points=20_001):
    """The ends of the set of values whose quotient is at most z^2 above the least, on a grid."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = centre + np.float64(total) / np.float64(count)
    inside = bounds[0] <= ratio <= bounds[1]
    values = np.linspace(*bounds, points)
    if inside:
        values = np.sort(np.append(values, ratio))
    found = quotient(values, total, count, sum_noise, count_noise, centre)
    least = 0.0 if inside else min(found[0], found[-1])
    kept = values[found <= z**2 + least]
    return kept[0], kept[-1]


def total(total, count, sum_noise, count_noise, centre, bounds, z, alike, around, points=4001):
    """The hull of ``around`` and of all values that a total interval holds, by search.

    Values are tried on a grid, with those of ``around`` and the ratio; between one that is held and
    the next that is not, the end is found by bisection.
    """
    low, high = bounds

    def held(value):
        y = value - centre
        people = alike * max(count, 0.0) * (high - value) * (value - low)  # on an array, too
        return (total - y * count) ** 2 <= z**2 * (sum_noise**2 + (y * count_noise) ** 2 + people)

    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = centre + np.float64(total) / np.float64(count)
    known = [*around, *([ratio] if low <= ratio <= high else [])]
    values = np.sort(np.append(np.linspace(low, high, points), known))
    inside = np.flatnonzero(held(values))
    if len(inside) == 0:
        return around
    first, last = inside[[0, -1]]
    below, above = values[first], values[last]
    if first > 0:
        below = _bisected(held, values[first], values[first - 1])
    if last < len(values) - 1:
        above = _bisected(held, values[last], values[last + 1])
    return min(below, around[0]), max(above, around[1])


def _bisected(held, inside, outside):
    """The last value from ``inside`` towards ``outside`` that is held."""
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if held(middle) else (inside, middle)
    return inside


def above_zero(number, variance):
    """The positive root n of n^2 - number n - variance = 0."""
    root = math.sqrt(number**2 + 4 * variance)
    return (number + root) / 2 if number > 0 else 2 * variance / (root - number)


def shrunk(sums, counts, sum_noise, count_noise, bounds, unvisited, features=None):
    """docs/proofs/shrinkage.md, state by state."""
    low, high = bounds
    centre, reach = (low + high) / 2, (high - low) / 2
    states = range(len(sums))
    if len(sums) < 4:
        return [
            min(max(centre + sums[s] / counts[s], low), high) if counts[s] > 0 else unvisited
            for s in states
        ]
    t = [sums[s] / reach for s in states]
    v_t, v_n = [(x / reach) ** 2 for x in sum_noise], [x**2 for x in count_noise]
    mean = max(sum(counts) / len(t), math.sqrt(sum(v_n)) / len(t))
    start = (unvisited - centre) / reach

    def visits(s, y):
        q = v_n[s] / v_t[s]
        variance = v_n[s] / (1 + y**2 * q)
        return above_zero((counts[s] + y * q * t[s]) / (1 + y**2 * q) - variance / mean, variance)

    pooled = min(max(sum(t) / len(t) / mean, -1), 1)
    believed = [visits(s, pooled) for s in states]
    x = [2 * n / max(believed) - 1 for n in believed]
    flat = [[1.0] for _ in states]
    curve = [[1.0, x[s], 2 * x[s] ** 2 - 1] for s in states]
    scene = (t, counts, v_t, v_n, visits, pooled, start)
    weighed = []
    for tau in np.geomspace(1.0, 3e-4, 8):
        weighed.append(fit(scene, tau, flat, [1.0]))
        evidence, y = fit(scene, tau, flat, [min(6 * tau, 1.0)])
        weighed.append((evidence - 1, y))
        evidence, y = fit(scene, tau, curve, [1.0, min(8 * tau, 0.2), min(4 * tau, 0.1)])
        weighed.append((evidence - 3, y))
        if features is not None:
            columns = [[1.0, *features[s]] for s in states]
            deviations = [1.0] + [min(8 * tau, 0.1)] * len(features[0])
            evidence, y = fit(scene, tau, columns, deviations)
            weighed.append((evidence - 1, y))
    most = max(evidence for evidence, _ in weighed)
    weights = [math.exp(evidence - most) for evidence, _ in weighed]
    return [
        centre
        + reach * sum(w * y[s] for w, (_, y) in zip(weights, weighed, strict=True)) / sum(weights)
        for s in states
    ]


def fit(scene, tau, columns, deviations):
    """The evidence and the values of one model."""
    t, counts, v_t, v_n, visits_at, pooled, start = scene
    states, columns = range(len(t)), np.array(columns)
    before = [0.9 - 0.01 / len(t), 0.1, 0.01 / len(t)]
    spread = [tau**2, min(5 * tau, 1) ** 2, 1.0]
    centre = np.array([start] + [0.0] * (len(deviations) - 1))
    prior = np.diag(np.array(deviations) ** -2.0)
    theta = np.array([pooled] + [0.0] * (len(deviations) - 1))
    mu, share = [pooled for _ in states], [before for _ in states]
    for _ in range(2):
        information, score = np.zeros(prior.shape), np.zeros(len(theta))
        for s in states:
            noise, n = v_t[s] + mu[s] ** 2 * v_n[s], visits_at(s, mu[s])
            variance = [noise + k * n**2 for k in spread]
            weight = n * sum(a / b for a, b in zip(share[s], variance, strict=True))
            information += weight * n * np.outer(columns[s], columns[s])
            score += weight * (t[s] - mu[s] * counts[s]) * columns[s]
        theta = np.linalg.solve(information + prior, information @ theta + score + prior @ centre)
        mu = [min(max(float(columns[s] @ theta), -1), 1) for s in states]
        total, y = 0.0, []
        for s in states:
            noise, n = v_t[s] + mu[s] ** 2 * v_n[s], visits_at(s, mu[s])
            variance = [noise + k * n**2 for k in spread]
            away = t[s] - mu[s] * counts[s]
            parts = [
                p / math.sqrt(v) * math.exp(max(-(away**2) / v / 2, -300))
                for p, v in zip(before, variance, strict=True)
            ]
            total += math.log(sum(parts))
            share[s] = [each / sum(parts) for each in parts]
            gains = [k * n / noise for k in spread]
            divisor = above_zero(counts[s], v_n[s])
            drawn = sum(p * g / (1 + g * divisor) for p, g in zip(share[s], gains, strict=True))
            y.append(min(max(mu[s] + drawn * away, -1), 1))
    scaled = np.diag(deviations) @ (information + prior) @ np.diag(deviations)
    total -= math.log(np.linalg.det(scaled)) / 2
    total -= sum(((theta - centre) / deviations) ** 2) / 2
    return total, y
