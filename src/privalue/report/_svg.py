"""Draw charts as SVG inside the page: each twice, for wide screens and for narrow ones.

The style sheet colours them, so that they follow light, dark and paper, and hides the one that does
not fit. A chart has a name that says in words what it shows; the numbers are in a table beside it.
More states than ``MOST_POINTS`` are drawn in groups of neighbours, each from its least to its
largest value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.report._html import Content, Html, element

MOST_POINTS = 400
ARM_COLOURS = ("value", "second", "third")  # of the first arm, the second, and so on again
_GROUPS = 160


@dataclass(frozen=True, kw_only=True)
class Canvas:
    """The size of a drawing, and the room around its axes."""

    kind: str
    width: int
    height: int
    left: int
    right: int = 14
    top: int = 30
    bottom: int = 46
    ticks: int = 8

    @property
    def across(self) -> int:
        """Return the width between the axes."""
        return self.width - self.left - self.right

    @property
    def down(self) -> int:
        """Return the height between the axes."""
        return self.height - self.top - self.bottom


WIDE = Canvas(kind="wide", width=940, height=340, left=64)
NARROW = Canvas(kind="narrow", width=360, height=280, left=52, ticks=4)


@dataclass(frozen=True, kw_only=True)
class Series:
    """A number for every state, and both ends of an interval, or one, where there are any."""

    labels: Sequence[str] | range  # a range stands for its numbers
    values: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    doubtful: NDArray[np.bool_] | None = None
    arms: int = 1  # values are arm after arm, and labels those of one; too many are one long row

    @property
    def grouped(self) -> bool:
        """Return whether there are too many states to draw one by one."""
        return len(self.values) > MOST_POINTS

    @property
    def ranges(self) -> bool:
        """Return whether there are intervals."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True, kw_only=True)
class Group:
    """Adjacent states that are drawn as one: the ends of their values and of their intervals."""

    first: str
    last: str
    start: int
    stop: int
    least: float
    largest: float
    low: float | None
    high: float | None


def groups_of(series: Series) -> list[Group]:
    """Return groups of neighbouring states, at most ``_GROUPS``."""
    count = len(series.values)
    starts = np.arange(0, count, -(-count // _GROUPS))
    none: list[float | None] = [None] * len(starts)
    least = np.minimum.reduceat(series.values, starts).tolist()
    largest = np.maximum.reduceat(series.values, starts).tolist()
    low = none if series.low is None else np.minimum.reduceat(series.low, starts).tolist()
    high = none if series.high is None else np.maximum.reduceat(series.high, starts).tolist()
    begins = starts.tolist()
    return [
        Group(
            first=str(series.labels[start]),
            last=str(series.labels[stop - 1]),
            start=start,
            stop=stop,
            least=least[at],
            largest=largest[at],
            low=low[at],
            high=high[at],
        )
        for at, (start, stop) in enumerate(zip(begins, [*begins[1:], count], strict=True))
    ]


def state_chart(
    series: Series,
    *,
    name: str,
    axis: str,
    bounds: tuple[float, float] | None = None,
    zero: bool = False,
) -> list[Html]:
    """Draw a point for every state with its interval, in the order of the states.

    Args:
        series: the numbers of all states.
        name: what the chart shows, for those who do not see it.
        axis: the name of the vertical axis.
        bounds: lines to draw; None for no lines.
        zero: whether the axis includes 0.

    Returns:
        The wide chart and the narrow one.
    """
    return [_state_chart(canvas, series, name, axis, bounds, zero) for canvas in (WIDE, NARROW)]


def _state_chart(
    canvas: Canvas,
    series: Series,
    name: str,
    axis: str,
    bounds: tuple[float, float] | None,
    zero: bool,
) -> Html:
    """Draw the chart on one canvas."""
    bottom, top = _limits(series, zero)
    count = len(series.values) // series.arms
    slot = canvas.across / count

    def middle(state: float) -> float:
        return canvas.left + (state + 0.5) * slot

    def across(at: float) -> float:
        arm, state = divmod(at, count) if series.arms > 1 else (0, at)
        beside = (arm + 0.5) / series.arms - 0.5  # the arms of a state stand side by side
        return middle(state + 0.7 * beside)

    def down(value: float) -> float:
        share = (min(max(value, bottom), top) - bottom) / (top - bottom)
        return canvas.top + canvas.down * (1 - share)

    parts = [_vertical_axis(canvas, bottom, top, down)]
    parts += [
        _line(canvas.left, down(bound), canvas.width - canvas.right, down(bound), "bound")
        for bound in bounds or ()
        if bottom <= bound <= top
    ]
    if series.grouped:
        parts += _groups(series, across, down, slot)
    else:
        parts += _points(series, across, down, slot / series.arms)
    parts += _state_ticks(canvas, series.labels, middle, slot)
    parts.append(_text(canvas.width - canvas.right, canvas.height - 6, "state", "end", "strong"))
    parts.append(_text(8, 15, axis, "start", "strong"))
    return _svg(canvas, parts, name)


def _points(
    series: Series,
    across: Callable[[float], float],
    down: Callable[[float], float],
    slot: float,
) -> list[Html]:
    """Draw each state as a point with its interval."""
    parts = []
    each = len(series.values) // series.arms
    width = min(max(slot * 0.45, 1.0), 7.0)
    if series.ranges:
        for at in range(len(series.values)):
            low = -math.inf if series.low is None else float(series.low[at])
            high = math.inf if series.high is None else float(series.high[at])
            parts.append(_line(across(at), down(low), across(at), down(high), "interval", width))
    radius = min(max(slot * 0.32, 1.3), 5.0)
    for at, value in enumerate(series.values.tolist()):
        doubtful = series.doubtful is not None and series.doubtful[at]
        parts.append(
            element(
                "circle",
                cx=_n(across(at)),
                cy=_n(down(value)),
                r=_n(radius),
                class_="doubtful" if doubtful else ARM_COLOURS[at // each % len(ARM_COLOURS)],
            )
        )
    return parts


def _groups(
    series: Series,
    across: Callable[[float], float],
    down: Callable[[float], float],
    slot: float,
) -> list[Html]:
    """Draw each group of states as a box, from its least to its largest value."""
    parts = []
    for group in groups_of(series):
        left = across(group.start - 0.5)
        wide = max((group.stop - group.start) * slot - 0.4, 0.6)
        if group.low is not None and group.high is not None:
            parts.append(_rect(left, down(group.high), wide, down(group.low), "area"))
        top, bottom = down(group.largest), down(group.least)
        parts.append(_rect(left, top - 0.8, wide, bottom + 0.8, "value"))
    return parts


def _state_ticks(
    canvas: Canvas, labels: Sequence[str] | range, across: Callable[[float], float], slot: float
) -> list[Html]:
    """Name as many states on the axis as there is room for."""
    count = len(labels)
    # The last number of a range is its longest.
    longest = max(len(str(label)) for label in (labels[-1:] if type(labels) is range else labels))
    fits = max(int(canvas.across / (7.5 * min(longest, 12) + 14)), 1)
    step = max(-(-count // min(fits, max(canvas.ticks, fits if longest <= 12 else 0))), 1)
    if step > 1:  # a round number of states apart
        scale = 10 ** math.floor(math.log10(step))
        step = next(m * scale for m in (1, 2, 5, 10) if m * scale >= step)
    room = max(int(slot * step / 7.5), 4)
    y = canvas.top + canvas.down
    parts = []
    for at in range(0, count, step):
        x = across(at)
        parts.append(_line(x, y, x, y + 4, "axis"))
        label = _short(str(labels[at]), min(room, 22))
        half = 3.75 * len(label)
        anchor = "start" if x < half else "end" if x + half > canvas.width else "middle"
        parts.append(_text(x, y + 18, label, anchor))
    return parts


def _vertical_axis(
    canvas: Canvas, bottom: float, top: float, down: Callable[[float], float]
) -> Html:
    """Draw the grid, and the numbers beside it."""
    parts = []
    for tick in nice_ticks(bottom, top, 5):
        y = down(tick)
        parts.append(_line(canvas.left, y, canvas.width - canvas.right, y, "grid"))
        parts.append(_text(canvas.left - 8, y + 4.5, f"{tick:.6g}", "end"))
    return element("g", parts)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A part of a bar: how much, what it is called, its colour."""

    size: float
    label: str
    colour: str = "value"


def bar_chart(rows: Sequence[tuple[str, Sequence[Bar], str]], *, name: str) -> list[Html]:
    """Draw a bar for each row, of one part or several, with its number in words behind it.

    Args:
        rows: the label of each bar, its parts, and its number in words.
        name: what the chart shows, for those who do not see it.

    Returns:
        The wide chart and the narrow one.
    """
    return [_bar_chart(canvas, rows, name) for canvas in (WIDE, NARROW)]


def _bar_chart(canvas: Canvas, rows: Sequence[tuple[str, Sequence[Bar], str]], name: str) -> Html:
    """Draw the bars on one canvas."""
    wide = canvas.kind == "wide"
    left = 250 if wide else 8
    step, thick = (34, 20) if wide else (48, 18)
    room = canvas.width - left - (150 if wide else 16)
    most = max((sum(bar.size for bar in bars) for _, bars, _ in rows), default=0.0) or 1.0
    parts = []
    for at, (label, bars, shown) in enumerate(rows):
        y = 6 + at * step + (0 if wide else 20)
        x = float(left)
        for bar in bars:
            width = room * bar.size / most
            if width > 0:
                parts.append(_rect(x, y, max(width, 1.0), y + thick, bar.colour))
            x += width
        if wide:
            parts.append(_text(left - 12, y + 15, label, "end", "strong"))
            parts.append(_text(x + 10, y + 15, shown, "start"))
        else:
            parts.append(_text(left, y - 6, label, "start", "strong"))
            parts.append(_text(canvas.width - 8, y - 6, shown, "end"))
    sized = Canvas(
        kind=canvas.kind, width=canvas.width, height=len(rows) * step + 12, left=canvas.left
    )
    return _svg(sized, parts, name)


def key_of(*entries: tuple[str, Content], round_: bool = False) -> Html:
    """Return the key of a chart: what its colours mean.

    Args:
        entries: the kind of each mark, and its meaning.
        round_: whether colours that are bars elsewhere are points here.
    """
    samples = []
    for kind, meaning in entries:
        shape = (
            _line(0, 7, 24, 7, kind, None if kind == "bound" else 6)
            if kind in {"interval", "bound"}
            else _rect(4, 1, 16, 13, kind)
            if kind in {"area", "second", "third", "rest", "bar"} and not round_
            else element("circle", cx="12", cy="7", r="5", class_=kind)
        )
        sample = element("svg", shape, viewBox="0 0 24 14", aria_hidden="true", focusable="false")
        samples.append(element("li", sample, meaning))
    return element("ul", samples, class_="key")


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Return round numbers from low to high, about so many of them.

    >>> nice_ticks(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / count
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(m * scale for m in (1, 2, 2.5, 5, 10) if m * scale >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def visible(series: Series, bounds: tuple[float, float]) -> bool:
    """Return whether a chart of the series shows any of the bounds.

    Bounds far outside the values are left out: they would press the values into a thin line.
    """
    bottom, top = _limits(series, zero=False)
    return any(bottom <= bound <= top for bound in bounds)


def _limits(series: Series, zero: bool) -> tuple[float, float]:
    """Return the limits of the axis: a little more than all the numbers need."""
    seen = [series.values, series.low, series.high, np.zeros(1) if zero else None]
    low = min(float(numbers.min()) for numbers in seen if numbers is not None)
    high = max(float(numbers.max()) for numbers in seen if numbers is not None)
    room = (high - low) * 0.06 or max(abs(high) * 0.1, 1e-12)
    return low - room, high + room


def _svg(canvas: Canvas, parts: Sequence[Html], name: str) -> Html:
    """Return a drawing with its size and its name."""
    return element(
        "svg",
        parts,
        class_=canvas.kind,
        viewBox=f"0 0 {canvas.width} {canvas.height}",
        role="img",
        aria_label=name,
    )


def _line(
    x1: float, y1: float, x2: float, y2: float, kind: str, width: float | None = None
) -> Html:
    """Return a line; its kind decides the colour."""
    return element(
        "line",
        x1=_n(x1),
        y1=_n(y1),
        x2=_n(x2),
        y2=_n(y2),
        class_=kind,
        stroke_width=None if width is None else _n(width),
    )


def _rect(x: float, y: float, width: float, bottom: float, kind: str) -> Html:
    """Return a rectangle from y down to its bottom; its kind decides the colour."""
    kind = "value" if kind == "bar" else kind
    return element(
        "rect", x=_n(x), y=_n(y), width=_n(width), height=_n(max(bottom - y, 0.5)), class_=kind
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str | None = None) -> Html:
    """Return a text at a position."""
    return element("text", text, x=_n(x), y=_n(y), text_anchor=anchor, class_=kind)


def _short(text: str, most: int) -> str:
    """Cut a text to at most so many characters."""
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


def _n(number: float) -> str:
    """Format a coordinate with at most two decimals."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


__all__ = ["Bar", "Series", "bar_chart", "groups_of", "key_of", "state_chart", "visible"]
