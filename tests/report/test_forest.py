"""The forest plot: every row and number is there, whatever names and numbers are."""

import math
import re
from xml.etree import ElementTree

import pytest

from privalue._forest import PlotRow, forest_plot, style

NASTY = [
    "</svg><script>alert(1)</script>",
    "a\x00b\ud800",
    "\u202eback",
    "x" * 300,
    "七つの状態",
    "",
]


def row(name="ill", value=0.53, **more):
    return PlotRow(
        name=name, value=value, **{"total": (0.44, 0.63), "privacy": (0.5, 0.56), **more}
    )


def drawn(rows, **how):
    """The wide drawing and the narrow one, parsed."""
    text = forest_plot(rows, title="Values", description="By state.", styled=False, **how)
    return list(ElementTree.fromstring(text.encode("utf-8", "strict")))


def of_kind(drawing, kind):
    return [part for part in drawing.iter() if kind in (part.get("class") or "").split()]


def texts(drawing):
    return [part.text for part in drawing.iter("text")]


def test_a_row_has_its_name_marks_number_and_flag():
    for drawing in drawn([row(flag="too few visits"), row("well", 0.9)]):
        rows = of_kind(drawing, "pv-row")
        assert [one.get("tabindex") for one in rows] == ["0", "0"]
        assert rows[0].get("aria-label") == (
            "ill: value 0.53, total interval 0.44 to 0.63, privacy interval 0.5 to 0.56, "
            "too few visits"
        )
        said = texts(rows[0])
        assert {"ill", "0.53 (0.44 to 0.63)", "too few visits"} <= set(said)
        assert "total interval 0.44 to 0.63" in said  # on hover and focus
        assert len(of_kind(rows[0], "pv-doubtful")) == 1
        assert not of_kind(rows[1], "pv-doubtful")
        outer, inner, value = (of_kind(rows[0], f"pv-{k}")[0] for k in ("total", "inner", "value"))
        left, wide = float(inner.get("x")), float(inner.get("width"))
        assert float(outer.get("x1")) < left < float(value.get("cx")) < left + wide
        assert left + wide < float(outer.get("x2"))


def test_arms_of_a_state_stand_in_one_row():
    rows = [row(name, arm=arm) for name in ("ill", "well") for arm in ("control", "treated")]
    for drawing in drawn(rows):
        found = of_kind(drawing, "pv-row")
        assert len(found) == 2
        assert found[0].get("aria-label").count("value 0.53") == 2
        marks = of_kind(found[0], "pv-value")
        assert [mark.tag for mark in marks] == ["circle", "rect"]  # told apart without colour
        assert "control" in texts(drawing)


def test_states_of_the_same_name_without_arms_stay_apart():
    assert all(len(of_kind(d, "pv-row")) == 2 for d in drawn([row(), row()]))


@pytest.mark.parametrize("name", NASTY)
def test_names_are_texts_and_nothing_else(name):
    for drawing in drawn([row(name), row("beside")]):
        assert not list(drawing.iter("script"))
        assert len(of_kind(drawing, "pv-row")) == 2


@pytest.mark.parametrize(
    "numbers",
    [
        {"value": 0.0, "total": (0.0, 0.0), "privacy": (0.0, 0.0)},
        {"value": 1e-300, "total": (None, None), "privacy": (None, None)},
        {"value": 1e300, "total": (-1e300, 1e300)},
        {"value": 0.5, "total": (None, 0.6), "privacy": (0.4, None)},
        {"value": 0.5, "total": (-math.inf, math.inf)},
        {"value": -3.0, "total": (-5.0, -1.0), "privacy": (-3.5, -2.5)},
    ],
)
def test_any_numbers_have_room(numbers):
    for drawing in drawn([row(**numbers)], bounds=(0.0, 1.0)):
        wide = float(drawing.get("viewBox").split()[2])
        written = ElementTree.tostring(drawing, encoding="unicode")
        assert "nan" not in written
        assert "inf" not in re.sub(r"[a-z-]*in[a-z]+", "", written)
        for mark in of_kind(drawing, "pv-value"):
            assert 0 <= float(mark.get("cx")) <= wide


def test_a_group_shows_its_least_and_largest_value():
    group = PlotRow(name="0 to 9 (10 states)", value=0.5, span=(0.3, 0.6), total=(0.1, 0.9))
    for drawing in drawn([group]):
        said = texts(drawing)
        assert "0.30 to 0.60" in said
        assert "median of the group" in said


def test_bounds_are_drawn_where_they_are_in_sight():
    for drawing in drawn([row(value=0.9, total=(0.7, 1.0))], bounds=(0.0, 1.0)):
        body = [line for line in of_kind(drawing, "pv-bound") if line.get("x1") != "9"]
        assert len(body) == 1


def test_the_style_comes_along_once_asked_for():
    assert "<style>" in forest_plot([row()], title="t", description="d")
    assert "prefers-color-scheme: dark" in style()


def wide_interval(**more):
    return row("rare", 0.5, total=(0.0, 1.0), privacy=(0.0, 1.0), **more)


def test_a_flagged_interval_goes_on_beyond_what_is_not_flagged():
    """Else one interval as wide as all that is possible would press the others into points."""
    sound = [row(f"s{at}", 0.5, total=(0.48, 0.52), privacy=(0.49, 0.51)) for at in range(4)]
    for drawing in drawn([*sound, wide_interval(flag="too few visits")]):
        first, *_, last = of_kind(drawing, "pv-row")
        assert len(of_kind(last, "pv-arrow")) == 2
        assert not of_kind(first, "pv-arrow")
        assert "goes on" in texts(drawing)
        reach = of_kind(first, "pv-total")[0]
        ends = of_kind(last, "pv-total")[0]
        lengths = [float(line.get("x2")) - float(line.get("x1")) for line in (reach, ends)]
        assert lengths[0] > 0.8 * lengths[1]
    # Where most rows are flagged, or none is, the axis holds everything.
    for rows in ([sound[0], *[wide_interval(flag="x")] * 3], [*sound, wide_interval()]):
        assert not any(of_kind(drawing, "pv-arrow") for drawing in drawn(rows))


def test_a_plot_of_differences_has_a_line_at_zero():
    for drawing in drawn([row(value=0.2, total=(0.1, 0.3))], zero="no difference"):
        assert len(of_kind(drawing, "pv-bound")) == 2  # in the legend, and in the plot
        assert "no difference" in texts(drawing)
