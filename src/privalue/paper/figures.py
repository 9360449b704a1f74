"""Plot the results, as ``figures.toml`` describes, in the style of ``figures.mplstyle``."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privalue.errors import read_texts
from privalue.paper.evidence import settling_point
from privalue.paper.experiments import PAPER_NAMES, SSP, TARGET_ERRORS, Curve, Results
from privalue.paper.methods import rmse, truth
from privalue.report.drawing import Axes, Figure, LogLocator, NullLocator, mpl

GREY = "0.35"
Tables = Mapping[str, Results]


def draw_all(tables: Tables, folder: Path) -> dict[str, list[Path]]:
    """Write every figure as PNG and SVG (reproducible byte by byte); return files by figure."""
    files: dict[str, list[Path]] = {}
    texts = read_texts(__file__, "figures.toml")
    with mpl.rc_context(fname=Path(__file__).with_name("figures.mplstyle")):
        for spec in texts["figures"]:
            figure = _figure(tables[spec["results"]], spec, texts["styles"])
            name = spec["name"]
            files[name] = [folder / f"{name}.png", folder / f"{name}.svg"]
            figure.savefig(files[name][0], metadata={"Software": "privalue"})
            figure.savefig(files[name][1], metadata={"Date": None})
    return files


def _figure(table: Results, spec: Mapping[str, Any], styles: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=spec["size"], layout="constrained")
    rows = spec.get("rows", 1)
    grid = figure.subplots(
        rows, len(spec["axes"]) // rows, squeeze=False, sharex=True, sharey="row"
    )
    for axes, part in zip(grid.flat, spec["axes"], strict=True):
        axes.set(xscale="log", yscale="log", xlabel=spec.get("xlabel", "trajectories m"))
        for line in (*spec.get("lines", ()), *part.get("lines", ())):
            keys = {**spec.get("keys", {}), **part.get("keys", {}), **line["keys"]}
            _draw(axes, table.curve(**keys), line, styles[line["style"]])
        _decorate(axes, table, part, spec)
    for row in grid:
        row[0].set_ylabel(spec.get("ylabel", "RMSE over states"))
    if "title" in spec:
        figure.suptitle(spec["title"])
    if "legend_below" in spec:
        handles, names = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, names, ncols=4, loc="outside lower center")
    return figure


def _draw(axes: Axes, curve: Curve, line: Mapping[str, Any], style: Mapping[str, Any]) -> None:
    """Draw a line with its standard errors as a band, which is usually thinner than the line."""
    at, mean, error = curve.at, curve.mean, curve.error
    if len(at) == 1:  # LSW has no lambda: a horizontal line over the range of the other curves
        at, mean, error = np.array(axes.dataLim.intervalx), np.repeat(mean, 2), np.repeat(error, 2)
    if line.get("faint"):
        axes.plot(at, mean, color=style["color"], linewidth=1, alpha=0.6)
        return
    every = max(len(at) // 16, 1)
    axes.plot(at, mean, label=line["label"], markevery=every, **style)
    low = np.maximum(mean - error, mean * 1e-3)
    axes.fill_between(at, low, mean + error, color=style["color"], alpha=0.2, linewidth=0)
    if line.get("ring"):
        lowest = int(np.argmin(mean))
        ring: dict[str, Any] = {"markersize": 11, "markerfacecolor": "none", "color": GREY}
        axes.plot(at[lowest], mean[lowest], "o", **ring)


def _decorate(axes: Axes, table: Results, part: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Add everything but the curves: ticks, reference levels, slopes, arrows and the legend."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, numticks=12))
        axis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(_tick)
    axes.set(title=part["title"], **{key: part[key] for key in ("xlim", "ylim") if key in part})
    levels = {
        "zero": {"0 for every state": rmse(np.zeros(len(truth())))},
        "targets": {f"{target:g}": target for target in TARGET_ERRORS},
    }
    for text, level in levels.get(spec.get("reference", ""), {}).items():
        axes.axhline(level, color=GREY, linewidth=1, linestyle=":", zorder=1)
        place = axes.get_yaxis_transform()
        axes.text(0.01, level, text, transform=place, va="bottom", fontsize=7.5, color=GREY)
    if "guide" in part:
        slope, at = part["guide"], np.array([1e6, 1e8])
        guide = 1e3 * (at / at[0]) ** slope
        axes.plot(at, guide, color=GREY, linewidth=1, linestyle=":", label=f"slope {slope:g}")
    if "arrows" in part:
        _draw_savings(axes, table, part["keys"])
    if "legend" in part:
        axes.legend(loc=part["legend"])


def _tick(y: float, _: object = None) -> str:
    """Format a tick: 1,000 in full, and large and small numbers as powers of ten."""
    if 1e-3 <= y < 1:
        return f"{y:g}"
    return f"{y:,.0f}" if 1 <= y < 1e4 else f"$10^{{{round(np.log10(y))}}}$"


def _draw_savings(axes: Axes, table: Results, keys: Mapping[str, Any]) -> None:
    """Draw an arrow at each target from our curve to the better of the paper's two."""
    curves = {
        name: table.curve(best="ridge", algorithm=name, **keys) for name in (*PAPER_NAMES, SSP)
    }
    for target in TARGET_ERRORS:
        sizes = {name: settling_point(c.at, c.mean, target) for name, c in curves.items()}
        our_size, paper_size = sizes[SSP], min(sizes[name] for name in PAPER_NAMES)
        if not (math.isfinite(our_size) and math.isfinite(paper_size)):
            continue
        arrow = {"arrowstyle": "<->", "color": "0.1", "linewidth": 1.5}
        axes.annotate("", xy=(our_size, target), xytext=(paper_size, target), arrowprops=arrow)
        text = f"error {target:g}: {float(f'{paper_size / our_size:.2g}'):,.0f} times fewer\n"
        middle = math.sqrt(our_size * paper_size)
        axes.text(middle, target, text, ha="center", va="center", weight="bold")
