"""Place the keywords of a study in its sections: ``epsilon=1.0`` is a key of ``[privacy]``.

A keyword is called as its key. Where sections share the names of their keys, the keyword is called
as the section: ``states=["ill", "well"]``, ``features=X``, ``mechanism="dp-lsw"``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from privalue.errors import StudyError
from privalue.study._arrays import is_array, listed
from privalue.study._columns import Columns
from privalue.study._mechanism import MECHANISM_KEYS
from privalue.study._section_rules import Section, meant, shown
from privalue.study._sections import About, Actions, Features, Privacy, Report, States, Values

_ROLES = ["trajectory", "step", "state", "reward", "person", "action", "probability", "truncated"]
_LISTED = ("count", "labels", "file")
_KEYS: Mapping[str, tuple[Iterable[str], Iterable[str]]] = {  # of a section, and those without word
    "study": (About.model_fields, ()),
    "privacy": (Privacy.model_fields, ()),
    "values": (Values.model_fields, ()),
    "states": (States.model_fields, _LISTED),
    "features": (Features.model_fields, ("kind", "file", "matrix")),
    "actions": (Actions.model_fields, _LISTED),
    "mechanism": (MECHANISM_KEYS, ("name",)),
    "report": (Report.model_fields, ()),
    "data": (Columns.model_fields, _ROLES),
}
SECTION_OF = {
    key: section for section, (keys, without) in _KEYS.items() for key in keys if key not in without
}
# Keys that give way where another of them is given.
_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "states": (*_LISTED, "bins"),
    "bins": (*_LISTED, "bins"),
    "features": ("kind", "file", "matrix", "size"),
    "size": ("kind", "file", "matrix", "size"),
    "weights": ("kind", "file", "values"),
    "arms": ("labels",),
    "actions": _LISTED,
    "policy": ("target", "behaviour", "clip", "by"),
    "mechanism": tuple(MECHANISM_KEYS),
}


def sections_of(
    given: Mapping[str, Any], present: Mapping[str, Section] | None = None
) -> dict[str, Any]:
    """Return the sections of a study.

    Args:
        given: keywords; None takes a key back to its default.
        present: the sections of a study, of which these keywords are changed.

    Raises:
        StudyError: a keyword is unknown, or stands for something else.
    """
    for one, other in (("states", "bins"), ("features", "size")):
        if given.get(one) is not None and given.get(other) is not None:
            raise StudyError(f"{one} and {other} say the same in two ways; give one of them")
    sections: dict[str, Any] = dict(present or {})
    first = [word for word in _INSTEAD if word in given]  # what they clear may be given beside
    for word in dict.fromkeys([*first, *given]):
        value = given[word]
        cleared = dict.fromkeys(_INSTEAD.get(word, ()))
        if word == "columns":
            placed = _columns(value)
        elif word in _WORDS:
            placed = {word: cleared | ({} if value is None else keys_of(word, value))}
        elif word in SECTION_OF:
            placed = {SECTION_OF[word]: cleared | {word: value}}
        else:
            known = [*_WORDS, *SECTION_OF, "columns"]
            raise StudyError(f"{word} is not a keyword of a study; {meant(word, known)}")
        for section, keys in placed.items():
            merged = _keys_of(sections.pop(section, None)) | keys
            written = {key: value for key, value in merged.items() if value is not None}
            if written:
                sections[section] = written
    return sections


def keys_of(word: str, value: Any) -> dict[str, Any]:
    """Return the keys of its section that a keyword stands for."""
    return _WORDS[word](word, value)


def _keys_of(section: Any) -> dict[str, Any]:
    """Return the keys that were written in a section, which may be a dict of them, or absent."""
    if isinstance(section, Section):
        return {name: getattr(section, name) for name in section.given}
    return dict(section or {})


def _columns(value: Any) -> dict[str, dict[str, Any]]:
    """Return the columns that were named, by section."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise StudyError(
            f"columns = {shown(value)} is not allowed; it must be a dict of what a column is and "
            'its name, e.g. columns={"trajectory": "stay_id"}'
        )
    for role in value:
        if role not in {*_ROLES, "arm"}:
            raise StudyError(f"columns: {role} is no column; known are {', '.join(_ROLES)}, arm")
    found = {"data": {role: name for role, name in value.items() if role != "arm"}}
    return found | ({"arms": {"column": value["arm"]}} if "arm" in value else {})


def _listed(word: str, value: Any) -> dict[str, Any]:
    """Return the key of states or actions, which are counted, listed, or in a file."""
    if isinstance(value, str):
        return {"file": value}
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return {"count": int(value)}
    if isinstance(value, range) and value.start == 0 and value.step == 1:
        return {"count": len(value)}
    if isinstance(value, range) or is_array(value):
        return _labels(word, value)
    raise StudyError(
        f"{word} = {shown(value)} is not allowed; it must be how many there are, a list of their "
        "labels, or the name of a file"
    )


def _labels(word: str, value: Any) -> dict[str, Any]:
    """Return the labels of a list or an array, as plain values."""
    found = listed(value)
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise StudyError(f"{word} = {shown(value)} is not allowed; it must be a list of labels")
    return {"labels": [each.item() if isinstance(each, np.generic) else each for each in found]}


def _features(_: str, value: Any) -> dict[str, Any]:
    """Return the key of features: a matrix, or the name of its file."""
    if isinstance(value, str):
        return {"file": value}
    if is_array(value):
        return {"matrix": value}
    raise StudyError(
        f"features = {shown(value)} is not allowed; it must be a matrix with a row for each state, "
        "or the name of its file; size=2 ties adjacent states"
    )


def _weights(_: str, value: Any) -> dict[str, Any]:
    """Return the key of weights: numbers by state, or the name of a file."""
    if isinstance(value, str):
        return {"kind": value} if value == "uniform" else {"file": value}
    return {"values": value}


def _policy(_: str, value: Any) -> dict[str, Any]:
    """Return the keys of ``[policy]``."""
    if not isinstance(value, Mapping):
        raise StudyError(
            f"policy = {shown(value)} is not allowed; it must be a dict of target, behaviour and "
            "clip"
        )
    return dict(value)


_WORDS: Mapping[str, Callable[[str, Any], dict[str, Any]]] = {
    "states": _listed,
    "features": _features,
    "weights": _weights,
    "arms": _labels,
    "actions": _listed,
    "policy": _policy,
    "mechanism": lambda _, name: {"name": name},
}
