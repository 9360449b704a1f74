"""Read what a study says of each state: labels, groups, start, visits, weights and features.

Each comes from a side file, from the study file itself, or from a default. `read_tables` is the one
place that opens side files, and everything that it reads is public.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privalue.errors import StudyError
from privalue.study import _side_files as side_files
from privalue.study._sections import LARGEST, SMALLEST, Features, States, Values, Weights
from privalue.study._side_files import Matrix, SideFile

Vector: TypeAlias = NDArray[np.float64]
Opener: TypeAlias = Callable[[str, str], SideFile]


@dataclass(frozen=True, kw_only=True)
class StateNames:
    """Hold the states in order: their labels, or only how many there are."""

    count: int
    labels: tuple[str, ...] | None = None

    def label(self, at: int) -> str:
        """Return the label of the state at a position."""
        return str(at) if self.labels is None else self.labels[at]

    def position(self, label: str) -> int | None:
        """Return where a label stands, or None."""
        if self.labels is not None:
            return self.positions.get(label)
        plain = label.isascii() and label.isdigit() and str(int(label)) == label
        return int(label) if plain and int(label) < self.count else None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Map each label to its position; empty where states are only counted."""
        return {label: at for at, label in enumerate(self.labels or ())}


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Hold what is known of each state; arrays are read-only."""

    names: StateNames
    raw_labels: Mapping[str, int] | None  # raw label -> position; None: rows hold 0 .. N-1
    start: Vector | None
    visits: Vector | None
    weights: Vector
    matrix: Matrix | None
    files: tuple[SideFile, ...]


def read_tables(
    states: States, values: Values, weights: Weights, features: Features, folder: Path
) -> Tables:
    """Read every table that the sections name, side files from ``folder``."""
    files: list[SideFile] = []

    def opened(key: str, name: str) -> SideFile:
        files.append(side_files.open_side_file(key, name, folder))
        return files[-1]

    names = _names(states, opened)
    raw_labels = _raw_labels(states, names, opened)
    start = _start(values, names, opened)
    visits = _visits(states, names, opened)
    by_state = _weights(weights, names, opened)
    matrix = _matrix(features, names, opened)
    if matrix is not None and features.file is None:  # given in Python
        files.append(side_files.describe_matrix(matrix))
    return Tables(
        names=names,
        raw_labels=raw_labels,
        start=start,
        visits=visits,
        weights=by_state,
        matrix=matrix,
        files=tuple(files),
    )


def _names(states: States, opened: Opener) -> StateNames:
    if states.count is not None:
        return StateNames(count=states.count)
    if states.file is not None:
        labels = side_files.read_labels(opened("[states] file", states.file))
    else:
        labels = [str(label).strip() for label in states.labels or ()]
    if not labels or "" in labels:
        raise StudyError("[states] labels must be a list of at least one text, none empty")
    label, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise StudyError(f'[states] the label "{label}" stands {times} times; labels are unique')
    return StateNames(count=len(labels), labels=tuple(labels))


def _raw_labels(states: States, names: StateNames, opened: Opener) -> Mapping[str, int] | None:
    groups = states.groups
    if groups is None:
        return None if names.labels is None else names.positions
    if isinstance(groups, str):
        groups = dict(
            side_files.read_groups(
                opened("[states] groups", groups), lambda label: names.position(label) is not None
            )
        )
    positions: dict[str, int] = {}
    for raw, label in groups.items():
        at = names.position(str(label))
        if at is None:
            raise StudyError(
                f'[states] groups maps "{raw}" to "{label}", which is not a state of the study'
            )
        positions[str(raw)] = at
    if not positions:
        raise StudyError("[states] groups maps no raw label to any state")
    return positions


def _start(values: Values, names: StateNames, opened: Opener) -> Vector | None:
    start = values.start
    if start is None:
        return None
    if isinstance(start, str):
        start = side_files.read_numbers(opened("[values] start", start))
    distribution = side_files.by_state(
        "[values] start", start, names.position, names.count, absent=0.0
    )
    if not (np.isfinite(distribution) & (distribution >= 0)).all():
        raise StudyError("[values] start holds a probability that is negative or not finite")
    if abs(distribution.sum() - 1) > 1e-9:
        raise StudyError(
            f"[values] start sums to {distribution.sum():.12g}; probabilities sum to 1"
        )
    distribution.setflags(write=False)
    return distribution


def _visits(states: States, names: StateNames, opened: Opener) -> Vector | None:
    visits = states.visits
    if visits is None:
        return None
    if isinstance(visits, str):
        visits = side_files.read_numbers(opened("[states] visits", visits))
    prior = side_files.by_state(
        "[states] visits", visits, names.position, names.count, label=names.label
    )
    if not ((prior >= 0) & (prior <= 1)).all():
        raise StudyError("[states] visits holds a number that is not between 0 and 1")
    prior.setflags(write=False)
    return prior


def _weights(section: Weights, names: StateNames, opened: Opener) -> Vector:
    if section.file is not None:
        numbers = side_files.read_numbers(opened("[weights] file", section.file))
        weights = side_files.by_state(
            "[weights] file", numbers, names.position, names.count, label=names.label
        )
    elif section.values is not None:
        weights = np.array(section.values, dtype=np.float64)
    else:
        weights = np.ones(names.count)
    if len(weights) != names.count:
        raise StudyError(f"[weights] values has {len(weights)} numbers for {names.count} states")
    bad = ~((weights == 0) | ((weights >= SMALLEST) & (weights <= LARGEST)))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise StudyError(
            f'[weights] the weight of state "{names.label(at)}" is {weights[at]}; weights '
            f"are finite numbers of at least 0 (0, or {SMALLEST:g} to {LARGEST:g})"
        )
    if not weights.any():
        raise StudyError("[weights] every weight is 0; at least one must be above 0")
    weights.setflags(write=False)
    return weights


def _matrix(features: Features, names: StateNames, opened: Opener) -> Matrix | None:
    if features.size is not None and features.size > names.count:
        raise StudyError(f"[features] size = {features.size}: there are only {names.count} states")
    if features.file is not None:
        file = opened("[features] file", features.file)
        return side_files.read_matrix(file, names.position, names.count)
    if features.matrix is not None:
        return side_files.as_matrix("[features] matrix", features.matrix, names.count)
    return None
