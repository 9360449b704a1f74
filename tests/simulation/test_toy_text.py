import numpy as np
import pytest

from privalue.errors import MissingComponentError, StudyError, UsageError
from privalue.simulation import END, Policy, from_gymnasium, parse_world, toy_text
from privalue.simulation._names import environment_options

gymnasium = pytest.importorskip("gymnasium")
TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
CLIFF = max(name for name in gymnasium.registry if name.startswith("CliffWalking-v"))


def walk_table(env, process, policy):
    """V by sweeping over env.P as it stands, no row for the final observation."""
    table = env.unwrapped.P
    values = np.zeros(len(table))
    for _ in range(20_000):
        fresh = np.array(
            [
                sum(
                    policy[s, a] * p * (r + process.discount * (0 if done else values[t]))
                    for a in table[s]
                    for p, t, r, done in table[s][a]
                )
                for s in table
            ]
        )
        if np.abs(fresh - values).max() < 1e-11:
            return fresh
        values = fresh
    raise AssertionError("no convergence")


@pytest.mark.parametrize(
    ("name", "options"), [("FrozenLake-v1", {}), ("FrozenLake-v1", {"is_slippery": False})]
)
def test_values_agree_with_sweeps_over_the_table(name, options):
    world = toy_text(name, discount=0.95, **options)
    env = gymnasium.make(name, **options)
    uniform = np.full((16, 4), 1 / 4)
    assert world.process.values == pytest.approx(walk_table(env, world.process, uniform), abs=1e-9)


def test_a_terminated_transition_ends_after_its_row():
    # Right, right, down, down, down, right: the way to the goal without slipping.
    way = {0: 2, 1: 2, 2: 1, 6: 1, 10: 1, 14: 2}
    policy = Policy.deterministic([way.get(s, 0) for s in range(16)], actions=4)
    process = toy_text("FrozenLake-v1", policy=policy, discount=0.5, is_slippery=False).process
    assert process.visits.expected_length == 6
    assert np.flatnonzero(process.visits.single).tolist() == sorted(way)
    assert process.values[[0, 1, 2, 6, 10, 14]] == pytest.approx(0.5 ** np.arange(5, -1, -1))
    # The goal is a final observation: it gets no row, and the table's row for it is worth nothing.
    assert process.visits.single[15] == process.values[15] == 0


def test_the_time_limit_is_not_part_of_the_world():
    assert gymnasium.spec("FrozenLake-v1").max_episode_steps == 100
    never = Policy.deterministic([0] * 16, actions=4)
    with pytest.raises(StudyError, match="may never end"):
        toy_text("FrozenLake-v1", policy=never, is_slippery=False).process.require_end()


def test_two_rewards_for_one_transition_of_the_slippery_cliff():
    if "CliffWalkingSlippery-v1" not in gymnasium.registry:
        pytest.skip("this Gymnasium has no slippery cliff")
    outcomes = toy_text("CliffWalkingSlippery-v1").process.outcomes
    start = 36
    here = outcomes.rows == start
    back = here & (outcomes.successors == start)
    # From the start one comes back to it by the edge, at -1, or by the cliff, at -100.
    assert outcomes.rewards[back].tolist() == [-100.0, -1.0]
    assert outcomes.probabilities[back] == pytest.approx([0.25, 0.5])


@pytest.mark.parametrize(("name", "states"), [("FrozenLake-v1", 16), (CLIFF, 48), (TAXI, 500)])
def test_tables_come_whole(name, states):
    for policy in ("uniform", "greedy"):
        world = parse_world(f"gym:{name},policy={policy}")
        assert world.process.states == states
        world.process.require_end()
        assert END in world.process.outcomes.successors
        assert (
            parse_world(world.text).text
            == world.text
            == f"gym:{name},policy={policy},discount=0.99"
        )


def test_options_reach_the_environment():
    world = parse_world("gym:FrozenLake-v1,map_name=8x8,is_slippery=false,discount=0.9")
    assert world.process.states == 64
    assert set(world.process.outcomes.probabilities) <= {0.25, 0.5, 0.75, 1.0}
    assert world.text == (
        "gym:FrozenLake-v1,policy=uniform,discount=0.9,map_name=8x8,is_slippery=false"
    )
    assert parse_world(world.text).text == world.text
    assert "render_mode" not in environment_options("FrozenLake-v1")


def test_a_given_policy_is_called_so():
    world = toy_text("FrozenLake-v1", policy=Policy.uniform(states=16, actions=4))
    assert world.text == "gym:FrozenLake-v1,policy=given,discount=0.99"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gym:FrozenLake-v7", "has no environment 'FrozenLake-v7'; did you mean 'FrozenLake-v1'"),
        ("gym:Nowhere", "has no environment 'Nowhere'; known with a table"),
        ("gym:FrozenLake-v1,slippery=no", "no parameter 'slippery'; did you mean 'is_slippery'"),
        ("gym:FrozenLake-v1,policy=expert", "policy is 'expert'; it must be uniform or greedy"),
        ("gym:FrozenLake-v1,discount=big", "discount is 'big'"),
        ("gym:FrozenLake-v1,map_name=9x9", "cannot be made with the options"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(UsageError, match=message):
        parse_world(text)


def test_an_unknown_option_is_refused_from_python_too():
    with pytest.raises(UsageError, match="FrozenLake-v1 has no option 'slip'; known: desc"):
        toy_text("FrozenLake-v1", slip=0.1)


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(StudyError, match="Blackjack-v1 has no transition table"):
        parse_world("gym:Blackjack-v1")


def test_dynamics_outside_the_table_are_refused():
    if "fickle_passenger" not in environment_options(TAXI):
        pytest.skip("this Gymnasium has no fickle passengers")
    env = gymnasium.make(TAXI, fickle_passenger=True)
    with pytest.raises(StudyError, match="changes the destination outside its table"):
        from_gymnasium(env)


def test_without_gymnasium_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    with pytest.raises(MissingComponentError, match="pip install gymnasium"):
        parse_world("gym:FrozenLake-v1")
