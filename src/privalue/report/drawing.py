"""Import Matplotlib in one place, and without messages. Extra: ``pictures``.

Where a user has no home directory, Matplotlib keeps its caches in a directory that is gone with the
process, and complains about it on stderr. The user can do nothing about that, so it is silenced.
"""

import logging

from privalue.errors import MissingComponentError

_log = logging.getLogger("matplotlib")
_level = _log.level
_log.setLevel(logging.ERROR)
try:
    import matplotlib as mpl
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator
except ImportError:
    raise MissingComponentError(
        "plots need Matplotlib: pip install matplotlib", code="matplotlib-missing"
    ) from None
finally:
    _log.setLevel(_level)

__all__ = ["Axes", "Figure", "LogLocator", "NullLocator", "mpl", "pyplot"]
