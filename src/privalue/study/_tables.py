"""Read what a study says of each state: labels, groups, start, visits, weights and features.

With actions, visits and features are of pairs of a state and an action.

Each comes from a side file, from the study file itself, or from a default. `read_tables` is the
only function that opens side files, and everything that it reads is public.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privalue.core import Integers, Matrix, Vector, dense
from privalue.errors import StudyError
from privalue.study import _side_files as side_files
from privalue.study._arrays import UNCLEAR, labelled_rows, unclear
from privalue.study._bins import bin_labels
from privalue.study._names import BETWEEN, KeyNames, PairNames, StateNames
from privalue.study._places import Place
from privalue.study._section_rules import LARGEST, SMALLEST
from privalue.study._sections import (
    MOST_STATES,
    Actions,
    Features,
    States,
    TargetPolicy,
    Values,
    Weights,
)
from privalue.study._side_files import SideFile

# Features that values are shrunk towards: each fit solves d x d systems of dense rows.
MOST_TARGETS, MOST_ENTRIES = 1_000, 4_000_000
ROUNDING = 1e-9  # of a feature's size: less is no difference between states
LEAST_SHARE = 0.03  # of the first component: what is smaller could hardly move a value
SUMS_TO_ONE = 1e-6  # how far the probabilities of a state may be from it: files are rounded
STANDS_OUT = 0.9  # the first component does, if the second is smaller than this


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
    states: States,
    values: Values,
    weights: Weights,
    features: Features,
    actions: Actions,
    policy: TargetPolicy,
    place: Place,
) -> Tables:
    """Read every table that the sections name.

    Args:
        states: ``[states]``.
        values: ``[values]``, for the start distribution.
        weights: ``[weights]``.
        features: ``[features]``.
        actions: ``[actions]``, which may name none.
        policy: ``[policy]``, which may name none.
        place: where side files are.

    Returns:
        The tables, checked.
    """
    files = _Files(place)
    names = _names(states, files)
    pairs = _pairs(actions, names, files)
    matrix = _matrix(features, names if pairs is None else pairs, names.count, files)
    return Tables(
        names=names,
        pairs=pairs,
        raw_labels=_raw_labels(states, names, files),
        start=_start(values, names, files),
        visits=_visits(states, names, pairs, files),
        weights=_weights(weights, names, files),
        matrix=matrix,
        targets=_shrunk_towards(features, matrix, names, pairs),
        policies=None if pairs is None else _policies(policy, pairs, files),
        files=tuple(files.opened),  # last, because the lines above open them
    )


def tied(names: StateNames, pairs: PairNames | None, size: int) -> Integers:
    """Return which value each key shares with others: that of ``size`` adjacent states.

    With actions, the states share the value of each action by itself. Groups are numbered from 0,
    in the order in which they come.
    """
    if pairs is None:
        return np.arange(names.count) // size
    both = pairs.state_of // size * pairs.actions.count + pairs.action_of
    _, first, group = np.unique(both, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[group])


def _shrunk_towards(
    features: Features, matrix: Matrix | None, names: StateNames, pairs: PairNames | None
) -> Vector | None:
    """Return the features that values are shrunk towards, or None where they are not."""
    if not features.shrink:
        return None
    size = features.size or 1
    if pairs is None:
        return _targets(matrix, size, names.count)
    return _targets(matrix, size, pairs.count, tied(names, pairs, size))


def _targets(
    matrix: Matrix | None, size: int, states: int, groups: Integers | None = None
) -> Vector:
    """Return what the features have in common: their components, the larger the likelier to matter.

    Features are taken in units of their own spread, so that theirs do not matter. A component is as
    large as the square of its share beside the first one. Where one stands out, it may be bent: its
    square is a column, half as large.
    """
    groups = np.arange(states) // size if groups is None else groups
    dimension = int(groups.max()) + 1 if matrix is None else matrix.shape[1]
    if dimension > MOST_TARGETS or states * dimension > MOST_ENTRIES:
        raise StudyError(
            f"[features] shrink = true with {dimension} features of {states} states is too much "
            f"to compute; use at most {MOST_TARGETS:,} features, and {MOST_ENTRIES:,} numbers"
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
    return _labelled("states", states, files)


def _labelled(section: str, named: States | Actions, files: _Files) -> StateNames:
    """Return what labels name, or a file of them; refuse labels that are empty or alike."""
    if named.file is not None:
        opened = files.open(f"[{section}] file", named.file)
        labels = side_files.read_labels(opened, section.removesuffix("s"))
    else:
        labels = [str(label).strip() for label in named.labels or ()]
    if not labels or "" in labels:
        raise StudyError(f"[{section}] labels must be a list of at least one text, none empty")
    label, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise StudyError(
            f'[{section}] the label "{label}" appears {times} times; labels are unique'
        )
    return StateNames(count=len(labels), labels=tuple(labels))


def _pairs(section: Actions, states: StateNames, files: _Files) -> PairNames | None:
    """Return the pairs of a state and an action, or None where there are no actions."""
    if not section.named:
        return None
    if section.count is not None:
        actions = StateNames(count=section.count)
    else:
        actions = _labelled("actions", section, files)
    if BETWEEN in "".join((*(states.labels or ()), *(actions.labels or ()))):
        raise StudyError("[actions] labels of states and actions may not hold the character NUL")
    every = PairNames(states=states, actions=actions)
    if every.count > MOST_STATES:
        raise StudyError(
            f"[actions] {actions.count} actions of {states.count} states are {every.count} pairs; "
            f"there may be at most {MOST_STATES}"
        )
    if section.allowed is None:
        return every
    return PairNames(states=states, actions=actions, allowed=_allowed(section, every, files))


def _allowed(section: Actions, every: PairNames, files: _Files) -> Integers:
    """Return the codes of the allowed pairs, in order; every state needs at least one."""
    given = section.allowed
    if isinstance(given, str):
        listed = side_files.read_pairs(files.open("[actions] allowed", given))
    else:
        listed = [
            (str(state), str(action))
            for state, actions in (given or {}).items()
            for action in actions
        ]
    codes = np.empty(len(listed), dtype=np.int64)
    for row, (state, action) in enumerate(listed):
        for label, known in ((state, every.states), (action, every.actions)):
            if known.position(label) is None:
                what = "a state" if known is every.states else "an action"
                raise StudyError(
                    f'[actions] allowed names "{label}", which is not {what} of the study'
                )
        code = every.position(f"{state}{BETWEEN}{action}")
        assert code is not None
        codes[row] = code
    allowed, times = np.unique(codes, return_counts=True)
    if len(allowed) < len(codes):
        label = every.label(int(allowed[np.argmax(times > 1)]))
        raise StudyError(f'[actions] allowed names the pair "{label}" twice')
    without = np.setdiff1d(np.arange(every.states.count), allowed // every.actions.count)
    if len(without):
        label = every.states.label(int(without[0]))
        raise StudyError(
            f"[actions] allowed leaves {len(without)} of {every.states.count} states without an "
            f'action, the first of them "{label}"; every state needs one'
        )
    allowed.setflags(write=False)
    return allowed


def _policies(section: TargetPolicy, pairs: PairNames, files: _Files) -> PolicyTables | None:
    """Return the two policies of ``[policy]``, or None where there are none."""
    target, behaviour = section.target, section.behaviour
    if target is None or behaviour is None:
        return None
    found = _policy("[policy] target", target, pairs, files)
    if section.is_logged:
        return PolicyTables(target=found, behaviour=None)
    return PolicyTables(
        target=found, behaviour=_policy("[policy] behaviour", behaviour, pairs, files)
    )


def _policy(key: str, given: str | Mapping[str, Any], pairs: PairNames, files: _Files) -> Vector:
    """Return the probability of every pair; what a table leaves out is never done.

    A file of state and action alone names what is always done. Refuse what is no probability, and
    states whose probabilities do not sum to 1.
    """
    if isinstance(given, str):
        file = files.open(key, given)
        given = (
            side_files.read_numbers(file, pairs)
            if side_files.width(file) > pairs.columns
            else side_files.read_choices(file)
        )
    else:
        given = {
            f"{state}{BETWEEN}{action}": number
            for state, numbers in given.items()
            for action, number in numbers.items()
        }
    found = _by_state(key, given, pairs, files, absent=0.0)
    bad = ~((found >= 0) & (found <= 1))
    if bad.any():
        at = int(np.argmax(bad))
        raise StudyError(
            f'{key}: the probability of "{pairs.label(at)}" is {found[at]:g}; probabilities are '
            "numbers from 0 to 1"
        )
    sums = np.bincount(pairs.state_of, found, minlength=pairs.states.count)
    off = np.abs(sums - 1) > SUMS_TO_ONE
    if off.any():
        at = int(np.argmax(off))
        raise StudyError(
            f'{key}: the probabilities of the state "{pairs.states.label(at)}" sum to '
            f"{sums[at]:.9g}; those of every state sum to 1"
        )
    return found


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
    names: KeyNames,
    files: _Files,
    *,
    absent: float | None = None,
) -> Vector:
    """Return numbers over states, given as a side file or as a table of labels.

    Args:
        key: the key of the study, for errors.
        given: the name of a file, the table itself, or numbers in the order of the states.
        names: the states, or the pairs.
        files: opens side files.
        absent: the number of states that the table omits; None: every state needs one.
    """
    if unclear(given, names.labels):
        raise StudyError(f"{key} {UNCLEAR}")
    if isinstance(given, str):
        given = side_files.read_numbers(files.open(key, given), names)
    if isinstance(given, Mapping):
        vector = side_files.by_state(key, given, names, absent=absent)
    else:
        vector = np.array(given, dtype=np.float64)
        if len(vector) != names.count:
            raise StudyError(f"{key} has {len(vector)} numbers for {names.count} {names.what}s")
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


def _visits(
    states: States, names: StateNames, pairs: PairNames | None, files: _Files
) -> Vector | None:
    """Return the prior of visits of each key, or None; refuse what is not a probability.

    With actions, it may be of pairs, or of states: then each of a state's actions gets its share.
    """
    given: Any = states.visits
    if given is None:
        return None
    if isinstance(given, Mapping) and any(isinstance(one, Mapping) for one in given.values()):
        if pairs is None:
            raise StudyError("[states] visits is by state and action, and there are no [actions]")
        given = {
            f"{state}{BETWEEN}{action}": number
            for state, numbers in given.items()
            for action, number in (numbers.items() if isinstance(numbers, Mapping) else ())
        }
        visits = _by_state("[states] visits", given, pairs, files)
    elif pairs is not None and _of_pairs(given, pairs, files):
        visits = _by_state("[states] visits", given, pairs, files)
    else:
        visits = _by_state("[states] visits", given, names, files)
        if pairs is not None:
            each = np.bincount(pairs.state_of, minlength=names.count)
            visits = (visits / each)[pairs.state_of]
            visits.setflags(write=False)
    fits = (visits >= 0) & (visits <= 1)
    if not fits.all():
        raise StudyError(
            f"[states] visits holds {visits[np.argmin(fits)]:g}, which is not between 0 and 1; it "
            "is the probability that a trajectory visits the state: 50 of 100 is 0.5"
        )
    return visits


def _of_pairs(given: Any, pairs: PairNames, files: _Files) -> bool:
    """Return whether numbers are of pairs: by the columns of a file, or by how many there are."""
    if isinstance(given, str):
        return (
            side_files.width(side_files.open_side_file("[states] visits", given, files.place)) > 2
        )
    return not isinstance(given, Mapping) and len(given) == pairs.count != pairs.states.count


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


def _matrix(features: Features, names: KeyNames, states: int, files: _Files) -> Matrix | None:
    """Return Phi if it is given as a matrix, or None."""
    if features.size is not None and features.size > states:
        raise StudyError(f"[features] size = {features.size}: there are only {states} states")
    if features.file is not None:
        return side_files.read_matrix(files.open("[features] file", features.file), names)
    if features.matrix is None:
        return None
    matrix = _in_order_of_states(features.matrix, names)
    files.opened.append(side_files.describe_matrix(matrix))
    return matrix


def _in_order_of_states(given: Any, names: KeyNames) -> Matrix:
    """Return a matrix that was given in Python; rows with labels go where their states are."""
    key = "[features] matrix"
    if unclear(given, names.labels):
        raise StudyError(f"{key} {UNCLEAR}")
    labels, rows = labelled_rows(given, names.columns, BETWEEN)
    try:
        matrix = side_files.as_matrix(key, rows, names.count, names.what)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, StudyError):
            raise
        raise StudyError(f"{key} holds something that is not a number") from None
    if labels is None:
        return matrix
    rank = {label: float(at) for at, label in enumerate(labels)}
    if len(rank) < len(labels):
        raise StudyError(f"{key} has rows with the same label; each {names.what} has one row")
    order = side_files.by_state(key, rank, names)
    return side_files.as_matrix(key, dense(matrix)[order.astype(np.int64)], names.count)
