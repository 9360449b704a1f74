"""Read what a study says of each state: labels, groups, start, visits, weights and features.

Each comes from a side file, from the study file itself, or from a default. `read_tables` is the
only function that opens side files, and everything that it reads is public.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privalue.core import Matrix, Vector, dense
from privalue.errors import StudyError
from privalue.study import _side_files as side_files
from privalue.study._arrays import UNCLEAR, labelled_rows, unclear
from privalue.study._bins import bin_labels
from privalue.study._places import Place
from privalue.study._sections import LARGEST, SMALLEST, Features, States, Values, Weights
from privalue.study._side_files import SideFile
from privalue.study._spreadsheets import of_cell

# Features that values are shrunk towards: each fit solves d x d systems of dense rows.
MOST_TARGETS, MOST_ENTRIES = 1_000, 4_000_000
ROUNDING = 1e-9  # of a feature's size: less is no difference between states
LEAST_SHARE = 0.03  # of the first component: what is smaller could hardly move a value
STANDS_OUT = 0.9  # the first component does, if the second is smaller than this


@dataclass(frozen=True, kw_only=True)
class StateNames:
    """The states in order: their labels, or only how many there are."""

    count: int
    labels: tuple[str, ...] | None = None

    def label(self, at: int) -> str:
        """Return the label of the state at a position."""
        return str(at) if self.labels is None else self.labels[at]

    def position(self, label: str) -> int | None:
        """Return the position of the state with this label, or None.

        A label may be as values.csv has it, with an apostrophe where it looks like a formula.
        """
        if self.labels is not None:
            at = self.positions.get(label)
            return self.positions.get(of_cell(label)) if at is None else at
        if not (len(label) <= 10 and label.isascii() and label.isdigit()):
            return None
        at = int(label)
        return at if str(at) == label and at < self.count else None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Return label -> position; empty if states are only counted."""
        return {label: at for at, label in enumerate(self.labels or ())}


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """What is known of each state; arrays are read-only."""

    names: StateNames
    raw_labels: Mapping[str, int] | None  # raw label -> position; None: rows hold 0 .. N-1
    start: Vector | None
    visits: Vector | None
    weights: Vector
    matrix: Matrix | None
    targets: Vector | None  # a basis of the features that values are shrunk towards
    files: tuple[SideFile, ...]


class _Files:
    """Opens side files, and remembers them for the description of the study."""

    def __init__(self, place: Place) -> None:
        self.place, self.opened = place, list[SideFile]()

    def open(self, key: str, name: str) -> SideFile:
        """Read the file that ``key`` names."""
        file = side_files.open_side_file(key, name, self.place)
        self.opened.append(file)
        return file


def read_tables(
    states: States, values: Values, weights: Weights, features: Features, place: Place
) -> Tables:
    """Read every table that the sections name.

    Args:
        states: ``[states]``.
        values: ``[values]``, for the start distribution.
        weights: ``[weights]``.
        features: ``[features]``.
        place: where side files are.

    Returns:
        The tables, checked.
    """
    files = _Files(place)
    names = _names(states, files)
    matrix = _matrix(features, names, files)
    return Tables(
        names=names,
        raw_labels=_raw_labels(states, names, files),
        start=_start(values, names, files),
        visits=_visits(states, names, files),
        weights=_weights(weights, names, files),
        matrix=matrix,
        targets=_targets(matrix, features.size or 1, names.count) if features.shrink else None,
        files=tuple(files.opened),  # last, because the lines above open them
    )


def _targets(matrix: Matrix | None, size: int, states: int) -> Vector:
    """Return what the features have in common: their components, the larger the likelier to matter.

    Features are taken in units of their own spread, so that theirs do not matter. A component is as
    large as the square of its share beside the first one. Where one stands out, it may be bent: its
    square is a column, half as large.
    """
    dimension = -(-states // size) if matrix is None else matrix.shape[1]
    if dimension > MOST_TARGETS or states * dimension > MOST_ENTRIES:
        raise StudyError(
            f"[features] shrink = true with {dimension} features of {states} states is too much "
            f"to compute; use at most {MOST_TARGETS:,} features, and {MOST_ENTRIES:,} numbers"
        )
    if matrix is None:
        phi = np.equal.outer(np.arange(states) // size, np.arange(dimension)).astype(np.float64)
    else:
        phi = dense(matrix)
    phi = phi / np.maximum(np.abs(phi).max(axis=0), np.finfo(float).tiny)
    spreads = phi.std(axis=0)
    phi = phi - phi.mean(axis=0)
    # A column that is the same everywhere, or nearly everywhere, says nothing. How far it is from
    # 0 does not count: degrees may be Kelvin.
    reach = np.minimum(np.abs(phi).max(axis=0), 1.0)
    apart = (reach > ROUNDING) & (spreads > LEAST_SHARE**2 * reach)
    phi = phi[:, apart] / spreads[apart]
    basis, sizes, _ = np.linalg.svd(phi, full_matrices=False)
    shares = sizes / sizes.max(initial=1.0)
    kept = shares > LEAST_SHARE
    made = basis[:, kept] * (np.sqrt(states) * np.square(shares[kept]))
    if len(shares) and shares[:2].sum() < 1 + STANDS_OUT:
        bent = np.square(made[:, :1])
        bent -= bent.mean()
        made = np.column_stack([made, 0.5 * bent / max(float(bent.std()), LEAST_SHARE)])
    made.setflags(write=False)
    return np.asarray(made)


def _names(states: States, files: _Files) -> StateNames:
    """Return the states; refuse labels that are empty or appear twice."""
    if states.count is not None:
        return StateNames(count=states.count)
    if states.bins is not None:
        made = bin_labels(states.bins)
        return StateNames(count=len(made), labels=made)
    if states.file is not None:
        labels = side_files.read_labels(files.open("[states] file", states.file))
    else:
        labels = [str(label).strip() for label in states.labels or ()]
    if not labels or "" in labels:
        raise StudyError("[states] labels must be a list of at least one text, none empty")
    label, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise StudyError(f'[states] the label "{label}" appears {times} times; labels are unique')
    return StateNames(count=len(labels), labels=tuple(labels))


def _raw_labels(states: States, names: StateNames, files: _Files) -> Mapping[str, int] | None:
    """Return raw label -> position, by the groups if there are any; None if rows hold numbers."""
    groups = states.groups
    if states.bins is not None:
        return None
    if groups is None:
        return None if names.labels is None else names.positions
    if isinstance(groups, str):
        file = files.open("[states] groups", groups)
        groups = dict(side_files.read_groups(file, lambda label: names.position(label) is not None))
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


def _by_state(
    key: str,
    given: str | Mapping[str, float] | Sequence[float],
    names: StateNames,
    files: _Files,
    *,
    absent: float | None = None,
) -> Vector:
    """Return numbers over states, given as a side file or as a table of labels.

    Args:
        key: the key of the study, for errors.
        given: the name of a file, the table itself, or numbers in the order of the states.
        names: the states.
        files: opens side files.
        absent: the number of states that the table omits; None: every state needs one.
    """
    if unclear(given, names.labels):
        raise StudyError(f"{key} {UNCLEAR}")
    if isinstance(given, str):
        given = side_files.read_numbers(files.open(key, given))
    if isinstance(given, Mapping):
        vector = side_files.by_state(
            key, given, names.position, names.count, absent=absent, label=names.label
        )
    else:
        vector = np.array(given, dtype=np.float64)
        if len(vector) != names.count:
            raise StudyError(f"{key} has {len(vector)} numbers for {names.count} states")
    vector.setflags(write=False)
    return vector


def _start(values: Values, names: StateNames, files: _Files) -> Vector | None:
    """Return the start distribution, or None; refuse what is not a distribution."""
    if values.start is None:
        return None
    start = _by_state("[values] start", values.start, names, files, absent=0.0)
    if not (np.isfinite(start) & (start >= 0)).all():
        raise StudyError("[values] start holds a probability that is negative or not finite")
    if abs(start.sum() - 1) > 1e-9:
        raise StudyError(f"[values] start sums to {start.sum():.12g}; probabilities sum to 1")
    return start


def _visits(states: States, names: StateNames, files: _Files) -> Vector | None:
    """Return the prior of visits, or None; refuse what is not a probability."""
    if states.visits is None:
        return None
    visits = _by_state("[states] visits", states.visits, names, files)
    if not ((visits >= 0) & (visits <= 1)).all():
        raise StudyError("[states] visits holds a number that is not between 0 and 1")
    return visits


def _weights(section: Weights, names: StateNames, files: _Files) -> Vector:
    """Return the weights; refuse negative or extreme ones, and weights that are all 0."""
    if section.file is not None:
        weights = _by_state("[weights] file", section.file, names, files)
    elif section.values is not None:
        weights = _by_state("[weights] values", section.values, names, files)
    else:
        weights = np.ones(names.count)
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


def _matrix(features: Features, names: StateNames, files: _Files) -> Matrix | None:
    """Return Phi if it is given as a matrix, or None."""
    if features.size is not None and features.size > names.count:
        raise StudyError(f"[features] size = {features.size}: there are only {names.count} states")
    if features.file is not None:
        file = files.open("[features] file", features.file)
        return side_files.read_matrix(file, names.position, names.count)
    if features.matrix is None:
        return None
    matrix = _in_order_of_states(features.matrix, names)
    files.opened.append(side_files.describe_matrix(matrix))
    return matrix


def _in_order_of_states(given: Any, names: StateNames) -> Matrix:
    """Return a matrix that was given in Python; rows with labels go where their states are."""
    key = "[features] matrix"
    if unclear(given, names.labels):
        raise StudyError(f"{key} {UNCLEAR}")
    labels, rows = labelled_rows(given)
    try:
        matrix = side_files.as_matrix(key, rows, names.count)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, StudyError):
            raise
        raise StudyError(f"{key} holds something that is not a number") from None
    if labels is None:
        return matrix
    rank = {label: float(at) for at, label in enumerate(labels)}
    if len(rank) < len(labels):
        raise StudyError(f"{key} has rows with the same label; each state has one row")
    order = side_files.by_state(key, rank, names.position, names.count, label=names.label)
    return side_files.as_matrix(key, dense(matrix)[order.astype(np.int64)], names.count)
