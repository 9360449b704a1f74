"""Gymnasium: worlds of its transition tables, and rollouts of its environments."""

import numpy as np
import pytest

import privalue as pv
from oracles.refusals import refused
from privalue.errors import PrivalueWarning
from privalue.simulation import parse_world

gymnasium = pytest.importorskip("gymnasium")
CLIFF = max(name for name in gymnasium.registry if name.startswith("CliffWalking-v"))


def test_a_terminated_transition_ends_after_its_row():
    # Right, right, down, down, down, right: the way to the goal without slipping.
    way = {0: 2, 1: 2, 2: 1, 6: 1, 10: 1, 14: 2}
    world = pv.world(
        "gym:FrozenLake-v1,is_slippery=false", policy=lambda s: way.get(s, 0), discount=0.5
    )
    process = world.process
    assert process.visits.expected_length == 6
    assert np.flatnonzero(world.visits).tolist() == sorted(way)
    assert world.values[[0, 1, 2, 6, 10, 14]] == pytest.approx(0.5 ** np.arange(5, -1, -1))
    # The goal is a final observation: it gets no row, and the table's row for it is worth nothing.
    assert world.visits[15] == world.values[15] == 0


def test_published_values():
    world = parse_world("gym:FrozenLake-v1,policy=greedy")
    # The value of the first state under value iteration at 0.99, in many a tutorial: 0.542.
    assert world.value == pytest.approx(0.5420259, abs=1e-6)
    # Without discounting the best chance to reach the goal is 14 / 17.
    assert pv.world(world, discount=1.0).value == pytest.approx(14 / 17)
    # Sutton and Barto, example 6.6: the optimal path along the cliff takes 13 steps at -1.
    cliff = parse_world(f"gym:{CLIFF},policy=greedy,discount=1")
    assert cliff.value == pytest.approx(-13)
    assert cliff.process.visits.expected_length == pytest.approx(13)


# Rollouts


class Corridor(gymnasium.Env):
    """Observations 10, 11, 12, ...; action 1 advances; reward 5 on reaching the end."""

    def __init__(self, length=3, cut_after=None):
        self.observation_space = gymnasium.spaces.Discrete(length, start=10)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length, self.cut_after = length, cut_after

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.steps = 0
        return 10, {}

    def step(self, action):
        self.steps += 1
        self.position += int(action)
        over = self.position == self.length - 1
        cut = self.cut_after is not None and self.steps >= self.cut_after
        return 10 + self.position, 5.0 if over else -1.0, over, cut, {}


def advance(observation):
    return 1


def test_one_row_per_transition_and_none_for_the_final_observation():
    rows = pv.rollout(Corridor(), advance, 2)
    assert rows.trajectory.tolist() == [0, 0, 1, 1]
    assert rows.step.tolist() == [0, 1, 0, 1]
    assert rows.state.tolist() == [0, 1, 0, 1]
    assert rows.reward.tolist() == [-1.0, 5.0, -1.0, 5.0]
    assert rows.action.tolist() == [1, 1, 1, 1]
    assert rows.probability is None  # a function does not tell how likely its choice was
    assert (rows.trajectories, rows.truncated) == (2, 0)


def test_a_policy_table_is_indexed_by_state():
    table = [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    for policy in (table, np.array(table), dict(enumerate(table))):
        rows = pv.rollout(Corridor(), policy, episodes=200, seed=3)
        # One row in the first state, a geometric number in the second.
        assert np.sum(rows.state == 0) == 200
        assert 300 < np.sum(rows.state == 1) < 500
        assert rows.probability.tolist() == np.array(table)[rows.state, rows.action].tolist()


def test_truncated_episodes_are_marked_and_said():
    with pytest.warns(PrivalueWarning):
        rows = pv.rollout(Corridor(cut_after=3), "uniform", 100, seed=1)
    assert np.bincount(rows.trajectory).max() == 3
    last = np.append(np.diff(rows.trajectory) == 1, True)
    assert rows.cut.tolist() == (last & (rows.reward != 5)).tolist()
    study = pv.Study(states=3, discount=1, returns=(0, 5), epsilon=1, delta=0.1, unit="trajectory")
    with refused("truncated-rows-missing"):
        pv.inspect(study, rows)
    assert rows.truncated == rows.cut.sum()
    # An episode that ends at the limit is not truncated.
    assert pv.rollout(Corridor(cut_after=2), advance, 3).truncated == 0
    with pytest.warns(PrivalueWarning):
        rows = pv.rollout(Corridor(), lambda _: 0, 2, truncate_at=3)
    assert rows.step.tolist() == [0, 1, 2, 0, 1, 2]
