import numpy as np
import pytest

from oracles.worlds import first_visits
from privalue.core import GRID_STEPS
from privalue.errors import UsageError
from privalue.paper import chain_statistics
from privalue.paper.chain import _in_steps, _powers
from privalue.simulation import chain, parse_world, simulate_episodes


def test_without_staying_nothing_is_random_but_the_start():
    n, m, gamma = 5, 1000, 0.9
    drawn = chain_statistics(chain(states=n, stay=0, discount=gamma), trajectories=m, seed=1)
    assert drawn.counts[-1] == m
    assert np.all(np.diff(drawn.counts) > 0)
    exact = [1.0]
    for _ in range(n - 1):
        exact.append(0.0 + gamma * exact[-1])
    steps = np.floor(np.array(exact[::-1]) * GRID_STEPS + 0.5).astype(np.int64)
    assert drawn.return_steps.tolist() == (drawn.counts * steps).tolist()


def test_from_the_first_state_without_staying_all_is_fixed():
    drawn = chain_statistics(
        chain(states=3, stay=0, start="first", discount=0.5), trajectories=7, seed=1
    )
    assert drawn.counts.tolist() == [7, 7, 7]
    assert drawn.return_steps.tolist() == [7 * GRID_STEPS // 4, 7 * GRID_STEPS // 2, 7 * GRID_STEPS]


def test_one_trajectory_is_a_trajectory():
    world = chain(states=6, stay=0.4, discount=0.7)
    for seed in range(50):
        drawn = chain_statistics(world, trajectories=1, seed=seed)
        first = int(np.argmax(drawn.counts))
        assert drawn.counts.tolist() == [0] * first + [1] * (6 - first)
        # Waiting times are whole numbers of at least one, and the last state returns 1.
        waits = np.diff(np.log(drawn.return_steps[first:] / GRID_STEPS)) / -np.log(0.7)
        assert waits == pytest.approx(np.round(waits), abs=1e-6)
        assert np.all(waits >= 1 - 1e-6)
        assert drawn.return_steps[-1] == GRID_STEPS


def test_a_grid_of_returns_as_the_statistics_have_it():
    gamma = 0.97
    world = chain(states=8, stay=0.6, discount=gamma)
    rows = simulate_episodes(world, trajectories=300, seed=2)
    visited, returns = first_visits(rows, 8, gamma)
    powers = _powers(gamma, 400)
    # Every simulated return is, to the last bit, one of the powers.
    assert set(returns[visited]) <= set(powers)


@pytest.mark.parametrize(
    ("value", "bounds", "steps"),
    [
        (0.0, (0, 1), 0),
        (1.0, (0, 1), GRID_STEPS),
        (2.0, (0, 1), GRID_STEPS),
        (-1.0, (0, 1), 0),
        (0.5 / GRID_STEPS, (0, 1), 1),
        (0.49 / GRID_STEPS, (0, 1), 0),
        (0.25, (-1, 1), 5 * GRID_STEPS // 8),
        (0.1, (0, 0.1), GRID_STEPS),
    ],
)
def test_rounding_to_the_grid(value, bounds, steps):
    assert _in_steps(np.array([value]), *bounds).tolist() == [steps]


def test_returns_are_clamped():
    world = chain(states=4, stay=0, start="first", discount=0.5)
    drawn = chain_statistics(world, trajectories=3, seed=0, returns=(0.25, 0.75))
    assert drawn.return_steps.tolist() == [0, 0, 3 * GRID_STEPS // 2, 3 * GRID_STEPS]


def test_ten_million_and_the_most():
    drawn = chain_statistics(parse_world("chain"), trajectories=10**7, seed=0)
    values = parse_world("chain").process.values
    means = drawn.return_steps / drawn.counts / GRID_STEPS
    assert means == pytest.approx(values, abs=1e-3)
    most = chain_statistics(parse_world("chain"), trajectories=2**33 - 1, seed=0)
    assert most.counts[-1] == 2**33 - 1
    assert most.return_steps[-1] == (2**33 - 1) * GRID_STEPS


def test_a_seed_decides():
    one, again, other = (
        chain_statistics(chain(states=4), trajectories=50, seed=seed) for seed in (1, 1, 2)
    )
    assert one.return_steps.tolist() == again.return_steps.tolist()
    assert one.return_steps.tolist() != other.return_steps.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trajectories": 0}, "trajectories is 0"),
        ({"trajectories": 2**33}, "it must be from 1 to 8589934591"),
        ({"returns": (1.0, 0.0)}, "two finite numbers, the lower first"),
        ({"returns": (0.0, np.inf)}, "two finite numbers"),
        ({"world": parse_world("garnet")}, "direct statistics are for 'chain' only"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    fields = {"world": chain(states=3), "trajectories": 1, "seed": 0}
    with pytest.raises(UsageError, match=message):
        chain_statistics(**(fields | changes))
