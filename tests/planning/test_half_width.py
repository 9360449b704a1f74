"""The half-width by visits is the published interval's own, at the middle of the bounds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles import ssp
from privalue.planning import HalfWidth, mechanism_of_study

STUDY = pv.Study(
    states=20, discount=0.9, returns=(-1, 3), epsilon=1.0, delta=1e-6, unit="trajectory"
)
noises = st.floats(0.01, 1000)
visit_numbers = st.floats(0.1, 1e6)


def widths_of(study, m=None):
    return HalfWidth.of(study, mechanism_of_study(study, m))


@st.composite
def laws(draw):
    return HalfWidth(
        sum_noise=draw(noises),
        count_noise=draw(noises),
        reach=draw(st.floats(0.1, 100)),
        alike=draw(st.integers(1, 9)),
        z=draw(st.floats(0.5, 4)),
    )


def literal(law, visits):
    """Half the interval of a state with n visits whose returns are 0 less the middle."""
    half = law.reach / 2
    low, high = ssp.total(
        0.0,
        visits,
        law.sum_noise,
        law.count_noise,
        0.0,
        (-half, half),
        law.z,
        law.alike,
        (0.0, 0.0),
        points=401,
    )
    return (high - low) / 2


@given(laws(), visit_numbers)
def test_it_is_the_interval_of_the_slow_twin(law, visits):
    assert law.at(visits) == pytest.approx(literal(law, visits), rel=1e-6, abs=1e-9 * law.reach)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda law: replace(law, count_noise=0.0),
        lambda law: replace(law, alike=1),
        lambda law: replace(law, reach=law.reach / 2),
        lambda law: replace(law, sum_noise=law.sum_noise / 2),
    ],
    ids=["no noise of counts", "alike left out", "half the range", "half the noise"],
)
def test_a_planted_mistake_is_seen(mistake):
    law = HalfWidth(sum_noise=20.0, count_noise=30.0, reach=2.0, alike=3, z=1.96)
    wrong = mistake(law)
    assert any(abs(float(wrong.at(n)) / literal(law, n) - 1) > 0.02 for n in (80.0, 200.0, 1000.0))


@pytest.mark.parametrize("middle", [0.0, 0.4])
def test_it_is_the_width_that_a_release_publishes(middle):
    """Through the whole package: everybody visits, and returns are in the middle of the bounds."""
    study = pv.Study(
        states=3, discount=1.0, returns=(middle - 1, middle + 1), rewards=(-2, 2), epsilon=1.0,
        delta=1e-6, unit="trajectory", shrinkage=False, max_states_per_trajectory=1,
    )  # fmt: skip
    people = [[(person % 3, middle)] for person in range(3000)]
    halves = []
    for seed in range(30):
        release = pv.release(study, people, seed=seed)
        halves += [(row.total_high - row.total_low) / 2 for row in release]
    predicted = widths_of(study, 3000).middle
    assert np.median(halves) == pytest.approx(float(predicted.at(1000)), rel=0.02)
    assert np.mean(halves > predicted.surely(1000)) < 0.12


@given(laws(), st.floats(0.001, 0.999))
def test_the_number_of_visits_is_the_inverse(law, share):
    half_width = share * law.reach / 2
    visits = float(law.visits_for(half_width))
    assert law.at(visits * (1 + 1e-9)) <= half_width * (1 + 1e-6)
    assert law.at(visits * 0.99) > half_width


@given(laws(), visit_numbers)
def test_more_people_make_it_narrower_and_privacy_wider(law, visits):
    assert law.at(2 * visits) <= law.at(visits) <= law.reach / 2
    assert law.without_privacy.at(visits) <= law.at(visits) <= law.surely(visits)


def test_without_noise_it_is_wilsons():
    law = replace(widths_of(STUDY).middle, reach=1.0).without_privacy
    n, z = 50, law.z
    wilson = z / (1 + z**2 / n) * np.sqrt(0.25 / n + z**2 / (4 * n**2))
    assert law.at(n) == pytest.approx(wilson)


def test_a_prior_gives_every_state_its_own():
    visits = {str(state): 0.05 + 0.045 * state for state in range(20)}
    widths = widths_of(STUDY.replace(visits=visits), 10_000)
    assert widths.sum_noise.min() < widths.sum_noise.max()
    below = np.mean(widths.sum_noise < float(widths.middle.sum_noise))
    assert below <= 0.5


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("looser", [20, 12, 9, 5])
def test_a_tighter_limit_is_of_use_no_later(neighbours, looser):
    """So that it never adds a warning that the looser study did not have."""
    study = STUDY.replace(neighbours=neighbours, max_states_per_trajectory=looser)
    for tighter in range(1, looser):
        limited = study.replace(max_states_per_trajectory=tighter)
        for share in (0.5, 0.1, 0.01):
            before, after = (
                float(widths_of(each).middle.visits_for(share * 2)) for each in (study, limited)
            )
            assert after <= before * (1 + 1e-12)
