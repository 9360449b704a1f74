"""The words of the package: only the command line speaks of its commands and options.

Whoever calls the library from Python cannot act on an option: an error names the parameter, and
``privalue.cli._options`` translates.
"""

import ast
import re
from pathlib import Path

import privalue

SOURCE = Path(privalue.__file__).parent
COMMANDS = "demo|simulate|init|check|plan|ledger|inspect|release|report|refit|improve|reproduce"
SPOKEN = re.compile(rf"(?<![\w-])--[a-z]|\bprivalue ({COMMANDS})\b")

# What may name a command or an option outside of cli/, and why.
ALLOWED = {
    "_entry.py": "it answers for the command while that is still being imported",
    "report/_private_page.py": "the curator's page, likewise",
    "report/_registry.py": "a published file, likewise",
    "simulation/_icu_sepsis.py": "options of pip",
    "study/_study.py": "the command is the one way to get a study file written",
}


def spoken_in(path):
    """The strings of a module that name a command or an option, but for docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and SPOKEN.search(node.value)
    ]


def test_only_the_command_line_names_commands_and_options():
    found = {
        path.relative_to(SOURCE).as_posix(): spoken
        for path in SOURCE.rglob("*.py")
        if "cli" not in path.relative_to(SOURCE).parts and (spoken := spoken_in(path))
    }
    surplus = {name: spoken for name, spoken in found.items() if name not in ALLOWED}
    assert not surplus
    assert set(ALLOWED) == set(found)  # what is mended leaves the list


def test_the_check_itself_finds_what_it_looks_for(tmp_path):
    (tmp_path / "module.py").write_text(
        '"""It may say --here."""\nx = f"give {1} --memory 2GB"\ny = "privalue ledger show"\n'
    )
    assert len(spoken_in(tmp_path / "module.py")) == 2


# Names of classes that mean two things, where both rooms have a claim to them.
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
