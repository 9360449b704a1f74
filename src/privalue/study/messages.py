"""Build the errors of a study, with the texts of two files beside this module.

``messages.toml`` has the message of each error code; ``keys.toml`` has for each key its meaning,
the values that it allows, and an example.
"""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from privalue.errors import StudyError, read_texts


def describe_key(section: str, key: str) -> Mapping[str, Any]:
    """Return the entry of a key in ``keys.toml``: "about", "allowed", mostly "example"."""
    return dict(read_texts(__file__, "keys.toml")[section][key])


def refusal(code: str, /, *values: object, s: object = None, **details: Any) -> StudyError:
    """Return the error of this code.

    Args:
        code: of the error; its message is in ``messages.toml``.
        values: for the placeholders of the message, in order.
        s: the study, which some messages quote.
        details: ``argument`` and ``hint``, as ``StudyError`` takes them.
    """
    message = read_texts(__file__, "messages.toml")[code].format(*values, s=s)
    return StudyError(message, code=code, **details)


def suggest(name: str, allowed: Collection[str]) -> str:
    """Return a hint for an unknown name: the most similar allowed one, or all of them."""
    near = difflib.get_close_matches(name, allowed, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(allowed)}"


def format_value(value: object) -> str:
    """Return a value as a study file writes it, shortened if it is long, for a message."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value[:20]))}]"
    try:
        text = f'"{value}"' if isinstance(value, str) else repr(value)
    except ValueError:  # Python refuses to print a number of thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
