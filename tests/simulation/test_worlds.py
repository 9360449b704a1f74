import numpy as np
import pytest

from privalue.errors import StudyError
from privalue.simulation import END, Policy, chain, grid, parse_world, random_chain


def test_the_chain_by_its_definition():
    world = chain(states=3, stay=0.25, discount=0.5)
    outcomes = world.process.outcomes
    assert outcomes.successors.tolist() == [0, 1, 1, 2, END]
    assert outcomes.probabilities.tolist() == [0.25, 0.75, 0.25, 0.75, 1.0]
    assert outcomes.rewards.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert world.process.start == pytest.approx(np.ones(3) / 3)
    # V(1) = (V(1) / 4 + 3 / 4) / 2 = 3 / 7.
    assert world.process.values == pytest.approx([9 / 49, 3 / 7, 1])


def test_a_chain_of_one_state_is_its_last_row():
    world = chain(states=1)
    assert world.process.values.tolist() == [1.0]
    assert world.process.visits.expected_length == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": 0}, "N is 0; it must be a whole number of at least 1"),
        ({"states": 2.5}, "N is 2.5"),
        ({"stay": 1.0}, r"p is 1.0; the probability of staying must be in \[0, 1\)"),
        ({"stay": -0.1}, "p is -0.1"),
        ({"stay": float("nan")}, "p is nan"),
        ({"start": "last"}, "start is 'last'; it must be 'uniform' or 'first'"),
        ({"discount": 0}, "discount is 0"),
    ],
)
def test_what_is_wrong_with_a_chain_is_named(arguments, message):
    with pytest.raises(StudyError, match=message):
        chain(**arguments)


def test_a_random_chain_is_what_its_seed_makes_it():
    one, again, other = (random_chain(states=15, seed=seed).process for seed in (3, 3, 4))
    assert one.outcomes.probabilities.tolist() == again.outcomes.probabilities.tolist()
    assert one.outcomes.rewards.tolist() == again.outcomes.rewards.tolist()
    assert one.outcomes.probabilities.tolist() != other.outcomes.probabilities.tolist()


@pytest.mark.parametrize("branching", [1, 3, 100])
def test_a_random_chain_always_ends_and_goes_forward(branching):
    process = random_chain(states=15, branching=branching, seed=9).process
    process.require_end()
    table = process.transitions.toarray()
    assert np.all(np.diag(table, 1) > 0)
    rows = np.count_nonzero(table[:-1], axis=1)
    assert rows.max() == min(branching, 7)
    assert process.visits.expected_length < 100
    low, high = process.reward_bounds
    assert 0 <= low < high < 1


def test_a_random_chain_refuses_wrong_numbers():
    with pytest.raises(StudyError, match="branching is 0"):
        random_chain(branching=0)
    with pytest.raises(StudyError, match="seed is -1"):
        random_chain(seed=-1)


def test_a_grid_slips_to_the_sides_and_stays_at_the_edge():
    right = Policy.deterministic([1] * 6, actions=4)
    table = grid(rows=2, columns=3, slip=0.2, policy=right).process.transitions.toarray()
    # From the upper left: right, down, or up into the edge.
    assert table[0] == pytest.approx([0.1, 0.8, 0, 0.1, 0, 0])
    # From the upper right: right and up are edges; down is the goal.
    assert table[2] == pytest.approx([0, 0, 0.9, 0, 0, 0.1])
    assert table[5] == pytest.approx(np.zeros(6))


def test_on_a_grid_without_slip_the_greedy_policy_walks_straight():
    process = grid(rows=3, columns=4, slip=0, policy="greedy", discount=0.5).process
    row, column = np.divmod(np.arange(12), 4)
    # One last row in the goal, after as many moves as there are steps to it.
    assert process.values == pytest.approx(0.5 ** (5 - row - column))


def test_a_grid_refuses_wrong_numbers():
    with pytest.raises(StudyError, match="rows is 0"):
        grid(rows=0)
    with pytest.raises(StudyError, match="columns is 0"):
        grid(columns=0)
    with pytest.raises(StudyError, match=r"slip is 1.5; it must be in \[0, 1\]"):
        grid(slip=1.5)
    with pytest.raises(StudyError, match="policy is 'best'"):
        grid(policy="best")


def test_the_text_of_a_world_makes_it_again():
    for world in (
        chain(states=7, stay=0.1, start="first", discount=1),
        random_chain(states=9, branching=2, seed=8, discount=0.9),
        grid(rows=2, columns=2, slip=0.3, policy="greedy", start="first"),
    ):
        again = parse_world(world.text)
        assert again.text == world.text
        assert again.process.values.tolist() == world.process.values.tolist()
        assert again.parameters == world.parameters


def test_parameters_cannot_be_changed():
    world = chain()
    with pytest.raises(TypeError):
        world.parameters["N"] = 3
