"""Labels in tables that people open: none is a formula."""

import pytest

from privalue.report.spreadsheets import as_cell


@pytest.mark.parametrize(
    "unseen", ["\ufeff", "\u200b", "\u00ad", "\u2060", "\0", " ", "\u00a0", "\U000e0001", "\u200b'"]
)
def test_a_formula_behind_invisible_characters_is_escaped(unseen):
    for sign in "=+-@\uff1d\ufe66":
        for label in (f"{unseen}{sign}1+1", f"'{unseen}{sign}1+1", f"{unseen}{unseen}{sign}x"):
            assert as_cell(label) == "'" + label
    assert as_cell(f"{unseen}a") == f"{unseen}a"
