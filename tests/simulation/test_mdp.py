"""MDPs and reward processes: conventions by hand, exact answers against literal twins."""

import itertools

import numpy as np
import pytest

from oracles.decisions import action_values, best_values
from oracles.refusals import refused
from privalue.simulation import END, MDP, MarkovRewardProcess, garnet

TRANSITIONS = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ]
)


START = np.array([1.0, 0.0, 0.0])


FIRST_ACTION = np.eye(2)[[0, 0, 0]]


def small_mdp(**changes):
    fields = {
        "transitions": TRANSITIONS,
        "rewards": np.array([0.0, 0.0, 1.0]),
        "start": START,
        "discount": 0.5,
        "absorbing": [2],
    }
    return MDP.tabular(**(fields | changes))


def process(**changes):
    fields = {
        "transitions": np.array([[0.0, 1.0], [0.0, 1.0]]),
        "rewards": np.array([1.0, 3.0]),
        "start": np.array([1.0, 0.0]),
        "discount": 0.5,
        "absorbing": [1],
    }
    return MarkovRewardProcess.tabular(**(fields | changes))


def test_rewards_on_states_actions_and_transitions():
    # V(2) = 1; V(1) = r + V(2) / 2; V(0) = r + (V(0) + V(1)) / 4.
    on_states = small_mdp().under(FIRST_ACTION).values
    assert on_states == pytest.approx([1 / 6, 1 / 2, 1])

    on_actions = np.array([[3.0, 9.0], [1.0, 9.0], [0.0, 0.0]])
    assert small_mdp(rewards=on_actions).under(FIRST_ACTION).values == pytest.approx([13 / 3, 1, 0])

    on_transitions = np.zeros((3, 2, 3))
    on_transitions[0, 0] = [2.0, 4.0, 9.0]
    on_transitions[2, :, 2] = 1.0
    # r(0) = (2 + 4) / 2 = 3
    expected = [(3 + 0.25 * 0.5) / 0.75, 0.5, 1]
    assert small_mdp(rewards=on_transitions).under(FIRST_ACTION).values == pytest.approx(expected)


def test_an_absorbing_state_gets_one_last_row_and_a_terminal_one_none():
    last_row = process()
    assert last_row.values.tolist() == [2.5, 3.0]
    assert last_row.visits.expected_length == 2

    no_row = process(absorbing=(), terminal=[1])
    assert no_row.values.tolist() == [1.0, 0.0]
    assert no_row.visits.expected_length == 1
    assert no_row.outcomes.successors.tolist() == [END, END]


def test_a_process_that_may_never_end_is_refused_where_it_matters():
    endless = process(absorbing=())
    # Discounted values of endless trajectories exist: 1 + 3 (1/2 + 1/4 + ...) = 4.
    assert endless.values == pytest.approx([4.0, 6.0])
    assert endless.surely_ends.tolist() == [False, False]
    with refused("study-invalid"):
        endless.require_end()
    with refused("study-invalid"):
        _ = endless.visits


def test_a_trap_is_endless_even_if_the_end_is_possible():
    trap = process(
        transitions=np.array([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        rewards=np.ones(3),
        start=np.array([1.0, 0.0, 0.0]),
        discount=1.0,
        absorbing=[1],
    )
    assert trap.surely_ends.tolist() == [False, True, False]
    assert np.isnan(trap.values).tolist() == [True, False, True]
    with refused("study-invalid"):
        trap.require_end()


SMALL = garnet(states=5, actions=3, branching=2, seed=11, discount=0.9)


RANDOM = np.random.default_rng(3).dirichlet(np.ones(3), size=5)


def small_worlds():
    sparse_policy = np.eye(3)[[0, 2, 1, 1, 0]] * 0.5 + np.eye(3)[[1, 2, 0, 1, 0]] * 0.5
    yield SMALL.mdp, SMALL.policy
    yield SMALL.mdp, RANDOM
    yield SMALL.mdp, sparse_policy
    # Actions that nobody takes lead to states that nobody visits.
    lonely = garnet(states=5, actions=3, branching=1, seed=2, start="first")
    yield lonely.mdp, np.eye(3)[[1, 0, 2, 0, 1]]


@pytest.mark.parametrize(("mdp", "policy"), list(small_worlds()))
def test_q_and_v_and_j_are_those_of_fractions(mdp, policy):
    literal = np.array([[float(x) for x in row] for row in action_values(mdp, policy)])
    np.testing.assert_allclose(mdp.q(policy), literal, rtol=1e-12, atol=1e-12)
    values = (policy * literal).sum(axis=1)
    np.testing.assert_allclose(mdp.under(policy).values, values, rtol=1e-12, atol=1e-12)
    assert mdp.value(policy) == pytest.approx(mdp.start @ values, rel=1e-12)


def test_the_best_policy_is_that_of_plain_value_iteration():
    best = SMALL.mdp.optimal()
    np.testing.assert_allclose(SMALL.mdp.under(best).values, best_values(SMALL.mdp, 300))
    for choice in itertools.product(range(3), repeat=5):
        policy = np.eye(3)[list(choice)]
        assert np.all(SMALL.mdp.under(policy).values <= SMALL.mdp.under(best).values + 1e-9)
    assert np.all(SMALL.mdp.q(best).max(axis=1) <= SMALL.mdp.under(best).values + 1e-9)
