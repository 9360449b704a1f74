"""The rules by which stages choose: from noisy numbers, and from what is public."""

import numpy as np
import pytest

from oracles.studies import in_sections
from privalue.core import count_weight, gaussian, stage_alphas
from privalue.study import declared_size, design
from privalue.study._choices import sensitivity
from privalue.study._stage_rules import (
    USUAL_SHARES,
    auto_stages,
    chosen_bound,
    least_shares,
    shape_from_counts,
    stage_noise,
)
from privalue.study._terms import terms_for

REACH = 100.0 / 2.0 ** np.arange(11, -1, -1)  # bounds 0 and 100: the reference is 0
ALPHA = gaussian(1.0, 1e-6).alpha


def bound(histogram, deviation=20.0, noise=ALPHA * 40**0.5, states=40, **given):
    numbers = np.array(histogram, dtype=float)
    known = {"reach": REACH, "width": REACH, "noise": noise, "states": states, **given}
    return chosen_bound(numbers, deviation, **known)


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
    deviation = stage_noise(200, 200, 1, False, ALPHA)["bounds"]
    assert 3 * deviation < ALPHA * 200**0.5


# The shape


def shape(counts, deviation=100.0, **given):
    usual = np.ones(len(counts))
    terms = {"usual": usual, "alpha": ALPHA, "most_states": len(counts), **given}
    return shape_from_counts(np.array(counts, dtype=float), deviation, **terms)


def test_clear_counts_get_the_shape_of_a_prior():
    counts = 1e6 * np.arange(1, 41) / 40
    squares = np.square(shape(counts))
    np.testing.assert_allclose(squares * counts, (squares * counts).mean(), rtol=0.2)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(np.full(40, 1e5), id="equal"),
        pytest.param(np.linspace(-250, 250, 40), id="nothing but noise"),
        pytest.param(np.full(40, -1e9), id="far below nothing"),
    ],
)
def test_counts_that_call_for_no_shape_get_none(counts):
    assert shape(counts).tolist() == [1.0] * 40


def expected_error(omega, counts, tau):
    """The mean squared error after shrinkage, state by state, in units of R^2; visits known."""
    states = len(counts)
    weight = count_weight(states, states)
    # A trajectory that is replaced moves every state's sum by 1 at most, and its count by 1.
    delta = sensitivity(omega, most_states=states, count_weight=weight)
    total = 0.0
    for one, visits in zip(omega, counts, strict=True):
        noise = (ALPHA * delta / one / visits) ** 2 * (1 + 1 / (12 * weight**2))
        total += tau**2 * noise / (tau**2 + noise)
    return total / states


RARE = {
    "two rare states of forty": np.append(np.linspace(5e4, 2e4, 38), [400, 300]),
    "by Zipf's law": 1e5 / np.arange(1, 31),
    "from one in N to all": 1e5 * np.arange(1, 41) / 40,
}


@pytest.mark.parametrize("counts", RARE.values(), ids=RARE)
@pytest.mark.parametrize("tau", [0.3, 0.1, 0.03, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0001])
def test_a_shape_costs_little_however_much_alike_values_are(counts, tau):
    """Where rare states are told by the others, precision for them is missing elsewhere."""
    even = np.ones(len(counts))
    shaped = expected_error(shape(counts, deviation=30.0), counts, tau)
    assert shaped <= 1.03**2 * expected_error(even, counts, tau)


@pytest.mark.parametrize("name", ["by Zipf's law", "from one in N to all"])
def test_a_shape_gains_where_values_are_spread_out(name):
    counts = 10 * RARE[name]
    found = shape(counts, deviation=30.0)
    assert expected_error(found, counts, 0.3) < 0.8 * expected_error(0 * found + 1, counts, 0.3)


def test_few_states_for_each_trajectory_leave_the_shape_even():
    assert shape(1e6 * np.arange(1, 41) / 40, most_states=2).tolist() == [1.0] * 40


def test_noise_does_not_replace_the_shape_of_a_prior():
    usual = np.linspace(0.3, 1.0, 40)
    assert shape(np.linspace(-250, 250, 40), usual=usual).tolist() == usual.tolist()


def test_a_shape_does_not_depend_on_the_order_of_states():
    counts = 1e5 * np.random.default_rng(0).random(30)
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_allclose(shape(counts)[order], shape(counts[order]), rtol=1e-9)


@pytest.mark.parametrize("counts", [[1e12, 1.0], [1e-300, 1e5], [0.0], [5e4, -5e4, 5e4]])
def test_a_shape_is_one_that_the_core_takes(counts):
    found = shape(counts)
    assert found.max() == 1
    assert (found >= 1e-6).all()


@pytest.mark.parametrize("persons", [3, 20])
@pytest.mark.parametrize("counts", RARE.values(), ids=RARE)
def test_the_noise_of_a_shape_is_that_of_all_trajectories_of_a_person(counts, persons):
    several = shape(10 * counts, deviation=30.0, trajectories_per_person=persons)
    as_noisy = shape(10 * counts, deviation=30.0, alpha=persons * ALPHA)
    np.testing.assert_allclose(several, as_noisy, rtol=1e-9)
    assert not np.allclose(several, shape(10 * counts, deviation=30.0), rtol=0.02)


def test_without_shrinkage_values_that_are_alike_are_no_judges_of_a_shape():
    counts = RARE["two rare states of forty"]
    with_it, without = (shape(counts, deviation=30.0, shrinkage=s) for s in (True, False))
    assert not np.allclose(with_it, without, rtol=0.05)
    errors = [expected_error(each, counts, 12**-0.5) for each in (without, with_it)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize(
    ("mechanism", "features", "shrinks"),
    [
        ({}, {}, (True, True)),
        ({"shrinkage": False}, {}, (False, False)),
        ({"ridge": 1.0}, {}, (False, False)),
        ({}, {"features": {"kind": "aggregate", "size": 2}}, (True, False)),
    ],
)
def test_rules_know_what_the_study_says(mechanism, features, shrinks):
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
        mechanism={"name": "dp-ssp", "stages": ["bounds", "visits"], **mechanism},
        **features,
    )
    terms = terms_for(study, design(study), declared_size(study))
    of_values = stage_alphas(ALPHA, terms.constants.shares)["values"]
    rules, weight = terms.constants.rules, 0.5
    bounds, visits = rules.bound.keywords, rules.shape.keywords
    delta = sensitivity(
        np.ones(6),
        most_states=4,
        trajectories_per_person=3,
        add_remove=True,
        count_weight=weight,
    )
    assert bounds["noise"] == pytest.approx(of_values * delta)
    assert bounds["states"] == 6
    del visits["usual"]
    assert (bounds["shrinkage"], visits.pop("shrinkage")) == shrinks
    assert visits == {
        "alpha": of_values,
        "most_states": 4,
        "trajectories_per_person": 3,
        "add_remove": True,
    }


# Which stages


def chosen(**given):
    terms = {
        "implied": True,
        "discount": 0.99,
        "prior": False,
        "tabular": True,
        "states": 40,
        "most_states": 40,
        "trajectories_per_person": 1,
        "add_remove": False,
        "trajectories": 10**4,
        "alpha": ALPHA,
    }
    return auto_stages(**{**terms, **given})


@pytest.mark.parametrize(
    ("given", "stages"),
    [
        ({}, ("bounds", "visits")),
        ({"trajectories": None}, ("bounds", "visits")),
        ({"implied": False}, ("visits",)),
        ({"discount": 0.5}, ("visits",)),
        ({"prior": True}, ("bounds",)),
        ({"tabular": False}, ("bounds",)),
        ({"most_states": 10}, ("bounds",)),
        ({"most_states": 20}, ("bounds", "visits")),
        ({"states": 1, "most_states": 1}, ("bounds",)),
        ({"trajectories": 1000}, ("bounds",)),
        ({"trajectories": 50}, ()),
        ({"trajectories": 1000, "trajectories_per_person": 20}, ()),
        ({"implied": False, "prior": True}, ()),
    ],
)
def test_auto_has_the_stages_that_pay(given, stages):
    assert chosen(**given) == stages


def test_shares_are_the_usual_ones_where_nothing_is_known():
    assert least_shares(None, {"bounds": 1.0, "visits": 1.0}) == USUAL_SHARES


def test_many_trajectories_need_less_for_bounds_and_few_waste_little_on_visits():
    noise = stage_noise(40, 40, 1, False, ALPHA)
    many, few = least_shares(10**6, noise), least_shares(300, noise)
    assert many == {"bounds": 0.02, "visits": 0.05}
    assert few == {"bounds": 0.10, "visits": 0.01}
