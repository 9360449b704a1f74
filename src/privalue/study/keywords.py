"""Place the keywords of a study in its sections: ``epsilon=1.0`` is a key of ``[privacy]``.

A keyword is called as its key. Where sections share the names of their keys, the keyword is called
as the section: ``states=["ill", "well"]``, ``features=X``, ``mechanism="dp-lsw"``. ``KEYWORDS`` is
the one map from a keyword to the keys that it stands for, by section.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from privalue.errors import StudyError
from privalue.study.columns import ROLES
from privalue.study.sections import format_value, meant, to_plain
from privalue.study.template import SECTIONS

Sections = dict[str, dict[str, Any]]  # key -> value, by section
_LISTED = ("count", "labels", "file")
# The keys that a keyword replaces, so that a study can be changed; others have no keyword.
REPLACES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "states": ("states", (*_LISTED, "bins")),
    "bins": ("states", (*_LISTED, "bins")),
    "features": ("features", ("kind", "file", "matrix", "size")),
    "size": ("features", ("kind", "file", "matrix", "size")),
    "weights": ("weights", ("kind", "file", "values")),
    "arms": ("arms", ("labels",)),
    "actions": ("actions", _LISTED),
    "policy": ("policy", ("target", "behaviour", "clip", "by")),
    "mechanism": ("mechanism", tuple(SECTIONS["mechanism"].model_fields)),
}


def place_keywords(keywords: Mapping[str, Any], sections: Sections | None = None) -> Sections:
    """Return the sections of a study.

    Args:
        keywords: as ``Study`` takes them; None takes a key back to its default.
        sections: those of a study, of which these keywords are changed.
    """
    placed = {name: dict(keys) for name, keys in (sections or {}).items()}
    for one, other in (("states", "bins"), ("features", "size")):
        if keywords.get(one) is not None and keywords.get(other) is not None:
            raise StudyError(
                f"{one} and {other} say the same in two ways; give one of them",
                code="keywords-contradict",
            )
    # What replaces others comes first: the others may be given beside it.
    for word in sorted(keywords, key=lambda word: word not in REPLACES):
        if word not in KEYWORDS:
            raise StudyError(
                f"{word} is not a keyword of a study; {meant(word, KEYWORDS)}", code="key-unknown"
            )
        section, replaced = REPLACES.get(word, ("", ()))
        for name in replaced:
            placed.get(section, {}).pop(name, None)
        if word in REPLACES and keywords[word] is None:
            continue
        for name, keys in KEYWORDS[word](keywords[word]).items():
            placed.setdefault(name, {}).update(keys)
    return {
        name: {one: value for one, value in keys.items() if value is not None}
        for name, keys in placed.items()
    }


def _refuse(word: str, value: Any, allowed: str) -> StudyError:
    return StudyError(
        f"{word} = {format_value(value)} is not allowed; it must be {allowed}", code="key-invalid"
    )


def _is_array(value: Any) -> bool:
    """Return whether a value is a list, an array, a frame or a sparse matrix."""
    return isinstance(value, list | tuple) or any(
        hasattr(value, name) for name in ("__array__", "tocsr", "to_pylist", "__arrow_c_stream__")
    )


def _list_labels(section: str, value: Any) -> Sections:
    """Return the keys of states or actions, which are counted, listed, or in a file."""
    if isinstance(value, str):
        return {section: {"file": value}}
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return {section: {"count": int(value)}}
    if isinstance(value, range) and value.start == 0 and value.step == 1:
        return {section: {"count": len(value)}}
    if isinstance(value, range) or _is_array(value):
        return {section: {"labels": [_plain_label(label) for label in to_plain(value)]}}
    raise _refuse(
        section, value, "how many there are, a list of their labels, or the name of a file"
    )


def _plain_label(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _features(value: Any) -> Sections:
    if isinstance(value, str) or _is_array(value):
        return {"features": {"file" if isinstance(value, str) else "matrix": value}}
    allowed = "a matrix with a row for each state, or its file; size=2 ties adjacent states"
    raise _refuse("features", value, allowed)


def _weights(value: Any) -> Sections:
    if isinstance(value, str):
        return {"weights": {"kind" if value == "uniform" else "file": value}}
    return {"weights": {"values": value}}


def _arms(value: Any) -> Sections:
    if isinstance(value, str) or not _is_array(value):
        raise _refuse("arms", value, "a list of labels")
    return _list_labels("arms", value)


def _policy(value: Any) -> Sections:
    if not isinstance(value, Mapping):
        raise _refuse("policy", value, "a dict of target, behaviour and clip")
    return {"policy": dict(value)}


def _columns(value: Any) -> Sections:
    """Return the columns that were named; that of the arm is a key of another section."""
    known = (*ROLES, "arm")
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not set(value) <= set(known):
        example = 'columns={"trajectory": "stay_id"}'
        allowed = f"a dict of what a column is, {', '.join(known)}, and its name, e.g. {example}"
        raise _refuse("columns", value, allowed)
    placed: Sections = {"data": {role: name for role, name in value.items() if role != "arm"}}
    return placed | ({"arms": {"column": value["arm"]}} if "arm" in value else {})


def _one_key(section: str, name: str, value: Any) -> Sections:
    return {section: {name: value}}


# Keys whose section is a keyword: "count" could be of states or of actions.
_OF_SECTION = {
    **dict.fromkeys(("states", "actions"), _LISTED),
    "features": ("kind", "file", "matrix"),
    "mechanism": ("name",),
    "report": ("unit",),  # [privacy] has a unit, too
    "data": ROLES,
    **{name: tuple(SECTIONS[name].model_fields) for name in ("weights", "arms", "policy")},
}
KEYWORDS: Mapping[str, Callable[[Any], Sections]] = {
    "states": partial(_list_labels, "states"),
    "actions": partial(_list_labels, "actions"),
    "features": _features,
    "weights": _weights,
    "arms": _arms,
    "policy": _policy,
    "columns": _columns,
    "mechanism": partial(_one_key, "mechanism", "name"),
    "outcome_unit": partial(_one_key, "report", "unit"),
    **{
        name: partial(_one_key, section, name)
        for section, model in SECTIONS.items()
        for name in model.model_fields
        if name not in _OF_SECTION.get(section, ())
    },
}
