"""Read a study's tables by state: labels, groups, start, visits, weights, features, policies.

A table comes from a side file, from the study file itself, or from a default; only ``read_tables``
opens side files. Rows are found by label: by the state's, or, for features and policies of a study
with actions, by the state's and the action's.
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
    order_rows,
    read_only,
)
from privalue.study.policies import read_policy
from privalue.study.sections import LARGEST, MAX_STATES, SMALLEST, Sections
from privalue.study.side_files import SideFile, SideFiles, hash_matrix, to_matrix

# Limits of features to shrink towards: every fit solves dense d x d systems.
MAX_TARGETS, MAX_ENTRIES = 1_000, 4_000_000
ROUNDING = 1e-9  # of a feature's size: smaller differences between states are ignored
MIN_SHARE = 0.03  # components below this share of the largest singular value are dropped
DOMINANCE = 0.9  # the first component dominates if the second is smaller than this share


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """The tables by state of a study; arrays are read-only."""

    names: StateNames
    pairs: PairNames | None  # of states and actions, where there are actions
    raw_labels: Mapping[str, int] | None  # raw label -> position, ends after states; None: 0 .. N-1
    start_distribution: Vector | None
    visit_prior: Vector | None  # the probability of visiting each state, or pair
    state_weights: Vector  # w of DP-LSW or rho of DP-LSL
    feature_matrix: Matrix | None  # Phi, if it is a matrix
    shrink_targets: Vector | None  # a basis of the features to shrink towards
    policies: Mapping[str, Vector]  # by pair: "target", and "behaviour" unless rows have it
    files: tuple[SideFile, ...]


def read_tables(study: Sections, files: SideFiles) -> Tables:
    """Read and check every table that the sections of a study name.

    Args:
        study: sections that passed ``check_sections``.
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


def _read_names(noun: str, section: Any, files: SideFiles) -> StateNames:
    """Return the names of states or actions; refuse labels that are empty or appear twice."""
    if section.count is not None:
        return StateNames.of(section.count)
    if noun == "state" and section.bins is not None:
        labels = list(bin_labels(section.bins))
    elif section.file is not None:
        labels = [row[0] for row in files.open(f"[{noun}s] file", section.file).labels(1)]
    else:
        labels = [str(label).strip() for label in section.labels]
    if not labels or "" in labels or any("\0" in label for label in labels):
        raise refusal("label-empty", f"[{noun}s]")
    label, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise refusal("label-twice", f"[{noun}s]", noun, label)
    return StateNames.of(labels)


def _without_ends(names: StateNames, section: Any) -> StateNames:
    """Return the states without ends: numbers are left out, labels must not be both."""
    ends = section.end_labels
    shared = [end for end in ends if end in names.positions]
    if shared:
        raise refusal("end-among-states", shared[0])
    if names.positions or not ends:
        return names
    states = [label for label in map(str, range(names.count)) if label not in ends]
    if not states:
        raise refusal("states-all-ends")
    return StateNames.of(states)


def _read_pairs(section: Any, states: StateNames, files: SideFiles) -> PairNames | None:
    """Return the pairs of a state and an action, or None where there are no actions."""
    if not section.is_declared:
        return None
    actions = _read_names("action", section, files)
    if states.count * actions.count > MAX_STATES:
        raise refusal("too-many-keys", states.count * actions.count)
    pairs = PairNames(states=states, actions=actions)
    if section.allowed is None:
        return pairs
    key = "[actions] allowed"
    if isinstance(section.allowed, str):
        rows = files.open(key, section.allowed).labels(2)
    else:
        rows = [(s, str(a)) for s, choices in section.allowed.items() for a in choices]
    allowed = np.sort(find_keys(key, rows, pairs))
    missing = np.setdiff1d(np.arange(states.count), allowed // actions.count)
    if len(missing):
        first = states.label(int(missing[0]))
        raise refusal("state-without-action", key, len(missing), states.count, first)
    return PairNames(states=states, actions=actions, allowed=allowed)


def _read_groups(section: Any, names: StateNames, files: SideFiles) -> Mapping[str, int] | None:
    """Return raw label -> position, by the groups if there are any; None if rows have numbers."""
    groups, key = section.groups, "[states] groups"
    ends = {label: names.count + at for at, label in enumerate(section.end_labels)}
    if groups is None:
        if not names.positions or section.bins is not None:
            return None
        return names.positions | ends
    rows = files.open(key, groups).labels(2) if isinstance(groups, str) else groups.items()
    positions: dict[str, int] = {}
    for raw, label in rows:
        position = ends.get(str(label), names.find((str(label),)))
        if position is None:
            raise refusal("label-unknown", key, label, "state")
        if raw in positions:
            raise refusal("label-twice", key, "raw label", raw)
        positions[raw] = position
    if not positions:
        raise refusal("groups-empty", key)
    return positions


# Numbers by key


def _read_numbers(
    key: str, value: Any, names: StateNames, files: SideFiles, *, fill: float | None = None
) -> Vector:
    """Return a number for each state, from a side file, a table by label, or a list.

    Args:
        key: the key of the study, for errors.
        value: the name of a file, the table itself, or numbers in the order of the states.
        names: the states.
        files: opens side files.
        fill: the number for a state that the table omits; None: each needs a number.
    """
    if isinstance(value, list):
        if len(value) != names.count:
            raise refusal("numbers-missing", key, len(value), names.count)
        return read_only(np.array(value, dtype=np.float64))
    if isinstance(value, str):
        labels, numbers = files.open(key, value).entries(1, 1)
    else:
        labels = [(label,) for label in value]
        numbers = np.array(list(value.values()), dtype=np.float64)
    return read_only(order_rows(key, labels, numbers.ravel(), names, fill=fill))


def _read_start(value: Any, names: StateNames, files: SideFiles) -> Vector | None:
    """Return the start distribution, or None; refuse numbers that are not a distribution."""
    if value is None:
        return None
    start = _read_numbers("[values] start", value, names, files, fill=0.0)
    if not (np.isfinite(start) & (start >= 0)).all() or abs(start.sum() - 1) > 1e-9:
        raise refusal("start-invalid", start.sum())
    return start


def _read_visits(
    value: Any, names: StateNames, pairs: PairNames | None, files: SideFiles
) -> Vector | None:
    """Return the prior of visits of each key, or None; refuse numbers outside [0, 1].

    With actions, a state's probability is divided evenly among its actions.
    """
    if value is None:
        return None
    visits = _read_numbers("[states] visits", value, names, files)
    valid = (visits >= 0) & (visits <= 1)
    if not valid.all():
        raise refusal("visits-invalid", visits[np.argmin(valid)])
    if pairs is None:
        return visits
    action_counts = np.bincount(pairs.state_of, minlength=names.count)
    return read_only((visits / action_counts)[pairs.state_of])


def _read_weights(section: Any, names: StateNames, files: SideFiles) -> Vector:
    """Return the weights; refuse negative or extreme ones, and weights that are all 0."""
    key = "values" if section.file is None else "file"
    value = getattr(section, key)
    if value is None:
        return read_only(np.ones(names.count))
    weights = _read_numbers(f"[weights] {key}", value, names, files)
    invalid = ~((weights == 0) | ((weights >= SMALLEST) & (weights <= LARGEST)))
    if invalid.any() or not weights.any():
        first = int(np.argmax(invalid))
        raise refusal("weights-invalid", names.label(first), weights[first], SMALLEST, LARGEST)
    return weights


def _read_policies(
    section: Any, pairs: PairNames | None, files: SideFiles, ends: Sequence[str]
) -> dict[str, Vector]:
    """Return the policies of ``[policy]`` as tables; empty without dp-ope."""
    if pairs is None or section.target is None:
        return {}
    keys = ["target"] if section.is_logged else ["target", "behaviour"]
    return {
        key: read_policy(f"[policy] {key}", getattr(section, key), pairs, files, ends)
        for key in keys
    }


# Features


def _read_matrix(section: Any, names: KeyNames, files: SideFiles) -> Matrix | None:
    """Return Phi if it is a matrix, or None; rows with labels are put in the order of the keys."""
    if section.file is not None:
        file = files.open("[features] file", section.file)
        if file.kind in {"npy", "npz"}:
            phi = file.array()
        else:
            phi = order_rows(file.key, *file.entries(names.label_columns), names)
        return to_matrix(file.key, phi, names.count, names.noun)
    if section.matrix is None:
        return None
    key, phi = "[features] matrix", section.matrix
    if hasattr(phi, "iloc") and type(phi.index).__name__ != "RangeIndex":
        labels = [label if isinstance(label, tuple) else (label,) for label in phi.index]
        rows = np.asarray(to_matrix(key, phi, len(labels), names.noun))
        phi = order_rows(key, [tuple(map(str, label)) for label in labels], rows, names)
    matrix = to_matrix(key, phi, names.count, names.noun)
    name = f"{matrix.shape[0]} x {matrix.shape[1]} array"
    files.opened.append(SideFile(key=key, name=name, sha256=hash_matrix(matrix)))
    return matrix


def _shrink_targets(section: Any, matrix: Matrix | None, keys: int | PairNames) -> Vector | None:
    """Return the principal components of the features, scaled by their importance.

    Features are standardised, so that their units do not matter. A component is scaled by the
    square of its singular value over the largest. If the first one dominates, values may be a
    curve of it: its square is another column, half as large.
    """
    if not section.shrink:
        return None
    features = aggregation(keys, section.size) if matrix is None else matrix
    states, dimension = features.shape
    if dimension > MAX_TARGETS or states * dimension > MAX_ENTRIES:
        raise refusal("shrink-too-large", dimension, states, MAX_TARGETS, MAX_ENTRIES)
    phi = features if isinstance(features, np.ndarray) else features.toarray()
    phi = phi / np.maximum(np.abs(phi).max(axis=0), np.finfo(float).tiny)
    spreads = phi.std(axis=0)
    phi = phi - phi.mean(axis=0)
    # A column that is constant, or nearly so, is dropped. Its distance from 0 does not matter:
    # degrees may be Kelvin.
    reach = np.minimum(np.abs(phi).max(axis=0), 1.0)
    varies = (reach > ROUNDING) & (spreads > MIN_SHARE**2 * reach)
    phi = phi[:, varies] / spreads[varies]
    basis, sizes, _ = np.linalg.svd(phi, full_matrices=False)
    shares = sizes / sizes.max(initial=1.0)
    large = shares > MIN_SHARE
    components = basis[:, large] * (np.sqrt(states) * np.square(shares[large]))
    if len(shares) and shares[:2].sum() < 1 + DOMINANCE:
        curve = np.square(components[:, :1])
        curve -= curve.mean()
        curve = 0.5 * curve / max(float(curve.std()), MIN_SHARE)
        components = np.column_stack([components, curve])
    return read_only(np.asarray(components))
