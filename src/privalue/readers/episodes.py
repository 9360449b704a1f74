"""Read lists of episodes, and recordings of environments in the format of D4RL and d3rlpy.

An iterable is read element by element: a dict is a row, unless it has observations and rewards and
none of the study's columns; anything else is an episode. An episode is a list of steps. A step is a
dict; or a tuple (state, reward), (state, action, reward) if the study has actions, followed by the
study's probability, arm and truncation mark if it has these; or (state, action, reward), followed
by any of next state, terminated, truncated. The id of an episode is its position, marked so that it
never equals an id of a row (``Batch.episode_ids``).

A recording is a dict with ``observations`` and ``rewards``, one for each transition, and marks of
the ends of episodes: ``terminals`` (``terminations``, ``dones``, ``episode_terminals``) and
``timeouts`` (``truncations``). The last transition of an episode has the mark. An unreadable mark
could join two episodes, or split one: it counts as an end, and its episode is left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.errors import DataError
from privalue.readers import cells
from privalue.readers.messages import data_error, one_line, word
from privalue.readers.source import BATCH_ROWS, Batch, Dialect, Source, numbered, ready, texts

RECORDING = "the recording"
_NOTHING = object()  # a cell that is invalid in every role
_ENDS = ("terminals", "terminations", "terminated", "dones")
_TRUNCATED = ("timeouts", "truncations", "truncated")
_CUTS = (*_TRUNCATED, "episode_terminals")
# The order in which an environment's ``step`` returns them.
_ENVIRONMENT = ["state", "action", "reward", "next state", "terminated", "truncated"]
_OF_STEPS = ("action", "reward", "probability", "arm", "truncated")
_RECORDED = {"step", "action", "reward", "truncated"}
_OBSERVATION = re.compile(r"observation_(\d{1,6})")

_Row = tuple[Any, ...]
_Elements = Iterable[tuple[int, Any]]  # number and element; an unreadable one is a DataError


def open_elements(
    elements: Callable[[], _Elements],
    dialect: Dialect,
    *,
    recording: str | None = None,
    rereadable: bool = True,
) -> Source:
    """Return the rows of the elements of an iterable: rows that are dicts, and episodes.

    Args:
        elements: returns numbered elements; can be called again if ``rereadable``.
        dialect: the part of the study that sources know.
        recording: the name in messages of a recording, which has only episodes; None for a list.
        rereadable: whether the elements can be iterated more than once.
    """
    place, names = recording or "the list of episodes", dialect.columns
    if recording is not None:
        has = {*recorded_ids(dialect), *state_roles(dialect), *_RECORDED}
        names = {role: name for role, name in names.items() if role in has}

    def batches() -> Iterator[Batch]:
        rows = _Gathered("the list of rows", dialect)
        steps = _Gathered(place, dialect, episode_ids=True)
        for number, element in elements():
            if recording is None and _is_row(element, dialect):
                rows.add(_row(element, dialect), data_error("row-unreadable", number=number))
            elif isinstance(element, DataError):
                steps.add(None, element)
            else:
                steps.add(_episode(element, number, dialect), _no_episode(number, dialect))
            yield from (some.flush() for some in (rows, steps) if len(some.rows) >= BATCH_ROWS)
        yield from (some.flush() for some in (rows, steps) if some.rows or some.left_out)

    schema = texts(names.values())
    return Source(
        schemas=((place, schema),), tasks=lambda _: ready(batches()), rereadable=rereadable
    )


def _no_episode(number: int, dialect: Dialect) -> DataError:
    """Return the error of an element that is neither a row nor an episode."""
    if dialect.by_person:
        return data_error("episodes-without-person", column=dialect.columns["person"])
    roles = ", ".join(_step_roles(dialect))
    ask = "" if "truncated" in dialect.columns else f"; {word('ask-truncated')}"
    return data_error("episode-unreadable", number=number, roles=roles, ask=ask)


@dataclass
class _Gathered:
    """Rows of Python objects that are collected for a batch."""

    place: str
    dialect: Dialect
    episode_ids: bool = False
    rows: list[_Row] = field(default_factory=list)
    first: int = 1  # the number of the first row
    left_out: int = 0
    problem: DataError | None = None

    def add(self, rows: list[_Row] | None, problem: DataError) -> None:
        """Add the rows of an element; None counts as left out because of ``problem``."""
        if rows is None:
            self.left_out += 1
            self.problem = self.problem or problem
        else:
            self.rows += rows

    def flush(self) -> Batch:
        """Return the rows so far as a batch, and begin the next one."""
        names = list(self.dialect.columns.values())
        columns = list(zip(*self.rows, strict=True)) or [() for _ in names]
        arrays = [cells.from_objects(column, self.dialect.decimal) for column in columns]
        batch = Batch(
            pa.record_batch(arrays, names=names),
            numbered(self.place, self.first),
            left_out=self.left_out,
            problem=self.problem,
            episode_ids=self.episode_ids,
        )
        self.first += len(self.rows)
        self.rows, self.left_out, self.problem = [], 0, None
        return batch


# Rows


def is_recording(data: Mapping[Any, Any]) -> bool:
    """Return whether a dict holds the transitions of an environment."""
    return {"observations", "rewards"} <= set(data)


def _is_row(element: Any, dialect: Dialect) -> bool:
    """Return whether an element is a row with its own ids."""
    try:
        named = isinstance(element, Mapping)
        return named and (
            not is_recording(element) or any(name in element for name in dialect.columns.values())
        )
    except Exception:  # an object of any class: an episode that cannot be read
        return False


def _row(element: Any, dialect: Dialect) -> list[_Row] | None:
    """Return the cells of a row; absent keys are missing cells."""
    try:
        return [tuple(element.get(name) for name in dialect.columns.values())]
    except Exception:  # an object of any class
        return None


# Episodes


def state_roles(dialect: Dialect) -> list[str]:
    """Return the roles of the columns that a state is read from."""
    return [role for role in dialect.columns if role == "state" or role.startswith("bin ")]


def recorded_ids(dialect: Dialect) -> list[str]:
    """Return the id roles for which an episode's position is used; never a unit's person."""
    unnamed = {"person"} if dialect.by_person else set()
    return [role for role in ("person", "trajectory") if role in dialect.columns.keys() - unnamed]


def _step_roles(dialect: Dialect) -> list[str]:
    return ["state", *(role for role in _OF_STEPS if role in dialect.columns)]


def _episode(element: Any, number: int, dialect: Dialect) -> list[_Row] | None:
    """Return the rows of an episode; None if it is malformed."""
    if dialect.by_person:
        return None
    try:
        found = [_step(step, dialect) for step in _steps_of(element, dialect)]
    except Exception:  # an object of any class, or a malformed step
        return None
    if not found:
        return None
    ids, states = dict.fromkeys(recorded_ids(dialect), number), state_roles(dialect)
    rows = []
    for at, step in enumerate(found):
        observed = zip(states, _state_cells(step["state"], dialect), strict=True)
        named = {**step, **dict(observed), **ids, "step": at}
        rows.append(tuple(named[role] for role in dialect.columns))
    return rows


def _steps_of(element: Any, dialect: Dialect) -> Iterable[Any]:
    """Return the steps of an episode: a list, a recording of one episode, or a d3rlpy episode."""
    get: Callable[[str], Any]
    if isinstance(element, Mapping):
        get = element.__getitem__
    elif hasattr(element, "observations"):
        get = partial(getattr, element)
    else:
        return list(element)
    columns = transitions(get, dialect)
    if "truncated" in dialect.columns:
        cut, count = not get("terminated"), len(columns[-1])
        columns.append([cut and at == count - 1 for at in range(count)])
    return zip(*columns, strict=True)


def _step(step: Any, dialect: Dialect) -> dict[str, Any]:
    """Return the cells of a step by role; raise ValueError if it is malformed."""
    if isinstance(step, Mapping):
        named = {role: step.get(name) for role, name in dialect.columns.items()}
        return {"state": step, **named}
    if isinstance(step, str | bytes):
        raise ValueError(step)
    cells_of = tuple(step)
    # The reward keeps its position even if it is not read.
    places = ["state", *(role for role in _OF_STEPS if role in {*dialect.columns, "reward"})]
    if len(cells_of) > len(places):
        places = _ENVIRONMENT if "truncated" in dialect.columns else _ENVIRONMENT[:-1]
    named = dict(zip(places, cells_of, strict=False))
    if len(cells_of) > len(places) or not named.keys() >= set(_step_roles(dialect)):
        raise ValueError(len(cells_of))
    return named


# Observations


def _state_cells(state: Any, dialect: Dialect) -> _Row:
    """Return the cells of the state's columns; a malformed state has invalid cells."""
    roles = state_roles(dialect)
    if roles == ["state"]:
        return (state,)
    try:
        if isinstance(state, Mapping):
            return tuple(_single(state.get(dialect.columns[role])) for role in roles)
        numbers = _flatten(state)
        names = [dialect.columns[role] for role in roles]
        return tuple(numbers[at] for at in _places(names, len(numbers)))
    except Exception:  # an object of any class: its methods may raise anything
        return (_NOTHING,) * len(roles)


def _places(names: list[str], size: int) -> list[int]:
    """Return the positions of the binned columns in an observation.

    Columns named ``observation_0``, ``observation_3`` have positions 0 and 3; columns with other
    names are all numbers of the observation, in order.
    """
    found = [_OBSERVATION.fullmatch(name) for name in names]
    places = [int(one[1]) for one in found if one]
    if len(places) == len(names):
        return places
    if size != len(names):
        raise IndexError(size)
    return list(range(size))


def _flatten(value: Any) -> list[Any]:
    """Return the cells of an observation, each unchanged: one array would convert some."""
    if isinstance(value, list | tuple):
        return [cell for one in value for cell in _flatten(one)]
    return list(np.ravel(value)) if getattr(value, "ndim", 0) > 0 else [value]


def _single(value: Any) -> Any:
    """Return a cell, unwrapped if it is a list of one."""
    alone = type(value) in {list, tuple} and len(value) == 1
    return value[0] if alone else value


# Recordings


def transitions(get: Callable[[str], Any], dialect: Dialect) -> list[Sequence[Any]]:
    """Return the columns of a recording: states, actions if needed, and rewards."""
    seen: Any = get("observations")
    if isinstance(seen, Mapping):  # a dict space
        each = zip(*(_listed(column) for column in seen.values()), strict=True)
        seen = [dict(zip(seen, row, strict=True)) for row in each]
    elif state_roles(dialect) == ["state"]:
        seen = _listed(seen)
    others = {"action": "actions", "reward": "rewards"}
    wanted = {*dialect.columns, "reward"}  # a step always has a reward
    return [seen, *(_listed(get(others[role])) for role in others if role in wanted)]


def _listed(values: Any) -> list[Any]:
    """Return the cells of a column, as Python values."""
    plain = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
    return [_single(value) for value in (values.tolist() if plain else values)]


def require_truncated(place: str, dialect: Dialect) -> None:
    """Refuse a recording with truncated episodes if the study does not say how to treat them."""
    if "truncated" not in dialect.columns:
        ask = word("ask-truncated")
        raise data_error("truncated-rows-missing", place=place, ask=ask)


def require_no_rewards_of_ends(dialect: Dialect) -> None:
    """Refuse a recording if the study gives rewards to ends: a recording has no rows for ends."""
    if dialect.ends_have_rewards:
        raise data_error("recording-without-final-rows")


def open_recording(data: Mapping[str, Any], dialect: Dialect) -> Source:
    """Return the transitions of a recording as rows."""
    require_no_rewards_of_ends(dialect)
    marks = [name for name in (*_ENDS, *_CUTS) if name in data]
    if set(marks) & {*_TRUNCATED}:
        require_truncated(RECORDING, dialect)
    if not marks:
        raise data_error("recording-without-ends")
    try:
        columns = transitions(data.__getitem__, dialect)
        count = len(columns[-1])
        uneven = [
            len(one) for one in (*columns, *(data[name] for name in marks)) if len(one) != count
        ]
    except (TypeError, ValueError, KeyError) as problem:
        raise data_error("unreadable", place=RECORDING, problem=one_line(problem)) from None
    if uneven:
        raise data_error("recording-uneven", count=count, other=uneven[0])
    ended, done, unread = np.zeros((3, count), np.bool_)
    for name in marks:
        found = cells.truths(cells.from_objects(_listed(data[name])))
        ended |= found.values
        done |= found.values & (name in _ENDS)  # terminated, not truncated
        unread |= False if found.failed is None else found.failed
    ends = np.union1d(np.flatnonzero(ended | unread), np.arange(count)[-1:])
    if "truncated" in dialect.columns:
        cut = np.zeros(count, np.bool_)
        cut[ends] = ~done[ends]
        columns.append(cut.tolist())

    def elements() -> Iterator[tuple[int, Any]]:
        steps = zip(*columns, strict=True)
        lengths = np.diff(ends, prepend=-1).tolist()
        for number, (end, length) in enumerate(zip(ends.tolist(), lengths, strict=True)):
            episode = list(islice(steps, length))
            yield number, data_error("mark-unreadable", row=end + 1) if unread[end] else episode

    return open_elements(elements, dialect, recording=RECORDING)
