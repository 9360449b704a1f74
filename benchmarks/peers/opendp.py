"""OpenDP: its Polars interface, and its Gaussian mechanism on a vector made by hand.

Both relations are native: ``contributions`` of an identifier is add-remove, ``changes`` is
replace-one. The budget is turned into zCDP by OpenDP's own conversion, for Gaussian noise.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.peers import exchange
from benchmarks.peers.exchange import Task, Variant

dp.enable_features("contrib")


def gaussian(task: Task, size: int, sensitivity: float) -> tuple[Any, float]:
    """The Gaussian mechanism on vectors, with the least scale that meets the budget."""
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size),
        dp.l2_distance(T=float),
    )

    def approximate(scale: float) -> Any:
        zcdp = dp.m.make_gaussian(*space, scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(zcdp), task.delta)

    scale = dp.binary_search_param(
        approximate, d_in=sensitivity, d_out=(task.epsilon, task.delta), T=float
    )
    return dp.m.make_gaussian(*space, scale), scale


def privacy_unit(task: Task) -> Any:
    if task.relation == "add-remove":
        return dp.unit_of(contributions=1, identifier="trajectory")
    return dp.unit_of(changes=1, identifier="trajectory")


def group(task: Task, rows: pl.DataFrame, rho: float, aggregates: list[Any]) -> pl.DataFrame:
    """One release of the aggregates of every state, in the order of the states."""
    context = dp.Context.compositor(
        data=rows.lazy(),
        privacy_unit=privacy_unit(task),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
        margins=[
            dp.polars.Margin(by=["state"], max_length=task.trajectories, max_groups=task.states)
        ],
    )
    keys = pl.DataFrame({"state": range(task.states)}, schema={"state": pl.Int64})
    query = context.query().truncate_per_group(1, by=["state"])
    if task.most_states < task.states:  # "sample" fails in 0.16.0: it names a column twice
        query = query.truncate_num_groups(task.most_states, by=["state"], keep="first")
    query = query.group_by("state").agg(*aggregates).with_keys(keys)
    return query.release().collect().sort("state")


def vector(task: Task, rows: pl.DataFrame) -> exchange.Noisy:
    """One release of all sums and counts as one vector."""
    everywhere = task.most_states == task.states
    weight = exchange.count_weight(task.relation, everywhere=everywhere) * task.range
    states = rows["state"].to_numpy()
    values = np.clip(rows["value"].to_numpy(), *task.returns) - task.middle
    exact = np.concatenate(
        [
            np.bincount(states, values, minlength=task.states),
            weight * np.bincount(states, minlength=task.states),
        ]
    )
    sensitivity = exchange.vector_sensitivity(
        task.relation, task.states, task.range, task.most_states
    )
    mechanism, scale = gaussian(task, len(exact), sensitivity)
    noisy = np.asarray(mechanism(exact.tolist()))
    sums, counts = noisy[: task.states].tolist(), (noisy[task.states :] / weight).tolist()
    return exchange.Noisy(
        values=exchange.means(sums, counts, task.middle),
        sums=sums,
        counts=counts,
        sum_noise=scale,
        count_noise=scale / weight,
    )


def first_of_each(task: Task, rows: pl.DataFrame) -> pl.DataFrame:
    """The first states of each trajectory: who bounds by hand, bounds the rows first."""
    return rows.filter(pl.int_range(pl.len()).over("trajectory") < task.most_states)


def variants(task: Task) -> Iterator[Variant]:
    rows = pl.read_csv(task.first_visits)
    by_hand = first_of_each(task, rows)
    centred = rows.with_columns(pl.col("value") - task.middle)
    low, high = task.returns
    half = task.range / 2
    rho = gaussian(task, 1, 1.0)[0].map(1.0)  # of a Gaussian, whatever its sensitivity

    def mean() -> Any:
        return group(task, rows, rho, [pl.col("value").dp.mean((low, high))])["value"]

    def sum_and_len() -> list[float]:
        released = group(
            task,
            centred,
            rho,
            [pl.col("value").dp.sum((-half, half)), dp.len(signed=True)],
        )
        return exchange.means(released["value"].to_list(), released["len"].to_list(), task.middle)

    unit = (
        'unit_of(identifier="trajectory"; contributions=1 for add-remove, changes=1 for '
        "replace-one), truncate_per_group(1), "
        + (f"truncate_num_groups({task.most_states}), " * (task.most_states < task.states))
        + f"max_groups={task.states}, with_keys, "
        f"loss_of(rho={rho:.4g})"
    )
    yield Variant(
        name="Polars, dp.mean",
        configuration=f"dp.mean in each group; {unit}",
        guarantee="native",
        release=mean,
    )
    yield Variant(
        name="Polars, centred dp.sum and dp.len",
        configuration=f"dp.sum of value - {task.middle:g} and dp.len in each group; {unit}",
        guarantee="native",
        release=sum_and_len,
    )
    yield Variant(
        name="make_gaussian by hand",
        configuration=(
            "make_gaussian on one vector, the statistics of DP-SSP (all centred sums and weighted "
            "counts); make_zCDP_to_approxDP, make_fix_delta"
        ),
        guarantee="sensitivity proved by hand",
        release=lambda: vector(task, by_hand),
    )


if __name__ == "__main__":
    exchange.main(("opendp", "polars"), variants)
