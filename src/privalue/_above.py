"""Fetch, when it is used, what stands in a room above.

A release, a study and an account show themselves in a notebook, and a release knows its flags; but
what draws, and the words of a flag, stand above them (``docs/decisions/0028-at-home.md``). Their
methods ask for it here, by name: nothing is imported before it is used, and no room imports one
that stands above it. ``tests/api/test_above.py`` checks that all that is asked for is there.
"""

from importlib import import_module
from typing import Any


def above(module: str, name: str) -> Any:
    """Return what a module of the package exports.

    Args:
        module: its name inside the package.
        name: of a function.
    """
    return getattr(import_module(f"privalue.{module}"), name)
