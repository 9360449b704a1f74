"""Write studies as TOML, with every key explained by the models, so that none falls behind."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from privalue.study import sections
from privalue.study.columns import Columns
from privalue.study.sections import Section, about

# The sections of a study, in the order of the file.
SECTIONS: Mapping[str, type[Section]] = {
    "study": sections.About,
    "privacy": sections.Privacy,
    "values": sections.Values,
    "states": sections.States,
    "features": sections.Features,
    "weights": sections.Weights,
    "arms": sections.Arms,
    "actions": sections.Actions,
    "policy": sections.TargetPolicy,
    "mechanism": sections.Mechanism,
    "report": sections.Report,
    "data": Columns,
}
# The keys that a new study begins with, at their examples; it runs on the built-in chain.
_BEGIN = {
    "study": ("name",),
    "privacy": ("epsilon", "delta", "unit", "neighbours"),
    "values": ("discount", "rewards", "returns"),
    "states": ("count",),
    "features": ("kind",),
    "weights": ("kind",),
    "mechanism": ("name",),
}


def study_template(
    changes: Mapping[tuple[str, str], str] | None = None,
    questions: Mapping[tuple[str, str], str] | None = None,
    *,
    begin: Mapping[str, tuple[str, ...]] = _BEGIN,
    every: bool = True,
) -> str:
    """Return a study file with its keys explained.

    Args:
        changes: TOML values by (section, key), in place of those that a new study begins with.
        questions: comments by (section, key), written above the key, for a person to answer.
        begin: the keys that a new study begins with.
        every: whether keys that are not used are there, too, as comments.
    """
    changes, questions = changes or {}, questions or {}
    lines = ["# This file says what is public about a study, and nothing else; no data adds to it."]
    if every:
        lines.append("# A line that starts with # shows a key that you may use; other lines apply.")
    for section, model in SECTIONS.items():
        body = list[str]()
        for key, field in model.model_fields.items():
            example = about(field, "example")
            value = changes.get((section, key), example if key in begin.get(section, ()) else None)
            if value is None and (not every or not example):
                continue
            if (section, key) in questions:
                body.append(f"# ? {questions[section, key]}")
            line = f"# {key} = {example}" if value is None else f"{key} = {value}"
            body.append(f"{line}  # {_explanation(field)}")
        if body:
            lines += ["", f"[{section}]", *body]
    return "\n".join(lines) + "\n"


def _explanation(field: FieldInfo) -> str:
    """Return what a key means and what is allowed."""
    meaning = field.description or ""
    return f"{meaning[:1].upper()}{meaning[1:]}. Allowed: {about(field, 'allowed')}"


def to_toml(value: Any) -> str:
    """Return a value of the study as TOML writes it.

    >>> to_toml({"ill": 0.5, "very ill": 1e-6}), to_toml([1, True])
    ('{ "ill" = 0.5, "very ill" = 1e-06 }', '[1, true]')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inside = ", ".join(f"{to_toml(str(key))} = {to_toml(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    return repr(value)
