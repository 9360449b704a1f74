"""Read a study's tables by state: labels, groups, start, visits, weights, features, policies.

Each comes from a side file, from the study file itself, or from a default; ``read_tables`` is the
only function that opens side files. Tables go by label; with actions, visits, features and policies
are of pairs of a state and an action, and go by two labels.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privalue.core import Matrix, Vector
from privalue.study.messages import refusal
from privalue.study.names import (
    KeyNames,
    PairNames,
    StateNames,
    aggregation,
    bin_labels,
    find_keys,
    place_rows,
)
from privalue.study.policies import read_policy
from privalue.study.sections import LARGEST, MOST_STATES, SMALLEST, Sections
from privalue.study.side_files import SideFile, SideFiles, hash_matrix, to_matrix

# Features that values are shrunk towards: each fit solves d x d systems of dense rows.
MOST_TARGETS, MOST_ENTRIES = 1_000, 4_000_000
ROUNDING = 1e-9  # of a feature's size: less is no difference between states
LEAST_SHARE = 0.03  # components below this share of the largest singular value are dropped
STANDS_OUT = 0.9  # the first component does, if the second is smaller than this


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """What the sections and the side files of a study say of each state; arrays are read-only."""

    names: StateNames
    pairs: PairNames | None  # of states and actions, where there are actions
    raw_labels: Mapping[str, int] | None  # raw label -> position, ends after states; None: 0 .. N-1
    start_distribution: Vector | None
    visit_prior: Vector | None  # the probability of visiting each state, or pair
    state_weights: Vector  # w of DP-LSW or rho of DP-LSL
    feature_matrix: Matrix | None  # Phi, if it is given as a matrix
    shrink_targets: Vector | None  # a basis of the features that values are shrunk towards
    policies: Mapping[str, Vector]  # "target", and "behaviour" where rows lack it; of each pair
    files: tuple[SideFile, ...]


def read_tables(study: Sections, files: SideFiles) -> Tables:
    """Read and check every table that the sections of a study name.

    Args:
        study: its sections go together.
        files: opens side files.
    """
    names = _without_ends(_read_names("state", study.states, files), study.states)
    pairs = _read_pairs(study.actions, names, files)
    keys = names if pairs is None else pairs
    matrix = _read_matrix(study.features, keys, files)
    return Tables(
        names=names,
        pairs=pairs,
        raw_labels=_read_groups(study.states, names, files),
        start_distribution=_read_start(study.values.start, names, files),
        visit_prior=_read_visits(study.states.visits, names, pairs, files),
        state_weights=_read_weights(study.weights, names, files),
        feature_matrix=matrix,
        shrink_targets=_shrink_targets(study.features, matrix, pairs or names.count),
        policies=_read_policies(study.policy, pairs, files, study.states.end_labels),
        files=tuple(files.opened),  # last, because the lines above open them
    )


# The keys


def _read_names(what: str, section: Any, files: SideFiles) -> StateNames:
    """Return states or actions; refuse labels that are empty or appear twice."""
    if section.count is not None:
        return StateNames.of(section.count)
    if what == "state" and section.bins is not None:
        labels = list(bin_labels(section.bins))
    elif section.file is not None:
        labels = [row[0] for row in files.open(f"[{what}s] file", section.file).labels(1)]
    else:
        labels = [str(label).strip() for label in section.labels]
    if not labels or "" in labels or any("\0" in label for label in labels):
        raise refusal("label-empty", f"[{what}s]")
    label, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise refusal("label-twice", f"[{what}s]", what, label)
    return StateNames.of(labels)


def _without_ends(names: StateNames, section: Any) -> StateNames:
    """Return the states: those that were counted without the ends; labels are one or the other."""
    ends = section.end_labels
    both = [end for end in ends if end in names.positions]
    if both:
        raise refusal("end-among-states", both[0])
    if names.positions or not ends:
        return names
    left = [label for label in map(str, range(names.count)) if label not in ends]
    if not left:
        raise refusal("states-all-ends")
    return StateNames.of(left)


def _read_pairs(section: Any, states: StateNames, files: SideFiles) -> PairNames | None:
    """Return the pairs of a state and an action, or None where there are no actions."""
    if not section.named:
        return None
    actions = _read_names("action", section, files)
    if states.count * actions.count > MOST_STATES:
        raise refusal("too-many-keys", states.count * actions.count)
    every = PairNames(states=states, actions=actions)
    if section.allowed is None:
        return every
    key = "[actions] allowed"
    if isinstance(section.allowed, str):
        rows = files.open(key, section.allowed).labels(2)
    else:
        rows = [(state, str(one)) for state, each in section.allowed.items() for one in each]
    allowed = np.sort(find_keys(key, rows, every))
    without = np.setdiff1d(np.arange(states.count), allowed // actions.count)
    if len(without):
        first = states.label(int(without[0]))
        raise refusal("state-without-action", key, len(without), states.count, first)
    return PairNames(states=states, actions=actions, allowed=allowed)


def _read_groups(section: Any, names: StateNames, files: SideFiles) -> Mapping[str, int] | None:
    """Return raw label -> position, by the groups if there are any; None if rows hold numbers."""
    groups, key = section.groups, "[states] groups"
    ends = {label: names.count + at for at, label in enumerate(section.end_labels)}
    if groups is None:
        if not names.positions or section.bins is not None:
            return None
        return names.positions | ends
    rows = files.open(key, groups).labels(2) if isinstance(groups, str) else groups.items()
    positions: dict[str, int] = {}
    for raw, label in rows:
        at = ends.get(str(label), names.find((str(label),)))
        if at is None:
            raise refusal("label-unknown", key, label, "state")
        if raw in positions:
            raise refusal("label-twice", key, "raw label", raw)
        positions[raw] = at
    if not positions:
        raise refusal("groups-empty", key)
    return positions


# Numbers by key


def _read_numbers(
    key: str, given: Any, names: StateNames, files: SideFiles, *, absent: float | None = None
) -> Vector:
    """Return a number for each state, given as a side file, a table of labels, or in order.

    Args:
        key: the key of the study, for errors.
        given: the name of a file, the table itself, or numbers in the order of the states.
        names: the states.
        files: opens side files.
        absent: the number of states that the table omits; None: every state needs one.
    """
    if isinstance(given, list):
        if len(given) != names.count:
            raise refusal("numbers-missing", key, len(given), names.count)
        return _read_only(np.array(given, dtype=np.float64))
    if isinstance(given, str):
        labels, numbers = files.open(key, given).entries(1, 1)
    else:
        labels = [(label,) for label in given]
        numbers = np.array(list(given.values()), dtype=np.float64)
    return _read_only(place_rows(key, labels, numbers.ravel(), names, absent=absent))


def _read_start(given: Any, names: StateNames, files: SideFiles) -> Vector | None:
    """Return the start distribution, or None; refuse what is not a distribution."""
    if given is None:
        return None
    start = _read_numbers("[values] start", given, names, files, absent=0.0)
    if not (np.isfinite(start) & (start >= 0)).all() or abs(start.sum() - 1) > 1e-9:
        raise refusal("start-invalid", start.sum())
    return start


def _read_visits(
    given: Any, names: StateNames, pairs: PairNames | None, files: SideFiles
) -> Vector | None:
    """Return the prior of visits of each key, or None; refuse what is not a probability.

    With actions, each of a state's actions gets its share.
    """
    if given is None:
        return None
    visits = _read_numbers("[states] visits", given, names, files)
    fits = (visits >= 0) & (visits <= 1)
    if not fits.all():
        raise refusal("visits-invalid", visits[np.argmin(fits)])
    if pairs is None:
        return visits
    each = np.bincount(pairs.state_of, minlength=names.count)
    return _read_only((visits / each)[pairs.state_of])


def _read_weights(section: Any, names: StateNames, files: SideFiles) -> Vector:
    """Return the weights; refuse negative or extreme ones, and weights that are all 0."""
    key = "values" if section.file is None else "file"
    given = getattr(section, key)
    if given is None:
        return _read_only(np.ones(names.count))
    weights = _read_numbers(f"[weights] {key}", given, names, files)
    bad = ~((weights == 0) | ((weights >= SMALLEST) & (weights <= LARGEST)))
    if bad.any() or not weights.any():
        at = int(np.argmax(bad))
        raise refusal("weights-invalid", names.label(at), weights[at], SMALLEST, LARGEST)
    return weights


def _read_policies(
    section: Any, pairs: PairNames | None, files: SideFiles, ends: Sequence[str]
) -> dict[str, Vector]:
    """Return the policies of ``[policy]`` that are tables; none without dp-ope."""
    if pairs is None or section.target is None:
        return {}
    keys = ["target"] if section.is_logged else ["target", "behaviour"]
    return {
        key: read_policy(f"[policy] {key}", getattr(section, key), pairs, files, ends)
        for key in keys
    }


# Features


def _read_matrix(section: Any, names: KeyNames, files: SideFiles) -> Matrix | None:
    """Return Phi if it is given as a matrix, or None; rows with labels go where their keys are."""
    if section.file is not None:
        file = files.open("[features] file", section.file)
        if file.kind in {"npy", "npz"}:
            given = file.array()
        else:
            given = place_rows(file.key, *file.entries(names.columns), names)
        return to_matrix(file.key, given, names.count, names.what)
    if section.matrix is None:
        return None
    key, given = "[features] matrix", section.matrix
    if hasattr(given, "iloc") and type(given.index).__name__ != "RangeIndex":
        each = [label if isinstance(label, tuple) else (label,) for label in given.index]
        rows = np.asarray(to_matrix(key, given, len(each), names.what))
        given = place_rows(key, [tuple(map(str, label)) for label in each], rows, names)
    matrix = to_matrix(key, given, names.count, names.what)
    described = f"{matrix.shape[0]} x {matrix.shape[1]} array"
    files.opened.append(SideFile(key=key, name=described, sha256=hash_matrix(matrix)))
    return matrix


def _shrink_targets(section: Any, matrix: Matrix | None, keys: int | PairNames) -> Vector | None:
    """Return what the features have in common: their components, the larger the likelier to matter.

    Features are taken in units of their own spread, so that theirs do not matter. A component is as
    large as the square of its share beside the first one. Where one stands out, it may be bent: its
    square is a column, half as large.
    """
    if not section.shrink:
        return None
    features = aggregation(keys, section.size) if matrix is None else matrix
    states, dimension = features.shape
    if dimension > MOST_TARGETS or states * dimension > MOST_ENTRIES:
        raise refusal("shrink-too-large", dimension, states, MOST_TARGETS, MOST_ENTRIES)
    phi = features if isinstance(features, np.ndarray) else features.toarray()
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


def _read_only(array: Vector) -> Vector:
    """Forbid changes of an array, and return it."""
    array.setflags(write=False)
    return array
