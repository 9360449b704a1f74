"""Escape labels that a spreadsheet would interpret as formulas.

Spreadsheets evaluate a cell that begins with =, +, - or @, and a formula can send the sheet's data
elsewhere. The usual remedy is a leading apostrophe, which marks a text. Numbers and single signs
are harmless: -1 and - are not changed.
"""

import re
import unicodedata

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def as_cell(label: str) -> str:
    """Return a label as a safe cell of a spreadsheet.

    >>> [as_cell(label) for label in ("well", "=1+1", "-1", "-", "- none -", "'=1+1", "'s")]
    ['well', "'=1+1", '-1', '-', "'- none -", "''=1+1", "'s"]
    """
    if label[:1].isalnum() or len(label) == 1 or _NUMBER.fullmatch(label):
        return label  # a single sign is not a formula
    return "'" + label if _begins_formula(label) else label


def _begins_formula(label: str) -> bool:
    """Return whether a spreadsheet may see a formula, also after skipped or full-width marks."""
    bare = label.lstrip("'")
    if bare[:1] in {"\t", "\r", "\n"}:
        return True
    visible = (mark for mark in bare if mark != "'" and unicodedata.category(mark)[0] not in "CZM")
    first = next(visible, "")
    return unicodedata.normalize("NFKC", first)[:1] in {"=", "+", "-", "@"}
