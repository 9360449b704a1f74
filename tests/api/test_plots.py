"""Plots: axes come back, states are named, intervals are drawn, Matplotlib is loaded only then."""

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import privalue as pv
from api.conftest import LABELS, seeded


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


def test_a_label_with_dollars_is_no_formula(study):
    labels = {"labels": ["ill", "better", "well", "$x_1$ and \\frac"]}
    release = seeded(study.replace(states=labels["labels"]))
    assert release.plot().get_yticklabels()[3].get_text() == r"\$x_1\$ and \frac"


def test_a_plan_is_drawn_for_several_epsilon(study):
    *lines, clean = pv.plan(study).plot().lines
    ends = [line.get_ydata()[-1] for line in lines]
    assert ends == sorted(ends, reverse=True)
    assert clean.get_ydata()[-1] < min(ends)
