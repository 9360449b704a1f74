"""Write YAML, as much of it as a registry entry needs; texts are quoted as in JSON, or are blocks.

Quoted texts of JSON are valid YAML, except for characters that YAML does not print: those are
escaped, and nothing is written as a pair of surrogates. A number keeps its point, because readers
of YAML 1.1 take it for a text without one.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Characters that JSON does not escape, but that YAML 1.1 or 1.2 forbids or takes for line ends.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_BLOCK = re.compile(r"[!-~]([ -~]*[!-~])?(\n[!-~]([ -~]*[!-~])?)+")
_KEY = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Unanswered:
    """A fact that the software does not know: null, and a comment that says who does."""

    comment: str


@dataclass(frozen=True)
class Verbatim:
    """What stands behind a key in another document, line by line, the first behind the colon."""

    lines: tuple[str, ...]


def to_yaml(value: Mapping[str, object], comment: str = "") -> str:
    """Return the text of a document; its comment comes first.

    >>> print(to_yaml({"name": "a trial", "epsilon": 1.0}, "An entry."), end="")
    # An entry.
    name: "a trial"
    epsilon: 1.0
    """
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + "\n".join(_mapping(value, 0)) + "\n"


def _mapping(value: Mapping[str, object], depth: int) -> list[str]:
    """Return the lines of a mapping."""
    lines = []
    for key, inner in value.items():
        assert _KEY.fullmatch(key), key
        lines += _entry(f"{'  ' * depth}{key}:", inner, depth)
    return lines


def _entry(head: str, value: object, depth: int) -> list[str]:
    """Return the lines of a key and its value."""
    if isinstance(value, Mapping):
        return [head, *_mapping(value, depth + 1)] if value else [f"{head} {{}}"]
    if isinstance(value, Sequence) and not isinstance(value, str):
        lines = [head] if value else [f"{head} []"]
        for inner in value:
            if isinstance(inner, Mapping):
                first, *rest = _mapping(inner, depth + 2)
                lines += [f"{'  ' * (depth + 1)}- {first.lstrip()}", *rest]
            else:
                lines.append(f"{'  ' * (depth + 1)}- {_scalar(inner)}")
        return lines
    if isinstance(value, str) and _BLOCK.fullmatch(value):
        return [f"{head} |-", *(f"{'  ' * (depth + 1)}{line}" for line in value.split("\n"))]
    if isinstance(value, Verbatim):
        first, *rest = value.lines
        return [f"{head}{first}", *(f"{'  ' * depth}{line}".rstrip() for line in rest)]
    if isinstance(value, Unanswered):
        return [f"{head} null  # {value.comment}"]
    return [f"{head} {_scalar(value)}"]


def _scalar(value: object) -> str:
    """Return a value that fits on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        assert math.isfinite(value)
        mantissa, mark, exponent = repr(value).partition("e")
        if mark and "." not in mantissa:
            mantissa += ".0"
        return f"{mantissa}{mark}{exponent if not mark or exponent[0] in '+-' else '+' + exponent}"
    assert isinstance(value, str), type(value)
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
