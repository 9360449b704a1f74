"""Plots: axes come back, states are named, intervals are drawn, Matplotlib is loaded only then."""

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from api.conftest import LABELS


@pytest.fixture(autouse=True)
def drawing():
    """Draw into nothing, and leave nothing behind."""
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


def named(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def intervals(axes):
    """The ends of every interval that is drawn."""
    lines = [part for part in axes.collections if isinstance(part, LineCollection)]
    return [part.get_segments() for part in lines]


def test_a_release_is_drawn_with_names_and_intervals(release):
    axes = release.plot()
    axes.figure.canvas.draw()
    assert isinstance(axes, Axes)
    assert named(axes.yaxis) == LABELS
    total, privacy = intervals(axes)
    assert [segment[:, 0].tolist() for segment in total] == [
        [row.total_low, row.total_high] for row in release
    ]
    assert [segment[0, 0] for segment in privacy] == release.low.tolist()
    assert "NOT PRIVATE" in axes.get_title("left")
