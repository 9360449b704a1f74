from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from privalue.errors import StudyError
from privalue.simulation import END, Outcomes


def two_states(**changes):
    """0 stays or goes to 1, which ends."""
    listed = {
        "states": 2,
        "actions": 1,
        "rows": [0, 0, 1],
        "probabilities": [0.25, 0.75, 1.0],
        "successors": [0, 1, END],
        "rewards": [0.0, 0.0, 1.0],
    }
    return Outcomes.collect(**(listed | changes))


def test_the_lacking_mass_of_a_row_is_its_end():
    outcomes = two_states()
    assert outcomes.transitions.toarray().tolist() == [[0.25, 0.75], [0.0, 0.0]]
    assert outcomes.expected_rewards.tolist() == [0.0, 1.0]


def test_equal_outcomes_are_added_up_and_impossible_ones_go():
    outcomes = two_states(
        rows=[1, 0, 0, 0, 0],
        probabilities=[1.0, 0.5, 0.25, 0.25, 0.0],
        successors=[END, 1, 0, 1, 0],
        rewards=[1.0, -0.0, 0.0, 0.0, 7.0],
    )
    assert outcomes.offsets.tolist() == [0, 2, 3]
    assert outcomes.probabilities.tolist() == [0.25, 0.75, 1.0]
    assert outcomes.successors.tolist() == [0, 1, END]


def test_two_rewards_on_one_transition_stay_apart():
    outcomes = two_states(
        rows=[0, 0, 1], successors=[1, 1, END], probabilities=[0.25, 0.75, 1], rewards=[-1, -100, 0]
    )
    assert outcomes.rewards.tolist() == [-100.0, -1.0, 0.0]
    assert outcomes.transitions.toarray().tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert outcomes.expected_rewards.tolist() == [-75.25, 0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probabilities": [0.25, 0.74, 1.0]}, "state 0 sum to 0.99; they must sum to one"),
        ({"probabilities": [0.25, 0.75, 0.0]}, "state 1 sum to 0; they must sum to one"),
        ({"probabilities": [-0.25, 1.25, 1.0]}, "probability of state 0 is -0.25"),
        ({"probabilities": [np.nan, 0.75, 1.0]}, "probability of state 0 is nan"),
        ({"probabilities": [0.25, 0.75, np.inf]}, "state 1 sum to inf"),
        ({"rewards": [0.0, 0.0, np.nan]}, "reward of state 1 is nan; it must be finite"),
        ({"rewards": [np.inf, 0.0, 0.0]}, "reward of state 0 is inf; it must be finite"),
        ({"successors": [0, 2, END]}, "successor of state 0 is 2; it must be a state from 0 to 1"),
        ({"successors": [0, -2, END]}, "successor of state 0 is -2"),
        ({"rows": [0, 0, 2]}, "offsets must be 3 numbers"),
        ({"rows": [-1, 0, 1]}, "offsets must be 3 numbers"),
        ({"states": 0, "rows": [0, 0, 0]}, "both must be at least 1"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(StudyError, match=message):
        two_states(**changes)


def test_a_negative_part_is_not_hidden_by_a_sum():
    with pytest.raises(StudyError, match=r"is -0\.5"):
        two_states(rows=[0, 0, 1], successors=[1, 1, END], probabilities=[1.5, -0.5, 1.0])


def test_with_actions_the_message_names_the_action():
    with pytest.raises(StudyError, match=r"state 0, action 1 sum to 0\.5"):
        Outcomes.collect(
            states=1,
            actions=2,
            rows=[0, 1],
            probabilities=[1.0, 0.5],
            successors=[END, END],
            rewards=[0.0, 0.0],
        )


def test_shapes_are_checked():
    fields = {
        "states": 1,
        "actions": 1,
        "offsets": [0, 1],
        "probabilities": [1.0],
        "successors": [END],
        "rewards": [0.0],
    }
    Outcomes(**fields)
    with pytest.raises(StudyError, match=r"rewards has shape \(2,\); it must be \(1,\)"):
        Outcomes(**(fields | {"rewards": [0.0, 0.0]}))
    with pytest.raises(StudyError, match="offsets must not decrease"):
        Outcomes(**(fields | {"states": 2, "offsets": [0, 2, 1]}))


def test_outcomes_cannot_be_changed():
    source = np.array([0.25, 0.75, 1.0])
    outcomes = two_states(probabilities=source)
    source[0] = 9
    assert outcomes.probabilities[0] == 0.25
    with pytest.raises(ValueError, match="read-only"):
        outcomes.rewards[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        outcomes.transitions.data[0] = 1
    with pytest.raises(FrozenInstanceError):
        outcomes.states = 3
