"""Run panels 2 and 4 with exact calibration, the sharper bound of DP-LSL, and DP-SSP.

The same batches, the same guarantee and the same measures as in the paper's panels; what the paper
publishes is drawn thin beside them. Panel 1 has no privacy in it, and panel 3 is in ``surpassed``.
"""

from dataclasses import dataclass

import numpy as np

from privalue.paper._batches import batch, rmse, truth
from privalue.paper._excess import LINEAR, lsl_excess, lsw_excess
from privalue.paper._experiment import Experiment
from privalue.paper._methods import (
    Keys,
    Method,
    MethodSetting,
    built,
    outcome,
    paper_lsl,
    paper_lsw,
    plain_lsl,
)
from privalue.paper._pictures import (
    BLUE,
    COLD,
    GREEN,
    GREY,
    ORANGE,
    WARM,
    draw,
    panels,
    reference,
)
from privalue.paper._schedules import ridge
from privalue.paper._settings import TIGHT, Effort
from privalue.paper._table import Curve, ResultTable, TableRow, rows_of
from privalue.report.drawing import Axes, Figure

EXACT_LSW, EXACT_LSL, SSP_LSL = "DP-LSW, exact", "DP-LSL, exact", "DP-SSP, ridge"
SQRT = "sqrt(m)"


@dataclass(frozen=True, kw_only=True)
class AgainSettings:
    """The settings of the run: lambdas at two batch sizes, and excess at many."""

    sizes: tuple[int, ...]
    ridges: tuple[float, ...]
    batches: tuple[int, int] = (10**4, 10**6)
    aggregations: tuple[int, ...]
    bound: float = TIGHT


def settings(effort: Effort) -> AgainSettings:
    """Return the settings for an effort.

    There are half as many batch sizes as in panel 4. lambda begins at 0.1, which the sharper bound
    allows.
    """
    per_decade = max(effort.per_decade // 2, 1)
    thinner = Effort(name=effort.name, runs=effort.runs, per_decade=per_decade)
    ridges = 10 ** (np.arange(-per_decade, 7 * per_decade + 1) / per_decade)
    return AgainSettings(
        sizes=thinner.sizes(),
        ridges=tuple(float(f"{x:.6g}") for x in ridges),
        aggregations=(1, 4) if effort.per_decade == 1 else (1, 2, 4, 8),
    )


def exact_lsw() -> Method:
    """Return DP-LSW with exact calibration, automatic beta and whitened noise."""
    return Method(name=EXACT_LSW, keys=(("mechanism", "dp-lsw"),))


def exact_lsl(ridge: float, schedule: str = "") -> Method:
    """Return DP-LSL with exact calibration, automatic beta and the sharper bound."""
    keys: Keys = (("mechanism", "dp-lsl"), ("ridge", ridge))
    return Method(name=EXACT_LSL, keys=keys, ridge=ridge, schedule=schedule)


def ssp_lsl(ridge: float) -> Method:
    """Return DP-SSP, with LSL fitted to the noisy statistics."""
    keys: Keys = (("mechanism", "dp-ssp"), ("ridge", ridge))
    return Method(name=SSP_LSL, keys=keys, ridge=ridge)


def run(settings: AgainSettings, run: int) -> list[TableRow]:
    """Compute the rows of one run."""
    made: list[TableRow] = []
    setting = MethodSetting(bound=settings.bound)
    for m in settings.batches:
        methods = [exact_lsw(), paper_lsw()]
        for value in settings.ridges:
            methods += [plain_lsl(value), exact_lsl(value), ssp_lsl(value)]
            methods += [paper_lsl(value)] if value > 1 else []
        for method in methods:
            error = rmse(outcome(method, setting, m, run).values)
            made += rows_of(method, setting, m, run, {"rmse": error})
    for size in settings.aggregations:
        setting = MethodSetting(bound=settings.bound, aggregation=size)
        for m in settings.sizes:
            made += _excess(setting, m, run)
    return made


def _excess(setting: MethodSetting, m: int, run: int) -> list[TableRow]:
    """Compute the excess risk of ours and the paper's algorithms on one batch."""
    made: list[TableRow] = []
    design, counts = built(setting), batch(m, run, setting.bound).counts
    for method in (exact_lsw(), paper_lsw()):
        found = outcome(method, setting, m, run)
        excess = lsw_excess(design, found.theta - found.clean)
        made += rows_of(method, setting, m, run, {"excess": excess})
    large = ridge(LINEAR, m)
    for method in (exact_lsl(ridge(SQRT, m), SQRT), paper_lsl(large, LINEAR)):
        found = outcome(method, setting, m, run)
        assert method.ridge is not None
        excess = lsl_excess(design, counts, method.ridge, found.theta - found.clean, m)
        made += rows_of(method, setting, m, run, {"excess": excess})
    return made


def plot_ridge(settings: AgainSettings, table: ResultTable) -> Figure:
    """Plot error against lambda."""
    figure, (line,) = panels(1, 2, size=(9.0, 4.6), sharey=True)
    styles = (
        (EXACT_LSL, ORANGE, "-"),
        (SSP_LSL, GREEN, "-"),
        ("LSL", GREY, (0, (4, 2))),
    )
    for axes, m in zip(line, settings.batches, strict=True):
        axes.set_title(f"m = $10^{{{round(np.log10(m))}}}$", loc="left", fontsize=10)
        faint = table.curve("ridge", algorithm="DP-LSL", trajectories=m)
        axes.plot(faint.at, faint.mean, color=ORANGE, linewidth=1, alpha=0.6)
        _flat(axes, table, "DP-LSW", m, settings, label="", linewidth=1, alpha=0.6)
        for name, colour, stroke in styles:
            label = "LSL, no privacy" if name == "LSL" else name
            curve = table.curve("ridge", algorithm=name, trajectories=m)
            draw(axes, curve, color=colour, label=label, linewidth=1.9, linestyle=stroke)
        _flat(axes, table, EXACT_LSW, m, settings, label=EXACT_LSW, linewidth=1.9)
        reference(axes, float(np.sqrt(np.mean(truth() ** 2))), "0 for every state")
        axes.set_xlabel("λ")
        axes.set_ylim(5e-5, 1e3)
    line[0].set_ylabel("RMSE over states")
    handles, names = line[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, ncols=4, loc="outside lower center")
    figure.suptitle("Thin lines: as published", fontsize=9, x=0.99, ha="right")
    return figure


def _flat(
    axes: Axes, table: ResultTable, name: str, m: int, settings: AgainSettings, **style: object
) -> None:
    """Draw a level line for LSW, which has no lambda."""
    level = table.curve(algorithm=name, trajectories=m, aggregation=1)
    ends = [settings.ridges[0], settings.ridges[-1]]
    draw(axes, Curve(ends, np.repeat(level.values, 2, axis=1)), color=BLUE, **style)


def plot_excess(settings: AgainSettings, table: ResultTable) -> Figure:
    """Plot excess risk against m."""
    figure, ((first, second),) = panels(1, 2, size=(9.0, 4.4), sharey=True)
    for size in settings.aggregations:
        blue, red = COLD[size], WARM[size]
        label = "tabular" if size == 1 else f"{size} states each"
        for axes, ours, theirs, colour in (
            (first, EXACT_LSW, "DP-LSW", blue),
            (second, EXACT_LSL, "DP-LSL", red),
        ):
            thin = table.curve(measure="excess", algorithm=theirs, aggregation=size)
            axes.plot(thin.at, thin.mean, color=colour, linewidth=0.9, alpha=0.6)
            curve = table.curve(measure="excess", algorithm=ours, aggregation=size)
            draw(axes, curve, color=colour, label=label, linewidth=1.9)
    first.set_title("DP-LSW, exact, whitened", loc="left", fontsize=10)
    second.set_title("DP-LSL, exact, λ = √m (thin: λ = 10m)", loc="left", fontsize=10)
    first.set_ylabel("excess empirical risk")
    for axes in (first, second):
        axes.set_xlabel("trajectories m")
        axes.legend(frameon=False, fontsize=8, loc="lower left")
    return figure


AGAIN = Experiment(
    name="again",
    title="Panels 2 and 4 with exact calibration and DP-SSP",
    settings=settings,
    run=run,
    plots={"again-2": plot_ridge, "again-4": plot_excess},
)
