"""Group privacy: what k steps of (epsilon, delta) cost, slowly and literally."""

import itertools
from collections import Counter

from mpmath import mp, mpf


def over_steps(epsilon, delta, steps):
    """The definition k times: P_0 <= e^eps P_1 + delta <= e^eps (e^eps P_2 + delta) + delta, ...

    Everything has 100 digits.
    """
    with mp.workdps(100):
        total, factor = mpf(0), mp.exp(mpf(epsilon))
        for _ in range(steps):
            total = factor * total + mpf(delta)
        return steps * mpf(epsilon), total


def worst_chain(epsilon, delta, steps):
    """P_0, ..., P_k as probabilities of one event: each step is (eps, delta), the whole no better.

    p_0 = 0 and p_{j+1} = e^eps p_j + delta.
    """
    return [over_steps(epsilon, delta, j)[1] for j in range(steps + 1)]


def excess(p, q, epsilon):
    """The smallest delta for two distributions on {event, none}, in the worse direction."""
    with mp.workdps(100):
        factor = mp.exp(mpf(epsilon))
        pairs = ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p))
        return max(here - factor * there for here, there in pairs)


def gaussian_delta(epsilon, mu):
    """The exact delta of a Gaussian mechanism whose shift is mu standard deviations."""
    with mp.workdps(60):
        epsilon, mu = mpf(epsilon), mpf(mu)
        below = mp.ncdf(mu / 2 - epsilon / mu)
        return below - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


# Data sets, enumerated: a person is a tuple of trajectories, one at least; ids do not matter.


def persons(kinds, most):
    """Every person with up to ``most`` trajectories of so many kinds."""
    return [
        person
        for count in range(1, most + 1)
        for person in itertools.combinations_with_replacement(range(kinds), count)
    ]


def neighbours(people, relation):
    """Pairs that differ in one person; what they share changes no distance."""
    if relation == "replace-one":
        return list(itertools.product(people, people))
    return [((), person) for person in people] + [(person, ()) for person in people]


def distance(here, there, relation):
    """The fewest steps between two collections, None where there is no way."""
    minus, plus = Counter(here) - Counter(there), Counter(there) - Counter(here)
    removed, added = minus.total(), plus.total()
    if relation == "add-remove":
        return removed + added
    return removed if removed == added else None
