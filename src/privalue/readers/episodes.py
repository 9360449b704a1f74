"""Read lists of episodes, and recordings of environments in the format of D4RL and d3rlpy.

An iterable is read element by element: a dict is a row, unless it has observations and rewards and
none of the study's columns; anything else is an episode. An episode is a list of steps. None of
these, nor a column of an episode, is an iterator, which would be empty if another element made a
second reading necessary. A step is a dict; or a tuple (state, reward), (state, action, reward) if
the study has actions, followed by the study's probability, arm and truncation mark if it has these;
or (state, action, reward), followed by any of next state, terminated, truncated. The id of an
episode is its position, marked so that it never equals an id of a row (``Batch.episode_ids``).

A recording is a dict with ``observations`` and ``rewards``, one for each transition, and marks of
the last transition of each episode: ``terminals`` (``terminations``, ``dones``,
``episode_terminals``) and ``timeouts`` (``truncations``). An unreadable mark could join two
episodes, or split one: it counts as an end, and its episode is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.errors import DataError, one_line
from privalue.readers import cells
from privalue.readers.messages import data_error
from privalue.readers.source import (
    BATCH_ROWS,
    Batch,
    Dialect,
    Source,
    Task,
    Types,
    as_tasks,
    locate_rows,
    state_roles,
    text_schema,
)

RECORDING = "the recording"
_TERMINALS = ("terminals", "terminations", "terminated", "dones")
_TIMEOUTS = ("timeouts", "truncations", "truncated")
# What an environment's ``step`` takes and returns, in this order.
_ENVIRONMENT_STEP = ["state", "action", "reward", "next state", "terminated", "truncated"]
_OPTIONAL_ROLES = ("action", "reward", "probability", "arm", "truncated")

_Row = tuple[Any, ...]
_Elements = Iterable[tuple[int, Any]]  # numbered; a DataError stands for an unreadable element


def open_elements(
    elements: Callable[[], _Elements],
    dialect: Dialect,
    *,
    recording: str | None = None,
    rereadable: bool = True,
) -> Source:
    """Return the rows of an iterable, whose elements are rows (dicts) or episodes.

    Args:
        elements: returns the numbered elements; can be called again if ``rereadable``.
        dialect: the part of the study that sources depend on.
        recording: the name of a recording, which has only episodes; None for an iterable.
        rereadable: whether the elements can be read more than once.
    """
    place, names = recording or "the list", dialect.columns
    if recording is not None:
        absent = {"arm", "probability"} | ({"person"} if dialect.by_person else set())
        names = {role: name for role, name in names.items() if role not in absent}

    def tasks(_: Types) -> Iterator[Task]:
        builder = _BatchBuilder(place, dialect, episode_ids=recording is not None)
        for number, element in elements():
            is_episode = recording is not None or not _is_row(element, dialect)
            if is_episode != builder.episode_ids or len(builder.rows) >= BATCH_ROWS:
                yield from as_tasks([builder.batch()])
                first = builder.first + len(builder.rows)
                builder = _BatchBuilder(place, dialect, episode_ids=is_episode, first=first)
            builder.add(element, number)
        yield from as_tasks([builder.batch()])

    schema = text_schema(names.values())
    return Source(schemas=((place, schema),), tasks=tasks, rereadable=rereadable)


@dataclass
class _BatchBuilder:
    """Collects the rows of a batch from elements that are all rows, or all episodes."""

    place: str
    dialect: Dialect
    episode_ids: bool
    first: int = 1  # the number of the first row
    rows: list[_Row] = field(default_factory=list)
    problems: list[DataError] = field(default_factory=list)

    def add(self, element: Any, number: int) -> None:
        """Add the rows of an element, or the reason why it has none."""
        read = _read_episode if self.episode_ids else _read_row
        try:
            self.rows += read(element, number, self.dialect)
        except DataError as problem:
            self.problems.append(problem)
        except Exception:  # an object of any class, or a malformed step
            roles = ", ".join(_step_roles(self.dialect))
            self.problems.append(data_error("episode-unreadable", number=number, roles=roles))

    def batch(self) -> Batch:
        """Return the batch of the rows so far."""
        names = list(self.dialect.columns.values())
        columns = list(zip(*self.rows, strict=True)) or [() for _ in names]
        arrays = [cells.from_objects(column, self.dialect.decimal) for column in columns]
        return Batch(
            pa.record_batch(arrays, names=names),
            locate_rows(self.place, range(self.first, self.first + len(self.rows))),
            left_out=len(self.problems),
            problem=self.problems[0] if self.problems else None,
            episode_ids=self.episode_ids,
        )


# Rows


def is_recording(data: Mapping[Any, Any]) -> bool:
    """Return whether a dict holds the transitions of an environment."""
    return {"observations", "rewards"} <= set(data)


def _is_row(element: Any, dialect: Dialect) -> bool:
    """Return whether an element is a row with its own ids."""
    try:
        return isinstance(element, Mapping) and (
            not is_recording(element) or any(name in element for name in dialect.columns.values())
        )
    except Exception:  # an object of any class counts as an episode that cannot be read
        return False


def _read_row(element: Mapping[str, Any], _: int, dialect: Dialect) -> list[_Row]:
    """Return the only row of an element; absent keys are missing cells."""
    return [tuple(map(element.get, dialect.columns.values()))]


# Episodes


def _step_roles(dialect: Dialect) -> list[str]:
    """Return what each step of an episode must have."""
    return ["state", *(role for role in _OPTIONAL_ROLES if role in dialect.columns)]


def _read_episode(element: Any, number: int, dialect: Dialect) -> list[_Row]:
    """Return the rows of an episode; raise an error of any class if it is malformed."""
    if isinstance(element, DataError):
        raise element
    if dialect.by_person:
        raise data_error("episodes-without-person", column=dialect.columns["person"])
    steps = [_read_step(step, dialect) for step in _steps_of(element, dialect)]
    if not steps:
        raise ValueError(steps)
    rows, states = [], state_roles(dialect.columns)
    for at, step in enumerate(steps):
        state = zip(states, _state_cells(step["state"], dialect), strict=True)
        by_role = {**step, **dict(state), "person": number, "trajectory": number, "step": at}
        rows.append(tuple(by_role[role] for role in dialect.columns))
    return rows


def _steps_of(element: Any, dialect: Dialect) -> Iterable[Any]:
    """Return the steps of an episode: a list, a recording of one episode, or a d3rlpy episode."""
    if not (isinstance(element, Mapping) or hasattr(element, "observations")):
        return _to_list(element)
    get = element.__getitem__ if isinstance(element, Mapping) else partial(getattr, element)
    columns = transitions(get, dialect)
    if "truncated" in dialect.columns:
        is_truncated, count = not get("terminated"), len(columns[-1])
        columns.append([is_truncated and at == count - 1 for at in range(count)])
    return zip(*columns, strict=True)


def _read_step(step: Any, dialect: Dialect) -> dict[str, Any]:
    """Return the cells of a step by role; raise ValueError if it is malformed."""
    if isinstance(step, Mapping):
        return {"state": step, **{role: step.get(name) for role, name in dialect.columns.items()}}
    if isinstance(step, str | bytes | Iterator):
        raise ValueError(step)
    values = tuple(step)
    # The reward keeps its position even if it is not read.
    roles = ["state", *(role for role in _OPTIONAL_ROLES if role in {*dialect.columns, "reward"})]
    if len(values) > len(roles):
        roles = _ENVIRONMENT_STEP if "truncated" in dialect.columns else _ENVIRONMENT_STEP[:-1]
    by_role = dict(zip(roles, values, strict=False))
    if len(values) > len(roles) or not by_role.keys() >= set(_step_roles(dialect)):
        raise ValueError(len(values))
    return by_role


# Observations


def _state_cells(state: Any, dialect: Dialect) -> Sequence[Any]:
    """Return the cells of the state's columns; a malformed state has invalid cells."""
    roles = state_roles(dialect.columns)
    if roles == ["state"]:
        return [state]
    try:
        if isinstance(state, Mapping):
            return [state.get(dialect.columns[role]) for role in roles]
        numbers = _flatten(state)
    except Exception:  # an object of any class: its methods may raise anything
        numbers = []
    if len(numbers) == len(roles):
        return numbers
    # The text is an invalid cell, which the message quotes.
    return [f"an observation of {len(numbers)} numbers"] * len(roles)


def _flatten(value: Any) -> list[Any]:
    """Return the cells of an observation, unchanged: an array of all would give them one type."""
    if isinstance(value, list | tuple):
        return [cell for part in value for cell in _flatten(part)]
    return list(np.ravel(value)) if getattr(value, "ndim", 0) > 0 else [value]


# Recordings


def transitions(get: Callable[[str], Any], dialect: Dialect) -> list[Sequence[Any]]:
    """Return the columns of a recording: states, actions if needed, and rewards."""
    names = {"state": "observations", "action": "actions", "reward": "rewards"}
    roles = {*dialect.columns, "state", "reward"}  # a step always has the latter two
    return [_to_list(get(name)) for role, name in names.items() if role in roles]


def _to_list(values: Any) -> list[Any]:
    """Return the elements of an episode or a column, numbers of NumPy as Python's."""
    if isinstance(values, Iterator):  # empty when it is read again
        raise ValueError("it has an iterator, which can be read only once")
    has_numbers = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
    return values.tolist() if has_numbers and values.ndim == 1 else list(values)


def require_truncated(place: str, dialect: Dialect) -> None:
    """Refuse a recording with truncated episodes unless the study says how to treat them."""
    if "truncated" not in dialect.columns:
        raise data_error("truncated-rows-missing", place=place)


def require_no_rewards_of_ends(dialect: Dialect) -> None:
    """Refuse a recording if the study gives rewards to ends: a recording has no rows for ends."""
    if dialect.ends_have_rewards:
        raise data_error("recording-without-final-rows")


def open_recording(data: Mapping[str, Any], dialect: Dialect) -> Source:
    """Return the transitions of a recording as rows."""
    require_no_rewards_of_ends(dialect)
    names = [name for name in (*_TERMINALS, *_TIMEOUTS, "episode_terminals") if name in data]
    if set(names) & {*_TIMEOUTS}:
        require_truncated(RECORDING, dialect)
    if not names:
        raise data_error("recording-without-ends")
    try:
        columns = transitions(data.__getitem__, dialect)
        marks = {name: cells.truths(cells.from_objects(_to_list(data[name]))) for name in names}
        lengths = {*map(len, columns), *(len(column.values) for column in marks.values())}
    except (TypeError, ValueError, KeyError) as problem:
        raise data_error("unreadable", place=RECORDING, problem=one_line(problem)) from None
    if len(lengths) > 1:
        raise data_error("recording-uneven")
    is_end, is_terminal, is_unreadable = np.zeros((3, *lengths), np.bool_)
    for name, column in marks.items():
        is_end |= column.values
        is_terminal |= column.values & (name in _TERMINALS)
        is_unreadable |= column.status != cells.OK
    ends = np.union1d(np.flatnonzero(is_end | is_unreadable), np.arange(len(is_end))[-1:])
    if "truncated" in dialect.columns:
        is_truncated = np.zeros(len(is_end), np.bool_)
        is_truncated[ends] = ~is_terminal[ends]
        columns.append(is_truncated.tolist())

    def elements() -> Iterator[tuple[int, Any]]:
        begin = 0
        for number, end in enumerate(ends.tolist()):
            rows = slice(begin, end + 1)
            episode = list(zip(*(column[rows] for column in columns), strict=True))
            problem = data_error("mark-unreadable", row=end + 1) if is_unreadable[end] else None
            yield number, problem or episode
            begin = end + 1

    return open_elements(elements, dialect, recording=RECORDING)
