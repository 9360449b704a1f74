"""Solver, simulator, environments and the direct sampler agree.

Every comparison has seeds, so a run that passes passes again; the stated level is the chance that
a fresh seed would raise a false alarm. Each checker is also tried on planted mistakes, which it
must reject.
"""

import numpy as np
import pytest
from scipy import stats

from oracles.worlds import first_visits
from privalue.core import GRID_STEPS as STEPS
from privalue.paper import chain as chain_sampler
from privalue.paper import chain_statistics
from privalue.simulation import (
    END,
    MarkovRewardProcess,
    Outcomes,
    chain,
    garnet,
    parse_world,
    rollout,
    simulate_episodes,
)
from privalue.simulation.walk import sampler

LEVEL = 1e-6


def frequencies_fit(hits, total, expected):
    """Whether hit counts fit their probabilities, by Chernoff's bound: no approximation.

    P[|k/n - p| is so large] <= 2 exp(-n KL(k/n || p)), at LEVEL over all of them together.
    """
    observed = hits / total
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(observed > 0, observed * np.log(observed / expected), 0) + np.where(
            observed < 1, (1 - observed) * np.log((1 - observed) / (1 - expected)), 0
        )
    # Probabilities are known up to rounding: 1 - 1e-16 is 1.
    certain = (np.abs(expected - np.round(expected)) < 1e-12) & (observed == np.round(expected))
    allowed = np.log(2 * expected.size / LEVEL)
    return bool(np.all(certain | (total * divergence <= allowed)))


def means_fit(mean, error, expected):
    """Whether means fit, by the normal approximation, at LEVEL over all of them together."""
    limit = stats.norm.isf(LEVEL / 2 / np.size(expected))
    return bool(np.all(np.abs(mean - expected) <= limit * error + 1e-9))


def fits(rows, process):
    """Whether rows look like trajectories of a process: values, visits, pairs, length.

    At most 3 LEVEL false alarms, since there are three comparisons.
    """
    visited, returns = first_visits(rows, process.states, process.discount)
    m = rows.trajectories
    lengths = np.bincount(rows.trajectory, minlength=m)
    counts = visited.sum(axis=0)
    often = counts >= 200  # fewer are no case for the normal approximation
    mean = returns.sum(axis=0)[often] / counts[often]
    spread = np.sqrt(np.maximum((returns**2).sum(axis=0)[often] / counts[often] - mean**2, 0))
    both = visited.T.astype(float) @ visited
    exact = process.visits
    return (
        means_fit(mean, spread / np.sqrt(counts[often]), process.values[often])
        and frequencies_fit(both, m, exact.joint)
        and means_fit(lengths.mean(), lengths.std() / np.sqrt(m), exact.expected_length)
    )


WORLDS = {
    "chain": chain(states=12, stay=0.5, discount=0.95),
    "chain from the first": chain(states=12, stay=0.8, start="first", discount=1.0),
    "garnet": garnet(states=15, seed=1),
}


@pytest.mark.parametrize("name", WORLDS)
def test_simulation_fits_the_exact_answers(name):
    rows = simulate_episodes(WORLDS[name], trajectories=50_000, seed=11)
    assert fits(rows, WORLDS[name].process)


def test_gymnasium_tables_fit_their_simulation():
    pytest.importorskip("gymnasium")
    for text in ("gym:FrozenLake-v1", "gym:FrozenLake-v1,policy=greedy"):
        world = parse_world(text)
        assert fits(simulate_episodes(world, trajectories=30_000, seed=12), world.process)


def test_rollouts_of_an_environment_fit_its_table():
    gymnasium = pytest.importorskip("gymnasium")
    world = parse_world("gym:FrozenLake-v1")
    # Under the uniform policy a trajectory of more than 100 rows has a chance below 1e-6.
    rows = rollout(gymnasium.make("FrozenLake-v1"), "uniform", 4_000, seed=13)
    assert rows.truncated == 0
    assert fits(rows, world.process)


# The two conventions. On the chain the last state has a row, with the reward; in Gymnasium the
# final observation has none. Either may be changed in the simulator alone, or in the solver alone.


def changed(process, **columns):
    outcomes = process.outcomes
    listed = {
        name: np.array(getattr(outcomes, name))
        for name in ("rows", "probabilities", "successors", "rewards")
    }
    return MarkovRewardProcess(
        outcomes=Outcomes(states=process.states, actions=1, **(listed | columns)),
        start=process.start,
        discount=process.discount,
    )


def reward_on_arrival(process):
    """The chain with its reward paid on the way into the last state, whose own row pays nothing."""
    outcomes, last = process.outcomes, process.states - 1
    rewards = ((outcomes.rows != last) & (outcomes.successors == last)).astype(float)
    return changed(process, rewards=rewards)


def no_last_row(process):
    """The chain as Gymnasium would have it: the last state is a final observation."""
    outcomes, last = process.outcomes, process.states - 1
    arriving = (outcomes.rows != last) & (outcomes.successors == last)
    return changed(
        process,
        rewards=arriving.astype(float),
        successors=np.where(arriving, END, outcomes.successors),
    )


@pytest.mark.parametrize("mistake", [reward_on_arrival, no_last_row])
def test_a_changed_convention_of_the_chain_is_caught(mistake):
    right = chain(states=6, stay=0.5, discount=0.95).process
    wrong = mistake(right)
    right_rows = simulate_episodes(right, trajectories=20_000, seed=14)
    wrong_rows = simulate_episodes(wrong, trajectories=20_000, seed=14)
    assert fits(right_rows, right)
    assert fits(wrong_rows, wrong)  # a consistent world, but not ours
    assert not fits(wrong_rows, right)  # the simulator alone was changed
    assert not fits(right_rows, wrong)  # the solver alone was changed


@pytest.mark.parametrize("mistake", ["probabilities five per cent off", "the last outcome never"])
def test_a_simulator_that_departs_from_the_process_is_caught(mistake, monkeypatch):
    process = garnet(states=8, seed=3).process

    def spoilt(process):
        table = sampler(process)
        cumulative = table.cumulative.copy()
        if mistake == "the last outcome never":
            cumulative[table.offsets[1:-1] - 2] = 1.0
        else:
            cumulative = np.minimum(1.05 * cumulative, 1.0)
        return table._replace(cumulative=cumulative)

    monkeypatch.setattr("privalue.simulation.episodes.sampler", spoilt)
    assert not fits(simulate_episodes(process, trajectories=100_000, seed=16), process)


# The direct sampler of the chain's statistics.

SMALL = chain(states=5, stay=0.6, discount=0.8)
BATCH, REPEATS = 30, 4_000


def slow_statistics():
    """Counts and return steps of many small batches, from trajectories."""
    rows = simulate_episodes(SMALL, trajectories=BATCH * REPEATS, seed=17)
    visited, returns = first_visits(rows, 5, 0.8)
    steps = np.floor(returns * STEPS + 0.5) * visited
    batches = (REPEATS, BATCH, 5)
    return np.hstack([visited.reshape(batches).sum(axis=1), steps.reshape(batches).sum(axis=1)])


def direct_statistics(first_seed=0):
    samples = (
        chain_statistics(SMALL, trajectories=BATCH, seed=first_seed + k) for k in range(REPEATS)
    )
    return np.array([np.concatenate([one.counts, one.return_steps]) for one in samples])


def same_moments(one, other):
    """Whether two samples agree in every mean, variance and covariance, at 3 LEVEL in all.

    Means, products and third powers are compared, each after division by a common scale.
    """
    pooled = np.vstack([one, other])
    scale = pooled.std(axis=0) + 1e-300
    a, b = ((sample - pooled.mean(axis=0)) / scale for sample in (one, other))
    upper = np.triu_indices(a.shape[1])

    def agree(left, right):
        error = np.sqrt(left.var(axis=0) / len(left) + right.var(axis=0) / len(right))
        return means_fit(left.mean(axis=0), error, right.mean(axis=0))

    def products(sample):
        return (sample[:, :, None] * sample[:, None, :])[:, *upper]

    return agree(a, b) and agree(products(a), products(b)) and agree(a**3, b**3)


@pytest.fixture(scope="module")
def slow():
    return slow_statistics()


@pytest.fixture(scope="module")
def direct():
    return direct_statistics()


def test_direct_statistics_have_the_law_of_simulated_ones(slow, direct):
    assert same_moments(slow, direct)


def test_direct_statistics_have_the_exact_means(direct):
    process = SMALL.process
    visits = BATCH * process.visits.single
    error = direct.std(axis=0) / np.sqrt(REPEATS)
    assert means_fit(direct[:, :5].mean(axis=0), error[:5], visits)
    # Rounding to the grid moves a return by at most half a step.
    sums = direct[:, 5:].mean(axis=0) / STEPS
    assert means_fit(sums, error[5:] / STEPS + BATCH / STEPS, visits * process.values)


def test_direct_statistics_have_the_exact_covariance_of_counts(direct):
    # Counts of a batch: Cov(n_s, n_t) = m (p_{s,t} - p_s p_t).
    visits = SMALL.process.visits
    exact = BATCH * (visits.joint - np.outer(visits.single, visits.single))
    centred = direct[:, :5] - BATCH * visits.single
    products = centred[:, :, None] * centred[:, None, :]
    assert means_fit(products.mean(axis=0), products.std(axis=0) / np.sqrt(REPEATS), exact)


def test_states_drawn_one_by_one_are_caught(slow, direct):
    """Right in every state, wrong between states."""
    shuffled = direct.copy()
    rng = np.random.default_rng(18)
    for s in range(5):
        shuffled[:, [s, 5 + s]] = shuffled[rng.permutation(REPEATS)][:, [s, 5 + s]]
    assert same_moments(slow[:, [2, 7]], shuffled[:, [2, 7]])
    assert not same_moments(slow, shuffled)


def test_returns_drawn_apart_from_counts_are_caught(slow, direct):
    other = np.hstack([direct[:, :5], direct_statistics(REPEATS)[:, 5:]])
    assert not same_moments(slow, other)


def one_step_early(arriving, leave, generator):
    return chain_sampler_add_waits(arriving, leave, generator)[1:]


def all_together(arriving, leave, generator):
    """Each cell waits as one: the mean is right, the variance is not."""
    waits = generator.geometric(leave, size=arriving.size)
    histogram = np.zeros(arriving.size + waits.max(), dtype=np.int64)
    np.add.at(histogram, np.arange(arriving.size) + waits, arriving)
    return histogram


chain_sampler_add_waits = chain_sampler._add_waits


def five_per_cent_slow(arriving, leave, generator):
    return chain_sampler_add_waits(arriving, 0.95 * leave, generator)


@pytest.mark.parametrize("mistake", [one_step_early, all_together, five_per_cent_slow])
def test_wrong_waiting_times_are_caught(slow, mistake, monkeypatch):
    monkeypatch.setattr(chain_sampler, "_add_waits", mistake)
    assert not same_moments(slow, direct_statistics())
