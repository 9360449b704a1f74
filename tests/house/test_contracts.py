"""Four contracts: layers, no callables in private types, no private imports, published terms."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import numpy as np
import pytest

import privalue as pv
from oracles.private_types import instances
from oracles.studies import PROMISE
from privalue.core import Private

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "privalue"
HOLD_STATISTICS = {"privalue.curator"}


def modules(package):
    return sorted((SOURCE / package).rglob("*.py"))


def imports(path):
    """(module, name) of everything that a file imports from the package, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "privalue":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                (alias.name, None) for alias in node.names if alias.name.startswith("privalue")
            )


# 1. Layers


def test_the_core_imports_nothing_but_arithmetic():
    allowed = {"numpy", "scipy", "numba", "privalue", *sys.stdlib_module_names}
    for path in modules("core"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                assert name.split(".")[0] in allowed, (path, name)
        for module, _ in imports(path):
            allowed_module = module == "privalue.errors" or module.split(".")[1] == "core"
            assert allowed_module, (path, module)


# Besides what packages export, and modules at the root (``curator``, ``errors``, ``releases``):
OPEN = {  # modules that other packages and tests import
    "core": "calibration",
    "ledger": "addresses files",
    "planning": "audit",
    "report": "drawing folders",
}
FORMULAS = {  # each function has a slow twin, or a mistake is planted in it
    "core": "design kernel mechanisms noise sensitivity",
    "estimate": "flags improvements intervals off_policy pooling shrinkage stages values",
    "ledger": "amounts entries gaussian store terms",
    "paper": "chain claims experiments methods theory",
    "simulation": "walk",
    "study": "checks heuristics",
}
IN_PARTS = {  # tested in parts: cell by cell, batch by batch, a screen without a process
    "cli": "column_names console followup_commands release_commands terminal",
    "readers": "cells databases declaration local open rows spark",
    "report": "spreadsheets",
}


def deep_imports(path, own=""):
    """(package, module or name) of every import that a package does not export."""
    for module, name in imports(path):
        _, *below = [*module.split("."), *([] if name is None else [name])]
        package = below.pop(0) if below else ""
        is_package = (SOURCE / package / "__init__.py").exists()
        if package and is_package and package != own and below:
            exports = importlib.import_module(f"privalue.{package}").__all__
            if len(below) > 1 or below[0] not in exports:
                yield package, below[0]


def pairs(*lists):
    names = [item for modules in lists for item in modules.items()]
    return {(package, module) for package, modules in names for module in modules.split()}


def test_packages_import_what_others_export():
    paths = SOURCE.rglob("*.py")
    used = {x for path in paths for x in deep_imports(path, path.relative_to(SOURCE).parts[0])}
    assert used == pairs(OPEN)


def test_tests_import_what_packages_export():
    used = {x for path in (ROOT / "tests").rglob("*.py") for x in deep_imports(path)}
    assert used - pairs(OPEN, FORMULAS, IN_PARTS) == set()
    assert pairs(FORMULAS, IN_PARTS) - used == set()  # the lists only get shorter


# 2. Private types hold no callables


def contents(value, path="", visited=None):
    """Everything that can be reached from a value through fields, items and entries."""
    visited = set() if visited is None else visited
    if id(value) in visited:
        return
    visited.add(id(value))
    yield path, value
    if isinstance(value, str | bytes | int | float | np.ndarray | type(None)):
        return
    parts = []
    if isinstance(value, dict):
        parts = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = [(f"{path}[{at}]", item) for at, item in enumerate(value)]
    if type(value).__module__.startswith("privalue"):
        slots = [s for kind in type(value).__mro__ for s in getattr(kind, "__slots__", ())]
        names = {*slots, *getattr(value, "__dict__", {})}
        parts += [(f"{path}.{n}", getattr(value, n)) for n in names if hasattr(value, n)]
    for where, item in parts:
        yield from contents(item, where, visited)


def callables(value):
    return [
        path
        for path, item in contents(value)
        if callable(item) or inspect.isgenerator(item) or hasattr(item, "__next__")
    ]


def private_types():
    for module in pkgutil.walk_packages(pv.__path__, "privalue."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    kinds, types = [Private], []
    while kinds:
        kinds = [below for kind in kinds for below in kind.__subclasses__()]
        types += kinds
    # @dataclass(slots=True) makes a second class of the same name and forgets the first
    return {kind.__qualname__ for kind in types if kind.__module__.startswith("privalue")}


def test_there_is_an_instance_of_every_private_type():
    assert set(instances()) == private_types()


@pytest.mark.parametrize("name", sorted(instances()))
def test_no_private_type_holds_a_callable(name):
    assert callables(instances()[name]) == []


def test_a_planted_closure_is_found():
    @dataclasses.dataclass
    class Planted:
        inner: object

    Planted.__module__ = "privalue.core"
    secret = [1, 2, 3]
    assert callables(Planted({"a": [lambda: secret]})) == [".inner['a'][0]"]
    assert callables(Planted(secret.append)) == [".inner"]
    assert callables(Planted(x for x in secret)) == [".inner"]
    assert callables(Planted(secret)) == []


# 3. Public packages import no private type


@pytest.mark.parametrize("package", ["estimate", "report"])
def test_public_packages_import_no_private_type(package):
    private = private_types()
    for path in modules(package):
        for module, name in imports(path):
            assert module not in HOLD_STATISTICS or not (name is None or name in private), (
                path,
                module,
                name,
            )
            assert name not in private, (path, module, name)
            value = getattr(importlib.import_module(module), name) if name else None
            parts = vars(value).values() if inspect.ismodule(value) else [value]
            assert not any(isinstance(x, type) and issubclass(x, Private) for x in parts), path
            assert module.split(".")[1] != "readers", path


# 4. The terms of a release are those that the core used


def two_states(name, epsilon=1.0):
    bounds = {"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)}
    return pv.Study(**{**PROMISE, "epsilon": epsilon}, **bounds, states=2, mechanism=name)


def test_the_terms_in_a_release_are_those_that_the_core_used(monkeypatch):
    """A mistake in parsing gives a release that says what was really done."""
    data = [[(0, 0.5), (1, 1.0)]] * 400
    study = two_states("dp-ssp", epsilon=0.5)
    seed = pv.SeededForExperimentsOnly
    honest = pv.release(study, data, entropy=seed(1))
    assert honest.terms["epsilon"] == 0.5
    assert honest.terms["return_bounds"] == list(study.values.return_bounds)
    curator = importlib.import_module("privalue.curator")
    right = curator.resolve

    def planted(*args):
        """A parser that doubles epsilon."""
        return dataclasses.replace(right(*args), epsilon=1.0)

    monkeypatch.setattr(curator, "resolve", planted)
    wrong = pv.release(study, data, entropy=seed(1))
    assert wrong.privacy.epsilon == 0.5  # what the study says
    assert wrong.terms["epsilon"] == 1.0  # what was done
    assert wrong.noise.alpha < honest.noise.alpha
