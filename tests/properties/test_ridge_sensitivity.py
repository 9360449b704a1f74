"""The sharper psi of DP-LSL: brute force over k, smoothness, planted mistakes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from privalue.features import Design, aggregation
from privalue.ridge_sensitivity import (
    TOLERANCE,
    indicator_features,
    least_ridge_psi,
    smooth_ridge,
)

PHI = np.array([[1.0, 0.5], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [0.3, -1.0]])
COUNTS = st.lists(st.integers(0, 40), min_size=5, max_size=5)
WEIGHTS = st.lists(st.sampled_from([0.1, 1.0, 3.0]), min_size=5, max_size=5)
SETTINGS = {
    "counts": COUNTS,
    "rho": WEIGHTS,
    "ridge": st.sampled_from([0.01, 1.0, 30.0, 1e4]),
    "beta": st.floats(1e-4, 2.0),
    "returns": st.sampled_from([(0.0, 1.0), (-1.0, 2.0), (3.0, 4.0), (-2.0, -1.9)]),
    "size": st.sampled_from([0, 1, 2]),
}


def case(counts, rho, ridge, beta, returns, size):
    """Arguments of the fast bound, and the literal twin's value; size 0 means general features."""
    weights = np.array(rho)
    built = Design(phi=PHI if size == 0 else aggregation(5, size), weights=weights)
    m = max(*counts, 1)
    largest, reach = max(map(abs, returns)), max(returns[1], 0) - min(returns[0], 0)
    found = smooth_ridge(
        np.array(counts, dtype=np.int64),
        built,
        ridge=ridge,
        trajectories=m,
        beta=beta,
        largest=largest,
        reach=reach,
    )
    if size == 0:
        twin = literal.psi_ridge_general(PHI, rho, counts, m, ridge, beta, returns)
    else:
        phi = built.phi.toarray()
        twin = literal.psi_ridge_indicator(phi, rho, counts, m, ridge, beta, returns)
    return found, twin, built, m, reach


@given(**SETTINGS)
def test_it_is_the_brute_force_maximum_rounded_up(counts, rho, ridge, beta, returns, size):
    found, twin, built, m, reach = case(counts, rho, ridge, beta, returns, size)
    assert twin * (1 - 1e-12) <= found <= twin * (1 + 3 * TOLERANCE)
    assert least_ridge_psi(built, ridge=ridge, trajectories=m, reach=reach) <= found * (1 + 1e-12)


@given(**SETTINGS, steps=st.lists(st.integers(-1, 1), min_size=5, max_size=5))
def test_it_is_smooth(counts, rho, ridge, beta, returns, size, steps):
    m = max(*counts, 1) + 1
    near = [min(max(n + step, 0), m) for n, step in zip(counts, steps, strict=True)]
    weights = np.array(rho)
    built = Design(phi=PHI if size == 0 else aggregation(5, size), weights=weights)
    largest, reach = max(map(abs, returns)), max(returns[1], 0) - min(returns[0], 0)
    here, there = (
        smooth_ridge(
            np.array(n, dtype=np.int64),
            built,
            ridge=ridge,
            trajectories=m,
            beta=beta,
            largest=largest,
            reach=reach,
        )
        for n in (counts, near)
    )
    assert abs(math.log(here / there)) <= beta + 2 * TOLERANCE


def test_which_features_are_indicators():
    ones = np.ones(5)
    assert indicator_features(Design(phi=aggregation(5, 2), weights=ones))
    assert indicator_features(Design(phi=aggregation(5, 1).toarray(), weights=ones))
    assert not indicator_features(Design(phi=PHI, weights=ones))
    assert not indicator_features(Design(phi=2 * aggregation(5, 2), weights=ones))
    missing = aggregation(5, 2).toarray()
    missing[0] = 0
    assert not indicator_features(Design(phi=missing, weights=ones))


@pytest.mark.parametrize("returns", [(3.0, 3.1), (-2.0, -1.9)])
def test_the_range_in_the_place_of_m_would_be_broken(returns):
    """A trajectory that no longer visits a state takes its whole return with it."""
    ridge, rho = 50.0, 1.0
    low, high = returns
    before = (5 * high) / (5 * rho + ridge / 2)
    after = (4 * high) / (4 * rho + ridge / 2)
    built = Design(phi=aggregation(1, 1), weights=np.ones(1))
    bounds = {}
    for name, reach in (("M", max(high, 0) - min(low, 0)), ("R", high - low)):
        psi = smooth_ridge(
            np.array([5]), built, ridge=ridge, trajectories=5, beta=2.0, largest=5.0, reach=reach
        )
        bounds[name] = math.sqrt(psi)
    assert abs(before - after) <= bounds["M"]
    assert abs(before - after) > bounds["R"]
