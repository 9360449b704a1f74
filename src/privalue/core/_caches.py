"""Where a user's caches are kept, on machines where nobody has a home, too."""

import os
from pathlib import Path


def user_cache() -> Path | None:
    """Return the user's folder for privalue's caches; None for whoever has no home.

    A name that is not absolute would mean a folder called "~" wherever the program happens to run.
    """
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    home = os.path.expanduser("~")  # it stays "~" where nobody knows the user
    if os.path.isabs(chosen):
        return Path(chosen) / "privalue"
    return Path(home) / ".cache" / "privalue" if os.path.isabs(home) else None
