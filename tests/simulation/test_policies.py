import numpy as np
import pytest

from privalue.errors import StudyError
from privalue.simulation import MDP, Policy, optimal_policy
from privalue.simulation import _policies as module


def corridor(*, discount=0.9, rewards=None):
    """Action 0 stays and pays a little; action 1 advances; the last of three states pays 1."""
    transitions = np.zeros((3, 2, 3))
    for state in range(3):
        transitions[state, 0, state] = 1
        transitions[state, 1, min(state + 1, 2)] = 1
    return MDP.tabular(
        transitions=transitions,
        rewards=np.array([[0.01, 0.0], [0.01, 0.0], [1.0, 1.0]]) if rewards is None else rewards,
        start=np.array([1.0, 0.0, 0.0]),
        discount=discount,
        absorbing=[2],
    )


def test_the_optimal_policy_weighs_now_against_later():
    # Staying for ever pays 0.01 / (1 - gamma); advancing from state 1 pays gamma.
    assert optimal_policy(corridor()).probabilities[:2].tolist() == [[0, 1], [0, 1]]
    assert optimal_policy(corridor(discount=0.005)).probabilities[:2].tolist() == [[1, 0], [1, 0]]


def test_no_deterministic_policy_is_better():
    rng = np.random.default_rng(5)
    for _ in range(5):
        transitions = rng.dirichlet(np.ones(4), size=(4, 3))
        transitions[3] = np.eye(4)[3]
        mdp = MDP.tabular(
            transitions=transitions,
            rewards=rng.random((4, 3)),
            start=np.ones(4) / 4,
            discount=0.9,
            absorbing=[3],
        )
        best = mdp.under(optimal_policy(mdp)).values
        for choice in np.ndindex(3, 3, 3):
            policy = Policy.deterministic([*choice, 0], actions=3)
            assert np.all(mdp.under(policy).values[:3] <= best[:3] + 1e-9)


def test_the_first_of_equal_actions_is_taken():
    same = corridor(rewards=np.zeros((3, 2)))
    assert optimal_policy(same).probabilities[:, 0].tolist() == [1, 1, 1]


def test_value_iteration_that_does_not_settle_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "MAX_SWEEPS", 100)
    with pytest.raises(StudyError, match=r"did not settle in 100 sweeps at discount 1\.0"):
        optimal_policy(corridor(discount=1.0))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.5, 0.4]], "in state 0 sum to 0.9"),
        ([[1.0, 0.0], [1.5, -0.5]], "action 1 in state 1 with probability -0.5"),
        ([[np.nan, 1.0]], "with probability nan"),
        ([0.5, 0.5], r"shape \(2,\); it must be \(states, actions\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
    ],
)
def test_what_is_wrong_is_named(table, message):
    with pytest.raises(StudyError, match=message):
        Policy(probabilities=table)


def test_an_unknown_action_is_refused():
    with pytest.raises(StudyError, match="action 2 in state 1; actions are 0 to 1"):
        Policy.deterministic([0, 2], actions=2)


def test_an_unknown_policy_name_is_refused():
    with pytest.raises(StudyError, match="policy is 'best'; it must be 'uniform' or 'greedy'"):
        module.named_policy(corridor(), "best")
