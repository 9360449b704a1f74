"""Format the sentences of ``sentences.toml``, which plans and checks before a release print."""

from dataclasses import dataclass
from typing import Any, Literal

from privalue.errors import UsageError, read_texts

Severity = Literal["stop", "warn", "note"]


def _sentences() -> dict[str, Any]:
    return read_texts(__file__, "sentences.toml")


def sentence(section: str, name: str, /, **values: Any) -> str:
    """Return a sentence, with the names in braces replaced by values."""
    return str(_sentences()[section][name].format(**values))


def question_error(code: str, **values: Any) -> UsageError:
    """Return the error for a combination of arguments that no plan answers."""
    hint = _sentences()["hint"].get(code, "")
    return UsageError(sentence("question", code, **values), code=code, hint=hint)


@dataclass(frozen=True, kw_only=True)
class PlanNotice:
    """A remark on a plan, with a stable code."""

    code: str
    severity: Severity
    text: str


def notice(code: str, **values: Any) -> PlanNotice:
    """Return the notice of a code."""
    entry = _sentences()["notices"][code]
    text = entry["text"].format(**values)
    return PlanNotice(code=code, severity=entry["severity"], text=text)
