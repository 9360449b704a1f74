"""Compile the kernels that bring rows to partitions, and the rows of a partition to trajectories.

A row is packed into a few numbers of 32 bits, so that many rows fit into memory. Usually these are
one number for each word of its ids, one for its step and its state (step << shift | state), and two
for the bits of its reward. If ids or steps are too large for that, ``shift`` is -1, and a row has
two numbers for each word of its ids and for the step, one for the state, and two for the reward.
The lower half of a number of 64 bits comes first.
"""

import numpy as np

from privalue.core import kernel, unit_hash


@kernel(nogil=True)
def upper_hashes(ids, unit_words, upper):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the upper half of each row's ``unit_hash``, by which units belong to partitions."""
    for row in range(len(ids)):
        upper[row] = unit_hash(ids[row], unit_words) >> np.uint64(32)


@kernel(nogil=True)
def choose(upper, which, sizes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the partition of each row, and count the rows of each partition.

    Args:
        upper: the upper half of each row's hash.
        which: gets the partitions: the range of the hash is divided into equal spans.
        sizes: gets the counts, one for each partition.
    """
    for row in range(len(upper)):
        partition = (np.uint64(upper[row]) * np.uint64(len(sizes))) >> np.uint64(32)
        which[row] = partition
        sizes[partition] += 1


@kernel(nogil=True)
def scatter(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    ids, steps, states, rewards, shift, which, free, packed
):
    """Pack rows, in their order, each to the next free row of its partition.

    Args:
        ids: row x word, all ids of a row side by side.
        steps: one for each row.
        states: likewise.
        rewards: their bits, as int64.
        shift: how far a step is moved above its state, or -1; see above.
        which: the partition of each row.
        free: the next free row of each partition; it moves on.
        packed: gets the rows.
    """
    words = ids.shape[1]
    for row in range(len(ids)):
        at = free[which[row]]
        free[which[row]] = at + 1
        if shift >= 0:
            for word in range(words):
                packed[at, word] = ids[row, word]
            packed[at, words] = (steps[row] << shift) | states[row]
        else:
            for word in range(words + 1):
                number = steps[row] if word == words else ids[row, word]
                packed[at, 2 * word] = number
                packed[at, 2 * word + 1] = number >> 32
            packed[at, -3] = states[row]
        packed[at, -2] = rewards[row]
        packed[at, -1] = rewards[row] >> 32


@kernel(nogil=True)
def group(packed, width, which, firsts):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Number the trajectories of packed rows, and return how many there are.

    The hash only says where to look: ids are compared, so that equal hashes do no harm.

    Args:
        packed: the rows.
        width: how many numbers at the beginning of a row are its ids.
        which: gets the trajectory of each row.
        firsts: gets the first row of each trajectory.
    """
    table = np.full(1024, -1, dtype=np.int32)  # first rows, by open addressing, a quarter full
    last = np.uint64(1023)
    count = 0
    for row in range(len(packed)):
        slot = unit_hash(packed[row], width) & last
        while True:
            first = table[slot]
            at = width if first < 0 else 0
            while at < width and packed[first, at] == packed[row, at]:
                at += 1
            if at == width:
                break
            slot = (slot + np.uint64(1)) & last
        if first >= 0:
            which[row] = which[first]
            continue
        table[slot] = firsts[count] = row
        which[row] = count
        count += 1
        if 4 * count > len(table):  # a fuller table would make searches long
            last = np.uint64(4 * len(table) - 1)
            table = np.full(4 * len(table), -1, dtype=np.int32)
            for first in firsts[:count]:
                slot = unit_hash(packed[first], width) & last
                while table[slot] >= 0:
                    slot = (slot + np.uint64(1)) & last
                table[slot] = first
    return count


@kernel(nogil=True)
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


@kernel(nogil=True)
def arrange(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    packed, shift, which, ranks, order, unsorted, ids, steps, states, rewards
):
    """Unpack rows in the order of trajectories, and by step within a trajectory.

    Args:
        packed: the rows.
        shift: how they are packed; see above.
        which: the trajectory of each row.
        ranks: the position of each trajectory in the order of ids.
        order: gets, for each unpacked row, the packed row that it comes from.
        unsorted: room for the steps before they are sorted.
        ids: gets the ids, row x word.
        steps: gets the steps.
        states: gets the states.
        rewards: gets the bits of the rewards.
    """
    words = ids.shape[1]
    starts = np.zeros(len(ranks) + 1, dtype=np.int64)
    for row in range(len(packed)):
        starts[ranks[which[row]] + 1] += 1
    placed = np.empty(starts.max(), dtype=np.int32)
    for trajectory in range(len(ranks)):
        starts[trajectory + 1] += starts[trajectory]
    free = starts[:-1].copy()
    for row in range(len(packed)):
        trajectory = ranks[which[row]]
        at = free[trajectory]
        free[trajectory] = at + 1
        order[at] = row
        if shift >= 0:
            unsorted[at] = packed[row, words] >> shift
        else:
            unsorted[at] = _joined(packed[row, 2 * words], packed[row, 2 * words + 1])
    for trajectory in range(len(ranks)):
        _sort_by_step(starts[trajectory], starts[trajectory + 1], order, unsorted, steps, placed)
    for at in range(len(packed)):
        row = order[at]
        if shift >= 0:
            for word in range(words):
                ids[at, word] = packed[row, word]
            states[at] = packed[row, words] & ((1 << shift) - 1)
        else:
            for word in range(words):
                ids[at, word] = _joined(packed[row, 2 * word], packed[row, 2 * word + 1])
            states[at] = packed[row, -3]
        rewards[at] = _joined(packed[row, -2], packed[row, -1])


@kernel(nogil=True)
def _sort_by_step(begin, end, order, unsorted, steps, placed):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Sort the rows of a trajectory by their steps, which go to ``steps``.

    Args:
        begin: the trajectory's first row.
        end: the row after its last one.
        order: the packed rows, to be sorted.
        unsorted: their steps.
        steps: gets the sorted steps.
        placed: room for as many rows as the longest trajectory has.
    """
    low = high = unsorted[begin]
    for at in range(begin, end):
        low, high = min(low, unsorted[at]), max(high, unsorted[at])
    gaps = np.uint64(high) - np.uint64(low) != np.uint64(end - begin - 1)
    # Steps without gaps, the usual case, need no sort: each one says where its row goes.
    if not gaps:
        for at in range(end - begin):
            placed[at] = -1
        for at in range(begin, end):
            gaps |= placed[unsorted[at] - low] >= 0  # a duplicate leaves a gap elsewhere
            placed[unsorted[at] - low] = order[at]
    for at in range(begin, end):
        steps[at] = unsorted[at]
    if not gaps:
        for at in range(begin, end):
            order[at], steps[at] = placed[at - begin], low + (at - begin)
        return
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


@kernel(nogil=True, inline="always")
def _joined(lower, upper):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return the number of 64 bits that has these halves."""
    return (np.int64(upper) << 32) | (np.int64(lower) & 0xFFFFFFFF)
