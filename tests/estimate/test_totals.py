"""Total intervals as a user meets them: in releases, refits, files, on pages and screens."""

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from oracles import differences as literal
from oracles.estimates import noisy_statistics
from oracles.studies import in_sections
from privalue.estimate import verdict
from privalue.estimate.intervals import (
    Located,
    difference_ends,
    distinct_values,
    total_intervals,
)
from privalue.estimate.ratios import normal_quantile, ratio_intervals

LABELS = ["ill", "better", "well"]
PEOPLE = [
    [("ill", 0.0), ("better", 0.0), ("well", 1.0)],
    [("ill", 0.0), ("ill", 0.0), ("better", 0.0), ("well", 0.0)],
] * 3000
START = {"ill": 0.7, "well": 0.3}
TOTALS = ("total_low", "total_high", "total_band_low", "total_band_high")


def described(start=None, mechanism=None, **privacy):
    return in_sections(
        privacy={"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory", **privacy},
        values={
            "discount": 0.9,
            "rewards": (0.0, 1.0),
            "returns": (0.0, 1.0),
            "start": start or START,
        },
        states={"labels": LABELS},
        mechanism=mechanism or {"name": "dp-ssp"},
    )


def seeded(study, data=PEOPLE):
    return pv.release(study, data, entropy=pv.SeededForExperimentsOnly(3))


def by_person(count=1500, each=4):
    rows = [
        (who, trajectory, step, state, reward)
        for who in range(count)
        for trajectory in range(each)
        for step, (state, reward) in enumerate(PEOPLE[who % 2])
    ]
    return pd.DataFrame(rows, columns=["person", "trajectory", "step", "state", "reward"])


def literally(release, alike):
    """The intervals again, from what the release holds."""
    kept = release.statistics
    noisy = noisy_statistics(
        return_bounds=(0.0, 1.0),
        **{name: np.array(getattr(kept, name)) for name in type(kept).model_fields},
    )
    z = normal_quantile(release.level)
    return total_intervals(noisy, z, ratio_intervals(noisy, z), alike=alike)


def test_a_release_has_them_first_and_they_hold_the_others():
    release = seeded(described())
    assert list(release.values.columns)[:4] == ["state", "value", "total_low", "total_high"]
    for entry in release.values:
        assert entry.total_band_low <= entry.total_low < entry.low <= entry.value
        assert entry.value <= entry.high < entry.total_high <= entry.total_band_high
    within = release.policy.row(0)
    assert within.total_low < within.low <= release.policy_value
    assert release.policy_value <= within.high < within.total_high
    low, high = literally(release, 1)
    assert [entry.total_low for entry in release.values] == pytest.approx(low)
    assert [entry.total_high for entry in release.values] == pytest.approx(high)


def test_a_start_in_one_state_has_the_interval_of_that_state():
    release = seeded(described(start={"better": 1.0}))
    assert release.policy.total_low[0] == release.total_low[1]
    assert release.policy.total_high[0] == release.total_high[1]


def test_persons_may_have_trajectories_that_are_alike():
    """The same noise would have narrower intervals if four trajectories were four strangers."""
    release = seeded(described(unit="person", max_trajectories_per_person=4), by_person())
    low, high = literally(release, 4)
    assert [entry.total_low for entry in release.values] == pytest.approx(low)
    assert [entry.total_high for entry in release.values] == pytest.approx(high)
    strangers = literally(release, 1)
    assert (low < strangers[0]).all()
    assert (high[:2] > strangers[1][:2]).all()
    refitted = pv.refit(release, shrinkage=False)
    assert [entry.total_low for entry in refitted.values] == pytest.approx(low)


def test_a_refit_with_features_keeps_intervals_for_the_values_themselves():
    fresh = seeded(described())
    coarse = pv.refit(fresh, size=3)
    for entry, own in zip(coarse.values, fresh.values, strict=True):
        assert entry.total_low <= min(entry.low, own.total_low + 1e-9)
        assert entry.total_high >= max(entry.high, own.total_high - 1e-9)


# Returns that a stage restricted


def test_a_release_with_a_bound_of_its_own_says_so():
    study = pv.Study(
        epsilon=1.0,
        delta=1e-5,
        unit="trajectory",
        discount=0.9,
        rewards=(0.0, 1.0),
        start=START,
        states=LABELS,
        mechanism="dp-ssp",
        stages=["bounds"],
    )
    release = seeded(study)
    stage = release.stages[0]
    assert (stage.name, stage.chosen.high < 10.0) == ("bounds", True)
    assert (release.restriction.low, release.restriction.high) == (0.0, stage.chosen.high)
    for entry in release.values:
        assert 0.0 <= entry.total_low <= entry.low
        assert entry.high <= entry.total_high <= stage.chosen.high
    again = pv.refit(release, start=START)
    assert again.restriction == release.restriction
    assert again.values == release.values
    assert again.policy == release.policy
    assert seeded(described()).restriction is None


LONG = ["ward", "home"]


def stays(count, rng):
    """1.5% stay for 90 days, the others up to 5: the return from the first visit is the days."""
    long = rng.random(count) < 0.015
    days = np.where(long, 90, rng.integers(1, 6, count))
    return [
        [("ward", 1.0)] * int(stay) if at % 2 else [("home", 0.0), *[("ward", 1.0)] * int(stay)]
        for at, stay in enumerate(days)
    ]


def test_a_restricted_mean_is_covered_where_few_have_a_very_long_stay():
    """40 releases, each with people of its own; the bound is chosen anew in each of them."""
    rng = np.random.default_rng(20261118)
    study = pv.Study(
        states=LONG,
        discount=0.99,
        rewards=(0, 1),
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
    )
    hits, unrestricted, told = np.zeros(2), np.zeros(2), 0
    for at in range(40):
        noise = pv.SeededForExperimentsOnly(at)
        release = pv.release(study, stays(3000, rng), entropy=noise, accept_useless=True)
        held = release.restriction
        sums = (1 - 0.99 ** np.arange(1, 91)) / 0.01
        shares = np.zeros(90)
        shares[:5], shares[89] = 0.985 / 5, 0.015
        for state, discount in enumerate((1.0, 0.99)):
            record, cut = release[LONG[state]], 1e9 if held is None else held.high
            truth = shares @ np.minimum(discount * sums, cut)
            hits[state] += record.total_low <= truth <= record.total_high
            whole = shares @ (discount * sums)
            unrestricted[state] += record.total_low <= whole <= record.total_high
        share = release.stages[0].chosen.beyond
        told += held is None or share.low <= 0.015 <= share.high
    assert (hits >= 37).all()
    assert told >= 37
    assert (unrestricted <= 20).all()  # of the other number it is no interval, and says so


# Two numbers, many numbers


def some_intervals(rng, count, bounds=(0.0, 1.0)):
    low = np.where(rng.random(count) < 0.2, bounds[0], rng.uniform(0, 0.6, count))
    high = np.where(rng.random(count) < 0.2, bounds[1], low + rng.uniform(0, 0.4, count))
    unknown = np.where(rng.random(count) < 0.5, 0.0, rng.uniform(0, 0.3, count))
    return rng.uniform(-0.2, 1.2, count), low, np.maximum(high, low), unknown


@pytest.mark.parametrize("independent", [True, False])
def test_an_interval_of_a_difference_is_that_of_the_literal_twin(independent):
    rng = np.random.default_rng(8)
    both = [some_intervals(rng, 500) for _ in range(2)]
    named = ("own", "low", "high", "unknown")
    more, less = (Located(**dict(zip(named, each, strict=True))) for each in both)
    low, high = difference_ends(more, less, (0.0, 1.0), independent=independent)
    for at in range(500):
        pair = ([column[at] for column in each] for each in both)
        ends = literal.difference_ends(*pair, (0.0, 1.0), independent=independent)
        assert (low[at], high[at]) == pytest.approx(ends, abs=1e-12)
    assert (low <= high).all()


def test_squares_at_a_bound_would_not_cover():
    """The planted mistake: an end at a bound is no quantile, and squares take it for one."""
    rng, hits, planted = np.random.default_rng(9), 0, 0
    truth, sd = np.array([0.97, 0.5]), np.array([0.05, 0.15])
    for _ in range(4000):
        own = truth + sd * rng.standard_normal(2)
        ends = np.clip([own - 1.96 * sd, own + 1.96 * sd], 0.0, 1.0)
        more, less = (
            Located(own=own[[at]], low=ends[0, [at]], high=ends[1, [at]]) for at in (0, 1)
        )
        # No bound is near: the same ends, taken for quantiles.
        for kind, bounds in (("held", (0.0, 1.0)), ("planted", (-9.0, 9.0))):
            low, high = difference_ends(more, less, bounds)
            inside = low[0] <= truth[0] - truth[1] <= high[0]
            hits += kind == "held" and inside
            planted += kind == "planted" and inside
    assert hits / 4000 >= 0.95
    assert planted < hits


def test_as_many_values_differ_as_points_are_needed():
    rng = np.random.default_rng(10)
    found = set()
    for _ in range(300):
        low = rng.uniform(0, 1, 6)
        high = low + rng.uniform(0, 0.5, 6)
        count = distinct_values(low, high)
        assert count == literal.distinct_values(list(zip(low, high, strict=True)))
        assert (count > 1) == (low.max() > high.min())
        found.add(count)
    assert found >= {1, 2, 3}


@pytest.mark.parametrize(("gap", "different"), [(0.0, 1), (0.8, 2)])
def test_the_verdict_of_a_release_is_made_of_its_bands(gap, different):
    rng = np.random.default_rng(8)
    people = [
        [(str(at % 6), float(rng.random() < 0.5 + (0.5 - at % 2) * gap))] for at in range(6000)
    ]
    study = pv.Study(
        states=6, discount=0.9, returns=(0, 1), epsilon=1.0, delta=1e-6, unit="trajectory"
    )
    release = pv.release(study, people, seed=1)
    found = verdict(release)
    assert found.different_values == different
    assert found.told_apart == (release.total_band_low.max() > release.total_band_high.min())
    assert found.common_low <= 0.5 <= found.common_high
    assert found.common_low < found.common_value < found.common_high
    other = pv.Study(
        **{"states": 6, "discount": 0.9, "returns": (0, 1), "epsilon": 1.0, "delta": 1e-6},
        **{"unit": "trajectory", "mechanism": "dp-lsw"},
    )
    assert verdict(pv.release(other, people, seed=1, accept_useless=True)) is None
