"""The paper's definitions, written out slowly: what the fast code must agree with.

Nothing here is vectorised over k, states or trajectories, and nothing imports the package.
"""

import math

import numpy as np


def first_visit(episodes, discount, rewards, returns, states, most_states=None):
    """[BGP16] section 2.2: m, |X_s| and the sums of clamped, gridded first-visit returns.

    With ``most_states``, of a trajectory's first distinct states only.
    """
    low, high = returns
    counts, sums = [0] * states, [0] * states
    for episode in episodes:
        distinct = list(dict.fromkeys(state for state, _ in episode))[:most_states]
        clamped = [min(max(reward, rewards[0]), rewards[1]) for _, reward in episode]
        for s in distinct:
            visits = [t for t, (state, _) in enumerate(episode) if state == s]
            if visits:
                value = 0.0
                for reward in reversed(clamped[visits[0] :]):
                    value = reward + discount * value
                value = min(max(value, low), high)
                counts[s] += 1
                sums[s] += min(math.floor((value - low) * (2**30 / (high - low)) + 0.5), 2**30)
    return len(episodes), counts, sums


def mean_returns(counts, sums, returns, unvisited):
    low, high = returns
    return [
        low + (q / n) * (high - low) / 2**30 if n else unvisited
        for n, q in zip(counts, sums, strict=True)
    ]


def phi_lsw(counts, weights, k, kappa=0.0):
    """[BGP16] equation 9, with kappa pseudo-visits."""
    return math.fsum(w / (max(n - k, 1) + kappa) ** 2 for n, w in zip(counts, weights, strict=True))


def psi_lsw(counts, weights, beta, kappa=0.0):
    """[BGP16] Algorithm 1, line 3."""
    return max(
        math.exp(-k * beta) * phi_lsw(counts, weights, k, kappa)
        for k in range(max([*counts, 0]) + 1)
    )


def phi_lsl(counts, rho, m, k, slope):
    """[BGP16] equation 12, with min as in Algorithm 2."""
    total = math.fsum(r * min(n + k, m) for n, r in zip(counts, rho, strict=True))
    return (slope * math.sqrt(total) + math.sqrt(math.fsum(r * r for r in rho))) ** 2


def psi_lsl(counts, rho, m, beta, slope):
    """[BGP16] Algorithm 2, line 3."""
    return max(math.exp(-k * beta) * phi_lsl(counts, rho, m, k, slope) for k in range(m + 1))


def nissim(epsilon, delta, d):
    """[BGP16] Lemma 1."""
    alpha = 5 * math.sqrt(2 * math.log(2 / delta)) / epsilon
    return alpha, epsilon / (4 * d + 4 * math.log(2 / delta))


def appendix(epsilon, delta, d):
    """[BGP16] Lemma of appendix A."""
    alpha = 15 * math.sqrt(2 * math.log(4 / delta)) / epsilon
    root = math.sqrt(d) + math.sqrt(2 * math.log(4 / delta))
    return alpha, 2 * math.log(2) * epsilon / (5 * root**2)


def lsw(phi, weights, means):
    """[BGP16] equation 8, by the explicit pseudo-inverse."""
    root = np.diag(np.sqrt(weights))
    return np.linalg.pinv(root @ phi) @ root @ means


def lsl(phi, rho, counts, means, m, ridge):
    """[BGP16] equation 11, by the explicit inverse."""
    gamma = np.diag(np.asarray(rho) * counts / m)
    matrix = phi.T @ gamma @ phi + ridge / (2 * m) * np.eye(phi.shape[1])
    return np.linalg.inv(matrix) @ phi.T @ gamma @ means


def dp_lsw(phi, weights, counts, means, returns, alpha, beta):
    """[BGP16] Algorithm 1: theta, psi, sigma (isotropic)."""
    norm = 1 / np.linalg.svd(np.diag(np.sqrt(weights)) @ phi, compute_uv=False)[-1]
    psi = psi_lsw(counts, weights, beta)
    return lsw(phi, weights, means), psi, alpha * (returns[1] - returns[0]) * norm * math.sqrt(psi)


def dp_lsl(phi, rho, counts, means, returns, m, ridge, alpha, beta):
    """[BGP16] Algorithm 2, with F_abs and M in the places of F (docs/proofs/dp-lsl.md)."""
    norm = np.linalg.svd(phi, compute_uv=False)[0]
    largest, reach = max(abs(r) for r in returns), max(returns[1], 0) - min(returns[0], 0)
    slope = largest / reach * norm * max(rho) / math.sqrt(2 * ridge)
    psi = psi_lsl(counts, rho, m, beta, slope)
    sigma = 2 * alpha * reach * norm / (ridge - norm**2 * max(rho)) * math.sqrt(psi)
    return lsl(phi, rho, counts, means, m, ridge), psi, sigma
