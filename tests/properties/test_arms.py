"""Values by arm: what a unit can change wherever it moves, and statistics against their twin."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privalue as pv
from oracles import arms as slow
from oracles import literal
from oracles.limits import sensitivity
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import make_study
from privalue.core import Contributions

QUARTER, THREE_QUARTERS = Fraction(1, 4), Fraction(3, 4)
TINY = [  # arms, states, H', L
    (2, 1, 1, 1),
    (2, 2, 1, 1),
    (2, 2, 2, 1),
    (3, 2, 2, 1),
    (2, 3, 3, 1),
    (2, 1, 1, 3),
    (2, 2, 1, 2),
    (2, 2, 2, 2),
]


# The sensitivity, by every pair of neighbours in exact arithmetic


@pytest.mark.parametrize(("arms", "states", "most", "times"), TINY)
def test_moving_between_arms_is_free(arms, states, most, times):
    """Delta^2 = L^2 H' R^2 exactly, by all pairs: those that change the arm, and those that do not.

    It is as much as without arms, where c_w = 1/2 as well.
    """
    exact = slow.squared_sensitivity(arms, states, most, QUARTER, times)
    assert exact == times**2 * most
    one_arm = slow.squared_sensitivity(1, states, most, QUARTER, times)
    assert one_arm == times**2 * most
    core = sensitivity(
        np.ones(arms * states), most_states=most, trajectories_per_person=times, count_weight=0.5
    )
    assert Fraction(core) ** 2 >= exact
    assert core == pytest.approx(math.sqrt(exact), rel=1e-12)


@pytest.mark.parametrize(("arms", "states", "most", "times"), TINY[:6])
def test_the_bound_does_not_rest_on_one_arm_per_unit(arms, states, most, times):
    """Keys are counted, whichever arm they are in: to check arms is a matter of meaning."""
    anywhere = slow.squared_sensitivity(arms, states, most, QUARTER, times, one_arm=False)
    assert anywhere == times**2 * most


@pytest.mark.parametrize(("arms", "states", "most", "times"), TINY)
def test_the_planted_count_weight_is_caught(arms, states, most, times):
    """The mistake: c_w = sqrt(3)/2, as without arms and H >= N, with the same Delta.

    A unit that moves to another arm with all of its keys changes sqrt(2) times as much.
    """
    exact = slow.squared_sensitivity(arms, states, most, THREE_QUARTERS, times)
    assert exact == 2 * times**2 * most
    without = slow.squared_sensitivity(1, states, most, THREE_QUARTERS, times)
    if most == states:
        assert without == times**2 * most  # nowhere to move to: there the larger weight is free


# The same through the public path

LABELS = ["control", "treated", "other"]


def study_of(count, arms, /, *, unit="trajectory", neighbours="replace-one", most=1, **sections):
    privacy = {"unit": unit, "neighbours": neighbours}
    if unit == "person":
        privacy["max_trajectories_per_person"] = most
    return make_study(
        count,
        rewards=(-1e3, 1e3),
        returns=(-1.0, 2.0),
        privacy={**privacy, **sections.pop("privacy", {})},
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        arms={"labels": LABELS[:arms]},
        **sections,
    )


def table_of(people):
    """A table of person -> (arm, trajectories)."""
    rows = [
        (person, trajectory, step, state, reward, arm)
        for person, (arm, owned) in people.items()
        for trajectory, episode in enumerate(owned)
        for step, (state, reward) in enumerate(episode)
    ]
    names = ["person", "trajectory", "step", "state", "reward", "arm"]
    kinds = [pa.int64()] * 4 + [pa.float64(), pa.string()]
    columns = list(zip(*rows, strict=True)) or [[] for _ in names]
    pairs = zip(columns, kinds, strict=True)
    return pa.table([pa.array(cells, kind) for cells, kind in pairs], names)


def distance(one, other):
    here, there = one.perturbation, other.perturbation
    noise = np.minimum(here.deviations, there.deviations) / one.mechanism.calibration.alpha
    return float(np.linalg.norm((here.center - there.center) / noise))


EVERYWHERE = [(s, reward) for s, reward in ((0, 1e9), (1, 1e9), (2, 1e9))]


@pytest.mark.parametrize("unit", ["trajectory", "person"])
def test_the_bound_is_reached_by_moving_and_by_staying(unit):
    study = study_of(3, 2, unit=unit, most=2, data={"person": "person", "trajectory": "trajectory"})
    times = 2 if unit == "person" else 1
    low = [(s, -1e9) for s in range(3)]
    here = {0: ("control", [EVERYWHERE] * times)}
    for there in ({0: ("treated", [EVERYWHERE] * times)}, {0: ("control", [low] * times)}):
        pair = [pv.inspect(study, table_of(people)) for people in (here, there)]
        assert distance(*pair) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("unit", ["trajectory", "person"])
@settings(max_examples=25)
@given(data=st.data())
def test_neighbours_move_no_further_than_the_noise_allows(unit, neighbours, data):
    limit = data.draw(st.sampled_from([None, 1, 2]))
    study = study_of(
        3,
        data.draw(st.sampled_from([2, 3])),
        unit=unit,
        neighbours=neighbours,
        most=2,
        privacy={} if limit is None else {"max_states_per_trajectory": limit},
        data={"person": "person", "trajectory": "trajectory"},
        features=data.draw(st.sampled_from([{}, {"kind": "aggregate", "size": 2}])),
        states={
            "count": 3,
            **data.draw(st.sampled_from([{}, {"visits": {"0": 1, "1": 0.1, "2": 0.5}}])),
        },
    )
    step = st.tuples(st.integers(0, 2), st.sampled_from([-1e9, 0.0, 1e9]))
    episode, most = st.lists(step, min_size=1, max_size=4), 3 if unit == "person" else 1
    owned = st.lists(episode, min_size=1, max_size=most)
    person = st.tuples(st.sampled_from(study.arms.labels), owned)
    rest = data.draw(st.dictionaries(st.integers(1, 9), person, max_size=3))
    here, there = {**rest, 0: data.draw(person)}, dict(rest)
    if neighbours == "replace-one":
        there[0] = data.draw(person)
    pair = [pv.inspect(study, table_of(people)) for people in (here, there)]
    assert distance(*pair) <= 1 + 1e-9


# Statistics against the twin: each arm by itself


@settings(max_examples=40)
@given(data=st.data())
def test_statistics_are_those_of_each_arm_by_itself(data):
    unit = data.draw(st.sampled_from(["trajectory", "person"]))
    limit = data.draw(st.sampled_from([None, 1, 2]))
    study = study_of(
        3,
        3,
        unit=unit,
        most=2,
        privacy={} if limit is None else {"max_states_per_trajectory": limit},
        data={"person": "person", "trajectory": "trajectory"},
    )
    step = st.tuples(st.integers(0, 2), st.floats(-2, 2, width=32))
    owned = st.lists(st.lists(step, min_size=1, max_size=5), min_size=1, max_size=4)
    person = st.tuples(st.sampled_from(LABELS), owned)
    people = data.draw(st.dictionaries(st.integers(0, 9), person, min_size=1, max_size=6))
    table = table_of(people)
    order = data.draw(st.permutations(range(table.num_rows)))
    actual = statistics(table.take(pa.array(order)), study)
    counts, sums = [], []
    for arm in LABELS:
        own = [
            episode
            for whose, episodes in people.values()
            if whose == arm
            for episode in episodes[: 2 if unit == "person" else None]
        ]
        _, n, steps = literal.first_visit(own, 0.9, (-1e3, 1e3), (-1.0, 2.0), 3, most_states=limit)
        counts += n
        sums += steps
    assert actual.counts.tolist() == counts
    assert actual.return_steps.tolist() == sums


def test_a_unit_with_two_arms_is_dropped_as_invalid():
    study = study_of(2, 2, data={"invalid": "drop-unit"})
    contributions = Contributions(study.limits)
    ids = np.array([1, 1, 2, 2, 3]).reshape(-1, 1, 1)
    keys = np.array([0, 2, 2, 3, 1], dtype=np.int32)  # 1 is in both arms, 2 in the second
    contributions.add(ids, np.array([0, 1, 0, 1, 0]), keys, np.ones(5))
    actual = contributions.finish()
    assert (actual.units_dropped, actual.trajectories) == (1, 2)
    assert actual.counts.tolist() == [0, 1, 1, 1]


def test_the_trajectories_of_a_person_share_an_arm():
    study = study_of(
        2, 2, unit="person", most=3, data={"invalid": "drop-unit", "trajectory": "trajectory"}
    )
    contributions = Contributions(study.limits)
    ids = np.array([[[1], [1]], [[1], [2]], [[2], [1]]])
    keys = np.array([0, 2, 3], dtype=np.int32)
    contributions.add(ids, np.zeros(3, dtype=np.int64), keys, np.ones(3))
    actual = contributions.finish()
    assert (actual.units_dropped, actual.counts.tolist()) == (1, [0, 0, 0, 1])


def test_dropping_truncated_units_leaves_duplicates_an_error():
    study = study_of(2, 2, data={"truncated": "cut", "truncated_rows": "drop-unit"})
    assert not study.limits.size_is_public
    ids, both = np.array([1, 1]).reshape(-1, 1, 1), np.zeros(2, dtype=np.int64)
    cut = np.array([4, 0], dtype=np.int32)
    contributions = Contributions(study.limits)
    contributions.add(ids, np.array([0, 1]), cut, np.ones(2))
    actual = contributions.finish()
    assert (actual.units_dropped, actual.counts.sum()) == (1, 0)
    with refused("boundary-duplicate"):
        Contributions(study.limits).add(ids, both, np.zeros(2, dtype=np.int32), np.ones(2))
