"""Every code that the readers word has a sentence, whose braces are filled in."""

import ast
import string
import tomllib
from pathlib import Path

import privalue.readers

FOLDER = Path(privalue.readers.__file__).parent
SENTENCES = tomllib.loads((FOLDER / "messages.toml").read_text())


def worded():
    """(code or its beginning, the values' names) of every call; None where ** hands some over."""
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if name in {"render", "data_error"}:
                code, names = node.args[0], {keyword.arg for keyword in node.keywords}
                for one in [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]:
                    if isinstance(one, ast.Constant):
                        yield one.value, names


def test_every_code_has_a_sentence_and_its_values():
    for code, names in worded():
        assert code in SENTENCES
        found = [name for _, name, *_ in string.Formatter().parse(SENTENCES[code]) if name]
        braces = {name.partition("[")[0] for name in found}
        assert names == braces or (None in names and names - {None} <= braces), code
