"""Total intervals cover V: fresh people and fresh noise each time, in every world of the suite.

Everything is drawn from seeds, so that nothing here is a matter of chance when it is run again. The
planted mistakes must fail the check that the true intervals pass.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.worlds import grid, random_chain
from oracles.estimates import estimate, noisy_statistics
from oracles.repeats import cross
from oracles.worlds import first_visits
from privalue.core import Design, calibration
from privalue.paper import chain_statistics
from privalue.simulation import parse_world, simulate_episodes
from privalue.study import aggregation

SETS = 150  # data sets of a world
LEAST = 0.94  # of the cases, where 0.95 are promised
BUDGETS = [(0.1, 0.1), (1.0, 1e-6), (8.0, 1e-6)]  # noise that hides the people, and hardly any


class World(NamedTuple):
    """Statistics of many data sets, and the truth."""

    bounds: tuple[float, float]
    counts: np.ndarray  # a row for each data set
    sums: np.ndarray
    values: np.ndarray  # V
    start: np.ndarray
    trajectories: int


def chain(trajectories):
    """The paper's chain, whose statistics are drawn directly."""
    world = parse_world("chain")
    samples = [chain_statistics(world, trajectories=trajectories, seed=s) for s in range(SETS)]
    return World(
        (0.0, 1.0),
        np.array([one.counts for one in samples], dtype=float),
        np.array([one.return_steps for one in samples]) / 2**30,
        world.process.values,
        world.process.start,
        trajectories,
    )


def simulate(source, trajectories, bounds):
    """A process, or the name of a world, of which trajectories are drawn; all data sets at once."""
    process = parse_world(source).process if isinstance(source, str) else source
    rows = simulate_episodes(process, trajectories=SETS * trajectories, seed=7)
    values, start, states = process.values, process.start, process.states
    visited, returns = first_visits(rows, states, process.discount)
    assert bounds[0] <= returns.min()  # nothing is clamped
    assert returns.max() <= bounds[1]
    return World(
        bounds,
        visited.reshape(SETS, trajectories, states).sum(axis=1).astype(float),
        returns.reshape(SETS, trajectories, states).sum(axis=1),
        values,
        start,
        trajectories,
    )


def coins(visits, lowest=0.02, highest=0.98, states=40):
    """Returns that are 0 or 1, the largest variance that there can be, in states of their own."""
    generator = np.random.default_rng(31)
    values = np.linspace(lowest, highest, states)
    counts = generator.poisson(visits, (SETS, states)).astype(float)
    sums = generator.binomial(counts.astype(int), values).astype(float)
    return World((0.0, 1.0), counts, sums, values, np.full(states, 1 / states), visits)


GARNET, LOOSE = random_chain(states=20, branching=4, seed=5), random_chain(states=12, seed=2)
WORLDS = {
    "chain of 300": lambda: chain(300),
    "chain of 3000": lambda: chain(3000),
    "chain of 100000": lambda: chain(100_000),
    "Garnet": lambda: simulate(GARNET, 300, (0.0, 60.0)),
    "loose Garnet": lambda: simulate(LOOSE, 300, (-100.0, 200.0)),
    "FrozenLake": lambda: simulate("gym:FrozenLake-v1", 400, (0.0, 1.0)),
    "FrozenLake, optimal": lambda: simulate("gym:FrozenLake-v1,policy=greedy", 100, (0.0, 1.0)),
    "grid": lambda: simulate(grid(policy="greedy"), 300, (0.0, 1.0)),
    "coins": lambda: coins(2000),
}


@functools.cache
def world(name):
    return WORLDS[name]()


def unchanged(noisy):
    return noisy


def without_count_noise(noisy):
    return dataclasses.replace(noisy, count_noise=noisy.count_noise * 1e-6)


def without_noise(noisy):
    return dataclasses.replace(
        noisy, sum_noise=noisy.sum_noise * 1e-6, count_noise=noisy.count_noise * 1e-6
    )


class Coverage(NamedTuple):
    """How often V was covered: state by state, in all states at once, and from the start."""

    single: float
    joint: float
    policy: float
    privacy: float  # by the privacy interval, which does not promise it


def coverage(population, budget, *, times=1, cluster_size=1, fit=None, ridge=None, wrong=unchanged):
    """Release every data set once.

    Args:
        found: a world.
        budget: epsilon and delta.
        times: L; every person has so many trajectories, all the same.
        cluster_size: what the intervals take L to be.
        fit: features; each state has its own, if left out.
        ridge: of LSL.
        wrong: what is changed before intervals are made.
    """
    states = len(population.values)
    reach = population.bounds[1] - population.bounds[0]
    # A trajectory may visit every state: a sensitivity of L R sqrt(N), at this weight of counts.
    weight = np.sqrt(3) / 2
    sigma = calibration.exact_alpha(*budget, 1, 0.0) * times * reach * np.sqrt(states)
    generator = np.random.default_rng(29)
    design = Design(phi=aggregation(states, 1), weights=np.ones(states)) if fit is None else fit
    middle = sum(population.bounds) / 2
    hits = np.zeros(4)
    for counts, sums in zip(times * population.counts, times * population.sums, strict=True):
        noisy = noisy_statistics(
            return_bounds=population.bounds,
            sums=sums - middle * counts + sigma * generator.standard_normal(states),
            counts=counts + sigma / weight / reach * generator.standard_normal(states),
            sum_noise=np.full(states, sigma),
            count_noise=np.full(states, sigma / weight / reach),
        )
        estimates = estimate(
            wrong(noisy),
            design,
            unvisited=population.bounds[0],
            ridge=ridge,
            shrinkage=False,  # it moves values, and no interval
            start=population.start,
            cluster_size=cluster_size,
        )

        def holds(kind, estimates=estimates):
            low, high = getattr(estimates, f"{kind}low"), getattr(estimates, f"{kind}high")
            return (low <= population.values) & (population.values <= high)

        low, high = estimates.policy.total_low, estimates.policy.total_high
        hits += [
            holds("total_").mean(),
            holds("total_band_").all(),
            low <= population.start @ population.values <= high,
            holds("").mean(),
        ]
    return Coverage(*(hits / len(population.counts)))


@pytest.mark.parametrize(("name", "budget"), cross(WORLDS, BUDGETS))
def test_total_intervals_cover_the_values(name, budget):
    shares = coverage(world(name), budget)
    assert shares.single >= LEAST
    assert shares.joint >= LEAST - 0.03  # few cases, where states are thousands
    assert shares.policy >= LEAST - 0.03


PERSONS = ["chain of 3000", "Garnet", "coins"]


@pytest.mark.parametrize("budget", BUDGETS[1:], ids=str)
@pytest.mark.parametrize("name", PERSONS)
def test_persons_with_five_trajectories_that_are_alike(name, budget):
    shares = coverage(world(name), budget, times=5, cluster_size=5)
    assert shares.single >= LEAST
    assert shares.joint >= LEAST - 0.03
    assert shares.policy >= LEAST - 0.03


def test_where_the_noise_is_small_the_intervals_are_as_wide_as_they_must_be():
    """Returns of the largest variance: nothing is conservative there."""
    assert coverage(world("coins"), BUDGETS[2]).single <= 0.957


def test_the_privacy_interval_would_not_do():
    """It is sound for what it says, and that is not V."""
    assert coverage(world("coins"), BUDGETS[2]).privacy < 0.9


@pytest.mark.parametrize("fit", ["groups", "groups with a ridge", "smooth"])
def test_features_that_do_not_fit_leave_the_intervals_sound(fit):
    """They are for V itself: what the features cannot express is inside, too."""
    population = world("coins")
    states = len(population.values)
    x = np.linspace(-1, 1, states)
    phi = np.stack([np.ones(states), x**2], axis=1) if fit == "smooth" else aggregation(states, 8)
    shares = coverage(
        population,
        BUDGETS[2],
        fit=Design(phi=phi, weights=np.ones(states)),
        ridge=300.0 if "ridge" in fit else None,
    )
    assert shares.single >= LEAST
    assert shares.joint >= LEAST - 0.03
    assert shares.policy >= LEAST - 0.03
    assert shares.privacy < 0.5


# Planted mistakes


def test_persons_taken_as_independent_are_caught():
    """kappa = 1 where L = 5: in theory 2 Phi(z / sqrt(5)) - 1 = 0.62 is covered."""
    shares = coverage(world("coins"), (20.0, 1e-3), times=5, cluster_size=1)
    assert shares.single == pytest.approx(0.62, abs=0.02)


@pytest.mark.parametrize(("wrong", "most"), [(without_count_noise, 0.93), (without_noise, 0.5)])
def test_noise_that_is_left_out_is_caught(wrong, most):
    """Far from the middle, where the noise of counts matters, and in noise that hides the people.

    Without s_n it is 2 Phi(z sqrt(0.75/(0.75 + y^2))) - 1 = 0.92 in theory, at y near 0.43.
    """
    population, budget = coins(400_000, 0.05, 0.08), (0.02, 1e-6)
    assert coverage(population, budget).single >= LEAST
    assert coverage(population, budget, wrong=wrong).single < most


def test_bands_of_single_intervals_are_caught():
    """Intervals of 95% each do not cover 40 states at once, nor do bands at half the level."""
    shares = coverage(world("coins"), BUDGETS[2])
    assert shares.joint > shares.single**40 + 0.5
