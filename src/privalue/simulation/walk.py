"""Draw trajectories in compiled code, outcome by outcome.

An outcome is drawn by one uniform number and a binary search in the cumulative probabilities of its
row. The numbers come from NumPy's generator, which must never be used for a mechanism's noise.
"""

from typing import NamedTuple

import numpy as np

from privalue.core import Integers, Vector, jit
from privalue.simulation.mdp import END, MarkovRewardProcess

NO_LIMIT = np.iinfo(np.int64).max  # trajectories are never truncated

# Indices of ``position``, which ``walk`` carries over between two calls: the number of finished
# trajectories, how many of these were truncated, and the current trajectory's step and state.
FINISHED, TRUNCATED, STEP, STATE = range(4)


class Sampler(NamedTuple):
    """Outcomes ``offsets[row]`` to ``offsets[row + 1]`` follow a state; row N draws the start."""

    offsets: Integers
    cumulative: Vector
    successors: Integers


def sampler(process: MarkovRewardProcess) -> Sampler:
    """Return the cumulative probabilities that ``walk`` draws from."""
    outcomes = process.outcomes
    starts = np.flatnonzero(process.start)
    rows = np.concatenate([outcomes.rows, np.full(starts.size, process.states)])
    offsets = np.searchsorted(rows, np.arange(process.states + 2))
    probabilities = np.concatenate([outcomes.probabilities, process.start[starts]])
    successors = np.concatenate([outcomes.successors, starts])
    return Sampler(offsets, _accumulate(offsets, probabilities), successors)


@jit
def _accumulate(offsets: Integers, probabilities: Vector) -> Vector:  # pragma: no cover - compiled
    """Return cumulative probabilities, row by row; the last of a row is 1."""
    cumulative = np.ones(probabilities.size)
    for row in range(offsets.size - 1):
        total = 0.0
        for k in range(offsets[row], offsets[row + 1] - 1):
            total += probabilities[k]
            cumulative[k] = total
    return cumulative


@jit
def _draw(row: int, table: Sampler, uniform: float) -> int:  # pragma: no cover - compiled
    """Return the first outcome of a row whose cumulative probability exceeds a uniform number."""
    low, high = table.offsets[row], table.offsets[row + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if table.cumulative[middle] > uniform:
            high = middle
        else:
            low = middle + 1
    return int(low)


@jit
def walk(
    table: Sampler,
    generator: np.random.Generator,
    position: Integers,
    trajectories: int,
    limit: int,
    trajectory_of: Integers,
    step_of: Integers,
    outcome_of: Integers,
) -> int:  # pragma: no cover - compiled
    """Fill the arrays with rows, until they are full or all trajectories are done; count them.

    Args:
        table: what follows each state.
        generator: of uniform numbers.
        position: where the walk is; with it, rows do not depend on the size of the arrays.
        trajectories: how many to walk in all.
        limit: the most rows of a trajectory; a trajectory that has not ended by then is truncated.
        trajectory_of: the array to fill with the number of the trajectory.
        step_of: the array to fill with the number of the row in its trajectory.
        outcome_of: the array to fill with the outcome that was drawn.
    """
    start = table.offsets.size - 2
    count, step, state = 0, position[STEP], position[STATE]
    while position[FINISHED] < trajectories:
        if state == END:
            state, step = table.successors[_draw(start, table, generator.random())], 0
        while state != END and step < limit and count < outcome_of.size:
            k = _draw(state, table, generator.random())
            trajectory_of[count] = position[FINISHED]
            step_of[count] = step
            outcome_of[count] = k
            count += 1
            step += 1
            state = table.successors[k]
        if state != END and step < limit:
            break
        position[FINISHED] += 1
        position[TRUNCATED] += state != END
        state = END
    position[STEP], position[STATE] = step, state
    return count
