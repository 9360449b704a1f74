"""Run panel 4: excess empirical risk against the batch size, for several aggregations.

| symbol            | here            | formula                                                  |
|-------------------|-----------------|----------------------------------------------------------|
| eta               | ``eta``         | the noise, theta_hat - theta_X                           |
| J^w excess        | ``lsw_excess``  | eta^T Phi^T Gamma Phi eta                                |
| J^lambda excess   | ``lsl_excess``  | (1/m) eta^T (Phi^T D Phi + (lambda/2) I) eta             |

Both are J(theta_X + eta) - J(theta_X) exactly: J is quadratic, and theta_X its minimum. D is
diag(rho_s |X_s|), weights are 1. Their means over eta are in ``privalue.paper.theory``.

DP-LSL is run with lambda in sqrt(m), which the paper recommends, and in m, which its theory likes
best; and with features of norm 1 beside those of 0 and 1. Aggregation changes ||Phi|| of the
latter, and with it DP-LSL's noise.
"""

from dataclasses import dataclass

import numpy as np

from privalue.core import Design, Integers, Vector
from privalue.paper._batches import batch
from privalue.paper._experiment import Experiment
from privalue.paper._methods import MethodSetting, built, outcome, paper_lsl, paper_lsw
from privalue.paper._pictures import COLD, WARM, draw, panels
from privalue.paper._schedules import pretty, ridge
from privalue.paper._settings import BOUNDS, TIGHT, Effort
from privalue.paper._table import Curve, ResultTable, TableRow, rows_of
from privalue.report.drawing import Axes, Figure

SQRT, LINEAR = "100 sqrt(m)", "10 m"


@dataclass(frozen=True, kw_only=True)
class ExcessSettings:
    """The settings of panel 4."""

    sizes: tuple[int, ...]
    aggregations: tuple[int, ...] = (1, 2, 4, 8)
    schedules: tuple[str, ...] = (SQRT, LINEAR)
    bounds: tuple[float, ...] = BOUNDS


def settings(effort: Effort) -> ExcessSettings:
    """Return the settings for an effort.

    m goes from 10 to 10^8, a decade further than in the other panels, so that the rates show.
    """
    return ExcessSettings(sizes=effort.sizes(largest=10**8))


def lsw_excess(design: Design, eta: Vector) -> float:
    """Return eta^T Phi^T Gamma Phi eta ([BGP16] Lemma 22, without the terms of mean 0)."""
    return float(design.weights @ np.square(design.values(eta)))


def lsl_excess(design: Design, counts: Integers, ridge: float, eta: Vector, m: int) -> float:
    """Return (1/m) eta^T (Phi^T D Phi + (lambda/2) I) eta ([BGP16] Lemma 29).

    Args:
        design: Phi and the weights.
        counts: visits of each state.
        ridge: lambda.
        eta: the noise.
        m: the number of trajectories.

    Returns:
        The excess risk.
    """
    fitted = float((design.weights * counts) @ np.square(design.values(eta)))
    return (fitted + ridge / 2 * float(eta @ eta)) / m


def run(settings: ExcessSettings, run: int) -> list[TableRow]:
    """Compute the rows of one run."""
    made: list[TableRow] = []
    for bound in settings.bounds:
        for size in settings.aggregations:
            setting = MethodSetting(bound=bound, aggregation=size)
            unit = MethodSetting(bound=bound, aggregation=size, normalised=True)
            for m in settings.sizes:
                method = paper_lsw()
                found = outcome(method, setting, m, run)
                excess = lsw_excess(built(setting), found.theta - found.clean)
                made += rows_of(method, setting, m, run, {"excess": excess})
                counts = batch(m, run, bound).counts
                for text in settings.schedules:
                    method = paper_lsl(ridge(text, m), text)
                    for features in (setting, unit) if size > 1 else (setting,):
                        found = outcome(method, features, m, run)
                        eta = found.theta - found.clean
                        excess = lsl_excess(built(features), counts, ridge(text, m), eta, m)
                        made += rows_of(method, features, m, run, {"excess": excess})
    return made


def excess_curve(
    table: ResultTable,
    algorithm: str,
    bound: float,
    aggregation: int,
    *,
    schedule: str = "",
    normalised: bool = False,
) -> Curve:
    """Return the excess risk along m.

    Args:
        table: the results.
        algorithm: by its name in the table.
        bound: of returns.
        aggregation: how many states share a value.
        schedule: of lambda, for DP-LSL.
        normalised: whether features have norm 1; those of one state each have it anyway.

    Returns:
        The curve.
    """
    return table.curve(
        measure="excess",
        algorithm=algorithm,
        bound=bound,
        aggregation=aggregation,
        schedule=schedule,
        normalised=normalised and aggregation > 1,
    )


def plot(settings: ExcessSettings, table: ResultTable) -> Figure:
    """Plot DP-LSW, DP-LSL, and DP-LSL with features of norm 1, at the tight bound."""
    figure, ((first, second, third),) = panels(1, 3, size=(11.0, 4.2), sharey=True)
    for size in settings.aggregations:
        label = "tabular" if size == 1 else f"{size} states each"
        lsw = excess_curve(table, "DP-LSW", TIGHT, size)
        draw(first, lsw, color=COLD[size], label=label, marker="o", markersize=3)
        for axes, normalised in ((second, False), (third, True)):
            lsl = excess_curve(table, "DP-LSL", TIGHT, size, schedule=SQRT, normalised=normalised)
            draw(axes, lsl, color=WARM[size], label=label, marker="s", markersize=3)
    _guide(first, -2.0)
    for axes in (second, third):
        _guide(axes, -0.5)
    first.set_ylabel("excess empirical risk")
    first.set_title("DP-LSW", loc="left", fontsize=10)
    second.set_title(f"DP-LSL, λ = {pretty(SQRT)}, features 0 and 1", loc="left", fontsize=10)
    third.set_title("DP-LSL, features of norm 1", loc="left", fontsize=10)
    for axes in (first, second, third):
        axes.set_xlabel("trajectories m")
        axes.legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def _guide(axes: Axes, slope: float) -> None:
    """Draw a short line of the slope that theory gives."""
    at = np.array([1e6, 1e8])
    level = 1e3 * (at / at[0]) ** slope
    axes.plot(at, level, color="0.3", linewidth=1, linestyle=(0, (1, 1)))
    axes.annotate(
        f"slope {slope:g}",
        xy=(at[0], level[0]),
        xytext=(4, 4),
        textcoords="offset points",
        fontsize=8,
        color="0.3",
    )


PANEL_4 = Experiment(
    name="panel-4",
    title="Excess empirical risk against m, for several aggregations",
    settings=settings,
    run=run,
    plots={"panel-4": plot},
)
