"""Make the rows of forest plots from states: one by one, or in groups of neighbours where many."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privalue._forest import PlotRow, forest_plot
from privalue._written import counted
from privalue.core import Vector
from privalue.report._pages import PageHtml

MOST_ROWS = 60  # states that are drawn one by one
_GROUPS = 30
_NOTHING = (None, None)


@dataclass(frozen=True, kw_only=True)
class Series:
    """A number for every state, and both ends of its intervals, or one, where there are any."""

    names: Sequence[str] | range  # of the states of one arm; a range stands for its numbers
    values: Vector  # arm after arm
    outer: tuple[Vector | None, Vector | None] = _NOTHING
    inner: tuple[Vector | None, Vector | None] = _NOTHING
    flags: Sequence[str] | None = None  # of each value, empty where there is none
    flagged: NDArray[np.bool_] | None = None
    arms: tuple[str, ...] = ("",)

    @property
    def grouped(self) -> bool:
        """Return whether there are too many states to draw one by one."""
        return len(self.names) > MOST_ROWS


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot with its number and its caption."""

    key: str
    number: int
    svg: PageHtml
    caption: str | PageHtml
    orderable: bool = False


def plot_rows(series: Series) -> list[PlotRow]:
    """Return the rows of a plot: a state each, or a group each; those of its arms in turn."""
    return _groups(series) if series.grouped else _states(series)


def figure(
    series: Series,
    *,
    key: str,
    number: int,
    caption: str | PageHtml,
    title: str,
    level: float | None = None,
    bounds: tuple[float | None, float | None] = _NOTHING,
    zero: str = "",
    outer: str = "total interval",
    inner: str = "privacy interval",
) -> Figure:
    """Return a plot of a series, for a page that has the style of plots.

    Args:
        series: what is drawn.
        key: the figure's id.
        number: by which texts speak of it.
        caption: the sentences below it.
        title: what it shows, in some words.
        level: of the intervals.
        bounds: public bounds of returns.
        zero: what 0 means, where that is marked.
        outer: what the thin lines are called.
        inner: what the bars are called.
    """
    arms = f" in each of {len(series.arms)} arms" if len(series.arms) > 1 else ""
    several = " in groups of neighbours" if series.grouped else ""
    if series.grouped and all(end is None for end in series.outer):
        series, outer = replace(series, outer=series.inner, inner=_NOTHING), inner
    svg = forest_plot(
        plot_rows(series),
        title=title,
        description=f"{title}: {counted(len(series.names), 'state')}{arms}{several}. Each row "
        "has its numbers, and the table of all states has them, too.",
        key=key,
        level=level,
        bounds=bounds,
        zero=zero,
        outer=outer,
        inner=inner,
        styled=False,
    )
    return Figure(
        key=key,
        number=number,
        svg=PageHtml(svg),
        caption=caption,
        orderable=not series.grouped and len(series.names) > 2,
    )


def _states(series: Series) -> list[PlotRow]:
    """Return a row for every state and arm."""
    each = len(series.names)
    outer, inner = _ends(series.outer), _ends(series.inner)
    return [
        PlotRow(
            name=str(series.names[state]),
            value=float(series.values[at]),
            total=outer[at] if outer else _NOTHING,
            privacy=inner[at] if inner else _NOTHING,
            flag=series.flags[at] if series.flags is not None else "",
            arm=arm,
        )
        for state in range(each)
        for which, arm in enumerate(series.arms)
        for at in [which * each + state]
    ]


def _ends(
    pair: tuple[Vector | None, Vector | None],
) -> list[tuple[float | None, float | None]] | None:
    """Return both ends of every interval; None without any."""
    low, high = (None if end is None else end.tolist() for end in pair)
    if low is None and high is None:
        return None
    count = len(low or high or ())
    return list(zip(low or [None] * count, high or [None] * count, strict=True))


def _groups(series: Series) -> list[PlotRow]:
    """Return a row for every group of neighbours and arm."""
    each = len(series.names)
    starts = range(0, each, -(-each // _GROUPS))
    return [
        _group(
            series,
            slice(first + start, first + min(start + starts.step, each)),
            name=_between(series.names, start, min(start + starts.step, each)),
            arm=arm,
        )
        for start in starts
        for first, arm in zip(range(0, each * len(series.arms), each), series.arms, strict=True)
    ]


def _group(series: Series, inside: slice, *, name: str, arm: str) -> PlotRow:
    """Return a group: the ends of values and intervals, of states without a flag if it has any."""
    flagged = np.zeros(inside.stop - inside.start, dtype=np.bool_)
    if series.flagged is not None:
        flagged = series.flagged[inside]
    sound = slice(None) if flagged.all() else ~flagged
    values = series.values[inside][sound]
    low, high = (None if end is None else end[inside][sound] for end in series.outer)
    count = int(flagged.sum())
    told = f"{count:,} flagged" if count else ""
    return PlotRow(
        name=name,
        value=float(np.median(values)),
        span=(float(values.min()), float(values.max())),
        total=(
            None if low is None else float(low.min()),
            None if high is None else float(high.max()),
        ),
        flag=told if flagged.all() else "",
        note=told,
        arm=arm,
    )


def _between(names: Sequence[str] | range, start: int, stop: int) -> str:
    """Return the name of a group: its first state and its last."""
    first, last = (str(names[at]) for at in (start, stop - 1))
    return first if first == last else f"{_short(first)} to {_short(last)}"


def _short(name: str) -> str:
    """Cut a name of which two stand in one row."""
    return name if len(name) <= 40 else f"{name[:39]}…"
