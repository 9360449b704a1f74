"""DP-SSP in the test worlds: what shrinkage and a public prior of visits do to the error.

``python -m benchmarks shrinkage``; some minutes. docs/proofs/shrinkage.md quotes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from privalue.core._design import Design
from privalue.core._profile import exact_alpha
from privalue.core._sensitivity_ssp import count_weight, sensitivity
from privalue.errors import MissingComponentError
from privalue.estimate._statistics import NoisyStatistics, estimate
from privalue.simulation import chain_statistics, parse_world, simulate_episodes
from privalue.study._choices import shape_weights
from privalue.study._features import aggregation

EPSILON, DELTA = 0.1, 0.1  # the paper's
DATASETS, RELEASES = 10, 100
GROUP = 15  # conditions of ICU-Sepsis that are one state
SMALL, LARGE = (10**2, 10**3, 10**4), (10**2, 10**3, 10**4, 10**5)
HUGE = (*LARGE, 10**6)
WORLDS = [  # world, return bounds, m
    *((f"chain:N=40,start={start}", (0.0, 1.0), HUGE) for start in ("uniform", "first")),
    *((f"chain:N={n}", (0.0, 1.0), HUGE) for n in (10, 200)),
    ("gym:FrozenLake-v1", (0.0, 1.0), LARGE),
    ("gym:FrozenLake-v1,policy=greedy", (0.0, 1.0), LARGE),
    ("gym:CliffWalking-v1,policy=greedy", (-20.0, 0.0), LARGE),
    ("gym:Taxi-v4,policy=greedy", (-20.0, 20.0), LARGE),
    ("icu-sepsis", (0.0, 1.0), LARGE),
    ("icu-sepsis grouped", (0.0, 1.0), LARGE),
    ("grid", (0.0, 1.0), LARGE),
    ("grid:policy=greedy", (0.0, 1.0), LARGE),
    ("grid:rows=12,columns=12", (0.0, 1.0), SMALL),
    *((f"random-chain:N=20,seed={seed}", (0.0, 25.0), LARGE) for seed in range(4)),
    *((f"random-chain:N=100,seed={seed}", (0.0, 60.0), LARGE) for seed in range(2)),
]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A world with what is known about it, and a source of its first-visit statistics."""

    values: np.ndarray
    prior: np.ndarray
    bounds: tuple[float, float]
    statistics: Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def first_visits(episodes, group, states, discount):
    """Counts and sums of first-visit returns, all trajectories at once, step by step."""
    state = episodes.state // group
    value = episodes.reward.copy()
    order = np.argsort(episodes.step, kind="stable")
    begins = np.searchsorted(episodes.step[order], np.arange(int(episodes.step.max()) + 2))
    goes_on = np.append(episodes.trajectory[1:] == episodes.trajectory[:-1], False)
    for step in range(len(begins) - 2, -1, -1):
        rows = order[begins[step] : begins[step + 1]]
        rows = rows[goes_on[rows]]
        value[rows] += discount * value[rows + 1]
    _, first = np.unique(episodes.trajectory * states + state, return_index=True)
    counts = np.bincount(state[first], minlength=states)
    return counts, np.bincount(state[first], value[first], minlength=states)


def place(text: str, bounds: tuple[float, float]) -> Place:
    name, grouped, _ = text.partition(" grouped")
    world = parse_world(name)
    process = world.process
    group = GROUP if grouped else 1
    states = -(-process.states // group)

    def statistics(m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        if world.name == "chain":
            drawn = chain_statistics(world, trajectories=m, seed=seed, returns=bounds)
            return drawn.counts, drawn.return_steps * ((bounds[1] - bounds[0]) / 2**30) + (
                drawn.counts * bounds[0]
            )
        episodes = simulate_episodes(world, trajectories=m, seed=seed)
        return first_visits(episodes, group, states, process.discount)

    values, prior = process.values, process.visits.single
    if grouped:  # the mean first-visit return of a group is known from many trajectories only
        counts, sums = statistics(10**6, 999)
        values, prior = sums / counts, counts / 10**6
    return Place(values=values, prior=np.clip(prior, 0, 1), bounds=bounds, statistics=statistics)


def rmse(where: Place, m: int, shape: np.ndarray | None) -> tuple[float, float]:
    """Mean root mean squared error over the states that can be visited, in units of R.

    Without shrinkage, and with it, from the same noise; clipped to the bounds as released.
    """
    low, high = where.bounds
    states = len(where.values)
    omega = np.ones(states) if shape is None else shape
    weight = count_weight(states, None)
    delta = sensitivity(omega, most_states=None, count_weight=weight)
    sigma = exact_alpha(EPSILON, DELTA, 1, 0.0) * (high - low) * delta
    design = Design(phi=aggregation(states, 1), weights=np.ones(states))
    seen = where.prior > 0
    generator = np.random.default_rng(m)
    errors: dict[bool, list[float]] = {False: [], True: []}
    data = [where.statistics(m, seed) for seed in range(DATASETS)]
    for at in range(RELEASES):
        counts, sums = data[at % DATASETS]
        noisy = NoisyStatistics(
            return_bounds=where.bounds,
            sums=sums
            - 0.5 * (low + high) * counts
            + sigma / omega * generator.standard_normal(states),
            counts=counts
            + sigma / omega / weight / (high - low) * generator.standard_normal(states),
            sum_noise=sigma / omega,
            count_noise=sigma / omega / weight / (high - low),
        )
        for shrinkage, found in errors.items():
            made = estimate(noisy, design, unvisited=min(max(0.0, low), high), shrinkage=shrinkage)
            square = np.mean(np.square(made.values - where.values)[seen])
            found.append(float(np.sqrt(square)) / (high - low))
    return float(np.mean(errors[False])), float(np.mean(errors[True]))


def tables() -> Iterator[Table]:
    alpha = exact_alpha(EPSILON, DELTA, 1, 0.0)
    table = Table(
        title=f"RMSE of DP-SSP over R, epsilon = delta = {EPSILON}, tabular, mean of {RELEASES} "
        f"releases of {DATASETS} data sets"
    )
    for name in ("world", "m", "plain", "shrunk", "ratio", "prior", "prior, shrunk", "ratio"):
        table.add_column(name, justify="left" if name == "world" else "right")
    worst = 0.0
    for text, bounds, sizes in WORLDS:
        try:
            where = place(text, bounds)
        except MissingComponentError as missing:
            table.add_row(text, str(missing))
            continue
        for m in sizes:
            shape = shape_weights(
                where.prior, len(where.prior), expected_trajectories=m, alpha=alpha
            )
            plain, drawn = rmse(where, m, None)
            shaped, both = rmse(where, m, shape)
            worst = max(worst, drawn / plain, both / shaped)
            table.add_row(
                text,
                f"{m:,}",
                *(f"{error:.4g}" for error in (plain, drawn)),
                f"{drawn / plain:.3f}",
                *(f"{error:.4g}" for error in (shaped, both)),
                f"{both / shaped:.3f}",
            )
    table.caption = f"the worst ratio is {worst:.4f}"
    yield table
