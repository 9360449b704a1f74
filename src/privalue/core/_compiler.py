"""Compile the kernels, and keep what was compiled where a machine has room for it.

Places are tried in turn for every kernel:

| place                          | where                                | used              |
|--------------------------------|--------------------------------------|-------------------|
| as configured                  | ``NUMBA_CACHE_DIR``                  | if it is writable |
| beside the source              | ``__pycache__``                      | if it is writable |
| the user's cache folder        | ``XDG_CACHE_HOME``, or ``~/.cache``  | if it is writable |
| beside the source, as it stands | what an installation brought along  | read only         |

Where none of them will do, kernels are compiled in memory, anew in every process. A place that
fails later (a full disk, a file cut short) costs time and nothing else: kernels are also compiled
after a charge, where nothing may fail.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, runtime


def compiled(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Return Numba's dispatcher of a function; ``options`` are those of ``numba.njit``."""
    dispatcher = numba.njit(**options)(function)
    with suppress(RuntimeError):  # no place will do
        dispatcher._cache = _KernelCache(function)
    return dispatcher


def user_cache() -> Path | None:
    """Return the user's folder for privalue's caches; None for whoever has no home.

    A name that is not absolute would mean a folder called "~" wherever the program happens to run.
    """
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    home = os.path.expanduser("~")  # it stays "~" where nobody knows the user
    if os.path.isabs(chosen):
        return Path(chosen) / "privalue"
    return Path(home) / ".cache" / "privalue" if os.path.isabs(home) else None


class _UserCache(caching.UserWideCacheLocator):  # type: ignore[misc]  # Numba has no types
    """The user's cache folder, if there is a user."""

    def get_cache_path(self) -> str:
        """Return the folder of this module's kernels; raise where nobody has a home."""
        folder = user_cache()
        if folder is None:
            raise FileNotFoundError
        return str(folder / "kernels" / self.get_suitable_cache_subpath(self._py_file))


class _AsItStands(caching.InTreeCacheLocator):  # type: ignore[misc]
    """What lies beside the source already; it is read, and cannot be added to."""

    def ensure_cache_path(self) -> None:
        """Raise unless the folder can be listed; Numba's own check would write to it."""
        os.listdir(self.get_cache_path())


class _Places(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """The places of the table above, in its order; Numba takes the first that will do."""

    _locator_classes = [  # noqa: RUF012 - Numba's name and shape
        caching.UserProvidedCacheLocator,
        caching.InTreeCacheLocator,
        _UserCache,
        _AsItStands,
    ]


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache, which nothing on the disk can make fail."""

    _impl_class = _Places

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return a kernel from the disk, or None: then it is compiled.

        Numba would first load all that it can compile. Compiled code needs its runtime alone.
        """
        try:
            runtime.rtsys.initialize(context)
            return self._load_overload(signature, context)
        except Exception:  # unreadable, cut short, or not what it seems
            return None

    def save_overload(self, *about: Any) -> None:
        """Keep a kernel on the disk; stop trying once that fails."""
        try:
            super().save_overload(*about)
        except Exception:
            self.disable()
