"""Write policies to CSV files and read them: columns state, action, probability.

A world numbers its states and actions from 0. Pairs that a file leaves out have probability 0.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privalue.errors import UsageError
from privalue.ledger.files import whole_file
from privalue.simulation._policies import Policy

if TYPE_CHECKING:
    from privalue.simulation._worlds import World

HEADING = ["state", "action", "probability"]


def policy_of(world: World, policy: str | os.PathLike[str] | Policy) -> World:
    """Return the world under a policy, a name of one, or the path of a file that ends in .csv."""
    if isinstance(policy, Policy):
        return world.under(policy)
    text = os.fspath(policy)
    if not text.lower().endswith(".csv"):
        return world.under(text)
    mdp, _ = world.decisions
    return world.under(read_policy(text, states=mdp.states, actions=mdp.actions))


def read_policy(path: str | os.PathLike[str], *, states: int, actions: int) -> Policy:
    """Return the policy of a file: one line for each pair, with a heading or without.

    Raises:
        UsageError: if the file cannot be read, or a line is not state, action and probability.
        StudyError: if the probabilities of a state do not sum to one.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = [(number, line) for number, line in enumerate(csv.reader(file), 1) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read the policy {path}: {error}") from error
    if lines and [cell.strip().lower() for cell in lines[0][1][:3]] == HEADING:
        lines = lines[1:]
    table = np.zeros((states, actions))
    seen = np.zeros((states, actions), dtype=bool)
    for number, line in lines:
        try:
            state, action, probability = int(line[0]), int(line[1]), float(line[2])
        except (ValueError, IndexError):
            raise UsageError(
                f"{path}, line {number}: {','.join(line)!r}; it must be a state, an action and a "
                "probability, all numbers"
            ) from None
        if not (0 <= state < states and 0 <= action < actions):
            raise UsageError(
                f"{path}, line {number}: state {state}, action {action}; this world has states 0 "
                f"to {states - 1} and actions 0 to {actions - 1}"
            )
        if seen[state, action]:
            raise UsageError(f"{path}, line {number}: state {state}, action {action} a second time")
        table[state, action], seen[state, action] = probability, True
    return Policy(probabilities=table)


def write_policy(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write a policy, every pair with a probability above 0."""
    pairs = np.argwhere(policy.probabilities > 0).tolist()
    write_csv(path, HEADING, [(s, a, policy.probabilities[s, a]) for s, a in pairs])


def write_csv(
    path: str | os.PathLike[str], heading: list[str], rows: list[tuple[object, ...]]
) -> None:
    """Write a CSV file whole or not at all; numbers as the shortest texts that give them back."""
    with whole_file(Path(path)) as partial, partial.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows(
            [repr(float(cell)) if isinstance(cell, float) else cell for cell in row] for row in rows
        )
