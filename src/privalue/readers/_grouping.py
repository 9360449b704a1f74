"""Compile the kernels that bring rows to partitions, and the rows of a partition to trajectories.

A row is packed into a few numbers of 32 bits, so that many rows fit into memory:

| what             | numbers                                  | where that is not enough         |
|------------------|------------------------------------------|----------------------------------|
| each word of ids | 1: the word less ``base``                | 2 (``wide``)                     |
| step and state   | 1: the step, ``shift`` bits above the state | 2 and 1 (``shift`` is -1)     |
| probability      | none                                     | 2 (``logged``: rows have one)    |
| reward           | 1: a float of 32 bits (``single``)       | 2                                |

The lower half of a number of 64 bits comes first.
"""

import numpy as np

from privalue.core import jit, unit_hash


@jit(nogil=True)
def upper_hashes(ids, unit_words, upper):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the upper half of each row's ``unit_hash``: partitions are spans of it."""
    for row in range(len(ids)):
        upper[row] = unit_hash(ids[row], unit_words) >> np.uint64(32)


@jit(nogil=True)
def choose(ids, unit_words, which, sizes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the partition of each row, and count the rows of each partition.

    Args:
        ids: row x word, those of the unit first.
        unit_words: how many words these are.
        which: gets the partitions: the range of the hash is divided into equal spans.
        sizes: gets the counts, one for each partition.
    """
    for row in range(len(ids)):
        upper = unit_hash(ids[row], unit_words) >> np.uint64(32)
        partition = (upper * np.uint64(len(sizes))) >> np.uint64(32)
        which[row] = partition
        sizes[partition] += 1


@jit(nogil=True)
def are_single(numbers):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return whether all numbers are exact as floats of 32 bits."""
    for number in numbers:  # noqa: SIM110 - a generator does not compile
        if np.float64(np.float32(number)) != number:
            return False
    return True


@jit(nogil=True)
def scatter(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    ids, steps, states, rewards, probabilities, wide, base, shift, which, free, packed
):
    """Pack rows, in their order, each to the next free row of its partition.

    Args:
        ids: row x word, all ids of a row side by side.
        steps: one for each row.
        states: likewise.
        rewards: row x the one or two numbers that it is packed into.
        probabilities: likewise, or none at all.
        wide: how rows are packed; see above, like base and shift.
        base: what is taken off ids.
        shift: how far a step is moved above its state, or -1.
        which: the partition of each row.
        free: the next free row of each partition; it moves on.
        packed: gets the rows.
    """
    words, logged, single = ids.shape[1], len(probabilities) > 0, rewards.shape[1] == 1
    for row in range(len(ids)):
        at = free[which[row]]
        free[which[row]] = at + 1
        place = 0
        for word in range(words):
            number = ids[row, word] - base
            packed[at, place] = number
            place += 1
            if wide:
                packed[at, place] = number >> 32
                place += 1
        if shift >= 0:
            packed[at, place] = (steps[row] << shift) | states[row]
            place += 1
        else:
            packed[at, place] = steps[row]
            packed[at, place + 1] = steps[row] >> 32
            packed[at, place + 2] = states[row]
            place += 3
        if logged:
            packed[at, place] = probabilities[row, 0]
            packed[at, place + 1] = probabilities[row, 1]
            place += 2
        packed[at, place] = rewards[row, 0]
        if not single:
            packed[at, place + 1] = rewards[row, 1]


@jit(nogil=True, inline="always")
def _slot(packed, row, width, last):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return where to look for the ids of a row first: one multiplication spreads them enough."""
    mixed = np.uint64(0)
    for at in range(width):
        mixed = (mixed ^ np.uint64(packed[row, at])) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(32)) & last


@jit(nogil=True)
def group(packed, width, shift, which, firsts, sizes, lows, highs):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Number the trajectories of packed rows, and return how many there are.

    The hash only says where to look: ids are compared, so that equal hashes do no harm.

    Args:
        packed: the rows.
        width: how many numbers at the beginning of a row are its ids.
        shift: how steps are packed; see above.
        which: gets the trajectory of each row.
        firsts: gets the first row of each trajectory.
        sizes: gets how many rows each trajectory has.
        lows: gets the least step of each.
        highs: gets the largest.
    """
    table = np.full(1024, -1, dtype=np.int32)  # trajectories, by open addressing, a quarter full
    known = np.empty((256, width), dtype=np.int32)  # their ids: close together, as a cache likes it
    last = np.uint64(1023)
    count = 0
    for row in range(len(packed)):
        slot = _slot(packed, row, width, last)
        while True:
            trajectory = table[slot]
            at = width if trajectory < 0 else 0
            while at < width and known[trajectory, at] == packed[row, at]:
                at += 1
            if at == width:
                break
            slot = (slot + np.uint64(1)) & last
        step = _step(packed, row, width, shift)
        if trajectory >= 0:
            which[row] = trajectory
            sizes[trajectory] += 1
            lows[trajectory] = min(lows[trajectory], step)
            highs[trajectory] = max(highs[trajectory], step)
            continue
        known[count] = packed[row, :width]
        table[slot] = which[row] = count
        firsts[count], sizes[count] = row, 1
        lows[count] = highs[count] = step
        count += 1
        if count == len(known):  # a fuller table would make searches long
            more = np.empty((4 * count, width), dtype=np.int32)
            more[:count] = known
            known, last = more, np.uint64(4 * len(table) - 1)
            table = np.full(4 * len(table), -1, dtype=np.int32)
            for earlier in range(count):
                slot = _slot(known, earlier, width, last)
                while table[slot] >= 0:
                    slot = (slot + np.uint64(1)) & last
                table[slot] = earlier
    return count


@jit(nogil=True)
def rank(ids):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return the position of each id in the order of all ids.

    This is a radix sort: stable, by 11 bits at a time, from the lowest bits of the last word up.
    """
    count, words = ids.shape
    order, sorted_order = np.arange(count), np.empty(count, dtype=np.int64)
    for word in np.arange(words)[::-1]:
        low = np.uint64(ids[:, word].min())
        range_left = np.uint64(ids[:, word].max()) - low
        shift = np.uint64(0)
        while range_left > 0:
            places = np.zeros(2049, dtype=np.int64)
            for row in range(count):
                digit = np.int64(((np.uint64(ids[row, word]) - low) >> shift) & np.uint64(2047))
                places[digit + 1] += 1
            for before in range(2048):
                places[before + 1] += places[before]
            for row in order:
                digit = np.int64(((np.uint64(ids[row, word]) - low) >> shift) & np.uint64(2047))
                sorted_order[places[digit]] = row
                places[digit] += 1
            order, sorted_order = sorted_order, order
            range_left, shift = range_left >> np.uint64(11), shift + np.uint64(11)
    ranks = np.empty(count, dtype=np.int32)
    for at in range(count):
        ranks[order[at]] = at
    return ranks


@jit(nogil=True)
def arrange(  # type: ignore[no-untyped-def]  # noqa: PLR0912  # pragma: no cover - compiled
    packed, wide, base, shift, single, which, ranks, sizes, lows, highs,
    order, unsorted, ids, steps, states, rewards, probabilities,
):  # fmt: skip
    """Unpack rows in the order of trajectories, and by step within a trajectory.

    Args:
        packed: the rows.
        wide: how they are packed; see above, like base, shift and single.
        base: what was taken off ids.
        shift: how far a step was moved above its state, or -1.
        single: whether rewards are floats of 32 bits.
        which: the trajectory of each row.
        ranks: the position of each trajectory in the order of ids.
        sizes: how many rows each trajectory has.
        lows: the least step of each.
        highs: the largest.
        order: gets, for each unpacked row, the packed row that it comes from.
        unsorted: room for the steps before they are sorted.
        ids: gets the ids, row x word.
        steps: gets the steps; of 32 bits, if that is how they are packed.
        states: gets the states.
        rewards: gets the rewards; of 32 bits, if they are packed so.
        probabilities: gets the probabilities; empty where rows have none.
    """
    words, numbers = ids.shape[1], rewards.view(np.int32)  # one for each reward, or two
    after = words * (2 if wide else 1)  # where the step is
    rows, trajectories = len(packed), len(ranks)
    starts = np.zeros(trajectories + 1, dtype=np.int64)  # by rank
    begins = np.empty(trajectories, dtype=np.int64)
    dense = True
    for trajectory in range(trajectories):
        between = np.uint64(highs[trajectory]) - np.uint64(lows[trajectory])
        dense &= between == np.uint64(sizes[trajectory] - 1)
        starts[ranks[trajectory] + 1] = sizes[trajectory]
    for trajectory in range(trajectories):
        starts[trajectory + 1] += starts[trajectory]
    for trajectory in range(trajectories):
        begins[trajectory] = starts[ranks[trajectory]] - lows[trajectory]
    # Steps without gaps, the usual case, need no sort: each one says where its row goes.
    if dense:
        for at in range(rows):
            order[at] = -1
        for row in range(rows):
            step = _step(packed, row, after, shift)
            at = begins[which[row]] + step
            dense &= order[at] < 0  # a duplicate leaves a gap elsewhere
            order[at], steps[at] = row, step
    if not dense:
        _sort(packed, after, shift, which, ranks, starts, order, unsorted, steps)
    for at in range(rows):
        row = order[at]
        for word in range(words):
            if wide:
                ids[at, word] = _joined(packed[row, 2 * word], packed[row, 2 * word + 1])
            else:
                ids[at, word] = packed[row, word] + base
        if shift >= 0:
            states[at] = packed[row, after] & ((1 << shift) - 1)
        else:
            states[at] = packed[row, after + 2]
        if single:
            numbers[at] = packed[row, -1]
        else:
            numbers[2 * at], numbers[2 * at + 1] = packed[row, -2], packed[row, -1]
    # A loop of its own: without probabilities, one more branch in the loop above costs a fifth.
    chances, chance = probabilities.view(np.int64), after + (1 if shift >= 0 else 3)
    for at in range(len(chances)):
        chances[at] = _joined(packed[order[at], chance], packed[order[at], chance + 1])


@jit(nogil=True)
def _step(packed, row, after, shift):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return the step of a packed row."""
    if shift >= 0:
        return np.int64(packed[row, after] >> shift)
    return _joined(packed[row, after], packed[row, after + 1])


@jit(nogil=True)
def _sort(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    packed, after, shift, which, ranks, starts, order, unsorted, steps
):
    """Sort rows by trajectory and step, whatever steps there are; see ``arrange``."""
    free = starts[:-1].copy()
    for row in range(len(packed)):
        trajectory = ranks[which[row]]
        at = free[trajectory]
        free[trajectory] = at + 1
        order[at] = row
        unsorted[at] = _step(packed, row, after, shift)
    for at in range(len(packed)):
        steps[at] = unsorted[at]
    for trajectory in range(len(ranks)):
        begin, end = starts[trajectory], starts[trajectory + 1]
        gap = 1
        while gap < (end - begin) // 3:
            gap = 3 * gap + 1
        while gap > 0:  # Shell's sort: in place, and most trajectories are short
            for last in range(begin + gap, end):
                step, row, at = steps[last], order[last], last
                while at >= begin + gap and steps[at - gap] > step:
                    steps[at], order[at] = steps[at - gap], order[at - gap]
                    at -= gap
                steps[at], order[at] = step, row
            gap //= 3


@jit(nogil=True, inline="always")
def _joined(lower, upper):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return the number of 64 bits that has these halves."""
    return (np.int64(upper) << 32) | (np.int64(lower) & 0xFFFFFFFF)
