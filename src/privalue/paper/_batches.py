"""Draw batches of trajectories on the paper's chain: the same ones for all algorithms.

m and the number of the run identify a batch. Its first-visit statistics are drawn directly, with
the joint law that m trajectories give them, so that ten million cost as much as ten. With another
bound of returns the same batch is counted on another grid. The noise has a seed of its own, and
every algorithm gets the same standard normal numbers, scaled to its own sigma, so that algorithms
do not differ by chance.
"""

from functools import lru_cache

import numpy as np

from privalue.core import Statistics, Vector
from privalue.paper._chain_sampler import chain_statistics
from privalue.paper._settings import SEED, WORLD
from privalue.simulation import World, parse_world

_BATCH, _NOISE = 0, 1


@lru_cache
def world() -> World:
    """Return the paper's chain."""
    return parse_world(WORLD)


def truth() -> Vector:
    """Return V, by exact dynamic programming."""
    return world().process.values


def batch_seed(trajectories: int, run: int) -> int:
    """Return the seed of a batch."""
    return _seed(trajectories, run, _BATCH)


def noise_seed(trajectories: int, run: int) -> int:
    """Return the seed of the noise that a batch's estimates get."""
    return _seed(trajectories, run, _NOISE)


def _seed(*numbers: int) -> int:
    """Derive a seed from numbers; different numbers give independent streams."""
    words = np.random.SeedSequence([SEED, *numbers]).generate_state(2)
    return int(words[0]) << 20 ^ int(words[1])


@lru_cache(maxsize=512)
def batch(trajectories: int, run: int, bound: float) -> Statistics:
    """Return the first-visit statistics of one batch, with returns counted in [0, bound]."""
    drawn = chain_statistics(
        world(), trajectories=trajectories, seed=batch_seed(trajectories, run), returns=(0.0, bound)
    )
    return Statistics(
        return_bounds=(0.0, bound),
        trajectories=trajectories,
        rows=int(drawn.counts.sum()),  # first visits; nothing depends on the other rows
        rewards_clamped=0,
        returns_clamped=0,
        counts=drawn.counts,
        return_steps=drawn.return_steps,
    )


def normals(trajectories: int, run: int, count: int) -> Vector:
    """Return standard normal numbers; a longer sequence begins with the shorter one."""
    return np.random.default_rng(noise_seed(trajectories, run)).standard_normal(count)


def rmse(values: Vector) -> float:
    """Return the root mean square error over the states, against the exact values."""
    return float(np.sqrt(np.mean(np.square(values - truth()))))
