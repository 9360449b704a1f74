"""One greedy step on noisy action values: its rule, a literal twin, and what it never does."""

from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from privalue.estimate import Ratios, shrink
from privalue.estimate.improvements import CAUTION, SAMPLING, greedy_step

BOUNDS = (0.0, 1.0)


def ratios_of(q, visits, rng=None, *, sum_noise=2.0, count_noise=4.0):
    """Sums and counts of pairs whose values are q, with noise if there is a generator."""
    q, visits = np.asarray(q, dtype=float), np.asarray(visits, dtype=float)
    noise = np.zeros((2, len(q))) if rng is None else rng.standard_normal((2, len(q)))
    return Ratios(
        sums=(q - 0.5) * visits + sum_noise * noise[0],
        counts=visits + count_noise * noise[1],
        sum_noise=np.full(len(q), sum_noise),
        count_noise=np.full(len(q), count_noise),
        centre=0.5,
        bounds=BOUNDS,
    )


def step_of(ratios, states, *, only=False, level=0.95, cluster_size=1):
    states = np.asarray(states)
    step = greedy_step(
        ratios,
        states,
        unvisited=0.5,
        release_level=level,
        level=level if only else None,
        cluster_size=cluster_size,
        keys_per_trajectory=np.bincount(states),
    )
    return SimpleNamespace(**step.columns, visited=step.visited, moves=step.moves)


def literal_policy(ratios, states, step, *, only):
    """The rule in plain Python, pair by pair."""
    policy, threshold = [], NormalDist().inv_cdf(0.95 ** (1 / len(states)))
    for state in range(max(states) + 1):
        keys = [k for k in range(len(states)) if states[k] == state]
        competing = [
            k
            for k in keys
            if ratios.counts[k] > threshold * ratios.count_noise[k]
            and (step.low[k] > 0 if only else step.advantage[k] > 0)
        ]
        if competing:
            best = max(
                competing, key=lambda k: (step.expected[k] - CAUTION * step.deviation[k], -k)
            )
            policy += [1.0 if k == best else 0.0 for k in keys]
            continue
        counts = [max(ratios.counts[k], 0.0) for k in keys]
        noise = sum(ratios.count_noise[k] ** 2 for k in keys) ** 0.5
        if sum(ratios.counts[k] for k in keys) > threshold * noise:
            policy += [n / sum(counts) for n in counts]
        else:
            policy += [1 / len(keys)] * len(keys)
    return policy


@pytest.mark.parametrize("only", [False, True])
def test_the_policy_is_that_of_the_literal_twin(only):
    rng = np.random.default_rng(3)
    for _ in range(40):
        states = np.sort(np.concatenate([np.arange(6), rng.integers(0, 6, 12)]))
        visits = rng.choice([0.0, 5.0, 60.0, 4000.0], len(states))
        ratios = ratios_of(rng.uniform(0, 1, len(states)), visits, rng)
        step = step_of(ratios, states, only=only)
        assert step.probability == pytest.approx(literal_policy(ratios, states, step, only=only))
        assert np.bincount(states, weights=step.probability) == pytest.approx(np.ones(6))
        assert (step.low <= step.advantage).all()
        assert (step.advantage <= step.high).all()
        # Not all actions of a state are better than what was done there.
        mean = np.bincount(states, weights=step.behaviour * step.advantage)
        assert mean == pytest.approx(np.zeros(6), abs=1e-12)


def test_a_rarely_taken_action_is_never_chosen():
    """However large its noisy value is."""
    step = step_of(ratios_of([0.4, 0.3, 1.0], [5000, 5000, 3]), [0, 0, 0])
    assert step.probability.tolist() == [1.0, 0.0, 0.0]
    assert step.clear.tolist() == [True, True, False]


def test_in_unvisited_states_all_allowed_actions_are_equally_likely():
    step = step_of(ratios_of([0.5] * 5, [0, 0, 0, 9000, 9000]), [0, 0, 0, 1, 1])
    assert step.probability[:3] == pytest.approx([1 / 3] * 3)
    assert step.visited.tolist() == [False, True]
    assert step.moves[0] == -1


def test_where_no_single_action_is_clear_the_behaviour_stays():
    ratios = ratios_of([0.9, 0.1, 0.5], [7.0, 5.0, 6.0], count_noise=4.0)
    step = step_of(ratios, [0, 0, 0])
    assert step.visited.tolist() == [True]
    assert step.probability == pytest.approx([7 / 18, 5 / 18, 6 / 18])


def moves_of_equal_actions(*, only, level=0.9, spoiled=False):
    """In how many of 300 releases something moves though all actions are worth the same."""
    rng = np.random.default_rng(8)
    states = np.repeat(np.arange(5), 10)
    moved = 0
    for _ in range(300):
        sampling = rng.binomial(400, 0.5, 50)
        ratios = ratios_of(sampling / 400, np.full(50, 400.0), rng)
        step = step_of(ratios, states, only=only, level=1e-9 if spoiled else level)
        moved += bool((step.moves >= 0).any())
    return moved / 300


def test_equal_actions_seldom_look_clearly_different():
    """Fifty of them are compared: without a correction for that, nearly every release would."""
    assert moves_of_equal_actions(only=True) <= 0.1
    assert moves_of_equal_actions(only=True, spoiled=True) > 0.5


def test_many_trajectories_of_a_person_count_less():
    ratios, states = ratios_of([0.4, 0.6], [900, 900]), [0, 0]
    one, many = (step_of(ratios, states, cluster_size=cluster_size) for cluster_size in (1, 25))
    assert many.low[1] < one.low[1]
    assert many.high[1] > one.high[1]


# The posterior that actions compete with


def draw_actions(rng, *, sampling=300):
    """Values around those of their states, and what is released of them."""
    states = np.repeat(np.arange(10), 6)
    q = np.clip(rng.uniform(0.2, 0.8, 10)[states] + 0.05 * rng.standard_normal(60), 0, 1)
    means = rng.binomial(sampling, q) / sampling
    return (
        q,
        states,
        ratios_of(means, np.full(60, float(sampling)), rng, sum_noise=12, count_noise=24),
    )


def posterior(ratios, states, actions=None):
    effects = None if actions is None else np.eye(actions.max() + 1)[actions]
    return shrink(ratios, 0.5, states=states, effects=effects, sampling=SAMPLING)


def test_shrinkage_towards_their_state_distinguishes_actions_better():
    """Towards the mean of everything a rare action of a bad state looks good."""
    rng = np.random.default_rng(6)
    common, own = [], []
    for _ in range(40):
        q, states, ratios = draw_actions(rng)
        common.append(shrink(ratios, 0.5).means - q)
        own.append(shrink(ratios, 0.5, states=states).means - q)
    assert np.mean(np.square(own)) < 0.8 * np.mean(np.square(common))


def squared_errors(effect, rng):
    """Of posterior means that know which pairs are of one action, and of those that do not."""
    states, actions = np.repeat(np.arange(10), 6), np.tile(np.arange(6), 10)
    visited, unknown = [], []
    for _ in range(40):
        own = rng.uniform(0.3, 0.7, 10)[states] + 0.03 * rng.standard_normal(60)
        q = np.clip(own + effect * rng.standard_normal(6)[actions], 0, 1)
        means = rng.binomial(300, q) / 300
        ratios = ratios_of(means, np.full(60, 300.0), rng, sum_noise=12, count_noise=24)
        visited.append(posterior(ratios, states, actions).means - q)
        unknown.append(posterior(ratios, states).means - q)
    return np.mean(np.square(visited)), np.mean(np.square(unknown))


def test_effects_of_actions_are_estimated_from_all_states():
    visited, unknown = squared_errors(0.05, np.random.default_rng(9))
    assert visited < 0.75 * unknown
    # Where actions have nothing in common, it costs next to nothing to have asked.
    visited, unknown = squared_errors(0.0, np.random.default_rng(9))
    assert visited < 1.03 * unknown
