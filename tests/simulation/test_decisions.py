"""Worlds in which people choose: exact answers against literal twins, and simulated choices."""

import itertools
from importlib import metadata

import numpy as np
import pytest

from oracles.decisions import action_values, best_values, ever_taken, pairs_process
from privalue.errors import StudyError, UsageError
from privalue.simulation import (
    Policy,
    World,
    chain,
    garnet,
    parse_world,
    simulate_episodes,
)

SMALL = garnet(states=5, actions=3, branching=2, seed=11, discount=0.9)
RANDOM = Policy(probabilities=np.random.default_rng(3).dirichlet(np.ones(3), size=5))


def installed(name):
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def small_worlds():
    sparse_policy = np.eye(3)[[0, 2, 1, 1, 0]] * 0.5 + np.eye(3)[[1, 2, 0, 1, 0]] * 0.5
    yield SMALL.mdp, SMALL.policy
    yield SMALL.mdp, RANDOM
    yield SMALL.mdp, Policy(probabilities=sparse_policy)
    # Actions that nobody takes lead to states that nobody visits.
    lonely = garnet(states=5, actions=3, branching=1, seed=2, start="first")
    yield lonely.mdp, Policy.deterministic([1, 0, 2, 0, 1], actions=3)


@pytest.mark.parametrize(("mdp", "policy"), list(small_worlds()))
def test_q_and_v_and_j_are_those_of_fractions(mdp, policy):
    literal = np.array([[float(x) for x in row] for row in action_values(mdp, policy)])
    np.testing.assert_allclose(mdp.q(policy), literal, rtol=1e-12, atol=1e-12)
    values = (policy.probabilities * literal).sum(axis=1)
    np.testing.assert_allclose(mdp.under(policy).values, values, rtol=1e-12, atol=1e-12)
    assert mdp.value(policy) == pytest.approx(mdp.start @ values, rel=1e-12)


@pytest.mark.parametrize(("mdp", "policy"), list(small_worlds()))
def test_pairs_are_visited_as_fractions_say(mdp, policy):
    literal = [
        [float(ever_taken(mdp, policy, s, a)) for a in range(mdp.actions)]
        for s in range(mdp.states)
    ]
    np.testing.assert_allclose(mdp.key_visits(policy), literal, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("mdp", "policy"), list(small_worlds()))
def test_the_process_of_pairs_knows_the_same(mdp, policy):
    keyed = pairs_process(mdp, policy)
    shape = (mdp.states, mdp.actions)
    np.testing.assert_allclose(keyed.values.reshape(shape), mdp.q(policy), rtol=1e-12)
    np.testing.assert_allclose(
        keyed.visits.single.reshape(shape), mdp.key_visits(policy), rtol=1e-11, atol=1e-13
    )
    under = mdp.under(policy)
    assert keyed.start_value == pytest.approx(mdp.value(policy))
    assert keyed.visits.expected_length == pytest.approx(under.visits.expected_length)
    assert keyed.reward_bounds == under.reward_bounds


@pytest.mark.parametrize(("mdp", "policy"), list(small_worlds()))
def test_choices_have_the_law_of_the_process(mdp, policy):
    process, taken = mdp.choices(policy)
    under = mdp.under(policy)
    np.testing.assert_allclose(process.transitions.toarray(), under.transitions.toarray())
    np.testing.assert_allclose(process.expected_rewards, under.expected_rewards)
    shares = np.zeros((mdp.states, mdp.actions))
    np.add.at(shares, (process.outcomes.rows, taken), process.outcomes.probabilities)
    np.testing.assert_allclose(shares, policy.probabilities, atol=1e-12)


def test_the_best_policy_is_that_of_plain_value_iteration():
    best = SMALL.mdp.optimal()
    np.testing.assert_allclose(SMALL.mdp.under(best).values, best_values(SMALL.mdp, 300))
    for choice in itertools.product(range(3), repeat=5):
        policy = Policy.deterministic(choice, actions=3)
        assert np.all(SMALL.mdp.under(policy).values <= SMALL.mdp.under(best).values + 1e-9)
    assert np.all(SMALL.mdp.q(best).max(axis=1) <= SMALL.mdp.under(best).values + 1e-9)


def test_a_greedy_step_on_q_never_loses():
    for seed in range(5):
        world = garnet(seed=seed)
        better = Policy.deterministic(world.mdp.q(world.policy).argmax(axis=1), actions=4)
        assert np.all(world.mdp.under(better).values >= world.process.values - 1e-12)
        best = world.mdp.value(world.mdp.optimal())
        assert world.process.start_value < world.mdp.value(better) <= best + 1e-12


@pytest.mark.parametrize(
    "name",
    [
        "garnet:seed=5",
        "garnet:N=7,A=2,branching=7,least_end=0.5,most_end=0.5,start=first",
        "garnet:policy=optimal:0.3",
        "gym:FrozenLake-v1",
        "gym:Taxi-v4",
        "icu-sepsis",
    ],
)
def test_every_row_of_every_table_sums_to_one(name):
    if not installed("icu-sepsis" if name.startswith("icu") else "gymnasium"):
        pytest.skip("it is not installed")
    world = parse_world(name)
    outcomes = world.mdp.outcomes
    sums = np.bincount(outcomes.rows, weights=outcomes.probabilities)
    np.testing.assert_allclose(sums, 1, rtol=1e-12)
    assert sums.size == world.mdp.states * world.mdp.actions
    np.testing.assert_allclose(world.policy.probabilities.sum(axis=1), 1)
    best = world.mdp.value(world.mdp.optimal())
    for other in ("uniform", "optimal:0.5"):
        assert world.under(other).process.start_value <= best + 1e-9
    visits = world.key_visits
    states = world.process.visits.single
    assert np.all(visits <= states[:, None] + 1e-12)
    # Whoever visits a state chooses something there.
    assert np.all(visits.sum(axis=1) >= states - 1e-9)


def test_garnets_are_made_as_they_say():
    world = parse_world("garnet:N=30,A=5,branching=4,least_end=0.1,most_end=0.3,seed=9")
    assert world.text == (
        "garnet:N=30,A=5,branching=4,least_end=0.1,most_end=0.3,seed=9,"
        "policy=uniform,start=uniform,discount=0.95"
    )
    outcomes = world.mdp.outcomes
    ends = outcomes.probabilities[outcomes.successors == -1]
    assert ends.size == 150
    assert 0.1 <= ends.min() < 0.15
    assert 0.25 < ends.max() <= 0.3
    assert np.all(np.bincount(outcomes.rows) == 5)  # four successors and the end
    assert 0 <= outcomes.rewards.min() < 0.05
    assert 0.95 < outcomes.rewards.max() < 1
    again, other = parse_world(world.text), garnet(states=30, actions=5, branching=4, seed=10)
    np.testing.assert_array_equal(again.mdp.outcomes.probabilities, outcomes.probabilities)
    assert other.process.start_value != world.process.start_value


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("garnet:branching=21", "branching is 21; .* at most 20"),
        ("garnet:A=0", "A is 0"),
        ("garnet:least_end=0", "least_end is 0.0 and most_end 0.25"),
        ("garnet:least_end=0.5", "the least first"),
    ],
)
def test_what_a_world_cannot_be_is_named(name, message):
    with pytest.raises(StudyError, match=message):
        parse_world(name)


@pytest.mark.parametrize("policy", ["optimal:1.5", "optimal:", "optimal:half", "best", "expert"])
def test_what_is_no_policy_is_named(policy):
    with pytest.raises(UsageError, match=f"policy is '{policy}'; it must be uniform or greedy"):
        parse_world(f"garnet:policy={policy}")
    with pytest.raises(StudyError, match=f"policy is '{policy}'"):
        SMALL.under(policy)


def test_policies_by_name():
    best = SMALL.mdp.optimal()
    assert SMALL.under("optimal").process.start_value == SMALL.mdp.value(best)
    np.testing.assert_array_equal(SMALL.under("greedy").policy.probabilities, best.probabilities)
    half = SMALL.under("optimal:0.5")
    np.testing.assert_allclose(half.policy.probabilities, best.probabilities / 2 + 1 / 6)
    assert half.text.startswith("garnet:N=5,A=3,branching=2,")
    assert ",policy=optimal:0.5," in half.text
    assert parse_world(half.text).process.start_value == half.process.start_value
    assert ",policy=given," in SMALL.under(RANDOM).text
    with pytest.raises(StudyError, match=r"share is 2; it must be in \[0, 1\]"):
        best.towards(RANDOM, 2)


def test_where_nobody_chooses():
    for ask in (lambda w: w.under("uniform"), lambda w: w.key_visits):
        with pytest.raises(StudyError, match=r"nobody chooses in the world chain:N=3.* garnet"):
            ask(chain(states=3))
    with pytest.raises(StudyError, match="nobody chooses"):
        simulate_episodes(chain(states=3), trajectories=1, seed=0, actions=True)
    with pytest.raises(UsageError, match="actions=True needs a world in which people choose"):
        simulate_episodes(SMALL.process, trajectories=1, seed=0, actions=True)


def test_simulated_choices_are_those_of_the_policy():
    world = SMALL.under(RANDOM)
    count = 20_000
    rows = simulate_episodes(world, trajectories=count, seed=4, actions=True)
    assert rows.table().column_names[-2:] == ["action", "probability"]
    np.testing.assert_array_equal(rows.probability, RANDOM.probabilities[rows.state, rows.action])
    key = rows.state * 3 + rows.action
    taken = np.bincount(key, minlength=15).reshape(5, 3)
    acted = taken.sum(axis=1, keepdims=True)
    off = taken / acted - RANDOM.probabilities
    assert np.all(np.abs(off) < 5 / np.sqrt(acted))  # ten standard deviations
    # First visits of pairs, and the returns from them, are as they are computed to be.
    _, first = np.unique(rows.trajectory * 15 + key, return_index=True)
    seen = np.bincount(key[first], minlength=15).reshape(5, 3)
    np.testing.assert_allclose(
        seen / count, world.key_visits, atol=5 / np.sqrt(count)
    )  # ten standard deviations
    returns = rows.reward.copy()
    for row in range(len(rows) - 2, -1, -1):
        if rows.trajectory[row] == rows.trajectory[row + 1]:
            returns[row] += 0.9 * returns[row + 1]
    means = np.bincount(key[first], returns[first]).reshape(5, 3) / seen
    # A return is within [0, 10), and its deviation is below 5.
    assert np.all(np.abs(means - world.mdp.q(RANDOM)) < 7 * 5 / np.sqrt(seen))
    assert np.abs(means - world.mdp.q(RANDOM)).max() < 0.2


def test_rows_with_actions_depend_on_the_seed_alone():
    whole = simulate_episodes(SMALL, trajectories=200, seed=8, actions=True)
    parts = simulate_episodes(SMALL, trajectories=200, seed=8, actions=True, batch_rows=7)
    fewer = simulate_episodes(SMALL, trajectories=50, seed=8, actions=True)
    for name in whole.columns:
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
        np.testing.assert_array_equal(getattr(whole, name)[: len(fewer)], getattr(fewer, name))
    assert not whole.action.flags.writeable
    assert simulate_episodes(SMALL, trajectories=2, seed=8).columns == whole.columns[:4]


def test_a_world_of_your_own():
    world = World.of(SMALL.mdp, RANDOM, name="mine")
    assert world.text == "mine:policy=given"
    assert world.behaviour is None
    assert world.process.start_value == SMALL.mdp.value(RANDOM)
