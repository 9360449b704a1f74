"""Worlds against numbers that were worked out by hand, or published."""

from fractions import Fraction
from importlib import metadata

import numpy as np
import pytest

from privalue.simulation import (
    MDP,
    MarkovRewardProcess,
    Policy,
    chain,
    optimal_policy,
    parse_world,
    toy_text,
)


def gambler(n, discount=1.0):
    """A fair walk on 0..n from 1; both ends are absorbing, and n pays 1."""
    table = np.zeros((n + 1, n + 1))
    table[0, 0] = table[n, n] = 1
    for s in range(1, n):
        table[s, s - 1] = table[s, s + 1] = 0.5
    return MarkovRewardProcess.tabular(
        transitions=table,
        rewards=np.eye(1, n + 1, n)[0],
        start=np.eye(1, n + 1, 1)[0],
        discount=discount,
        absorbing=[0, n],
    )


def test_gamblers_ruin():
    # Feller, An Introduction to Probability Theory, vol. I, chapter XIV: from s the walk reaches n
    # before 0 with probability s / n, after s (n - s) steps on average.
    n = 10
    process = gambler(n)
    assert process.values == pytest.approx(np.arange(n + 1) / n)
    visits = process.visits
    # From 1, reaching s before 0: 1 / s.
    assert visits.single[1:] == pytest.approx(1 / np.arange(1, n + 1))
    assert visits.single[0] == pytest.approx(1 - 1 / n)
    assert visits.expected_length == pytest.approx((n - 1) + 1)
    # To visit both of two inner states, and to visit one and not the other.
    for s in range(1, n):
        for other in range(s + 1, n + 1):
            assert visits.joint[s, other] == pytest.approx(1 / other)
            assert visits.without[s, other] == pytest.approx(1 / s - 1 / other)
            assert visits.without[other, s] == pytest.approx(0, abs=1e-14)
    # Ruin after s was seen: from s, 0 comes before n with probability 1 - s / n.
    assert visits.joint[3, 0] == pytest.approx((1 / 3) * (7 / 10))


def test_three_states_by_hand():
    # 0 -> 1 (1/2) or 2 (1/2); 1 -> 0 (1/3) or end; 2 -> 1 (1/4) or end; all rewards 1.
    table = np.array(
        [
            [0, 1 / 2, 1 / 2, 0],
            [1 / 3, 0, 0, 2 / 3],
            [0, 1 / 4, 0, 3 / 4],
            [0, 0, 0, 1],
        ]
    )
    process = MarkovRewardProcess.tabular(
        transitions=table,
        rewards=np.ones(4),
        start=np.array([1.0, 0, 0, 0]),
        discount=1.0,
        terminal=[3],
    )
    # V0 = 1 + (V1 + V2) / 2, V1 = 1 + V0 / 3, V2 = 1 + V1 / 4:
    # V0 = 1 + (1 + 5 V1 / 4) / 2 = 3/2 + 5/8 + 5 V0 / 24, so V0 = (17/8) (24/19) = 51/19.
    v0 = Fraction(51, 19)
    v1 = 1 + v0 / 3
    v2 = 1 + v1 / 4
    assert process.values[:3] == pytest.approx([float(v) for v in (v0, v1, v2)])
    assert process.visits.expected_length == pytest.approx(float(v0))
    # Seen from 0: h(0, 1) = 1/2 + 1/2 1/4 = 5/8. To 2: x = 1/2 + 1/2 1/3 x, so 3/5.
    assert process.visits.single == pytest.approx([1, 5 / 8, 3 / 5, 0])
    # Both: 2 first, then 1: 1/2 1/4; or 1 first, then 0, then 2: 1/2 1/3 3/5.
    assert process.visits.joint[1, 2] == pytest.approx(1 / 8 + 1 / 10)
    assert process.visits.without[1, 2] == pytest.approx(5 / 8 - 9 / 40)
    assert process.visits.without[2, 1] == pytest.approx(3 / 5 - 9 / 40)


@pytest.mark.parametrize(("n", "p", "gamma"), [(40, 0.5, 0.99), (10, 0.0, 0.9), (25, 0.8, 1.0)])
def test_the_chain_in_closed_form(n, p, gamma):
    # A state is left after W rows, W geometric: E[gamma^W] = gamma (1 - p) / (1 - gamma p).
    values = chain(states=n, stay=p, discount=gamma).process.values
    factor = gamma * (1 - p) / (1 - gamma * p)
    assert values == pytest.approx(factor ** np.arange(n - 1, -1, -1))
    assert values[-1] == 1


def test_the_papers_chain():
    # [BGP16] section 6: N = 40, p = 0.5, gamma = 0.99; the start is uniform.
    process = parse_world("chain").process
    assert process.states == 40
    assert process.values[0] == pytest.approx((0.495 / 0.505) ** 39)
    assert process.visits.expected_length == pytest.approx(40)
    assert process.visits.single.sum() == pytest.approx(20.5)


def test_optimal_frozen_lake():
    pytest.importorskip("gymnasium")
    world = parse_world("gym:FrozenLake-v1,policy=greedy")
    # The value of the first state under value iteration at 0.99, in many a tutorial: 0.542.
    assert world.process.start_value == pytest.approx(0.5420259, abs=1e-6)
    # Without discounting the best chance to reach the goal is 14 / 17.
    patient = MarkovRewardProcess(
        outcomes=world.process.outcomes, start=world.process.start, discount=1.0
    )
    assert patient.start_value == pytest.approx(14 / 17)


def test_optimal_cliff_walking():
    gymnasium = pytest.importorskip("gymnasium")
    name = max(name for name in gymnasium.registry if name.startswith("CliffWalking-v"))
    # Sutton and Barto, example 6.6: the optimal path along the cliff takes 13 steps at -1.
    process = toy_text(name, policy="greedy", discount=1.0).process
    assert process.start_value == pytest.approx(-13)
    assert process.visits.expected_length == pytest.approx(13)


@pytest.mark.parametrize(
    ("policy", "survival", "length"),
    [("uniform", 0.78, 9.45), ("expert", 0.78, 9.22), ("greedy", 0.88, 10.99)],
)
def test_published_baselines_of_icu_sepsis(policy, survival, length):
    # The table "Baselines" in the README of github.com/icu-sepsis/icu-sepsis: average return and
    # episode length of the random, expert and optimal policies, by simulation, two decimals.
    try:
        metadata.distribution("icu-sepsis")
    except metadata.PackageNotFoundError:
        pytest.skip("icu-sepsis is not installed")
    process = parse_world(f"icu-sepsis:policy={policy},discount=1").process
    assert process.start_value == pytest.approx(survival, abs=0.005)
    # A row for the final observation, or none for the first, would be off by one.
    assert process.visits.expected_length == pytest.approx(length, abs=0.05)


def test_the_recycling_robot():
    # Sutton and Barto, example 3.3, with alpha = 0.9, beta = 0.6, r_search = 3, r_wait = 1 and a
    # discount of 0.9; it never ends, so only its values are asked for.
    alpha, beta = 0.9, 0.6
    high, low = 0, 1
    search, wait, recharge = 0, 1, 2
    transitions, rewards = np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
    transitions[high, search] = alpha, 1 - alpha
    rewards[high, search] = 3
    transitions[high, wait, high] = transitions[low, wait, low] = 1
    rewards[:, wait] = 1
    transitions[low, search] = 1 - beta, beta
    rewards[low, search] = -3, 3
    transitions[low, recharge, high] = 1
    # Recharging when high is no choice; it is given as waiting.
    transitions[high, recharge, high] = 1
    rewards[high, recharge] = 1
    mdp = MDP.tabular(
        transitions=transitions, rewards=rewards, start=np.array([1.0, 0.0]), discount=0.9
    )
    best = optimal_policy(mdp)
    assert best.probabilities.argmax(axis=1).tolist() == [search, recharge]
    # V(high) = 3 + 0.9 (0.9 V(high) + 0.1 V(low)), V(low) = 0.9 V(high).
    v_high = 3 / (1 - 0.81 - 0.081)
    assert mdp.under(best).values == pytest.approx([v_high, 0.9 * v_high])
    always_wait = Policy.deterministic([wait, wait], actions=3)
    assert mdp.under(always_wait).values == pytest.approx([10, 10])
