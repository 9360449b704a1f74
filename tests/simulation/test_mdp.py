"""MDPs and reward processes: conventions by hand, exact answers against literal twins."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from oracles.decisions import action_values, best_values, ever_taken, pairs_process
from privalue.errors import StudyError
from privalue.simulation import END, MDP, MarkovRewardProcess, Outcomes, chain, garnet


def two_states(**changes):
    """0 stays or goes to 1, which ends."""
    listed = {
        "states": 2,
        "actions": 1,
        "rows": [0, 0, 1],
        "probabilities": [0.25, 0.75, 1.0],
        "successors": [0, 1, END],
        "rewards": [0.0, 0.0, 1.0],
    }
    return Outcomes(**(listed | changes))


def test_the_lacking_mass_of_a_row_is_its_end():
    outcomes = two_states()
    assert outcomes.transitions.toarray().tolist() == [[0.25, 0.75], [0.0, 0.0]]
    assert outcomes.expected_rewards.tolist() == [0.0, 1.0]


def test_two_rewards_on_one_transition_stay_apart():
    outcomes = two_states(
        rows=[0, 0, 1], successors=[1, 1, END], probabilities=[0.25, 0.75, 1], rewards=[-1, -100, 0]
    )
    assert outcomes.rewards.tolist() == [-1.0, -100.0, 0.0]
    assert outcomes.transitions.toarray().tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert outcomes.expected_rewards.tolist() == [-75.25, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"probabilities": [0.25, 0.74, 1.0]},
        {"probabilities": [-0.25, 1.25, 1.0]},
        {"probabilities": [np.nan, 0.75, 1.0]},
        {"rewards": [0.0, 0.0, np.nan]},
        {"successors": [0, 2, END]},
        {"successors": [0, -2, END]},
        {"rows": [0, 0, 2]},
        {"rows": [0, 0]},
        {"states": 0},
    ],
)
def test_what_is_no_table_of_outcomes_is_refused(changes):
    with pytest.raises(StudyError):
        two_states(**changes)


TRANSITIONS = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ]
)


START = np.array([1.0, 0.0, 0.0])


FIRST_ACTION = np.eye(2)[[0, 0, 0]]


def small_mdp(**changes):
    fields = {
        "transitions": TRANSITIONS,
        "rewards": np.array([0.0, 0.0, 1.0]),
        "start": START,
        "discount": 0.5,
        "absorbing": [2],
    }
    return MDP.tabular(**(fields | changes))


def process(**changes):
    fields = {
        "transitions": np.array([[0.0, 1.0], [0.0, 1.0]]),
        "rewards": np.array([1.0, 3.0]),
        "start": np.array([1.0, 0.0]),
        "discount": 0.5,
        "absorbing": [1],
    }
    return MarkovRewardProcess.tabular(**(fields | changes))


def test_rewards_on_states_actions_and_transitions():
    # V(2) = 1; V(1) = r + V(2) / 2; V(0) = r + (V(0) + V(1)) / 4.
    on_states = small_mdp().under(FIRST_ACTION).values
    assert on_states == pytest.approx([1 / 6, 1 / 2, 1])

    on_actions = np.array([[3.0, 9.0], [1.0, 9.0], [0.0, 0.0]])
    assert small_mdp(rewards=on_actions).under(FIRST_ACTION).values == pytest.approx([13 / 3, 1, 0])

    on_transitions = np.zeros((3, 2, 3))
    on_transitions[0, 0] = [2.0, 4.0, 9.0]
    on_transitions[2, :, 2] = 1.0
    # r(0) = (2 + 4) / 2 = 3
    expected = [(3 + 0.25 * 0.5) / 0.75, 0.5, 1]
    assert small_mdp(rewards=on_transitions).under(FIRST_ACTION).values == pytest.approx(expected)


def test_sparse_tables_are_the_same_as_dense_ones():
    rows = TRANSITIONS.reshape(6, 3)
    rewards = np.zeros((6, 3))
    rewards[0, 1] = 2.0
    dense = small_mdp(rewards=rewards.reshape(3, 2, 3))
    for kind in (sparse.coo_array, sparse.csr_array):
        other = small_mdp(transitions=kind(rows), rewards=rewards)
        assert (other.outcomes.transitions != dense.outcomes.transitions).nnz == 0
        assert other.outcomes.expected_rewards.tolist() == dense.outcomes.expected_rewards.tolist()


def test_an_absorbing_state_gets_one_last_row_and_a_terminal_one_none():
    last_row = process()
    assert last_row.values.tolist() == [2.5, 3.0]
    assert last_row.visits.expected_length == 2

    no_row = process(absorbing=(), terminal=[1])
    assert no_row.values.tolist() == [1.0, 0.0]
    assert no_row.visits.expected_length == 1
    assert no_row.outcomes.successors.tolist() == [END, END]


def test_a_policy_mixes_actions():
    # From 0: half (stay or advance), half a jump to the last.
    mixed = small_mdp().under(np.full((3, 2), 1 / 2))
    assert mixed.transitions.toarray().tolist() == [
        [0.25, 0.25, 0.5],
        [0.5, 0.0, 0.5],
        [0.0, 0.0, 0.0],
    ]
    assert mixed.states == 3
    assert mixed.reward_bounds == (0.0, 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"transitions": np.ones((3, 2, 4))},
        {"transitions": TRANSITIONS * 0.9},
        {"transitions": TRANSITIONS * np.nan},
        {"rewards": np.zeros((3, 3))},
        {"start": np.array([0.5, 0.4, 0.0])},
        {"start": np.array([1.5, -0.5, 0.0])},
        {"discount": 0.0},
        {"discount": float("nan")},
        {"absorbing": [3]},
        {"absorbing": [1]},  # it can be left
        {"terminal": [2]},  # and absorbing
        {"terminal": [0]},  # where trajectories start
    ],
)
def test_what_is_no_mdp_is_refused(changes):
    with pytest.raises(StudyError):
        small_mdp(**changes)


def test_a_process_that_may_never_end_is_refused_where_it_matters():
    endless = process(absorbing=())
    # Discounted values of endless trajectories exist: 1 + 3 (1/2 + 1/4 + ...) = 4.
    assert endless.values == pytest.approx([4.0, 6.0])
    assert endless.surely_ends.tolist() == [False, False]
    with pytest.raises(StudyError, match="visits state 0 may never end"):
        endless.require_end()
    with pytest.raises(StudyError, match="may never end"):
        _ = endless.visits


def test_a_trap_is_endless_even_if_the_end_is_possible():
    trap = process(
        transitions=np.array([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        rewards=np.ones(3),
        start=np.array([1.0, 0.0, 0.0]),
        discount=1.0,
        absorbing=[1],
    )
    assert trap.surely_ends.tolist() == [False, True, False]
    assert np.isnan(trap.values).tolist() == [True, False, True]
    with pytest.raises(StudyError, match="may never end"):
        trap.require_end()


def test_a_trap_that_no_trajectory_reaches_does_no_harm():
    safe = process(
        transitions=np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        rewards=np.array([1.0, 2.0, 100.0]),
        start=np.array([1.0, 0.0, 0.0]),
        discount=1.0,
        absorbing=[1],
    )
    safe.require_end()
    assert safe.values[:2].tolist() == [3.0, 2.0]
    assert np.isnan(safe.values[2])
    assert safe.start_value == 3.0
    assert safe.reward_bounds == (1.0, 2.0)
    assert safe.visits.single.tolist() == [1.0, 1.0, 0.0]
    assert safe.visits.without.tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


SMALL = garnet(states=5, actions=3, branching=2, seed=11, discount=0.9)


RANDOM = np.random.default_rng(3).dirichlet(np.ones(3), size=5)


def small_worlds():
    sparse_policy = np.eye(3)[[0, 2, 1, 1, 0]] * 0.5 + np.eye(3)[[1, 2, 0, 1, 0]] * 0.5
    yield SMALL.mdp, SMALL.policy
    yield SMALL.mdp, RANDOM
    yield SMALL.mdp, sparse_policy
    # Actions that nobody takes lead to states that nobody visits.
    lonely = garnet(states=5, actions=3, branching=1, seed=2, start="first")
    yield lonely.mdp, np.eye(3)[[1, 0, 2, 0, 1]]


@pytest.mark.parametrize(("mdp", "policy"), list(small_worlds()))
def test_q_and_v_and_j_are_those_of_fractions(mdp, policy):
    literal = np.array([[float(x) for x in row] for row in action_values(mdp, policy)])
    np.testing.assert_allclose(mdp.q(policy), literal, rtol=1e-12, atol=1e-12)
    values = (policy * literal).sum(axis=1)
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
def test_a_process_knows_by_which_action_its_outcomes_come(mdp, policy):
    process = mdp.under(policy)
    shares = np.zeros((mdp.states, mdp.actions))
    np.add.at(shares, (process.outcomes.rows, process.action_of), process.outcomes.probabilities)
    np.testing.assert_allclose(shares, policy, atol=1e-12)


def test_the_best_policy_is_that_of_plain_value_iteration():
    best = SMALL.mdp.optimal()
    np.testing.assert_allclose(SMALL.mdp.under(best).values, best_values(SMALL.mdp, 300))
    for choice in itertools.product(range(3), repeat=5):
        policy = np.eye(3)[list(choice)]
        assert np.all(SMALL.mdp.under(policy).values <= SMALL.mdp.under(best).values + 1e-9)
    assert np.all(SMALL.mdp.q(best).max(axis=1) <= SMALL.mdp.under(best).values + 1e-9)


def test_a_greedy_step_on_q_never_loses():
    for seed in range(5):
        world = garnet(seed=seed)
        better = np.eye(4)[world.mdp.q(world.policy).argmax(axis=1)]
        assert np.all(world.mdp.under(better).values >= world.process.values - 1e-12)
        best = world.mdp.value(world.mdp.optimal())
        assert world.process.start_value < world.mdp.value(better) <= best + 1e-12


def test_value_iteration_that_does_not_settle_is_an_error(monkeypatch):
    monkeypatch.setattr("privalue.simulation.mdp.MAX_SWEEPS", 100)
    stay_or_end = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    loop = MDP.tabular(
        transitions=stay_or_end, rewards=np.ones(2), start=[1, 0], discount=1.0, absorbing=[1]
    )
    with pytest.raises(StudyError, match="did not settle"):
        loop.optimal()


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
    best = mdp.optimal()
    assert best.argmax(axis=1).tolist() == [search, recharge]
    # V(high) = 3 + 0.9 (0.9 V(high) + 0.1 V(low)), V(low) = 0.9 V(high).
    v_high = 3 / (1 - 0.81 - 0.081)
    assert mdp.under(best).values == pytest.approx([v_high, 0.9 * v_high])
    always_wait = np.eye(3)[[wait, wait]]
    assert mdp.under(always_wait).values == pytest.approx([10, 10])
