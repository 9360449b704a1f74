"""Compile functions with Numba, and cache them on disk where a folder for that can be written."""

import os
from collections.abc import Callable
from typing import Any

from numba import njit

# Without a home Numba would make a folder called "~" in the current one.
_HAS_HOME = os.path.isabs(os.path.expanduser("~"))


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function when it is first called.

    Args:
        options: those of ``numba.njit``.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=_HAS_HOME, **options)(function)
        except RuntimeError:  # there is no folder that Numba can write to
            return njit(**options)(function)

    return compiled
