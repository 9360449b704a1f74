"""First-visit statistics: the literal twin, order, merging, seams."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from oracles.reading import statistics
from oracles.studies import episodes, rows_of, study
from privalue.core import Contributions, Statistics
from privalue.errors import BoundaryError

COLUMNS = ("trajectory", "step", "state", "reward")


def table(rows):
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(COLUMNS, map(list, columns), strict=True)))


def columns(rows):
    """Ordered rows as what is handed over to the core."""
    trajectory, step, state, reward = zip(*rows, strict=True)
    ids = np.array(trajectory, dtype=np.int64)[:, None, None]
    return ids, np.array(step), np.array(state, dtype=np.int32), np.array(reward, dtype=float)


def added(batches, described):
    contributions = Contributions(described.limits)
    for rows in batches:
        contributions.add(*columns(rows))
    return contributions.finish()


def assert_equals_twin(found, data, discount, rewards, returns, states):
    m, counts, sums = literal.first_visit(data, discount, rewards, returns, states)
    assert found.trajectories == m
    assert found.counts.tolist() == counts
    assert found.return_steps.tolist() == sums


@given(
    data=episodes(4),
    discount=st.floats(0.01, 1.0),
    returns=st.sampled_from([(0.0, 1.0), (-1.5, 2.5), (-3.0, -1.0), (0.25, 0.5), (-100.0, 100.0)]),
)
def test_the_kernel_is_the_literal_definition(data, discount, returns):
    found = statistics(data, study(4, discount=discount, rewards=(-1.0, 1.0), returns=returns))
    assert_equals_twin(found, data, discount, (-1.0, 1.0), returns, 4)


@given(data=episodes(5), shuffle=st.randoms(use_true_random=False), gap=st.integers(1, 7))
def test_order_of_rows_and_gaps_in_steps_do_not_matter(data, shuffle, gap):
    rows = [(t, gap * i - 3, s, r) for t, i, s, r in rows_of(data)]
    shuffle.shuffle(rows)
    assert statistics(table(rows), study(5)) == statistics(data, study(5))


@given(data=episodes(5, low=-2.0), cuts=st.lists(st.integers(0, 100), max_size=12))
def test_units_may_come_in_any_batches(data, cuts):
    described = study(5, rewards=(-2.0, 2.0))
    rows, places = rows_of(data), sorted({0, *(cut % (len(data) + 1) for cut in cuts), len(data)})
    batches = [
        [row for row in rows if low <= row[0] < high] for low, high in itertools.pairwise(places)
    ]
    assert added(batches, described) == statistics(data, described)
    assert added(reversed(batches), described) == statistics(data, described)


def test_a_trajectory_cut_in_two_is_refused():
    data = [[(0, 1.0), (1, 0.5), (2, 1.0)], [(2, 1.0), (0, 0.0)]]
    rows = rows_of(data)
    assert_equals_twin(
        added([rows[:3], rows[3:]], study(3)), data, 0.9, (0, 1), study(3).return_bounds, 3
    )
    with pytest.raises(BoundaryError, match="handed over twice, or in two parts"):
        added([rows[:2], rows[2:]], study(3))


@given(a=episodes(3), b=episodes(3), c=episodes(3))
def test_merging_is_a_commutative_monoid_and_equals_reading_at_once(a, b, c):
    described = study(3)
    every = a + b + c
    rows, first = rows_of(every), len(a)
    groups = [range(first), range(first, first + len(b)), range(first + len(b), len(every))]
    x, y, z = (
        statistics(table([row for row in rows if row[0] in group]), described) for group in groups
    )
    empty = Contributions(described.limits).finish()
    assert (x + y) + z == x + (y + z) == statistics(every, described)
    assert x + y == y + x
    assert x + empty == empty + x == x
    with pytest.raises(BoundaryError, match="handed over twice"):
        x + x


def test_statistics_of_different_studies_do_not_merge():
    one = added([], study(3))
    for other in (study(4), study(3, returns=(0.0, 2.0))):
        with pytest.raises(ValueError, match="do not add up"):
            one + added([], other)
    assert one != 3


@pytest.mark.parametrize("batch", [1, 2, 3, 1000])
@pytest.mark.parametrize("shuffled", [True, False])
def test_long_trajectories_over_many_batches(batch, shuffled, monkeypatch):
    """Cutting into batches and joining again loses nothing."""
    from privalue.readers import tables

    monkeypatch.setattr(tables, "BATCH_ROWS", batch)
    generator = random.Random(5)
    data = [
        [(generator.randrange(6), generator.random()) for _ in range(generator.randrange(1, 90))]
        for _ in range(7)
    ]
    rows = rows_of(data)
    if shuffled:
        generator.shuffle(rows)
    found = statistics(table(rows), study(6))
    assert_equals_twin(found, data, 0.9, (0, 1), study(6).return_bounds, 6)


def test_a_million_discounts_do_not_underflow():
    """gamma^t underflows long before t = 10^6; the backward recursion does not care."""
    length = 1_000_000
    contributions = Contributions(study(1, discount=0.5).limits)
    ids, states = np.zeros((length, 1, 1), dtype=np.int64), np.zeros(length, dtype=np.int32)
    contributions.add(ids, np.arange(length), states, np.ones(length))
    found = contributions.finish()
    assert found.counts.tolist() == [1]
    assert found.mean_returns(0.0)[0] == pytest.approx(2.0, abs=1e-8)


def test_counts_of_clamped_returns_and_rewards():
    data = [[(0, 5.0), (0, 0.2)], [(1, -1.0)], [(0, 0.5)]]
    described = study(2, discount=1.0, rewards=(0.0, 4.0), returns=(0.0, 1.0))
    found = statistics(data, described)
    assert (found.rows, found.trajectories) == (4, 3)
    assert found.rewards_clamped == 2  # 5 -> 4 and -1 -> 0
    assert found.returns_clamped == 1  # 4.2 -> 1


def test_too_many_trajectories_are_refused_before_a_sum_can_overflow():
    most = 2**33 - 1
    described = study(1, returns=(0.0, 1.0))
    full = Statistics(
        return_bounds=(0.0, 1.0),
        limits=described.limits,
        trajectories=most,
        rows=most,
        rewards_clamped=0,
        returns_clamped=0,
        counts=np.array([most]),
        return_steps=np.array([most * 2**30]),
    )
    one = statistics([[(0, 1.0)]], described)
    assert full.return_sums[0] == pytest.approx(most)
    with pytest.raises(ValueError, match="would not be exact"):
        full + one


def test_arrays_are_copied_and_read_only():
    counts = np.array([1, 2, 3])
    found = Statistics(
        return_bounds=(0.0, 1.0),
        trajectories=3,
        rows=3,
        rewards_clamped=0,
        returns_clamped=0,
        counts=counts,
        return_steps=counts,
    )
    counts[0] = 7
    assert found.counts.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        found.counts[0] = 1
