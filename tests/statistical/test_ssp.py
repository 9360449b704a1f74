"""DP-SSP after the noise: intervals cover as often as they say, and shrinkage lowers errors.

Noise is drawn from seeds, so that nothing here is a matter of chance when it is run again. The
checks are as strict as chance allows: a true coverage fails one with probability below 1e-8, and
the planted mistakes at the end of each part must fail the same check.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.worlds import grid, random_chain
from oracles import literal
from oracles.estimates import estimate, noisy_statistics
from oracles.limits import count_weight, sensitivity, shape_weights
from oracles.repeats import cross, repeats
from oracles.worlds import first_visits
from privalue.core import Design, calibration
from privalue.estimate import normal_quantile
from privalue.estimate.values import CLIPPING_LEVEL
from privalue.paper import chain_statistics
from privalue.simulation import parse_world, simulate_episodes
from privalue.study import aggregation

EPSILON, DELTA = 0.1, 0.1  # the paper's
SIGMAS = 5.8  # of chance, that a check allows: one-sided 3e-9


class Data(NamedTuple):
    """Noiseless statistics, and what is public or known about them."""

    bounds: tuple[float, float]
    counts: np.ndarray
    means: np.ndarray  # F_X, and ``unvisited`` where there are no visits
    values: np.ndarray  # V
    prior: np.ndarray
    trajectories: int
    unvisited: float

    @property
    def centred(self):
        return self.counts * (self.means - sum(self.bounds) / 2)


MADE = {
    "greedy grid": grid(policy="greedy"),
    **{f"random chain {seed}": random_chain(states=20, seed=seed) for seed in range(3)},
}


@functools.cache
def data(text, m, bounds=(0.0, 1.0), seed=1):
    process = MADE[text] if text in MADE else parse_world(text).process
    states = process.states
    if text.startswith("chain"):
        sample = chain_statistics(parse_world(text), trajectories=m, seed=seed, returns=bounds)
        counts, steps = sample.counts, sample.return_steps
        sums = counts * bounds[0] + steps * ((bounds[1] - bounds[0]) / 2**30)
    else:
        episodes = simulate_episodes(process, trajectories=m, seed=seed)
        visited, returns = first_visits(episodes, states, process.discount)
        counts, sums = visited.sum(axis=0), returns.sum(axis=0)
    unvisited = min(max(0.0, bounds[0]), bounds[1])
    means = np.where(counts > 0, sums / np.maximum(counts, 1), unvisited)
    prior = np.clip(process.visits.single, 0, 1)
    return Data(bounds, counts, np.clip(means, *bounds), process.values, prior, m, unvisited)


def noise_of(sample, shape=None, most=None):
    """The standard deviations of DP-SSP's noise, of sums and of counts."""
    states = len(sample.counts)
    omega = np.ones(states) if shape is None else shape
    weight = count_weight(states, most)
    delta = sensitivity(omega, most_states=most, count_weight=weight)
    low, high = sample.bounds
    sigma = calibration.exact_alpha(EPSILON, DELTA, 1, 0.0) * delta * (high - low)
    return sigma / omega, sigma / omega / (weight * (high - low))


def release(sample, generator, *, times=None, shape=None):
    """One noisy release; or many as one, state after state, for what is done state by state."""
    sum_noise, count_noise = noise_of(sample, shape)
    centred, counts = sample.centred, sample.counts
    if times is not None:
        centred, counts = np.tile(centred, times), np.tile(counts, times)
        sum_noise, count_noise = np.tile(sum_noise, times), np.tile(count_noise, times)
    return noisy_statistics(
        return_bounds=sample.bounds,
        sums=centred + sum_noise * generator.standard_normal(len(centred)),
        counts=counts + count_noise * generator.standard_normal(len(counts)),
        sum_noise=sum_noise,
        count_noise=count_noise,
    )


def tabular(states):
    return Design(phi=aggregation(states, 1), weights=np.ones(states))


# Coverage of single states

WORLDS = {
    "chain, 1e3": ("chain", 1000, (0.0, 1.0)),
    "chain, 1e4": ("chain", 10**4, (0.0, 1.0)),
    "chain, 1e5": ("chain", 10**5, (0.0, 1.0)),
    "many never visited": ("gym:CliffWalking-v1,policy=greedy", 2000, (-20.0, 0.0)),
    "near the bounds": ("greedy grid", 3000, (0.9, 1.0)),
    "negative bounds": ("chain:start=first", 2000, (-3.0, 1.5)),
}
EXACT = {"chain, 1e5", "negative bounds"}  # where no value is near a bound, and no count near 0


def coverage(sample, level, *, wrong=lambda noisy: noisy, other=None, releases=6000, seed=11):
    """How often intervals cover F_X, over all states and releases."""
    noisy = release(sample, np.random.default_rng(seed), times=releases)
    estimates = estimate(
        wrong(noisy),
        tabular(len(noisy.sums)),
        unvisited=sample.unvisited,
        shrinkage=False,
        level=other or level,
    )
    truth = np.tile(sample.means, releases)
    return int(np.count_nonzero((estimates.low <= truth) & (truth <= estimates.high))), len(truth)


def accepts(hits, trials, level, exact):
    """Whether this many hits go with intervals that cover with probability ``level``."""
    slack = SIGMAS * math.sqrt(trials * level * (1 - level))
    return hits >= trials * level - slack and (not exact or hits <= trials * level + slack)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_cover_as_often_as_they_say(name, level):
    hits, trials = coverage(data(*WORLDS[name]), level)
    assert accepts(hits, trials, level, name in EXACT), hits / trials


def without_count_noise(noisy):
    return dataclasses.replace(noisy, count_noise=noisy.count_noise * 1e-6)


def scaled(factor):
    def wrong(noisy):
        return dataclasses.replace(
            noisy, sum_noise=factor * noisy.sum_noise, count_noise=factor * noisy.count_noise
        )

    return wrong


def swapped(noisy):
    """The noise of the counts taken for that of the sums."""
    reach = noisy.bounds[1] - noisy.bounds[0]
    return dataclasses.replace(
        noisy, sum_noise=noisy.count_noise * reach, count_noise=noisy.sum_noise / reach
    )


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("name", ["chain, 1e4", "chain, 1e5"])
@pytest.mark.parametrize("wrong", [without_count_noise, scaled(0.9)])
def test_narrow_intervals_are_caught(name, level, wrong):
    hits, trials = coverage(data(*WORLDS[name]), level, wrong=wrong)
    assert not accepts(hits, trials, level, exact=False)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize("wrong", [scaled(1.1), swapped])
def test_wide_intervals_are_caught_where_they_should_be_exact(name, level, wrong):
    hits, trials = coverage(data(*WORLDS[name]), level, wrong=wrong)
    assert not accepts(hits, trials, level, exact=True)


@pytest.mark.parametrize(("level", "other"), [(0.9, 0.89), (0.95, 0.94), (0.99, 0.985)])
def test_another_level_is_caught(level, other):
    hits, trials = coverage(data(*WORLDS["chain, 1e4"]), level, other=other)
    assert not accepts(hits, trials, level, exact=False)


def test_an_unvisited_state_is_covered_at_any_value():
    """T~ - (v - c) n~ is the same noise at every v where n = 0."""
    for unvisited in (0.0, 0.3, 1.0):
        nobody = Data(
            (0.0, 1.0), np.zeros(8), np.full(8, unvisited), np.zeros(8), np.zeros(8), 1, unvisited
        )
        hits, trials = coverage(nobody, 0.95, releases=20_000)
        assert accepts(hits, trials, 0.95, exact=False)


def test_shrinkage_moves_values_and_not_intervals():
    sample = data("chain", 1000)
    noisy = release(sample, np.random.default_rng(5))
    plain, shrunk = (
        estimate(noisy, tabular(40), unvisited=0.0, shrinkage=on) for on in (False, True)
    )
    # An interval reaches out to a value that all states together allow, and is else as it was.
    for end, reach in (("low", np.minimum), ("high", np.maximum)):
        assert (getattr(shrunk, end) == reach(getattr(plain, end), shrunk.values)).all()
    low, high = noisy.intervals(normal_quantile(CLIPPING_LEVEL, 40))
    assert (shrunk.values >= np.clip(low, *sample.bounds)).all()
    assert (shrunk.values <= np.clip(high, *sample.bounds)).all()
    assert np.abs(plain.values - shrunk.values).max() > 0.05


# Coverage of sums over states, and of fits

RELEASES = repeats("PRIVALUE_RELEASES", 400, 1000)


def overlapping(states):
    x = np.linspace(-1, 1, states)
    phi = np.stack([np.ones(states), x, x**2, np.sin(5 * x)], axis=1)
    return Design(phi=phi, weights=np.linspace(0.5, 2.0, states))


def groups(states):
    return Design(phi=aggregation(states, 3), weights=np.linspace(0.5, 2.0, states))


FITS = {
    "tabular": (tabular, None),
    "groups by LSW": (groups, None),
    "groups by LSL": (groups, 300.0),
    "overlapping by LSW": (overlapping, None),
    "overlapping by LSL": (overlapping, 300.0),
    "scaled groups by LSL": (lambda n: Design(phi=2 * groups(n).phi, weights=np.ones(n)), 300.0),
}


def noiseless(sample, design, ridge):
    phi = design.phi if isinstance(design.phi, np.ndarray) else design.phi.toarray()
    if ridge is None:
        return phi @ literal.lsw(phi, design.weights, sample.means)
    return phi @ literal.lsl(phi, design.weights, sample.counts, sample.means, 1, ridge)


@functools.cache
def fit_coverage(world, fit, factor=1.0, level=0.95):
    """How often single values and the policy's number are covered."""
    sample = data(*WORLDS[world])
    states = len(sample.counts)
    build, ridge = FITS[fit]
    design = build(states)
    fit_without_noise = noiseless(sample, design, ridge)
    truth = np.clip(fit_without_noise, *sample.bounds)  # as it would be published
    start = np.arange(1, states + 1) / np.arange(1, states + 1).sum()
    generator = np.random.default_rng(17)
    number = float(np.clip(start @ fit_without_noise, *sample.bounds))
    single = policy = 0
    slack = 1e-9 * (sample.bounds[1] - sample.bounds[0])
    for _ in range(RELEASES):
        noisy = scaled(factor)(release(sample, generator))
        estimates = estimate(
            noisy, design, unvisited=sample.unvisited, ridge=ridge, level=level, start=start
        )
        single += np.mean((estimates.low <= truth + slack) & (truth <= estimates.high + slack))
        low, high = estimates.policy.low, estimates.policy.high
        policy += low - slack <= number <= high + slack
    return single / RELEASES, policy / RELEASES


SLACK = SIGMAS * math.sqrt(0.95 * 0.05 / RELEASES)  # values of one release go together


@pytest.mark.parametrize(
    ("world", "fit"), cross(["chain, 1e3", "chain, 1e4", "many never visited"], FITS)
)
def test_fits_cover(world, fit):
    single, policy = fit_coverage(world, fit)
    assert single >= 0.95 - SLACK
    assert policy >= 0.95 - SLACK


@pytest.mark.parametrize("fit", FITS)
def test_intervals_are_not_far_from_exact_in_fits(fit):
    single, policy = fit_coverage("chain, 1e5", fit)
    assert abs(single - 0.95) <= SLACK
    assert abs(policy - 0.95) <= SLACK


@pytest.mark.parametrize("fit", FITS)
def test_too_little_noise_is_caught_in_fits(fit):
    single, policy = fit_coverage("chain, 1e5", fit, 0.75)
    assert single < 0.95 - SLACK
    assert policy < 0.95 - SLACK


def covers_policy(clarity, place, *, plain=False, states=2000, releases=RELEASES // 4):
    """How often the mean of many states is covered that all have the same count and value."""
    sample = Data((0.0, 1.0), *np.ones((4, states)), 1, 0.0)
    sum_noise, count_noise = noise_of(sample)
    sample = sample._replace(counts=clarity * count_noise, means=np.full(states, place))
    start = np.full(states, 1 / states)
    generator = np.random.default_rng(29)
    hits = 0
    for _ in range(releases):
        noisy = release(sample, generator)
        if plain:
            ratio = 0.5 + noisy.sums / noisy.counts
            deviation = np.sqrt(sum_noise**2 + 0.25 * count_noise**2) / noisy.counts
            half = 1.96 * math.sqrt(np.sum(np.square(start * deviation)))
            low, high = start @ ratio - half, start @ ratio + half
        else:
            estimates = estimate(noisy, tabular(states), unvisited=0.0, start=start)
            low, high = estimates.policy.low, estimates.policy.high
        hits += low - 1e-9 <= place <= high + 1e-9  # sums of 2,000 terms are rounded
    return hits >= releases * 0.95 - SIGMAS * math.sqrt(releases * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("clarity", "place"), cross([0.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 30.0], [0.6, 1.0])
)
def test_bias_does_not_add_up_over_many_thin_states(clarity, place):
    """Counts around the detection threshold, where a choice could bias values."""
    assert covers_policy(clarity, place)


def test_the_plain_ratio_would_be_caught():
    """Its bias is 1/k^2 of the way from the middle: many deviations of the mean of all states."""
    assert not covers_policy(8.0, 1.0, plain=True)


# Flags


@pytest.mark.parametrize("features", [1, 2, 48], ids=["alike", "overlapping", "tabular"])
def test_unvisited_states_are_seldom_called_supported(features):
    """With any features the count is the state's own."""
    phi = np.eye(48) if features == 48 else np.linspace(0, 1, 48)[:, None] ** np.arange(features)
    design = Design(phi=phi, weights=np.ones(48))
    sample = data(*WORLDS["many never visited"])
    generator = np.random.default_rng(31)
    flagged, shares = 0, []
    for _ in range(RELEASES):
        estimates = estimate(release(sample, generator), design, unvisited=0.0)
        flagged += estimates.supported[sample.counts == 0].any()
        shares.append(estimates.supported[sample.counts > 0].mean())
    assert flagged / RELEASES <= 0.05 + SIGMAS * math.sqrt(0.05 * 0.95 / RELEASES)
    assert np.mean(shares) > 0.9


# Accuracy


def errors(sample, *, shrinkage, shape=None, releases=100, seed=41, text=None):
    """The root mean squared error against V over the states that can be visited; each release."""
    generator = np.random.default_rng(seed)
    visited = sample.prior > 0
    squares = []
    for at in range(releases):
        one = sample if text is None else data(*text, seed=at % 10)
        noisy = release(one, generator, shape=shape)
        fit = estimate(noisy, tabular(len(visited)), unvisited=one.unvisited, shrinkage=shrinkage)
        squares.append(np.mean(np.square(fit.values - sample.values)[visited]))
    return np.sqrt(squares)


@pytest.mark.parametrize("declared", [True, False])
def test_the_chain_of_the_paper(declared):
    """m = 10^4, uniform start, N = 40, epsilon = delta = 0.1: RMSE against the exact values."""
    text = ("chain", 10**4)
    sample = data(*text)
    alpha = calibration.exact_alpha(EPSILON, DELTA, 1, 0.0)
    assert noise_of(sample)[0] == pytest.approx(2.84692 * math.sqrt(40), rel=1e-3)
    size = {"expected_trajectories": 10**4, "alpha": alpha} if declared else {}
    plain, shrunk = (shape_weights(sample.prior, 40, **size, shrinkage=s) for s in (False, True))
    assert errors(sample, shrinkage=False, text=text).mean() <= 0.0150
    assert errors(sample, shrinkage=True, text=text).mean() <= 0.0042
    assert errors(sample, shrinkage=False, shape=plain, text=text).mean() <= 0.0085
    assert errors(sample, shrinkage=True, shape=shrunk, text=text).mean() <= 0.0042


@pytest.mark.parametrize(
    "text",
    [
        ("chain:N=40,start=uniform", 10**6, (0.0, 1.0)),
        ("chain:N=10,start=first", 10**4, (0.0, 1.0)),
        ("greedy grid", 10**3, (0.0, 1.0)),
        ("random chain 1", 10**4, (0.0, 25.0)),
    ],
    ids=lambda text: f"{text[0]}-{text[1]}",
)
def test_shrinkage_costs_little_where_plain_values_are_good(text):
    """Where they are not, it is no worse than the best constant, which knows the values."""
    sample = data(*text)
    plain, shrunk = (
        errors(sample, shrinkage=on, shape=None, text=text, releases=40).mean()
        for on in (False, True)
    )
    constant = sample.values[sample.prior > 0].std()
    assert shrunk <= max(1.1 * plain, 1.05 * constant)


@pytest.mark.long
def test_a_million_states():
    states = 10**6
    generator = np.random.default_rng(47)
    counts = generator.integers(0, 10**5, states).astype(float)
    noisy = noisy_statistics(
        return_bounds=(0.0, 1.0),
        sums=counts * generator.uniform(-0.5, 0.5, states),
        counts=counts,
        sum_noise=np.full(states, 3000.0),
        count_noise=np.full(states, 3400.0),
    )
    estimates = estimate(noisy, tabular(states), unvisited=0.0, start=np.full(states, 1 / states))
    assert estimates.supported.sum() > states / 2
