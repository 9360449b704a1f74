"""Turn transition tables, in the shapes that people write down, into outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privalue.errors import StudyError
from privalue.simulation._outcomes import END, Outcomes, distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privalue.core import Integers, Vector

    TransitionTable = NDArray[Any] | sparse.coo_array[Any, Any] | sparse.csr_array[Any, Any]


def outcomes_of(
    *,
    transitions: TransitionTable,
    rewards: TransitionTable,
    start: Vector,
    absorbing: Iterable[int] = (),
    terminal: Iterable[int] = (),
) -> Outcomes:
    """Return the outcomes of a transition table.

    Args:
        transitions: (N, A, N) or (N * A, N); ``MDP.tabular`` explains all of these.
        rewards: on states, on states and actions, or on transitions.
        start: distribution of the first state.
        absorbing: states that get one last row.
        terminal: states that get no row.

    Returns:
        The checked outcomes.

    Raises:
        StudyError: if a shape or a number is wrong, a state is listed as both, an absorbing state
            can be left, or a trajectory could start in a terminal state.
    """
    table = _as_rows(transitions, name="transitions")
    states = int(table.shape[1])
    actions = int(table.shape[0]) // states
    row, successor = (index.astype(np.int64) for index in table.coords)
    state = row // actions
    reward = _rewards_of(rewards, row, successor, states=states, actions=actions)
    last = _listed(absorbing, states=states, name="absorbing")
    ends = _listed(terminal, states=states, name="terminal")
    both = np.intersect1d(last, ends)
    if both.size:
        raise StudyError(
            f"state {both[0]} is listed as absorbing and as terminal; "
            "it gets either one last row or none"
        )
    left = np.isin(state, last) & (state != successor) & (table.data > 0)
    if left.any():
        raise StudyError(
            f"absorbing state {state[left][0]} can be left for state {successor[left][0]}; "
            "the transitions of an absorbing state must be loops"
        )
    if distribution(start, size=states, name="start")[ends].any():
        raise StudyError(
            "the start has a positive probability on a terminal state; "
            "such a trajectory would have no row at all"
        )
    # A terminal state is never occupied: its rows in the table mean nothing, and end at once.
    over = np.isin(state, last) | np.isin(state, ends) | np.isin(successor, ends)
    return Outcomes.collect(
        states=states,
        actions=actions,
        rows=row,
        probabilities=table.data,
        successors=np.where(over, END, successor),
        rewards=np.where(np.isin(state, ends), 0.0, reward),
    )


def _as_rows(table: TransitionTable, *, name: str) -> sparse.coo_array[Any, tuple[int, int]]:
    """Return the table with one row per state and action."""
    shape = table.shape
    fits = all(shape) and (
        (len(shape) == 3 and shape[0] == shape[2]) or (len(shape) == 2 and shape[0] % shape[1] == 0)
    )
    if not fits:
        raise StudyError(f"{name} has shape {shape}; it must be (N, A, N) or (N * A, N)")
    # NaN counts as non-zero, so it reaches the checks.
    array = sparse.coo_array(table.reshape((-1, shape[-1])), dtype=np.float64)
    array.sum_duplicates()
    return array


def _rewards_of(
    rewards: TransitionTable, row: Integers, successor: Integers, *, states: int, actions: int
) -> Vector:
    """Return the reward of each listed transition, from any of the allowed shapes.

    Args:
        rewards: on states, on states and actions, or on transitions.
        row: state * A + action of each transition.
        successor: the next state of each transition.
        states: N.
        actions: A.
    """
    if isinstance(rewards, np.ndarray):
        if rewards.shape == (states,):
            return rewards.astype(np.float64)[row // actions]
        if rewards.shape == (states, actions):
            return rewards.astype(np.float64).ravel()[row]
    if rewards.shape not in ((states, actions, states), (states * actions, states)):
        raise StudyError(
            f"rewards has shape {rewards.shape}; it must be ({states},) on states, "
            f"({states}, {actions}) on states and actions, or that of the transitions"
        )
    table = _as_rows(rewards, name="rewards").tocsr()
    return np.asarray(table[row, successor], dtype=np.float64).ravel()


def _listed(values: Iterable[int], *, states: int, name: str) -> Integers:
    """Return checked state numbers, each once, in order."""
    listed = np.unique(np.fromiter((int(value) for value in values), dtype=np.int64))
    wrong = listed[(listed < 0) | (listed >= states)]
    if wrong.size:
        raise StudyError(f"{name} lists state {wrong[0]}; states are 0 to {states - 1}")
    return listed
