"""Enter a room of the package when it is first used: to import them all takes a while.

A release reads rows before it needs the rooms that come after them; the command line has another
thread import these meanwhile.
"""

from importlib import import_module
from typing import Any


class Room:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
