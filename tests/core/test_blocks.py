"""The block release against every pair of neighbours of up to four keys, in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from oracles import blocks
from oracles.limits import block_sensitivity

HALF = Fraction(1, 2)


def random_case(generator, most_keys=4, outcomes=3):
    """A few keys with a few possible vectors each, omega, H."""
    count = int(generator.integers(1, most_keys + 1))
    keys = []
    for _ in range(count):
        size = int(generator.integers(1, 4))
        many = int(generator.integers(1, outcomes + 1))
        vectors = [
            tuple(Fraction(int(x), 2) for x in generator.integers(-4, 5, size)) for _ in range(many)
        ]
        vectors[0] = tuple(x or HALF for x in vectors[0])  # not all of them nothing
        keys.append(vectors)
    shape = [Fraction(int(generator.integers(1, 9)), 4) for _ in keys]
    return keys, shape, int(generator.integers(1, count + 1))


def sensitivity(keys, shape, most, *, times=1, add_remove=False, **other):
    norms = {
        "largest": np.array([float(blocks.largest(key)) for key in keys]),
        "furthest": np.array([float(blocks.furthest(key)) for key in keys]),
        **other,
    }
    return block_sensitivity(
        np.array([float(omega) for omega in shape]),
        most_keys=most,
        most_trajectories=times,
        add_remove=add_remove,
        **norms,
    )


def exactly(value, squared):
    """Whether the double is at least the root, and above it by no more than rounding."""
    return squared <= Fraction(value) ** 2 <= squared * (1 + Fraction(1, 10**13))


def test_no_neighbours_are_further_apart():
    generator = np.random.default_rng(1)
    equal = 0
    for _ in range(150):
        keys, shape, most = random_case(generator)
        exact = blocks.squared_sensitivity(keys, shape, most)
        value = sensitivity(keys, shape, most)
        assert exact <= Fraction(value) ** 2
        doubles = [blocks.furthest(key) - 2 * blocks.largest(key) for key in keys]
        if max(doubles) <= 0 or min(doubles) >= 0:
            assert exactly(value, exact)
            equal += 1
        removed = blocks.squared_sensitivity(keys, shape, most, add_remove=True)
        assert exactly(sensitivity(keys, shape, most, add_remove=True), removed)
        assert value >= sensitivity(keys, shape, most, add_remove=True)
    assert equal > 50


def test_no_persons_are_further_apart():
    generator = np.random.default_rng(2)
    for _ in range(25):
        keys, shape, most = random_case(generator, most_keys=2, outcomes=2)
        for add_remove in (False, True):
            exact = blocks.squared_sensitivity_of_persons(
                keys, shape, most, 2, add_remove=add_remove
            )
            value = sensitivity(keys, shape, most, times=2, add_remove=add_remove)
            assert exact <= Fraction(value) ** 2


# Planted mistakes: each must fall below the largest distance of neighbours somewhere.


def visits(returns, weight):
    """What one visit may add: a return and a count."""
    return [(Fraction(f), Fraction(weight)) for f in returns]


def top_h(keys, shape, most):
    """Counts H places where two trajectories have 2H."""
    m = [float(w**2 * blocks.largest(k)) for k, w in zip(keys, shape, strict=True)]
    d = [float(w**2 * blocks.furthest(k)) for k, w in zip(keys, shape, strict=True)]
    raised = [max(a, b / 2) for a, b in zip(m, d, strict=True)]
    rest = [max(b - a, 0) for a, b in zip(raised, d, strict=True)]
    return math.sqrt(sum(sorted(raised + rest, reverse=True)[:most]))


def never_alone(keys, shape, most):
    """Takes every key to be visited by both, so that counts cancel."""
    return sensitivity(keys, shape, most, largest=1e-9)


def called_centred(keys, shape, most):
    """Computes M as if returns were counted from the middle of their bounds."""
    weight = keys[0][0][1]
    return sensitivity(keys, shape, most, largest=float(Fraction(1, 4) + weight**2), furthest=1.0)


def one_part_left_out(keys, shape, most):
    """Computes D without the last coordinate."""
    shorter = [[v[:-1] for v in vectors] for vectors in keys]
    distances = np.array([float(blocks.furthest(key)) for key in shorter])
    return sensitivity(keys, shape, most, furthest=distances)


CENTRED = [visits([-HALF, HALF], HALF)] * 3
UNCENTRED = [visits([0, 1], HALF)] * 3
MISTAKES = [
    (top_h, CENTRED, 1),
    (never_alone, [visits([-HALF, HALF], 1)] * 3, 1),
    (called_centred, UNCENTRED, 1),
    (one_part_left_out, [[(HALF, HALF), (-HALF, HALF), (-HALF, -HALF)]] * 2, 2),
]


@pytest.mark.parametrize(("mistake", "keys", "most"), MISTAKES)
def test_planted_mistakes_are_caught(mistake, keys, most):
    shape = [Fraction(1)] * len(keys)
    exact = blocks.squared_sensitivity(keys, shape, most)
    assert Fraction(mistake(keys, shape, most)) ** 2 < exact * (1 - Fraction(1, 10**6))
    assert exactly(sensitivity(keys, shape, most), exact)
