"""Draw the results: one style, in colours that most colour-blind people can distinguish."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privalue.core import Vector
from privalue.paper.claims import excess_curve
from privalue.paper.evidence import reached
from privalue.paper.experiments import (
    AGGREGATED,
    BEST_AGGREGATED,
    BOUNDS,
    CONVERGENCE,
    EXACT,
    PSEUDO,
    SIZES,
    SQRT,
    SSP,
    SSP_PRIOR,
    TARGETS,
    Curve,
    Effort,
    Results,
    best_curve,
    surpassed_features,
)
from privalue.paper.methods import Features, rmse, truth
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
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, SKY, GOLD = "#cc79a7", "#56b4e9", "#e69f00"
GREY = "0.35"
DASHED: Any = (0, (4, 2))
STYLES: dict[str, dict[str, Any]] = {
    "DP-LSL": {"color": ORANGE, "marker": "s", "markersize": 3.5},
    "LSL": {"color": ORANGE, "linestyle": DASHED},
    "DP-LSW": {"color": BLUE, "marker": "o", "markersize": 3.5},
    "LSW": {"color": BLUE, "linestyle": DASHED},
}
COLD = {1: "#08306b", 2: "#2171b5", 4: "#6baed6", 8: "#b0d2e7"}  # by how many states share a value
WARM = {1: "#7f2704", 2: "#d94801", 4: "#fd8d3c", 8: "#fdc38d"}

Tables = Mapping[str, Results]


def _panels(
    columns: int, size: tuple[float, float], rows: int = 1, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure, and its axes by row and column: logarithmic, with a faint grid."""
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for axes in grid.flat:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(base=10, numticks=12))
            axis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(_tick))
        axes.set_xlabel("trajectories m")
    for line in grid:
        line[0].set_ylabel("RMSE over states")
    return figure, grid


def _tick(y: float, _: object = None) -> str:
    """Format a tick: 1,000 in full, and large and small numbers as powers of ten."""
    if 1e-3 <= y < 1:
        return f"{y:g}"
    return f"{y:,.0f}" if 1 <= y < 1e4 else f"$10^{{{round(np.log10(y))}}}$"


def _draw(axes: Axes, curve: Curve, label: str = "", **style: Any) -> None:
    """Draw a line with its standard errors as a band, which is mostly thinner than the line."""
    (line,) = axes.plot(curve.at, curve.mean, label=label, **{"linewidth": 1.8, **style})
    low = np.maximum(curve.mean - curve.error, curve.mean * 1e-3)
    high = curve.mean + curve.error
    axes.fill_between(curve.at, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def _faint(axes: Axes, curve: Curve, color: str) -> None:
    axes.plot(curve.at, curve.mean, color=color, linewidth=1, alpha=0.6)


def _level(level: Curve, at: Vector) -> Curve:
    """Return a level line, for LSW, which has no lambda."""
    return Curve(at=at[[0, -1]], values=np.repeat(level.values, 2, axis=1))


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10)


def _reference(axes: Axes, level: float, text: str) -> None:
    """Draw a horizontal line with its meaning above it."""
    axes.axhline(level, color=GREY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    place = axes.get_yaxis_transform()
    axes.text(0.99, level, text, transform=place, ha="right", va="bottom", fontsize=7.5, color=GREY)


def _zero(axes: Axes) -> None:
    _reference(axes, rmse(np.zeros(len(truth()))), "0 for every state")


def _legend_below(figure: Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, ncols=4, loc="outside lower center")


def _pretty(schedule: str) -> str:
    return f"λ = {schedule.replace(' ', '').replace('sqrt(m)', '√m')}"


def _sharing(size: int) -> str:
    return "tabular" if size == 1 else f"{size} states each"


def panel_1(tables: Tables, _: Effort) -> Figure:
    """Draw LSW and LSL without privacy, tabular and with pairs."""
    figure, ((left, right),) = _panels(2, (9.0, 4.0), sharey=True)
    for axes, size in ((left, 1), (right, 2)):
        _title(axes, "Tabular: 40 values" if size == 1 else "Aggregated pairs: 20 values")
        for text, colour in zip(CONVERGENCE[::-1], (PURPLE, ORANGE, GOLD), strict=True):
            curve = tables["panel-1"].curve(algorithm="LSL", aggregation=size, schedule=text)
            _draw(axes, curve, f"LSL, {_pretty(text)}", color=colour, marker=".")
        lsw = tables["panel-1"].curve(algorithm="LSW", aggregation=size)
        _draw(axes, lsw, "LSW", **STYLES["LSW"])
    right.legend(frameon=False, fontsize=8.5, loc="lower left")
    figure.suptitle("Without privacy: LSW is ahead of LSL by what the ridge costs", fontsize=11)
    return figure


def panel_2(tables: Tables, _: Effort) -> Figure:
    """Draw error against lambda for each bound and two batch sizes."""
    table = tables["panel-2"]
    figure, grid = _panels(2, (9.0, 7.0), rows=2, sharex=True, sharey="row")
    for line, bound in zip(grid, BOUNDS, strict=True):
        for axes, m in zip(line, (10**4, 10**6), strict=True):
            case: dict[str, Any] = {"bound": bound, "trajectories": m}
            _title(axes, f"m = {_tick(m)}, returns known to be in [0, {bound:g}]")
            for name in ("DP-LSL", "LSL"):
                curve = table.curve("ridge", algorithm=name, **case)
                every = max(len(curve.at) // 16, 1)
                _draw(axes, curve, name, markevery=every, **STYLES[name])
            for name in ("DP-LSW", "LSW"):
                level = _level(table.curve(algorithm=name, **case), curve.at)
                _draw(axes, level, name, **STYLES[name])
            _zero(axes)
            best = table.curve("ridge", algorithm="DP-LSL", **case)
            at = int(np.argmin(best.mean))
            ring = {"markersize": 11, "markerfacecolor": "none", "color": GREY}
            axes.plot(best.at[at], best.mean[at], "o", **ring)
            axes.set_xlabel("λ")
    grid[0][1].legend(frameon=False, fontsize=8.5, loc="upper right")
    return figure


def panel_3(tables: Tables, _: Effort) -> Figure:
    """Draw all four algorithms with pairs, for each bound; thin: other constants of lambda."""
    table = tables["panel-3"]
    figure, (line,) = _panels(2, (9.0, 4.4), sharex=True)
    for axes, bound in zip(line, BOUNDS, strict=True):
        best = BEST_AGGREGATED[bound]
        _title(axes, f"Returns known to be in [0, {bound:g}], {_pretty(best)}")
        for text in AGGREGATED:
            _faint(axes, table.curve(algorithm="DP-LSL", bound=bound, schedule=text), ORANGE)
        for name, style in STYLES.items():
            schedule = best if name.endswith("LSL") else ""
            curve = table.curve(algorithm=name, bound=bound, schedule=schedule)
            _draw(axes, curve, name, **style)
        _zero(axes)
    _legend_below(figure, line[-1])
    return figure


def panel_4(tables: Tables, _: Effort) -> Figure:
    """Draw the excess risk of DP-LSW, DP-LSL, and DP-LSL with features of norm 1."""
    figure, (line,) = _panels(3, (11.0, 4.2), sharey=True)
    cases = (
        ("DP-LSW", "DP-LSW", "", False, COLD, -2.0),
        (f"DP-LSL, {_pretty(SQRT)}, features 0 and 1", "DP-LSL", SQRT, False, WARM, -0.5),
        ("DP-LSL, features of norm 1", "DP-LSL", SQRT, True, WARM, -0.5),
    )
    for axes, (title, name, schedule, normalised, colours, slope) in zip(line, cases, strict=True):
        _title(axes, title)
        for size in SIZES:
            curve = excess_curve(tables, name, size, schedule=schedule, normalised=normalised)
            _draw(axes, curve, _sharing(size), color=colours[size], marker="o", markersize=3)
        at = np.array([1e6, 1e8])
        guide = 1e3 * (at / at[0]) ** slope
        label = f"slope {slope:g}"
        axes.plot(at, guide, color="0.3", linewidth=1, linestyle=(0, (1, 1)), label=label)
        axes.legend(frameon=False, fontsize=8, loc="lower left")
    line[0].set_ylabel("excess empirical risk")
    return figure


COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "DP-LSW": ("DP-LSW as published", {"color": ORANGE, "linewidth": 2.8}),
    "DP-LSL": ("DP-LSL as published, best λ", {"color": ORANGE, "linestyle": DASHED}),
    EXACT: ("DP-LSW, exact calibration", {"color": PURPLE}),
    PSEUDO: ("   with pseudo-counts", {"color": SKY}),
    SSP: ("DP-SSP", {"color": GREEN, "linewidth": 2.8}),
    SSP_PRIOR: ("DP-SSP, visits known", {"color": BLUE, "linestyle": DASHED}),
    "LSW": ("no privacy", {"color": GREY, "linestyle": (0, (1, 1.5))}),
}


def _compare(axes: Axes, table: Results, features: Features) -> None:
    for name, (label, style) in COMPARED.items():
        _draw(axes, best_curve(table, name, features), label, **style)


def surpassed(tables: Tables, _: Effort) -> Figure:
    """Draw the main figure: how far apart the lines cross the targets."""
    table, features = tables["surpassed"], Features()
    figure, ((axes,),) = _panels(1, (8.6, 5.2))
    _compare(axes, table, features)
    axes.set_xlim(10, 1e8)
    axes.set_ylim(2.5e-4, 1.1)
    for target in TARGETS:
        needed = {
            name: reached(curve.at, curve.mean, target)
            for name in ("DP-LSW", "DP-LSL", SSP)
            for curve in [best_curve(table, name, features)]
        }
        ours, theirs = needed[SSP], min(needed["DP-LSW"], needed["DP-LSL"])
        if not (math.isfinite(ours) and math.isfinite(theirs)):
            continue
        arrow = {"arrowstyle": "<->", "color": "0.1", "linewidth": 1.5}
        axes.annotate("", xy=(ours, target), xytext=(theirs, target), arrowprops=arrow)
        text = f"error {target:g}: {float(f'{theirs / ours:.2g}'):,.0f} times fewer\n"
        middle = math.sqrt(ours * theirs)
        axes.text(middle, target, text, ha="center", va="center", weight="bold")
    axes.set_ylabel("root mean square error over the 40 states")
    axes.legend(frameon=False, loc="lower left", fontsize=8.5)
    _title(axes, "The same data, the same guarantee (ε = δ = 0.1): how many trajectories it takes")
    return figure


def surpassed_cases(tables: Tables, effort: Effort) -> Figure:
    """Draw every bound and aggregation beside the others."""
    cases = surpassed_features(effort)
    figure, (line,) = _panels(len(cases), (11.0, 4.6), sharey=True, sharex=True)
    for axes, features in zip(line, cases, strict=True):
        _title(axes, f"Returns in [0, {features.bound:g}], {_sharing(features.aggregation)}")
        _compare(axes, tables["surpassed"], features)
        for target in TARGETS:
            _reference(axes, target, f"{target:g}")
    line[0].set_ylabel("RMSE over states, clipped")
    _legend_below(figure, line[0])
    return figure


def again_2(tables: Tables, _: Effort) -> Figure:
    """Draw error against lambda with exact calibration and DP-SSP; thin: as published."""
    table = tables["again"]
    figure, (line,) = _panels(2, (9.0, 4.6), sharey=True)
    ours = {"DP-LSL, exact": ORANGE, "DP-SSP, ridge": GREEN, "LSL": GREY}
    for axes, m in zip(line, (10**4, 10**6), strict=True):
        case: dict[str, Any] = {"trajectories": m, "measure": "rmse"}
        _title(axes, f"m = {_tick(m)}")
        _faint(axes, table.curve("ridge", algorithm="DP-LSL", **case), ORANGE)
        for name, colour in ours.items():
            curve = table.curve("ridge", algorithm=name, **case)
            stroke = DASHED if name == "LSL" else "-"
            label = f"{name}, no privacy" if name == "LSL" else name
            _draw(axes, curve, label, color=colour, linestyle=stroke)
        _faint(axes, _level(table.curve(algorithm="DP-LSW", **case), curve.at), BLUE)
        exact = _level(table.curve(algorithm="DP-LSW, exact", **case), curve.at)
        _draw(axes, exact, "DP-LSW, exact", color=BLUE)
        _zero(axes)
        axes.set_xlabel("λ")
        axes.set_ylim(5e-5, 1e3)
    _legend_below(figure, line[0])
    figure.suptitle("Thin lines: as published", fontsize=9, x=0.99, ha="right")
    return figure


def again_4(tables: Tables, effort: Effort) -> Figure:
    """Draw excess risk against m with exact calibration; thin: as published."""
    figure, (line,) = _panels(2, (9.0, 4.4), sharey=True)
    titles = ("DP-LSW, exact, whitened", "DP-LSL, exact, λ = √m (thin: λ = 10m)")
    sizes = (1, 4) if effort.per_decade == 1 else SIZES
    for axes, title, name, colours in zip(
        line, titles, ("DP-LSW", "DP-LSL"), (COLD, WARM), strict=True
    ):
        _title(axes, title)
        for size in sizes:
            case: dict[str, Any] = {"measure": "excess", "aggregation": size}
            _faint(axes, tables["again"].curve(algorithm=name, **case), colours[size])
            ours = tables["again"].curve(algorithm=f"{name}, exact", **case)
            _draw(axes, ours, _sharing(size), color=colours[size])
        axes.legend(frameon=False, fontsize=8, loc="lower left")
    line[0].set_ylabel("excess empirical risk")
    return figure


FIGURES: dict[str, Callable[[Tables, Effort], Figure]] = {
    "panel-1": panel_1,
    "panel-2": panel_2,
    "panel-3": panel_3,
    "panel-4": panel_4,
    "surpassed": surpassed,
    "surpassed-cases": surpassed_cases,
    "again-2": again_2,
    "again-4": again_4,
}


def draw_all(tables: Tables, effort: Effort, folder: Path) -> list[Path]:
    """Write every figure as PNG and SVG, the same bytes for the same results."""
    files = []
    for name, make in FIGURES.items():
        figure = make(tables, effort)
        with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
            for ending, metadata in ((".png", {"Software": "privalue"}), (".svg", {"Date": None})):
                figure.savefig(folder / (name + ending), dpi=150, metadata=metadata)
                files.append(folder / (name + ending))
    return files
