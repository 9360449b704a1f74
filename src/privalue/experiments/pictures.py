"""How the pictures look: one style, colours that most colour-blind people tell apart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from privalue.experiments.table import Curve

# Okabe and Ito's colours. The algorithm decides the colour, privacy the line: whoever sees no
# colours still sees which line is private.
BLUE, ORANGE, GREEN, PURPLE, SKY, GOLD = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
)  # fmt: skip
COLOURS = {"LSW": BLUE, "DP-LSW": BLUE, "LSL": ORANGE, "DP-LSL": ORANGE}
LINES: dict[str, Any] = {"LSW": (0, (4, 2)), "LSL": (0, (4, 2)), "DP-LSW": "-", "DP-LSL": "-"}
MARKS = {"LSW": None, "LSL": None, "DP-LSW": "o", "DP-LSL": "s"}
GREY = "0.35"


def panels(rows: int, columns: int, *, size: tuple[float, float], **kwargs: Any) -> tuple[
    Figure, list[list[Axes]]
]:  # fmt: skip
    """A figure, and its axes by row and column."""
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **kwargs)
    axes = [list(line) for line in grid]
    for line in axes:
        for one in line:
            tidy(one)
    return figure, axes


def tidy(axes: Axes) -> None:
    """Logarithmic, a faint grid, no box."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", length=0)


def plain(y: float, _: object = None) -> str:
    """1000 as 1,000, and 1e-05 as it is."""
    if 1e-3 <= y < 1:
        return f"{y:g}"
    return f"{y:,.0f}" if 1 <= y < 1e4 else f"$10^{{{round(np.log10(y))}}}$"


def draw(axes: Axes, curve: Curve, **style: Any) -> None:
    """A line with its standard errors as a band, which is mostly thinner than the line."""
    (line,) = axes.plot(curve.at, curve.mean, **style)
    low = np.maximum(curve.mean - curve.error, curve.mean * 1e-3)
    axes.fill_between(
        curve.at, low, curve.mean + curve.error, color=line.get_color(), alpha=0.2, linewidth=0
    )


def algorithm_style(name: str) -> dict[str, Any]:
    """Colour, line and marks of one of the paper's four."""
    return {
        "color": COLOURS[name],
        "linestyle": LINES[name],
        "marker": MARKS[name],
        "markersize": 3.5,
        "linewidth": 1.8,
    }


def reference(axes: Axes, level: float, text: str, *, at: float = 0.99, above: bool = True) -> None:
    """A horizontal line that says what it is."""
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


def label_ends(
    axes: Axes, ends: Sequence[tuple[float, float, str, str]], *, gap: float = 11.0
) -> None:
    """Texts at the right ends of lines, moved apart by at least ``gap`` points.

    Each end is x, y, text and colour; call it after the limits are set.
    """
    height = axes.get_window_extent().height * 72 / axes.figure.dpi
    low, high = np.log10(axes.get_ylim())
    wanted = [(np.log10(y) - low) / (high - low) * height for _, y, _, _ in ends]
    order = np.argsort(wanted, kind="stable")
    placed = spread([wanted[i] for i in order], gap)
    for i, position in zip(order, placed, strict=True):
        x, y, text, colour = ends[i]
        axes.annotate(
            text,
            xy=(x, y),
            xytext=(6, position - wanted[i]),
            textcoords="offset points",
            color=colour,
            fontsize=8.5,
            va="center",
            annotation_clip=False,
        )


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Ascending positions moved as little as possible so that neighbours are ``gap`` apart.

    >>> spread([0.0, 1.0, 20.0], 4.0)
    [-1.5, 2.5, 20.0]
    """
    # Subtract the gaps, and what remains must not decrease: averages of neighbours who do.
    blocks: list[list[float]] = []
    for number, position in enumerate(positions):
        blocks.append([position - number * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            value, weight = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + value * weight) / (last[1] + weight)
            last[1] += weight
    placed = [value for value, weight in blocks for _ in range(int(weight))]
    return [value + number * gap for number, value in enumerate(placed)]


def save(figure: Figure, file: Path) -> list[Path]:
    """Writes PNG and SVG, the same bytes for the same figure."""
    with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
        png, svg = file.with_suffix(".png"), file.with_suffix(".svg")
        figure.savefig(png, dpi=150, metadata={"Software": "privalue"})
        figure.savefig(svg, metadata={"Date": None, "Creator": "privalue"})
    return [png, svg]
