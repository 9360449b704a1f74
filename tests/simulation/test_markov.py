from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy import sparse

from privalue.errors import StudyError
from privalue.simulation import END, MDP, MarkovRewardProcess, Policy

# State 0: action 0 stays or advances, action 1 jumps to the last. State 2 is absorbing.
TRANSITIONS = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ]
)
START = np.array([1.0, 0.0, 0.0])
FIRST_ACTION = Policy.deterministic([0, 0, 0], actions=2)


def mdp(**changes):
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
    on_states = mdp().under(FIRST_ACTION).values
    assert on_states == pytest.approx([1 / 6, 1 / 2, 1])

    on_actions = np.array([[3.0, 9.0], [1.0, 9.0], [0.0, 0.0]])
    assert mdp(rewards=on_actions).under(FIRST_ACTION).values == pytest.approx([13 / 3, 1, 0])

    on_transitions = np.zeros((3, 2, 3))
    on_transitions[0, 0] = [2.0, 4.0, 9.0]
    on_transitions[2, :, 2] = 1.0
    # r(0) = (2 + 4) / 2 = 3
    expected = [(3 + 0.25 * 0.5) / 0.75, 0.5, 1]
    assert mdp(rewards=on_transitions).under(FIRST_ACTION).values == pytest.approx(expected)


def test_sparse_tables_are_the_same_as_dense_ones():
    rows = TRANSITIONS.reshape(6, 3)
    rewards = np.zeros((6, 3))
    rewards[0, 1] = 2.0
    dense = mdp(rewards=rewards.reshape(3, 2, 3))
    for kind in (sparse.coo_array, sparse.csr_array):
        other = mdp(transitions=kind(rows), rewards=kind(rewards))
        assert (other.outcomes.transitions != dense.outcomes.transitions).nnz == 0
        assert other.outcomes.expected_rewards.tolist() == dense.outcomes.expected_rewards.tolist()


def test_an_absorbing_state_gets_one_last_row_and_a_terminal_one_none():
    last_row = process()
    assert last_row.values.tolist() == [2.5, 3.0]
    assert last_row.visits.expected_length == 2

    no_row = process(absorbing=(), terminal=[1])
    assert no_row.values.tolist() == [1.0, 0.0]
    assert no_row.visits.expected_length == 1
    assert no_row.outcomes.successors.tolist() == [END, END]


def test_a_terminal_state_may_have_any_row_of_its_own():
    odd = process(transitions=np.array([[0.0, 1.0], [1.0, 0.0]]), absorbing=(), terminal=[1])
    assert odd.values.tolist() == [1.0, 0.0]


def test_a_policy_mixes_actions():
    # From 0: half (stay or advance), half a jump to the last.
    mixed = mdp().under(Policy.uniform(states=3, actions=2))
    assert mixed.transitions.toarray().tolist() == [
        [0.25, 0.25, 0.5],
        [0.5, 0.0, 0.5],
        [0.0, 0.0, 0.0],
    ]
    assert mixed.states == 3
    assert mixed.reward_bounds == (0.0, 1.0)


def test_rewards_of_different_actions_stay_apart():
    mixed = mdp(rewards=np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])).under(
        Policy(probabilities=[[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    )
    assert mixed.outcomes.rewards.tolist() == [2.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transitions": np.ones((3, 2, 4))}, r"transitions has shape \(3, 2, 4\)"),
        ({"transitions": np.ones((5, 3))}, r"transitions has shape \(5, 3\)"),
        ({"transitions": np.ones(3)}, r"transitions has shape \(3,\)"),
        ({"transitions": np.ones((0, 0))}, r"transitions has shape \(0, 0\)"),
        ({"transitions": TRANSITIONS * 0.9}, "state 0, action 0 sum to 0.9; they must sum to one"),
        ({"transitions": -TRANSITIONS}, "state 0, action 0 is -0.5; it must be at least 0"),
        ({"transitions": TRANSITIONS * np.nan}, "state 0, action 0 is nan"),
        ({"rewards": np.zeros(4)}, r"rewards has shape \(4,\); it must be \(3,\) on states"),
        ({"rewards": np.zeros((3, 3))}, r"rewards has shape \(3, 3\)"),
        ({"rewards": np.array([0.0, np.nan, 0.0])}, "reward of state 1, action 0 is nan"),
        ({"start": np.array([0.5, 0.5])}, r"start has shape \(2,\); it must be \(3,\)"),
        ({"start": np.array([0.5, 0.4, 0.0])}, "start sums to 0.9; it must sum to one"),
        ({"start": np.array([1.5, -0.5, 0.0])}, "start of state 1 is -0.5"),
        ({"start": np.array([np.nan, 0.5, 0.5])}, "start of state 0 is nan"),
        ({"discount": 0.0}, "discount is 0.0; it must be above 0 and at most 1"),
        ({"discount": 1.01}, "discount is 1.01"),
        ({"discount": float("nan")}, "discount is nan"),
        ({"absorbing": [3]}, "absorbing lists state 3; states are 0 to 2"),
        ({"absorbing": [-1]}, "absorbing lists state -1"),
        ({"absorbing": [1]}, "absorbing state 1 can be left for state 2"),
        ({"terminal": [2]}, "state 2 is listed as absorbing and as terminal"),
        ({"terminal": [0]}, "the start has a positive probability on a terminal state"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(StudyError, match=message):
        mdp(**changes)


def test_a_policy_of_another_shape_is_refused():
    with pytest.raises(StudyError, match="for 3 states and 4 actions; this MDP has 3 and 2"):
        mdp().under(Policy.uniform(states=3, actions=4))


def test_a_process_has_no_actions():
    with pytest.raises(StudyError, match=r"choose them by a policy, with MDP\.under"):
        MarkovRewardProcess(outcomes=mdp().outcomes, start=START, discount=0.5)


def test_a_process_that_may_never_end_is_refused_where_it_matters():
    endless = process(absorbing=())
    # Discounted values of endless trajectories exist: 1 + 3 (1/2 + 1/4 + ...) = 4.
    assert endless.values == pytest.approx([4.0, 6.0])
    assert endless.surely_ends.tolist() == [False, False]
    with pytest.raises(StudyError, match="visits state 0 may never end"):
        endless.require_end()
    with pytest.raises(StudyError, match="may never end"):
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
    with pytest.raises(StudyError, match="may never end"):
        trap.require_end()


def test_a_trap_that_no_trajectory_reaches_does_no_harm():
    safe = process(
        transitions=np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        rewards=np.array([1.0, 2.0, 100.0]),
        start=np.array([1.0, 0.0, 0.0]),
        discount=1.0,
        absorbing=[1],
    )
    safe.require_end()
    assert safe.values[:2].tolist() == [3.0, 2.0]
    assert np.isnan(safe.values[2])
    assert safe.start_value == 3.0
    assert safe.reward_bounds == (1.0, 2.0)
    assert safe.visits.single.tolist() == [1.0, 1.0, 0.0]
    assert safe.visits.without.tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


def test_processes_cannot_be_changed():
    source = np.array([1.0, 0.0])
    fixed = process(start=source)
    source[0] = 7
    assert fixed.start.tolist() == [1.0, 0.0]
    for array in (fixed.start, fixed.values, fixed.visits.single, fixed.visits.joint):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(FrozenInstanceError):
        fixed.discount = 0.1
    with pytest.raises(TypeError):
        MarkovRewardProcess(fixed.outcomes, fixed.start, 0.5)
