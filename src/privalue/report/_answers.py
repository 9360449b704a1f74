"""Keep what a curator wrote into a ``registry.yaml`` when it is made again.

An entry leaves some keys null, with a comment that says who knows. Whatever stands there instead is
the curator's: it goes into the new file as it is, line by line, so that nothing of YAML has to be
understood for it. Only the justification is read as a text as well, for the page shows it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privalue.errors import UsageError
from privalue.ledger.files import read_whole
from privalue.report._yaml import Unanswered, Verbatim

JUSTIFICATION = ("deployment", "implementation", "justification")
_MOST = 16_000_000  # bytes of a registry entry
_KEY = re.compile(r"( *)([a-z][a-z0-9_]*):(?=\s|$)(.*)")
_COMMENT = re.compile(r"(^|\s)#.*$")
_BLOCK = re.compile(r"\s*([|>])[-+]?\s*(#.*)?")


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What an entry says, by the path of its keys; empty if there is no entry."""

    lines: Mapping[tuple[str, ...], Verbatim] = field(default_factory=dict)

    @property
    def justification(self) -> str | None:
        """Return the justification as a text; None if there is none, or if it is no plain text."""
        kept = self.lines.get(JUSTIFICATION)
        return None if kept is None or _is_null(kept) else _text_of(kept)

    @property
    def unread(self) -> bool:
        """Return whether there is a justification, but not as a text that the page could show."""
        kept = self.lines.get(JUSTIFICATION)
        return kept is not None and not _is_null(kept) and self.justification is None

    def into(self, entry: Mapping[str, Any], *above: str) -> dict[str, Any]:
        """Return an entry with what a curator answered in place of what is unanswered."""
        answered: dict[str, Any] = {}
        for key, value in entry.items():
            kept = self.lines.get((*above, key))
            if isinstance(value, Mapping):
                answered[key] = self.into(value, *above, key)
            elif isinstance(value, Unanswered) and kept is not None and not _is_null(kept):
                answered[key] = kept
            else:
                answered[key] = value
        return answered


def answers_in(file: Path) -> Answers:
    """Return what an entry says, for the next one to keep.

    Raises:
        UsageError: the file is there and cannot be read; what a curator wrote would be lost.
    """
    try:
        text = read_whole(file, _MOST).decode("utf-8-sig")
    except FileNotFoundError:
        return Answers()
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"{file} cannot be read as UTF-8 text, and what a curator wrote in it would be lost; "
            "save it as such, or move it"
        ) from None
    return Answers(lines=dict(_keys(re.split(r"\r?\n", text))))


def _keys(lines: list[str]) -> Iterator[tuple[tuple[str, ...], Verbatim]]:
    """Yield the path of every key, with its lines."""
    above: list[tuple[int, str]] = []
    at = 0
    while at < len(lines):
        found = _KEY.fullmatch(lines[at])
        at += 1
        if found is None:
            continue
        indent, key, first = len(found[1]), found[2], found[3]
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, key))
        end = at
        while end < len(lines) and _continues(lines[end], indent):
            end += 1
        while end > at and not lines[end - 1].strip():
            end -= 1
        rest = tuple(line[indent:].rstrip() for line in lines[at:end])
        yield tuple(name for _, name in above), Verbatim((first.rstrip(), *rest))
        if first.strip() and not first.lstrip().startswith("#"):
            at = end  # lines of a text, whatever they look like


def _continues(line: str, indent: int) -> bool:
    """Return whether a line belongs to a key so far in: deeper, empty, or an item of its list."""
    inner = len(line) - len(line.lstrip(" "))
    return not line.strip() or inner > indent or (inner == indent and line[inner:][:2] == "- ")


def _is_null(kept: Verbatim) -> bool:
    """Return whether nothing is answered."""
    first, *rest = (_COMMENT.sub("", line).strip() for line in kept.lines)
    return first in {"", "null", "Null", "NULL", "~"} and not any(rest)


def _text_of(kept: Verbatim) -> str | None:
    """Return the text that the lines of a key mean, None if they are no text, or a rare kind."""
    first, *rest = kept.lines
    block = _BLOCK.fullmatch(first)
    if block is not None:
        margin = min((len(line) - len(line.lstrip(" ")) for line in rest if line), default=0)
        lines = [line[margin:] for line in rest]
        return "\n".join(lines) if block[1] == "|" else _folded(lines)
    whole = _folded([line.strip() for line in kept.lines if line.strip()])
    quoted = re.fullmatch(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*')(\s+#.*)?", whole)
    if quoted is not None and quoted[1].startswith("'"):
        return quoted[1][1:-1].replace("''", "'")
    if quoted is not None:
        try:
            return str(json.loads(quoted[1], strict=False))
        except ValueError:
            return None
    plain = _folded([_COMMENT.sub("", line).strip() for line in kept.lines]).strip()
    return None if re.match(r"[-?:]\s|[\[\]{},&*!|>'\"%@`]", plain) else plain


def _folded(lines: list[str]) -> str:
    """Return lines as one; an empty one ends a paragraph."""
    return re.sub(r"\n+ ?", "\n", " ".join(line or "\n" for line in lines)).replace(" \n", "\n")
