"""Plots: axes come back, states are named, intervals are drawn, Matplotlib is loaded only then."""

import json
import subprocess
import sys

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

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


def test_it_goes_where_it_is_told_to(release):
    _, (left, right) = plt.subplots(1, 2)
    assert release.plot(ax=right) is right
    assert not left.collections


def test_arms_have_a_colour_each(armed):
    axes = armed.plot()
    assert named(axes.yaxis) == LABELS
    assert len(intervals(axes)) == 4
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["control", "treated"]


def test_many_states_are_columns_and_some_are_named(study):
    many = study.replace(states=300)
    axes = seeded(many, [[(0, 0.5), (299, 1.0)]] * 900).plot()
    assert len(named(axes.xaxis)) <= 16
    assert len(intervals(axes)[0]) == 300


def test_a_label_with_dollars_is_no_formula(study):
    labels = {"labels": ["ill", "better", "well", "$x_1$ and \\frac"]}
    release = seeded(study.replace(states=labels["labels"]))
    assert release.plot().get_yticklabels()[3].get_text() == r"\$x_1\$ and \frac"


PROGRAM = """
import json, sys
import privalue as pv
release = pv.Release.load(sys.argv[1])
release._repr_html_(), release.to_arrow(), release["ill"]
before = "matplotlib" in sys.modules
sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
try:
    release.plot()
except pv.MissingComponentError as problem:
    print(json.dumps([before, problem.code]))
"""


def test_matplotlib_is_loaded_for_a_plot_only_and_its_absence_is_told(release, tmp_path):
    release.save(tmp_path / "release.json")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "release.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [False, "matplotlib-missing"]
