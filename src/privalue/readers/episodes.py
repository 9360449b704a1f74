"""Read episodes: lists of them, and recordings of environments as D4RL and d3rlpy have them.

An iterable is read element by element, each by itself: a dict is a row, unless it has observations
and rewards and none of the study's columns; anything else is an episode. An episode is a list of
steps, and a step is (state, reward), or (state, action, reward) where the study has actions, with
what the study's arm and mark of cuts are after it; or (state, action, reward), with or without next
state, terminated and truncated after it; or a dict. Episodes have positions for ids, which serve
nothing but to keep them apart: no row has such an id (``Batch.episode_ids``).

A recording is a dict of ``observations`` and ``rewards``, one for each transition, and of marks
that say where an episode ends: ``terminals`` (``terminations``, ``dones``, ``episode_terminals``)
and ``timeouts`` (``truncations``). Where an episode ends is part of the episode. A mark that cannot
be read would join two of them, or cut one in two: so it is an end, and what ends there is invalid.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.readers import cells
from privalue.readers.source import BATCH_ROWS, Batch, Dialect, Source, numbered, ready, texts
from privalue.readers.tables import as_arrow, open_columns

RECORDING = "the recording"
_NOTHING = object()  # a cell that is none, and so invalid
_ENDS = ("terminals", "terminations", "terminated", "dones")
_CUTS = ("timeouts", "truncations", "truncated", "episode_terminals")
_OF_STEPS = ("action", "reward", "probability", "arm", "truncated")
_OBSERVATION = re.compile(r"observation_(\d{1,6})")


# What an observation says of the columns that states are made of


def state_roles(dialect: Dialect) -> list[str]:
    """Return the roles of the columns that a state is read from."""
    return [role for role in dialect.columns if role == "state" or role.startswith("bin ")]


def observed(dialect: Dialect, size: int) -> list[int] | None:
    """Return which of an observation's numbers the bins are of; None if it has not got them.

    Bins of the columns ``observation_0``, ``observation_3`` are of those; bins of other columns are
    of as many numbers as there are columns, in their order.
    """
    names = [dialect.columns[role] for role in state_roles(dialect)]
    found = [_OBSERVATION.fullmatch(name) for name in names]
    wanted = [int(one[1]) for one in found if one]
    if len(wanted) < len(names):
        return list(range(size)) if size == len(names) else None
    return wanted if max(wanted) < size else None


def _state_cells(state: Any, dialect: Dialect) -> tuple[Any, ...]:
    """Return the cells of the state's columns; one of the wrong form has cells that are invalid."""
    roles = state_roles(dialect)
    if roles == ["state"]:
        return (state,)
    try:
        if isinstance(state, Mapping):
            return tuple(state.get(dialect.columns[role]) for role in roles)
        numbers = cells.flatten(state)
        wanted = observed(dialect, len(numbers))
    except Exception:  # an object of any class: its methods may raise anything
        wanted = None
    return (_NOTHING,) * len(roles) if wanted is None else tuple(numbers[at] for at in wanted)


def recorded_ids(dialect: Dialect) -> list[str]:
    """Return the roles that an episode's position is the id of; it names no person."""
    unnamed = {"person"} if dialect.by_person else set()
    return [role for role in ("person", "trajectory") if role in dialect.columns.keys() - unnamed]


# Elements


def is_recording(data: Mapping[Any, Any]) -> bool:
    """Return whether a dict holds the transitions of an environment."""
    return {"observations", "rewards"} <= set(data)


def open_elements(data: Iterable[Any], dialect: Dialect) -> Source:
    """Return the rows of the elements of an iterable."""
    names = list(dialect.columns.values())
    return Source(
        schemas=(("the list", texts(names)),),
        tasks=lambda _: ready(_elements(data, dialect)),
        rereadable=isinstance(data, Sequence),
    )


def _elements(data: Iterable[Any], dialect: Dialect) -> Iterator[Batch]:
    rows = _Gathered("the list of rows", dialect)
    steps = _Gathered("the list of episodes", dialect, episode_ids=True)
    for number, element in enumerate(data):
        if _is_row(element, dialect):
            yield from rows.add(_row(element, dialect), f"the list of rows, element {number},")
        else:
            yield from steps.add(_episode(element, number, dialect), f"episode {number}")
    yield from rows.flush()
    yield from steps.flush()


class _Gathered:
    """Rows of objects on their way to a batch."""

    def __init__(self, place: str, dialect: Dialect, *, episode_ids: bool = False) -> None:
        self._place, self._dialect, self._episode_ids = place, dialect, episode_ids
        self._rows: list[tuple[Any, ...]] = []
        self._first, self._left_out = 1, 0
        self._problem: str | None = None

    def add(self, rows: list[tuple[Any, ...]] | None, what: str) -> Iterator[Batch]:
        """Add the rows of an element; one that has none is left out."""
        if rows is None:
            self._left_out += 1
            self._problem = self._problem or self._complaint(what)
        else:
            self._rows += rows
        if len(self._rows) >= BATCH_ROWS:
            yield from self.flush()

    def flush(self) -> Iterator[Batch]:
        """Yield a batch of what there is."""
        if not self._rows and not self._left_out:
            return
        names = list(self._dialect.columns.values())
        columns = list(zip(*self._rows, strict=True)) or [() for _ in names]
        rows = pa.record_batch(
            [cells.from_objects(c, self._dialect.decimal) for c in columns], names=names
        )
        where = numbered(self._place, self._first)
        yield Batch(
            rows,
            where,
            left_out=self._left_out,
            problem=self._problem,
            episode_ids=self._episode_ids,
        )
        self._first, self._rows = self._first + len(self._rows), []
        self._left_out, self._problem = 0, None

    def _complaint(self, what: str) -> str:
        if not self._episode_ids:
            return f"{what} cannot be read as a dict of its columns"
        if self._dialect.by_person:
            return (
                'episodes name no person, and unit = "person" needs one; give a table with the '
                f"column {self._dialect.columns['person']!r}"
            )
        roles = _step_roles(self._dialect)
        more = " or (state, action, reward, ...)" if len(roles) == 2 else ""
        return (
            f"{what} (counted from 0) is not a list of at least one ({', '.join(roles)}){more}; "
            "rows of several people are a table, a dict of columns or a list of dicts"
        )


def _is_row(element: Any, dialect: Dialect) -> bool:
    """Return whether an element is a row that has ids of its own."""
    if type(element) is list:  # most are, and are told quickly
        return False
    try:
        named = isinstance(element, Mapping)
        return named and (
            not is_recording(element) or any(name in element for name in dialect.columns.values())
        )
    except Exception:  # an object of any class: an episode that cannot be read
        return False


def _row(element: Any, dialect: Dialect) -> list[tuple[Any, ...]] | None:
    """Return the cells of a row; one that it leaves out is missing."""
    try:
        return [tuple(element.get(name) for name in dialect.columns.values())]
    except Exception:  # an object of any class
        return None


def _step_roles(dialect: Dialect) -> list[str]:
    return ["state", *(role for role in _OF_STEPS if role in dialect.columns)]


def _episode(element: Any, number: int, dialect: Dialect) -> list[tuple[Any, ...]] | None:
    """Return the rows of an episode; None if it is none."""
    if dialect.by_person:
        return None
    try:
        found = [_step(step, dialect) for step in _steps_of(element, dialect)]
    except Exception:  # an object of any class, or of another length than it says
        return None
    if not found or None in found:
        return None
    ids = dict.fromkeys(recorded_ids(dialect), number)
    states, roles = state_roles(dialect), _step_roles(dialect)[1:]
    rows = []
    for at, step in enumerate(found):
        assert step is not None
        state, *others = step
        named = dict(zip(states, _state_cells(state, dialect), strict=True))
        named |= {**ids, "step": at, **dict(zip(roles, others, strict=True))}
        rows.append(tuple(named[role] for role in dialect.columns))
    return rows


def _steps_of(element: Any, dialect: Dialect) -> Iterable[Any]:
    """Return the steps of an episode: of a list, a recording of one, or a d3rlpy episode."""
    if isinstance(element, list | tuple):
        return element
    get = element.__getitem__ if isinstance(element, Mapping) else None
    if get is None and hasattr(element, "observations"):
        get = lambda name: getattr(element, name)  # noqa: E731
    if get is None:
        return list(element)
    columns = [get("observations")]
    columns += [cells.flatten(get("actions"))] if "action" in dialect.columns else []
    columns += [cells.flatten(get("rewards"))]
    if "truncated" in dialect.columns:
        cut, count = not get("terminated"), len(columns[-1])
        columns.append([cut and at == count - 1 for at in range(count)])
    return zip(*columns, strict=True)


def _step(step: Any, dialect: Dialect) -> tuple[Any, ...] | None:
    """Return what a step says of its roles, by its own form; None if it has none."""
    roles = _step_roles(dialect)
    if isinstance(step, Mapping):
        state = step if roles[0] not in dialect.columns else step.get(dialect.columns["state"])
        return (state, *(step.get(dialect.columns[role]) for role in roles[1:]))
    if isinstance(step, str | bytes):
        return None
    cells_of: tuple[Any, ...] = tuple(step)
    if len(cells_of) == len(roles):
        return cells_of
    # As an environment has them: state, action, reward, next state, terminated, truncated.
    counted = cells_of[:3] if "action" in dialect.columns else (cells_of[0], *cells_of[2:3])
    marks = roles[len(counted) :]
    if not marks and 3 <= len(cells_of) <= 6:
        return counted
    return (*counted, cells_of[5]) if marks == ["truncated"] and len(cells_of) == 6 else None


# Recordings


def open_recording(data: Mapping[str, Any], dialect: Dialect) -> Source:
    """Return the transitions of a recording as rows."""
    if "autoreset" in data:
        raise DataError(
            f"{RECORDING} is of environments that were reset side by side, which is not read; give "
            "a list of episodes, or a table"
        )
    rewards = _flat(data["rewards"], None, "rewards")
    count = len(rewards)
    ended, unread = np.zeros((2, count), np.bool_)
    done = np.zeros(count, np.bool_)  # ended by itself, and not cut off
    for name in (*_ENDS, *_CUTS):
        if name in data:
            found = cells.truths(_arrow(_flat(data[name], count, name)))
            ended |= found.values
            done |= found.values & (name in _ENDS)
            unread |= False if found.failed is None else found.failed
    if not set(data) & {*_ENDS, *_CUTS}:
        raise DataError(
            f"{RECORDING} does not say where an episode ends; give terminals or timeouts, one for "
            "each reward"
        )
    ends = ended | unread
    begins = np.concatenate([[True], ends[:-1]]) if count else ends
    number = np.cumsum(begins) - 1
    step = np.arange(count) - np.flatnonzero(begins)[number] if count else number
    ends[count - 1 :] = True
    columns = {role: _arrow(number) for role in recorded_ids(dialect)}
    columns |= {"step": _arrow(step), "reward": rewards, **_states(data, dialect, count)}
    columns["truncated"] = ends & ~done
    if "actions" in data:
        columns["action"] = _flat(data["actions"], count, "actions")
    named = {dialect.columns[role]: one for role, one in columns.items() if role in dialect.columns}
    problem = None
    if unread.any():
        problem = (
            f"{RECORDING}, row {int(np.argmax(unread)) + 1}: a mark of an end must be true, yes or "
            "1, or false, no or 0"
        )
    return open_columns(
        RECORDING,
        list(named),
        list(named.values()),
        dialect.decimal,
        unread,
        problem,
        episode_ids=True,
    )


def _is_list(values: Any) -> bool:
    """Return whether values are read cell by cell: a list, or an array of objects."""
    objects = str(getattr(values, "dtype", None)) == "object"
    return isinstance(values, list | tuple) or (objects and np.ndim(values) == 1)


def _flat(values: Any, count: int | None, name: str) -> Any:
    """Return one value for each transition, as an array or a list of cells."""
    if _is_list(values):
        found: Any = [_single(value) for value in values]
    else:
        found = np.asarray(values)
        if found.ndim == 2 and found.shape[1] == 1:
            found = found.reshape(-1)
        if found.ndim != 1:
            raise DataError(
                f"{RECORDING}: {name} has the shape {found.shape}; it must have one dimension: "
                "give what several environments did at once as a list of episodes"
            )
    if count is not None and len(found) != count:
        raise DataError(f"{RECORDING} has {count} rewards and {len(found)} of {name}")
    return found


def _single(value: Any) -> Any:
    """Return a cell, by itself or in a list or array of its own."""
    if not cells.is_array(value):
        return value
    try:
        (cell,) = cells.flatten(value)
    except Exception:  # of any length, or an object of any class
        return _NOTHING
    return cell


def _arrow(values: NDArray[Any] | list[Any]) -> pa.Array:
    return cells.from_objects(values) if isinstance(values, list) else as_arrow(values, ".")


def _states(data: Mapping[str, Any], dialect: Dialect, count: int) -> dict[str, Any]:
    """Return the columns that states are made of: observations, or numbers of them."""
    seen, roles = data["observations"], state_roles(dialect)
    if isinstance(seen, Mapping):  # a space of several, each with its name
        names = {role: dialect.columns[role] for role in roles}
        return {r: _flat(seen[name], count, name) for r, name in names.items() if name in seen}
    if roles == ["state"]:
        return {"state": _flat(seen, count, "observations")}
    if _is_list(seen):
        if len(seen) != count:
            raise DataError(f"{RECORDING} has {count} rewards and {len(seen)} of observations")
        each = [_state_cells(one, dialect) for one in seen]
        return {role: [one[at] for one in each] for at, role in enumerate(roles)}
    array = np.asarray(seen).reshape(len(seen), -1)
    wanted = observed(dialect, array.shape[1])
    if wanted is None:
        raise DataError(
            f"{RECORDING} has {array.shape[1]} numbers for each observation, and the bins are of "
            f"{len(roles)}; name columns observation_0, observation_1, ... to choose some"
        )
    columns = zip(roles, wanted, strict=True)
    return {role: _flat(array[:, at], count, "observations") for role, at in columns}
