"""Read recordings of environments: dicts of arrays as D4RL, d3rlpy and vector rollouts have them.

A recording has ``observations`` and ``rewards``, one for each transition, and marks that say where
an episode ends: ``terminals`` (``terminations``, ``dones``, ``episode_terminals``) and ``timeouts``
(``truncations``). Every transition is a row: the observation acted on, and the reward received.

Arrays of rollouts of n environments at once have the time first and the environment second, and
``autoreset`` says how these were reset: "same-step", or "next-step" as Gymnasium does since 1.0,
where the transition after an end only resets, and is no row.

**One episode and the next.** Where an episode ends is part of the episode: replacing one by another
leaves the others as they are. A mark that cannot be read would join two of them, or cut one in two.
So it is an end, and what ends there is invalid: whatever the marks of one episode are, at most one
part of it counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.readers import _cells as cells
from privalue.readers._chunks import BATCH_ROWS, Chunk, Location, Source
from privalue.readers._python_cells import as_arrow
from privalue.readers._rules import RowRules

PLACE = "the recording"
_ENDS = ("terminals", "terminations", "terminated", "dones", "episode_terminals")
_CUTS = ("timeouts", "truncations", "truncated")
_RESETS = {"samestep": False, "disabled": False, "nextstep": True}

Flags = NDArray[np.bool_]


def is_recording(data: Mapping[Any, Any]) -> bool:
    """Return whether a dict holds the transitions of an environment."""
    return {"observations", "rewards"} <= set(data)


def as_episodes(data: Any, rules: RowRules) -> Iterator[Any] | None:
    """Return the episodes of a d3rlpy dataset as lists of steps; None if the data is not one."""
    episodes = getattr(data, "episodes", None)
    if not isinstance(episodes, Sequence) or isinstance(data, Mapping):
        return None

    def steps(episode: Any) -> Any:
        observations = getattr(episode, "observations", None)
        rewards = np.ravel(getattr(episode, "rewards", ()))
        if observations is None or len(observations) != len(rewards):
            return None  # no episode: invalid
        found = list(zip(observations, rewards.tolist(), strict=True))
        if "truncated" not in rules.columns:
            return found
        cut = not getattr(episode, "terminated", True)
        return [(*step, cut and at == len(found) - 1) for at, step in enumerate(found)]

    return map(steps, episodes)


def open_recording(data: Mapping[str, Any], rules: RowRules) -> Source:
    """Return the transitions of a recording as rows, in order."""
    rules.require_no_person(f"{PLACE} names")
    if "arm" in rules.columns:
        raise DataError(
            f"{PLACE} has no column {rules.columns['arm']!r}, which the study names; give a table "
            "that has it"
        )
    rules.require_types([(rules.columns["step"], pa.int64())], PLACE)
    vector, dimensions, skips = _environments(data)
    rewards = _flat(_array(data["rewards"]), vector, "rewards")
    count = len(rewards)
    ended, unread = np.zeros((2, count), dtype=np.bool_)
    done = np.zeros(count, dtype=np.bool_)  # ended by itself, and not cut off
    for name in (*_ENDS, *_CUTS):
        if name in data:
            marks = _flat(_array(data[name]), vector, name)
            _require_length(name, marks, count)
            found = cells.flags(_column(marks))
            failed = found.failed()
            ended |= found.values
            done |= found.values & (name in _ENDS and name != "episode_terminals")
            unread |= False if failed is None else failed
    if not set(data) & {*_ENDS, *_CUTS}:
        raise DataError(
            f"{PLACE} does not say where an episode ends; give terminals or timeouts, one for each "
            "reward"
        )
    if unread.any() and not rules.drop_invalid:
        at = int(np.argmax(unread))
        raise DataError(
            f"{PLACE}, row {at + 1}: a mark of an end must be true, yes or 1, or false, no or 0"
        )
    last = np.zeros(count, dtype=np.bool_)  # of an environment, whose episode may go on
    if count:
        last[count // vector - 1 :: count // vector] = True
    kept = _transitions(ended | unread, last) if skips else np.ones(count, dtype=np.bool_)
    ends = (ended | unread | last)[kept]
    rows = np.flatnonzero(kept)
    number = np.cumsum(np.concatenate([[False], ends[:-1]])) if len(rows) else np.zeros(0, np.int64)
    begins = np.concatenate([[0], np.flatnonzero(ends[:-1]) + 1]) if len(rows) else np.zeros(0)
    step = np.arange(len(rows)) - begins.astype(np.int64)[number]
    given: dict[str, Any] = {
        **dict.fromkeys(rules.id_roles, number),
        "step": step,
        "reward": _invalid(rewards[rows], unread[rows]),
        "truncated": (ends & ~done[rows]),
        **{
            role: column[rows]
            for role, column in _states(data, rules, vector, dimensions, count).items()
        },
    }

    def chunks() -> Iterator[Chunk]:
        for start in range(0, len(rows), BATCH_ROWS):
            end = start + BATCH_ROWS
            arrays = [_column(given[role][start:end]) for role in rules.columns]
            yield Chunk(Location(PLACE, start + 1), pa.record_batch(arrays, names=rules.names))

    return Source(chunks, total_rows=len(rows), again=True, in_order=True)


def _environments(data: Mapping[str, Any]) -> tuple[int, int, bool]:
    """Return how many environments there are, over how many dimensions of arrays, and their resets.

    The last is whether rows that only reset are among the others.
    """
    shape, said = np.shape(data["rewards"]), data.get("autoreset")
    several = len(shape) == 2 and shape[1] > 1
    if said is None:
        if several:
            raise DataError(
                f"{PLACE} is of {shape[1]} environments and does not say how they were reset; give "
                'autoreset: "next-step", as Gymnasium does since 1.0, or "same-step"'
            )
        return 1, 1, False
    mode = str(getattr(said, "value", said)).lower().replace("-", "").replace("_", "")
    if mode not in _RESETS:
        raise DataError(f'autoreset = {said!r} is not known; it must be "next-step" or "same-step"')
    return max(shape[1], 1) if len(shape) == 2 else 1, len(shape), _RESETS[mode]


def _transitions(ended: Flags, last: Flags) -> Flags:
    """Return which rows are transitions: the one after an end only resets its environment."""
    kept = np.ones(len(ended), dtype=np.bool_)
    reset = False
    for at, (end, final) in enumerate(zip(ended.tolist(), last.tolist(), strict=True)):
        kept[at] = not reset
        reset = end and not reset and not final
    return kept


def _flat(values: NDArray[Any], environments: int, name: str) -> NDArray[Any]:
    """Return one value for each transition, those of an environment together."""
    if environments > 1:
        if values.ndim != 2 or values.shape[1] != environments:
            raise DataError(
                f"{PLACE}: {name} has the shape {values.shape}; it must be time x {environments} "
                "environments, as that of rewards"
            )
        return values.T.reshape(-1)
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1):
        raise DataError(f"{PLACE}: {name} has the shape {values.shape}; it must have one dimension")
    return values.reshape(-1)


def _require_length(name: str, values: Any, count: int) -> None:
    """Refuse an array that is not of one value for each reward."""
    if len(values) != count:
        raise DataError(
            f"{PLACE} has {count} rewards and {len(values)} of {name}; they go together"
        )


def _states(
    data: Mapping[str, Any], rules: RowRules, environments: int, dimensions: int, count: int
) -> dict[str, NDArray[Any]]:
    """Return the columns that states are made of: observations, or numbers of them."""
    observed, roles = data["observations"], rules.state_roles
    if isinstance(observed, Mapping):  # a space of several, each with its name
        absent = [rules.columns[role] for role in roles if rules.columns[role] not in observed]
        if absent:
            raise DataError(
                f"{PLACE} has no observation {absent[0]!r}; it has {', '.join(map(repr, observed))}"
            )
        found = {role: _array(observed[rules.columns[role]]) for role in roles}
    else:
        array = _array(observed)
        if rules.bins and array.ndim > dimensions:
            array = array.reshape(*array.shape[:dimensions], -1)
            found = numbers_of(array, rules)
        else:
            found = {roles[0]: array}
            if len(roles) > 1:
                raise DataError(
                    f"{PLACE} has one number for each observation, and the bins are of {len(roles)}"
                )
    columns = {role: _flat(one, environments, "observations") for role, one in found.items()}
    for column in columns.values():
        _require_length("observations", column, count)
    return columns


def numbers_of(array: NDArray[Any], rules: RowRules) -> dict[str, NDArray[Any]]:
    """Return the numbers of observations that the bins are of; they are the last dimension."""
    wanted, size = rules.observed, array.shape[-1]
    if wanted is None:
        if size != len(rules.bins):
            raise DataError(
                f"{PLACE} has {size} numbers for each observation, and the bins are of "
                f"{len(rules.bins)}; name columns observation_0, observation_1, ... to choose some"
            )
        wanted = list(range(size))
    if max(wanted) >= size:
        raise DataError(
            f"{PLACE} has no observation_{max(wanted)}: observations have {size} numbers"
        )
    return {role: array[..., at] for role, at in zip(rules.state_roles, wanted, strict=True)}


def _array(values: Any) -> NDArray[Any]:
    """Return values as an array; a list of cells as one of objects, so that each is as it was."""
    if isinstance(values, list | tuple) and not any(np.ndim(one) for one in values):
        cells_of = np.empty(len(values), dtype=object)
        cells_of[:] = values
        return cells_of
    return np.asarray(values)


def _invalid(rewards: NDArray[Any], where: Flags) -> NDArray[Any]:
    """Return rewards, with one that no row may have where the row is invalid."""
    if not where.any():
        return rewards
    kind = object if rewards.dtype.kind in "OUS" else np.float64
    changed = rewards.astype(kind)
    changed[where] = np.inf
    return changed


def _column(values: NDArray[Any]) -> pa.Array:
    """Return an array as Arrow; one of objects cell by cell."""
    if values.dtype.kind == "O":
        return as_arrow(values.tolist())
    try:
        return pa.array(values)
    except pa.ArrowException:  # Arrow has no such type
        return as_arrow(values.tolist())
