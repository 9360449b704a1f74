"""Sensitivity and smoothness on neighbouring data sets, through the public path.

For neighbours X ~ X' (one trajectory replaced), the vector to which noise is added may move by at
most sigma/alpha of either, and ln sigma^2 by at most beta: the two conditions of [BGP16] Lemma 1.
"""

import functools
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privalue as pv
from oracles.reading import statistics as gather
from oracles.studies import make_study
from privalue.curator import prepare
from privalue.study import public_size

STATES = 4


BOUNDS = [(0.0, 1.0), (-1.0, 2.0), (-3.0, -1.0), (2.0, 5.0), (-1e3, 1e3)]
PHI = np.array([[1.0, 0.0, 2.0], [0.5, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 1.0]])
FEATURES = [
    {"kind": "tabular"},
    {"kind": "aggregate", "size": 2},
    {"kind": "aggregate", "size": 3},
    {"kind": "matrix", "matrix": PHI},
]
MECHANISMS = [
    {"name": "dp-lsw", "noise": "isotropic"},
    {"name": "dp-lsw", "noise": "whitened"},
    {"name": "dp-lsl"},
    {"name": "dp-lsw", "noise": "whitened", "calibration": "appendix"},
    {"name": "dp-lsw", "noise": "whitened", "calibration": "exact", "pseudo_count": 2.5},
    {"name": "dp-lsw", "noise": "isotropic", "calibration": "exact"},
    {"name": "dp-lsl", "calibration": "exact"},
]


@st.composite
def trajectories(draw):
    """Short, long, extreme: one state, all states, rewards at the bounds and beyond."""
    shape = draw(st.sampled_from(["random", "one", "all"]))
    reward = st.one_of(st.sampled_from([-1e9, 0.0, 1e9]), st.floats(-5, 5))
    if shape == "all":
        return [(s, draw(reward)) for s in draw(st.permutations(range(STATES)))]
    length = 1 if shape == "one" else draw(st.integers(1, 6))
    return [(draw(st.integers(0, STATES - 1)), draw(reward)) for _ in range(length)]


@st.composite
def neighbours(draw):
    """X and X': common trajectories, often many times over, and one that differs."""
    common = draw(st.lists(st.tuples(trajectories(), st.sampled_from([1, 1, 2, 7])), max_size=4))
    rest = [trajectory for trajectory, times in common for _ in range(times)]
    return [*rest, draw(trajectories())], [*rest, draw(trajectories())]


def study_of(mechanism, features, returns, weights, epsilon=1.0, ridge=2.0):
    mechanism = dict(mechanism)
    if mechanism["name"] == "dp-lsl":
        mechanism["ridge"] = 60.0 * max(weights) if "calibration" not in mechanism else ridge
    if mechanism.get("calibration") == "exact":
        mechanism["beta"] = 0.004
    return make_study(
        STATES,
        discount=0.8,
        rewards=(-1e3, 1e3),
        returns=returns,
        privacy={"epsilon": epsilon, "delta": 1e-3},
        features=features,
        weights={"values": weights},
        mechanism=mechanism,
    )


def alpha_of(diagnostics):
    return diagnostics.mechanism.calibration.alpha


def assert_conditions_of_lemma_1(mechanism, here, there):
    alpha, beta = mechanism.calibration.alpha, mechanism.calibration.beta
    distance = float(np.linalg.norm(here.center - there.center))
    assert distance <= min(here.deviations, there.deviations) / alpha * (1 + 1e-9)
    assert abs(2 * math.log(here.deviations / there.deviations)) <= beta + 4e-9
    assert min(here.deviations, there.deviations) >= 1024 * here.grids  # the grid is public
    assert here.grids == there.grids


@settings(max_examples=2000 if os.environ.get("PRIVALUE_LONG") == "1" else 250)
@given(
    pair=neighbours(),
    mechanism=st.sampled_from(MECHANISMS),
    features=st.sampled_from(FEATURES),
    returns=st.sampled_from(BOUNDS),
    weights=st.lists(st.sampled_from([0.1, 0.5, 1.0, 4.0]), min_size=STATES, max_size=STATES),
    epsilon=st.sampled_from([0.05, 1.0, 4.0]),
    ridge=st.sampled_from([0.01, 1.0, 50.0]),
)
def test_the_conditions_of_lemma_1_hold(
    pair, mechanism, features, returns, weights, epsilon, ridge
):
    study = study_of(mechanism, features, returns, weights, epsilon, ridge)
    here, there = (pv.inspect(study, data) for data in pair)
    assert_conditions_of_lemma_1(here.mechanism, here.perturbation, there.perturbation)


def extreme_pairs():
    """Replacements that move as much as a bound allows, with counts 0, 1 and many."""
    every = [(s, 0.0) for s in range(STATES)]
    high = [(s, 1e9) for s in range(STATES)]
    low = [(s, -1e9) for s in range(STATES)]
    for rest in ([], [high], [low], [every] * 3, [high] * 50, [low] * 50, [[(0, 1e9)]] * 9):
        for x, y in (
            (high, low),
            (high, [(0, -1e9)]),
            (low, [(3, 1e9)]),
            ([(1, 1e9)], [(2, -1e9)]),
        ):
            yield [*rest, x], [*rest, y]


@functools.cache
def extreme_statistics(limits):
    """Both statistics of every extreme pair: no mechanism and no features go into them."""
    study = study_of(MECHANISMS[0], FEATURES[0], limits.return_bounds, [1.0] * STATES)
    assert study.limits == limits
    return [tuple(gather(data, study) for data in pair) for pair in extreme_pairs()]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: "-".join(map(str, m.values())))
@pytest.mark.parametrize("features", FEATURES[:4], ids=["tabular", "pairs", "triples", "matrix"])
def test_the_conditions_hold_at_the_extremes(mechanism, features):
    for returns in BOUNDS:
        study = study_of(mechanism, features, returns, [1.0, 0.5, 2.0, 1.0])
        prepared = prepare(study)
        for pair in extreme_statistics(study.limits):
            built = prepared.mechanism_for(public_size(study, pair[0]))
            here, there = (built.perturb(statistics, "values", {}) for statistics in pair)
            assert_conditions_of_lemma_1(built, here, there)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: "-".join(map(str, m.values())))
def test_the_perturbation_is_that_of_inspect(mechanism):
    study = study_of(mechanism, FEATURES[0], BOUNDS[0], [1.0, 0.5, 2.0, 1.0])
    data, (sums, _) = next(extreme_pairs())[0], extreme_statistics(study.limits)[0]
    mechanism = prepare(study).mechanism_for(public_size(study, sums))
    other, here = pv.inspect(study, data).perturbation, mechanism.perturb(sums, "values", {})
    assert (here.deviations, here.grids) == (other.deviations, other.grids)
    assert np.array_equal(here.center, other.center)


def test_the_bound_of_lsw_is_tight():
    """All states visited once by the trajectory that is replaced: the ratio reaches 1."""
    study = study_of(MECHANISMS[0], FEATURES[0], (0.0, 1.0), [1.0] * STATES)
    diagnostics = [pv.inspect(study, [[(s, end) for s in range(STATES)]]) for end in (1e9, -1e9)]
    alpha, (here, there) = alpha_of(diagnostics[0]), (side.perturbation for side in diagnostics)
    distance = float(np.linalg.norm(here.center - there.center))
    assert distance * alpha / here.deviations == pytest.approx(1.0, rel=1e-9)


# Planted mistakes: each weakens one part of a bound, and some pair above must show it.


@pytest.mark.parametrize(
    ("mechanism", "returns", "mistake"),
    [
        (MECHANISMS[0], (0.0, 1.0), "counts one too high"),
        (MECHANISMS[2], (2.0, 2.05), "range instead of M"),
        (MECHANISMS[1], (0.0, 1.0), "half the range"),
    ],
    ids=["counts one too high", "range instead of M in LSL", "half the range"],
)
def test_planted_mistakes_in_the_sensitivity_are_caught(mechanism, returns, mistake):
    study = study_of(mechanism, FEATURES[0], returns, [1.0] * STATES)
    weaken = {
        "counts one too high": lambda diagnostics, n: math.sqrt(
            np.sum(1 / (n + 1.0) ** 2) / diagnostics.mechanism.psi(n)
        ),
        "range instead of M": lambda diagnostics, n: (returns[1] - returns[0]) / returns[1],
        "half the range": lambda diagnostics, n: 1 / 2,
    }[mistake]
    broken = 0
    for pair in extreme_pairs():
        diagnostics = [pv.inspect(study, data) for data in pair]
        here, there = (i.perturbation for i in diagnostics)
        sigma = min(i.perturbation.deviations * weaken(i, i.statistics.counts) for i in diagnostics)
        distance = float(np.linalg.norm(here.center - there.center))
        broken += distance > sigma / alpha_of(diagnostics[0]) * (1 + 1e-9)
    assert broken > 0
