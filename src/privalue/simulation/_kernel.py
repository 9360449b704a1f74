"""Simulate trajectories in compiled code: alias tables, a small generator, one loop for the rows.

An alias table [Walker 1977; Vose 1991] draws from K outcomes with one uniform number: its whole
part picks a column, and its fraction decides between that column's own outcome and its alias.
The table of a process has one block of columns per state, and a last one for the start.

The generator is xoshiro256++ [Blackman and Vigna 2021], of period 2^256 - 1. It is for simulated
data only: nothing here is fit to be the noise of a mechanism.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privalue.core import kernel
from privalue.simulation._outcomes import END

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privalue.core import Integers, Vector
    from privalue.simulation._markov import MarkovRewardProcess

NO_LIMIT = np.iinfo(np.int64).max
"""A truncation that never happens."""

# Indices of the position that `walk` carries over between two calls.
TRAJECTORY, STEP, STATE, KEPT, TRUNCATED, DROPPED = range(6)
BETWEEN = -2
"""The STATE of a walk that is between two trajectories."""


class AliasTable(NamedTuple):
    """Columns ``offsets[row]`` to ``offsets[row + 1]`` draw what follows; row N draws the start."""

    offsets: Integers
    thresholds: Vector
    aliases: Integers
    successors: Integers
    rewards: Vector


def alias_table(process: MarkovRewardProcess) -> AliasTable:
    """Build the alias table of a process."""
    outcomes = process.outcomes
    starts = np.flatnonzero(process.start)
    end = outcomes.offsets[-1]
    offsets = np.append(outcomes.offsets, end + starts.size)
    probabilities = np.concatenate([outcomes.probabilities, process.start[starts]])
    thresholds, aliases = _vose(offsets, probabilities)
    return AliasTable(
        offsets=offsets,
        thresholds=thresholds,
        aliases=aliases,
        successors=np.concatenate([outcomes.successors, starts]),
        rewards=np.concatenate([outcomes.rewards, np.zeros(starts.size)]),
    )


@kernel()
def _vose(
    offsets: Integers, probabilities: Vector
) -> tuple[Vector, Integers]:  # pragma: no cover - compiled
    """Fill the alias table row by row, by Vose's method.

    Args:
        offsets: where each row's columns begin, and the end of the last.
        probabilities: of all columns; those of a row sum to one.

    Returns:
        The threshold of each column, and its alias.
    """
    thresholds = np.ones(probabilities.size)
    aliases = np.arange(probabilities.size)
    pending = np.empty(probabilities.size, dtype=np.int64)
    scaled = np.empty(probabilities.size)
    for row in range(offsets.size - 1):
        low, high = offsets[row], offsets[row + 1]
        # Columns below average fill `pending` from the left, the others from the right.
        small, large = low, high
        for k in range(low, high):
            scaled[k] = probabilities[k] * (high - low)
            if scaled[k] < 1:
                pending[small] = k
                small += 1
            else:
                large -= 1
                pending[large] = k
        while small > low and large < high:
            small -= 1
            poor, rich = pending[small], pending[large]
            thresholds[poor] = scaled[poor]
            aliases[poor] = rich
            scaled[rich] = (scaled[rich] + scaled[poor]) - 1
            if scaled[rich] < 1:
                large += 1
                pending[small] = rich
                small += 1
        # The remaining columns differ from the average by rounding only: their threshold stays one.
    return thresholds, aliases


@kernel(inline="always")
def _rotate(word: np.uint64, by: int) -> np.uint64:  # pragma: no cover - compiled
    """Rotate 64 bits to the left."""
    left: np.uint64 = word << np.uint64(by)
    return left | (word >> np.uint64(64 - by))


@kernel()
def next_word(generator: NDArray[np.uint64]) -> np.uint64:  # pragma: no cover - compiled
    """Return the next 64 bits of xoshiro256++, and advance its four words in place."""
    a, b, c, d = generator[0], generator[1], generator[2], generator[3]
    result: np.uint64 = _rotate(a + d, 23) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = _rotate(d, 45)
    generator[0], generator[1], generator[2], generator[3] = a, b, c, d
    return result


@kernel()
def _draw(
    row: int,
    generator: NDArray[np.uint64],
    offsets: Integers,
    thresholds: Vector,
    aliases: Integers,
) -> int:  # pragma: no cover - compiled
    """Draw a column of this row of the alias table.

    Args:
        row: a state, or N for the start.
        generator: the four words of xoshiro256++, advanced in place.
        offsets: where each row's columns begin.
        thresholds: of each column, the share that its own outcome has.
        aliases: of each column, the outcome that has the rest.
    """
    low = offsets[row]
    uniform = (next_word(generator) >> np.uint64(11)) * 2.0**-53
    place = uniform * (offsets[row + 1] - low)
    column = int(place)
    k: int = low + column
    if place - column >= thresholds[k]:
        k = aliases[k]
    return k


@kernel()
def walk(
    table: AliasTable,
    generator: NDArray[np.uint64],
    place: Integers,
    trajectories: int,
    limit: int,
    drop: bool,
    rows: tuple[Integers, Integers, Integers, Vector, Integers],
) -> int:  # pragma: no cover - compiled
    """Write rows until the arrays are full or all trajectories are done.

    A trajectory with ``limit`` rows that has not ended is truncated. To drop such a one without
    holding its rows, it is first walked without writing, then again from the same random words.

    Args:
        table: the alias table of the process.
        generator: the four words of xoshiro256++, advanced in place.
        place: the position of the walk: trajectories finished, steps of the current one, its state
            or BETWEEN, trajectories written, truncated, dropped. It carries the walk over to the
            next call, so that the rows do not depend on the size of the arrays.
        trajectories: how many to walk in all.
        limit: the most rows of a trajectory.
        drop: whether truncated trajectories are left out.
        rows: the arrays to fill: trajectory, step, state, reward, and the outcome that was drawn.

    Returns:
        How many rows were written.
    """
    offsets, thresholds, aliases, successors, rewards = table
    trajectory_of, step_of, state_of, reward_of, outcome_of = rows
    start = offsets.size - 2
    written = 0
    while place[TRAJECTORY] < trajectories:
        if place[STATE] == BETWEEN:
            if drop:
                before = generator.copy()
                state = successors[_draw(start, generator, offsets, thresholds, aliases)]
                steps = 0
                while state != END and steps < limit:
                    state = successors[_draw(state, generator, offsets, thresholds, aliases)]
                    steps += 1
                if state != END:
                    place[TRAJECTORY] += 1
                    place[TRUNCATED] += 1
                    place[DROPPED] += 1
                    continue
                generator[:] = before
            place[STATE] = successors[_draw(start, generator, offsets, thresholds, aliases)]
            place[STEP] = 0
        state, step = place[STATE], place[STEP]
        while state != END and step < limit and written < trajectory_of.size:
            k = _draw(state, generator, offsets, thresholds, aliases)
            trajectory_of[written] = place[KEPT]
            step_of[written] = step
            state_of[written] = state
            reward_of[written] = rewards[k]
            outcome_of[written] = k
            written += 1
            step += 1
            state = successors[k]
        place[STATE], place[STEP] = state, step
        if state != END and step < limit:
            return written
        place[TRUNCATED] += state != END
        place[TRAJECTORY] += 1
        place[KEPT] += 1
        place[STATE] = BETWEEN
    return written
