"""Draw a plan's figure: predicted error against the number of trajectories."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privalue._types import Progress
from privalue._written import counted
from privalue.core import MOST_TRAJECTORIES, Vector
from privalue.errors import StudyError, UsageError
from privalue.planning import Forecaster, Option, Prediction

# Okabe and Ito's colours, which most colour-blind people can distinguish
_COLOURS = {"dp-ssp": "#009e73", "dp-lsw": "#0072b2", "dp-lsl": "#d55e00"}
_LINES = {"exact": "-", "nissim": "--", "appendix": ":"}
_TUNED = (0, (4, 1, 1, 1))
_DECADE_ABOVE = 12.0  # errors further above guessing are not drawn
_POINTS = 17
_DRAWS = 16


@dataclass(frozen=True, kw_only=True)
class ErrorCurve:
    """The predicted error of one mechanism by m; NaN where it is refused.

    The ends of the range are those of the study's own mechanism, where there is a range.
    """

    option: Option
    errors: tuple[float, ...]
    floors: tuple[float, ...]
    ends: tuple[tuple[float, float], ...] = ()


def trajectories_around(trajectories: int) -> list[int]:
    """Return numbers of trajectories from a hundredth to a hundred times the planned one."""
    grid = np.geomspace(max(trajectories / 100, 10), min(trajectories * 100.0, MOST_TRAJECTORIES))
    return sorted({int(m) for m in np.geomspace(grid[0], grid[-1], _POINTS)})


def curves_of(
    prediction: Prediction, numbers: Sequence[int], *, progress: Progress | None = None
) -> list[ErrorCurve]:
    """Predict the lines of the figure: the study's own mechanism, the exact ones, the paper's.

    Args:
        prediction: the plan, whose forecasts say which mechanisms are drawn.
        numbers: the numbers of trajectories to predict for.
        progress: called with predictions done, and predictions in all.
    """
    options = [
        forecast.option
        for forecast in prediction.forecasts
        if forecast.option.chosen
        or (forecast.option.calibration != "appendix" and forecast.refused is None)
    ]
    curves = []
    for done, option in enumerate(options):
        points = []
        forecaster = None
        for at, m in enumerate(numbers):
            if progress is not None:
                progress(done * len(numbers) + at, len(options) * len(numbers))
            try:
                forecaster = forecaster or Forecaster(
                    option, prediction.model, draws=_DRAWS, ends=option.chosen
                )
                found = forecaster.at(m)
                points.append((found.rmse, found.without_noise, found.range))
            except StudyError:
                points.append((np.nan, np.nan, (np.nan, np.nan)))
        curves.append(
            ErrorCurve(
                option=option,
                errors=tuple(point[0] for point in points),
                floors=tuple(point[1] for point in points),
                ends=tuple(point[2] for point in points)
                if option.chosen and prediction.ranged
                else (),
            )
        )
    return curves


def draw_plan(
    prediction: Prediction,
    curves: Sequence[ErrorCurve],
    numbers: Sequence[int],
    *,
    file: Path,
    target: float | None = None,
) -> Path:
    """Draw the figure, as PNG or SVG by the file's ending.

    Args:
        prediction: the plan.
        curves: the lines, from ``curves_of``.
        numbers: the numbers of trajectories at which they were predicted.
        file: where to write.
        target: an error to mark; None for no mark.

    Returns:
        The path of the file.
    """
    from privalue.report.drawing import (  # noqa: PLC0415 - an extra, and heavy
        Figure,
        FigureCanvasAgg,
        FuncFormatter,
        LogLocator,
        NullFormatter,
        mpl,
    )

    checked_picture(file)
    with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8.0, 4.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        floor = np.fmin.reduce([curve.floors for curve in curves])
        guess = prediction.guess
        bottom, top = _limits(prediction, curves, floor, target)
        axes.axhspan(guess, top, color="0.5", alpha=0.1, linewidth=0)
        axes.axhline(guess, color="0.35", linewidth=1.2, linestyle=(0, (6, 2)))
        for curve in curves:
            option = curve.option
            axes.plot(
                numbers,
                curve.errors,
                color=_COLOURS[option.mechanism],
                linestyle=_TUNED if option.tuned else _LINES[option.calibration],
                linewidth=2.6 if option.chosen else 1.5,
                label=_label(option) + _unseen(curve, top),
                zorder=3 if option.chosen else 2,
            )
            if curve.ends:
                optimistic, cautious = zip(*curve.ends, strict=True)
                axes.fill_between(
                    numbers,
                    optimistic,
                    cautious,
                    color=_COLOURS[option.mechanism],
                    alpha=0.15,
                    linewidth=0,
                    label="   from the optimistic end\n   to the cautious one",
                )
        axes.plot(
            numbers,
            floor.tolist(),
            color="0.2",
            linewidth=1.2,
            linestyle=":",
            label="without privacy",
        )
        chosen = prediction.chosen
        if chosen.refused is None:
            axes.plot(
                [prediction.trajectories],
                [chosen.rmse],
                "o",
                color=_COLOURS[chosen.option.mechanism],
                markersize=8,
                markeredgecolor="white",
                zorder=4,
            )
        if target is not None:
            axes.axhline(target, color="#cc79a7", linewidth=1.2, label=f"target, {target:g}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(numbers[0], numbers[-1])
        axes.set_ylim(bottom, top)
        axes.annotate(
            "no better than guessing",
            xy=(0.995, guess),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
            color="0.3",
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1},
            zorder=5,
        )
        axes.set_xlabel("trajectories")
        axes.set_ylabel("predicted root mean square error")
        axes.set_title(_title(prediction), loc="left", fontsize=10)
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        figure.legend(frameon=False, fontsize=8, loc="outside right upper")
        metadata = (
            {"Software": "privalue"}
            if file.suffix.lower() == ".png"
            else {"Date": None, "Creator": "privalue"}
        )
        figure.savefig(file, dpi=150, metadata=metadata)
    return file


def checked_picture(file: Path) -> None:
    """Refuse a file that is neither PNG nor SVG, or whose directory does not exist.

    Raises:
        UsageError: if the ending or the directory is wrong.
    """
    if file.suffix.lower() not in {".png", ".svg"}:
        raise UsageError(f"the picture {file} must end in .png or .svg")
    if not file.parent.is_dir():
        raise UsageError(
            f"cannot write the picture {file}: {file.parent} is not a directory; create it first"
        )


def _label(option: Option) -> str:
    """Return the name of a line in the legend."""
    paper = {"nissim": "the paper's constants", "appendix": "the appendix's constants"}
    details = [paper[option.calibration]] if option.calibration in paper else []
    if option.tuned:
        details.append(option.detail)
    name = f"{option.mechanism}\n   {', '.join(details)}" if details else option.mechanism
    return f"{name}{' (this study)' if option.chosen else ''}"


def _unseen(curve: ErrorCurve, top: float) -> str:
    """Return the note in the legend for a line that lies above the figure."""
    seen = [error for error in curve.errors if error <= top]  # NaN is left out
    return "" if seen else "\n   (above the picture)"


def _title(prediction: Prediction) -> str:
    """Return the title: the study, its states and its budget."""
    study = prediction.study
    return (
        f"{study.study.name}: {counted(study.state_count, 'state')}, epsilon = "
        f"{study.privacy.epsilon:g}, delta = {study.privacy.delta:g}"
    )


def _limits(
    prediction: Prediction, curves: Sequence[ErrorCurve], floor: Vector, target: float | None
) -> tuple[float, float]:
    """Return the limits of the error's axis: from the least error to a decade above guessing."""
    errors = [error for curve in curves for error in curve.errors]
    marks = [*errors, *floor.tolist(), prediction.guess, target or math.inf]
    shown = [mark for mark in marks if math.isfinite(mark) and mark > 0] or [1.0]
    high = prediction.guess if prediction.guess > 0 else max(shown)
    return min(shown) / 1.5, max(high, target or 0.0) * _DECADE_ABOVE
