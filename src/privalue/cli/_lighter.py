"""Import less than libraries would by themselves: what nobody uses is not loaded with them.

These are settings of a whole process, so the command line makes them, and the library never does.
"""

import os

# SciPy copies all names of NumPy, and to look at these loads them.
_UNUSED = {"f2py", "ma", "testing"}


def import_lightly() -> None:
    """Import SciPy without what only its copy of NumPy's names would load, and no plugin.

    Whoever asks NumPy for these modules gets them, before and after.
    """
    # To look for plugins of Pydantic takes a file or more of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # NumPy's and SciPy's linear algebra both start a thread for each core, which look for work over
    # and over before they sleep (for 2^26 cycles): most commands have none for them.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    import numpy as np  # noqa: PLC0415 - ``--help`` needs none of it

    listed = np.__all__
    known: set[str] = getattr(np, "__numpy_submodules__", set())
    hidden = _UNUSED & known
    try:
        np.__all__ = [name for name in listed if name not in _UNUSED]
        known -= hidden
        import scipy.sparse  # noqa: F401, PLC0415
    finally:
        np.__all__ = listed
        known |= hidden
