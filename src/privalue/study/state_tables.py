"""Read what a study says of each state: labels, groups, start, visits, weights, features, policies.

Each comes from a side file, from the study file itself, or from a default; ``read_tables`` is the
only function that opens side files. Tables go by label; with actions, visits, features and policies
are of pairs of a state and an action, and go by two labels. Pairs are state-major: all actions of
the first state, then those of the next; pairs that are not allowed have no number.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from privalue.core import Integers, Matrix, Vector, dense
from privalue.errors import StudyError
from privalue.study.bins import bin_labels
from privalue.study.sections import LARGEST, MOST_STATES, SMALLEST
from privalue.study.side_files import SideFile, SideFiles, hash_matrix, to_matrix
from privalue.study.spreadsheets import of_cell

if TYPE_CHECKING:
    from privalue.study.study import Study

# Features that values are shrunk towards: each fit solves d x d systems of dense rows.
MOST_TARGETS, MOST_ENTRIES = 1_000, 4_000_000
ROUNDING = 1e-9  # of a feature's size: less is no difference between states
LEAST_SHARE = 0.03  # components below this share of the largest singular value are dropped
SUMS_TO_ONE = 1e-6  # how far the probabilities of a state may be from it: files are rounded
STANDS_OUT = 0.9  # the first component does, if the second is smaller than this


@dataclass(frozen=True, kw_only=True)
class StateNames:
    """The states (or actions) in order: their labels, or only how many there are."""

    count: int
    labels: tuple[str, ...] | None = None

    what: ClassVar[str] = "state"
    columns: ClassVar[int] = 1  # that name one, in a table

    def label(self, at: int) -> str:
        """Return the label of the state at a position."""
        return str(at) if self.labels is None else self.labels[at]

    def find(self, label: tuple[str, ...]) -> int | None:
        """Return the position of the state with this label, or None.

        A label may be as values.csv has it, with an apostrophe where it looks like a formula.
        """
        (text,) = label
        if self.labels is not None:
            at = self.positions.get(text)
            return self.positions.get(of_cell(text)) if at is None else at
        if not (len(text) <= 10 and text.isascii() and text.isdigit()):
            return None
        at = int(text)
        return at if str(at) == text and at < self.count else None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Return label -> position; empty if states are only counted."""
        return {label: at for at, label in enumerate(self.labels or ())}

    @property
    def names(self) -> tuple[str, ...] | range:
        """Return the labels, or a range of numbers in their place: there may be very many."""
        return range(self.count) if self.labels is None else self.labels


@dataclass(frozen=True, kw_only=True, eq=False)
class PairNames:
    """The pairs of a state and an action in order: all of them, or those that are allowed.

    The code of a pair is the state's position times the number of actions, plus the action's.
    """

    states: StateNames
    actions: StateNames
    allowed: Integers | None = None  # the codes of these pairs, in order; None: all are

    what: ClassVar[str] = "pair"
    columns: ClassVar[int] = 2

    @property
    def count(self) -> int:
        """Return how many keys there are."""
        if self.allowed is not None:
            return len(self.allowed)
        return self.states.count * self.actions.count

    @cached_property
    def codes(self) -> Integers:
        """Return the code of every key."""
        return np.arange(self.count) if self.allowed is None else self.allowed

    @cached_property
    def state_of(self) -> Integers:
        """Return the position of every key's state."""
        return self.codes // self.actions.count

    @cached_property
    def action_of(self) -> Integers:
        """Return the position of every key's action."""
        return self.codes % self.actions.count

    def label(self, at: int) -> str:
        """Return what the key at a position is called."""
        state, action = divmod(int(self.codes[at]), self.actions.count)
        return f"{self.states.label(state)}, {self.actions.label(action)}"

    def find(self, label: tuple[str, ...]) -> int | None:
        """Return the position of a pair by the labels of its state and action, or None."""
        state, action = label
        at, which = self.states.find((state,)), self.actions.find((action,))
        if at is None or which is None:
            return None
        code = at * self.actions.count + which
        if self.allowed is None:
            return code
        place = int(np.searchsorted(self.allowed, code))
        return place if place < len(self.allowed) and self.allowed[place] == code else None


KeyNames = StateNames | PairNames
_Array = TypeVar("_Array", Vector, Integers)


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyTables:
    """Two policies: the probability of every pair, its action in its state; read-only."""

    target: Vector
    behaviour: Vector | None  # None where the rows have it


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """What is known of each state; arrays are read-only."""

    names: StateNames
    pairs: PairNames | None  # of states and actions, where there are actions
    raw_labels: Mapping[str, int] | None  # raw label -> position; None: rows hold 0 .. N-1
    start: Vector | None
    visits: Vector | None  # of each state, or pair
    weights: Vector  # of each state
    matrix: Matrix | None
    targets: Vector | None  # a basis of the features that values are shrunk towards
    policies: PolicyTables | None  # with dp-ope
    files: tuple[SideFile, ...]


def read_tables(study: "Study", files: SideFiles) -> Tables:
    """Read and check every table that the sections of a study name.

    Args:
        study: its sections go together.
        files: opens side files.
    """
    names = _read_names("state", study.states, files)
    pairs = _read_pairs(study.actions, names, files)
    keys = names if pairs is None else pairs
    matrix = _read_matrix(study.features, keys, files)
    return Tables(
        names=names,
        pairs=pairs,
        raw_labels=_read_groups(study.states, names, files),
        start=_read_start(study.values.start, names, files),
        visits=_read_visits(study.states.visits, names, pairs, files),
        weights=_read_weights(study.weights, names, files),
        matrix=matrix,
        targets=_shrink_targets(matrix, study.features.size or 1, keys)
        if study.features.shrink
        else None,
        policies=None if pairs is None else _read_policies(study.policy, pairs, files),
        files=tuple(files.opened),  # last, because the lines above open them
    )


def tie_states(names: KeyNames, size: int) -> Integers:
    """Return which value each key shares with others: that of ``size`` adjacent states.

    With actions, the states share the value of each action by itself. Groups are numbered from 0,
    in the order in which they come.
    """
    if isinstance(names, StateNames):
        return np.arange(names.count) // size
    both = names.state_of // size * names.actions.count + names.action_of
    _, first, group = np.unique(both, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[group])


# The keys


def _read_names(what: str, section: Any, files: SideFiles) -> StateNames:
    """Return states or actions; refuse labels that are empty or appear twice."""
    if section.count is not None:
        return StateNames(count=section.count)
    if what == "state" and section.bins is not None:
        labels = list(bin_labels(section.bins))
    elif section.file is not None:
        labels = [row[0] for row in files.open(f"[{what}s] file", section.file).rows(1)]
        labels = labels[1:] if labels[0].lower() in {what, "label"} else labels
    else:
        labels = [str(label).strip() for label in section.labels]
    if not labels or "" in labels or "\0" in "".join(labels):
        raise StudyError(
            f"[{what}s] labels must be a list of at least one text, none empty or with NUL",
            code="label-empty",
        )
    label, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise StudyError(
            f'[{what}s] the label "{label}" appears {times} times; labels are unique',
            code="label-twice",
        )
    return StateNames(count=len(labels), labels=tuple(labels))


def _read_pairs(section: Any, states: StateNames, files: SideFiles) -> PairNames | None:
    """Return the pairs of a state and an action, or None where there are no actions."""
    if not section.named:
        return None
    every = PairNames(states=states, actions=_read_names("action", section, files))
    if every.count > MOST_STATES:
        raise StudyError(
            f"[actions] {every.actions.count} actions of {states.count} states are {every.count} "
            f"pairs; there may be at most {MOST_STATES}",
            code="too-many-keys",
        )
    if section.allowed is None:
        return every
    key = "[actions] allowed"
    if isinstance(section.allowed, str):
        rows = [row[:2] for row in files.open(key, section.allowed).rows(2)]
        rows = rows[1:] if [cell.lower() for cell in rows[0]] == ["state", "action"] else rows
    else:
        rows = [(state, str(one)) for state, each in section.allowed.items() for one in each]
    allowed = np.sort(_find_keys(key, rows, every))
    without = np.setdiff1d(np.arange(states.count), allowed // every.actions.count)
    if len(without):
        raise StudyError(
            f"{key} leaves {len(without)} of {states.count} states without an action, the first of "
            f'them "{states.label(int(without[0]))}"; every state needs one',
            code="state-without-action",
        )
    return PairNames(states=states, actions=every.actions, allowed=_read_only(allowed))


def _read_groups(section: Any, names: StateNames, files: SideFiles) -> Mapping[str, int] | None:
    """Return raw label -> position, by the groups if there are any; None if rows hold numbers."""
    groups, key = section.groups, "[states] groups"
    if groups is None:
        return None if names.labels is None or section.bins is not None else names.positions
    rows: list[tuple[str, ...]]
    if isinstance(groups, str):
        rows = files.open(key, groups).rows(2)
        rows = rows[1:] if names.find(rows[0][1:2]) is None else rows  # a heading
    else:
        rows = [(raw, str(label)) for raw, label in groups.items()]
    positions: dict[str, int] = {}
    for raw, label, *_ in rows:
        at = names.find((label,))
        if at is None:
            raise StudyError(
                f'{key} maps "{raw}" to "{label}", which is not a state of the study',
                code="label-unknown",
            )
        if raw in positions:
            raise StudyError(f'{key} maps the raw label "{raw}" twice', code="label-twice")
        positions[raw] = at
    if not positions:
        raise StudyError(f"{key} maps no raw label to any state", code="side-file-empty")
    return positions


# Numbers by key


def _find_keys(
    key: str, labels: Iterable[tuple[str, ...]], names: KeyNames, *, all_needed: bool = False
) -> Integers:
    """Return the positions of labels; refuse one that is unknown, named twice, or left out."""
    found = list[int]()
    seen = np.zeros(names.count, dtype=bool)
    for label in labels:
        at = names.find(label)
        if at is None:
            raise StudyError(
                f'{key} names "{", ".join(label)}", which is not a {names.what} of the study',
                code="label-unknown",
            )
        if seen[at]:
            raise StudyError(
                f'{key} names the {names.what} "{names.label(at)}" twice', code="label-twice"
            )
        seen[at] = True
        found.append(at)
    if all_needed and not seen.all():
        raise StudyError(
            f"{key} leaves out {int((~seen).sum())} of {names.count} {names.what}s, the first of "
            f'them "{names.label(int(np.argmin(seen)))}"; every {names.what} needs a number',
            code="label-missing",
        )
    return np.array(found, dtype=np.int64)


def _read_cells(
    file: SideFile, names: KeyNames, width: int | None = None
) -> tuple[list[tuple[str, ...]], Vector]:
    """Return the labels of a table and its numbers; a first row without numbers is a heading.

    Args:
        file: the table.
        names: the states, or the pairs.
        width: how many columns of numbers are read; None: all.
    """
    labels, numbers = [], []
    for number, row in enumerate(file.rows(names.columns + 1)):
        label, cells = row[: names.columns], row[names.columns :][:width]
        try:
            numbers.append([float(cell) for cell in cells])
        except ValueError:
            if number == 0:
                continue
            raise StudyError(
                f'{file.shown}, {names.what} "{", ".join(label)}": a cell is not a number',
                code="side-file-number",
            ) from None
        labels.append(label)
    return labels, np.array(numbers, dtype=np.float64).reshape(len(labels), -1)


def _read_numbers(
    key: str, given: Any, names: KeyNames, files: SideFiles, *, absent: float | None = None
) -> Vector:
    """Return a number for each key, given as a side file, a table of labels, or in order.

    Args:
        key: the key of the study, for errors.
        given: the name of a file, the table itself, or numbers in the order of the states.
        names: the states, or the pairs.
        files: opens side files.
        absent: the number of states that the table omits; None: every state needs one.
    """
    if isinstance(given, str | Mapping):
        if isinstance(given, str):
            labels, cells = _read_cells(files.open(key, given), names, 1)
            numbers = cells.ravel()
        else:
            entries = list(_flatten(given))
            labels = [label for label, _ in entries]
            numbers = np.array([number for _, number in entries], dtype=np.float64)
            if any(len(label) != names.columns for label in labels):
                raise StudyError(
                    f"{key} is by {'state' if names.columns > 1 else 'state and action'}, and "
                    f"needs a number for each {names.what}",
                    code="label-unknown",
                )
        vector = np.full(names.count, np.nan if absent is None else absent)
        vector[_find_keys(key, labels, names, all_needed=absent is None)] = numbers
    else:
        vector = np.array(given, dtype=np.float64)
        if len(vector) != names.count:
            raise StudyError(
                f"{key} has {len(vector)} numbers for {names.count} {names.what}s",
                code="numbers-missing",
            )
    return _read_only(vector)


def _flatten(table: Mapping[str, Any]) -> Iterable[tuple[tuple[str, ...], float]]:
    """Yield the labels and the number of each entry of a table by label, or by two labels."""
    for label, value in table.items():
        if isinstance(value, Mapping):
            yield from (((label, str(action)), number) for action, number in value.items())
        else:
            yield (label,), value


def _read_start(given: Any, names: StateNames, files: SideFiles) -> Vector | None:
    """Return the start distribution, or None; refuse what is not a distribution."""
    if given is None:
        return None
    start = _read_numbers("[values] start", given, names, files, absent=0.0)
    if not (np.isfinite(start) & (start >= 0)).all() or abs(start.sum() - 1) > 1e-9:
        raise StudyError(
            f"[values] start sums to {start.sum():.12g}, or holds a negative number; probabilities "
            "are at least 0, and sum to 1",
            code="start-invalid",
        )
    return start


def _read_visits(
    given: Any, names: StateNames, pairs: PairNames | None, files: SideFiles
) -> Vector | None:
    """Return the prior of visits of each key, or None; refuse what is not a probability.

    With actions, it may be of pairs, or of states: then each of a state's actions gets its share.
    """
    key = "[states] visits"
    if given is None:
        return None
    if pairs is None or not _is_by_pair(key, given, pairs, files):
        visits = _read_numbers(key, given, names, files)
        if pairs is not None:
            each = np.bincount(pairs.state_of, minlength=names.count)
            visits = _read_only((visits / each)[pairs.state_of])
    else:
        visits = _read_numbers(key, given, pairs, files)
    fits = (visits >= 0) & (visits <= 1)
    if not fits.all():
        raise StudyError(
            f"{key} holds {visits[np.argmin(fits)]:g}, which is not between 0 and 1; it is the "
            "probability that a trajectory visits the state: 50 of 100 is 0.5",
            code="visits-invalid",
        )
    return visits


def _is_by_pair(key: str, given: Any, pairs: PairNames, files: SideFiles) -> bool:
    """Return whether numbers are of pairs: by the columns of a file, or by how many there are."""
    if isinstance(given, str):
        return len(SideFiles(*files.folders).open(key, given).rows(1)[0]) > 2
    if isinstance(given, Mapping):
        return any(isinstance(value, Mapping) for value in given.values())
    return len(given) == pairs.count != pairs.states.count


def _read_weights(section: Any, names: StateNames, files: SideFiles) -> Vector:
    """Return the weights; refuse negative or extreme ones, and weights that are all 0."""
    if section.file is not None:
        weights = _read_numbers("[weights] file", section.file, names, files)
    elif section.values is not None:
        weights = _read_numbers("[weights] values", section.values, names, files)
    else:
        return _read_only(np.ones(names.count))
    bad = ~((weights == 0) | ((weights >= SMALLEST) & (weights <= LARGEST)))
    if bad.any() or not weights.any():
        at = int(np.argmax(bad))
        raise StudyError(
            f'[weights] the weight of state "{names.label(at)}" is {weights[at]}; weights are '
            f"finite numbers of at least 0 (0, or {SMALLEST:g} to {LARGEST:g}), one above 0",
            code="weights-invalid",
        )
    return weights


def _read_policies(section: Any, pairs: PairNames, files: SideFiles) -> PolicyTables | None:
    """Return the two policies of ``[policy]``, or None where there are none."""
    if section.target is None:
        return None
    target = _read_policy("[policy] target", section.target, pairs, files)
    if section.is_logged:
        return PolicyTables(target=target, behaviour=None)
    behaviour = _read_policy("[policy] behaviour", section.behaviour, pairs, files)
    return PolicyTables(target=target, behaviour=behaviour)


def _read_policy(key: str, given: Any, pairs: PairNames, files: SideFiles) -> Vector:
    """Return the probability of every pair; what a table leaves out is never done.

    A file of state and action alone names what is always done. Refuse what is no probability, and
    states whose probabilities do not sum to 1.
    """
    if isinstance(given, str):
        file = files.open(key, given)
        rows = file.rows(2)
        if len(rows[0]) == 2:
            rows = rows[1:] if pairs.states.find(rows[0][:1]) is None else rows
            labels, numbers = rows, np.ones(len(rows))
        else:
            labels, cells = _read_cells(file, pairs, 1)
            numbers = cells.ravel()
        found = np.zeros(pairs.count)
        found[_find_keys(key, labels, pairs)] = numbers
    elif isinstance(given, Mapping):
        found = np.array(_read_numbers(key, given, pairs, files, absent=0.0))
    else:
        shape = (pairs.states.count, pairs.actions.count)
        if [len(row) for row in given] != [shape[1]] * shape[0]:
            raise StudyError(
                f"{key} must have {shape[0]} rows of {shape[1]} numbers, a row for each state",
                code="policy-shape",
            )
        found = np.array(given, dtype=np.float64)[pairs.state_of, pairs.action_of]
    bad = ~((found >= 0) & (found <= 1))
    if bad.any():
        at = int(np.argmax(bad))
        raise StudyError(
            f'{key}: the probability of "{pairs.label(at)}" is {found[at]:g}; probabilities are '
            "numbers from 0 to 1",
            code="policy-not-probabilities",
        )
    sums = np.bincount(pairs.state_of, found, minlength=pairs.states.count)
    off = np.abs(sums - 1) > SUMS_TO_ONE
    if off.any():
        at = int(np.argmax(off))
        raise StudyError(
            f'{key}: the probabilities of the state "{pairs.states.label(at)}" sum to '
            f"{sums[at]:.9g}; those of every state sum to 1",
            code="policy-sum",
        )
    return _read_only(found)


# Features


def _read_matrix(section: Any, names: KeyNames, files: SideFiles) -> Matrix | None:
    """Return Phi if it is given as a matrix, or None."""
    if section.file is not None:
        file = files.open("[features] file", section.file)
        if section.file.lower().endswith((".npy", ".npz")):
            return file.matrix(names.count, names.what)
        labels, rows = _read_cells(file, names)
        return _matrix_by_label(file.key, labels, rows, names)
    if section.matrix is None:
        return None
    key = "[features] matrix"
    found, rows = _split_labels(section.matrix, names.columns)
    if found is None:
        matrix = to_matrix(key, rows, names.count, names.what)
    else:
        matrix = _matrix_by_label(key, found, rows, names)
    described = f"{matrix.shape[0]} x {matrix.shape[1]} array"
    files.opened.append(SideFile(key=key, name=described, sha256=hash_matrix(matrix)))
    return matrix


def _matrix_by_label(
    key: str, labels: Sequence[tuple[str, ...]], rows: Any, names: KeyNames
) -> Matrix:
    """Return a matrix whose rows go where their states are."""
    matrix = dense(to_matrix(key, rows, len(labels), names.what))
    positions = _find_keys(key, labels, names, all_needed=True)
    ordered = np.empty_like(matrix)
    ordered[positions] = matrix
    return to_matrix(key, ordered, names.count, names.what)


def _split_labels(matrix: Any, columns: int) -> tuple[list[tuple[str, ...]] | None, Any]:
    """Return the labels of a matrix's rows, where it has some, and the matrix without them.

    A pandas frame has them as its index; another frame, or a table, as first columns of texts.
    """
    if hasattr(matrix, "iloc"):
        if type(matrix.index).__name__ == "RangeIndex":
            return None, matrix.to_numpy()
        each = [label if isinstance(label, tuple) else (label,) for label in matrix.index]
        return [tuple(map(str, label)) for label in each], matrix.to_numpy()
    if hasattr(matrix, "__arrow_c_stream__") and hasattr(matrix, "columns"):
        cells = [column.to_pylist() for column in pa.table(matrix).columns]
        labels = None
        if len(cells) > columns and all(isinstance(cell, str) for cell in cells[0]):
            labels = [tuple(map(str, label)) for label in zip(*cells[:columns], strict=True)]
            cells = cells[columns:]
        return labels, np.array(cells, dtype=object).T
    return None, matrix


def _shrink_targets(matrix: Matrix | None, size: int, names: KeyNames) -> Vector:
    """Return what the features have in common: their components, the larger the likelier to matter.

    Features are taken in units of their own spread, so that theirs do not matter. A component is as
    large as the square of its share beside the first one. Where one stands out, it may be bent: its
    square is a column, half as large.
    """
    groups, states = tie_states(names, size), names.count
    dimension = int(groups.max()) + 1 if matrix is None else matrix.shape[1]
    if dimension > MOST_TARGETS or states * dimension > MOST_ENTRIES:
        raise StudyError(
            f"[features] shrink = true with {dimension} features of {states} states is too much "
            f"to compute; use at most {MOST_TARGETS:,} features, and {MOST_ENTRIES:,} numbers",
            code="shrink-too-large",
        )
    if matrix is None:
        phi = np.equal.outer(groups, np.arange(dimension)).astype(np.float64)
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
    large = shares > LEAST_SHARE
    components = basis[:, large] * (np.sqrt(states) * np.square(shares[large]))
    if len(shares) and shares[:2].sum() < 1 + STANDS_OUT:
        bent = np.square(components[:, :1])
        bent -= bent.mean()
        bent = 0.5 * bent / max(float(bent.std()), LEAST_SHARE)
        components = np.column_stack([components, bent])
    return _read_only(np.asarray(components))


def _read_only(array: _Array) -> _Array:
    """Forbid changes of an array, and return it."""
    array.setflags(write=False)
    return array
