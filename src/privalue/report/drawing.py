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
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
except ImportError:
    raise MissingComponentError(
        "pictures in files are drawn by Matplotlib: pip install matplotlib; the report's "
        "own charts need nothing"
    ) from None
finally:
    _log.setLevel(_level)

__all__ = [
    "Axes",
    "Figure",
    "FigureCanvasAgg",
    "FuncFormatter",
    "LogLocator",
    "NullLocator",
    "mpl",
]
