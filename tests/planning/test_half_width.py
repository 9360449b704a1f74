"""The half-width by visits is the published interval's own, at the middle of the bounds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles import ssp
from privalue.planning import HalfWidth, mechanism_of_study

noises = st.floats(0.01, 1000)
visit_numbers = st.floats(0.1, 1e6)


def widths_of(study, m=None):
    return HalfWidth.of(study, mechanism_of_study(study, m))


@st.composite
def laws(draw):
    return HalfWidth(
        sum_noise=draw(noises),
        count_noise=draw(noises),
        range=draw(st.floats(0.1, 100)),
        trajectories_per_unit=draw(st.integers(1, 9)),
        z=draw(st.floats(0.5, 4)),
    )


def literal(law, visits):
    """Half the interval of a state with n visits whose returns are 0 less the middle."""
    half = law.range / 2
    low, high = ssp.total(
        0.0,
        visits,
        law.sum_noise,
        law.count_noise,
        0.0,
        (-half, half),
        law.z,
        law.trajectories_per_unit,
        (0.0, 0.0),
        points=401,
    )
    return (high - low) / 2


@given(laws(), visit_numbers)
def test_the_half_width_is_that_of_the_slow_twin(law, visits):
    assert law.at(visits) == pytest.approx(literal(law, visits), rel=1e-6, abs=1e-9 * law.range)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda law: replace(law, count_noise=0.0),
        lambda law: replace(law, trajectories_per_unit=1),
        lambda law: replace(law, range=law.range / 2),
        lambda law: replace(law, sum_noise=law.sum_noise / 2),
    ],
    ids=["no noise of counts", "alike left out", "half the range", "half the noise"],
)
def test_a_planted_mistake_is_seen(mistake):
    law = HalfWidth(sum_noise=20.0, count_noise=30.0, range=2.0, trajectories_per_unit=3, z=1.96)
    wrong = mistake(law)
    assert any(abs(float(wrong.at(n)) / literal(law, n) - 1) > 0.02 for n in (80.0, 200.0, 1000.0))


@pytest.mark.parametrize("middle", [0.0, 0.4])
def test_the_half_width_is_the_one_that_a_release_publishes(middle):
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
    assert np.mean(halves > predicted.at_95(1000)) < 0.12


@given(laws(), st.floats(0.001, 0.999))
def test_the_number_of_visits_is_the_inverse(law, share):
    half_width = share * law.range / 2
    visits = float(law.visits_for(half_width))
    assert law.at(visits * (1 + 1e-9)) <= half_width * (1 + 1e-6)
    assert law.at(visits * 0.99) > half_width
