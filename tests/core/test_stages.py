"""Stages: what each adds up, how far neighbours differ, what it may choose, what it spends."""

import dataclasses
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import privalue as pv
from oracles import limits as usual
from oracles import stages as slow
from oracles.studies import release_anyway, study
from privalue import audit
from privalue.core import (
    GRID_STEPS,
    MECHANISMS,
    Contributions,
    SeededForExperimentsOnly,
    Stage,
    StageRules,
    StatisticsNoise,
    draw,
    stage_alphas,
)
from privalue.core.mechanisms import bounds_sensitivity
from privalue.curator import prepare
from privalue.errors import StudyError
from privalue.study import declared_size, resolve

SSP = {"name": "dp-ssp", "calibration": "exact"}
BOUNDS = {**SSP, "stages": ["bounds"]}
SHARES = {"bounds": 0.5}


def limits(**changes):
    here = {"keys": 2, "return_bounds": (-1.0, 7.0), "max_states_per_trajectory": 2, "levels": 12}
    return usual.limits(**{**here, **changes})


def gathered(held, *units):
    """The statistics of units: lists of trajectories, each a list of (key, reward)."""
    contributions = Contributions(held)
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
    held = limits(return_bounds=bounds, levels=levels)
    low, high = bounds
    intervals = [held.interval(level) for level in range(levels)]
    assert intervals[-1] == (0, 2**30)
    for (a, b), (outer_a, outer_b) in itertools.pairwise(intervals):
        assert outer_a <= a <= held.reference <= b <= outer_b
    for a, b in intervals:
        assert a % 2 == b % 2 == 0 <= a < b <= 2**30  # so that the middle is a whole step
    zero = min(max(0.0, low), high)
    assert low + held.reference * (high - low) / 2**30 == pytest.approx(zero, abs=1e-8)
    assert [held.nearest << level for level in range(levels)][-1] < 2**31  # not much too wide


# Sensitivities, by every pair of neighbours there is

UNITS = [
    (keys, most_keys, most_trajectories, add_remove)
    for keys, most_keys in ((1, 1), (2, 1), (2, 2), (3, 1))
    for most_trajectories in (1, 2)
    for add_remove in (False, True)
    if keys * most_trajectories < 5
]


def held_to(keys, most_keys, most_trajectories, add_remove, **changes):
    return limits(
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
    held = held_to(*case, levels=3)
    intervals = [held.interval(level) for level in range(3)]
    units = list(slow.units(keys, most_keys, most_trajectories, (held.reference, 2**30)))
    found = slow.furthest((slow.histogram(u, intervals) for u in units), add_remove=add_remove)
    delta = bounds_sensitivity(held)
    assert found <= delta <= found * (1 + 1e-12)
    assert delta == pytest.approx(most_trajectories * (1 if add_remove else 2**0.5))
    if not add_remove:  # planted: 1 for sqrt(2)
        assert slow.furthest(slow.histogram(u, intervals) for u in units) > most_trajectories * 1.2


def staged(held, *, level=None):
    """A mechanism whose rule chooses what it is told."""
    described = study(
        held.keys, privacy={"epsilon": 1.0, "delta": 1e-3}, mechanism=BOUNDS, returns=(0.0, 1.0)
    )
    terms = resolve(described, declared_size(described))
    rules = StageRules(
        name="told",
        bound=lambda histogram, deviation: level if level is not None else held.levels - 1,
    )
    constants = dataclasses.replace(terms.constants, shares=SHARES, rules=rules)
    return MECHANISMS[terms.mechanism](dataclasses.replace(terms, limits=held, constants=constants))


@pytest.mark.parametrize("level", [0, 3, 11])
@pytest.mark.parametrize("case", [case for case in UNITS if case[0] < 3])
def test_no_neighbours_are_further_apart_in_values(case, level):
    """For the interval of every level; returns of 0 and 7, far outside of the small ones."""
    keys, most_keys, most_trajectories, add_remove = case
    held = held_to(*case)
    mechanism = staged(held)
    noise, weight = mechanism.noise_at(level), mechanism.terms.constants.count_weight
    units = list(slow.units(keys, most_keys, most_trajectories, (0, 2**30)))
    interval = held.interval(level)
    found = slow.furthest(
        (slow.values(u, keys, interval, weight) for u in units), add_remove=add_remove
    )
    allowed = math.sqrt(noise.squared_sensitivity)
    assert found <= allowed * (1 + 1e-12)
    assert found >= allowed * (1 - 1e-9)
    a, b = interval
    alpha = mechanism.stages["values"]
    assert float(noise.of_steps[0]) >= alpha * allowed * (b - a)  # what is drawn, in grid steps
    if add_remove and a + b != 2 * held.reference:
        # planted: counted from the reference, and not from the middle of the interval
        wrong = (slow.values(u, keys, interval, weight, held.reference) for u in units)
        assert slow.furthest(wrong, add_remove=True) > 1.01 * allowed


# What gets noise


def test_each_stage_gets_what_its_page_says():
    held = limits(max_states_per_trajectory=1, reward_bounds=(-0.5, 7.0))
    statistics = gathered(held, [[(0, 0.001), (1, -2.0)]], [[(1, 6.0)]], [[(1, -0.25)]])
    mechanism = staged(held)
    steps = [0.001 - 0.5, 6.0, -0.25]
    levels = [next(j for j in range(12) if abs(x) * 2**30 / 8 <= held.nearest << j) for x in steps]
    found = mechanism.perturb(statistics, "bounds").center
    assert found.tolist() == [levels.count(j) for j in range(12)]
    for level in range(12):
        mechanism, bins = staged(held, level=level), np.zeros(12)
        released = [Stage(name="bounds", alpha=1.0, numbers=bins, sigma=None)]
        a, b = held.interval(level)
        grid = [round((x + 1) * 2**30 / 8) for x in steps]
        inside = [min(max(x, a), b) - (a + b) // 2 for x in grid]
        center = mechanism.perturb(statistics, "values", released).center
        assert center.tolist() == [inside[0], inside[1] + inside[2], 1, 2]


# Shares


@pytest.mark.parametrize("shares", [{}, {"bounds": 0.1}, SHARES, {"bounds": 0.999}])
@pytest.mark.parametrize("alpha", [0.3, 2.8469, 4.2247, 1e6 / 7])
def test_stages_spend_what_there_is_and_no_more(shares, alpha):
    alphas = stage_alphas(alpha, shares)
    spent = sum(1 / Fraction(each) ** 2 for each in alphas.values())
    whole = 1 / Fraction(alpha) ** 2
    assert whole * (1 - Fraction(1, 10**13)) <= spent <= whole
    assert list(alphas) == [name for name in SHARES if name in shares] + ["values"]
    if not shares:
        assert alphas == {"values": alpha}
    # planted: a share that is not charged
    forgotten = {**alphas, "values": alpha, "bounds": alphas.get("bounds", 10 * alpha)}
    assert sum(1 / Fraction(each) ** 2 for each in forgotten.values()) > whole


@pytest.mark.parametrize("shares", [{"bounds": 1.0}, {"bounds": -0.1}, {"other": 0.1}])
def test_shares_that_are_none(shares):
    with pytest.raises(StudyError, match="no shares of a whole"):
        stage_alphas(1.0, shares)


# The worst pair of every stage at once

FAR_APART = ([[(0, 7.0), (1, 7.0)]], [[(0, -1.0), (1, 0.0)]])


def distance_in_stages(mechanism, here, there):
    """How far apart two data sets are in units of the noise, all stages together."""
    pairs = (
        (mechanism.perturb(here, stage), mechanism.perturb(there, stage))
        for stage in mechanism.stages
    )
    return math.hypot(*(np.linalg.norm((p.center - q.center) / p.deviations) for p, q in pairs))


def test_a_pair_that_differs_in_every_stage_is_within_the_promise(monkeypatch):
    """And is not where a share is not charged: the planted mistake."""
    held = limits(reward_bounds=(-1.0, 6.0))
    here, there = (gathered(held, unit) for unit in FAR_APART)
    mechanism = staged(held)
    allowed = 1 / mechanism.calibration.alpha
    found = distance_in_stages(mechanism, here, there)
    assert 0.5 * allowed < found <= allowed
    monkeypatch.setitem(mechanism.stages, "values", mechanism.calibration.alpha)
    uncharged = StatisticsNoise(mechanism.terms, mechanism.calibration.alpha, held.levels - 1)
    monkeypatch.setattr(mechanism, "noise", uncharged)
    assert distance_in_stages(mechanism, here, there) > 1.05 * allowed


def test_each_stage_attains_its_own_constant():
    held = limits(reward_bounds=(-1.0, 6.0))
    mechanism = staged(held)
    here, there = (gathered(held, unit) for unit in FAR_APART)
    for stage in ("bounds", "values"):
        p, q = (mechanism.perturb(each, stage) for each in (here, there))
        distance = np.linalg.norm((p.center - q.center) / p.deviations)
        assert distance <= 1 / mechanism.stages[stage]
        assert distance >= 0.7 / mechanism.stages[stage]


STAGED_STUDY = study(
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
    assert not audit.audit_release(STAGED_STUDY, *PAIR, releases=1500).rejected


@pytest.mark.long
def test_an_audit_rejects_a_share_that_is_not_charged(monkeypatch):
    def uncharged(alpha, shares):
        return {**stage_alphas(alpha, shares), "values": alpha / 1.5, "bounds": alpha}

    monkeypatch.setattr("privalue.core.mechanisms.stage_alphas", uncharged)
    assert audit.audit_release(STAGED_STUDY, *PAIR, releases=3000).rejected


# Choices


def drawn(mechanism, statistics, seed=3):
    return draw(mechanism, statistics, SeededForExperimentsOnly(seed))


@pytest.mark.parametrize(
    "level", [-1, 12, 2.5, math.nan, "3", None, [1], 10**30, np.array([1, 2])], ids=str
)
def test_a_bound_that_is_none_is_not_used(level):
    held = limits()
    mechanism = staged(held)
    rules = dataclasses.replace(mechanism.terms.constants.rules, bound=lambda *_: level)
    mechanism._constants = dataclasses.replace(mechanism.terms.constants, rules=rules)
    found = drawn(mechanism, gathered(held, [[(0, 1.0)]]))
    assert found.stages[1].sigma == pytest.approx(mechanism.noise_at(11).deviations)
    assert mechanism.level(found.stages) is None


def test_a_rule_that_fails_chooses_nothing():
    def fails(*_):
        raise ZeroDivisionError

    held = limits()
    mechanism = staged(held)
    rules = StageRules(name="fails", bound=fails)
    mechanism._constants = dataclasses.replace(mechanism.terms.constants, rules=rules)
    found = drawn(mechanism, gathered(held, [[(0, 1.0)]]))
    assert mechanism.level(found.stages) is None
    assert [stage.name for stage in found.stages] == ["bounds", "values"]


def test_a_rule_sees_released_numbers_and_nothing_else():
    """The same words of noise around two data sets: what a rule is given differs by no more."""
    held, seen = limits(), []

    def bound(histogram, deviation):
        seen.append((histogram, deviation))
        return 11

    mechanism = staged(held)
    rules = dataclasses.replace(mechanism.terms.constants.rules, bound=bound)
    mechanism._constants = dataclasses.replace(mechanism.terms.constants, rules=rules)
    found = drawn(mechanism, gathered(held, [[(0, 1.0)]]))
    ((histogram, deviation),) = seen
    assert histogram is found.stages[0].numbers
    assert not histogram.flags.writeable
    assert deviation == mechanism.bounds_sigma


def test_nothing_of_a_candidate_that_was_not_chosen_leaves():
    """Returns that differ beyond the bound that is chosen give the same release, to the bit."""
    held = limits(return_bounds=(0.0, 8.0))
    one = gathered(held, [[(0, 3.9), (1, 1.0)]])  # 4.9 at key 0, 1.0 at key 1
    other = gathered(held, [[(0, 3.4), (1, 1.5)]])
    a, b = (drawn(staged(held, level=2), each) for each in (one, other))
    assert not np.array_equal(one.return_steps, other.return_steps)
    for first, second in zip(a.stages, b.stages, strict=True):
        if first.name == "bounds":
            continue
        assert np.array_equal(first.numbers, second.numbers)
    # at a bound that both reach they differ
    a, b = (drawn(staged(held, level=11), each) for each in (one, other))
    assert not np.array_equal(a.numbers, b.numbers)


def test_the_noise_follows_what_was_chosen():
    held = limits(return_bounds=(0.0, 8.0))
    narrow, wide = (staged(held).noise_at(j) for j in (9, 11))
    assert narrow.sigma == pytest.approx(wide.sigma / 4)
    assert narrow.of_steps == pytest.approx(wide.of_steps / 4)
    assert narrow.of_counts == pytest.approx(wide.of_counts)
    assert (narrow.bounds, wide.bounds) == ((0.0, 2.0), (0.0, 8.0))


# Releases


def chain(count, states=6):
    """Trajectories that begin anywhere and go on to the last state, where they get 1."""
    generator = np.random.default_rng(4)
    return [
        [(s, float(s == states - 1)) for s in range(generator.integers(states), states)]
        for _ in range(count)
    ]


CHAIN = chain(3000)


def released(stages, *, seed=5, data=CHAIN, **sections):
    described = study(6, discount=0.99, mechanism={**SSP, "stages": stages}, **sections)
    return release_anyway(described, data, entropy=SeededForExperimentsOnly(seed))


@pytest.mark.parametrize("stages", ["one", ["bounds"]], ids=str)
def test_a_release_says_what_its_stages_did(stages):
    release = released(stages)
    asked = [] if stages == "one" else stages
    assert [stage.name for stage in release.stages] == [*asked, "values"]
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
    """Rewards of 0 to 1 say that returns are at most 100; none is above 1."""
    loose, bounded = released("one"), released(["bounds"])
    chosen = bounded.stages[0].chosen
    assert chosen.low == 0
    assert 1 <= chosen.high < 4
    assert chosen.beyond.low <= chosen.beyond.value <= chosen.beyond.high < 0.1
    truth = [0.99 ** (5 - s) for s in range(6)]
    errors = [
        max(abs(v.value - f) for v, f in zip(each.values, truth, strict=True))
        for each in (loose, bounded)
    ]
    assert errors[1] < 0.1 < errors[0]
    for entry, value in zip(bounded.values, truth, strict=True):
        assert chosen.low <= entry.low <= entry.high <= chosen.high
        assert entry.total_band_low <= value <= entry.total_band_high


def test_the_curator_sees_the_noise_of_what_stages_would_choose():
    """Returns are at most 1 of 100: what a stage for bounds saves is most of the noise."""
    one, staged = (
        pv.inspect(study(6, discount=0.99, mechanism={**SSP, "stages": stages}), CHAIN)
        for stages in ("one", ["bounds"])
    )
    whole, found = one.private_fields(), staged.private_fields()
    assert found["likely_bounds"][0] == 0
    assert 1 <= found["likely_bounds"][1] < 4
    assert found["sigma"] < 0.1 * whole["sigma"]
    assert max(found["noise_by_state"]) < 0.1 * max(whole["noise_by_state"])
    assert "likely_bounds" not in whole
    assert found["values"] == whole["values"]


def test_nothing_is_said_about_returns_beyond_the_studys_own_bounds():
    """The histogram ends there: "none, exactly" would be more than it knows."""
    release = released(["bounds"], data=chain(3))  # so few that no bin is clear of its noise
    chosen = release.stages[0].chosen
    assert (chosen.low, chosen.high) == pytest.approx((0.0, 100.0))
    assert chosen.beyond is None
    assert pv.Release.parse(release.to_json()) == release


def test_an_unvisited_value_outside_of_the_bound_is_no_failure():
    release = released(["bounds"], values={"unvisited": 90.0})
    assert max(entry.value for entry in release.values) <= release.stages[0].chosen.high


def test_one_stage_is_what_it_was():
    """No stage but the values: the whole of alpha, and the noise of it."""
    described = study(6, discount=0.99, mechanism={**SSP, "stages": "one"})
    mechanism = prepare(described).mechanism
    assert mechanism.stages == {"values": mechanism.calibration.alpha}


# The study


@pytest.mark.parametrize("stages", ["two", [], ["bounds", "bounds"], ["values"], [3]])
def test_stages_that_a_study_may_not_have(stages):
    with pytest.raises(StudyError) as refused:
        study(3, mechanism={**SSP, "stages": stages})
    assert refused.value.code == "key-invalid"


@pytest.mark.parametrize("share", [0.0, True, math.nan, 1.0, "0.1"])
def test_shares_that_a_stage_may_not_have(share):
    for shares in (share, {"bounds": share}, {"values": 0.1}):
        with pytest.raises(StudyError) as refused:
            study(3, mechanism={**SSP, "stage_shares": shares})
        assert refused.value.code == "key-invalid"
    with pytest.raises(StudyError) as refused:
        study(3, mechanism={**SSP, "stages": "one", "stage_shares": {"bounds": 0.2}})
    assert refused.value.code == "share-without-stage"


@pytest.mark.parametrize("key", ["stages", "stage_shares"])
@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_other_mechanisms_have_no_stages(name, key):
    with pytest.raises(StudyError, match=f"{key} applies to dp-ssp only"):
        study(3, mechanism={"name": name, key: "one" if key == "stages" else {"bounds": 0.1}})


def test_so_many_states_have_no_bounds_stage():
    with pytest.raises(StudyError, match="is for at most 83,333 states, and there are 100,000"):
        prepare(study(100_000, mechanism={**SSP, "stages": ["bounds"]}))
    assert prepare(study(100_000, mechanism={**SSP, "stages": "one"})).mechanism is not None


@pytest.mark.parametrize(
    ("returns", "rewards", "reach"),
    [((0.0, 10.0), (0.0, 1.0), 1.0), ((-20.0, 20.0), (-1.0, 0.5), 1.0), ((5.0, 99.0), (5, 8), 3.0)],
)
def test_one_of_the_candidates_is_how_far_a_single_reward_reaches(returns, rewards, reach):
    """With one reward at the end no return is further away, and nothing is wasted."""
    found = limits(return_bounds=returns, reward_bounds=rewards)
    step = (returns[1] - returns[0]) / GRID_STEPS
    reaches = np.array([(found.nearest << level) * step for level in range(12)])
    assert min(abs(reaches - reach)) < 1e-4 * reach
    assert (reaches >= reach).sum() >= 1
    assert found.interval(11) == (0, GRID_STEPS)
    assert all(end % 2 == 0 for level in range(12) for end in found.interval(level))
