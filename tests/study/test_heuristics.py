"""Choices that a study leaves open: beta, the shape of DP-SSP's noise, the stage."""

import math

import numpy as np
import pytest

import privalue as pv
from oracles.limits import count_weight, make_limits, sensitivity, smooth_lsw
from privalue.core.calibration import exact_alpha, published_pair
from privalue.study.heuristics import BoundRule, choose_beta, choose_shape

ROOT = math.sqrt(3) / 2


def shape_of(prior, states, m=None, alpha=3.0, *, most=None, persons=1, shrinkage=True):
    person = {"unit": "person", "max_trajectories_per_person": persons} if persons > 1 else {}
    limits = make_limits(keys=states, max_states_per_trajectory=most or states, **person)
    return choose_shape(limits, prior, m, alpha, shrinkage=shrinkage)


# Shapes from a public prior


def predict_error(shape, prior, m, alpha, most=None, spread=1 / 12):
    """The sum of squared errors that the shape promises: docs/proofs/dp-ssp.md."""
    weight = count_weight(len(prior), most)
    delta = sensitivity(shape, most_states=most, count_weight=weight)
    noise = (alpha * delta / (shape * m * prior)) ** 2 * (1 + 1 / (12 * weight**2))
    return literal_error(noise, spread)


ALIKE = (1 / 12, 0.06**2, 0.012**2, 0.0024**2, 0.0005**2)  # variances of values that differ


PRIORS = {
    "chain": np.arange(1, 41) / 40,
    "wide": 10.0 ** -np.linspace(0, 6, 30),
    "even": np.full(25, 0.3),
    "random": np.random.default_rng(3).random(50) ** 4,
}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize(
    ("most", "m", "shrinkage"),
    [(None, 30, True), (None, 10**6, False), (1, 1000, False), (5, 30, False), (5, 10**6, True)],
)
def test_a_shape_promises_less_error_than_none(prior, most, m, shrinkage):
    """In the mean over values that differ more or less; and little more than none, for any."""
    shape = shape_of(prior, len(prior), m, most=most, shrinkage=shrinkage)
    even = np.ones(len(prior))
    assert shape.max() == 1
    ratios = np.array(
        [
            predict_error(shape, prior, m, 3.0, most, spread)
            / predict_error(even, prior, m, 3.0, most, spread)
            for spread in (ALIKE if shrinkage else ALIKE[:1])
        ]
    )
    assert np.log(ratios).mean() <= 1e-9
    assert ratios.max() <= 1.05**2 * (1 + 1e-9)
    # However wrong the prior, no state pays more than sqrt(10) for it.
    worst = sensitivity(shape, most_states=None, count_weight=ROOT) / shape.min()
    assert worst <= math.sqrt(10 * len(prior)) * (1 + 1e-9)


def test_the_shape_is_the_best_of_many():
    """No small change of any one weight promises a smaller error."""
    prior, m, alpha = PRIORS["chain"], 10**5, 3.0
    shape = np.array(shape_of(prior, 40, m, alpha, shrinkage=False))
    best = predict_error(shape, prior, m, alpha)
    for s in range(40):
        for factor in (0.9, 1.1):
            other = shape.copy()
            other[s] *= factor
            assert predict_error(other, prior, m, alpha) >= best * (1 - 1e-3)


def test_a_shape_is_made_for_the_noise_of_all_trajectories_of_a_person():
    """Noise is L times as large; for less of it, a shape would be worse than none by 37% here."""
    generator = np.random.default_rng(3)
    for _ in range(10):
        p = np.exp(-generator.uniform(0, 8, 30))
        m = int(10 ** generator.uniform(2.5, 5.5))
        shape = shape_of(p, 30, m, 4.2, persons=20)
        for spread in ALIKE:
            even = predict_error(np.ones(30), p, m, 20 * 4.2, spread=spread)
            assert predict_error(shape, p, m, 20 * 4.2, spread=spread) <= 1.05**2 * even


def test_automatic_beta_is_near_the_best():
    """Against a fine scan, for DP-LSW with 40 states visited 250 times or more."""
    counts = 250 * np.arange(1, 41)
    pair = choose_beta(0.1, 0.1, 40, lambda b: smooth_lsw(counts, np.ones(40), b), 0.0)

    def noise(beta):
        return exact_alpha(0.1, 0.1, 40, beta) * math.sqrt(smooth_lsw(counts, np.ones(40), beta))

    assert noise(pair) <= 1.01 * min(map(noise, np.geomspace(1e-3, 0.07, 60)))


def test_without_a_prior_beta_is_ready_for_rarer_states():
    """FrozenLake's visited states at m = 10^6: the rarest has one trajectory in 31, not in 11."""
    visits = (1000004, 618221, 261875, 113854, 622860, 135447, 265370, 113322, 70740, 40236, 31761)
    for counts in (np.array(visits), np.array([*visits, 0, 0, 0, 0, 0])):
        states, ones = len(counts), np.ones(len(counts))
        guess = np.arange(1, states + 1) * 10**6 // states

        def noise(calibration, counts=counts, ones=ones):
            return calibration[0] * math.sqrt(smooth_lsw(counts, ones, calibration[1]))

        def psi(beta, guess=guess, ones=ones):
            return smooth_lsw(guess, ones, beta)

        paper = published_pair("nissim", 0.1, 0.1, states)
        least, ready = (choose_beta(0.1, 0.1, states, psi, share) for share in (0.0, 0.05))
        alphas = [exact_alpha(0.1, 0.1, states, beta) for beta in (least, ready)]
        assert noise((alphas[1], ready)) < noise((paper.alpha, paper.beta))
        assert alphas[1] * math.sqrt(psi(ready)) <= 1.05 * alphas[0] * math.sqrt(psi(least))
        if states == 11:  # what it was: planted, and caught
            assert noise((alphas[0], least)) > noise((paper.alpha, paper.beta))


USUAL = {"epsilon": 1.0, "delta": 1e-6, "discount": 0.9, "rewards": (0.0, 1.0)}


def literal_error(noise, spread):
    """The squared error of every shrunk value, and that of their common value."""
    weights = [q / (q + spread) for q in noise]
    common = 1 / sum(1 / (q + spread) for q in noise)
    return sum(b * spread + b**2 * common for b in weights)


# The stage that chooses bounds


REACH = 100.0 / 2.0 ** np.arange(11, -1, -1)  # bounds 0 and 100: the reference is 0


def bound(histogram, deviation, noise, states, shrinkage):
    rule = BoundRule(reach=REACH, width=REACH, noise=noise, states=states, shrinkage=shrinkage)
    return rule.choose_level(np.array(histogram, dtype=float), deviation)


def literal_bound(histogram, deviation, noise, states, shrinkage):
    """The rule as its page states it, level by level."""
    clear = {i: h for i, h in enumerate(histogram) if h > 3 * deviation}
    if not clear:
        return 11
    n = sum(clear.values()) / 2
    tau = REACH[max(clear)] / 12**0.5
    errors = []
    for j, reach in enumerate(REACH):
        bias = sum(h * max(0.75 * REACH[i] - reach, 0) for i, h in clear.items() if i > j) / (2 * n)
        alone = (noise * reach / n) ** 2
        weight = alone / (alone + tau**2)
        common = weight**2 * (alone + tau**2) / states
        errors.append((weight * tau**2 + common if shrinkage else alone) + bias**2)
    return errors.index(min(errors))


@pytest.mark.parametrize("shrinkage", [True, False])
def test_a_bound_is_that_of_the_page(shrinkage):
    generator = np.random.default_rng(7)
    levels = set()
    for _ in range(300):
        histogram = 10 ** generator.uniform(0, 4, 12) * (generator.random(12) < 0.4)
        noise, states = 10 ** generator.uniform(-1, 5), int(generator.integers(1, 200))
        level = bound(histogram, 5.0, noise, states, shrinkage)
        assert level == literal_bound(histogram, 5.0, noise, states, shrinkage)
        levels.add(level)
    assert len(levels) > 8


# Whether there is a stage


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("bounds",)),
        ({"trajectories": 10**4}, ("bounds",)),
        ({"returns": (0.0, 1.0)}, ()),
        ({"discount": 0.5}, ()),
        ({"trajectories": 50}, ()),
        ({"trajectories": 1000, "unit": "person", "max_trajectories_per_person": 20}, ()),
        ({"states": 100_000}, ()),  # there is no room for it
        ({"stages": "one"}, ()),
        ({"stages": ["bounds"], "discount": 0.5}, ("bounds",)),
    ],
    ids=str,
)
def test_auto_has_a_stage_where_it_pays(changes, expected):
    usual = {**USUAL, "unit": "trajectory", "states": 6, "discount": 0.99}
    assert pv.Study(**{**usual, **changes}).stages == expected
