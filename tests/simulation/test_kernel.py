import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privalue.simulation import MarkovRewardProcess, chain, garnet
from privalue.simulation._kernel import alias_table, next_word


def test_the_generator_is_xoshiro256plusplus():
    # The outputs of the authors' C program from the state (1, 2, 3, 4), as rand_xoshiro has them.
    generator = np.array([1, 2, 3, 4], dtype=np.uint64)
    assert [int(next_word(generator)) for _ in range(10)] == [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
        9973669472204895162,
        14011001112246962877,
        12406186145184390807,
        15849039046786891736,
        10450023813501588000,
    ]


def implied(table, row):
    """The probability that a row of an alias table gives to each of its columns."""
    low, high = table.offsets[row], table.offsets[row + 1]
    chance = np.zeros(high - low)
    for k in range(low, high):
        chance[k - low] += table.thresholds[k] / (high - low)
        chance[table.aliases[k] - low] += (1 - table.thresholds[k]) / (high - low)
    return chance


@settings(max_examples=100, deadline=None)
@given(weights=st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=30))
def test_alias_tables_draw_what_they_should(weights):
    size = len(weights)
    start = np.array(weights) / np.sum(weights)
    process = MarkovRewardProcess.tabular(
        transitions=np.tile(start, (size, 1)),
        rewards=np.zeros(size),
        start=start,
        discount=0.5,
    )
    table = alias_table(process)
    assert np.all((table.thresholds >= 0) & (table.thresholds <= 1))
    assert implied(table, 0) == pytest.approx(process.outcomes.probabilities[:size], abs=1e-14)
    assert implied(table, size) == pytest.approx(process.start, abs=1e-14)


@pytest.mark.parametrize("world", [chain(states=6, stay=0.3), garnet(states=9, seed=1)])
def test_the_table_of_a_world(world):
    process = world.process
    table = alias_table(process)
    for state in range(process.states):
        low, high = process.outcomes.offsets[state : state + 2]
        assert implied(table, state) == pytest.approx(process.outcomes.probabilities[low:high])
    assert table.successors[: process.outcomes.offsets[-1]].tolist() == (
        process.outcomes.successors.tolist()
    )
    assert table.successors[process.outcomes.offsets[-1] :].tolist() == list(range(process.states))
