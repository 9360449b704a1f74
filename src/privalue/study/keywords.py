"""Place the keywords of a study in its sections: ``epsilon=1.0`` is a key of ``[privacy]``.

A keyword is called as its key. Where sections share the names of their keys, the keyword is called
as the section: ``states=["ill", "well"]``, ``features=X``, ``mechanism="dp-lsw"``. ``KEYWORDS`` is
the one map from a keyword to the keys that it stands for, by section.
"""

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from typing import Any

from privalue.study.messages import format_value, meant, refusal
from privalue.study.sections import ROLES, SECTIONS

Sections = dict[str, dict[str, Any]]  # key -> value, by section
_LISTED = ("count", "labels", "file")
_WHOLE = {name: tuple(SECTIONS[name].model_fields) for name in ("weights", "policy", "mechanism")}
# The keys that the keyword of a section replaces, so that a study can be changed.
REPLACES: Mapping[str, tuple[str, ...]] = {
    **_WHOLE,
    "states": (*_LISTED, "bins"),
    "features": ("kind", "file", "matrix", "size"),
    "arms": ("labels",),
    "actions": _LISTED,
}
_RIVALS = {"bins": "states", "size": "features"}  # keywords that replace the same keys
# Keys that only the keyword of their section places.
_OF_SECTION = {*_LISTED, *ROLES, "kind", "matrix", "values", "column", *_WHOLE["policy"]}
_NAMESAKES = {("mechanism", "name"), ("report", "unit")}  # name and unit are keys of two sections


def place_keywords(keywords: Mapping[str, Any], sections: Sections | None = None) -> Sections:
    """Return the sections of a study.

    Args:
        keywords: as ``Study`` takes them; None takes a key back to its default.
        sections: those of a study, of which these keywords are changed.
    """
    placed = {name: dict(keys) for name, keys in (sections or {}).items()}
    for word in keywords:
        if word not in KEYWORDS:
            column = f'columns={{"{word}": NAME}} names a column'
            near = column if word in ROLES else meant(word, KEYWORDS)
            raise refusal("key-unknown", word, "keyword", near)
        section = _RIVALS.get(word, word)
        for name in REPLACES.get(section, ()):
            placed.get(section, {}).pop(name, None)
    for word, value in keywords.items():
        for name, keys in KEYWORDS[word](value).items():
            placed.setdefault(name, {}).update(keys)
    return placed


def _file_or(section: str, name: str, value: Any) -> Sections:
    """Return the keys of a section that is in a file, counted, or held by the key of this name."""
    if isinstance(value, str):
        return {section: {"kind" if (section, value) == ("weights", "uniform") else "file": value}}
    is_count = name == "labels" and isinstance(value, Integral)
    return {section: {"count" if is_count else name: value}}


def _policy(value: Any) -> Sections:
    if not isinstance(value, Mapping | None):
        raise refusal("section-invalid", "policy", format_value(value))
    return {"policy": dict(value or {})}


def _columns(value: Any) -> Sections:
    """Return the columns that were named; that of the arm is a key of another section."""
    named = value or {}
    known = (*ROLES, "arm")
    if not isinstance(named, Mapping) or not set(named) <= set(known):
        raise refusal("columns-invalid", format_value(value), ", ".join(known))
    placed: Sections = {"data": {role: name for role, name in named.items() if role != "arm"}}
    return placed | ({"arms": {"column": named["arm"]}} if "arm" in named else {})


def _one_key(section: str, name: str, value: Any) -> Sections:
    return {section: {name: value}}


KEYWORDS: Mapping[str, Callable[[Any], Sections]] = {
    "states": partial(_file_or, "states", "labels"),
    "actions": partial(_file_or, "actions", "labels"),
    "features": partial(_file_or, "features", "matrix"),
    "weights": partial(_file_or, "weights", "values"),
    "arms": partial(_one_key, "arms", "labels"),
    "policy": _policy,
    "columns": _columns,
    "mechanism": partial(_one_key, "mechanism", "name"),
    "outcome_unit": partial(_one_key, "report", "unit"),
    **{
        name: partial(_one_key, section, name)
        for section, model in SECTIONS.items()
        for name in model.model_fields
        if name not in _OF_SECTION and (section, name) not in _NAMESAKES
    },
}
