"""Tell names of datasets apart as people do: two that look alike would be two budgets."""

import difflib
import unicodedata
from collections.abc import Iterable

_MINUS = "\u2212\u2043"  # that are no dashes by their category


def look_alike(name: str, known: Iterable[str]) -> str | None:
    """Return a known name that differs from this one only in how it is written, or None.

    >>> look_alike("Trial 2026", ["others", "trial  2026"])
    'trial  2026'
    """
    drawn = _drawn(name)
    return next((each for each in known if each != name and _drawn(each) == drawn), None)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that this one was probably meant to be, or None; for messages alone.

    >>> nearest("Trail-2026", ["others", "trial-2026"])
    'trial-2026'
    """
    drawn = {_drawn(each): each for each in known}
    found = difflib.get_close_matches(_drawn(name), drawn, n=1, cutoff=0.75)
    return drawn[found[0]] if found else None


def _drawn(name: str) -> str:
    """Return a name without what the eye passes over: case, width, composition, dashes, spaces."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    dashed = (
        "-" if each in _MINUS or unicodedata.category(each) == "Pd" else each for each in plain
    )
    return " ".join("".join(dashed).split())
