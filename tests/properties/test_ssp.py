"""DP-SSP: sensitivity of random neighbours, and what must hold of every estimate."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import literal, ssp
from oracles.estimates import estimate, noisy_statistics
from oracles.limits import count_weight, sensitivity
from oracles.shrinkage import posterior
from privalue.core import Design
from privalue.estimate import Ratios, normal_quantile
from privalue.estimate.intervals import total_intervals
from privalue.study import aggregation

# Sensitivity

OMEGA = st.sampled_from([1e-3, 0.3, 1.0, 1.7, 40.0])


BOUNDS = [(0.0, 1.0), (-3.0, -1.0), (-1e3, 1e3)]
STEP = st.tuples(st.integers(0, 3), st.sampled_from([-1e9, -1.0, 0.0, 0.5, 1e9]))
EPISODE = st.lists(STEP, max_size=7)


def first_states(episode, most):
    """The return from the first visit of each of the first ``most`` states, as (state, return)."""
    visited = []
    for state, _ in episode:
        if state not in visited:
            visited.append(state)
    return visited[:most]


def statistics(episodes, bounds, most):
    """T_s and n_s, straight from the definition."""
    low, high = bounds
    centred, counts = np.zeros(4), np.zeros(4)
    for episode in episodes:
        _, visits, steps = literal.first_visit([episode], 0.9, (-1e9, 1e9), bounds, 4)
        for s in first_states(episode, most):
            assert visits[s] == 1
            counts[s] += 1
            centred[s] += (steps[s] / 2**30 - 0.5) * (high - low)
    return centred, counts


@settings(max_examples=400)
@given(
    common=st.lists(EPISODE, max_size=3),
    one=st.lists(EPISODE, max_size=3),
    other=st.lists(EPISODE, max_size=3),
    bounds=st.sampled_from(BOUNDS),
    most=st.integers(1, 4),
    omega=st.lists(OMEGA, min_size=4, max_size=4),
    add_remove=st.booleans(),
)
def test_the_statistics_of_neighbours_are_no_further_apart(
    common, one, other, bounds, most, omega, add_remove
):
    """One person's trajectories, replaced by another's or taken away; up to three each."""
    times = max(len(one), len(other), 1)
    reach, shape = bounds[1] - bounds[0], np.array(omega)
    weight = count_weight(4, most, add_remove=add_remove)
    delta = reach * sensitivity(
        shape,
        most_states=most,
        trajectories_per_person=times,
        add_remove=add_remove,
        count_weight=weight,
    )
    here = statistics([*common, *one], bounds, most)
    there = statistics([*common, *([] if add_remove else other)], bounds, most)
    change = [shape * (here[0] - there[0]), shape * weight * reach * (here[1] - there[1])]
    assert math.hypot(*map(np.linalg.norm, change)) <= delta * (1 + 1e-9)


# Estimates

NUMBER = st.floats(-60.0, 60.0)
COUNT = st.one_of(st.floats(-40.0, 400.0), st.sampled_from([0.0, 1e-9, 1e6]))
NOISE = st.sampled_from([0.5, 3.0, 20.0])


@st.composite
def releases(draw, states=9):
    low, high = draw(st.sampled_from([(0.0, 1.0), (-3.0, -1.0), (-100.0, 50.0), (5.0, 5.5)]))
    reach = high - low
    return noisy_statistics(
        return_bounds=(low, high),
        sums=reach * np.array(draw(st.lists(NUMBER, min_size=states, max_size=states))),
        counts=np.array(draw(st.lists(COUNT, min_size=states, max_size=states))),
        sum_noise=reach * np.array(draw(st.lists(NOISE, min_size=states, max_size=states))),
        count_noise=np.array(draw(st.lists(NOISE, min_size=states, max_size=states))),
    )


def tabular(states=9):
    return Design(phi=aggregation(states, 1), weights=np.ones(states))


OVERLAPPING = np.random.default_rng(4).standard_normal((9, 3))
DESIGNS = {
    "tabular": tabular(),
    "dense tabular": Design(phi=np.eye(9), weights=np.linspace(0.5, 2, 9)),
    "groups": Design(phi=aggregation(9, 2), weights=np.linspace(0.5, 2, 9)),
    "scaled": Design(phi=2.5 * aggregation(9, 3), weights=np.ones(9)),
    "overlapping": Design(phi=OVERLAPPING, weights=np.linspace(0.5, 2, 9)),
}
START = np.array([0.0, 0.1, 0.2, 0.1, 0.0, 0.3, 0.0, 0.3, 0.0])


@settings(max_examples=300)
@given(
    noisy=releases(),
    name=st.sampled_from(list(DESIGNS)),
    ridge=st.sampled_from([None, 0.01, 50.0]),
    shrinkage=st.booleans(),
    level=st.sampled_from([0.5, 0.9, 0.999]),
    start=st.sampled_from([START, np.eye(9)[3]]),
)
def test_values_lie_in_their_intervals_and_those_in_the_bands(
    noisy, name, ridge, shrinkage, level, start
):
    design = DESIGNS[name]
    low, high = noisy.bounds
    estimates = estimate(
        noisy,
        design,
        unvisited=low,
        ridge=ridge,
        shrinkage=shrinkage,
        level=level,
        start=start,
    )
    slack = 1e-9 * (high - low + np.abs(estimates.values))
    assert (estimates.low <= estimates.values).all()
    assert (estimates.values <= estimates.high).all()
    assert (estimates.total_low <= estimates.low).all()
    assert (estimates.high <= estimates.total_high).all()
    assert (estimates.total_band_low <= estimates.total_low + slack).all()
    assert (estimates.total_high - slack <= estimates.total_band_high).all()
    assert ((low <= estimates.total_band_low) & (estimates.total_band_high <= high)).all()
    policy = estimates.policy
    assert low <= policy.total_low <= policy.low <= policy.value
    assert policy.value <= policy.high <= policy.total_high <= high
    fit = design.phi @ estimates.theta
    assert policy.value == pytest.approx(np.clip(start @ fit, low, high))
    assert estimates.values == pytest.approx(np.clip(fit, low, high))
    assert ((low <= estimates.low) & (estimates.high <= high)).all()


@settings(max_examples=300)
@given(noisy=releases(states=1), level=st.floats(0.3, 0.999))
def test_the_interval_of_a_mean_is_the_set_of_fieller(noisy, level):
    """Its ends are found on a grid of values; it holds what is inside, and little more."""
    estimates = estimate(noisy, tabular(1), unvisited=noisy.bounds[0], level=level)
    args = (noisy.sums[0], noisy.counts[0], noisy.sum_noise[0], noisy.count_noise[0])
    low, high = ssp.interval(*args, noisy.centre, noisy.bounds, normal_quantile(level) * (1 - 1e-9))
    step = 2 * ((noisy.bounds[1] - noisy.bounds[0]) / 2) / 20_000
    assert estimates.low[0] <= low + 1e-9 * step
    assert estimates.high[0] >= high - 1e-9 * step
    assert estimates.low[0] >= low - step * 1.001
    assert estimates.high[0] <= high + step * 1.001


@settings(max_examples=300)
@given(
    noisy=releases(states=1),
    level=st.floats(0.3, 0.999),
    cluster_size=st.sampled_from([1, 2, 7]),
    place=st.sampled_from([0.5, 0.5, 0.2, -1.0]),
)
def test_the_total_interval_is_what_a_search_finds(noisy, level, cluster_size, place):
    """Also with a centre that is not the middle, or outside the bounds."""
    low, high = noisy.bounds
    ratios = dataclasses.replace(noisy, centre=low + place * (high - low))
    z = normal_quantile(level)
    around = ratios.intervals(z)
    actual = total_intervals(ratios, z, around, cluster_size=cluster_size)
    expected = ssp.total(
        *(noisy.sums[0], noisy.counts[0], noisy.sum_noise[0], noisy.count_noise[0]),
        *(ratios.centre, noisy.bounds, z, cluster_size, (around[0][0], around[1][0])),
    )
    assert (actual[0][0], actual[1][0]) == pytest.approx(expected, abs=1e-7 * (high - low))


HUGE = st.sampled_from([0.0, 1e-300, -1e-12, 1e-9, 1.0, -1.0, 1e9, -1e15, 1e100, -1e150])
TINY = st.sampled_from([1e-150, 1e-9, 1.0, 1e12, 1e100])


@settings(max_examples=300)
@given(
    sums=HUGE,
    count=HUGE,
    noise=st.tuples(TINY, TINY),
    cluster_size=st.sampled_from([1, 10**6]),
    z=st.sampled_from([1e-12, 1.96, 40.0]),
    bounds=st.sampled_from([(0.0, 1.0), (-1e6, 1e-6), (1e6, 1e6 + 1e-6), (-1e100, 1e100)]),
)
def test_the_total_interval_of_extreme_numbers(sums, count, noise, cluster_size, z, bounds):
    """No number is too large or too small for it, and no warning comes."""
    ratios = Ratios(
        sums=np.array([sums]),
        counts=np.array([count]),
        sum_noise=np.array([noise[0]]),
        count_noise=np.array([noise[1]]),
        centre=0.5 * bounds[0] + 0.5 * bounds[1],
        bounds=bounds,
    )
    inside = np.array([ratios.centre])
    low, high = total_intervals(ratios, z, (inside, inside), cluster_size=cluster_size)
    assert bounds[0] <= low[0] <= inside[0] <= high[0] <= bounds[1]


@settings(max_examples=200)
@given(noisy=releases(states=12), place=st.floats(0, 1))
def test_shrinkage_is_what_its_page_says(noisy, place):
    low, high = noisy.bounds
    unvisited = low + place * (high - low)
    estimates = estimate(noisy, tabular(12), unvisited=unvisited, level=1 - 1e-9)
    twin, _, _ = posterior(
        noisy.sums,
        noisy.counts,
        noisy.sum_noise,
        noisy.count_noise,
        noisy.bounds,
        unvisited,
    )
    twin = np.clip(twin, *noisy.intervals(normal_quantile(1 - 1e-9, 12)))
    assert estimates.values == pytest.approx(twin, abs=1e-6 * (high - low))


@given(
    noisy=releases(), scale=st.sampled_from([1e-6, 0.1, 1e6]), shift=st.sampled_from([-3.0, 2.0])
)
def test_the_units_of_returns_do_not_matter(noisy, scale, shift):
    """Values in other units are the same values: everything moves with the bounds."""
    low, high = noisy.bounds
    shift *= high - low
    rescaled = noisy_statistics(
        return_bounds=(scale * (low + shift), scale * (high + shift)),
        sums=scale * noisy.sums,
        counts=noisy.counts,
        sum_noise=scale * noisy.sum_noise,
        count_noise=noisy.count_noise,
    )
    here = estimate(noisy, tabular(), unvisited=low, start=START)
    there = estimate(rescaled, tabular(), unvisited=rescaled.bounds[0], start=START)
    tolerance = 1e-7 * (high - low)
    for name in ("values", "low", "high", "total_high", "total_band_high"):
        assert getattr(there, name) / scale - shift == pytest.approx(
            getattr(here, name), abs=tolerance
        )
    assert there.policy.low / scale - shift == pytest.approx(here.policy.low, abs=tolerance)


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(1, 500), min_size=9, max_size=9),
    places=st.lists(st.floats(0, 1), min_size=9, max_size=9),
    name=st.sampled_from(list(DESIGNS)),
    ridge=st.sampled_from([None, 1.0, 80.0]),
    shrinkage=st.booleans(),
)
def test_without_noise_it_is_lsw_and_lsl(counts, places, name, ridge, shrinkage):
    """Shrinkage and minimal counts vanish with the noise."""
    low, high = -2.0, 1.0
    n, means = np.array(counts, dtype=float), low + (high - low) * np.array(places)
    noisy = noisy_statistics(
        return_bounds=(low, high),
        sums=n * (means - (low + high) / 2),
        counts=n,
        sum_noise=np.full(9, 1e-7),
        count_noise=np.full(9, 1e-7),
    )
    design = DESIGNS[name]
    phi = design.phi if isinstance(design.phi, np.ndarray) else design.phi.toarray()
    estimates = estimate(noisy, design, unvisited=0.0, ridge=ridge, shrinkage=shrinkage)
    if ridge is None:
        theta = literal.lsw(phi, design.weights, means)
    else:
        theta = literal.lsl(phi, design.weights, n, means, 1, ridge)
    assert estimates.theta == pytest.approx(theta, abs=1e-5)
    assert estimates.high - estimates.low == pytest.approx(np.zeros(9), abs=1e-4)
    assert estimates.supported.all()


# Refusals
