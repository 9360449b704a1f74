"""Run panel 2: error against lambda for two batch sizes, tabular, for all four algorithms.

More batch sizes are run than are drawn: the lambda with the least error at each m shows how a
schedule should grow. For that, m goes as far as sums stay exact.
"""

from dataclasses import dataclass

import numpy as np

from privalue.paper._batches import rmse, truth
from privalue.paper._experiment import Experiment
from privalue.paper._methods import (
    MethodSetting,
    outcome,
    paper_lsl,
    paper_lsw,
    plain_lsl,
    plain_lsw,
)
from privalue.paper._pictures import GREY, algorithm_style, draw, panels, reference
from privalue.paper._settings import BOUNDS, Effort
from privalue.paper._table import Curve, ResultTable, TableRow, rows_of
from privalue.report.drawing import Axes, Figure


@dataclass(frozen=True, kw_only=True)
class RegularisationSettings:
    """The settings of panel 2; the lambdas are the same for all m."""

    sizes: tuple[int, ...]
    ridges: tuple[float, ...]
    drawn: tuple[int, int] = (10**4, 10**6)
    bounds: tuple[float, ...] = BOUNDS


def settings(effort: Effort) -> RegularisationSettings:
    """Return the settings for an effort.

    lambda goes from 2 to 10^9; below ||Phi||^2 = 1 the paper's DP-LSL does not exist.
    """
    per_decade = 2 * effort.per_decade
    ridges = 2 * 10 ** (np.arange(8 * per_decade + 1) / per_decade)
    sizes = (10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 8 * 10**9)
    return RegularisationSettings(
        sizes=sizes, ridges=tuple(float(f"{ridge:.6g}") for ridge in ridges)
    )


def run(settings: RegularisationSettings, run: int) -> list[TableRow]:
    """Compute the rows of one run; LSW has no lambda and is run once for each m."""
    made: list[TableRow] = []
    for bound in settings.bounds:
        setting = MethodSetting(bound=bound)
        for m in settings.sizes:
            methods = [plain_lsw(), paper_lsw()]
            methods += [plain_lsl(ridge) for ridge in settings.ridges]
            methods += [paper_lsl(ridge) for ridge in settings.ridges]
            for method in methods:
                error = rmse(outcome(method, setting, m, run).values)
                made += rows_of(method, setting, m, run, {"rmse": error})
    return made


def by_ridge(table: ResultTable, algorithm: str, bound: float, m: int) -> Curve:
    """Return the error of LSL or DP-LSL along lambda.

    Args:
        table: the results.
        algorithm: "LSL" or "DP-LSL".
        bound: of returns.
        m: the number of trajectories.

    Returns:
        The curve.
    """
    return table.curve("ridge", algorithm=algorithm, bound=bound, trajectories=m)


def plot(settings: RegularisationSettings, table: ResultTable) -> Figure:
    """Plot a panel for each bound and batch size."""
    figure, grid = panels(len(settings.bounds), 2, size=(9.0, 7.0), sharex=True, sharey="row")
    for line, bound in zip(grid, settings.bounds, strict=True):
        for axes, m in zip(line, settings.drawn, strict=True):
            _panel(axes, table, bound, m)
        line[0].set_ylabel("RMSE over states")
    for axes in grid[-1]:
        axes.set_xlabel("λ")
    grid[0][1].legend(frameon=False, fontsize=8.5, loc="upper right")
    return figure


def _panel(axes: Axes, table: ResultTable, bound: float, m: int) -> None:
    """Draw the panel of one bound and batch size, with a ring around the best lambda."""
    axes.set_title(
        f"m = $10^{{{round(np.log10(m))}}}$, returns known to be in [0, {bound:g}]",
        loc="left",
        fontsize=10,
    )
    ends = by_ridge(table, "LSL", bound, m).at[[0, -1]]
    for name in ("DP-LSL", "LSL"):
        curve = by_ridge(table, name, bound, m)
        sparse = max(len(curve.at) // 16, 1)
        draw(axes, curve, label=name, markevery=sparse, **algorithm_style(name))
    for name in ("DP-LSW", "LSW"):
        level = table.curve(algorithm=name, bound=bound, trajectories=m)
        flat = Curve(ends.tolist(), np.repeat(level.values, 2, axis=1))
        draw(axes, flat, label=name, **algorithm_style(name))
    zero = float(np.sqrt(np.mean(truth() ** 2)))
    reference(axes, zero, "0 for every state", at=0.01)
    best = by_ridge(table, "DP-LSL", bound, m)
    at = int(np.argmin(best.mean))
    axes.plot(best.at[at], best.mean[at], "o", markersize=11, markerfacecolor="none", color=GREY)


PANEL_2 = Experiment(
    name="panel-2",
    title="All four algorithms, tabular, RMSE against lambda",
    settings=settings,
    run=run,
    plots={"panel-2": plot},
)
