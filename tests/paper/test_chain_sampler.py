import numpy as np
import pytest

from privalue.core import GRID_STEPS
from privalue.paper import chain_statistics
from privalue.simulation import chain, parse_world


def test_without_staying_nothing_is_random_but_the_start():
    n, m, gamma = 5, 1000, 0.9
    drawn = chain_statistics(chain(states=n, stay=0, discount=gamma), trajectories=m, seed=1)
    assert drawn.counts[-1] == m
    assert np.all(np.diff(drawn.counts) > 0)
    exact = [1.0]
    for _ in range(n - 1):
        exact.append(0.0 + gamma * exact[-1])
    steps = np.floor(np.array(exact[::-1]) * GRID_STEPS + 0.5).astype(np.int64)
    assert drawn.return_steps.tolist() == (drawn.counts * steps).tolist()


def test_one_trajectory_is_a_trajectory():
    world = chain(states=6, stay=0.4, discount=0.7)
    for seed in range(50):
        drawn = chain_statistics(world, trajectories=1, seed=seed)
        first = int(np.argmax(drawn.counts))
        assert drawn.counts.tolist() == [0] * first + [1] * (6 - first)
        # Waiting times are whole numbers of at least one, and the last state returns 1.
        waits = np.diff(np.log(drawn.return_steps[first:] / GRID_STEPS)) / -np.log(0.7)
        assert waits == pytest.approx(np.round(waits), abs=1e-6)
        assert np.all(waits >= 1 - 1e-6)
        assert drawn.return_steps[-1] == GRID_STEPS


def test_returns_are_clamped():
    world = chain(states=4, stay=0, start="first", discount=0.5)
    drawn = chain_statistics(world, trajectories=3, seed=0, returns=(0.25, 0.75))
    assert drawn.return_steps.tolist() == [0, 0, 3 * GRID_STEPS // 2, 3 * GRID_STEPS]


def test_ten_million_and_the_most():
    drawn = chain_statistics(parse_world("chain"), trajectories=10**7, seed=0)
    values = parse_world("chain").process.values
    means = drawn.return_steps / drawn.counts / GRID_STEPS
    assert means == pytest.approx(values, abs=1e-3)
    most = chain_statistics(parse_world("chain"), trajectories=2**33 - 1, seed=0)
    assert most.counts[-1] == 2**33 - 1
    assert most.return_steps[-1] == (2**33 - 1) * GRID_STEPS
