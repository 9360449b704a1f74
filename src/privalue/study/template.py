"""Write a new study as TOML, with its keys explained by ``keys.toml``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment

from privalue.study.messages import describe_key
from privalue.study.sections import SECTIONS

Key = tuple[str, str]  # section and key


def study_template(
    changes: Mapping[Key, str] | None = None,
    questions: Mapping[Key, str] | None = None,
    *,
    full: bool = False,
) -> str:
    """Return a study file with its keys explained; unchanged, it describes the built-in chain.

    Args:
        changes: TOML values by (section, key), in place of those of a new study.
        questions: comments by (section, key), written above the key, for a person to answer.
        full: whether to add all other keys as comments, and the allowed values.
    """
    sections: dict[str, list[Mapping[str, Any]]] = {}
    for section, model in SECTIONS.items():
        for name in model.model_fields:
            entry = describe_key(section, name)
            begin = entry["example"] if "begin" in entry else None
            value = (changes or {}).get((section, name), begin)
            question = (questions or {}).get((section, name))
            if value or ("example" in entry and (full or question)):
                key = {**entry, "name": name, "value": value, "question": question}
                sections.setdefault(section, []).append(key)
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    environment = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    return environment.from_string(text).render(sections=sections, full=full)
