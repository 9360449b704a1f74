"""``python -m benchmarks errata``: the tables of docs/errata.md, and its picture drawn anew."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import matplotlib.colors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.table import Table

from privalue.core._calibration import nissim
from privalue.core._design import Design
from privalue.paper import theory
from privalue.simulation import chain_statistics, parse_world
from privalue.study._features import aggregation

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
EPSILON, DELTA = 0.1, 0.1  # the paper's setting
WARD, RIDGE = 240, 2.0  # states of which a trajectory visits one; lambda
DRAWS = 200
PUBLISHED, CORRECTED, TRUE = "#D55E00", "#0072B2", "#009E73"  # told apart by all eyes (Okabe, Ito)


def tabular(states: int, chances: np.ndarray, joint: np.ndarray, m: int, ridge: float):
    return theory.Setting(
        design=Design(phi=aggregation(states, 1), weights=np.ones(states)),
        calibration=nissim(EPSILON, DELTA, states),
        chances=chances,
        joint=joint,
        trajectories=m,
        largest=1.0,
        ridge=ridge,
    )


def chain(m: int, ridge: float = 10.0):
    """The paper's chain: N = 40, p = 0.5, uniform start; returns in [0, 1]."""
    visits = parse_world("chain").process.visits
    return tabular(40, visits.single, visits.joint, m, ridge)


def ward(m: int, states: int = WARD, ridge: float = RIDGE):
    """Every trajectory visits one of the states, each as often."""
    chances = np.full(states, 1 / states)
    return tabular(states, chances, np.diag(chances), m, ridge)


def chain_draws(function, m: int, **chosen) -> tuple[float, float]:
    """The mean of the excess given counts over simulated data sets, and its standard error."""
    setting, world = chain(m, **chosen), parse_world("chain")
    values = [
        function(setting, chain_statistics(world, trajectories=m, seed=seed).counts)
        for seed in range(DRAWS)
    ]
    return float(np.mean(values)), float(np.std(values)) / math.sqrt(DRAWS)


def ward_draws(m: int, states: int = WARD) -> float:
    generator = np.random.default_rng(m)
    setting = ward(m, states)
    counts = generator.multinomial(m, setting.chances, size=20)
    return float(np.mean([theory.lsl_excess_given_counts(setting, row) for row in counts]))


def table(title: str, names: list[str]) -> Table:
    made = Table(title=title)
    for name in names:
        made.add_column(name, justify="right")
    return made


def tables() -> Iterator[Table]:
    """What docs/errata.md says, computed anew; then the picture."""
    made = table(
        "DP-LSW on the paper's chain: expected excess, returns in [0, 1]",
        ["m", "section 5", "appendix D", "true, from", "to", "simulated", "corrected", "short"],
    )
    for m in (10, 100, 1000, 10**4, 10**5, 140_000, 10**6, 10**7):
        x = chain(m)
        true = theory.expected_lsw_excess(x)
        numbers = (
            theory.lsw_excess_short_bound_as_published(x),
            theory.lsw_excess_bound_as_published(x),
            true.lower,
            true.upper,
            chain_draws(theory.lsw_excess_given_counts, m)[0],
            theory.lsw_excess_bound(x),
            theory.lsw_excess_short_bound(x),
        )
        made.add_row(f"{m:,}", *(f"{number:.3g}" for number in numbers))
    yield made

    made = table(
        "DP-LSL: expected excess, returns in [0, 1]",
        ["world", "lambda", "m", "appendix E", "simulated", "too small by", "summed", "corrected"],
    )
    for m in (30, 100, 1000, 10**4):
        mean, _ = chain_draws(theory.lsl_excess_given_counts, m, ridge=10.0)
        _add(made, "chain, 40", chain(m, 10.0), mean)
    for states, m in ((40, 400), (240, 2400), (240, 24_000), (1000, 10_000)):
        _add(made, f"ward, {states}", ward(m, states), ward_draws(m, states))
    yield made

    made = table("Lemma 1: the first epsilon at which it fails", ["d", "delta", "epsilon"])
    for d, delta in ((1, 0.1), (2, 0.1), (40, 0.1), (1, 1e-6)):
        made.add_row(f"{d}", f"{delta:g}", f"{first_failure(delta, d):.2f}")
    yield made
    draw()


def _add(made: Table, world: str, x: theory.Setting, mean: float) -> None:
    published = theory.lsl_excess_bound_as_published(x)
    rest = (mean, mean / published, theory.lsl_excess_summed_bound(x), theory.lsl_excess_bound(x))
    numbers = (f"{number:.3g}" for number in (published, *rest))
    made.add_row(world, f"{x.ridge:g}", f"{x.trajectories:,}", *numbers)


def first_failure(delta: float, d: int) -> float:
    """The epsilon at which the true delta of Lemma 1's constants passes delta."""
    low, high = 10.0, 1000.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        holds = theory.lemma_1_delta(middle, delta, d).upper <= delta
        low, high = (middle, high) if holds else (low, middle)
    return high


def draw() -> None:
    fonts = {"font.size": 11, "svg.hashsalt": "privalue", "svg.fonttype": "none"}
    with mpl.rc_context(fonts):
        figure = Figure(figsize=(11, 4.9), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        _draw_lsw(left)
        _draw_lsl(right)
        for axes in (left, right):
            axes.set_xlabel("trajectories m")
            axes.grid(color="0.92")
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
        left.set_ylabel("expected excess risk")
        figure.savefig(PICTURES / "errata.png", dpi=150, metadata={"Software": "privalue"})
        figure.savefig(PICTURES / "errata.svg", metadata={"Date": None, "Creator": "privalue"})


def _draw_lsw(axes: Axes) -> None:
    grid = np.unique(np.geomspace(10, 10**7, 61).astype(int)).tolist()
    settings = [chain(m) for m in grid]
    true = [theory.expected_lsw_excess(x) for x in settings]
    axes.loglog(
        grid, [theory.lsw_excess_bound_as_published(x) for x in settings],
        "--", color=PUBLISHED, linewidth=2, label="published, appendix D",
    )  # fmt: skip
    axes.loglog(
        grid, [theory.lsw_excess_short_bound_as_published(x) for x in settings],
        ":", color=PUBLISHED, linewidth=2, label="published, section 5",
    )  # fmt: skip
    axes.loglog(
        grid, [theory.lsw_excess_bound(x) for x in settings],
        color=CORRECTED, linewidth=2, label="corrected",
    )  # fmt: skip
    lower, upper = [b.lower for b in true], [b.upper for b in true]
    axes.fill_between(
        grid, lower, upper,
        facecolor=mpl.colors.to_rgba(TRUE, 0.35), edgecolor=TRUE, linewidth=1.5,
        label="true value: between exact sums",
    )  # fmt: skip
    dots = [10, 100, 1000, 10**4, 10**5, 300_000, 10**6, 10**7]
    means = [chain_draws(theory.lsw_excess_given_counts, m)[0] for m in dots]
    axes.plot(dots, means, "ko", markersize=5, label=f"simulated, {DRAWS} data sets")
    at = 140_000
    x = chain(at)
    low, high = theory.lsw_excess_bound_as_published(x), theory.expected_lsw_excess(x).lower
    _gap(axes, at, low, high, "left")
    axes.set_title("DP-LSW on the paper's chain", loc="left", fontsize=12)
    axes.legend(frameon=False, fontsize=10, loc="lower left")


def _draw_lsl(axes: Axes) -> None:
    grid = np.unique(np.geomspace(10, 10**6, 41).astype(int)).tolist()
    settings = [ward(m) for m in grid]
    axes.loglog(
        grid, [theory.lsl_excess_bound_as_published(x) for x in settings],
        "--", color=PUBLISHED, linewidth=2, label="published, appendix E",
    )  # fmt: skip
    axes.loglog(
        grid, [theory.lsl_excess_bound(x) for x in settings],
        color=CORRECTED, linewidth=2, label="corrected",
    )  # fmt: skip
    dots = [10, 30, 100, 300, 1000, 2400, 10**4, 30_000, 10**5, 10**6]
    means = [ward_draws(m) for m in dots]
    axes.plot(dots, means, "ko", markersize=5, label="simulated, 20 data sets")
    low, high = theory.lsl_excess_bound_as_published(ward(2400)), ward_draws(2400)
    _gap(axes, 2400, low, high, "right")
    axes.set_title(f"DP-LSL, {WARD} states, one per trajectory", loc="left", fontsize=12)
    axes.legend(frameon=False, fontsize=10, loc="upper right")


def _gap(axes: Axes, m: float, low: float, high: float, side: Literal["left", "right"]) -> None:
    arrow = {"arrowstyle": "<->", "color": "0.25", "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=(m, low), xytext=(m, high), arrowprops=arrow)
    times = float(f"{high / low:.3g}")
    axes.text(
        m / 1.25 if side == "left" else m * 1.25, low**0.3 * high**0.7,
        f"{times:,.0f} times\ntoo small",
        va="center", ha="right" if side == "left" else "left",
    )  # fmt: skip
