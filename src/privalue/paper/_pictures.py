"""Define how figures look: one style, in colours that most colour-blind people can distinguish."""

from pathlib import Path
from typing import Any

import numpy as np

from privalue.paper._table import Curve
from privalue.report.drawing import (
    Axes,
    Figure,
    FigureCanvasAgg,
    FuncFormatter,
    LogLocator,
    NullLocator,
    mpl,
)

# Okabe and Ito's colours. The algorithm decides the colour and privacy the line, so that a
# reader who sees no colours still sees which line is private.
BLUE, ORANGE, GREEN, PURPLE, SKY, GOLD = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
)  # fmt: skip
COLOURS = {"LSW": BLUE, "DP-LSW": BLUE, "LSL": ORANGE, "DP-LSL": ORANGE}
LINES: dict[str, Any] = {"LSW": (0, (4, 2)), "LSL": (0, (4, 2)), "DP-LSW": "-", "DP-LSL": "-"}
MARKS = {"LSW": None, "LSL": None, "DP-LSW": "o", "DP-LSL": "s"}
GREY = "0.35"
COLD = {1: "#08306b", 2: "#2171b5", 4: "#6baed6", 8: "#b0d2e7"}  # by how many states share a value
WARM = {1: "#7f2704", 2: "#d94801", 4: "#fd8d3c", 8: "#fdc38d"}


def panels(rows: int, columns: int, *, size: tuple[float, float], **kwargs: Any) -> tuple[
    Figure, list[list[Axes]]
]:  # fmt: skip
    """Return a figure, and its axes by row and column.

    Args:
        rows: of panels.
        columns: of panels.
        size: of the figure, in inches.
        kwargs: for ``Figure.subplots``.

    Returns:
        The figure and its axes.
    """
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **kwargs)
    axes = [list(line) for line in grid]
    for line in axes:
        for one in line:
            tidy(one)
    return figure, axes


def tidy(axes: Axes) -> None:
    """Make axes logarithmic, with a faint grid and no box."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def plain(y: float, _: object = None) -> str:
    """Format a tick: 1,000 in full, and large and small numbers as powers of ten."""
    if 1e-3 <= y < 1:
        return f"{y:g}"
    return f"{y:,.0f}" if 1 <= y < 1e4 else f"$10^{{{round(np.log10(y))}}}$"


def draw(axes: Axes, curve: Curve, **style: Any) -> None:
    """Draw a line with its standard errors as a band, which is mostly thinner than the line."""
    (line,) = axes.plot(curve.at, curve.mean, **style)
    low = np.maximum(curve.mean - curve.error, curve.mean * 1e-3)
    axes.fill_between(
        curve.at, low, curve.mean + curve.error, color=line.get_color(), alpha=0.2, linewidth=0
    )


def algorithm_style(name: str) -> dict[str, Any]:
    """Return colour, line and marks of one of the paper's four algorithms."""
    return {
        "color": COLOURS[name],
        "linestyle": LINES[name],
        "marker": MARKS[name],
        "markersize": 3.5,
        "linewidth": 1.8,
    }


def reference(axes: Axes, level: float, text: str, *, at: float = 0.99, above: bool = True) -> None:
    """Draw a horizontal line with its meaning beside it.

    Args:
        axes: where to draw.
        level: the height of the line.
        text: what it means.
        at: where the text is, as a share of the width.
        above: whether the text is above the line.
    """
    axes.axhline(level, color=GREY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        text,
        xy=(at, level),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2 if above else -2),
        textcoords="offset points",
        ha="right" if at > 0.5 else "left",
        va="bottom" if above else "top",
        fontsize=7.5,
        color=GREY,
    )


def save(figure: Figure, file: Path) -> list[Path]:
    """Write PNG and SVG, the same bytes for the same figure."""
    with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
        png, svg = file.with_suffix(".png"), file.with_suffix(".svg")
        figure.savefig(png, dpi=150, metadata={"Software": "privalue"})
        figure.savefig(svg, metadata={"Date": None, "Creator": "privalue"})
    return [png, svg]
