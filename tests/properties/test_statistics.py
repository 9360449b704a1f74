"""First-visit statistics: the literal twin, order, merging, seams."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from oracles.studies import episodes, rows_of, study
from privalue.core._contributions import Accumulator, VisitStatistics
from privalue.readers import Fragment
from privalue.readers._local import statistics

COLUMNS = ("trajectory", "step", "state", "reward")


def table(rows):
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(COLUMNS, map(list, columns), strict=True)))


def cut(rows, cuts):
    """Fragments of ordered rows, cut at the given places."""
    places = sorted({0, len(rows), *(c % (len(rows) + 1) for c in cuts)})
    starts = np.array([i for i, row in enumerate(rows) if i == 0 or row[0] != rows[i - 1][0]])
    for low, high in itertools.pairwise(places):
        yield Fragment(
            starts[(low <= starts) & (starts < high)] - low,
            np.array([row[2] for row in rows[low:high]], dtype=np.int32),
            np.array([row[3] for row in rows[low:high]]),
        )


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


@given(data=episodes(5), cuts=st.lists(st.integers(0, 100), max_size=12))
def test_trajectories_may_straddle_fragments(data, cuts):
    """Also the test that catches a fragment dropped at a batch seam."""
    described = study(5, rewards=(-2.0, 2.0))
    assert gathered(cut(rows_of(data), cuts), described) == statistics(data, described)


def gathered(fragments, described):
    accumulator = Accumulator(described)
    for fragment in fragments:
        accumulator.add(fragment)
    return accumulator.finish()


def test_a_fragment_dropped_at_a_seam_is_caught():
    data = [[(0, 1.0), (1, 0.5), (2, 1.0)], [(2, 1.0), (0, 0.0)]]
    whole = Accumulator(study(3))
    broken = Accumulator(study(3))
    for fragment in cut(rows_of(data), [2]):
        whole.add(fragment)
        broken.add(fragment)
        broken._open = []  # the planted mistake
    assert_equals_twin(whole.finish(), data, 0.9, (0, 1), study(3).return_bounds, 3)
    assert broken.finish() != whole.finish()


@given(a=episodes(3), b=episodes(3), c=episodes(3))
def test_merging_is_a_commutative_monoid_and_equals_reading_at_once(a, b, c):
    described = study(3)
    x, y, z = (statistics(part, described) for part in (a, b, c))
    empty = VisitStatistics.empty(described)
    assert (x + y) + z == x + (y + z) == statistics(a + b + c, described)
    assert x + y == y + x
    assert x + empty == empty + x == x


def test_statistics_of_different_studies_do_not_merge():
    one = VisitStatistics.empty(study(3))
    for other in (study(4), study(3, returns=(0.0, 2.0))):
        with pytest.raises(ValueError, match="do not add up"):
            one + VisitStatistics.empty(other)
    assert one.__add__(3) is NotImplemented
    assert one != 3


@pytest.mark.parametrize("batch", [1, 2, 3, 1000])
@pytest.mark.parametrize("shuffled", [True, False])
def test_long_trajectories_over_many_batches(batch, shuffled, monkeypatch):
    """Cutting into batches and joining again loses nothing."""
    from privalue.readers import _encode as encode
    from privalue.readers import _sources as sources

    monkeypatch.setattr(sources, "BATCH_ROWS", batch)
    monkeypatch.setattr(encode, "PART_ROWS", max(batch // 2, 1))
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
    fragment = Fragment(np.array([0]), np.zeros(length, dtype=np.int32), np.ones(length))
    accumulator = Accumulator(study(1, discount=0.5))
    accumulator.add(fragment)
    found = accumulator.finish()
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
    full = VisitStatistics(
        return_bounds=(0.0, 1.0),
        trajectories=most,
        rows=most,
        rewards_clamped=0,
        returns_clamped=0,
        counts=np.array([most]),
        return_steps=np.array([most * 2**30]),
    )
    one = statistics([[(0, 1.0)]], study(1, returns=(0.0, 1.0)))
    assert full.return_sums[0] == pytest.approx(most)
    with pytest.raises(ValueError, match="would not be exact"):
        full + one


def test_arrays_are_copied_and_read_only():
    counts = np.array([1, 2, 3])
    found = VisitStatistics(
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
