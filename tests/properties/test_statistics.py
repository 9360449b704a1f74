"""First-visit statistics: the literal twin, order, merging, seams."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import episodes, make_study, rows_of
from privalue.core import Contributions

COLUMNS = ("trajectory", "step", "state", "reward")


def table(rows):
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(COLUMNS, map(list, columns), strict=True)))


def columns(rows):
    """Ordered rows as columns for the core."""
    trajectory, step, state, reward = zip(*rows, strict=True)
    ids = np.array(trajectory, dtype=np.int64)[:, None, None]
    return ids, np.array(step), np.array(state, dtype=np.int32), np.array(reward, dtype=float)


def add_batches(batches, study):
    contributions = Contributions(study.limits)
    for rows in batches:
        contributions.add(*columns(rows))
    return contributions.finish()


def assert_equals_twin(actual, data, discount, rewards, returns, states):
    m, counts, sums = literal.first_visit(data, discount, rewards, returns, states)
    assert actual.trajectories == m
    assert actual.counts.tolist() == counts
    assert actual.return_steps.tolist() == sums


@given(
    data=episodes(4),
    discount=st.floats(0.01, 1.0),
    returns=st.sampled_from([(0.0, 1.0), (-1.5, 2.5), (-3.0, -1.0), (0.25, 0.5), (-100.0, 100.0)]),
)
def test_the_kernel_is_the_literal_definition(data, discount, returns):
    study = make_study(4, discount=discount, rewards=(-1.0, 1.0), returns=returns)
    assert_equals_twin(statistics(data, study), data, discount, (-1.0, 1.0), returns, 4)


@given(data=episodes(5), shuffle=st.randoms(use_true_random=False), gap=st.integers(1, 7))
def test_order_of_rows_and_gaps_in_steps_do_not_matter(data, shuffle, gap):
    rows = [(t, gap * i - 3, s, r) for t, i, s, r in rows_of(data)]
    shuffle.shuffle(rows)
    assert statistics(table(rows), make_study(5)) == statistics(data, make_study(5))


@given(a=episodes(3), b=episodes(3), c=episodes(3))
def test_merging_is_a_commutative_monoid_and_equals_reading_at_once(a, b, c):
    study = make_study(3)
    every = a + b + c
    rows, first = rows_of(every), len(a)
    groups = [range(first), range(first, first + len(b)), range(first + len(b), len(every))]
    x, y, z = (
        statistics(table([row for row in rows if row[0] in group]), study) for group in groups
    )
    empty = Contributions(study.limits).finish()
    assert (x + y) + z == x + (y + z) == statistics(every, study)
    assert x + y == y + x
    assert x + empty == empty + x == x
    with refused("boundary-twice"):
        x + x


def test_statistics_of_different_studies_do_not_merge():
    one = add_batches([], make_study(3))
    for other in (make_study(4), make_study(3, returns=(0.0, 2.0))):
        with refused("data-invalid"):
            one + add_batches([], other)
    assert one != 3


def test_a_million_discounts_do_not_underflow():
    """gamma^t underflows long before t = 10^6; the backward recursion does not care."""
    length = 1_000_000
    contributions = Contributions(make_study(1, discount=0.5).limits)
    ids, states = np.zeros((length, 1, 1), dtype=np.int64), np.zeros(length, dtype=np.int32)
    contributions.add(ids, np.arange(length), states, np.ones(length))
    actual = contributions.finish()
    assert actual.counts.tolist() == [1]
    assert actual.mean_returns(0.0)[0] == pytest.approx(2.0, abs=1e-8)
