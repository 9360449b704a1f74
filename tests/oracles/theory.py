"""The paper's utility statements written out slowly, and exact expectations by enumeration.

Nothing here imports the package. A *world* is a list of (probability, visited states): what one
trajectory visits is all that the theorems know about it.
"""

import itertools
import math

import numpy as np


def visit_probabilities(world, states):
    """p_s and p_{s,s'}, by adding up."""
    single = np.zeros(states)
    joint = np.zeros((states, states))
    for chance, visited in world:
        for s in visited:
            single[s] += chance
            for other in visited:
                joint[s, other] += chance
    return single, joint


def data_sets(world, states, m):
    """Every way in which m trajectories can visit, with its probability: (probability, counts)."""
    for times in itertools.product(range(m + 1), repeat=len(world)):
        if sum(times) != m:
            continue
        chance, remaining = 1.0, m
        for (one, _), count in zip(world, times, strict=True):
            chance *= math.comb(remaining, count) * one**count
            remaining -= count
        counts = [
            sum(n for (_, visits), n in zip(world, times, strict=True) if s in visits)
            for s in range(states)
        ]
        yield chance, counts


def lsw_term(n, beta):
    """max_k e^{-k beta}/max(n - k, 1)^2, over every k up to n."""
    return max(math.exp(-k * beta) / max(n - k, 1) ** 2 for k in range(n + 1))


def lsl_term(n, m, beta):
    """max_k e^{-k beta} min(n + k, m), over every k up to m."""
    return max(math.exp(-k * beta) * min(n + k, m) for k in range(m + 1))


def over_binomial(function, m, p):
    """E[function(B)], B ~ B_{m,p}: every term, in exact binomials and doubles."""
    return math.fsum(
        math.comb(m, n) * p**n * (1 - p) ** (m - n) * function(n) for n in range(m + 1)
    )


def lsw_published(w, p, m, beta, c):
    """[BGP16] appendix D, theorem: C^2 (...), term by term."""
    zero = sum(w_s for w_s, p_s in zip(w, p, strict=True) if p_s == 0)
    rest = sum(
        w_s
        * (
            6 / (p_s**2 * (m + 1) * (m + 2))
            + math.e**2 * beta**2 / 4 * (1 - (1 - math.exp(-beta)) * p_s) ** m
        )
        for w_s, p_s in zip(w, p, strict=True)
        if p_s > 0
    )
    return c**2 * (zero + rest)


def lsw_short_published(w, p, m, beta, c):
    """[BGP16] section 5, theorem: C^2 (...), term by term."""
    zero = sum(w_s for w_s, p_s in zip(w, p, strict=True) if p_s == 0)
    rest = sum(
        w_s * (1 / (p_s**2 * m**2) + beta**2 * (1 - beta * p_s / 2) ** m)
        for w_s, p_s in zip(w, p, strict=True)
        if p_s > 0
    )
    return c**2 * (zero + 6 * rest)


def lsl_published(phi, rho, single, joint, m, ridge, beta, c):
    """[BGP16] appendix E, theorem: C_lambda^2 {...}, in the order in which it is printed."""
    states, d = phi.shape
    norm = np.linalg.svd(phi, compute_uv=False)[0]
    k = norm**2 * max(rho) ** 2
    rho_2 = sum(r * r for r in rho)
    size = [float(row @ row) for row in phi]
    total = sum(rho[s] * single[s] * (d * k / 2 + 2 * rho_2 * size[s]) for s in range(states))
    total += ridge / m * d * rho_2
    total += (
        1 / m * d * k / (4 * math.e * beta)
        * sum(rho[s] * (1 - single[s]) ** m for s in range(states))
    )  # fmt: skip
    total += (
        m / ridge * k
        * sum(
            rho[s] * rho[t] * single[s] * single[t] * size[s]
            for s in range(states) for t in range(states)
        )
    )  # fmt: skip
    last = sum(rho[s] ** 2 * size[s] * (single[s] - single[s] ** 2) for s in range(states))
    for s in range(states):
        for t in range(states):
            if s != t:
                without = single[s] - joint[s, t]
                last += rho[s] * rho[t] * size[s] * (
                    joint[s, t] - single[s] * single[t]
                    + 1 / (2 * math.e * beta) * without * (1 - single[t]) ** (m - 1)
                )  # fmt: skip
    return c**2 * (total + 1 / ridge * k * last)


def lsl_corrected(phi, rho, single, joint, m, ridge, beta, c):
    """The same with 1/(e beta) for the maximum at an unvisited state, whether visited or not."""
    d = phi.shape[1]
    k = np.linalg.svd(phi, compute_uv=False)[0] ** 2 * max(rho) ** 2
    size = np.array([float(row @ row) for row in phi])
    rho = np.asarray(rho)
    rest = lsl_published(phi, rho, single, joint, m, ridge, beta, 1.0)
    rest -= d * k / (4 * math.e * beta * m) * float(rho @ (1 - single) ** m)
    for s in range(len(rho)):
        for t in range(len(rho)):
            if s != t:
                missed = (single[s] - joint[s, t]) * (1 - single[t]) ** (m - 1)
                rest -= k / ridge * rho[s] * rho[t] * size[s] * missed / (2 * math.e * beta)
    added = d * k / (2 * math.e * beta * m) * rho.sum()
    added += k / (ridge * math.e * beta) * float(rho * size @ single) * rho.sum()
    return c**2 * (rest + added)


def objective_lsw(theta, phi, weights, means):
    """J_X^w(theta) ([BGP16] section 3.1)."""
    return sum(
        w * (f - float(row @ theta)) ** 2 for w, f, row in zip(weights, means, phi, strict=True)
    )


def objective_lsl(theta, phi, rho, trajectories, ridge):
    """J_X^lambda(theta) ([BGP16] eq:JX and section 3.2); a trajectory is {state: return}."""
    loss = sum(
        rho[s] * (value - float(phi[s] @ theta)) ** 2
        for trajectory in trajectories
        for s, value in trajectory.items()
    )
    m = len(trajectories)
    return loss / m + ridge / (2 * m) * float(theta @ theta)


def expected_excess(objective, theta, root):
    """E[J(theta + root z) - J(theta)], z standard normal, for a quadratic J: from 2 d points."""
    here = objective(theta)
    return math.fsum(
        (objective(theta + column) + objective(theta - column)) / 2 - here for column in root.T
    )
