"""Read a policy from arrays, frames, mappings, files or functions, as a table pi(a | s).

Labels are compared as texts: 3, ``np.int64(3)`` and "3" are the same state.
"""

import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from privalue.core import Integers, Vector
from privalue.study.messages import refusal
from privalue.study.names import PairNames, StateNames, order_rows, read_only
from privalue.study.side_files import SideFiles

COLUMNS = ["state", "action", "probability"]
SUM_TOLERANCE = 1e-6  # of the probabilities of a state: files are rounded

Labels = int | Sequence[Any]  # a number n for 0, 1, ..., n - 1; or the labels in order
Entry = tuple[Any, Any, Any]


def policy_table(
    policy: Any,
    *,
    states: Labels,
    actions: Labels,
    name: str = "policy",
    files: SideFiles | None = None,
    ends: Sequence[str] = (),
    idle: Sequence[int] | Integers = (),
) -> Vector:
    """Return pi(a | s), one row for each state, one column for each action; read-only.

    A pair that a table leaves out has probability 0. A mapping to one action is deterministic.

    Args:
        policy: an array of states by actions, nested lists, a frame (states as index, actions as
            columns; or columns state, action, probability), a mapping from each state to an action
            or to probabilities, a CSV or Parquet file of state, action, probability, a function of
            the state, or what ``privalue.improve`` returns.
        states: their number, or their labels in order.
        actions: likewise.
        name: of the policy, for messages.
        files: opens side files; from any folder, if left out.
        ends: labels that end a trajectory: a table may have rows for them, which are ignored.
        idle: positions of states where no action matters: uniform if the table has no row.

    Raises:
        StudyError: it has another form or shape, a label is unknown, or a row is not a
            distribution.
    """
    pairs = PairNames(states=StateNames.of(states), actions=StateNames.of(actions))
    shape = (pairs.states.count, pairs.actions.count)
    entries = _entries(policy, pairs, name, files or SideFiles())
    if entries is None:
        table = _read_array(policy, shape, name)
    else:
        rows = [entry for entry in entries if str(entry[0]) not in ends]
        labels = [(str(state), str(action)) for state, action, _ in rows]
        cells = [value if isinstance(value, Real) else np.nan for *_, value in rows]
        table = order_rows(name, labels, np.array(cells, np.float64), pairs, fill=0.0)
    invalid = ~((table >= 0) & (table <= 1 + SUM_TOLERANCE)).ravel()
    if invalid.any():
        first = int(np.argmax(invalid))
        raise refusal("policy-not-probabilities", name, pairs.label(first), table.ravel()[first])
    table = table.reshape(shape)
    is_uniform = np.isin(np.arange(shape[0]), idle) & (table == 0).all(axis=1)
    table = np.where(is_uniform[:, None], 1 / shape[1], table)
    sums = table.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise refusal("policy-sum", name, pairs.states.label(worst), sums[worst])
    return read_only(table)


def read_policy(
    key: str, policy: Any, pairs: PairNames, files: SideFiles, ends: Sequence[str]
) -> Vector:
    """Return the probability of every allowed pair; refuse weight on any other pair."""
    states, actions = pairs.states.names, pairs.actions.names
    table = policy_table(policy, states=states, actions=actions, name=key, files=files, ends=ends)
    outside = np.array(table).ravel()
    outside[pairs.codes] = 0.0
    if outside.any():
        state, action = divmod(int(np.argmax(outside)), pairs.actions.count)
        raise refusal("policy-not-allowed", key, pairs.actions.label(action), states[state])
    return read_only(np.asarray(table.ravel()[pairs.codes]))


def describe_policy(policy: Any, probabilities: Vector | None, pairs: PairNames | None) -> Any:
    """Return a policy by the labels of states and actions, without probabilities of 0.

    Args:
        policy: the value of the study's key; the name of a file, or "column", is returned as it is.
        probabilities: of every pair.
        pairs: of the study.
    """
    if probabilities is None or pairs is None or isinstance(policy, str | os.PathLike):
        return os.path.basename(policy)
    table: dict[str, dict[str, float]] = {}
    for at in np.flatnonzero(probabilities):
        state = pairs.states.label(int(pairs.state_of[at]))
        action = pairs.actions.label(int(pairs.action_of[at]))
        table.setdefault(state, {})[action] = float(probabilities[at])
    return table


def _entries(policy: Any, pairs: PairNames, name: str, files: SideFiles) -> list[Entry] | None:
    """Return (state, action, probability) for each entry with labels; None for an array."""
    if isinstance(policy, str | os.PathLike):
        labels, numbers = files.open(name, os.fspath(policy)).entries(2, 1)
        items = zip(labels, numbers.ravel(), strict=True)
        return [(state, action, number) for (state, action), number in items]
    if callable(policy):
        policy = {state: policy(state) for state in pairs.states.names}
    table = policy.to_arrow() if hasattr(policy, "to_arrow") else policy
    columns = getattr(table, "column_names", getattr(table, "columns", ()))
    if set(COLUMNS) <= set(map(str, columns)):
        cells = [np.asarray(table[column]).tolist() for column in COLUMNS]
        return list(zip(*cells, strict=True))
    if isinstance(policy, Mapping) or (hasattr(policy, "iloc") and not len(columns)):  # a Series
        rows = list(policy.items())
    elif hasattr(table, "iloc"):
        rows = list(zip(table.index, table.to_dict("records"), strict=True))
    elif len(columns):
        raise refusal("policy-form", name, f"has columns {', '.join(map(str, columns))}")
    else:
        return None
    actions = pairs.actions
    entries: list[Entry] = []
    for state, choice in rows:  # the choice: an action, or probabilities of actions
        if isinstance(choice, Mapping):
            entries += [(state, action, value) for action, value in choice.items()]
        elif np.ndim(choice) == 0:
            entries.append((state, choice, 1.0))
        elif len(choice) == actions.count:
            entries += [(state, *pair) for pair in zip(actions.names, choice, strict=True)]
        else:
            why = f"has {len(choice)} numbers in state {state}, and actions are {actions.count}"
            raise refusal("policy-form", name, why)
    return entries


def _read_array(policy: Any, shape: tuple[int, int], name: str) -> Vector:
    try:
        table = np.array(policy, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal("policy-form", name, f"is of type {type(policy).__name__}") from None
    if table.shape != shape:
        why = f"has shape {table.shape}, and states by actions are {shape}"
        raise refusal("policy-form", name, why)
    return table
