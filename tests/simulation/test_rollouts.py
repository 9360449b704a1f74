import numpy as np
import pytest

from privalue.errors import UsageError
from privalue.simulation import Policy, rollout

gymnasium = pytest.importorskip("gymnasium")


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


class Advance:
    def __call__(self, observation):
        return 1


def test_one_row_per_transition_and_none_for_the_final_observation():
    rows = rollout(Corridor(), Advance(), trajectories=2, seed=0)
    assert rows.trajectory.tolist() == [0, 0, 1, 1]
    assert rows.step.tolist() == [0, 1, 0, 1]
    assert rows.state.tolist() == [0, 1, 0, 1]
    assert rows.reward.tolist() == [-1.0, 5.0, -1.0, 5.0]
    assert (rows.trajectories, rows.truncated, rows.dropped) == (2, 0, 0)


def test_seeds_decide_everything():
    one, again, other = (
        rollout(Corridor(), "uniform", trajectories=20, seed=seed) for seed in (1, 1, 2)
    )
    assert one.state.tolist() == again.state.tolist()
    assert one.state.tolist() != other.state.tolist()


def test_a_policy_table_is_indexed_by_state():
    table = Policy(probabilities=[[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    rows = rollout(Corridor(), table, trajectories=200, seed=3)
    # One row in the first state, a geometric number in the second.
    assert np.sum(rows.state == 0) == 200
    assert 300 < np.sum(rows.state == 1) < 500


def test_where_truncation_can_happen_the_choice_is_required():
    env = gymnasium.make("FrozenLake-v1")
    with pytest.raises(UsageError, match=r"truncates trajectories after 100 steps.*bias"):
        rollout(env, "uniform", trajectories=1, seed=0)
    wrapped = gymnasium.wrappers.TimeLimit(Corridor(), 7)
    with pytest.raises(UsageError, match="truncates trajectories after 7 steps"):
        rollout(wrapped, Advance(), trajectories=1, seed=0)
    assert rollout(wrapped, Advance(), trajectories=1, seed=0, truncated="keep").truncated == 0


def test_where_truncation_happens_the_choice_is_required():
    with pytest.raises(UsageError, match="truncated trajectory 0 after 1 steps"):
        rollout(Corridor(cut_after=1), Advance(), trajectories=1, seed=0)


def test_an_episode_that_ends_at_the_limit_is_not_truncated():
    rows = rollout(Corridor(cut_after=2), Advance(), trajectories=3, seed=0)
    assert (rows.trajectories, rows.truncated) == (3, 0)


def test_truncated_episodes_are_kept_or_dropped_and_counted():
    env = Corridor(cut_after=3)
    kept = rollout(env, "uniform", trajectories=100, seed=1, truncated="keep")
    assert (kept.trajectories, kept.dropped) == (100, 0)
    assert np.bincount(kept.trajectory).max() == 3
    dropped = rollout(env, "uniform", trajectories=100, seed=1, truncated="drop")
    assert dropped.dropped == dropped.truncated == kept.truncated > 0
    assert dropped.trajectories == 100 - dropped.dropped
    assert np.unique(dropped.trajectory).tolist() == list(range(dropped.trajectories))
    last = np.append(np.diff(dropped.trajectory) == 1, True)
    assert np.all(dropped.reward[last] == 5)


def test_a_limit_of_your_own():
    with pytest.raises(UsageError, match="truncated is not given"):
        rollout(Corridor(), "uniform", trajectories=1, seed=0, truncate_at=3)
    rows = rollout(
        Corridor(), lambda observation: 0, trajectories=2, seed=0, truncate_at=3, truncated="keep"
    )
    assert rows.step.tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(UsageError, match="all 2 trajectories were truncated and dropped"):
        rollout(
            Corridor(),
            lambda observation: 0,
            trajectories=2,
            seed=0,
            truncate_at=3,
            truncated="drop",
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trajectories": 0}, "trajectories is 0"),
        ({"trajectories": 1.5}, r"trajectories is 1\.5"),
        ({"seed": -1}, "seed is -1"),
        ({"truncated": "cut"}, "truncated is 'cut'"),
        ({"truncate_at": 0, "truncated": "keep"}, "truncate_at is 0"),
        ({"policy": "greedy"}, "policy is 'greedy'; it must be 'uniform', a Policy, or a function"),
        (
            {"policy": Policy.uniform(states=3, actions=3)},
            "the policy is for 3 states and 3 actions; this environment has 3 and 2",
        ),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    fields = {"policy": "uniform", "trajectories": 1, "seed": 0}
    with pytest.raises(UsageError, match=message):
        rollout(Corridor(), **(fields | changes))


def test_observations_and_actions_must_be_discrete():
    env = Corridor()
    env.action_space = gymnasium.spaces.MultiDiscrete([2, 2])
    with pytest.raises(UsageError, match="give a function from the observation to the action"):
        rollout(env, "uniform", trajectories=1, seed=0)
    env.observation_space = gymnasium.spaces.MultiDiscrete([2, 2])
    with pytest.raises(UsageError, match="they must be Discrete, one number per state"):
        rollout(env, "uniform", trajectories=1, seed=0)


def test_actions_are_recorded_where_they_are_asked_for():
    table = np.array([[0.2, 0.8], [0.5, 0.5], [0.0, 1.0]])
    asked = {"trajectories": 20, "seed": 3, "actions": True}
    rows = rollout(Corridor(), Policy(probabilities=table), **asked)
    assert rows.columns[-2:] == ("action", "probability")
    np.testing.assert_array_equal(rows.probability, table[rows.state, rows.action])
    plain = rollout(Corridor(), Policy(probabilities=table), trajectories=20, seed=3)
    assert plain.columns == rows.columns[:4]
    np.testing.assert_array_equal(plain.state, rows.state)
    assert set(rollout(Corridor(), "uniform", **asked).probability) == {0.5}
    # A function does not tell how likely its choice was.
    last = Corridor().action_space.start + 1
    own = rollout(Corridor(), lambda observation: last, **asked)
    assert own.columns[-1] == "action"
    assert set(own.action) == {1}
    cut = rollout(Corridor(cut_after=3), "uniform", truncated="drop", **asked)
    assert cut.action.size == cut.state.size
    env = Corridor()
    env.action_space = gymnasium.spaces.MultiDiscrete([2, 2])
    with pytest.raises(UsageError, match="only Discrete ones are recorded"):
        rollout(env, lambda observation: 0, **asked)


def test_a_policy_that_returns_probabilities_is_told_what_to_give():
    with pytest.raises(UsageError, match=r"one action of Discrete.*Policy\(probabilities="):
        rollout(Corridor(), lambda _: np.array([0.5, 0.5]), trajectories=1, seed=0)
