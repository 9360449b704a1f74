"""Run panel 1: error of LSW and LSL without privacy against the batch size, tabular and aggregated.

The paper does not say which lambda it used here, and the comparison depends on it: a constant one
and two schedules in sqrt(m) are run.
"""

from dataclasses import dataclass

from privalue.paper._batches import rmse
from privalue.paper._experiment import Experiment
from privalue.paper._methods import Method, MethodSetting, outcome, plain_lsl, plain_lsw
from privalue.paper._pictures import BLUE, GOLD, ORANGE, PURPLE, draw, panels
from privalue.paper._schedules import pretty, ridge
from privalue.paper._settings import Effort
from privalue.paper._table import ResultTable, TableRow, rows_of
from privalue.report.drawing import Figure

CONSTANT, SMALL, LARGE = "1", "sqrt(m)", "100 sqrt(m)"


@dataclass(frozen=True, kw_only=True)
class ConvergenceSettings:
    """The settings of panel 1."""

    sizes: tuple[int, ...]
    aggregations: tuple[int, ...] = (1, 2)
    schedules: tuple[str, ...] = (CONSTANT, SMALL, LARGE)


def settings(effort: Effort) -> ConvergenceSettings:
    """Return the settings for an effort: m from 10 to 10^7."""
    return ConvergenceSettings(sizes=effort.sizes())


def run(settings: ConvergenceSettings, run: int) -> list[TableRow]:
    """Compute the rows of one run."""
    made: list[TableRow] = []
    for aggregation in settings.aggregations:
        setting = MethodSetting(aggregation=aggregation)
        for m in settings.sizes:
            methods: list[Method] = [plain_lsw()]
            methods += [plain_lsl(ridge(text, m), text) for text in settings.schedules]
            for method in methods:
                error = rmse(outcome(method, setting, m, run).values)
                made += rows_of(method, setting, m, run, {"rmse": error})
    return made


def plot(settings: ConvergenceSettings, table: ResultTable) -> Figure:
    """Plot a panel for each representation."""
    figure, ((left, right),) = panels(1, 2, size=(9.0, 4.0), sharey=True)
    titles = {1: "Tabular: 40 values", 2: "Aggregated pairs: 20 values"}
    colours = {CONSTANT: GOLD, SMALL: ORANGE, LARGE: PURPLE}
    for axes, aggregation in zip((left, right), settings.aggregations, strict=True):
        axes.set_title(titles[aggregation], loc="left", fontsize=10)
        for text in reversed(settings.schedules):
            curve = table.curve(algorithm="LSL", aggregation=aggregation, schedule=text)
            label = f"LSL, λ = {pretty(text)}"
            draw(axes, curve, color=colours[text], label=label, linewidth=1.8, marker=".")
        curve = table.curve(algorithm="LSW", aggregation=aggregation)
        draw(axes, curve, color=BLUE, label="LSW", linewidth=1.8, linestyle=(0, (4, 2)))
        axes.set_xlabel("trajectories m")
    left.set_ylabel("RMSE over states")
    right.legend(frameon=False, fontsize=8.5, loc="lower left")
    figure.suptitle("Without privacy: LSW is ahead of LSL by what the ridge costs", fontsize=11)
    return figure


PANEL_1 = Experiment(
    name="panel-1",
    title="LSL and LSW without privacy, RMSE against m",
    settings=settings,
    run=run,
    plots={"panel-1": plot},
)
