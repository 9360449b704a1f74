"""The noise with beta = "auto" beside that of the best beta, which an oracle would choose."""

import math
from collections.abc import Iterator

import numpy as np
from rich.table import Table

import privalue as pv
from privalue.core._profile import exact_alpha, largest_beta
from privalue.core._sensitivity_lsw import smooth_lsw
from privalue.core._terms import PublicSize
from privalue.simulation import chain_statistics, parse_world, simulate_batches
from privalue.study._features import design
from privalue.study._terms import mechanism_for

EPSILON, DELTA = 0.1, 0.1  # the paper's


def counts_of(world, trajectories, seed):
    """How many trajectories visit each state."""
    if world.name == "chain":
        return chain_statistics(world, trajectories=trajectories, seed=seed).counts
    counts = np.zeros(world.process.states, dtype=np.int64)
    for batch in simulate_batches(world, trajectories=trajectories, seed=seed):
        pairs = np.unique(batch.trajectory * len(counts) + batch.state)
        counts += np.bincount(pairs % len(counts), minlength=len(counts))
    return counts


def study(states, prior=None):
    return pv.Study(
        epsilon=EPSILON,
        delta=DELTA,
        unit="trajectory",
        discount=0.99,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=states,
        visits=prior,
        mechanism="dp-lsw",
    )


def tables() -> Iterator[Table]:
    table = Table(title=f"sigma of DP-LSW, epsilon = delta = {EPSILON}, tabular, w = 1, R = 1")
    for name in (
        "world",
        "m",
        "auto",
        "auto with prior",
        "best beta",
        "auto/best",
        "prior/best",
        "limit",
    ):
        table.add_column(name, justify="left" if name == "world" else "right")
    worlds = ["chain:N=10", "chain:N=40", "chain:N=200", "gym:FrozenLake-v1", "random-chain:N=20"]
    for text in worlds:
        world = parse_world(text)
        n = world.process.states
        prior = np.clip(world.process.visits.single, 0, 1)
        highest = largest_beta(EPSILON, DELTA, n)
        grid = np.geomspace(highest * 1e-4, highest * 0.999, 60)
        alphas = [exact_alpha(EPSILON, DELTA, n, beta) for beta in grid]
        for m in (10**3, 10**4, 10**5, 10**6, 10**7):
            counts = counts_of(world, m, seed=1)
            ones = np.ones(n)

            def noise(described, counts=counts, ones=ones, m=m):
                size = PublicSize(units=m, most_count=m, trajectories=m)
                chosen = mechanism_for(described, design(described), size).calibration
                return chosen.alpha * math.sqrt(smooth_lsw(counts, ones, chosen.beta))

            plain, informed = noise(study(n)), noise(study(n, prior))
            best = min(
                alpha * math.sqrt(smooth_lsw(counts, ones, beta))
                for alpha, beta in zip(alphas, grid, strict=True)
            )
            limit = alphas[0] * math.sqrt(float(np.sum(1 / np.maximum(counts, 1.0) ** 2)))
            table.add_row(
                text, f"{m:.0e}", f"{plain:.3g}", f"{informed:.3g}", f"{best:.3g}",
                f"{plain / best:.2f}", f"{informed / best:.2f}", f"{limit:.3g}",
            )  # fmt: skip
    yield table
