"""Phrases that messages and pages do without."""

import ast
from pathlib import Path

import privalue

SOURCE = Path(privalue.__file__).parent
ROOT = SOURCE.parents[1]

# Phrases that only their author understood, and what to write instead.
RIDDLES = {
    "policy's one number": "overall value of the policy",
    "like the last, left": "further releases of this size",
    "is told": "is reported, is published, follows from",
    "is no file": "is not a file",
    "is no folder": "is not a directory",
    "for possible": "has narrowed it down to two possibilities",
}
ON_PAGES = {
    "hoever ": "the person who, anybody who, a role that",
    " rooms": "packages",
    "of no use": "useless",
    "people at large": "the population",
}


def found_in(text, phrases):
    """The phrases of a list that a text has."""
    return [phrase for phrase in phrases if phrase in text]


def test_messages_and_pages_have_no_riddles():
    """Strings that people see, docstrings included, and the pages of the documentation."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
        text = "\n".join(text for text in texts if isinstance(text, str))
        found[path.name] = found_in(text, RIDDLES)
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        if path.name != "CHANGELOG.md":
            found[path.name] = found_in(path.read_text(encoding="utf-8"), RIDDLES | ON_PAGES)
    assert {name: phrases for name, phrases in found.items() if phrases} == {}
    assert found_in("like the last, left: 1; the first one is told", RIDDLES) == [
        "like the last, left",
        "is told",
    ]
