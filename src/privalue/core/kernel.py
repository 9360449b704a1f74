"""Compile the loops over rows and random words, and define the core's array types.

No other module imports Numba. Compiled code is cached on disk, if there is a folder for it.
``gather``, the longest loop, sums up contributions.
"""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

UNIT_ROUNDOFF = 2.0**-53  # u: one operation on doubles is right to this, relative to its result
GRID_STEPS = 2**30  # of a return, between its bounds
WHOLE_SPAN = (0, 2**32)  # of the upper half of a unit's hash

# Without a home Numba would make a folder called "~" in the current one.
_HAS_HOME = os.path.isabs(os.path.expanduser("~"))


def jit(function: Callable[..., Any]) -> Any:
    """Return the function, compiled on its first call; other Python threads run meanwhile."""
    try:
        return njit(cache=_HAS_HOME, nogil=True)(function)
    except RuntimeError:  # there is no folder that Numba can write to
        return njit(nogil=True)(function)


@jit
def unit_hash(ids, words):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return 64 bits of the first ``words`` words of a row's ids.

    Zeros do not count: an id is the same however many words it is given. The mixing is that of
    SplitMix64; the guarantee needs no property of it but that equal units have equal hashes.
    """
    mixed = np.uint64(0)
    for word in range(words):
        if ids[word] != 0:
            mixed ^= np.uint64(ids[word])
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return mixed


@jit
def gather(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915  # pragma: no cover - compiled
    ids, steps, keys, rewards, ratios, unit_words, span_of_hashes, layout, rules, sums
):
    """Add whole units to the sums, and check every row.

    Each unit is read forwards, which checks each row and marks the first visits of each
    trajectory. Then the returns of a trajectory are computed backwards, G = r + gamma G, and those
    at its first visits are added. What a unit adds follows from its own rows and the rules alone:
    at most L visits to a key, each with 0 to 2^30 steps, and at most H L visits in all. That is
    what docs/proofs/contribution.md presumes of neighbours. With weights, a visit adds
    0 <= j <= 2^30 and 2|t| <= j besides, as docs/proofs/weights.md presumes.

    Args:
        ids: row x word: the words of the unit's ids first, those of the trajectory's after them.
        steps: of each row.
        keys: of each row; N marks an invalid row, where units are dropped; N + 1 a row that ends
            its trajectory, where there are any: its reward counts, and it has no key.
        rewards: of each row.
        ratios: of each row; empty where trajectories have no weights.
        unit_words: how many of the first words of a row's ids are its unit's.
        span_of_hashes: the units' range.
        layout: of ``rules`` and ``sums``, for the cache of compiled code.
        rules: the attributes of ``Limits``, by name.
        sums: the sums so far: an array for each name in ``NUMBERS``; besides, for each key, the
            number of the last trajectory that visits it. These numbers go on from batch to batch.

    Returns:
        The reason of a ``BoundaryError`` and the row at which a check failed, or ("", 0).
    """
    (rows, words), max_states = ids.shape, rules.max_states_per_trajectory
    counts, last_seen_in = sums.counts, sums.last_seen_in
    # Of one unit, and long enough for any; the memory beyond its rows is never touched. By row:
    # 2 key, and 1 more at a first visit that counts. By trajectory: its first row, and its number
    # of distinct keys.
    visits = np.empty(rows + 1, dtype=np.uint32)
    begins, distinct = np.empty(rows + 1, dtype=np.int64), np.empty(rows + 1, dtype=np.int64)
    low, high = rules.return_bounds
    reward_low, reward_high = rules.reward_bounds
    top = 1.0 * GRID_STEPS  # a double, as the others: one min to compile
    scale = GRID_STEPS / (high - low)
    dropping, marked = rules.drop_invalid, rules.drop_invalid or rules.drop_truncated
    by_level, weighted = rules.levels > 1, rules.clip > 0
    keys_per_arm = len(counts) // rules.arms
    # Two unsigned numbers: Numba compares a signed one with an unsigned one as doubles.
    span = (np.uint64(span_of_hashes[0]), np.uint64(span_of_hashes[1]))
    row, number = 0, sums.last_number[0]
    returns_clamped = rewards_clamped = 0  # of rows: local, for speed
    while row < rows:
        # Another batch may cover the other hashes, and with them this unit once more.
        upper = unit_hash(ids[row], unit_words) >> np.uint64(32)
        if not span[0] <= upper < span[1]:
            return "span", row
        start, trajectories, invalid, word = row, 0, False, unit_words
        # Each turn reads one trajectory; the unit ends where a word of its own ids changes.
        while row < rows and (trajectories == 0 or word >= unit_words):
            begins[trajectories], distinct_keys, ended = row, 0, False
            # A new number for each trajectory makes all marks out of date at once: nothing of
            # size N is cleared, and a key is fresh unless this very trajectory has met it.
            number += 1
            while True:
                key = np.uint32(keys[row])  # a negative one is a very large one
                if key < len(counts):
                    # Compiled code writes wherever a key points to, and a NaN passes every clamp.
                    # With finite rewards G may overflow; an infinity stays one, and is clamped.
                    if not np.isfinite(rewards[row]):
                        return "reward", row
                    is_new, last_seen_in[key] = last_seen_in[key] != number, number
                    is_counted = is_new & (distinct_keys < max_states)
                    visits[np.uint64(row - start)] = 2 * key + is_counted
                    distinct_keys += is_new
                elif marked and key == len(counts):
                    invalid = True
                elif rules.has_ends and key == len(counts) + 1:
                    if not np.isfinite(rewards[row]):
                        return "reward", row
                    # No key, and so no visit: an entry that adds 0, to the first key.
                    visits[np.uint64(row - start)], ended = 0, True
                else:
                    return "key", row
                row += 1
                if row == rows:
                    break
                # Ids ascend strictly wherever they change, so that no unit and no trajectory can
                # come back later in the batch: equal ids stand together, or the batch is refused.
                word = 0  # the first one in which the row differs from the row before
                while word < words and ids[row, word] == ids[row - 1, word]:
                    word += 1
                if word < words:
                    if ids[row, word] < ids[row - 1, word]:
                        return "order", row
                    break
                # Steps put the rows of a trajectory in order and do nothing else: gaps are
                # allowed, and discounting counts rows. Two rows with one step have no order.
                if steps[row] <= steps[row - 1]:
                    if steps[row] < steps[row - 1]:
                        return "order", row
                    if not dropping:
                        return "duplicate", row
                    invalid = True
                if ended:
                    if not dropping:
                        return "ended", row
                    invalid = True
            # A weight needs a key to count at; without weights, a trajectory without a key adds
            # 1 to m and nothing else.
            if weighted and distinct_keys == 0 and not invalid:
                if not dropping:
                    return "stateless", begins[trajectories]
                invalid = True
            distinct[trajectories] = distinct_keys
            trajectories += 1
        # No sensitivity depends on this check: limits count keys, whichever arm they are in
        # (docs/proofs/arms-and-actions.md). It keeps the meaning: a unit has one arm.
        if rules.arms > 1 and not invalid:
            arm = -1
            for at in range(begins[0], row):
                row_arm = keys[at] // keys_per_arm if keys[at] < len(counts) else arm  # or an end
                if arm >= 0 and row_arm != arm:
                    if not dropping:
                        return "arm", at
                    invalid = True
                arm = row_arm
        # Decided after all rows of the unit are read, and before any of them counts: a unit with
        # an invalid row contributes what an absent one does.
        if invalid:
            sums.units_dropped[0] += 1
            continue
        begins[trajectories] = row
        # The first L trajectories count, in the order of ids. Later ones are not scaled or
        # sampled: both could depend on how many there are, or on other units.
        within_limit = min(trajectories, rules.max_trajectories_per_person)
        sums.persons[0] += 1
        sums.trajectories[0] += within_limit
        sums.surplus_trajectories[0] += trajectories - within_limit
        for trajectory in range(within_limit):
            begin, end = begins[trajectory], begins[trajectory + 1]
            value, weight, most_level = 0.0, 1.0, 0
            if weighted:
                for at in range(end - 1, begin - 1, -1):
                    weight *= ratios[at]
                # 0 times an infinity is NaN, and would pass the clamps. x/x is 1 in doubles.
                weight = weight if weight >= 0 else 0.0
            for back in range(end - begin):
                t = np.uint64(end - 1 - back)  # what has no sign cannot count from an array's end
                reward = min(max(np.float64(rewards[t]), reward_low), reward_high)
                rewards_clamped += reward != rewards[t]
                value = reward + rules.discount * value
                # 0 <= steps <= 2^30 holds whatever rounding does: sensitivities rest on it, and so
                # does the sum of 2^33 of them, which has to fit into 63 bits.
                clamped = min(max(value, low), high)
                grid_steps = np.int64(min(np.floor((clamped - low) * scale + 0.5), top))
                # Branch-free, since first visits are hard to predict: other rows add 0. The key
                # is the one that was checked, even if the owner of the rows changes it now.
                entry = visits[t - np.uint64(start)]
                key, visit = entry >> 1, np.int64(entry & 1)
                returns_clamped += visit * (value != clamped)
                counts[key] += visit
                sums.return_steps[key] += visit * grid_steps
                if by_level and visit:
                    distance = abs(grid_steps - rules.centre_step)
                    # Branch-free bisection. The interval of the last level is the whole range
                    # (``Limits.smallest_radius``), so that no level is higher.
                    level = 8 * (distance > rules.smallest_radius << 7)
                    level += 4 * (distance > rules.smallest_radius << (level + 3))
                    level += 2 * (distance > rules.smallest_radius << (level + 1))
                    level += distance > rules.smallest_radius << level
                    cell = 2 * level + (grid_steps < rules.centre_step)
                    sums.level_counts[key, cell] += 1
                    sums.level_steps[key, cell] += grid_steps
                    most_level = level if level > most_level else most_level
                if weighted and visit:
                    sums.weights_clipped[0] += weight > rules.clip
                    j = np.int64(min(weight, rules.clip) / rules.clip * GRID_STEPS)
                    centred = grid_steps - GRID_STEPS // 2
                    size = j * abs(centred) // GRID_STEPS  # towards zero; below 2^59 before
                    sums.weight_steps[key] += j
                    sums.weighted_steps[key] += size if centred >= 0 else -size
            # A trajectory without a key has no return that counts, and so no level.
            sums.largest_levels[most_level] += distinct[trajectory] > 0
            sums.surplus_visits[0] += max(distinct[trajectory] - max_states, 0)
    sums.last_number[0] = number
    sums.rows[0] += rows
    sums.rewards_clamped[0] += rewards_clamped
    sums.returns_clamped[0] += returns_clamped
    return "", 0
