"""Import Matplotlib in one place. Extra: ``pictures``."""

from privalue.errors import MissingComponentError

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

__all__ = ["Axes", "Figure", "LogLocator", "NullLocator", "mpl", "pyplot"]
