"""Run panel 3: error of all four algorithms against the batch size, with pairs aggregated.

lambda grows like sqrt(m), as in the paper. The paper does not give the constant: three are run.
Errors of estimates clipped to [0, 1] are kept beside the paper's own measure.
"""

from dataclasses import dataclass

import numpy as np

from privalue.paper._batches import rmse, truth
from privalue.paper._experiment import Experiment
from privalue.paper._methods import (
    Method,
    MethodSetting,
    outcome,
    paper_lsl,
    paper_lsw,
    plain_lsl,
    plain_lsw,
)
from privalue.paper._pictures import ORANGE, algorithm_style, draw, panels, reference
from privalue.paper._schedules import pretty, ridge
from privalue.paper._settings import BOUNDS, TIGHT, Effort
from privalue.paper._table import ResultTable, TableRow, rows_of
from privalue.report.drawing import Axes, Figure

SCHEDULES = ("10 sqrt(m)", "100 sqrt(m)", "1000 sqrt(m)")
DRAWN = {TIGHT: "100 sqrt(m)"}  # in full colour; elsewhere the largest constant is the best


@dataclass(frozen=True, kw_only=True)
class AggregatedSettings:
    """The settings of panel 3."""

    sizes: tuple[int, ...]
    aggregation: int = 2
    schedules: tuple[str, ...] = SCHEDULES
    bounds: tuple[float, ...] = BOUNDS


def settings(effort: Effort) -> AggregatedSettings:
    """Return the settings for an effort: m from 10 to 10^7."""
    return AggregatedSettings(sizes=effort.sizes())


def run(settings: AggregatedSettings, run: int) -> list[TableRow]:
    """Compute the rows of one run."""
    made: list[TableRow] = []
    for bound in settings.bounds:
        setting = MethodSetting(bound=bound, aggregation=settings.aggregation)
        for m in settings.sizes:
            methods: list[Method] = [plain_lsw(), paper_lsw()]
            for text in settings.schedules:
                methods += [plain_lsl(ridge(text, m), text), paper_lsl(ridge(text, m), text)]
            for method in methods:
                values = outcome(method, setting, m, run).values
                errors = {"rmse": rmse(values), "clipped rmse": rmse(np.clip(values, 0.0, bound))}
                made += rows_of(method, setting, m, run, errors)
    return made


def plot(settings: AggregatedSettings, table: ResultTable) -> Figure:
    """Plot a panel for each bound."""
    figure, (line,) = panels(1, len(settings.bounds), size=(9.0, 4.4), sharex=True)
    for axes, bound in zip(line, settings.bounds, strict=True):
        _panel(axes, settings, table, bound)
    line[0].set_ylabel("RMSE over states")
    handles, names = line[-1].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, ncols=4, loc="outside lower center")
    return figure


def _panel(axes: Axes, settings: AggregatedSettings, table: ResultTable, bound: float) -> None:
    """Draw the panel of one bound: all four algorithms, and every schedule of DP-LSL."""
    axes.set_title(f"Returns known to be in [0, {bound:g}]", loc="left", fontsize=10)
    shown = DRAWN.get(bound, settings.schedules[-1])
    for text in settings.schedules:
        curve = table.curve(algorithm="DP-LSL", bound=bound, schedule=text)
        if text != shown:
            axes.plot(curve.at, curve.mean, color=ORANGE, alpha=0.35, linewidth=1.2)
        axes.annotate(
            f"λ = {pretty(text)}",
            xy=(curve.at[0], curve.mean[0]),
            xytext=(8, 0),
            textcoords="offset points",
            fontsize=8,
            color=ORANGE,
            va="bottom",
        )
    for name in ("DP-LSL", "LSL"):
        curve = table.curve(algorithm=name, bound=bound, schedule=shown)
        draw(axes, curve, label=name, **algorithm_style(name))
    for name in ("DP-LSW", "LSW"):
        draw(axes, table.curve(algorithm=name, bound=bound), label=name, **algorithm_style(name))
    zero = float(np.sqrt(np.mean(truth() ** 2)))
    reference(axes, zero, "0 for every state")
    axes.set_xlabel("trajectories m")


PANEL_3 = Experiment(
    name="panel-3",
    title="All four algorithms with pairs aggregated, RMSE against m",
    settings=settings,
    run=run,
    plots={"panel-3": plot},
)
