"""Whole persons, bounded contribution, adding and removing: neighbours through the public path.

The vector that gets noise may move by at most 1/alpha in units of its noise, and ln sigma^2 by at
most beta, whatever a person's data is replaced by, up to any number of trajectories and states.
"""

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privalue as pv
from oracles.limits import OF_A_UNIT, without
from oracles.studies import frame_of_persons as frame_of
from oracles.studies import make_study
from privalue.core import kernel

LONG = os.environ.get("PRIVALUE_LONG") == "1"  # make long
STATES = 6
COLUMNS = ["person", "trajectory", "step", "state", "reward"]
MECHANISMS = [
    {"name": "dp-lsw", "noise": "isotropic", "beta": 0.05},
    {"name": "dp-lsw", "noise": "whitened", "beta": 0.05, "pseudo_count": 3.0},
    {"name": "dp-lsl", "beta": 0.05, "ridge": 2.0},
    {"name": "dp-ssp"},
    {"name": "dp-lsw", "calibration": "nissim"},
    {"name": "dp-lsl", "calibration": "nissim", "ridge": 400.0},
]
FEATURES = [{"kind": "tabular"}, {"kind": "aggregate", "size": 2}]
PRIOR = {str(s): 0.05 + 0.15 * s for s in range(STATES)}


WEIGHTS = [1.0, 0.5, 2.0, 1.0, 4.0, 0.1]


def study_of(mechanism, *, unit, neighbours, most_states, most, features, prior, weights=WEIGHTS):
    privacy = {"epsilon": 1.0, "delta": 1e-3, "unit": unit, "neighbours": neighbours}
    if most_states is not None:
        privacy["max_states_per_trajectory"] = most_states
    if unit == "person":
        privacy["max_trajectories_per_person"] = most
    states = {"count": STATES} | ({"visits": PRIOR} if prior else {})
    return make_study(
        STATES,
        discount=0.8,
        rewards=(-1e3, 1e3),
        returns=(-1.0, 2.0),
        privacy=privacy,
        states=states,
        features=features,
        weights={"values": weights},
        mechanism={"calibration": "exact", **mechanism},
        data={"person": "person", "trajectory": "trajectory"},
    )


def trajectories(most):
    reward = st.sampled_from([-1e9, 0.0, 0.3, 1e9])
    episode = st.one_of(
        st.lists(st.tuples(st.integers(0, STATES - 1), reward), min_size=1, max_size=8),
        st.permutations(range(STATES)).flatmap(
            lambda states: reward.map(lambda r: [(s, r) for s in states])
        ),
    )
    return st.lists(episode, min_size=1, max_size=most)


@st.composite
def pairs(draw, unit, neighbours):
    """The same people twice, but for one of them."""
    most = 5 if unit == "person" else 1
    rest = draw(st.dictionaries(st.integers(1, 20), trajectories(most), max_size=4))
    here = {**rest, 0: draw(trajectories(most))}
    if neighbours == "replace-one":
        return here, {**rest, 0: draw(trajectories(most))}
    return (here, rest) if draw(st.booleans()) else (rest, here)


def distance_ratio(one, other):
    """In units of the smaller noise, over what is allowed."""
    here, there = one.perturbation, other.perturbation
    noise = np.minimum(here.deviations, there.deviations) / one.mechanism.calibration.alpha
    return float(np.linalg.norm((here.center - there.center) / noise))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: "-".join(map(str, m.values())))
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("unit", ["trajectory", "person"])
@settings(max_examples=100 if LONG else 12)
@given(data=st.data())
def test_neighbours_move_no_further_than_the_noise_allows(mechanism, unit, neighbours, data):
    features = data.draw(st.sampled_from(FEATURES))
    study = study_of(
        mechanism,
        unit=unit,
        neighbours=neighbours,
        most_states=data.draw(st.sampled_from([None, 1, 2, 3])),
        most=data.draw(st.sampled_from([1, 2, 3])),
        features=features,
        prior=data.draw(st.booleans()),
    )
    pair = data.draw(pairs(unit, neighbours))
    diagnostics = [pv.inspect(study, frame_of(people)) for people in pair]
    here, there = (side.perturbation for side in diagnostics)
    calibration, other = (side.mechanism.calibration for side in diagnostics)
    assert (other, np.max(there.grids)) == (calibration, np.max(here.grids))
    assert distance_ratio(*diagnostics) <= 1 + 1e-9
    assert abs(2 * math.log(np.max(here.deviations / there.deviations))) <= calibration.beta + 4e-9
    assert (np.asarray(here.deviations) >= 1024 * np.asarray(here.grids)).all()


HIGH = [(s, 1e9) for s in range(STATES)]
LOW = [(s, -1e9) for s in range(STATES)]


def test_the_bound_of_ssp_is_reached():
    """Everybody's trajectory goes everywhere: returns flip, or, added, all is new."""
    for neighbours, pair in (
        ("replace-one", ({0: [HIGH]}, {0: [LOW]})),
        ("add-remove", ({0: [HIGH]}, {})),
    ):
        study = study_of(
            {"name": "dp-ssp"},
            unit="trajectory",
            neighbours=neighbours,
            most_states=None,
            most=1,
            features=FEATURES[0],
            prior=False,
        )
        distance = distance_ratio(*(pv.inspect(study, frame_of(people)) for people in pair))
        assert distance == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("limit", OF_A_UNIT)
@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl", "dp-ssp"])
def test_limits_that_are_not_enforced_are_caught(name, limit, monkeypatch):
    """The planted mistake is in the kernel: it counts what it should leave out."""
    mechanism = next(m for m in MECHANISMS if m["name"] == name)
    study = study_of(
        mechanism,
        unit="person",
        neighbours="replace-one",
        most_states=1 if limit == "max_states_per_trajectory" else None,
        most=1,
        features=FEATURES[0],
        prior=False,
        weights=[1.0] * STATES,
    )
    others = {person: [HIGH] for person in range(1, 500)}
    pair = ({0: [HIGH] * 8, **others}, {0: [LOW] * 8, **others})

    def distance():
        return distance_ratio(*(pv.inspect(study, frame_of(people)) for people in pair))

    assert distance() <= 1 + 1e-9
    monkeypatch.setattr(kernel, "gather", without(limit, kernel.gather))
    assert distance() > 1.05
