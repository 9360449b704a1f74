"""Read recordings of environments: dicts of arrays as D4RL, d3rlpy and vector rollouts have them.

A recording has ``observations`` and ``rewards``, one for each transition, and marks that say where
an episode ends: ``terminals`` (``terminations``, ``dones``, ``episode_terminals``) and ``timeouts``
(``truncations``). Every transition is a row: the observation acted on, and the reward received;
where the study has actions, the action taken, from ``actions``.

Arrays of rollouts of n environments at once have the time first and the environment second, and
``autoreset`` says how these were reset: "same-step", or "next-step" as Gymnasium does since 1.0,
where the transition after an end only resets, and is no row.

**One cell and the next.** Lists are read cell by cell. What their form is, is known from arrays and
from ``autoreset``: no cell of a list has a say in it, and one of another form is invalid by itself.

**One episode and the next.** Where an episode ends is part of the episode: replacing one by another
leaves the others as they are. A mark that cannot be read would join two of them, or cut one in two.
So it is an end, and what ends there is invalid: whatever the marks of one episode are, at most one
part of it counts. With "next-step" that is not enough: where two transitions in a row are ends, it
cannot be told which of them the episode's last one is, and so where the next episode begins. So
these are refused, and with ``invalid = "drop-unit"``, which may refuse nobody, is "next-step".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.readers import _cells as cells
from privalue.readers._chunks import BATCH_ROWS, Chunk, Location, Source
from privalue.readers._python_cells import as_arrow, flat, several
from privalue.readers._rules import NOTHING, RowRules

PLACE = "the recording"
_ENDS = ("terminals", "terminations", "terminated", "dones", "episode_terminals")
_CUTS = ("timeouts", "truncations", "truncated")
_RESETS = {"samestep": False, "disabled": False, "nextstep": True}

Flags = NDArray[np.bool_]


class _Form(NamedTuple):
    """What the arrays of a recording have in common."""

    steps: int  # of each environment
    environments: int
    by_environment: bool  # the environment is a dimension of its own, after the time
    resets: bool  # rows that only reset are among the others

    @property
    def rows(self) -> int:
        """Return how many transitions there are."""
        return self.steps * self.environments


def is_recording(data: Mapping[Any, Any]) -> bool:
    """Return whether a dict holds the transitions of an environment."""
    return {"observations", "rewards"} <= set(data)


def as_episodes(data: Any, rules: RowRules) -> Iterator[Any] | None:
    """Return the episodes of a d3rlpy dataset as lists of steps; None if the data is not one."""
    episodes = getattr(data, "episodes", None)
    if not isinstance(episodes, Sequence) or isinstance(data, Mapping):
        return None

    def steps(episode: Any) -> Any:
        try:
            actions = [flat(episode.actions)] if rules.actions else []
            columns = (episode.observations, *actions, flat(episode.rewards))
            found = list(zip(*columns, strict=True))
            cut = not getattr(episode, "terminated", True)
        except Exception:  # an object of any class, and no episode: invalid
            return None
        if "truncated" not in rules.columns:
            return found
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
    form = _form(data, rules)
    rewards, count = _flat(data["rewards"], form, "rewards", _single), form.rows
    ended, unread = np.zeros((2, count), dtype=np.bool_)
    done = np.zeros(count, dtype=np.bool_)  # ended by itself, and not cut off
    for name in (*_ENDS, *_CUTS):
        if name in data:
            found = cells.flags(_column(_flat(data[name], form, name, _mark)))
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
        last[form.steps - 1 :: form.steps] = True
    kept = _transitions(ended, last) if form.resets else np.ones(count, dtype=np.bool_)
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
        **{role: column[rows] for role, column in _states(data, rules, form).items()},
    }
    if rules.actions:
        if "actions" not in data:
            raise DataError(f"{PLACE} has no actions, and the study has; give actions")
        given["action"] = _flat(data["actions"], form, "actions", _single)[rows]

    def chunks() -> Iterator[Chunk]:
        for start in range(0, len(rows), BATCH_ROWS):
            end = start + BATCH_ROWS
            arrays = [_column(given[role][start:end]) for role in rules.columns]
            yield Chunk(Location(PLACE, start + 1), pa.record_batch(arrays, names=rules.names))

    return Source(chunks, total_rows=len(rows), again=True, in_order=True)


def _form(data: Mapping[str, Any], rules: RowRules) -> _Form:
    """Return the form of a recording, as its arrays and what it says of resets have it."""
    shape, said = _shape(data["rewards"]), data.get("autoreset")
    if shape == ():
        raise DataError(f"{PLACE}: rewards must be a list or an array")
    if said is None:
        marks = [_shape(data[name]) for name in (*_ENDS, *_CUTS) if name in data]
        beside = [one[1] for one in (shape, *marks) if one is not None and len(one) == 2]
        if max(beside, default=1) > 1 or any(one is not None and len(one) == 2 for one in marks):
            raise DataError(
                f"{PLACE} is of {max(beside)} environments and does not say how they were reset; "
                'give autoreset: "next-step", as Gymnasium does since 1.0, or "same-step"'
            )
        return _Form(len(data["rewards"]), 1, by_environment=False, resets=False)
    mode = str(getattr(said, "value", said)).lower().replace("-", "").replace("_", "")
    if mode not in _RESETS:
        raise DataError(f'autoreset = {said!r} is not known; it must be "next-step" or "same-step"')
    if shape is None:
        raise DataError(
            f"{PLACE}: with autoreset, rewards are one array of time x environments; give "
            "np.array(rewards)"
        )
    if _RESETS[mode] and rules.drop_invalid:
        raise DataError(
            f'{PLACE} is reset in the next step, and [data] invalid = "drop-unit" leaves out '
            "whoever is invalid; where one end follows another, nobody can know whose they are: "
            "give a list of episodes, or a table"
        )
    environments = max(shape[1], 1) if len(shape) == 2 else 1
    return _Form(shape[0], environments, by_environment=len(shape) == 2, resets=_RESETS[mode])


def _shape(values: Any) -> tuple[int, ...] | None:
    """Return the shape of an array; None of a list, whose cells may be anything."""
    return None if _is_list(values) else np.shape(values)


def _is_list(values: Any) -> bool:
    """Return whether values are read cell by cell: a list, or an array of objects."""
    objects = str(getattr(values, "dtype", None)) == "object"
    return isinstance(values, list | tuple) or (objects and np.ndim(values) == 1)


def _transitions(ended: Flags, last: Flags) -> Flags:
    """Return which rows are transitions: the one after an end only resets its environment."""
    resets = np.concatenate([[False], (ended & ~last)[:-1]])
    if (resets & ended).any():
        at = int(np.argmax(resets & ended))
        raise DataError(
            f"{PLACE}, row {at + 1}: an end comes right after an end, and with autoreset = "
            '"next-step" that row only resets; if it is a step, give autoreset = "same-step"'
        )
    return ~resets


def _flat(values: Any, form: _Form, name: str, cell: Callable[[Any], Any]) -> NDArray[Any]:
    """Return one value for each transition, those of an environment together.

    Args:
        values: an array, or a list.
        form: of the recording.
        name: what messages call the values.
        cell: makes a cell of what a list has in its place.
    """
    if _is_list(values):
        _require_length(name, values, form.steps)
        if not form.by_environment:
            return np.fromiter(map(cell, values), dtype=object, count=form.steps)
        each = [_of_each(one, form.environments, name) for one in values]
        cells_of = [cell(one[at]) for at in range(form.environments) for one in each]
        return np.fromiter(cells_of, dtype=object, count=form.rows)
    array = np.asarray(values)
    if form.environments > 1:
        if array.ndim != 2 or array.shape[1] != form.environments:
            raise DataError(
                f"{PLACE}: {name} has the shape {array.shape}; it must be time x "
                f"{form.environments} environments, as that of rewards"
            )
        array = array.T
    elif array.ndim not in {1, 2} or (array.ndim == 2 and array.shape[1] != 1):
        raise DataError(f"{PLACE}: {name} has the shape {array.shape}; it must have one dimension")
    _require_length(name, array.reshape(-1), form.rows)
    return array.reshape(-1)


def _of_each(values: Any, environments: int, name: str) -> Sequence[Any]:
    """Return what a list has for each environment at one time."""
    if several(values) and not isinstance(values, Mapping) and len(values) == environments:
        return list(values)
    if environments == 1:
        return [NOTHING if several(values) else values]
    raise DataError(
        f"{PLACE}: {name} must have {environments} at each time, one for each environment"
    )


def _single(value: Any) -> Any:
    """Return what a list has as a cell, by itself or in a list or array of its own."""
    if not several(value):
        return value
    try:
        (cell,) = flat(value)
    except Exception:  # of any length, or an object of any class
        return NOTHING
    return cell


def _mark(value: Any) -> Any:
    """Return a mark of an end; one that is of an environment beside others is none."""
    return NOTHING if several(value) else value


def _require_length(name: str, values: Any, count: int) -> None:
    """Refuse values that are not one for each reward."""
    if len(values) != count:
        raise DataError(
            f"{PLACE} has {count} rewards and {len(values)} of {name}; they go together"
        )


def _states(data: Mapping[str, Any], rules: RowRules, form: _Form) -> dict[str, NDArray[Any]]:
    """Return the columns that states are made of: observations, or numbers of them."""
    observed, roles = data["observations"], rules.state_roles
    if isinstance(observed, Mapping):  # a space of several, each with its name
        absent = [rules.columns[role] for role in roles if rules.columns[role] not in observed]
        if absent:
            raise DataError(
                f"{PLACE} has no observation {absent[0]!r}; it has {', '.join(map(repr, observed))}"
            )
        found = {role: observed[rules.columns[role]] for role in roles}
    elif _is_list(observed) and rules.bins:
        each = _flat(observed, form, "observations", lambda one: _numbers(one, rules)).tolist()
        return {
            role: np.fromiter((one[at] for one in each), dtype=object, count=len(each))
            for at, role in enumerate(roles)
        }
    elif _is_list(observed):
        found = {roles[0]: observed}
    else:
        array, dimensions = np.asarray(observed), 2 if form.by_environment else 1
        if rules.bins and array.ndim > dimensions:
            found = numbers_of(array.reshape(*array.shape[:dimensions], -1), rules)
        elif len(roles) > 1:
            raise DataError(
                f"{PLACE} has one number for each observation, and the bins are of {len(roles)}"
            )
        else:
            found = {roles[0]: array}
    return {role: _flat(one, form, "observations", _single) for role, one in found.items()}


def _numbers(observation: Any, rules: RowRules) -> tuple[Any, ...]:
    """Return the cells of an observation's bins; invalid ones for one that cannot be read."""
    try:
        return rules.state_cells(observation)
    except Exception:  # an object of any class: its methods may raise anything
        return (NOTHING,) * len(rules.bins)


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
