"""Write labels so that no spreadsheet takes one for a formula.

A cell that begins with =, +, - or @ is a formula to a spreadsheet, which may then send away what
else it holds. The usual remedy is an apostrophe before it, which spreadsheets take for "this is
text". A number is a number, and a sign alone is a sign: -1 and - stay as they are.
"""

import re
import unicodedata

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def as_cell(label: str) -> str:
    """Return a label as a cell of a table that people open.

    >>> [as_cell(label) for label in ("well", "=1+1", "-1", "-", "- none -", "'=1+1", "'s")]
    ['well', "'=1+1", '-1', '-', "'- none -", "''=1+1", "'s"]
    """
    if label[:1].isalnum() or len(label) == 1 or _NUMBER.fullmatch(label):
        return label  # a sign alone does nothing
    return "'" + label if _begins_a_formula(label) else label


def _begins_a_formula(label: str) -> bool:
    """Return whether a spreadsheet may find a formula: behind what it skips, and in any width."""
    bare = label.lstrip("'")
    if bare[:1] in {"\t", "\r", "\n"}:
        return True
    first = next((mark for mark in bare if mark != "'" and not _is_unseen(mark)), "")
    return unicodedata.normalize("NFKC", first)[:1] in {"=", "+", "-", "@"}


def _is_unseen(mark: str) -> bool:
    """Return whether a character shows nothing by itself: white space, a control, a joiner."""
    return unicodedata.category(mark)[0] in "CZM"
