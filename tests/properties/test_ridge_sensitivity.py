"""The sharper psi of DP-LSL: brute force over k, smoothness, planted mistakes.

Neighbouring data sets are in test_contribution.py and test_neighbours.py.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import contribution
from oracles.ridge import least_ridge_psi, most_ridge_psi, smooth_ridge
from privalue.core import MAX_TRAJECTORIES, Design
from privalue.core.sensitivity import TOLERANCE
from privalue.study import aggregation

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


@given(**SETTINGS, steps=st.lists(st.integers(-1, 1), min_size=5, max_size=5))
def test_the_sensitivity_is_smooth(counts, rho, ridge, beta, returns, size, steps):
    m = max(*counts, 1) + 1
    near = [min(max(n + per_person, 0), m) for n, per_person in zip(counts, steps, strict=True)]
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


@pytest.mark.parametrize("returns", [(3.0, 3.1), (-2.0, -1.9)])
def test_the_range_in_place_of_m_is_too_small(returns):
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


# Steps of L trajectories, the q states that can change most, a cap far away


def arguments(returns):
    return {
        "largest": max(map(abs, returns)),
        "reach": max(returns[1], 0) - min(returns[0], 0),
    }


@settings(max_examples=300)
@given(
    **{**SETTINGS, "beta": st.floats(0.02, 2.0), "size": st.sampled_from([0, 1, 2, 3, 5])},
    per_person=st.sampled_from([1, 2, 7, 50]),
    touched=st.sampled_from([None, 1, 2, 3, 4, 5, 9]),
    spare=st.sampled_from([0, 13, MAX_TRAJECTORIES]),
)
def test_steps_and_terms_against_brute_force(
    counts, rho, ridge, beta, returns, size, per_person, touched, spare
):
    built = Design(phi=PHI if size == 0 else aggregation(5, size), weights=np.array(rho))
    cap = min(max(*counts, 1) + spare, MAX_TRAJECTORIES)
    public = {"ridge": ridge, "trajectories": cap, "per_person": per_person, "touched": touched}
    actual = smooth_ridge(np.array(counts), built, beta=beta, **public, **arguments(returns))
    if size == 0:
        error = 8 * (5 + 2) * 2 * 2.0**-53 * np.linalg.norm(PHI, 2) ** 2 * max(rho) * cap
        twin = contribution.psi_ridge_general(
            PHI, rho, counts, cap, ridge, beta, returns, per_person, touched, error
        )
    else:
        phi = built.phi.toarray().tolist()
        twin = contribution.psi_ridge_indicator(
            phi, rho, counts, ridge, beta, returns, per_person, touched
        )
    assert twin * (1 - 1e-12) <= actual <= twin * (1 + 3 * TOLERANCE)
    least = least_ridge_psi(built, **public, reach=arguments(returns)["reach"])
    assert least <= actual * (1 + 1e-12)
    assert actual <= most_ridge_psi(built, **public, **arguments(returns)) * (1 + 2 * TOLERANCE)


@given(**SETTINGS, per_person=st.sampled_from([1, 3]), touched=st.integers(1, 6))
def test_more_states_need_more_noise(counts, rho, ridge, beta, returns, size, per_person, touched):
    built = Design(phi=PHI if size == 0 else aggregation(5, size), weights=np.array(rho))
    fewer, more, every = (
        smooth_ridge(
            np.array(counts),
            built,
            ridge=ridge,
            trajectories=100,
            beta=beta,
            per_person=per_person,
            touched=q,
            **arguments(returns),
        )
        for q in (touched, touched + 1, None)
    )
    assert fewer <= more * (1 + TOLERANCE)
    assert more <= every * (1 + TOLERANCE)
    if touched >= 5:
        assert fewer == every


def test_the_largest_count_of_the_data_as_the_cap_is_caught():
    """A cap must be public: one that moves with the data makes psi jump."""
    built = Design(phi=PHI, weights=np.ones(5))

    def psi(count, cap):
        return smooth_ridge(
            np.full(5, count),
            built,
            ridge=1.0,
            trajectories=cap,
            beta=1e-3,
            largest=1.0,
            reach=1.0,
        )

    assert math.log(psi(4, 4) / psi(3, 3)) > 0.1
    assert abs(math.log(psi(4, 500) / psi(3, 500))) <= 1e-3 + 2 * TOLERANCE
