"""The words of the package: the names of classes, and phrases to avoid."""

import ast
from pathlib import Path

import privalue

SOURCE = Path(privalue.__file__).parent
# Names of classes that mean two things, where both packages have a claim to them.
TWICE = {"Source"}


def test_the_name_of_a_class_means_one_thing():
    found = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name.lstrip("_"), []).append(path.name)
    assert {name: at for name, at in found.items() if len(at) > 1 and name not in TWICE} == {}


# Phrases that only their author understood, and what to write instead.
RIDDLES = {
    "policy's one number": "overall value of the policy",
    "like the last, left": "further releases of this size",
    "is told": "is reported, is published, follows from",
    "is no file": "is not a file",
    "is no folder": "is not a directory",
    "for possible": "has narrowed it down to two possibilities",
}


def riddles_in(text):
    """The phrases of the list that a text has."""
    return [phrase for phrase in RIDDLES if phrase in text]


def test_messages_and_pages_have_no_riddles():
    """Strings that people see, docstrings included, and the pages of the documentation."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        texts = [each.value for each in nodes if isinstance(each, ast.Constant)]
        found[path.name] = riddles_in("\n".join(text for text in texts if isinstance(text, str)))
    pages = SOURCE.parents[1] / "docs"
    for path in (*pages.glob("*.md"), *pages.glob("*/*.md")):
        found[path.name] = riddles_in(path.read_text(encoding="utf-8"))
    assert {name: riddles for name, riddles in found.items() if riddles} == {}
    assert riddles_in("like the last, left: 1; the first one is told") == [
        "like the last, left",
        "is told",
    ]
