"""Read a policy in the forms that people have it in, as one table pi(a | s).

A label is compared as text: 3, ``np.int64(3)`` and "3" are one state.
"""

import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from privalue.core import Integers, Vector
from privalue.study.messages import refusal
from privalue.study.names import PairNames, StateNames, place_rows
from privalue.study.side_files import SideFiles

COLUMNS = ["state", "action", "probability"]
SUMS_TO_ONE = 1e-6  # how far the probabilities of a state may be from it: files are rounded

Labels = int | Sequence[Any]  # how many there are, called 0, 1, ...; or their labels in order
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

    What a table leaves out is never done. A mapping to one action names what is always done.

    Args:
        policy: an array of states by actions, nested lists, a frame (states as index, actions as
            columns; or columns state, action, probability), a mapping from each state to an action
            or to probabilities, a CSV or Parquet file of state, action, probability, a function of
            the state, or what ``privalue.improve`` returns.
        states: how many states there are, or their labels in order.
        actions: the same for actions.
        name: what the policy is called in messages.
        files: opens side files; from anywhere, if left out.
        ends: labels at which a trajectory ends: a table may name them, and no action counts there.
        idle: positions of states where no action matters: where nothing is said, all are as likely.

    Raises:
        StudyError: it has another form or shape, a label is unknown, or a row is no distribution.
    """
    pairs = PairNames(states=StateNames.of(states), actions=StateNames.of(actions))
    shape = (pairs.states.count, pairs.actions.count)
    entries = _entries(policy, pairs, name, files or SideFiles())
    if entries is None:
        table = _read_array(policy, shape, name)
    else:
        kept = [entry for entry in entries if str(entry[0]) not in ends]
        named = [(str(state), str(action)) for state, action, _ in kept]
        cells = [value if isinstance(value, Real) else np.nan for *_, value in kept]
        table = place_rows(name, named, np.array(cells, np.float64), pairs, absent=0.0)
    bad = ~((table >= 0) & (table <= 1 + SUMS_TO_ONE)).ravel()
    if bad.any():
        at = int(np.argmax(bad))
        raise refusal("policy-not-probabilities", name, pairs.label(at), table.ravel()[at])
    table = table.reshape(shape)
    silent = np.isin(np.arange(shape[0]), idle) & (table == 0).all(axis=1)
    table = np.where(silent[:, None], 1 / shape[1], table)
    sums = table.sum(axis=1)
    off = np.abs(sums - 1) > SUMS_TO_ONE
    if off.any():
        at = int(np.argmax(off))
        raise refusal("policy-sum", name, pairs.states.label(at), sums[at])
    table.setflags(write=False)
    return table


def read_policy(
    key: str, policy: Any, pairs: PairNames, files: SideFiles, ends: Sequence[str]
) -> Vector:
    """Return the probability of every pair of a study; refuse weight on one that is not allowed."""
    states, actions = pairs.states.names, pairs.actions.names
    table = policy_table(policy, states=states, actions=actions, name=key, files=files, ends=ends)
    outside = np.array(table).ravel()
    outside[pairs.codes] = 0.0
    if outside.any():
        state, action = divmod(int(np.argmax(outside)), pairs.actions.count)
        raise refusal("policy-not-allowed", key, pairs.actions.label(action), states[state])
    found = table.ravel()[pairs.codes]
    found.setflags(write=False)
    return np.asarray(found)


def describe_policy(written: Any, probabilities: Vector | None, pairs: PairNames | None) -> Any:
    """Return a policy by the labels of states and actions, without what is never done.

    Args:
        written: as the study has it; the name of a file, or "column", stays as it is.
        probabilities: of every pair.
        pairs: of the study.
    """
    if probabilities is None or pairs is None or isinstance(written, str | os.PathLike):
        return os.fspath(written)
    described: dict[str, dict[str, float]] = {}
    for at in np.flatnonzero(probabilities):
        state = pairs.states.label(int(pairs.state_of[at]))
        action = pairs.actions.label(int(pairs.action_of[at]))
        described.setdefault(state, {})[action] = float(probabilities[at])
    return described


def _entries(policy: Any, pairs: PairNames, name: str, files: SideFiles) -> list[Entry] | None:
    """Return (state, action, probability) of whatever has labels; None of an array."""
    if isinstance(policy, str | os.PathLike):
        labels, numbers = files.open(name, os.fspath(policy)).entries(2, 1)
        numbered = zip(labels, numbers.ravel(), strict=True)
        return [(state, action, number) for (state, action), number in numbered]
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
            entries += [(state, *one) for one in zip(actions.names, choice, strict=True)]
        else:
            what = f"has {len(choice)} numbers in state {state}, and actions are {actions.count}"
            raise refusal("policy-form", name, what)
    return entries


def _read_array(policy: Any, shape: tuple[int, int], name: str) -> Vector:
    try:
        table = np.array(policy, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal("policy-form", name, f"is of type {type(policy).__name__}") from None
    if table.shape != shape:
        what = f"has shape {table.shape}, and states by actions are {shape}"
        raise refusal("policy-form", name, what)
    return table
