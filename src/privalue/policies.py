"""Read a policy in the forms that people have it in, as one table pi(a | s).

A label is compared as text: 3, ``np.int64(3)`` and "3" are one state.
"""

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.errors import StudyError

FORMS = (
    "a policy is an array of states by actions, nested lists, a DataFrame (states as index, "
    "actions as columns; or columns state, action, probability), a mapping from each state to an "
    "action or to probabilities, a CSV file of state, action, probability, or a function of the "
    "state"
)
COLUMNS = ("state", "action", "probability")
SUM_TOLERANCE = 1e-6  # files are rounded

Labels = int | Sequence[Any]  # how many there are, called 0, 1, ...; or their labels in order
Entry = tuple[Any, Any, Any]


def policy_table(
    policy: Any, *, states: Labels, actions: Labels, name: str = "policy"
) -> NDArray[np.float64]:
    """Return pi(a | s), one row for each state, one column for each action; read-only.

    Args:
        policy: in one of the ``FORMS``; also what ``privalue.improve`` returns.
        states: how many states there are, or their labels in order.
        actions: the same for actions.
        name: what the policy is called in messages.

    Raises:
        StudyError: if it has another form or shape, a label is unknown, or a row is no
            distribution.
    """
    state_labels, action_labels = _labels(states), _labels(actions)
    shape = (len(state_labels), len(action_labels))
    if isinstance(policy, str | os.PathLike):
        entries: Iterable[Entry] | None = _read_csv(Path(policy), name)
    else:
        entries = _entries(policy, state_labels, action_labels, name)
    if entries is None:
        table = _array(policy, shape, name)
    else:
        table = _fill(entries, state_labels, action_labels, name)
    wrong = np.argwhere(~((table >= 0) & (table <= 1 + SUM_TOLERANCE)))
    if wrong.size:
        state, action = wrong[0]
        raise _refusal(
            f"{name}: the probability of action {action_labels[action]} in state "
            f"{state_labels[state]} is {table[state, action]}; it must be from 0 to 1"
        )
    sums = table.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if off.size:
        raise _refusal(
            f"{name}: the probabilities in state {state_labels[off[0]]} sum to "
            f"{sums[off[0]]:.12g}; they must sum to 1"
        )
    table.flags.writeable = False
    return table


def _refusal(message: str) -> StudyError:
    return StudyError(message, code="policy")


def _labels(labels: Labels) -> Sequence[Any]:
    return range(labels) if isinstance(labels, int) else labels


def _read_csv(path: Path, name: str) -> list[Entry]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _refusal(f"{name}: cannot read {path}: {error}; {FORMS}") from error
    if lines and tuple(cell.strip().lower() for cell in lines[0][:3]) == COLUMNS:
        lines = lines[1:]
    for line in lines:
        if len(line) < len(COLUMNS):
            raise _refusal(
                f"{name}: {path} has the line {','.join(line)!r}; it must be state, action, "
                "probability"
            )
    return [(line[0].strip(), line[1].strip(), line[2]) for line in lines]


def _entries(
    policy: Any, states: Sequence[Any], actions: Sequence[Any], name: str
) -> list[Entry] | None:
    """Return (state, action, probability) of whatever has labels; None of an array."""
    if callable(policy):
        return _by_state(((state, policy(state)) for state in states), actions, name)
    if isinstance(policy, Mapping):
        if all(isinstance(key, tuple) and len(key) == 2 for key in policy):
            return [(*key, value) for key, value in policy.items()]
        return _by_state(policy.items(), actions, name)
    table = policy.to_arrow() if hasattr(policy, "to_arrow") else policy
    columns = getattr(table, "column_names", getattr(table, "columns", None))
    if columns is None:
        return None
    if set(COLUMNS) <= {str(column) for column in columns}:
        cells = [np.asarray(table[column]).tolist() for column in COLUMNS]
        return list(zip(*cells, strict=True))
    if not hasattr(table, "index"):
        raise _refusal(f"{name} has columns {', '.join(map(str, columns))}; {FORMS}")
    rows = zip(table.index, table.to_numpy().tolist(), strict=True)
    return [
        (state, action, value)
        for state, row in rows
        for action, value in zip(columns, row, strict=True)
    ]


def _by_state(rows: Iterable[tuple[Any, Any]], actions: Sequence[Any], name: str) -> list[Entry]:
    """Return the entries of a choice for each state: an action, or probabilities of actions."""
    entries: list[Entry] = []
    for state, choice in rows:
        if isinstance(choice, Mapping):
            entries += [(state, action, value) for action, value in choice.items()]
        elif isinstance(choice, str) or np.ndim(choice) == 0:
            entries.append((state, choice, 1.0))
        elif len(choice) == len(actions):
            entries += [(state, *pair) for pair in zip(actions, choice, strict=True)]
        else:
            raise _refusal(
                f"{name} has {len(choice)} probabilities in state {state}, and there are "
                f"{len(actions)} actions; {FORMS}"
            )
    return entries


def _fill(
    entries: Iterable[Entry], states: Sequence[Any], actions: Sequence[Any], name: str
) -> NDArray[np.float64]:
    places: list[dict[str, int]] = [
        {str(label): place for place, label in enumerate(labels)} for labels in (states, actions)
    ]
    table = np.full((len(states), len(actions)), np.nan)
    for state, action, value in entries:
        pair = []
        for kind, label, known in zip(COLUMNS, (state, action), places, strict=False):
            if str(label) not in known:
                first = ", ".join(list(known)[:6])
                raise _refusal(f"{name}: there is no {kind} {label!r}; there are {first}, ...")
            pair.append(known[str(label)])
        if not np.isnan(table[*pair]):
            raise _refusal(f"{name} gives state {state}, action {action} twice; give it once")
        table[*pair] = _number(value, name)
    return np.where(np.isnan(table), 0.0, table)


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number):
        raise _refusal(f"{name}: {value!r} is not a probability; {FORMS}")
    return number


def _array(policy: Any, shape: tuple[int, int], name: str) -> NDArray[np.float64]:
    try:
        table = np.array(policy, dtype=np.float64)
    except (TypeError, ValueError):
        raise _refusal(f"{name} is {type(policy).__name__}; {FORMS}") from None
    if table.shape != shape:
        raise _refusal(
            f"{name} has shape {table.shape}; it must be {shape}, states by actions; {FORMS}"
        )
    return table
