"""Compiled: rows to partitions, and the rows of a partition to trajectories.

A row is a few words of 32 bits, so that much fits into memory. Usually: a word for each lane of its
ids, one for its step and its state (step << shift | state), and two for its reward. Where these are
too large (``shift`` is -1): two words for each lane and for the step, one for the state, two for
the reward. Lower halves come first.
"""

import numpy as np

from privalue.core._kernels import kernel


@kernel(nogil=True, inline="always")
def _hash(record, width):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Of the first ``width`` numbers; zeros do not count, so that more lanes change nothing."""
    mixed = np.uint64(0)
    for lane in range(width):
        if record[lane] != 0:
            mixed ^= np.uint64(record[lane])
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return mixed


@kernel(nogil=True)
def choose(keys, hashed, which, sizes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """The partition of each row, by the upper half of the hash; how many are in each."""
    for row in range(len(keys)):
        upper = _hash(keys[row], hashed) >> np.uint64(32)
        partition = (upper * np.uint64(len(sizes))) >> np.uint64(32)
        which[row] = partition
        sizes[partition] += 1


@kernel(nogil=True)
def divide(keys, hashed, share):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """A second hash of each row, from bits of the first that choose no partition."""
    for row in range(len(keys)):
        share[row] = (_hash(keys[row], hashed) >> np.uint64(8)) & np.uint64(0xFFFF)


@kernel(nogil=True)
def scatter(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    keys, steps, states, rewards, shift, which, free, words
):
    """Rows, in their order, to where their partitions have room."""
    lanes = keys.shape[1]
    for row in range(len(keys)):
        at = free[which[row]]
        free[which[row]] = at + 1
        if shift >= 0:
            for lane in range(lanes):
                words[at, lane] = keys[row, lane]
            words[at, lanes] = (steps[row] << shift) | states[row]
        else:
            for lane in range(lanes + 1):
                number = steps[row] if lane == lanes else keys[row, lane]
                words[at, 2 * lane] = number
                words[at, 2 * lane + 1] = number >> 32
            words[at, -3] = states[row]
        words[at, -2] = rewards[row]
        words[at, -1] = rewards[row] >> 32


@kernel(nogil=True)
def group(words, width, which, firsts):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Numbers trajectories, told by the first ``width`` words: each row's, and their first rows."""
    table = np.full(1024, -1, dtype=np.int32)  # first rows, by open addressing, a quarter full
    last = np.uint64(1023)
    count = 0
    for row in range(len(words)):
        slot = _hash(words[row], width) & last
        while True:
            first = table[slot]
            lane = width if first < 0 else 0
            while lane < width and words[first, lane] == words[row, lane]:
                lane += 1
            if lane == width:
                break
            slot = (slot + np.uint64(1)) & last
        if first >= 0:
            which[row] = which[first]
            continue
        table[slot] = firsts[count] = row
        which[row] = count
        count += 1
        if 4 * count > len(table):
            last = np.uint64(4 * len(table) - 1)
            table = np.full(4 * len(table), -1, dtype=np.int32)
            for first in firsts[:count]:
                slot = _hash(words[first], width) & last
                while table[slot] >= 0:
                    slot = (slot + np.uint64(1)) & last
                table[slot] = first
    return count


@kernel(nogil=True, inline="always")
def _step_and_state(record, lanes, shift):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    if shift >= 0:
        return np.int64(record[lanes] >> shift), record[lanes] & ((1 << shift) - 1)
    return _joined(record[2 * lanes], record[2 * lanes + 1]), np.int64(record[-3])


@kernel(nogil=True)
def arrange(  # type: ignore[no-untyped-def]  # noqa: PLR0912  # pragma: no cover - compiled
    words, lanes, shift, which, count, steps, places, bits, twice_is, states, rewards
):
    """States and rewards by trajectory and step; whether a step stands twice in one.

    ``steps``, ``places`` and ``bits`` are room for what is in order of trajectories only. Unless
    it is negative, ``twice_is`` becomes the state of a row in a trajectory with a step twice.
    """
    starts = np.zeros(count + 1, dtype=np.int64)
    for row in range(len(words)):
        starts[which[row] + 1] += 1
    longest = starts.max()
    for trajectory in range(count):
        starts[trajectory + 1] += starts[trajectory]
    free = starts[:-1].copy()
    for row in range(len(words)):
        at = free[which[row]]
        free[which[row]] += 1
        steps[at], places[at] = _step_and_state(words[row], lanes, shift)
        bits[at] = _joined(words[row, -2], words[row, -1])
    order = np.empty(longest, dtype=np.int64)
    any_twice = False
    for trajectory in range(count):
        twice = False
        begin, end = starts[trajectory], starts[trajectory + 1]
        length = end - begin
        low = high = steps[begin]
        for at in range(begin, end):
            low, high = min(low, steps[at]), max(high, steps[at])
        if np.uint64(high) - np.uint64(low) == np.uint64(length - 1):
            order[:length] = begin - 1
            for at in range(begin, end):  # without gaps each step tells its own place
                twice |= order[steps[at] - low] >= begin
                order[steps[at] - low] = at
        else:
            for at in range(length):
                order[at] = begin + at
            _sort_by_step(order[:length], steps)
            for at in range(1, length):
                twice |= steps[order[at]] == steps[order[at - 1]]
        for at in range(begin, end):
            row = max(order[at - begin], begin)
            states[at] = places[row]
            rewards[at] = bits[row]
        if twice:
            any_twice = True
            if twice_is >= 0:
                states[begin] = twice_is
    return starts, any_twice


@kernel(nogil=True)
def _sort_by_step(order, steps):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Shell's sort, in place."""
    gap = 1
    while gap < len(order) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for last in range(gap, len(order)):
            moved, at = order[last], last
            while at >= gap and steps[order[at - gap]] > steps[moved]:
                order[at] = order[at - gap]
                at -= gap
            order[at] = moved
        gap //= 3


@kernel(nogil=True, inline="always")
def _joined(lower, upper):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """The number of 64 bits that has these halves."""
    return (np.int64(upper) << 32) | (np.int64(lower) & 0xFFFFFFFF)
