import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.worlds import pair_probabilities
from privalue.simulation import MarkovRewardProcess, chain


@st.composite
def processes(draw):
    """Small processes with loops, ways back, unreachable states, and an end from everywhere."""
    states = draw(st.integers(1, 5))
    row = st.lists(st.integers(0, 3), min_size=states, max_size=states)
    weights = np.array(draw(st.lists(row, min_size=states, max_size=states)), dtype=float)
    ending = np.array(draw(st.lists(st.integers(1, 3), min_size=states, max_size=states)))
    start = np.array(draw(st.lists(st.integers(0, 2), min_size=states, max_size=states)), float)
    start[draw(st.integers(0, states - 1))] += 1
    total = weights.sum(axis=1) + ending
    # The last column is a terminal state: the missing mass.
    table = np.zeros((states + 1, states + 1))
    table[:states, :states] = weights / total[:, None]
    table[:states, states] = ending / total
    table[states, states] = 1
    return MarkovRewardProcess.tabular(
        transitions=table,
        rewards=np.zeros(states + 1),
        start=np.append(start / start.sum(), 0.0),
        discount=0.9,
        terminal=[states],
    )


@settings(max_examples=40, deadline=None)
@given(process=processes(), data=st.data())
def test_pairs_agree_with_the_product_chain(process, data):
    s = data.draw(st.integers(0, process.states - 1))
    other = data.draw(st.integers(0, process.states - 1))
    joint, without = pair_probabilities(process, s, other)
    visits = process.visits
    assert visits.joint[s, other] == pytest.approx(joint, abs=1e-12)
    assert visits.single[s] == pytest.approx(joint + without, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(process=processes())
def test_visits_of_two_are_those_of_each_with_the_other(process):
    visits = process.visits
    assert visits.joint == pytest.approx(visits.joint.T, abs=1e-12)
    assert np.diag(visits.joint) == pytest.approx(visits.single)
    assert visits.single.sum() <= visits.expected_length + 1e-12


@pytest.mark.parametrize("stay", [0.0, 0.5, 0.9])
def test_closed_forms_on_the_chain(stay):
    n = 7
    visits = chain(states=n, stay=stay).process.visits
    s = np.arange(n)
    single = (s + 1) / n
    assert visits.single == pytest.approx(single)
    assert visits.joint == pytest.approx(np.minimum.outer(single, single))
    # The last row, and 1 / (1 - p) rows in each of the others.
    assert visits.expected_length == pytest.approx(1 + (n - 1) / 2 / (1 - stay))
    assert visits.single.sum() == pytest.approx((n + 1) / 2)
