"""The bounds for persons and bounded contribution, written out slowly.

A trajectory is a dictionary from the states it counts for to their returns; a person is a list of
trajectories, a population a list of persons. Nothing here imports the package.
"""

import math

import numpy as np


def top(values, touched=None):
    """The sum of the q largest."""
    return math.fsum(sorted(values, reverse=True)[:touched])


def phi_lsw(counts, weights, k, kappa=0.0, per_person=1, touched=None):
    """docs/proofs/contribution.md: top_q of w_s L^2 / (max(n_s - k L, L) + kappa)^2."""
    return top(
        (
            w * per_person**2 / (max(n - k * per_person, per_person) + kappa) ** 2
            for n, w in zip(counts, weights, strict=True)
        ),
        touched,
    )


def psi_lsw(counts, weights, beta, kappa=0.0, per_person=1, touched=None):
    """Over every k up to where nothing changes any more."""
    return max(
        math.exp(-k * beta) * phi_lsw(counts, weights, k, kappa, per_person, touched)
        for k in range(max(counts) // per_person + 2)
    )


def psi_lsw_at_breakpoints(counts, weights, beta, kappa=0.0, per_person=1, touched=None):
    """For counts too large to try every k: the k next to n_s/L, and 0."""
    around = {n // per_person + shift for n in counts for shift in (-2, -1, 0, 1)}
    return max(
        math.exp(-k * beta) * phi_lsw(counts, weights, k, kappa, per_person, touched)
        for k in {0, *around}
        if k >= 0
    )


def frozen_psi_lsw(counts, weights, beta, kappa=0.0, per_person=1, touched=None):
    """A mistake: the q largest terms at k = 0, kept for every k."""
    at_zero = [w / (max(n, per_person) + kappa) ** 2 for n, w in zip(counts, weights, strict=True)]
    largest = sorted(range(len(counts)), key=lambda s: -at_zero[s])[:touched]
    return psi_lsw(
        [counts[s] for s in largest], [weights[s] for s in largest], beta, kappa, per_person
    )


def psi_lsl(counts, rho, most, beta, slope, offset, per_person=1):
    """The paper's psi in steps of L; as far as it can matter twice, or as ``most`` allows."""
    last = min(-(-most // per_person), 2 * math.ceil(1 / beta))

    def value(k):
        total = math.fsum(
            r * min(n + k * per_person, most) for n, r in zip(counts, rho, strict=True)
        )
        return math.exp(-k * beta) * (slope * math.sqrt(total) + offset) ** 2

    return max(value(k) for k in range(last + 1))


def psi_ridge_indicator(phi, rho, counts, ridge, beta, returns, per_person=1, touched=None):
    """Features with exactly one 1 a row: top_q of rho_s P_g / b_g^2, P_g of the q largest."""
    reach = max(returns[1], 0) - min(returns[0], 0)
    members = [[s for s in range(len(rho)) if phi[s][g] == 1] for g in range(len(phi[0]))]
    best = 0.0
    for k in range(max(counts) // per_person + 2):
        parts = []
        for group in members:
            rest = math.fsum(rho[s] * max(counts[s] - k * per_person, 0) for s in group)
            mass = top((rho[s] for s in group), touched)
            parts += [rho[s] * mass / (ridge / 2 + rest) ** 2 for s in group]
        best = max(best, math.exp(-k * beta) * (per_person * reach) ** 2 * top(parts, touched))
    return best


def psi_ridge_general(
    phi, rho, counts, cap, ridge, beta, returns, per_person=1, touched=None, error=0.0
):
    """Any features, with the eigenvalue falling by L B a step; as far as it can matter twice.

    ``error`` is the public bound of the eigenvalue's rounding.
    """
    reach, largest = max(returns[1], 0) - min(returns[0], 0), max(map(abs, returns))
    norm = np.linalg.norm(phi, 2)
    lowest = float(np.linalg.eigvalsh(phi.T @ np.diag(np.array(rho) * counts) @ phi)[0])
    start = max(lowest - error, 0.0)
    fall = per_person * np.linalg.norm(np.diag(np.sqrt(rho)) @ phi, 2) ** 2 + 2 * error
    change = math.sqrt(top((r * r for r in rho), touched))

    def mu(k):
        return max(start - k * fall, 0.0)

    def numerator(k):
        visits = math.fsum(
            r * min(n + k * per_person, cap) for n, r in zip(counts, rho, strict=True)
        )
        if mu(k) <= ridge / 2:
            gain = 1 / math.sqrt(2 * ridge)
        else:
            gain = math.sqrt(mu(k)) / (mu(k) + ridge / 2)
        theta = largest * math.sqrt(visits) * gain
        return per_person * norm * (norm * max(rho) * theta + reach * change)

    last = min(-(-cap // per_person), 2 * math.ceil(max(1 / beta, start / fall)))
    return max(
        math.exp(-k * beta)
        * min(numerator(k) / (ridge / 2 + mu(k + 1)), numerator(k + 1) / (ridge / 2 + mu(k))) ** 2
        for k in range(last + 1)
    )


def statistics(population, states):
    """|X_s| and the sums of returns."""
    counts, sums = [0] * states, [0.0] * states
    for person in population:
        for trajectory in person:
            for s, value in trajectory.items():
                counts[s] += 1
                sums[s] += value
    return counts, np.array(sums)


def shrunken_means(counts, sums, centre, kappa=0.0):
    """F_s = (kappa c + S_s)/(kappa + n_s), and c where there are no visits."""
    return np.array(
        [
            (kappa * centre + total) / (kappa + n) if kappa + n > 0 else centre
            for n, total in zip(counts, sums, strict=True)
        ]
    )


def ridge_solution(phi, rho, counts, sums, ridge):
    """theta of LSL, from its normal equations."""
    matrix = phi.T @ np.diag(np.array(rho) * counts) @ phi + ridge / 2 * np.eye(phi.shape[1])
    return np.linalg.solve(matrix, phi.T @ (np.array(rho) * sums))
