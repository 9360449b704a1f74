"""Format the sentences of ``sentences.toml``, which plans and checks before a release print."""

from dataclasses import dataclass
from typing import Any, Literal

from privalue.errors import UsageError, read_texts

Severity = Literal["stop", "warn", "note"]


def _sentences() -> dict[str, Any]:
    return read_texts(__file__, "sentences.toml")


def say(section: str, sentence: str, /, **about: Any) -> str:
    """Return a sentence, with the names in braces replaced."""
    return str(_sentences()[section][sentence].format(**about))


def question(code: str, **about: Any) -> UsageError:
    """Return the error for a combination of arguments that no plan answers."""
    hint = read_texts(__file__, "sentences.toml")["hint"].get(code, "")
    return UsageError(say("question", code, **about), code=code, hint=hint)


@dataclass(frozen=True, kw_only=True)
class PlanNotice:
    """A remark on a plan, with a stable code."""

    code: str
    severity: Severity
    text: str


def notice(code: str, **about: Any) -> PlanNotice:
    """Return the notice of a code."""
    entry = _sentences()["notices"][code]
    text = entry["text"].format(**about)
    return PlanNotice(code=code, severity=entry["severity"], text=text)
