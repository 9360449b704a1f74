"""The chain's exact sampler at its edges; tests/statistical has its law."""

import pytest

from privalue.core import GRID_STEPS
from privalue.paper import chain_statistics
from privalue.simulation import chain, parse_world


def test_returns_are_clamped():
    world = chain(states=4, stay=0, start="first", discount=0.5)
    statistics = chain_statistics(world, trajectories=3, seed=0, returns=(0.25, 0.75))
    assert statistics.return_steps.tolist() == [0, 0, 3 * GRID_STEPS // 2, 3 * GRID_STEPS]


def test_ten_million_and_the_most():
    statistics = chain_statistics(parse_world("chain"), trajectories=10**7, seed=0)
    values = parse_world("chain").process.values
    means = statistics.return_steps / statistics.counts / GRID_STEPS
    assert means == pytest.approx(values, abs=1e-3)
    most = chain_statistics(parse_world("chain"), trajectories=2**33 - 1, seed=0)
    assert most.counts[-1] == 2**33 - 1
    assert most.return_steps[-1] == (2**33 - 1) * GRID_STEPS
