import numpy as np
import pytest

from privalue.errors import StudyError
from privalue.simulation import END, chain, garnet, parse_world


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


def test_the_text_of_a_world_makes_it_again():
    for world in (
        chain(states=7, stay=0.1, start="first", discount=1),
        garnet(states=9, branching=2, seed=8, policy="greedy", start="first", discount=0.9),
    ):
        again = parse_world(world.text)
        assert again.text == world.text
        assert again.process.values.tolist() == world.process.values.tolist()
        assert again.parameters == world.parameters


def test_parameters_cannot_be_changed():
    world = chain()
    with pytest.raises(TypeError):
        world.parameters["N"] = 3
