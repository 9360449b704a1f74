"""List the core's files in reading order, with what each is for and its lines of code.

The page on the guarantee shows this list, so that a reviewer knows what to read and how long it is.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

from docs.make import ROOT

CORE = ROOT / "src" / "privalue" / "core"
PAGE = ROOT / "docs" / "guarantee.md"
ORDER = [
    "limits.py",
    "_contributions.py",
    "_design.py",
    "_least_squares.py",
    "_maximum.py",
    "_sensitivity_lsw.py",
    "_sensitivity_lsl.py",
    "_blocks.py",
    "_sensitivity_ssp.py",
    "_profile.py",
    "_calibration.py",
    "_noise.py",
    "mechanisms.py",
    "_private.py",
    "_arrays.py",
    "_kernels.py",
    "__init__.py",
]
_TABLE = re.compile(r"\| file \| lines of code \| what it does \|\n(?:\|.*\n)+")
_TOTAL = re.compile(r"\*\*[\d,]+ lines of code\*\*")


def guarantee() -> str:
    """Return the page on the guarantee with the core's files as they are."""
    missing = {path.name for path in CORE.glob("*.py")} ^ set(ORDER)
    if missing:
        raise ValueError(f"docs/make/core_files.py does not know of {', '.join(sorted(missing))}")
    sizes = {name: lines_of_code(CORE / name) for name in ORDER}
    rows = [
        f"| `core/{name}` | {lines} | {_first_line(CORE / name)} |" for name, lines in sizes.items()
    ]
    table = "\n".join(["| file | lines of code | what it does |", "|---|---|---|", *rows, ""])
    text = _TABLE.sub(lambda _: table, PAGE.read_text(encoding="utf-8"))
    return _TOTAL.sub(f"**{sum(sizes.values()):,} lines of code**", text)


def _first_line(path: Path) -> str:
    """Return the first line of a module's docstring."""
    described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return described.splitlines()[0].rstrip(".")


def lines_of_code(path: Path) -> int:
    """Count the lines that hold code: no blank ones, no comments, no docstrings."""
    text = path.read_text(encoding="utf-8")
    described = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            described |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    used = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent and token.string:
            used |= set(range(token.start[0], token.end[0] + 1))
    return len(used - described)
