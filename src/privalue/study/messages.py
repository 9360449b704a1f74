"""Say why a study is refused, in the words of two files beside this one.

``messages.toml`` has a message for each code of an error, and ``keys.toml`` says what each key is
about, what is allowed, and gives an example.
"""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from privalue.errors import StudyError, read_texts


def describe_key(section: str, key: str) -> Mapping[str, Any]:
    """Return what ``keys.toml`` says of a key: "about", "allowed", mostly "example"."""
    described: Mapping[str, Any] = read_texts(__file__, "keys.toml")[section][key]
    return described


def refusal(code: str, /, *values: object, s: object = None, **details: Any) -> StudyError:
    """Return the error of this code.

    Args:
        code: of its message.
        values: what fills in the message.
        s: the study, which some messages quote.
        details: ``argument`` and ``hint``, as ``StudyError`` takes them.
    """
    message = read_texts(__file__, "messages.toml")[code].format(*values, s=s)
    return StudyError(message, code=code, **details)


def meant(written: str, known: Collection[str]) -> str:
    """Return the known names that are similar to an unknown one, or all of them."""
    near = difflib.get_close_matches(written, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def format_value(value: object) -> str:
    """Return a value as a study file has it, cut if it is long, for a message."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value[:20]))}]"
    try:
        text = f'"{value}"' if isinstance(value, str) else repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(problem: BaseException) -> str:
    """Return what an error says, in one line that is not too long."""
    text = getattr(problem, "strerror", None) or str(problem)
    return " ".join(text.split())[:200]
