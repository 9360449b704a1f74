"""What is chosen where a study leaves it open: beta, the shape of DP-SSP's noise, the stage."""

import math

import numpy as np
import pytest

import privalue as pv
from oracles.limits import count_weight, limits, sensitivity, smooth_lsw
from oracles.studies import in_sections
from privalue.core import (
    MECHANISMS,
    PublicSize,
    exact_alpha,
    gaussian,
    nissim,
    stage_alphas,
)
from privalue.study import declared_size, resolve
from privalue.study.heuristics import (
    bin_noise,
    bounds_pay,
    bounds_share,
    choose_beta,
    choose_bound,
    choose_shape,
)

ROOT = math.sqrt(3) / 2


def shape_of(prior, states, m=None, alpha=3.0, *, most=None, persons=1, shrinkage=True):
    person = {"unit": "person", "max_trajectories_per_person": persons} if persons > 1 else {}
    held = limits(keys=states, max_states_per_trajectory=most or states, **person)
    return choose_shape(held, prior, m, alpha, shrinkage=shrinkage)


# Shapes from a public prior


def predicted(shape, prior, m, alpha, most=None, spread=1 / 12):
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


def test_no_prior_no_shape():
    for shape in (shape_of(None, 5), shape_of(np.zeros(5), 5)):
        assert shape.tolist() == [1.0] * 5
        assert not shape.flags.writeable


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("most", [None, 1, 5])
@pytest.mark.parametrize("m", [30, 1000, 10**6])
@pytest.mark.parametrize("shrinkage", [True, False])
def test_a_shape_promises_less_error_than_none(prior, most, m, shrinkage):
    """In the mean over values that differ more or less; and little more than none, for any."""
    shape = shape_of(prior, len(prior), m, most=most, shrinkage=shrinkage)
    even = np.ones(len(prior))
    assert shape.max() == 1
    ratios = np.array(
        [
            predicted(shape, prior, m, 3.0, most, spread)
            / predicted(even, prior, m, 3.0, most, spread)
            for spread in (ALIKE if shrinkage else ALIKE[:1])
        ]
    )
    assert np.log(ratios).mean() <= 1e-9
    assert ratios.max() <= 1.05**2 * (1 + 1e-9)
    # However wrong the prior, no state pays more than sqrt(10) for it.
    worst = sensitivity(shape, most_states=None, count_weight=ROOT) / shape.min()
    assert worst <= math.sqrt(10 * len(prior)) * (1 + 1e-9)


def test_many_data_make_it_one_over_the_root_of_p():
    """The least of sum 1/(omega p)^2 times sum omega^2 is at omega^2 = 1/p."""
    prior = PRIORS["chain"]
    shape = shape_of(prior, 40, 10**9)
    assert shape == pytest.approx((prior / prior.min()) ** -0.5, rel=0.02)


def test_the_shape_is_the_best_of_many():
    """No small change of any one weight promises a smaller error."""
    prior, m, alpha = PRIORS["chain"], 10**5, 3.0
    shape = np.array(shape_of(prior, 40, m, alpha, shrinkage=False))
    best = predicted(shape, prior, m, alpha)
    for s in range(40):
        for factor in (0.9, 1.1):
            other = shape.copy()
            other[s] *= factor
            assert predicted(other, prior, m, alpha) >= best * (1 - 1e-3)


def test_a_shape_is_made_for_the_noise_of_all_trajectories_of_a_person():
    """Noise is L times as large; for less of it, a shape would be worse than none by 37% here."""
    generator = np.random.default_rng(3)
    for _ in range(10):
        p = np.exp(-generator.uniform(0, 8, 30))
        m = int(10 ** generator.uniform(2.5, 5.5))
        shape = shape_of(p, 30, m, 4.2, persons=20)
        for spread in ALIKE:
            even = predicted(np.ones(30), p, m, 20 * 4.2, spread=spread)
            assert predicted(shape, p, m, 20 * 4.2, spread=spread) <= 1.05**2 * even


@pytest.mark.parametrize("prior", [[6e-10, 3e-10, 4e-11], [1e-9, 1e-9, 1e-12]])
@pytest.mark.parametrize("m", [1, 1000])
def test_no_state_gets_less_than_its_share_where_next_to_no_visits_are_expected(prior, m):
    """K is far beyond p^2 there, and rounding would decide."""
    alpha = gaussian(0.001, 1e-15).alpha
    shape = shape_of(np.array(prior), 3, m, alpha)
    assert float(shape @ shape) <= 10 * 3 * shape.min() ** 2 * (1 + 1e-9)


def test_states_without_hope_get_little():
    prior = np.array([1.0] * 10 + [1e-9] * 10)
    shape = shape_of(prior, 20, 1000)
    assert shape[:10].min() == 1
    assert shape[10:].max() < 0.5


@pytest.mark.parametrize("most", [None, 2])
def test_a_prior_of_zero_is_allowed_and_order_does_not_matter(most):
    prior = np.array([0.0, 1.0, 0.2, 1e-300, 0.7])
    shape = shape_of(prior, 5, most=most)
    assert np.isfinite(shape).all()
    assert (shape > 0).all()
    order = np.array([3, 1, 4, 0, 2])
    assert shape_of(prior[order], 5, most=most) == pytest.approx(shape[order])


def test_automatic_beta_is_near_the_best():
    """Against a fine scan, for DP-LSW with 40 states visited 250 times or more."""
    counts = 250 * np.arange(1, 41)
    chosen = choose_beta(0.1, 0.1, 40, lambda b: smooth_lsw(counts, np.ones(40), b))
    scan = np.geomspace(1e-3, 0.07, 60)

    def noise(beta):
        return exact_alpha(0.1, 0.1, 40, beta) * math.sqrt(smooth_lsw(counts, np.ones(40), beta))

    assert noise(chosen) <= 1.01 * min(noise(beta) for beta in scan)


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

        paper = nissim(0.1, 0.1, states)
        least, ready = (choose_beta(0.1, 0.1, states, psi, room=room) for room in (0.0, 0.05))
        alphas = [exact_alpha(0.1, 0.1, states, beta) for beta in (least, ready)]
        assert noise((alphas[1], ready)) < noise((paper.alpha, paper.beta))
        assert alphas[1] * math.sqrt(psi(ready)) <= 1.05 * alphas[0] * math.sqrt(psi(least))
        if states == 11:  # what it was: planted, and caught
            assert noise((alphas[0], least)) > noise((paper.alpha, paper.beta))


def test_the_shape_of_a_study_by_person_is_made_for_its_noise():
    study = pv.Study(
        name="few",
        trajectories=1000,
        epsilon=1.0,
        delta=1e-6,
        unit="person",
        max_trajectories_per_person=20,
        discount=0.9,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=4,
        visits={"0": 1.0, "1": 0.5, "2": 0.1, "3": 0.01},
        mechanism="dp-ssp",
    )
    size = PublicSize(units=100, most_count=2000, trajectories=1000)
    alpha = 20 * gaussian(1.0, 1e-6).alpha
    expected = shape_of(study.key_visits, 4, 1000, alpha)
    shape = resolve(study, size).constants.shape
    assert shape == pytest.approx(expected)


def test_a_study_without_a_prior_leaves_room_and_one_with_a_prior_does_not():
    study = pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.9,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=4,
        mechanism="dp-lsw",
    )
    known = {str(s): (s + 1) / 4 for s in range(4)}
    told = study.replace(visits=known)
    size = PublicSize(units=10**5, most_count=10**5, trajectories=10**5)
    free, held = (MECHANISMS["dp-lsw"](resolve(each, size)).calibration for each in (study, told))
    assert free.beta > 2 * held.beta
    assert held.alpha < free.alpha <= 1.051 * held.alpha


def test_a_prior_of_visits_gives_no_shape_that_closer_values_would_suffer_from():
    """A shape must do for values that spread over the bounds, and for values much closer."""
    generator = np.random.default_rng(3)
    for _ in range(20):
        p = np.exp(-generator.uniform(0, 8, 30))
        m, alpha = int(10 ** generator.uniform(2.5, 5.5)), 4.2
        omega = shape_of(p, 30, m, alpha)
        unit = (alpha / m) ** 2 * (1 + 1 / (12 * count_weight(30, None) ** 2))
        for spread in ALIKE:
            error, even = (
                literal_error(unit * float(each @ each) / (each * p) ** 2, spread)
                for each in (omega, np.ones(30))
            )
            assert error <= even * 1.05**2


def literal_error(noise, spread):
    """Each shrunk value's squared error, and that of what they are drawn to."""
    drawn = [q / (q + spread) for q in noise]
    common = 1 / sum(1 / (q + spread) for q in noise)
    return sum(b * spread + b**2 * common for b in drawn)


# The stage that chooses bounds


REACH = 100.0 / 2.0 ** np.arange(11, -1, -1)  # bounds 0 and 100: the reference is 0
ALPHA = gaussian(1.0, 1e-6).alpha
NOISE = bin_noise(1, False, ALPHA)


def bound(histogram, deviation=20.0, noise=ALPHA * 40**0.5, states=40, **given):
    numbers = np.array(histogram, dtype=float)
    known = {"reach": REACH, "width": REACH, "noise": noise, "states": states, **given}
    return choose_bound(numbers, deviation, **known)


def literal_bound(histogram, deviation, noise, states, shrinkage):
    """The rule as its page states it, level by level."""
    seen = {i: h for i, h in enumerate(histogram) if h > 3 * deviation}
    if not seen:
        return 11
    n = sum(seen.values()) / 2
    tau = REACH[max(seen)] / 12**0.5
    found = []
    for j, reach in enumerate(REACH):
        bias = sum(h * max(0.75 * REACH[i] - reach, 0) for i, h in seen.items() if i > j) / (2 * n)
        alone = (noise * reach / n) ** 2
        drawn = alone / (alone + tau**2)
        common = drawn**2 * (alone + tau**2) / states
        found.append((drawn * tau**2 + common if shrinkage else alone) + bias**2)
    return found.index(min(found))


# The bound


@pytest.mark.parametrize("level", range(12))
def test_a_bound_holds_all_where_all_are_at_one_level(level):
    histogram = np.zeros(12)
    histogram[level] = 1e5
    assert bound(histogram) == level


def test_where_no_bin_is_clear_of_the_noise_the_whole_range_stays():
    assert bound([50, 55, -40, 10, 0, 59, 3, -3, 20, 40, 10, -50]) == 11


def test_noise_in_empty_bins_does_not_widen_the_bound():
    assert bound([0, 0, 0, 9000, 50, -30, 10, 59, 0, 0, -40, 58]) == 3


def test_a_long_tail_is_clamped_only_where_noise_would_cost_more():
    tail = [0, 0, 0, 9000, 500, 100, 0, 0, 0, 0, 0, 0]
    assert bound(tail, noise=1.0) > bound(tail, noise=1000.0)
    levels = [bound(tail, noise=noise) for noise in np.geomspace(0.01, 1e6, 50)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] == 5  # next to no noise: nobody who is seen is clamped


def test_no_bias_is_bought_for_noise_that_shrinkage_takes_off():
    """1,510 people at one level, N = 107, epsilon = 0.1: noise drowns all values, at any bound."""
    histogram = np.zeros(12)
    histogram[10] = 1510
    noise = gaussian(0.1, 1e-6).alpha * 107**0.5
    assert bound(histogram, deviation=160.0, noise=noise, states=107) == 10
    # Without shrinkage, noise counts in full, and is worth the bias.
    assert bound(histogram, 160.0, noise, 107, shrinkage=False) == 9


@pytest.mark.parametrize("shrinkage", [True, False])
def test_a_bound_is_that_of_the_page(shrinkage):
    generator = np.random.default_rng(7)
    found = set()
    for _ in range(300):
        histogram = 10 ** generator.uniform(0, 4, 12) * (generator.random(12) < 0.4)
        noise, states = 10 ** generator.uniform(-1, 5), int(generator.integers(1, 200))
        level = bound(histogram, 5.0, noise, states, shrinkage=shrinkage)
        assert level == literal_bound(histogram, 5.0, noise, states, shrinkage)
        found.add(level)
    assert len(found) > 8


def test_what_hides_in_noise_costs_less_than_the_noise_of_the_whole_range():
    """For 200 states or more; at most 3 s hide in a bin, and are clamped from 100 to nearly 0."""
    assert 3 * NOISE < ALPHA * 200**0.5


@pytest.mark.parametrize(
    ("mechanism", "features", "shrinks"),
    [
        ({}, {}, True),
        ({"shrinkage": False}, {}, False),
        ({"ridge": 1.0}, {}, False),
        ({}, {"features": {"kind": "aggregate", "size": 2}}, True),
    ],
)
def test_the_rule_knows_what_the_study_says(mechanism, features, shrinks):
    study = in_sections(
        privacy={
            "epsilon": 1.0,
            "delta": 1e-6,
            "unit": "person",
            "neighbours": "add-remove",
            "max_trajectories_per_person": 3,
            "max_states_per_trajectory": 4,
        },
        values={"discount": 0.9, "rewards": (0.0, 1.0)},
        states={"count": 6},
        mechanism={"name": "dp-ssp", "stages": ["bounds"], **mechanism},
        **features,
    )
    terms = resolve(study, declared_size(study))
    of_values = stage_alphas(ALPHA, terms.constants.shares)["values"]
    bounds = terms.constants.rules.bound.keywords
    delta = sensitivity(
        np.ones(6),
        most_states=4,
        trajectories_per_person=3,
        add_remove=True,
        count_weight=0.5,
    )
    assert bounds["noise"] == pytest.approx(of_values * delta)
    assert bounds["states"] == 6
    assert bounds["shrinkage"] == shrinks


# Whether there is a stage


def pays(**given):
    terms = {"implied": True, "discount": 0.99, "trajectories": 10**4, "noise": NOISE}
    return bounds_pay(**{**terms, **given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, True),
        ({"trajectories": None}, True),
        ({"implied": False}, False),
        ({"discount": 0.5}, False),
        ({"trajectories": 50}, False),
        ({"trajectories": 1000, "noise": bin_noise(20, False, ALPHA)}, False),
    ],
)
def test_auto_has_a_stage_where_it_pays(given, expected):
    assert pays(**given) == expected


def test_auto_is_for_returns_that_are_not_given():
    def stages(**values):
        return pv.Study(
            **{"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", "states": 6},
            **{"discount": 0.99, "rewards": (0.0, 1.0), **values},
        ).stages

    assert stages() == ("bounds",)
    assert stages(returns=(0.0, 1.0)) == ()


def test_the_share_is_the_usual_one_where_nothing_is_known():
    assert bounds_share(None, 1.0) == 0.10


def test_many_trajectories_need_less():
    assert bounds_share(10**6, NOISE) == 0.02
    assert bounds_share(300, NOISE) == 0.10
