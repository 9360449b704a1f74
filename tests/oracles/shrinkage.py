"""docs/proofs/shrinkage.md, state by state and model by model: the slow twin of the rule."""

import math

import numpy as np

from oracles.ssp import above_zero


def posterior(
    sums,
    counts,
    sum_noise,
    count_noise,
    bounds,
    unvisited,
    *,
    features=None,
    towards=None,
    actions=None,
    sampling=0.0,
):
    """Means, deviations and own weights; ``towards`` are means and deviations of targets."""
    low, high = bounds
    centre, reach = (low + high) / 2, (high - low) / 2
    states = range(len(sums))
    t = [sums[s] / reach for s in states]
    v_t, v_n = [(x / reach) ** 2 for x in sum_noise], [x**2 for x in count_noise]
    mean = max(sum(counts) / len(t), math.sqrt(sum(v_n)) / len(t))
    level = (unvisited - centre) / reach

    def visits(s, y):
        q = v_n[s] / v_t[s]
        variance = v_n[s] / (1 + y**2 * q)
        return above_zero((counts[s] + y * q * t[s]) / (1 + y**2 * q) - variance / mean, variance)

    pooled = min(max(sum(t) / len(t) / mean, -1), 1)
    scene = (t, counts, v_t, v_n, visits, sampling)
    common = ([level for _ in states], [0.0 for _ in states], pooled - level)
    models = []
    for tau in np.geomspace(1.0, 3e-4, 8):
        if towards is None:
            believed = [visits(s, pooled) for s in states]
            x = [2 * n / max(believed) - 1 for n in believed]
            flat, curve = [[1.0] for _ in states], [[1.0, a, 2 * a**2 - 1] for a in x]
            bend = [1.0, min(8 * tau, 0.2), min(4 * tau, 0.1)]
            models.append(fit(scene, tau, common, flat, [1.0], 0.0))
            models.append(fit(scene, tau, common, flat, [min(6 * tau, 1.0)], 1.0))
            models.append(fit(scene, tau, common, curve, bend, 3.0))
        else:
            means, deviations = towards
            base = [(x - centre) / reach for x in means]
            own = (base, [(x / reach) ** 2 for x in deviations], 0.0)
            doubt = len(set(base)) / 2
            models.append(fit(scene, tau, own, [[] for _ in states], [], doubt, near=True))
            if actions is not None:
                names = sorted(set(actions))
                dummy = [[float(a == name) for name in names] for a in actions]
                models.append(fit(scene, tau, own, dummy, [2 * tau] * len(names), doubt, near=True))
        if features is not None:
            columns = [[1.0, *features[s]] for s in states]
            deviations = [1.0] + [min(8 * tau, 0.1)] * len(features[0])
            models.append(fit(scene, tau, common, columns, deviations, 1.0))
    most = max(evidence for evidence, _ in models)
    weights = [math.exp(evidence - most) for evidence, _ in models]
    weights = np.array(weights) / sum(weights)
    y, variance, own = (
        np.array([[state[part] for state in values] for _, values in models]) for part in range(3)
    )
    means = weights @ y
    spread = weights @ (variance + (y - means) ** 2)
    return centre + reach * means, reach * np.sqrt(spread), weights @ own


def fit(scene, tau, start, columns, deviations, doubt, near=False):
    """The evidence of one model, and of each state the value, its variance and its own weight."""
    t, counts, v_t, v_n, visits_at, sampling = scene
    base, unsure, begin = start
    states, columns = range(len(t)), np.array(columns)
    before = [1.0, 0.0, 0.0] if near else [0.9 - 0.01 / len(t), 0.1, 0.01 / len(t)]
    spread = [tau**2, min(5 * tau, 1) ** 2, 1.0]
    prior = np.diag(np.array(deviations) ** -2.0)
    theta = np.array([begin, *([0.0] * (len(deviations) - 1))][: len(deviations)])
    share = [before for _ in states]
    for step in range(3):
        information, score, total, values = np.zeros(prior.shape), np.zeros(len(theta)), 0.0, []
        for s in states:
            mu = min(max(base[s] + float(columns[s] @ theta), -1), 1)
            n, away = visits_at(s, mu), t[s] - mu * counts[s]
            noise = v_t[s] + mu**2 * v_n[s] + sampling * n * (1 - mu**2)
            variance = [noise + k * n**2 for k in spread]
            parts = [
                p / math.sqrt(v) * math.exp(max(-(away**2) / v / 2, -300))
                for p, v in zip(before, variance, strict=True)
            ]
            total += math.log(sum(parts))
            share = [part / sum(parts) for part in parts]
            shares = share if step else before
            weight = n * sum(a / b for a, b in zip(shares, variance, strict=True))
            information += weight * n * np.outer(columns[s], columns[s])
            score += weight * away * columns[s]
            values.append((mu, n, away, noise, share))
        if step < 2:
            theta = np.linalg.solve(information + prior, information @ theta + score)
    covariance = np.linalg.inv(information + prior)
    total += math.log(np.linalg.det(covariance @ prior)) / 2 - theta @ prior @ theta / 2 - doubt
    values_of_states = []
    for s, (mu, n, away, noise, share) in enumerate(values):
        divisor = above_zero(counts[s], v_n[s])
        gains = [k * n / noise for k in spread]
        weights = [g / (1 + g * divisor) for g in gains]
        target = unsure[s] + float(columns[s] @ covariance @ columns[s])
        means = [mu + d * away for d in weights]
        rests = [1 - d * divisor for d in weights]
        within = [k * rest + rest**2 * target for k, rest in zip(spread, rests, strict=True)]
        y = sum(p * a for p, a in zip(share, means, strict=True))
        variance = sum(p * (v + (a - y) ** 2) for p, v, a in zip(share, within, means, strict=True))
        own = sum(p * d * divisor for p, d in zip(share, weights, strict=True))
        values_of_states.append((min(max(y, -1), 1), variance, own))
    return total, values_of_states
