"""List the core's files in reading order, with what each is for.

The page on the guarantee shows this list, so that a reviewer knows what to read.
"""

import ast
import re
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
_TABLE = re.compile(r"\| file \| what it does \|\n(?:\|.*\n)+")


def guarantee() -> str:
    """Return the page on the guarantee with the core's files as they are."""
    missing = {path.name for path in CORE.glob("*.py")} ^ set(ORDER)
    if missing:
        raise ValueError(f"docs/make/core_files.py does not know of {', '.join(sorted(missing))}")
    rows = [f"| `core/{name}` | {_first_line(CORE / name)} |" for name in ORDER]
    table = "\n".join(["| file | what it does |", "|---|---|", *rows, ""])
    return _TABLE.sub(lambda _: table, PAGE.read_text(encoding="utf-8"))


def _first_line(path: Path) -> str:
    """Return the first line of a module's docstring."""
    described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return described.splitlines()[0].rstrip(".")
