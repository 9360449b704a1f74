"""Stages: the sums of each, the distance of neighbours, what it may choose and spends."""

import dataclasses
import itertools
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import privalue as pv
from oracles import audits
from oracles import limits as usual
from oracles import stages as slow
from oracles.refusals import refused
from oracles.studies import make_study, release_anyway
from privalue.core import MECHANISMS, Contributions, draw
from privalue.core.mechanisms import StatisticsNoise, stage_alphas
from privalue.simulation import SeededForExperimentsOnly
from privalue.study import declared_size, resolve

SSP = {"name": "dp-ssp", "calibration": "exact"}
BOUNDS = {**SSP, "stages": ["bounds"]}
SHARES = {"bounds": 0.5}


def make_limits(**changes):
    here = {"keys": 2, "return_bounds": (-1.0, 7.0), "max_states_per_trajectory": 2, "levels": 12}
    return usual.make_limits(**{**here, **changes})


def gather(limits, *units):
    """The statistics of units: lists of trajectories, each a list of (key, reward)."""
    contributions = Contributions(limits)
    rows = [
        (u, t, i, key, reward)
        for u, unit in enumerate(units)
        for t, trajectory in enumerate(unit)
        for i, (key, reward) in enumerate(trajectory)
    ]
    ids = np.array([[[u], [t]] for u, t, *_ in rows])
    steps, keys, rewards = (np.array([row[at] for row in rows]) for at in (2, 3, 4))
    contributions.add(ids, steps, keys.astype(np.int32), rewards.astype(np.float64))
    return contributions.finish()


# Intervals


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 7.0), (-3.0, -1.0), (2.0, 3.0), (-9.0, 0.1)])
@pytest.mark.parametrize("levels", [1, 2, 5, 12])
def test_intervals_grow_from_the_reference_to_the_whole_range(bounds, levels):
    limits = make_limits(return_bounds=bounds, levels=levels)
    low, high = bounds
    intervals = [limits.clamping_interval(level) for level in range(levels)]
    assert intervals[-1] == (0, 2**30)
    for (a, b), (outer_a, outer_b) in itertools.pairwise(intervals):
        assert outer_a <= a <= limits.centre_step <= b <= outer_b
    for a, b in intervals:
        assert a % 2 == b % 2 == 0 <= a < b <= 2**30  # so that the middle is a whole step
    zero = min(max(0.0, low), high)
    assert low + limits.centre_step * (high - low) / 2**30 == pytest.approx(zero, abs=1e-8)
    assert limits.smallest_radius << levels - 1 < 2**31  # not much too wide


# Sensitivities, by every pair of neighbours there is

UNITS = [
    (keys, most_keys, most_trajectories, add_remove)
    for keys, most_keys in ((1, 1), (2, 1), (2, 2), (3, 1))
    for most_trajectories in (1, 2)
    for add_remove in (False, True)
    if keys * most_trajectories < 5
]


def limits_of_unit(keys, most_keys, most_trajectories, add_remove, **changes):
    return make_limits(
        keys=keys,
        max_states_per_trajectory=most_keys,
        max_trajectories_per_person=most_trajectories,
        unit="person" if most_trajectories > 1 else "trajectory",
        neighbours="add-remove" if add_remove else "replace-one",
        **changes,
    )


@pytest.mark.parametrize("case", UNITS)
def test_no_neighbours_are_further_apart_in_bounds(case):
    keys, most_keys, most_trajectories, add_remove = case
    limits = limits_of_unit(*case, levels=3)
    intervals = [limits.clamping_interval(level) for level in range(3)]
    units = list(slow.units(keys, most_keys, most_trajectories, (limits.centre_step, 2**30)))
    furthest = slow.furthest((slow.histogram(u, intervals) for u in units), add_remove=add_remove)
    mechanism = make_mechanism(limits)
    delta = mechanism.bounds_sigma / mechanism.stages["bounds"]
    assert furthest <= delta <= furthest * (1 + 1e-12)
    assert delta == pytest.approx(most_trajectories * (1 if add_remove else 2**0.5))
    if not add_remove:  # planted: 1 for sqrt(2)
        assert slow.furthest(slow.histogram(u, intervals) for u in units) > most_trajectories * 1.2


def make_mechanism(limits, *, level=None):
    """A mechanism whose rule chooses this level."""
    study = make_study(
        limits.keys, privacy={"epsilon": 1.0, "delta": 1e-3}, mechanism=BOUNDS, returns=(0.0, 1.0)
    )
    terms = resolve(study, declared_size(study))
    level = limits.levels - 1 if level is None else level
    rules = SimpleNamespace(name="fixed", choose_level=lambda histogram, deviation: level)
    terms = dataclasses.replace(terms, limits=limits, shares=SHARES, rules=rules)
    return MECHANISMS[terms.mechanism](terms)


@pytest.mark.parametrize("level", [0, 3, 11])
@pytest.mark.parametrize("case", [case for case in UNITS if case[0] < 3])
def test_no_neighbours_are_further_apart_in_values(case, level):
    """For the interval of every level; returns of 0 and 7, far outside of the small ones."""
    keys, most_keys, most_trajectories, add_remove = case
    limits = limits_of_unit(*case)
    mechanism = make_mechanism(limits, level=level)
    noise, weight = mechanism.noise_after({"bounds": None}), mechanism.terms.count_weight
    units = list(slow.units(keys, most_keys, most_trajectories, (0, 2**30)))
    interval = limits.clamping_interval(level)
    furthest = slow.furthest(
        (slow.values(u, keys, interval, weight) for u in units), add_remove=add_remove
    )
    allowed = math.sqrt(noise.squared_sensitivity)
    assert furthest <= allowed * (1 + 1e-12)
    assert furthest >= allowed * (1 - 1e-9)
    a, b = interval
    alpha = mechanism.stages["values"]
    assert float(noise.step_noise[0]) >= alpha * allowed * (b - a)  # what is drawn, in grid steps
    if add_remove and a + b != 2 * limits.centre_step:
        # planted: counted from the reference, and not from the middle of the interval
        wrong = (slow.values(u, keys, interval, weight, limits.centre_step) for u in units)
        assert slow.furthest(wrong, add_remove=True) > 1.01 * allowed


# What gets noise


def test_each_stage_gets_what_its_page_says():
    limits = make_limits(max_states_per_trajectory=1, reward_bounds=(-0.5, 7.0))
    statistics = gather(limits, [[(0, 0.001), (1, -2.0)]], [[(1, 6.0)]], [[(1, -0.25)]])
    mechanism = make_mechanism(limits)
    steps = [0.001 - 0.5, 6.0, -0.25]
    levels = [
        next(j for j in range(12) if abs(x) * 2**27 <= limits.smallest_radius << j) for x in steps
    ]
    histogram = mechanism.perturb(statistics, "bounds", {}).center
    assert histogram.tolist() == [levels.count(j) for j in range(12)]
    for level in range(12):
        mechanism, bins = make_mechanism(limits, level=level), np.zeros(12)
        numbers = {"bounds": bins}
        a, b = limits.clamping_interval(level)
        grid = [round((x + 1) * 2**30 / 8) for x in steps]
        inside = [min(max(x, a), b) - (a + b) // 2 for x in grid]
        center = mechanism.perturb(statistics, "values", numbers).center
        assert center.tolist() == [inside[0], inside[1] + inside[2], 1, 2]


# Shares


@pytest.mark.parametrize("shares", [{}, {"bounds": 0.1}, SHARES, {"bounds": 0.999}])
@pytest.mark.parametrize("alpha", [0.3, 2.8469, 4.2247, 1e6 / 7])
def test_stages_spend_what_there_is_and_no_more(shares, alpha):
    alphas = stage_alphas(alpha, shares)
    spent = sum(1 / Fraction(part) ** 2 for part in alphas.values())
    whole = 1 / Fraction(alpha) ** 2
    assert whole * (1 - Fraction(1, 10**13)) <= spent <= whole
    assert list(alphas) == [name for name in SHARES if name in shares] + ["values"]
    if not shares:
        assert alphas == {"values": alpha}
    # planted: a share that is not charged
    forgotten = {**alphas, "values": alpha, "bounds": alphas.get("bounds", 10 * alpha)}
    assert sum(1 / Fraction(part) ** 2 for part in forgotten.values()) > whole


@pytest.mark.parametrize("shares", [{"bounds": 1.0}, {"bounds": -0.1}, {"other": 0.1}])
def test_invalid_shares_are_refused(shares):
    with refused("stage-shares-invalid"):
        stage_alphas(1.0, shares)


# The worst pair of every stage at once

FAR_APART = ([[(0, 7.0), (1, 7.0)]], [[(0, -1.0), (1, 0.0)]])


def distance_in_stages(mechanism, here, there):
    """How far apart two data sets are in units of the noise, all stages together."""
    pairs = (
        (mechanism.perturb(here, stage, {}), mechanism.perturb(there, stage, {}))
        for stage in mechanism.stages
    )
    return math.hypot(*(np.linalg.norm((p.center - q.center) / p.deviations) for p, q in pairs))


def test_a_pair_that_differs_in_every_stage_is_within_the_promise(monkeypatch):
    """And is not where a share is not charged: the planted mistake."""
    limits = make_limits(reward_bounds=(-1.0, 6.0))
    here, there = (gather(limits, unit) for unit in FAR_APART)
    mechanism = make_mechanism(limits)
    allowed = 1 / mechanism.calibration.alpha
    distance = distance_in_stages(mechanism, here, there)
    assert 0.5 * allowed < distance <= allowed
    monkeypatch.setitem(mechanism.stages, "values", mechanism.calibration.alpha)
    uncharged = StatisticsNoise(mechanism.terms, mechanism.calibration.alpha, limits.levels - 1)
    monkeypatch.setattr(mechanism, "noise", uncharged)
    assert distance_in_stages(mechanism, here, there) > 1.05 * allowed


STAGED_STUDY = make_study(
    2,
    discount=1.0,
    returns=(0.0, 1.0),
    privacy={"epsilon": 1.0, "delta": 0.05},
    mechanism={**BOUNDS, "stage_shares": {"bounds": 0.5}},
)
PAIR = (
    [[(0, 1.0), (1, 1.0)]] * 3 + [[(0, 1.0), (1, 1.0)]],
    [[(0, 1.0), (1, 1.0)]] * 3 + [[(0, 0.0)]],
)


@pytest.mark.long
def test_real_neighbours_through_all_stages_are_never_rejected():
    assert not audits.audit_release(STAGED_STUDY, *PAIR, releases=1500).rejected


@pytest.mark.long
def test_an_audit_rejects_a_share_that_is_not_charged(monkeypatch):
    def uncharged(alpha, shares):
        return {**stage_alphas(alpha, shares), "values": alpha / 1.5, "bounds": alpha}

    monkeypatch.setattr("privalue.core.mechanisms.stage_alphas", uncharged)
    assert audits.audit_release(STAGED_STUDY, *PAIR, releases=3000).rejected


# Choices


def draw_stages(mechanism, statistics, seed=3):
    return draw(mechanism, statistics, SeededForExperimentsOnly(seed))


@pytest.mark.parametrize(
    "level", [-1, 12, 2.5, math.nan, "3", None, [1], 10**30, np.array([1, 2])], ids=str
)
def test_an_invalid_bound_is_not_used(level):
    limits = make_limits()
    mechanism = make_mechanism(limits)
    mechanism.rules = SimpleNamespace(choose_level=lambda *_: level)
    statistics = gather(limits, [[(0, 1.0)]])
    numbers = draw_stages(mechanism, statistics)
    deviations = mechanism.perturb(statistics, "values", numbers).deviations
    assert deviations == pytest.approx(mechanism.noise_after({}).deviations)
    assert mechanism.noise_after(numbers) is mechanism.noise


def test_a_rule_that_fails_chooses_nothing():
    def fails(*_):
        raise ZeroDivisionError

    limits = make_limits()
    mechanism = make_mechanism(limits)
    mechanism.rules = SimpleNamespace(choose_level=fails)
    numbers = draw_stages(mechanism, gather(limits, [[(0, 1.0)]]))
    assert mechanism.noise_after(numbers) is mechanism.noise
    assert list(numbers) == ["bounds", "values"]


def test_a_rule_sees_released_numbers_and_nothing_else():
    """Its arguments are the noisy histogram, read-only, and the public scale of its noise."""
    limits, calls = make_limits(), []

    def choose(histogram, deviation):
        calls.append((histogram, deviation))
        return 11

    mechanism = make_mechanism(limits)
    mechanism.rules = SimpleNamespace(choose_level=choose)
    numbers = draw_stages(mechanism, gather(limits, [[(0, 1.0)]]))
    ((histogram, deviation),) = calls
    assert histogram is numbers["bounds"]
    assert not histogram.flags.writeable
    assert deviation == mechanism.bounds_sigma


def test_candidates_that_are_not_chosen_do_not_affect_a_release():
    """Returns that differ beyond the bound that is chosen give the same release, to the bit."""
    limits = make_limits(return_bounds=(0.0, 8.0))
    one = gather(limits, [[(0, 3.9), (1, 1.0)]])  # 4.9 at key 0, 1.0 at key 1
    other = gather(limits, [[(0, 3.4), (1, 1.5)]])
    a, b = (draw_stages(make_mechanism(limits, level=2), data) for data in (one, other))
    assert not np.array_equal(one.return_steps, other.return_steps)
    assert np.array_equal(a["values"], b["values"])
    # at a bound that both reach they differ
    a, b = (draw_stages(make_mechanism(limits, level=11), data) for data in (one, other))
    assert not np.array_equal(a["values"], b["values"])


# Releases


def chain(count, states=6):
    """Trajectories that begin anywhere and go on to the last state, where they get 1."""
    generator = np.random.default_rng(4)
    return [
        [(s, float(s == states - 1)) for s in range(generator.integers(states), states)]
        for _ in range(count)
    ]


CHAIN = chain(3000)


def release_chain(stages, *, seed=5, data=CHAIN, **sections):
    study = make_study(6, discount=0.99, mechanism={**SSP, "stages": stages}, **sections)
    return release_anyway(study, data, entropy=SeededForExperimentsOnly(seed))


@pytest.mark.parametrize("stages", ["one", ["bounds"]], ids=str)
def test_a_release_says_what_its_stages_did(stages):
    release = release_chain(stages)
    first = [] if stages == "one" else stages
    assert [stage.name for stage in release.stages] == [*first, "values"]
    spent = sum(1 / Fraction(stage.alpha) ** 2 for stage in release.stages)
    assert spent <= 1 / Fraction(release.noise.alpha) ** 2
    assert release.gaussian_mu == pytest.approx(
        math.sqrt(sum(stage.mu**2 for stage in release.stages))
    )
    assert pv.Release.parse(release.to_json()) == release
    again = pv.refit(release)
    assert [v.value for v in again.values] == pytest.approx([v.value for v in release.values])
    assert [v.low for v in again.values] == pytest.approx([v.low for v in release.values])
    assert again.stages == release.stages
    values = json.loads(release.to_json())["stages"][-1]
    assert values["name"] == "values"
    assert "numbers" not in values


def test_a_bound_is_chosen_and_makes_values_better():
    """Rewards from 0 to 1 imply returns of at most 100; none is above 1."""
    loose, bounded = release_chain("one"), release_chain(["bounds"])
    bound = bounded.stages[0].chosen
    assert bound.low == 0
    assert 1 <= bound.high < 4
    assert bound.beyond.low <= bound.beyond.value <= bound.beyond.high < 0.1
    truth = [0.99 ** (5 - s) for s in range(6)]
    errors = [
        max(abs(v.value - f) for v, f in zip(release.values, truth, strict=True))
        for release in (loose, bounded)
    ]
    assert errors[1] < 0.1 < errors[0]
    for entry, value in zip(bounded.values, truth, strict=True):
        assert bound.low <= entry.low <= entry.high <= bound.high
        assert entry.total_band_low <= value <= entry.total_band_high


# The study
