"""Matplotlib, imported in one place and without noise.

Where a user has no home, it keeps its caches in a folder that is gone with the process, and
complains about it on stderr: whoever asked for a picture can do nothing about that.
"""

import logging

_log = logging.getLogger("matplotlib")
_level = _log.level
_log.setLevel(logging.ERROR)
try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
finally:
    _log.setLevel(_level)

__all__ = [
    "Axes",
    "Figure",
    "FigureCanvasAgg",
    "FuncFormatter",
    "LogLocator",
    "NullFormatter",
    "NullLocator",
    "mpl",
]
