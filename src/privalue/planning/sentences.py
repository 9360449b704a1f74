"""Say what plans and releases say before any data is opened: sentences from ``sentences.toml``."""

from dataclasses import dataclass
from typing import Any, Literal

from privalue.errors import UsageError, read_texts

Severity = Literal["stop", "warn", "note"]


def _sentences() -> dict[str, Any]:
    return read_texts(__file__, "sentences.toml")


def say(section: str, sentence: str, /, **about: Any) -> str:
    """Return a sentence, with what it is about filled in."""
    return str(_sentences()[section][sentence].format(**about))


def question(code: str, **about: Any) -> UsageError:
    """Return the error of a question that cannot be answered."""
    hint = read_texts(__file__, "sentences.toml")["hint"].get(code, "")
    return UsageError(say("question", code, **about), code=code, hint=hint)


@dataclass(frozen=True, kw_only=True)
class PlanNotice:
    """Something that a reader should know."""

    code: str
    severity: Severity
    text: str


def notice(code: str, **about: Any) -> PlanNotice:
    """Return the notice of a code."""
    found = _sentences()["notices"][code]
    text = found["text"].format(**about)
    return PlanNotice(code=code, severity=found["severity"], text=text)
