"""Map the keywords of ``Study`` to keys by section: ``epsilon=1.0`` is a key of ``[privacy]``.

A keyword has the name of its key; where several sections have a key of that name, it has the name
of the section: ``states=["ill", "well"]``, ``features=X``, ``mechanism="dp-lsw"``. ``KEYWORDS`` is
the only map from keywords to keys.
"""

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from typing import Any

from privalue.study.messages import format_value, refusal, suggest
from privalue.study.sections import ROLES, SECTIONS

Sections = dict[str, dict[str, Any]]  # key -> value, by section
_LIST_KEYS = ("count", "labels", "file")
_KEYS_OF = {name: tuple(SECTIONS[name].model_fields) for name in ("weights", "policy", "mechanism")}
# The keys that the keyword of a section removes before it sets its own, in ``Study.replace``.
REPLACES: Mapping[str, tuple[str, ...]] = {
    **_KEYS_OF,
    "states": (*_LIST_KEYS, "bins"),
    "features": ("kind", "file", "matrix", "size"),
    "arms": ("labels",),
    "actions": _LIST_KEYS,
}
_REPLACES_LIKE = {"bins": "states", "size": "features"}  # alternatives to these keywords
# Keys that have no keyword of their own: only the keyword of their section sets them.
_SECTION_ONLY = {*_LIST_KEYS, *ROLES, "kind", "matrix", "values", "column", *_KEYS_OF["policy"]}
_NAMESAKES = {("mechanism", "name"), ("report", "unit")}  # their keyword sets another section's key


def place_keywords(keywords: Mapping[str, Any], sections: Sections | None = None) -> Sections:
    """Return the sections of a study.

    Args:
        keywords: as ``Study`` takes them; None resets a key to its default.
        sections: of an existing study, which the keywords change.
    """
    result = {name: dict(keys) for name, keys in (sections or {}).items()}
    for word in keywords:
        if word not in KEYWORDS:
            column = f'columns={{"{word}": NAME}} names a column'
            hint = column if word in ROLES else suggest(word, KEYWORDS)
            raise refusal("key-unknown", word, "keyword", hint)
        section = _REPLACES_LIKE.get(word, word)
        for name in REPLACES.get(section, ()):
            result.get(section, {}).pop(name, None)
    for word, value in keywords.items():
        for name, keys in KEYWORDS[word](value).items():
            result.setdefault(name, {}).update(keys)
    return result


def _file_or(section: str, name: str, value: Any) -> Sections:
    """Return the key that a value sets: a file, a number of labels, or the key of this name."""
    if isinstance(value, str):
        return {section: {"kind" if (section, value) == ("weights", "uniform") else "file": value}}
    is_count = name == "labels" and isinstance(value, Integral)
    return {section: {"count" if is_count else name: value}}


def _policy(value: Any) -> Sections:
    if not isinstance(value, Mapping | None):
        raise refusal("section-invalid", "policy", format_value(value))
    return {"policy": dict(value or {})}


def _columns(value: Any) -> Sections:
    """Return the keys that name columns; the column of the arm is a key of another section."""
    names, roles = value or {}, (*ROLES, "arm")
    if not isinstance(names, Mapping) or not set(names) <= set(roles):
        raise refusal("columns-invalid", format_value(value), ", ".join(roles))
    keys: Sections = {"data": {role: name for role, name in names.items() if role != "arm"}}
    return keys | ({"arms": {"column": names["arm"]}} if "arm" in names else {})


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
        if name not in _SECTION_ONLY and (section, name) not in _NAMESAKES
    },
}
