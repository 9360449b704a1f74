"""A Gaussian book, slowly and literally: costs are Fractions, sums are exact."""

from fractions import Fraction

import numpy as np
from mpmath import mp, mpf
from scipy.stats import norm


class Book:
    """One total; a release is admitted while the exact sum of k^2/alpha^2 is within 1/alpha_T^2."""

    def __init__(self, alpha):
        self.total, self.spent = 1 / Fraction(alpha) ** 2, Fraction(0)

    def cost(self, alpha, steps=1):
        return Fraction(steps) ** 2 / Fraction(alpha) ** 2

    def fits(self, alpha, steps=1):
        return self.spent + self.cost(alpha, steps) <= self.total

    def spend(self, alpha, steps=1):
        self.spent += self.cost(alpha, steps)


def dominating_mu(epsilon):
    """mu with Phi(mu/2) = e^eps/(1 + e^eps), with 60 digits."""
    with mp.workdps(60):
        odds = mp.exp(mpf(epsilon))
        return 2 * mp.sqrt(2) * mp.erfinv((odds - 1) / (odds + 1))


def composed_delta(epsilon, mus):
    """The exact delta of Gaussian releases together: one Gaussian, its mu^2 the sum."""
    with mp.workdps(60):
        mu = mp.sqrt(sum(mpf(each) ** 2 for each in mus))
        epsilon = mpf(epsilon)
        below = mp.ncdf(mu / 2 - epsilon / mu)
        return below - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def delta_by_choice(total, mu_total, first, mu_first):
    """The delta, at the total's epsilon, of one Gaussian release and all that is left after it.

    What is left is spent as squares, as plain sums (on randomised response that tells everything
    with the probability of its delta), or as whichever of both is worse, by what the first showed.

    Args:
        total: epsilon and delta.
        mu_total: which implies them.
        first: epsilon and delta of the first release.
        mu_first: its mu.
    """
    loss = np.linspace(mu_first**2 / 2 - 12 * mu_first, mu_first**2 / 2 + 12 * mu_first, 40_001)
    weight = norm.pdf(loss, mu_first**2 / 2, mu_first) * (loss[1] - loss[0])
    over, mu = total[0] - loss, np.sqrt(mu_total**2 - mu_first**2)
    squares = norm.cdf(mu / 2 - over / mu) - np.exp(over) * norm.cdf(-mu / 2 - over / mu)
    epsilon, delta = total[0] - first[0], total[1] - first[1]
    truthful = np.exp(epsilon) / (1 + np.exp(epsilon))
    answer = truthful * np.maximum(0, 1 - np.exp(over - epsilon))
    answer += (1 - truthful) * np.maximum(0, 1 - np.exp(over + epsilon))
    plain = delta + (1 - delta) * answer
    ways = squares, plain, np.maximum(squares, plain)
    return tuple(float((weight * each).sum()) for each in ways)
