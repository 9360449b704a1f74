"""Contributions beyond a limit are dropped and never scaled: means keep their expectations.

The process is small enough for all its trajectories: each comes as often as it is likely, so that
means of first-visit returns are expectations, exactly. From a it goes on to b or ends, from b to c
or d, from c to d, where it ends; it starts in a or b.
"""

from fractions import Fraction

import numpy as np
import pytest

from oracles.limits import make_limits
from privalue.core import Contributions

A, B, C, D = range(4)
REWARD = {A: Fraction(0), B: Fraction(1, 4), C: Fraction(1, 2), D: Fraction(1, 4)}
# (how often in 8, states)
PATHS = [
    (2, (A,)),
    (1, (A, B, C, D)),
    (1, (A, B, D)),
    (2, (B, C, D)),
    (2, (B, D)),
]
VALUES = {
    D: Fraction(1, 4),
    C: Fraction(3, 4),
    B: Fraction(1, 4) + (Fraction(3, 4) + Fraction(1, 4)) / 2,
    A: (Fraction(1, 4) + (Fraction(3, 4) + Fraction(1, 4)) / 2) / 2,
}


@pytest.mark.parametrize("most_keys", [1, 2, 3, 4])
def test_the_core_stops(most_keys):
    limits = make_limits(keys=4, return_bounds=(0.0, 2.0), max_states_per_trajectory=most_keys)
    contributions = Contributions(limits)
    ids, steps, keys = [], [], []
    for often, path in PATHS:
        for _ in range(often):
            number = ids[-1] + 1 if ids else 0
            ids += [number] * len(path)
            steps += range(len(path))
            keys += path
    contributions.add(
        np.array(ids).reshape(-1, 1, 1),
        np.array(steps),
        np.array(keys, dtype=np.int32),
        np.array([float(REWARD[key]) for key in keys]),
    )
    statistics = contributions.finish()
    means = statistics.mean_returns(0.0)
    for state, value in VALUES.items():
        if statistics.counts[state]:
            assert means[state] == pytest.approx(float(value), abs=1e-8)


def test_scaling_in_place_of_stopping_is_a_mistake():
    """Planted: visits shrunk to a squared norm of 2 count for less in long trajectories."""
    sizes = [(often * min(1.0, (2 / len(path)) ** 0.5), path) for often, path in PATHS if A in path]
    returns = [float(sum(REWARD[key] for key in path)) for _, path in sizes]
    mean = np.average(returns, weights=[size for size, _ in sizes])
    assert mean == pytest.approx(0.317, abs=5e-4)
    assert float(VALUES[A]) == 0.375
