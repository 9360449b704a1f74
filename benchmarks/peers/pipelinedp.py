"""PipelineDP on its local backend.

``MEAN`` is its own way: a noisy count and a noisy sum of value - 1/2 for every partition. Its
guarantee is for adding or removing a privacy unit.
"""

import csv
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pipeline_dp as pdp
from pipeline_dp.aggregate_params import NormKind
from pipeline_dp.dp_computations import compute_sigma

from benchmarks.peers import exchange
from benchmarks.peers.exchange import Task, Variant

Row = tuple[int, int, float]


def budget(task: Task) -> tuple[tuple[float, float], str]:
    """What PipelineDP is given, and why the task's relation follows."""
    if task.relation == "add-remove":
        return (task.epsilon, task.delta), "native"
    half = exchange.halve(task.epsilon, task.delta)
    return half, f"two add-removes at ({half[0]:.4g}, {half[1]:.4g})"


def mean(
    task: Task, rows: list[Row], accountant: Callable[..., Any], budget: tuple[float, float]
) -> list[float]:
    """One release by the metric MEAN."""
    spent = accountant(total_epsilon=budget[0], total_delta=budget[1])
    engine = pdp.DPEngine(spent, pdp.LocalBackend())
    released = engine.aggregate(
        rows,
        pdp.AggregateParams(
            metrics=[pdp.Metrics.MEAN],
            noise_kind=pdp.NoiseKind.GAUSSIAN,
            max_partitions_contributed=task.most_states,
            max_contributions_per_partition=1,
            min_value=task.returns[0],
            max_value=task.returns[1],
        ),
        pdp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        ),
        public_partitions=list(range(task.states)),
    )
    spent.compute_budgets()
    by_state = {state: metrics.mean for state, metrics in released}
    return [by_state[state] for state in range(task.states)]


def vector_sum(task: Task, rows: list[Row]) -> exchange.Noisy:
    """One release of all sums and counts as one vector, in a single partition."""
    everywhere = task.most_states == task.states
    weight = exchange.count_weight(task.relation, everywhere=everywhere) * task.range
    sensitivity = exchange.vector_sensitivity(
        task.relation, task.states, task.range, task.most_states
    )
    vectors = np.zeros((task.trajectories, 2 * task.states))
    visited = np.zeros(task.trajectories, dtype=int)
    for trajectory, state, value in rows:
        visited[trajectory] += 1
        if visited[trajectory] <= task.most_states:
            vectors[trajectory, state] = value - task.middle
            vectors[trajectory, task.states + state] = weight
    spent = pdp.NaiveBudgetAccountant(total_epsilon=task.epsilon, total_delta=task.delta)
    engine = pdp.DPEngine(spent, pdp.LocalBackend())
    released = engine.aggregate(
        list(enumerate(vectors)),
        pdp.AggregateParams(
            metrics=[pdp.Metrics.VECTOR_SUM],
            noise_kind=pdp.NoiseKind.GAUSSIAN,
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
            vector_norm_kind=NormKind.L2,
            vector_max_norm=sensitivity,
            vector_size=2 * task.states,
            public_partitions_already_filtered=True,
        ),
        pdp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: 0,
            value_extractor=lambda row: row[1],
        ),
        public_partitions=[],  # naming the one there is fails on its empty vector (0.3.1)
    )
    spent.compute_budgets()
    [(_, metrics)] = released
    noisy = np.asarray(metrics.vector_sum)
    sums, counts = noisy[: task.states].tolist(), (noisy[task.states :] / weight).tolist()
    scale = compute_sigma(task.epsilon, task.delta, sensitivity)
    return exchange.Noisy(
        values=exchange.means(sums, counts, task.middle),
        sums=sums,
        counts=counts,
        sum_noise=scale,
        count_noise=scale / weight,
    )


def variants(task: Task) -> Iterator[Variant]:
    with open(task.first_visits, newline="") as file:
        rows = [(int(t), int(s), float(value)) for t, s, value in list(csv.reader(file))[1:]]
    amount, guarantee = budget(task)
    common = (
        f"MEAN, Gaussian noise, max_partitions_contributed={task.most_states}, "
        "max_contributions_per_partition=1, public partitions"
    )
    yield Variant(
        name="MEAN",
        configuration=f"{common}; NaiveBudgetAccountant",
        guarantee=guarantee,
        release=lambda: mean(task, rows, pdp.NaiveBudgetAccountant, amount),
    )
    yield Variant(
        name="MEAN, PLD accounting",
        configuration=f"{common}; PLDBudgetAccountant, which its documentation calls experimental",
        guarantee=guarantee,
        release=lambda: mean(task, rows, pdp.PLDBudgetAccountant, amount),
    )
    by_hand = "native" if task.relation == "add-remove" else "sensitivity proved by hand"
    yield Variant(
        name="VECTOR_SUM by hand",
        configuration=(
            "VECTOR_SUM of one vector a trajectory, the statistics of DP-SSP (all centred sums "
            "and weighted counts), in one partition, Gaussian noise, L2 norm; "
            "NaiveBudgetAccountant"
        ),
        guarantee=by_hand,
        release=lambda: vector_sum(task, rows),
    )


if __name__ == "__main__":
    exchange.main(("pipeline-dp", "python-dp", "dp-accounting"), variants)
