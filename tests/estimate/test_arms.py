"""Differences between arms: intervals that cover, by the levels of both; policies; refits."""

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from oracles import studies
from oracles.estimates import estimate, noisy_statistics
from oracles.refusals import refused
from privalue.report import describe
from privalue.study import design

SSP = {"name": "dp-ssp", "calibration": "exact"}
SEED = 20261116  # of worlds that nothing was tuned on


def make_study(states=3, arms=2, **sections):
    labels = ["control", "treated", "other"][:arms]
    mechanism = {**SSP, **sections.pop("mechanism", {})}
    return studies.make_study(
        states, mechanism=mechanism, arms={"labels": labels}, returns=(0.0, 1.0), **sections
    )


def people(count, gap=0.3):
    """Those of the second arm fare better."""
    rng = np.random.default_rng(5)
    for arm in rng.integers(2, size=count).tolist():
        label = ["control", "treated"][arm]
        end = float(rng.random() < 0.3 + gap * arm)
        yield [(int(rng.integers(2)), 0.0, label), (2, end, label)]


def release_of(study, count=4000):
    return pv.release(
        study, list(people(count)), entropy=pv.SeededForExperimentsOnly(1), accept_useless=True
    )


def persons(trajectories):
    """Two trajectories of each person, perhaps in two arms; and a person for each of them."""
    rows = [
        (f"p{at // 2}", f"p{at}", f"t{at}", step, state, reward, arm)
        for at, episode in enumerate(trajectories)
        for step, (state, reward, arm) in enumerate(episode)
    ]
    heads = ["who", "alone", "trajectory", "step", "state", "reward", "arm"]
    return pd.DataFrame(rows, columns=heads)


def test_half_widths_are_summed_where_a_person_may_be_in_both_arms():
    """Only then: not where the column of persons is not read, nor where they are the unit."""
    rows = persons(list(people(4000)))
    widths = {}
    both = {"unit": "person", "max_trajectories_per_person": 1}
    for name, data, privacy in (
        ("strangers", {}, {}),
        ("persons in the data", {"person": "who", "trajectory": "trajectory"}, {}),
        ("one of each", {"person": "alone"}, {}),
        ("unit", {"person": "alone", "trajectory": "trajectory"}, both),
    ):
        study = make_study(data=data, privacy=privacy)
        release = pv.release(
            study, rows, entropy=pv.SeededForExperimentsOnly(1), accept_useless=True
        )
        assert study.arms_are_independent == (name != "persons in the data")
        widths[name] = release.differences.total_high - release.differences.total_low
        again = pv.refit(release)
        assert again.differences == release.differences
        (about,) = [n.about for n in describe(release).notices if n.code == "arms-randomised"]
        assert about["shared"] == (name == "persons in the data")
    summed = widths.pop("persons in the data")
    for narrower in widths.values():
        assert (narrower < 0.8 * summed).all()


def test_differences_are_from_the_first_arm():
    release = release_of(make_study(arms=3))
    assert [entry.arm for entry in release.differences] == ["treated"] * 3 + ["other"] * 3
    assert release["treated", "2"].value - release["control", "2"].value > 0.1  # .3 in truth
    for entry in release.differences:
        both = [release[arm, entry.state].value for arm in (entry.arm, entry.against)]
        assert entry.value == pytest.approx(both[0] - both[1])
        assert entry.total_band_low <= entry.total_low <= entry.value
        assert entry.value <= entry.total_high <= entry.total_band_high


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_a_difference_covers_often_enough(level):
    """1,500 draws of noise at fixed statistics, thin and thick: no fewer than the level's share."""
    rng, draws, states = np.random.default_rng(SEED), 1500, 4
    study = make_study(states, mechanism={"shrinkage": False}, report={"level": level})
    built = design(study)
    counts = np.array([30.0, 300.0, 5.0, 80.0, 60.0, 900.0, 0.0, 12.0])
    means = np.array([0.2, 0.9, 0.5, 0.0, 0.6, 0.95, 0.5, 1.0])
    noise = np.full(8, 9.0)
    truth = means[states:] - means[:states]
    hits = np.zeros(states)
    for _ in range(draws):
        noisy = noisy_statistics(
            return_bounds=(0.0, 1.0),
            sums=counts * (means - 0.5) + noise * rng.standard_normal(8),
            counts=counts + 2 * noise * rng.standard_normal(8),
            sum_noise=noise,
            count_noise=2 * noise,
        )

        estimates = estimate(noisy, built, unvisited=0.0, shrinkage=False, level=level, arms=2)
        differences = estimates.differences
        hits += (differences["total_low"] <= truth) & (truth <= differences["total_high"])
    visited = [0, 1, 3]  # nobody visits the other one in the second arm: it has no value
    allowed = level - 6 * np.sqrt(level * (1 - level) / draws)
    assert (hits[visited] / draws >= allowed).all()


def test_arms_are_shrunk_by_themselves():
    """No value moves because one of another arm does: differences are not drawn to 0."""
    states = 12
    rng = np.random.default_rng(SEED)
    counts = rng.uniform(5, 40, 2 * states)
    sums = counts * rng.uniform(-0.5, 0.5, 2 * states)
    built, noise = design(make_study(states)), np.full(2 * states, 4.0)

    def values(sums):
        noisy = noisy_statistics(
            return_bounds=(0.0, 1.0), sums=sums, counts=counts, sum_noise=noise, count_noise=noise
        )
        return estimate(noisy, built, unvisited=0.0, arms=2).values

    other = sums.copy()
    other[states:] = -other[states:]
    assert np.array_equal(values(sums)[:states], values(other)[:states])
    assert not np.array_equal(values(sums)[states:], values(other)[states:])
    alone = design(make_study(states).replace(arms=None))
    noisy = noisy_statistics(
        return_bounds=(0.0, 1.0),
        sums=sums[:states],
        counts=counts[:states],
        sum_noise=noise[:states],
        count_noise=noise[:states],
    )
    assert np.array_equal(estimate(noisy, alone, unvisited=0.0).values, values(sums)[:states])


def test_a_refit_has_arms_too():
    release = release_of(make_study(4))
    other = pv.refit(release, size=2, level=0.9)
    assert (other.arms, len(other.theta)) == (release.arms, 4)
    assert (len(other.values), len(other.differences)) == (8, 4)
    assert pv.refit(release).differences == release.differences
    with refused("usage"):
        pv.refit(release, epsilon=0.1)  # no statistic would become more private


def test_features_to_shrink_towards_apply_to_each_arm():
    """As if each arm were alone: the same sums and counts give the same values."""
    phi = np.column_stack([np.ones(10), np.linspace(0, 1, 10)])
    study = make_study(10, features={"kind": "matrix", "matrix": phi, "shrink": True})
    rng = np.random.default_rng(SEED)
    counts, noise = rng.uniform(5, 40, 20), np.full(20, 4.0)
    sums = counts * rng.uniform(-0.5, 0.5, 20)
    numbers = {"sums": sums, "counts": counts, "sum_noise": noise, "count_noise": noise}
    noisy = noisy_statistics(return_bounds=(0.0, 1.0), **numbers)

    def values(part, study):
        options = {"features": study.shrink_targets, "arms": study.arm_count}
        return estimate(noisy[part], design(study), unvisited=0.0, **options).values

    alone = study.replace(arms=None)
    halves = [values(slice(0, 10), alone), values(slice(10, 20), alone)]
    # The posterior of all states together depends on their number: compare to a tolerance.
    assert values(slice(0, 20), study) == pytest.approx(np.concatenate(halves), abs=0.02)


def test_around_shrunk_values_a_difference_would_not_be_covered():
    """The planted mistake: next to an end of its interval, a shrunk value hides its width."""
    rng, draws, states = np.random.default_rng(SEED), 400, 40
    built, noise = design(make_study(states)), np.full(2 * states, 12.0)
    counts, means = np.full(2 * states, 2000.0), np.full(2 * states, 0.5)
    counts[[0, states]], means[[0, states]] = 150.0, [0.2, 0.8]  # drawn to 0.5, from both sides
    truth, hits, planted = 0.6, 0, 0
    for _ in range(draws):
        noisy = noisy_statistics(
            return_bounds=(0.0, 1.0),
            sums=rng.binomial(counts.astype(int), means) - counts / 2 + noise * rng.normal(size=80),
            counts=counts + noise * rng.normal(size=80),
            sum_noise=noise,
            count_noise=noise,
        )
        estimates = estimate(noisy, built, unvisited=0.0, arms=2)
        differences = estimates.differences
        hits += differences["total_low"][0] <= truth <= differences["total_high"][0]
        vars(estimates.source.ratios)["divide"] = lambda _, values=estimates.values: values
        ends = estimates.source.differences()  # around shrunk values
        planted += ends["total_low"][0] <= truth <= ends["total_high"][0]
    assert hits >= 0.93 * draws
    assert planted < hits - 0.04 * draws
