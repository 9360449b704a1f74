"""Plots: axes come back, states are named, intervals are drawn, Matplotlib is loaded only then."""

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import privalue as pv
from api.conftest import LABELS


@pytest.fixture(autouse=True)
def drawing():
    """Draw into nothing, and leave nothing behind."""
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


def read_labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def intervals(axes):
    """The ends of every interval that is drawn."""
    lines = [part for part in axes.collections if isinstance(part, LineCollection)]
    return [part.get_segments() for part in lines]


def test_a_release_is_drawn_with_names_and_intervals(release):
    axes = release.plot()
    axes.figure.canvas.draw()
    assert isinstance(axes, Axes)
    assert read_labels(axes.yaxis) == LABELS
    total, privacy = intervals(axes)
    assert [segment[:, 0].tolist() for segment in total] == [
        [row.total_low, row.total_high] for row in release
    ]
    assert [segment[0, 0] for segment in privacy] == release.low.tolist()
    assert "NOT PRIVATE" in axes.get_title("left")


def test_a_plan_is_drawn_for_several_epsilon(plan):
    *lines, without = plan.plot().get_lines()
    assert without.get_ydata().tolist() == [row.without_privacy for row in plan.by_visits]
    for line, epsilon in zip(lines, (0.25, 1.0, 4.0), strict=True):
        assert line.get_label() == f"epsilon = {epsilon:g}"
        other = pv.plan(plan.study.replace(epsilon=epsilon)).by_visits
        ends = [other[0].half_width, other[-1].half_width]
        assert line.get_ydata()[[0, -1]] == pytest.approx(ends)
