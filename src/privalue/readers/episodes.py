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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.errors import DataError
from privalue.readers import cells
from privalue.readers.messages import data_error, one_line, word
from privalue.readers.source import (
    BATCH_ROWS,
    Batch,
    Dialect,
    Source,
    Task,
    Types,
    numbered,
    ready,
    state_roles,
    texts,
)

RECORDING = "the recording"
_ENDS = ("terminals", "terminations", "terminated", "dones")
_TRUNCATED = ("timeouts", "truncations", "truncated")
_CUTS = (*_TRUNCATED, "episode_terminals")
# The order in which an environment's ``step`` returns them.
_ENVIRONMENT = ["state", "action", "reward", "next state", "terminated", "truncated"]
_OF_STEPS = ("action", "reward", "probability", "arm", "truncated")

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
    place, names = recording or "the list", dialect.columns
    if recording is not None:
        absent = {"arm", "probability"} | ({"person"} if dialect.by_person else set())
        names = {role: name for role, name in names.items() if role not in absent}

    def tasks(_: Types) -> Iterator[Task]:
        gathered = _Gathered(place, dialect, episode_ids=recording is not None)
        for number, element in elements():
            is_episode = recording is not None or not _is_row(element, dialect)
            if is_episode != gathered.episode_ids or len(gathered.rows) >= BATCH_ROWS:
                yield from ready([gathered.batch()])
                first = gathered.first + len(gathered.rows)
                gathered = _Gathered(place, dialect, episode_ids=is_episode, first=first)
            gathered.add(element, number)
        yield from ready([gathered.batch()])

    schema = texts(names.values())
    return Source(schemas=((place, schema),), tasks=tasks, rereadable=rereadable)


@dataclass
class _Gathered:
    """The rows of some elements, all of them rows or all episodes."""

    place: str
    dialect: Dialect
    episode_ids: bool
    first: int = 1  # the number of the first row
    rows: list[_Row] = field(default_factory=list)
    problems: list[DataError] = field(default_factory=list)

    def add(self, element: Any, number: int) -> None:
        """Add the rows of an element, or the problem with it."""
        read = _episode if self.episode_ids else _row
        try:
            self.rows += read(element, number, self.dialect)
        except DataError as problem:
            self.problems.append(problem)
        except Exception:  # an object of any class, or a malformed step
            roles = ", ".join(_step_roles(self.dialect))
            self.problems.append(data_error("episode-unreadable", number=number, roles=roles))

    def batch(self) -> Batch:
        """Return the rows as a batch."""
        names = list(self.dialect.columns.values())
        columns = list(zip(*self.rows, strict=True)) or [() for _ in names]
        arrays = [cells.from_objects(column, self.dialect.decimal) for column in columns]
        return Batch(
            pa.record_batch(arrays, names=names),
            numbered(self.place, range(self.first, self.first + len(self.rows))),
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
        named = isinstance(element, Mapping)
        return named and (
            not is_recording(element) or any(name in element for name in dialect.columns.values())
        )
    except Exception:  # an object of any class: an episode that cannot be read
        return False


def _row(element: Mapping[str, Any], _: int, dialect: Dialect) -> list[_Row]:
    """Return the cells of a row; absent keys are missing cells."""
    return [tuple(map(element.get, dialect.columns.values()))]


# Episodes


def _step_roles(dialect: Dialect) -> list[str]:
    return ["state", *(role for role in _OF_STEPS if role in dialect.columns)]


def _episode(element: Any, number: int, dialect: Dialect) -> list[_Row]:
    """Return the rows of an episode; raise an error of any class if it is malformed."""
    if isinstance(element, DataError):
        raise element
    if dialect.by_person:
        raise data_error("episodes-without-person", column=dialect.columns["person"])
    steps = [_step(step, dialect) for step in _steps_of(element, dialect)]
    if not steps:
        raise ValueError(steps)
    rows, states = [], state_roles(dialect.columns)
    for at, step in enumerate(steps):
        observed = zip(states, _state_cells(step["state"], dialect), strict=True)
        named = {**step, **dict(observed), "person": number, "trajectory": number, "step": at}
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
    # A text is no number, and says in a message what is wrong.
    unlike = [f"an observation of {len(numbers)} numbers"] * len(roles)
    return numbers if len(numbers) == len(roles) else unlike


def _flatten(value: Any) -> list[Any]:
    """Return the cells of an observation, each unchanged: one array would convert some."""
    if isinstance(value, list | tuple):
        return [cell for one in value for cell in _flatten(one)]
    return list(np.ravel(value)) if getattr(value, "ndim", 0) > 0 else [value]


# Recordings


def transitions(get: Callable[[str], Any], dialect: Dialect) -> list[Sequence[Any]]:
    """Return the columns of a recording: states, actions if needed, and rewards."""
    names = {"state": "observations", "action": "actions", "reward": "rewards"}
    wanted = {*dialect.columns, "state", "reward"}  # a step always has these
    return [_listed(get(name)) for role, name in names.items() if role in wanted]


def _listed(values: Any) -> list[Any]:
    """Return the cells of a column; single numbers as Python values."""
    plain = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf"
    return values.tolist() if plain else list(values)


def require_truncated(place: str, dialect: Dialect) -> None:
    """Refuse a recording with truncated episodes if the study does not say how to treat them."""
    if "truncated" not in dialect.columns:
        raise data_error("truncated-rows-missing", place=place, ask=word("ask-truncated"))


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
        found = {name: cells.truths(cells.from_objects(_listed(data[name]))) for name in marks}
        lengths = {*map(len, columns), *(len(one.values) for one in found.values())}
    except (TypeError, ValueError, KeyError) as problem:
        raise data_error("unreadable", place=RECORDING, problem=one_line(problem)) from None
    if len(lengths) > 1:
        raise data_error("recording-uneven")
    ended, done, unread = np.zeros((3, *lengths), np.bool_)
    for name, one in found.items():
        ended |= one.values
        done |= one.values & (name in _ENDS)  # terminated, not truncated
        unread |= one.status != cells.OK
    ends = np.union1d(np.flatnonzero(ended | unread), np.arange(len(ended))[-1:])
    if "truncated" in dialect.columns:
        cut = np.zeros(len(ended), np.bool_)
        cut[ends] = ~done[ends]
        columns.append(cut.tolist())

    def elements() -> Iterator[tuple[int, Any]]:
        begin = 0
        for number, end in enumerate(ends.tolist()):
            some = slice(begin, end + 1)
            episode = list(zip(*(column[some] for column in columns), strict=True))
            yield number, data_error("mark-unreadable", row=end + 1) if unread[end] else episode
            begin = end + 1

    return open_elements(elements, dialect, recording=RECORDING)
