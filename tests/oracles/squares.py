"""A Gaussian total, slowly and literally: costs are Fractions, sums are exact."""

from fractions import Fraction

from mpmath import mp, mpf


class GaussianTotal:
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
        mu = mp.sqrt(sum(mpf(x) ** 2 for x in mus))
        epsilon = mpf(epsilon)
        below = mp.ncdf(mu / 2 - epsilon / mu)
        return below - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def with_randomised_response(level, mu, epsilon):
    """The exact delta, at a level, of a Gaussian release and of randomised response together."""
    with mp.workdps(60):
        level, mu, epsilon = mpf(level), mpf(mu), mpf(epsilon)
        truthful = mp.exp(epsilon) / (1 + mp.exp(epsilon))

        def gaussian(at):  # of any sign: the hockey-stick divergence of N(mu, 1) from N(0, 1)
            return mp.ncdf(mu / 2 - at / mu) - mp.exp(at) * mp.ncdf(-mu / 2 - at / mu)

        return truthful * gaussian(level - epsilon) + (1 - truthful) * gaussian(level + epsilon)
