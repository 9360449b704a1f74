"""The verdict's rule holds its level where states share trajectories, and finds what is planted."""

import numpy as np
import pytest

from oracles.estimates import estimate, noisy_statistics
from privalue.core import Design
from privalue.estimate.intervals import count_distinct_values
from privalue.study import aggregation

DRAWS = 150
TRAJECTORIES = 2000


def returns(kind, rng, values):
    """0 or 1 in every state of a trajectory: the same, on its own, or the opposite in half."""
    shape = (TRAJECTORIES, len(values))
    luck = rng.random(shape) if kind == "own" else np.repeat(rng.random((shape[0], 1)), shape[1], 1)
    if kind == "opposite":
        luck[:, ::2] = 1 - luck[:, ::2]
    return luck < values


def count_values(kind, values, sigma, band="total_band_", seed=20261118):
    """At least how many values differ, in each of some releases."""
    rng, states = np.random.default_rng(seed), len(values)
    design = Design(phi=aggregation(states, 1), weights=np.ones(states))
    counts = []
    for _ in range(DRAWS):
        visits = rng.random((TRAJECTORIES, states)) < 0.4
        sums = ((returns(kind, rng, values) - 0.5) * visits).sum(axis=0)
        noisy = noisy_statistics(
            return_bounds=(0.0, 1.0),
            sums=sums + sigma * rng.standard_normal(states),
            counts=visits.sum(axis=0) + sigma * rng.standard_normal(states),
            sum_noise=np.full(states, sigma),
            count_noise=np.full(states, sigma),
        )
        table = estimate(noisy, design, unvisited=0.5)
        counts.append(count_distinct_values(*(vars(table)[band + end] for end in ("low", "high"))))
    return np.array(counts)


@pytest.mark.parametrize("kind", ["alike", "own", "opposite"])
@pytest.mark.parametrize(("states", "sigma"), [(2, 3.0), (30, 20.0)])
def test_one_common_value_is_hardly_ever_split(kind, states, sigma):
    counts = count_values(kind, np.full(states, 0.4), sigma)
    assert (counts > 1).mean() <= 0.05 + 2 * (0.05 * 0.95 / DRAWS) ** 0.5


def test_single_intervals_would_split_it():
    """The planted mistake: of 30 intervals that each hold at 95%, two are often apart."""
    values = np.full(30, 0.4)
    assert (count_values("own", values, 20.0, "total_") > 1).mean() > 0.2


@pytest.mark.parametrize("kind", ["alike", "opposite"])
def test_planted_differences_are_found_and_no_more_than_there_are(kind):
    values = np.repeat([0.2, 0.5, 0.8], 4)
    counts = count_values(kind, values, 10.0)
    assert (counts == 3).mean() >= 0.95
    assert counts.max() == 3
