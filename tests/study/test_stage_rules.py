"""The rule by which the stage for bounds chooses, and whether there is one."""

import numpy as np
import pytest

import privalue as pv
from oracles.limits import sensitivity
from oracles.studies import in_sections
from privalue.core import gaussian, stage_alphas
from privalue.study import declared_size, design
from privalue.study._stage_rules import bin_noise, bounds_pay, chosen_bound, least_share
from privalue.study._terms import terms_for

REACH = 100.0 / 2.0 ** np.arange(11, -1, -1)  # bounds 0 and 100: the reference is 0
ALPHA = gaussian(1.0, 1e-6).alpha
NOISE = bin_noise(1, False, ALPHA)


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
    terms = terms_for(study, design(study), declared_size(study))
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
    assert least_share(None, 1.0) == 0.10


def test_many_trajectories_need_less():
    assert least_share(10**6, NOISE) == 0.02
    assert least_share(300, NOISE) == 0.10
