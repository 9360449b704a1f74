"""Draw the first-visit statistics of the chain directly, without drawing trajectories.

On the chain every trajectory that visits s goes on to visit s + 1, ..., N - 1, and the return of
its first visit of s is gamma^T, T the number of rows from there to the last. So the statistics
depend on the trajectories only through histograms:

=============  ===============  ===========  =====================================================
symbol         code             shape        meaning
=============  ===============  ===========  =====================================================
m              trajectories     ()           how many trajectories
H_s(t)         histogram        (t,)         of those that visit s, how many have T_s = t
n_s            counts           (N,)         how many visit s: sum_t H_s(t)
G_t            returns          (t,)         G_0 = 1, G_t = 0 + gamma G_{t-1}, as doubles
q              return_steps     (N,)         sum_t H_s(t) q(G_t), on a grid of 2^30 steps
=============  ===============  ===========  =====================================================

The histograms form a Markov chain from s = N - 1, where H(0) = m, down to 0. Given H_{s+1}:

1. each visitor of s + 1 started there with probability mu_{s+1} / (mu_0 + ... + mu_{s+1}),
   independently of its T, since the start says nothing about later waiting times: these visitors
   did not visit s, and are removed by a binomial draw from each cell;
2. for each of the others T_s = T_{s+1} + W with W geometric, P[W = w] = p^{w-1} (1 - p). The
   geometric distribution has no memory: at each t every waiting trajectory leaves with
   probability 1 - p, however long it has waited, so H_s(t) is one binomial draw from all of them.

Both steps are exact, so the counts and the sums of all states have the same *joint* distribution
as for m simulated trajectories, at a cost that grows with log m only.
"""

from typing import NamedTuple

import numpy as np

from privalue.core import GRID_STEPS, MAX_TRAJECTORIES, Integers, Vector
from privalue.errors import UsageError
from privalue.simulation import World


class ChainStatistics(NamedTuple):
    """The number of trajectories that visit each state, and the sums of returns in steps."""

    counts: Integers
    return_steps: Integers


def chain_statistics(
    world: World, *, trajectories: int, seed: int, returns: tuple[float, float] = (0.0, 1.0)
) -> ChainStatistics:
    """Draw the first-visit statistics of m trajectories of a chain.

    They are equal in distribution to the statistics of m simulated trajectories.

    Args:
        world: a chain, from ``chain`` or ``parse_world``.
        trajectories: m, from 1 to 2^33 - 1.
        seed: a whole number of at least 0.
        returns: the bounds (lo, hi) to which returns are clamped, and between which lie 2^30 steps.

    Returns:
        The counts of all states, and their sums of returns in steps.

    Raises:
        UsageError: if the world is not a chain, or a number is not allowed.
    """
    if world.name != "chain":
        raise UsageError(f"the world is {world.text!r}; direct statistics are for 'chain' only")
    if not 1 <= trajectories <= MAX_TRAJECTORIES:
        raise UsageError(f"trajectories is {trajectories}; it must be from 1 to {MAX_TRAJECTORIES}")
    low, high = returns
    if not (np.isfinite([low, high]).all() and low < high):
        raise UsageError(f"returns is {returns!r}; it must be two finite numbers, the lower first")
    generator = np.random.default_rng(seed)

    process = world.process
    leave = 1 - float(world.parameters["p"])
    below = np.cumsum(process.start)
    states = process.states
    counts = np.zeros(states, dtype=np.int64)
    return_steps = np.zeros(states, dtype=np.int64)
    histogram = np.array([trajectories])
    for s in range(states - 1, -1, -1):
        if s < states - 1:
            visited_before = below[s] / below[s + 1]
            histogram = _add_waits(generator.binomial(histogram, visited_before), leave, generator)
        counts[s] = histogram.sum()
        return_steps[s] = histogram @ _in_steps(
            _powers(process.discount, histogram.size), low, high
        )
    return ChainStatistics(counts, return_steps)


def _add_waits(histogram: Integers, leave: float, generator: np.random.Generator) -> Integers:
    """Draw the histogram of T + W, given the histogram of T."""
    result = [0]
    waiting = 0
    for newcomers in histogram:
        waiting += int(newcomers)
        count = int(generator.binomial(waiting, leave))
        result.append(count)
        waiting -= count
    while waiting:
        count = int(generator.binomial(waiting, leave))
        result.append(count)
        waiting -= count
    return np.array(result)


def _powers(discount: float, count: int) -> Vector:
    """Return G_t for t below count, with the rounding of the recursion G <- r + gamma G."""
    powers = np.empty(count)
    value = 1.0
    for t in range(count):
        powers[t] = value
        value = 0.0 + discount * value
    return powers


def _in_steps(values: Vector, low: float, high: float) -> Integers:
    """Return q(G) = floor((clip(G, lo, hi) - lo) 2^30 / (hi - lo) + 1/2), at most 2^30."""
    scaled = (np.clip(values, low, high) - low) * (GRID_STEPS / (high - low))
    return np.minimum(np.floor(scaled + 0.5), GRID_STEPS).astype(np.int64)
