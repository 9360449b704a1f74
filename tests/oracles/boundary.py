"""The core's boundary, written out slowly, and mistakes planted in batches from readers."""

import math
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from privalue.core import Contributions, unit_hash


def literal(rows, limits):
    """What rows (ids, step, key, reward) contribute, in plain Python, whatever their order.

    An id is a tuple of words, of which zeros at the end do not count.
    """
    low, high = limits.return_bounds
    counts, sums = [0] * limits.keys, [0] * limits.keys
    names = (
        "trajectories persons surplus_trajectories surplus_visits returns_clamped units_dropped "
        "rewards_clamped"
    )
    scalars = dict.fromkeys(names.split(), 0)
    largest = [0] * limits.levels
    by_level = [[0] * limits.keys for _ in largest]  # the sums, clamped to each interval
    trimmed = [(tuple(map(_trim, ids)), *others) for ids, *others in rows]

    def unit_of(row):
        return row[0][:1] if (limits.unit == "person") else row[0]

    for _, rows_of_unit in groupby(sorted(trimmed), key=unit_of):
        unit = list(rows_of_unit)
        repeats = len({row[:2] for row in unit}) < len(unit)
        invalid = repeats or any(key == limits.keys for _, _, key, _ in unit)
        # A row after an end, of its own trajectory; an end is N + 1, and has no arm.
        invalid |= any(a[0] == b[0] and a[2] == limits.keys + 1 for a, b in pairwise(unit))
        invalid |= (
            len({row[2] // (limits.keys // limits.arms) for row in unit if row[2] < limits.keys})
            > 1
        )
        if limits.drop_invalid and invalid:
            scalars["units_dropped"] += 1
            continue
        trajectories = [list(own) for _, own in groupby(unit, key=lambda row: row[0])]
        scalars["persons"] += limits.unit == "person"
        scalars["surplus_trajectories"] += max(
            len(trajectories) - limits.max_trajectories_per_person, 0
        )
        for trajectory in trajectories[: limits.max_trajectories_per_person]:
            scalars["trajectories"] += 1
            keys = [key for _, _, key, _ in trajectory]
            distinct = [key for key in dict.fromkeys(keys) if key < limits.keys]
            scalars["surplus_visits"] += max(len(distinct) - limits.max_states_per_trajectory, 0)
            rewards = [min(max(r, limits.reward_bounds[0]), limits.reward_bounds[1])
                       for *_, r in trajectory]  # fmt: skip
            changed = sum(r != row[-1] for r, row in zip(rewards, trajectory, strict=True))
            scalars["rewards_clamped"] += changed
            level = 0
            for key in distinct[: limits.max_states_per_trajectory]:
                value = 0.0
                for reward in reversed(rewards[keys.index(key) :]):
                    value = reward + limits.discount * value
                inside = min(max(value, low), high)
                scalars["returns_clamped"] += value != inside
                counts[key] += 1
                grid = min(math.floor((inside - low) * (2**30 / (high - low)) + 0.5), 2**30)
                sums[key] += grid
                for j, total in enumerate(by_level):
                    a, b = limits.clamping_interval(j)
                    total[key] += min(max(grid, a), b)
                level = max(level, level_of(grid, limits))
            largest[level] += bool(distinct)
    return {
        "counts": counts,
        "return_steps": sums,
        "largest_levels": largest,
        "rows": len(rows),
        "clamped": by_level,
        **scalars,
    }


def level_of(grid, limits):
    """The first interval that holds a return."""
    return next(
        j for j in range(limits.levels) for a, b in [limits.clamping_interval(j)] if a <= grid <= b
    )


def _trim(words):
    words = list(words)
    while len(words) > 1 and words[-1] == 0:
        words.pop()
    return tuple(words)


def numbers_of(statistics, like):
    """The numbers of statistics that ``literal`` gives as well."""
    numbers = {name: np.asarray(getattr(statistics, name, 0)).tolist() for name in like}
    levels = range(len(like["largest_levels"]))
    numbers["clamped"] = [statistics.clamped_steps(level).tolist() for level in levels]
    return numbers


class Batch(NamedTuple):
    """A copy of a batch that a reader passes to the core."""

    ids: np.ndarray
    steps: np.ndarray
    keys: np.ndarray
    rewards: np.ndarray
    span: tuple[int, int] = (0, 2**32)

    def take(self, rows):
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields[:4]})

    def change(self, name, at, value):
        column = getattr(self, name).copy()
        column[at] = value
        return self._replace(**{name: column})


def recording(monkeypatch):
    """Copies of all batches that readers pass to the core from now on."""
    batches, add = [], Contributions.add

    def recorded(self, *columns, span=(0, 2**32)):
        add(self, *columns, span=span)
        if len(columns[1]):
            batches.append(Batch(*(column.copy() for column in columns), span))

    monkeypatch.setattr(Contributions, "add", recorded)
    return batches


def handed_over(batches, limits):
    """The statistics of batches, by the core alone."""
    contributions = Contributions(limits)
    for batch in batches:
        contributions.add(*batch[:4], span=batch.span)
    return contributions.finish()


def _longest(batches, limits):
    """A batch that has the unit with most rows, and the rows of that unit in it."""
    best = (0, 0, slice(0))
    for number, batch in enumerate(batches):
        for rows in _units(batch, limits):
            best = max(best, (rows.stop - rows.start, number, rows), key=lambda one: one[0])
    return best[1:]


def _units(batch, limits):
    ids = 1 if (limits.unit == "person") else batch.ids.shape[1]
    flat = batch.ids[:, :ids].reshape(len(batch.ids), -1)
    starts = [0, *(1 + np.flatnonzero((flat[1:] != flat[:-1]).any(axis=1))), len(flat)]
    return [slice(int(a), int(b)) for a, b in pairwise(starts)]


def _cut_in_two(batches, limits):
    number, rows = _longest(batches, limits)
    at, batch = rows.stop - 1, batches[number]
    return [*_with(batches, number, batch.take(slice(at))), batch.take(slice(at, None))]


def _twice(batches, limits):
    number, rows = _longest(batches, limits)
    return [*batches, batches[number].take(rows)]


def _out_of_order(batches, limits):
    number, rows = _longest(batches, limits)
    at = np.arange(len(batches[number].steps))
    at[[rows.start, rows.start + 1]] = at[[rows.start + 1, rows.start]]
    return _with(batches, number, batches[number].take(at))


def _with(batches, number, batch):
    return [*batches[:number], batch, *batches[number + 1 :]]


def _value(name, value):
    def plant(batches, limits):
        number, rows = _longest(batches, limits)
        planted_value = value(limits) if callable(value) else value
        return _with(batches, number, batches[number].change(name, rows.start, planted_value))

    return plant


def _shared(batches, limits):
    """A unit is in a batch of two partitions, of which only one can be its own."""
    number, rows = _longest(batches, limits)
    unit = batches[number].take(rows)
    low, high = unit.span
    halves = [(low, (low + high) // 2), ((low + high) // 2, high)]
    return [*batches[:number], *(unit._replace(span=half) for half in halves)]


def _wrong_span(batches, limits):
    number, rows = _longest(batches, limits)
    batch = batches[number]
    ids = 1 if (limits.unit == "person") else batch.ids.shape[1]
    row = batch.ids[rows.start, :ids].ravel()
    upper = int(unit_hash(row, len(row))) >> 32
    span = (0, upper) if upper else (1, 2**32)
    return _with(batches, number, batch._replace(span=span))


def _shorter(batches, limits):
    return _with(batches, 0, batches[0]._replace(rewards=batches[0].rewards[:-1]))


MISTAKES = {
    "a unit cut in two": (_cut_in_two, {"twice"}),
    "a unit handed over twice": (_twice, {"twice"}),
    "rows out of order": (_out_of_order, {"order"}),
    "a key of -1": (_value("keys", -1), {"key"}),
    "a key too large": (_value("keys", lambda limits: limits.keys + limits.drop_invalid), {"key"}),
    "a reward that is no number": (_value("rewards", math.nan), {"reward"}),
    "an infinite reward": (_value("rewards", math.inf), {"reward"}),
    "a reward of minus infinity": (_value("rewards", -math.inf), {"reward"}),
    "partitions that share a unit": (_shared, {"span"}),
    "a unit in a wrong partition": (_wrong_span, {"span"}),
    "columns of different lengths": (_shorter, {"length"}),
}
