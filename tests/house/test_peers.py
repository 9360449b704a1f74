"""The comparison with other libraries: its task and its arithmetic. No other library is needed."""

import importlib
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long
sys.path.append(str(ROOT))  # benchmarks is not installed

exchange = importlib.import_module("benchmarks.peers.exchange")


@given(st.floats(0.01, 10), st.floats(1e-9, 0.5))
def test_zcdp_against_a_grid_of_orders(epsilon, delta):
    """The literal twin: the least delta over many orders."""
    rho = exchange.rho_of(epsilon, delta)
    orders = 1 + np.geomspace(1e-4, 1e7, 200_001)

    def implied(rho):
        logarithm = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders)
        return math.exp(min(0.0, float(np.min(logarithm - np.log(orders - 1)))))

    assert implied(rho) == pytest.approx(delta, rel=1e-4)
    assert implied(1.01 * rho) > delta  # a rho that is 1% too large is caught


def change(relation, one, other, weight):
    """The norm by which the vector of sums and counts changes, literally, from its definition."""

    def contribution(visits):
        centred = [0.0 if value is None else value - 0.5 for value in visits]
        return np.array(centred + [0.0 if value is None else weight for value in visits])

    vector = contribution(one)
    return np.linalg.norm(vector if relation == "add-remove" else vector - contribution(other))


VISITS = tuple(itertools.product((None, 0.0, 0.3, 1.0), repeat=2))


@pytest.mark.parametrize("relation", exchange.RELATIONS)
def test_the_sensitivity_is_the_largest_change(relation):
    weight = exchange.count_weight(relation)

    def largest(weight):
        return max(change(relation, *pair, weight) for pair in itertools.product(VISITS, repeat=2))

    assert exchange.vector_sensitivity(relation, 2) == pytest.approx(largest(weight))
    assert largest(1.01 * weight) > exchange.vector_sensitivity(relation, 2)  # planted
