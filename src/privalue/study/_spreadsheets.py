"""Write labels so that no spreadsheet takes one for a formula, and read them back.

A cell that begins with =, +, - or @ is a formula to a spreadsheet, which may then send away what
else it holds. The usual remedy is an apostrophe before it, which spreadsheets take for "this is
text". A number is a number, and a sign alone is a sign: -1 and - stay as they are.
"""

import re

# As they are typed, in full width, and behind what a spreadsheet skips.
_FORMULA = re.compile("[=+\\-@\uff1d\uff0b\uff0d\uff20\t\r\n]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def as_cell(label: str) -> str:
    """Return a label as a cell of a table that people open.

    >>> [as_cell(label) for label in ("well", "=1+1", "-1", "-", "- none -", "'=1+1", "'s")]
    ['well', "'=1+1", '-1', '-', "'- none -", "''=1+1", "'s"]
    """
    bare = label.lstrip("'")
    harmless = len(label) == 1 or _NUMBER.fullmatch(label)  # a sign alone does nothing
    return label if harmless or not _FORMULA.match(bare) else "'" + label


def of_cell(cell: str) -> str:
    """Return the label that a cell stands for: the inverse of ``as_cell``.

    >>> [of_cell(cell) for cell in ("well", "'=1+1", "-1", "''=1+1", "'s")]
    ['well', '=1+1', '-1', "'=1+1", "'s"]
    """
    return cell[1:] if cell.startswith("'") and as_cell(cell[1:]) == cell else cell
