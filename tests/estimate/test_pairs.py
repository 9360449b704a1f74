"""V from Q: exact privacy intervals, total intervals that cover, and V with revisits.

The worlds here are small decision processes, solved by hand or by dynamic programming. Seeds are
those of reporting: nothing was tuned on them.
"""

import numpy as np
import pytest
from scipy import stats

import privalue as pv
from oracles.estimates import estimate, noisy_statistics
from oracles.studies import make_study
from privalue.core import Design
from privalue.study import aggregation

SSP = {"name": "dp-ssp", "calibration": "exact"}
SEED = 20261124
MANY = 20_000  # states, each of which is a repetition by itself
RARE = 1e-9


def of_states(sums, counts, noise, *, most=9, cluster_size=1, level=0.95, actions=2):
    """V of made-up statistics: one state for each repetition, two actions each."""
    pairs = make_study(len(sums) // actions, mechanism=SSP, actions={"count": actions}).pairs
    noisy = noisy_statistics(
        return_bounds=(0.0, 1.0),
        sums=sums,
        counts=counts,
        sum_noise=np.full(len(sums), noise),
        count_noise=np.full(len(sums), noise),
    )
    count = pairs.states.count
    summed = noisy.pool(pairs.state_of)
    tabular = Design(phi=aggregation(count, 1), weights=np.ones(count))
    usual = {"unvisited": 0.5, "shrinkage": False, "level": level}
    return estimate(summed, tabular, **usual, cluster_size=cluster_size * min(actions, most))


def share(inside):
    return int(np.count_nonzero(inside)), len(inside)


@pytest.mark.parametrize("level", [0.9, 0.99])
def test_privacy_intervals_of_v_are_exact(level):
    """At any counts, the noise of both actions together; and the check sees 10% less noise."""
    rng = np.random.default_rng(SEED)
    counts = np.tile([30.0, 5.0], MANY)
    sums = np.tile([6.0, -2.0], MANY)
    truth = 0.5 + 4.0 / 35.0
    for factor, covers in ((1.0, True), (1.1, False)):
        noise = factor * 3.0 * rng.standard_normal((2, 2 * MANY))
        estimates = of_states(sums + noise[0], counts + noise[1], 3.0, level=level)
        inside, count = share((estimates.low <= truth) & (truth <= estimates.high))
        chance = stats.binomtest(inside, count, level).pvalue
        assert (chance > RARE) == covers


def test_a_trajectory_may_count_for_every_action_of_a_state():
    """All take both actions, with one and the same return: the choice of people counts twice.

    Without kappa = min(A_s, H) the interval would cover 83% of the time in place of 95%.
    """
    rng, people = np.random.default_rng(SEED + 1), 2000
    returns = rng.binomial(people, 0.5, MANY) - people / 2  # the sum of G - 1/2, in either action
    counts = np.full(2 * MANY, float(people))
    sums = np.repeat(returns, 2).astype(float)
    for most, enough in ((9, True), (1, False)):  # with H = 1 nobody could count twice
        estimates = of_states(sums, counts, 1e-3, most=most)
        inside, count = share((estimates.total_low <= 0.5) & (estimates.total_high >= 0.5))
        above = stats.binomtest(inside, count, 0.95, alternative="less").pvalue > RARE
        assert above == enough
    persons = of_states(np.repeat(2.0 * returns, 2), 2 * counts, 1e-3, cluster_size=2)
    inside, count = share((persons.total_low <= 0.5) & (persons.total_high >= 0.5))
    assert stats.binomtest(inside, count, 0.95, alternative="less").pvalue > RARE


# Exact worlds


def revisits(again, people, seed):
    """A state in which "stop" ends with a return of 1, and "stay" comes back or ends with 0.

    Both actions are chosen half of the time; there is no discount.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(people):
        steps = []
        while True:
            if rng.random() < 0.5:
                rows.append([*steps, (0, "stop", 1.0)])
                break
            steps.append((0, "stay", 0.0))
            if rng.random() >= again:
                rows.append(steps)
                break
    return rows


def exact(again):
    """Return Q, V, and what the sum over first visits of pairs gives in place of V."""
    value = 0.5 / (1 - 0.5 * again)
    q = np.array([1.0, again * value])
    visited = np.array([0.5 / (1 - 0.5 * again), 0.5])  # ever stopped by itself; ever stayed
    return q, value, float(visited @ q / visited.sum())


@pytest.mark.parametrize("again", [0.0, 0.5])
def test_v_is_the_mean_over_first_visits_of_pairs(again):
    """With revisits this is not V^b: .714 in place of .667. Without any it is V^b exactly."""
    study = make_study(
        1,
        discount=1.0,
        returns=(0.0, 1.0),
        mechanism={**SSP, "shrinkage": False},
        actions={"labels": ["stop", "stay"]},
        privacy={"epsilon": 20.0, "delta": 1e-6},
        values={"start": {"0": 1.0}},
    )
    people = 20_000
    release = pv.release(
        study, revisits(again, people, SEED), entropy=pv.SeededForExperimentsOnly(4)
    )
    q, value, mean = exact(again)
    assert release.value == pytest.approx(q, abs=0.03)
    (row,) = release.state_values
    assert row.value == pytest.approx(mean, abs=0.02)
    assert row.total_low <= mean <= row.total_high
    assert release.policy_value == row.value
    if again:
        assert mean - value == pytest.approx(1 / 21, abs=1e-12)
        assert row.low > value  # not even the interval reaches V^b
    else:
        assert mean == value


def decisions(seed, states=5, actions=3):
    """A decision process that moves on to later states, and ends after the last; gamma = 0.9."""
    rng = np.random.default_rng(seed)
    move = np.stack([np.triu(rng.random((states, states)), 0) for _ in range(actions)], axis=1)
    move *= 0.85 / move.sum(axis=2, keepdims=True)
    return move, rng.random((states, actions)), rng.dirichlet(np.ones(actions), size=states)


def solve(move, rewards, policy, gamma):
    """Return Q of a policy by dynamic programming."""
    q = np.zeros_like(rewards)
    for _ in range(500):
        q = rewards + gamma * move @ (policy * q).sum(axis=1)
    return q


def follow(move, rewards, policy, people, seed):
    """Simulate, all at once: columns of trajectory, step, state, action and reward."""
    rng = np.random.default_rng(seed)
    states, state, parts = len(rewards), np.zeros(people, dtype=int), []
    person = np.arange(people)
    for step in range(60):
        action = (rng.random((len(person), 1)) > policy[state].cumsum(axis=1)).sum(axis=1)
        action = np.minimum(action, policy.shape[1] - 1)
        parts.append((person, np.full(len(person), step), state, action, rewards[state, action]))
        to = (rng.random((len(person), 1)) > move[state, action].cumsum(axis=1)).sum(axis=1)
        person, state = person[to < states], to[to < states]
        if not len(person):
            break
    names = ("trajectory", "step", "state", "action", "reward")
    return dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))


@pytest.mark.parametrize("most", [None, 3])
def test_q_is_that_of_dynamic_programming(most):
    """Also where only the first H pairs of a trajectory count: that is a stopping rule."""
    world = decisions(SEED)
    truth = solve(*world, 0.9)
    study = make_study(
        5,
        returns=(0.0, 10.0),
        privacy={"epsilon": 20.0, "delta": 1e-6}
        | ({} if most is None else {"max_states_per_trajectory": most}),
        mechanism={**SSP, "shrinkage": False},
        actions={"count": 3},
    )
    rows = follow(*world, 60_000, SEED + 2)
    release = pv.release(study, rows, entropy=pv.SeededForExperimentsOnly(5))
    assert release.value == pytest.approx(truth.ravel(), abs=0.12)
    covered = (release.total_low <= truth.ravel()) & (truth.ravel() <= release.total_high)
    assert covered.all()
