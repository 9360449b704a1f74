"""Only ``noise.py`` asks for entropy: no other module of the core names a source of it.

The scan goes by names and by texts without blanks, whatever alias or call stands before them.
"""

import ast
import io
import re
import tokenize
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
    "SFC64", "rvs", "resample", "random_state", "qmc", "hwrng",
}  # fmt: skip


def names_of_entropy(source: str) -> list[str]:
    """Each place where the source names a source of entropy, as ``line: name``."""
    places = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = token.type == tokenize.STRING and " " not in token.string
        if is_text or token.type == tokenize.NAME:
            names = re.findall(r"\w+", token.string)
            places += [f"{token.start[0]}: {name}" for name in names if name in FORBIDDEN]
    return places


def modules() -> list[str]:
    paths = (path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")))
    names = (path.as_posix() for path in paths if path.parts[0] not in MAY_DRAW)
    return [name for name in names if name != NOISE]


@pytest.mark.parametrize("module", modules())
def test_no_module_but_noise_asks_for_entropy(module):
    assert names_of_entropy((SOURCE / module).read_text(encoding="utf-8")) == []


# The modules that use the operating system's source, and what for.
MAY_ASK = {
    "core/__init__.py": "it is exported",
    "core/mechanisms.py": "a draw before the charge, so that everything is compiled",
    "curator.py": "the noise of a release",
    "ledger/entries.py": "unpredictable bytes, so that no head can be searched",
    "ledger/ledger.py": "unpredictable bytes, of a charge of another tool",
    "ledger/store.py": "how long a writer pauses",
}


def test_few_modules_take_the_private_source_from_noise():
    asking = [
        module
        for module in modules()
        if "OperatingSystemEntropy" in (SOURCE / module).read_text(encoding="utf-8")
    ]
    assert set(asking) == set(MAY_ASK)


def test_noise_names_entropy_in_its_source_only():
    tree = ast.parse((SOURCE / NOISE).read_text(encoding="utf-8"))
    sources = {}
    for node in list(tree.body):
        if isinstance(node, ast.ClassDef) and names_of_entropy(ast.unparse(node)):
            places = names_of_entropy(ast.unparse(node))
            sources[node.name] = {place.split(": ")[1] for place in places}
            tree.body.remove(node)
    assert sources == {"OperatingSystemEntropy": {"urandom"}}
    assert names_of_entropy(ast.unparse(tree)) == []


@pytest.mark.parametrize(
    "snippet",
    [
        "import random",
        "import secrets",
        "import numpy.random as npr",
        "from numpy import random as npr",
        "import numpy as np\nx = np.random.normal()",
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
