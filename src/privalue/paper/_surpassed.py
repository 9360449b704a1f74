"""Go beyond the paper: the same batches, the same guarantee, and how many trajectories it takes.

| name                  | what is different                                                      |
|-----------------------|------------------------------------------------------------------------|
| DP-LSW, DP-LSL        | as published; lambda is the best of many, chosen in hindsight          |
| exact                 | exact calibration with automatic beta, whitened noise                  |
| exact + pseudo-count  | kappa = 100 visits at the value 1/2, which is public                   |
| DP-SSP, plain         | noisy statistics, without shrinkage                                    |
| DP-SSP                | with shrinkage, which the noisy statistics choose for themselves       |
| DP-SSP + prior        | knows how often states are visited, from a public prior                |

Estimates are clipped to the public bounds: post-processing, and kind to large noise. An RMSE is
reached at the m from which on the mean over runs stays below it.
"""

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privalue.paper._batches import rmse
from privalue.paper._evidence import Reached, reached
from privalue.paper._experiment import Experiment
from privalue.paper._methods import (
    Method,
    MethodSetting,
    outcome,
    paper_lsl,
    paper_lsw,
    plain_lsw,
)
from privalue.paper._pictures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    draw,
    panels,
    reference,
)
from privalue.paper._settings import TIGHT, WIDE, Effort
from privalue.paper._table import Curve, ResultTable, TableRow, rows_of
from privalue.report.drawing import Axes, Figure

PAPER_LSW, PAPER_LSL = "DP-LSW", "DP-LSL"
EXACT, PSEUDO = "exact", "exact + pseudo-count"
SSP_PLAIN, SSP, SSP_PRIOR = "DP-SSP, plain", "DP-SSP", "DP-SSP + prior"
NOT_PRIVATE = "LSW"
OURS = (EXACT, PSEUDO, SSP_PLAIN, SSP, SSP_PRIOR)
TARGETS = (0.05, 0.01)
CASES = ((TIGHT, 1), (TIGHT, 2), (WIDE, 1))  # the bound of returns, the aggregation
GUESS = 0.5  # the middle of the tight bounds, given to unvisited states


@dataclass(frozen=True, kw_only=True)
class SurpassedSettings:
    """The settings of the comparison; a case is a bound and an aggregation."""

    sizes: tuple[int, ...]
    ridge_scales: tuple[float, ...]  # lambda over sqrt(m)
    cases: tuple[tuple[float, int], ...]
    pseudo_count: float = 100.0


def settings(effort: Effort) -> SurpassedSettings:
    """Return the settings for an effort.

    m goes from 10 to 10^9, and lambda from 10 to 10^4 times sqrt(m). There are always four batch
    sizes in each decade: lines are drawn between them, and some are steep.
    """
    dense = Effort(name=effort.name, runs=effort.runs, per_decade=4)
    steps = np.arange(3 * effort.per_decade + 1) / effort.per_decade
    quick = effort.per_decade == 1
    return SurpassedSettings(
        sizes=dense.sizes(largest=10**7 if quick else 10**9),
        ridge_scales=tuple(float(f"{x:.6g}") for x in 10 ** (1 + steps)),
        cases=CASES[:1] if quick else CASES,
    )


def methods(settings: SurpassedSettings) -> list[Method]:
    """Return all algorithms but DP-LSL, which is run with many lambdas."""
    exact = (("mechanism", "dp-lsw"),)
    eased = (*exact, ("pseudo_count", settings.pseudo_count))
    ssp = (("mechanism", "dp-ssp"),)
    plain = (*ssp, ("shrinkage", False))
    return [
        plain_lsw(),
        paper_lsw(),
        Method(name=EXACT, keys=exact, unvisited=GUESS),
        Method(name=PSEUDO, keys=eased, unvisited=GUESS),
        Method(name=SSP_PLAIN, keys=plain, unvisited=GUESS),
        Method(name=SSP, keys=ssp, unvisited=GUESS),
        Method(name=SSP_PRIOR, keys=ssp, prior=True, unvisited=GUESS),
    ]


def run(settings: SurpassedSettings, run: int) -> list[TableRow]:
    """Compute the rows of one run."""
    made: list[TableRow] = []
    for bound, aggregation in settings.cases:
        setting = MethodSetting(bound=bound, aggregation=aggregation)
        for m in settings.sizes:
            chosen = methods(settings)
            chosen += [paper_lsl(c * math.sqrt(m)) for c in settings.ridge_scales]
            for method in chosen:
                values = np.clip(outcome(method, setting, m, run).values, 0.0, bound)
                made += rows_of(method, setting, m, run, {"rmse": rmse(values)})
    return made


def curve_of(table: ResultTable, name: str, bound: float, aggregation: int) -> Curve:
    """Return the error along m; for DP-LSL, at the lambda that is best at each m.

    Args:
        table: the results.
        name: of the algorithm.
        bound: of returns.
        aggregation: how many states share a value.

    Returns:
        The curve.
    """
    case: dict[str, Any] = {"bound": bound, "aggregation": aggregation}
    if name != PAPER_LSL:
        return table.curve(algorithm=name, **case)
    sizes = table.curve(algorithm=PAPER_LSW, **case).at
    best = []
    for m in sizes:
        errors = table.curve("ridge", algorithm=name, trajectories=int(m), **case)
        best.append(errors.values[:, int(np.argmin(errors.mean))])
    return Curve(sizes.tolist(), np.array(best).T)


@dataclass(frozen=True, kw_only=True)
class Saving:
    """How many trajectories an algorithm needs, and how many times fewer than the paper's two."""

    algorithm: str
    bound: float
    aggregation: int
    target: float
    needed: Reached
    factor: float | None  # the lesser of the paper's two over this one


def savings(settings: SurpassedSettings, table: ResultTable) -> list[Saving]:
    """Return what every algorithm needs for every target, in every case."""
    made = []
    for bound, aggregation in settings.cases:
        for target in TARGETS:
            needed = {
                name: reached(curve_of(table, name, bound, aggregation), target)
                for name in (PAPER_LSW, PAPER_LSL, *OURS, NOT_PRIVATE)
            }
            least = min(needed[PAPER_LSW].at, needed[PAPER_LSL].at)
            for name, found in needed.items():
                both = math.isfinite(found.at) and math.isfinite(least)
                made.append(
                    Saving(
                        algorithm=name,
                        bound=bound,
                        aggregation=aggregation,
                        target=target,
                        needed=found,
                        factor=least / found.at if both else None,
                    )
                )
    return made


def write_savings(found: Sequence[Saving], file: Path) -> list[Path]:
    """Write the table as .csv and .json.

    A target that is never reached is an empty cell, or null.
    """
    rows = []
    for saving in found:
        numbers = {
            name: value if math.isfinite(value) else None
            for name, value in asdict(saving.needed).items()
        }
        plain = {key: value for key, value in asdict(saving).items() if key != "needed"}
        rows.append({**plain, **{f"trajectories_{k}": v for k, v in numbers.items()}})
    with file.with_suffix(".csv").open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps({"private": False, "savings": rows}, indent=1, allow_nan=False)
    file.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return [file.with_suffix(".csv"), file.with_suffix(".json")]


STYLES: dict[str, dict[str, Any]] = {
    PAPER_LSW: {"color": ORANGE, "linewidth": 2.8},
    PAPER_LSL: {"color": ORANGE, "linewidth": 1.8, "linestyle": (0, (5, 2))},
    EXACT: {"color": PURPLE, "linewidth": 1.8},
    PSEUDO: {"color": SKY, "linewidth": 1.8},
    SSP: {"color": GREEN, "linewidth": 2.8},
    SSP_PRIOR: {"color": BLUE, "linewidth": 1.8, "linestyle": (0, (5, 2))},
    NOT_PRIVATE: {"color": GREY, "linewidth": 1.6, "linestyle": (0, (1, 1.5))},
}
NAMES = {
    PAPER_LSW: "DP-LSW as published",
    PAPER_LSL: "DP-LSL as published, best λ",
    EXACT: "DP-LSW, exact calibration",
    PSEUDO: "+ pseudo-counts",
    SSP: "DP-SSP",
    SSP_PRIOR: "DP-SSP, visits known",
    NOT_PRIVATE: "no privacy",
}
# The label of each line: its text, at which m it is, and how many points away from the line.
_PLACES: dict[str, tuple[str, float, float, float, str]] = {
    PAPER_LSW: ("DP-LSW as published", 1.0e5, 0, 10, "center"),
    PAPER_LSL: ("DP-LSL as published,\nbest λ in hindsight", 1.6e7, 6, 30, "center"),
    EXACT: ("DP-LSW, exact\ncalibration", 4.6e3, 7, 4, "left"),
    PSEUDO: ("DP-LSW, exact,\nwith pseudo-counts", 1.1e2, 6, 15, "left"),
    SSP: ("DP-SSP", 1.1e2, -5, -10, "right"),
    NOT_PRIVATE: ("no privacy", 1.0e3, -5, -9, "right"),
}


def plot(settings: SurpassedSettings, table: ResultTable) -> Figure:
    """Plot the main figure: how far apart the lines cross the targets."""
    figure, ((axes,),) = panels(1, 1, size=(8.6, 5.2))
    bound, aggregation = settings.cases[0]
    curves = {name: curve_of(table, name, bound, aggregation) for name in _PLACES}
    axes.set_xlim(10, 1e8)
    axes.set_ylim(2.5e-4, 1.1)
    for name, (text, at, right, up, side) in _PLACES.items():
        shown, style = curves[name].between(10, 1e8), STYLES[name]
        draw(axes, shown, **style)
        height = np.exp(np.interp(np.log(at), np.log(shown.at), np.log(shown.mean)))
        axes.annotate(
            text,
            xy=(at, height),
            xytext=(right, up),
            textcoords="offset points",
            ha=side,
            va="center",
            color=style["color"],
            fontsize=10,
            weight="bold" if name in (PAPER_LSW, SSP) else "normal",
        )
    for target in TARGETS:
        _distance(axes, curves, target)
    axes.set_xlabel("trajectories", fontsize=10.5)
    axes.set_ylabel("root mean square error over the 40 states", fontsize=10.5)
    axes.set_title(
        "The same data, the same guarantee (ε = δ = 0.1): how many trajectories it takes",
        loc="left",
        fontsize=11,
    )
    return figure


def _distance(axes: Axes, curves: dict[str, Curve], target: float) -> None:
    """Draw a double arrow from where DP-SSP reaches the target to where the paper's best does."""
    ours = reached(curves[SSP], target).at
    theirs = min(reached(curves[PAPER_LSW], target).at, reached(curves[PAPER_LSL], target).at)
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return
    arrow = {"arrowstyle": "<->", "color": "0.1", "linewidth": 1.5, "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", xy=(ours, target), xytext=(theirs, target), arrowprops=arrow)
    axes.annotate(
        f"error {target:g}: {float(f'{theirs / ours:.2g}'):,.0f} times fewer",
        xy=(math.sqrt(ours * theirs), target),
        xytext=(-4, 8),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=10.5,
        weight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2},
    )


def plot_cases(settings: SurpassedSettings, table: ResultTable) -> Figure:
    """Plot every case beside the others."""
    figure, (line,) = panels(1, len(settings.cases), size=(11.0, 4.6), sharey=True, sharex=True)
    for axes, (bound, aggregation) in zip(line, settings.cases, strict=True):
        features = "tabular" if aggregation == 1 else f"{aggregation} states each"
        axes.set_title(f"Returns in [0, {bound:g}], {features}", loc="left", fontsize=10)
        for name, style in STYLES.items():
            curve = curve_of(table, name, bound, aggregation)
            draw(axes, curve, label=NAMES[name].replace("+", "   with"), **style)
        for target in TARGETS:
            reference(axes, target, f"{target:g}", at=0.99)
        axes.set_xlabel("trajectories m")
    line[0].set_ylabel("RMSE over states, clipped")
    handles, names = line[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, ncols=4, loc="outside lower center")
    return figure


SURPASSED = Experiment(
    name="surpassed",
    title="The same batches and guarantee beyond the paper: trajectories to reach an RMSE",
    settings=settings,
    run=run,
    plots={"surpassed": plot, "surpassed-cases": plot_cases},
)
