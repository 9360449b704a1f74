"""Import less than libraries would by themselves: what nobody uses is not loaded with them.

These are settings of a whole process, so the command line makes them, and the library never does.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# SciPy copies all names of NumPy, and to look at these loads them.
_UNUSED = {"f2py", "ma", "testing"}


class _Nothing:
    """A docstring's sections, to which anything may be added, and which say nothing."""

    def __init__(self, _: object) -> None: ...

    def __getitem__(self, _: str) -> list[str]:
        return []

    def __str__(self) -> str:
        return "\n"


def import_lightly() -> None:
    """Import SciPy without what only its copy of NumPy's names would load, nor its own notes.

    Whoever asks NumPy for these modules gets them, before and after.
    """
    import numpy as np  # noqa: PLC0415 - ``--help`` needs none of it

    listed = np.__all__
    known: set[str] = getattr(np, "__numpy_submodules__", set())
    hidden = _UNUSED & known
    try:
        np.__all__ = [name for name in listed if name not in _UNUSED]
        known -= hidden
        import scipy.sparse  # noqa: PLC0415
    finally:
        np.__all__ = listed
        known |= hidden
    try:
        with _undocumented(scipy):
            import scipy.special  # noqa: PLC0415
    except Exception:  # another version of SciPy, which wants its documentation: as it comes
        sys.modules.pop("scipy.special", None)


@contextmanager
def _undocumented(scipy: Any) -> Iterator[None]:
    """Have SciPy leave out its notes on array libraries, for which it parses every docstring."""
    home = getattr(getattr(scipy, "_lib", None), "_array_api", None)
    parser = getattr(home, "FunctionDoc", None)
    if parser is None:
        yield
        return
    home.FunctionDoc = _Nothing  # type: ignore[union-attr]
    try:
        yield
    finally:
        home.FunctionDoc = parser  # type: ignore[union-attr]
