"""Every code that the readers use has a message, and every call has the values of its braces."""

import ast
import string
import tomllib
from pathlib import Path

import privalue.readers

FOLDER = Path(privalue.readers.__file__).parent
MESSAGES = tomllib.loads((FOLDER / "messages.toml").read_text())


def message_calls():
    """Yield the code and the names of the values of every call; None stands for ``**values``."""
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if name in {"render", "data_error"}:
                code, names = node.args[0], {keyword.arg for keyword in node.keywords}
                for one in [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]:
                    if isinstance(one, ast.Constant):
                        yield one.value, names


def test_every_code_has_a_message_and_its_values():
    for code, names in message_calls():
        assert code in MESSAGES
        fields = [name for _, name, *_ in string.Formatter().parse(MESSAGES[code]) if name]
        braces = {name.partition("[")[0] for name in fields}
        assert names == braces or (None in names and names - {None} <= braces), code
