"""Shrinkage towards what states have in common, and towards public features."""

import dataclasses

import numpy as np
import pytest

import privalue as pv
from oracles.estimates import estimate, noisy_statistics
from oracles.shrinkage import posterior
from oracles.studies import PROMISE
from privalue.core import Design
from privalue.estimate import Ratios, shrink, shrinkage


def ratios(values, visits, noise, generator, count_noise=None):
    """Noisy statistics of states with these values between 0 and 1, as ratios."""
    n, states = np.asarray(visits, dtype=float), len(values)
    about = noise if count_noise is None else count_noise
    return Ratios(
        sums=n * (values - 0.5) + noise * generator.standard_normal(states),
        counts=n + about * generator.standard_normal(states),
        sum_noise=np.full(states, float(noise)),
        count_noise=np.full(states, float(about)),
        centre=0.5,
        bounds=(0.0, 1.0),
    )


def errors(values, visits, noise, *, features=None, releases=20):
    """Root mean squared errors without and with shrinkage."""
    generator = np.random.default_rng(7)
    plain, shrunk = [], []
    for _ in range(releases):
        noisy = ratios(values, visits, noise, generator)
        as_is = noisy.divide(0.0)
        means = shrink(noisy, 0.0, features=features).means
        plain.append(np.sqrt(np.mean(np.square(as_is - values))))
        shrunk.append(np.sqrt(np.mean(np.square(means - values))))
    return float(np.mean(plain)), float(np.mean(shrunk))


PUBLIC = np.column_stack([np.sin(np.arange(60)), np.cos(1.7 * np.arange(60))])


def _targets(matrix, size, count):
    """What values of so many states are shrunk towards, by a matrix or by groups."""
    return pv.Study(
        states=count,
        discount=0.9,
        returns=(0, 1),
        **PROMISE,
        shrink=True,
        **({"size": size} if matrix is None else {"features": matrix}),
    ).shrink_targets


BASIS = _targets(PUBLIC, 1, 60)
SKEWED = np.geomspace(20, 5000, 60)
RELATED = np.clip(0.6 + 0.2 * PUBLIC[:, 0] - 0.1 * PUBLIC[:, 1], 0, 1)


def test_values_that_features_explain_are_drawn_to_them():
    plain, shrunk = errors(RELATED, SKEWED, 150.0, features=BASIS)
    _, without = errors(RELATED, SKEWED, 150.0)
    assert shrunk < 0.6 * without < 0.6 * plain


def numbers(noisy):
    return noisy.sums, noisy.counts, noisy.sum_noise, noisy.count_noise, noisy.bounds


def assert_same(result, twin):
    for one, other in zip((result.means, result.deviations, result.own_share), twin, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_posterior_is_what_its_page_says(seed):
    """With features, for pairs, with what actions do everywhere, and with the choice of people."""
    generator = np.random.default_rng(seed)
    noisy = ratios(generator.random(12), generator.integers(0, 400, 12), 60.0, generator)
    basis = _targets(generator.standard_normal((12, 3)), 1, 12)
    options = {"features": basis, "sampling": 0.3}
    assert_same(shrink(noisy, 0.2, **options), posterior(*numbers(noisy), 0.2, **options))
    states, actions = np.repeat(np.arange(4), 3), np.tile([5, 0, 2], 4)
    means, deviations, _ = posterior(*numbers(noisy.pool(states)), 0.2, sampling=0.3)
    towards = means[states], deviations[states]
    twin = posterior(*numbers(noisy), 0.2, towards=towards, actions=actions, **options)
    assert_same(shrink(noisy, 0.2, states=states, effects=np.eye(6)[actions], **options), twin)


def test_deviations_are_about_right_and_own_weights_follow_the_noise():
    """Of 40 worlds that are drawn as the rule believes; noise that is called smaller shows."""
    generator = np.random.default_rng(3)
    off, off_planted, own = [], [], []
    for _ in range(40):
        values = np.clip(0.4 + 0.05 * generator.standard_normal(50), 0, 1)
        noisy = ratios(values, np.geomspace(50, 20_000, 50), 40.0, generator)
        result = shrink(noisy, 0.0)
        off.append((result.means - values) / result.deviations)
        own.append(result.own_share)
        smaller = dataclasses.replace(noisy, sum_noise=noisy.sum_noise / 3)
        planted = shrink(smaller, 0.0)
        off_planted.append((planted.means - values) / planted.deviations)
    assert 0.9 < np.sqrt(np.mean(np.square(off))) < 1.15
    assert np.sqrt(np.mean(np.square(off_planted))) > 1.5
    mean = np.mean(own, axis=0)
    assert mean[0] < 0.1
    assert mean[-1] > 0.95
    assert (np.diff(mean) > -0.02).all()


ALIKE = 0.7 + 0.02 * np.cos(np.arange(40))


@pytest.mark.parametrize(("visits", "noise"), [(60.0, 60.0), (300.0, 200.0), (1000.0, 300.0)])
def test_where_values_are_alike_it_is_nearly_as_good_as_the_best_constant(visits, noise):
    """The best constant knows the values; noise is up to as large as the counts."""
    plain, shrunk = errors(ALIKE, np.full(40, visits), noise)
    pooled = noise * np.hypot(1, 0.2) / visits / np.sqrt(40)  # how well a constant can be told
    assert shrunk <= 1.25 * np.hypot(ALIKE.std(), pooled)
    assert plain > 2 * shrunk


FAR_FROM_THE_MIDDLE = 0.9 + 0.02 * np.cos(np.arange(200))


believed = shrinkage._visits


@pytest.mark.parametrize(
    "planted",
    [
        lambda unit, y: np.maximum(unit.counts, 1.0) + 0 * y,  # as they are noisy
        lambda unit, y: believed(unit, 0 * y),  # not where the target is
    ],
    ids=["noisy", "elsewhere"],
)
def test_weights_that_depend_on_the_values_raise_the_error(planted, monkeypatch):
    """Planted: then lucky states choose their own weights, and noise looks like a parabola."""
    _, shrunk = errors(FAR_FROM_THE_MIDDLE, np.full(200, 60.0), 60.0)
    monkeypatch.setattr(shrinkage, "_visits", planted)
    _, worse = errors(FAR_FROM_THE_MIDDLE, np.full(200, 60.0), 60.0)
    assert worse > 1.5 * shrunk


BENT = 0.2 + 0.6 * (np.geomspace(0.005, 1, 80)) ** 0.5


common_targets = shrinkage._common_targets


@pytest.mark.parametrize(
    ("name", "planted", "values", "worse"),
    [
        ("FAR", 0.0, np.where(np.arange(80) % 10, 0.5, 0.65), 1.05),
        ("OTHER", 0.0, np.where(np.arange(80) == 70, 0.95, 0.1), 3.0),
        ("_common_targets", lambda *args: common_targets(*args)[:2], BENT, 1.05),
    ],
    ids=["none is far", "none is anywhere", "no parabola"],
)
def test_each_part_of_the_rule_lowers_an_error(name, planted, values, worse, monkeypatch):
    visits = np.geomspace(60, 4000, 80)
    _, shrunk = errors(values, visits, 20.0)
    monkeypatch.setattr(shrinkage, name, planted)
    _, without = errors(values, visits, 20.0)
    assert without > worse * shrunk


@pytest.mark.parametrize(
    ("states", "visits", "off"),
    [(4, 60.0, 3.3), (50, 250.0, 3.6)],
    ids=["moved into a band", "taken for one that may be anywhere"],
)
def test_a_thin_state_that_deviates_by_chance_is_still_shrunk(states, visits, off):
    """Of thousands of states a few are off by so many standard deviations; all are alike here."""
    n = np.array([visits, *np.geomspace(2000, 80_000, states - 1)])
    noise, by_chance = np.full(states, 20.0), np.zeros(states)
    by_chance[0] = off * np.hypot(20.0, 0.4 * 20.0)
    noisy = noisy_statistics(
        return_bounds=(0.0, 1.0),
        sums=-0.4 * n + by_chance,
        counts=n,
        sum_noise=noise,
        count_noise=noise,
    )
    result = estimate(noisy, Design(phi=np.eye(states), weights=np.ones(states)), unvisited=0.0)
    assert result.values[0] == pytest.approx(0.1, abs=0.03)
    assert result.low[0] <= result.values[0] <= result.high[0]


def test_where_noise_is_small_nothing_moves_much():
    """The planted mistake draws each value to the mean by the noise that it has: biased ratios."""
    values = np.random.default_rng(4).random(30)
    plain, shrunk = errors(values, np.full(30, 1e5), 50.0)
    assert shrunk < 1.02 * plain
    rng, visits = np.random.default_rng(5), np.geomspace(20, 1e5, 30)
    plain, planted = [], []
    for _ in range(40):
        noisy = ratios(values, visits, 10.0, rng)
        own = noisy.divide(0.0)
        noise = np.square(noisy.sum_noise / np.maximum(noisy.counts, 1.0))
        spread = max(float(np.mean(np.square(own - own.mean()) - noise)), 0.0)
        planted.append(own + noise / (noise + spread) * (own.mean() - own) - values)
        plain.append(shrink(noisy, 0.0).means - values)
    assert np.mean(np.square(planted)) > 1.1 * np.mean(np.square(plain))


def test_without_visits_values_stay_within_the_bounds():
    """Without any visits values stay between the bounds, near each other."""
    noisy = ratios(np.zeros(50), np.zeros(50), 1e4, np.random.default_rng(5))
    result = shrink(noisy, 0.3)
    assert ((result.means >= 0) & (result.means <= 1)).all()
    assert result.means.std() < 0.2
    assert result.own_share.mean() < 0.1


def test_taus_one_by_one_give_the_same_values_as_together(monkeypatch):
    """As with so many states that they are not computed all at once."""
    generator = np.random.default_rng(6)
    noisy = ratios(generator.random(300), np.full(300, 900.0), 40.0, generator)
    together = shrink(noisy, 0.0)
    monkeypatch.setattr(shrinkage, "MAX_STATES_AT_ONCE", 1)
    alone = shrink(noisy, 0.0)
    assert alone.means == pytest.approx(together.means, abs=1e-12)
    assert alone.deviations == pytest.approx(together.deviations, abs=1e-9)


@pytest.mark.parametrize("size", [1e-100, 1e-9, 1.0, 1e30, 1e100])
@pytest.mark.parametrize("states", [1, 2, 5, 40])
@pytest.mark.parametrize("visits", [-300.0, 0.0, 60.0, 1e12])
def test_no_noise_makes_shrinkage_fail(visits, states, size):
    """A charged release is published: no, all negative or equal counts, any units."""
    noisy = Ratios(
        sums=np.full(states, -0.2 * visits * size),
        counts=np.full(states, visits * size),
        sum_noise=np.full(states, 30.0 * size),
        count_noise=np.full(states, 30.0 * size),
        centre=0.5,
        bounds=(0.0, 1.0),
    )
    for result in (shrink(noisy, 0.25), shrink(noisy, 0.25, states=np.arange(states) // 2)):
        assert ((result.means >= 0) & (result.means <= 1)).all()
        assert ((result.deviations >= 0) & (result.deviations <= 1)).all()
        assert ((result.own_share >= 0) & (result.own_share <= 1 + 1e-12)).all()


def test_a_value_that_cannot_be_computed_stays_as_it_was():
    noisy = ratios(ALIKE, np.full(40, 60.0), 60.0, np.random.default_rng(8))
    huge = dataclasses.replace(noisy, sums=noisy.sums * 1e200, counts=noisy.counts * 1e200)
    result = shrink(huge, 0.0)
    assert result.means.tolist() == huge.divide(0.0).tolist()
    assert result.deviations.tolist() == [0.5] * 40  # nothing is known of how near it is


@pytest.mark.long
@pytest.mark.parametrize("known", [False, True], ids=["the rule", "one that knows the world"])
def test_no_rule_estimates_the_common_value_better_than_its_noise_allows(known):
    """Le Cam's bound for two worlds that differ in all values: d Phi(-d/2s), 0.34 s for d = 1.5 s.

    An estimator that knows which of the two it is has a smaller error: the test can fail.
    """
    visits, noise, releases = np.linspace(100, 400, 12), 30.0, 1500
    s = 1 / np.linalg.norm(visits / noise)
    low = 0.4 + 1e-4 * np.arange(12)
    off = []
    for values in (low, low + 1.5 * s):
        generator, gaps = np.random.default_rng(11), []
        for _ in range(releases):
            noisy = ratios(values, visits, noise, generator, count_noise=1e-6)
            means = values if known else shrink(noisy, 0.0).means
            gaps.append(abs(np.mean(means - values)))
        off.append(np.mean(gaps))
    assert (max(off) >= 0.97 * 0.34 * s) != known
