"""The reference of the study file, made from the models."""

from pydantic_core import PydanticUndefined

from privalue.report.template import study_template
from privalue.study import NOT_BUILT, Study

_INTRODUCTION = """# The study file

What is public, and only that; TOML. The data never adds to it. `privalue init` writes one with
comments, `privalue check` says everything that can be said without data. Side files are keyed by
state label (`.npy` and `.npz` by position) and found beside the study file. A key that is unknown,
does not apply, or is not built yet is refused.

The pages here are made from the models that check the file.
"""


def study_reference() -> str:
    """Markdown: every section and key, what it means, what is allowed, and the default."""
    parts = [_INTRODUCTION]
    whole = {(entry.section, entry.key) for entry in NOT_BUILT if entry.value is None}
    values = {(entry.section, entry.key): str(entry.value) for entry in NOT_BUILT if entry.value}
    for section, described in Study.model_fields.items():
        model = described.annotation
        assert model is not None
        needed = "" if not described.is_required() else " (required)"
        parts.append(f"\n## [{section}]{needed}\n\n{described.description}\n")
        parts.append("\n| key | meaning | allowed | default |\n|---|---|---|---|\n")
        for key, field in model.model_fields.items():
            extra = field.json_schema_extra
            allowed = str(extra["allowed"]) if isinstance(extra, dict) else ""
            if (section, key) in whole:
                allowed += "; **not built yet**"
            elif (section, key) in values:
                allowed += f'; "{values[section, key]}" is **not built yet**'
            default = "required" if field.default is PydanticUndefined else _default(field.default)
            parts.append(f"| `{key}` | {field.description} | {allowed} | {default} |\n")
    parts.append(f"\n## A commented file\n\n```toml\n{study_template()}```\n")
    return "".join(parts)


def _default(value: object) -> str:
    return "none" if value is None else f"`{value}`"
