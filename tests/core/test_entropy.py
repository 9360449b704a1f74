"""Only ``noise.py`` asks for entropy: no other module of the core names a source of it.

The scan goes by names. An import spells the name of what it imports and an attribute its own,
whatever alias stands before it, so that no aliases have to be followed.
"""

import ast
from pathlib import Path

import pytest

import privalue

SOURCE = Path(privalue.__file__).parent
NOISE = "core/noise.py"
# These simulate, and make no release: import-linter keeps them out of the core.
MAY_DRAW = ("simulation", "cli", "paper", "audit.py", "planning")
FORBIDDEN = {
    "random", "secrets", "urandom", "getrandom", "SystemRandom", "uuid1", "uuid4", "RAND_bytes",
    "default_rng", "RandomState", "SeedSequence", "Philox", "PCG64", "PCG64DXSM", "MT19937",
    "SFC64", "rvs", "resample", "random_state", "qmc",
}  # fmt: skip
DEVICES = ("/dev/random", "/dev/urandom", "/dev/hwrng")
IMPORTERS = {"__import__", "import_module", "getattr", "attrgetter"}


def names_of_entropy(source: str) -> list[str]:
    """Each place where the source names a source of entropy, as ``line: name``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        named: list[str] = []
        if isinstance(node, ast.Import):
            named = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.ImportFrom):
            named = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            if "*" in named and node.module in {"os", "uuid", "numpy", "ssl"}:
                named.append("random")
        elif isinstance(node, ast.Attribute):
            named = [node.attr]
        elif isinstance(node, ast.keyword):
            named = [node.arg or ""]
        elif isinstance(node, ast.Call) and _name(node.func) in IMPORTERS:
            named = [part for text in _strings(node) for part in text.split(".")]
        elif isinstance(node, ast.Constant) and node.value in DEVICES:
            named = ["random"]
        found += [f"{node.lineno}: {name}" for name in named if name in FORBIDDEN]
    return found


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _strings(call: ast.Call) -> list[str]:
    values = (argument.value for argument in call.args if isinstance(argument, ast.Constant))
    return [value for value in values if isinstance(value, str)]


def modules() -> list[str]:
    paths = (path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")))
    named = (path.as_posix() for path in paths if path.parts[0] not in MAY_DRAW)
    return [name for name in named if name != NOISE]


@pytest.mark.parametrize("module", modules())
def test_no_module_but_noise_asks_for_entropy(module):
    assert names_of_entropy((SOURCE / module).read_text(encoding="utf-8")) == []


# Who takes the operating system's source from ``noise``, and what for.
MAY_ASK = {
    "core/__init__.py": "it is exported for those below",
    "curator.py": "the noise of a release",
    "ledger/entries.py": "bytes that nobody can guess, so that no head can be searched",
    "ledger/ledger.py": "bytes that nobody can guess, of a charge of another tool",
    "ledger/store.py": "how long a writer pauses",
}


def test_few_modules_take_the_private_source_from_noise():
    asking = [
        module
        for module in modules()
        if "OperatingSystemEntropy" in (SOURCE / module).read_text(encoding="utf-8")
    ]
    assert set(asking) == set(MAY_ASK)


def test_noise_names_entropy_in_its_two_sources_only():
    tree = ast.parse((SOURCE / NOISE).read_text(encoding="utf-8"))
    sources = {}
    for node in list(tree.body):
        if isinstance(node, ast.ClassDef) and names_of_entropy(ast.unparse(node)):
            found = names_of_entropy(ast.unparse(node))
            sources[node.name] = {place.split(": ")[1] for place in found}
            tree.body.remove(node)
    assert sources == {
        "OperatingSystemEntropy": {"urandom"},
        "SeededForExperimentsOnly": {"random", "Philox"},
    }
    assert names_of_entropy(ast.unparse(tree)) == []


@pytest.mark.parametrize(
    "snippet",
    [
        "import random",
        "import secrets",
        "import numpy.random as npr",
        "from numpy import random as npr",
        "import numpy as np\nx = np.random.normal()",
        "from numpy import *",
        "import os\nos.urandom(8)",
        "from os import urandom as noise",
        "import uuid\nuuid.uuid4()",
        "import ssl\nssl.RAND_bytes(8)",
        "from scipy import stats\nstats.norm.rvs(size=3)",
        "from scipy.stats import norm\ndraw = norm.rvs",
        "frame.sample(3, random_state=1)",
        "if True:\n    def f():\n        import random",
        "__import__('random')",
        "import importlib\nimportlib.import_module('secrets')",
        "import os\ngetattr(os, 'urandom')",
        "open('/dev/urandom', 'rb')",
    ],
)
def test_the_scan_catches(snippet):
    assert names_of_entropy(snippet)
