"""Rows that end a trajectory: they count with their reward, and have no key, no value, no noise."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import boundary
from oracles.limits import make_limits
from oracles.refusals import refused
from privalue import core
from privalue.core import GRID_STEPS, Contributions
from privalue.study import heuristics

KEYS, END = 3, 4  # 3 marks an invalid row
USUAL = {"keys": KEYS, "max_states_per_trajectory": 2, "discount": 0.5, "has_ends": True}
LIMITS = [
    make_limits(**USUAL),
    make_limits(**USUAL, levels=5, return_bounds=(-1.0, 3.0)),
    make_limits(**USUAL, drop_invalid=True),
    make_limits(**USUAL, unit="person", max_trajectories_per_person=2, drop_invalid=True, levels=3),
    make_limits(**{**USUAL, "keys": 3 * KEYS, "arms": 3}, drop_invalid=True),
]


def batch_of(rows, limits):
    """Rows (unit, trajectory, step, key, reward), sorted, as the boundary takes them."""
    rows = sorted(rows, key=lambda row: row[:3])
    ids = np.array([[[row[0]], [row[1]]] for row in rows], dtype=np.int64)
    steps, keys, rewards = (np.array([row[at] for row in rows]) for at in (2, 3, 4))
    return ids, steps.astype(np.int64), keys.astype(np.int32), rewards.astype(np.float64)


def add_up(rows, limits, ratios=None):
    total = Contributions(limits)
    total.add(*batch_of(rows, limits), ratios)
    return total.finish()


@st.composite
def tables(draw, limits):
    """Trajectories, most of which end properly, and some with rows after an end."""
    arms = limits.arms
    rows = []
    for unit, trajectory in itertools.product(range(draw(st.integers(1, 4))), range(3)):
        arm = draw(st.integers(0, arms - 1))
        length = draw(st.integers(0, 3))
        keys = [arm * KEYS + draw(st.integers(0, KEYS - 1)) for _ in range(length)]
        if draw(st.booleans()) or not keys:
            keys.append(limits.keys + 1)
        if limits.drop_invalid and draw(st.integers(0, 5)) == 0:
            keys.append(draw(st.sampled_from([0, limits.keys, limits.keys + 1])))
        for step, key in enumerate(keys):
            rows.append((unit, trajectory, step, key, draw(st.floats(-1, 1, width=32))))
    return rows


@settings(max_examples=200)
@given(data=st.data(), limits=st.sampled_from(LIMITS))
def test_the_kernel_is_the_literal_twin(data, limits):
    rows = data.draw(tables(limits))
    expected = boundary.literal([(((u,), (t,)), *rest) for u, t, *rest in rows], limits)
    assert boundary.numbers_of(add_up(rows, limits), expected) == expected


def test_an_end_counts_with_its_reward_and_is_no_visit():
    statistics = add_up([(0, 0, 0, 1, 0.25), (0, 0, 1, END, 1.0), (1, 0, 0, END, 1.0)], LIMITS[0])
    assert statistics.counts.tolist() == [0, 1, 0]
    assert statistics.return_steps.tolist() == [0, int(0.75 * GRID_STEPS), 0]
    assert (statistics.trajectories, statistics.rows) == (2, 3)


def test_a_trajectory_without_a_key_has_no_level():
    """Planted: one that had would be at level 0, and sensitivity would be counted for it."""
    statistics = add_up([(0, 0, 0, END, 1.0), (1, 0, 0, 0, 0.5)], LIMITS[1])
    assert (statistics.largest_levels.sum(), statistics.trajectories) == (1, 2)


@pytest.mark.parametrize("after", [0, 2, END])
def test_a_row_after_an_end_is_refused_or_drops_its_unit(after):
    rows = [(0, 0, 0, 1, 0.0), (0, 0, 1, END, 0.0), (0, 0, 2, after, 0.0), (1, 0, 0, 2, 0.5)]
    with refused("boundary-ended") as error:
        add_up(rows, LIMITS[0])
    assert error.value.row == 2
    dropped = add_up(rows, LIMITS[2])
    assert (dropped.units_dropped, dropped.counts.tolist()) == (1, [0, 0, 1])


def test_without_ends_the_code_of_an_end_is_no_key():
    for drop in (False, True):
        limits = make_limits(**{**USUAL, "has_ends": False}, drop_invalid=drop)
        with refused("boundary-key"):
            add_up([(0, 0, 0, END, 0.0)], limits)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_the_reward_of_an_end_is_checked_like_any(reward):
    with refused("boundary-reward"):
        add_up([(0, 0, 0, 0, 0.0), (0, 0, 1, END, reward)], LIMITS[0])


def test_an_end_has_no_arm():
    limits = make_limits(**{**USUAL, "keys": 2 * KEYS, "arms": 2})
    end = 2 * KEYS + 1
    for key in (1, KEYS + 1):  # either arm
        rows = [(0, 0, 0, end, 0.0), (0, 1, 0, key, 0.0), (0, 1, 1, end, 1.0)]
        person = make_limits(
            **{**USUAL, "keys": 2 * KEYS, "arms": 2, "unit": "person"},
            max_trajectories_per_person=2,
        )
        assert add_up(rows, person).counts.sum() == 1
    with refused("boundary-arm"):
        add_up([(0, 0, 0, 1, 0.0), (0, 0, 1, KEYS, 0.0), (0, 0, 2, end, 0.0)], limits)


def test_with_weights_an_end_has_the_ratio_that_it_is_given_and_no_key_is_invalid():
    limits = make_limits(keys=1, discount=1.0, has_ends=True, clip=4.0, max_states_per_trajectory=1)
    rows = [(0, 0, 0, 0, 0.0), (0, 0, 1, 2, 1.0)]
    statistics = add_up(rows, limits, np.array([2.0, 1.0]))
    assert statistics.weight_steps.tolist() == [GRID_STEPS // 2]
    with refused("boundary-stateless"):
        add_up([(0, 0, 0, 2, 1.0)], limits, np.array([1.0]))


def possible_trajectories():
    """All of up to three rows over two states with rewards of 0 or 1, ends or not."""
    for length in range(4):
        for keys in itertools.product(range(2), repeat=length):
            for rewards in itertools.product((0.0, 1.0), repeat=length + 1):
                body = list(zip(keys, rewards, strict=False))
                if body:
                    yield body
                yield [*body, (3, rewards[-1])]


@pytest.mark.parametrize("add_remove", [False, True])
@pytest.mark.parametrize("most", [1, 2])
def test_no_neighbour_changes_more_than_the_sensitivity(most, add_remove):
    """Every pair of trajectories, ends and none among them, against Delta of the noise.

    Planted: an end that added a visit to the first key, beyond H, exceeds it.
    """
    limits = make_limits(
        keys=2,
        max_states_per_trajectory=most,
        discount=0.5,
        has_ends=True,
        neighbours="add-remove" if add_remove else "replace-one",
    )
    weight, shape = heuristics.count_weight(limits), np.ones(2)
    delta = core.visit_sensitivity(limits, shape, weight)
    vectors = {(0.0, 0.0, 0.0, 0.0)}
    for rows in possible_trajectories():
        statistics = add_up([(0, 0, at, key, r) for at, (key, r) in enumerate(rows)], limits)
        sums = statistics.return_steps / GRID_STEPS - 0.5 * statistics.counts
        vectors.add((*sums, *(weight * statistics.counts)))
    every = np.array(sorted(vectors))
    gaps = np.linalg.norm(every[:, None] - every[None], axis=2)
    moved = np.linalg.norm(every, axis=1) if add_remove else gaps
    assert moved.max() <= delta * (1 + 1e-12)
    assert moved.max() >= 0.85 * delta  # the bound is not idle
    if add_remove and most == 1:
        assert np.linalg.norm([0.5, 0.5, weight, weight]) > delta
