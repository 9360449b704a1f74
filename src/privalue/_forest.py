"""Draw a forest plot as SVG: a row for each state, its value and its intervals, from plain rows.

The total interval is a thin line, the privacy interval a bar inside it, the value a mark on both;
where there are arms, those of a state stand one below the other. Every drawing is made twice, for
wide places and for narrow ones, and the style shows the one that fits. Colours are variables of the
style, so that a drawing follows light, dark and paper. Rows can be reached by keyboard, and show
exact numbers on hover and on focus. Nothing here needs a script, another file, or a library.
"""

import html
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from privalue._written import at_place, decimal_place, written, written_exactly

_FONT = 13.5
_LINE = 17.0  # from one line of text to the next
_SHAPES = ("dot", "square", "diamond")  # of the first arm, the second, and so on again
_MOST_LINES = 3  # of a name
_CROWDED = 2.5  # times as wide as what is not flagged: then an axis leaves wide intervals out
_END = "…"

Ends = tuple[float | None, float | None]


@dataclass(frozen=True, kw_only=True)
class PlotRow:
    """One value; neighbours with the same name and different arms are drawn as one row."""

    name: str
    value: float
    total: Ends = (None, None)  # privacy and sampling together
    privacy: Ends = (None, None)
    span: Ends = (None, None)  # of a group: its least and its largest value, around the median
    flag: str = ""
    note: str = ""  # beside a row that is not flagged itself
    arm: str = ""

    @property
    def beside(self) -> str:
        """Return the words beside the number: the flag, or the note."""
        return self.flag or self.note

    @property
    def text(self) -> str:
        """Return the value with the interval that is shown first, in as many digits as it has."""
        outer = self.total if self.total != (None, None) else self.privacy
        if self.span[0] is not None:
            least, largest = (written(end, *outer).value for end in self.span)
            return least if least == largest else f"{least} to {largest}"
        return str(written(self.value, *outer))


@dataclass(frozen=True, kw_only=True)
class _Texts:
    """What a plot says beside its rows."""

    title: str
    description: str
    level: float | None
    outer: str
    inner: str
    point: str
    kept: Sequence[float]  # numbers that the axis must hold


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Where numbers are drawn."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        """Return where a number is, or the end of the axis that is nearest to it."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)

    def beyond(self, value: float) -> bool:
        """Return whether a number is not on the axis."""
        return not self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """The sizes of one drawing."""

    kind: str
    width: float
    names: float  # where the names end and the plot begins; 0 if names are above
    numbers: float  # where the plot ends and the numbers begin
    flags: float


def style() -> str:
    """Return the style of plots, for a page that has several of them."""
    return Path(__file__).with_name("_forest.css").read_text(encoding="utf-8")


def forest_plot(
    rows: Sequence[PlotRow],
    *,
    title: str,
    description: str,
    key: str = "forest",
    level: float | None = None,
    bounds: Ends = (None, None),
    zero: str = "",
    outer: str = "total interval",
    inner: str = "privacy interval",
    point: str = "value",
    styled: bool = True,
) -> str:
    """Return a forest plot as HTML: a wide and a narrow SVG, of which one is shown.

    Args:
        rows: in the order in which they are drawn.
        title: what is drawn, in some words.
        description: the same for those who do not see it, in sentences.
        key: by which the ids of this plot differ from others on the same page.
        level: of the intervals, for the legend.
        bounds: public bounds of values, drawn as dashed lines where they are in sight.
        zero: what 0 means; it is drawn as a dashed line, unless this is empty.
        outer: what the thin lines are called.
        inner: what the bars are called.
        point: what the points are called.
        styled: whether the style comes with it; a page with several plots has it once.

    Returns:
        A ``div`` that can stand in any page.
    """
    groups = [list(found) for _, found in groupby(rows, key=lambda row: row.name)]
    if not any(row.arm for row in rows):
        groups = [[row] for row in rows]
    lines = [(bound, "public bound of returns") for bound in bounds if bound is not None]
    lines += [(0.0, zero)] if zero else []
    words = _Texts(
        title=title,
        description=description,
        level=level,
        outer=outer,
        inner=inner,
        point=point,
        kept=(0.0,) if zero else (),
    )
    drawings = [_drawing(k, groups, words, f"{key}-{k}", lines) for k in ("wide", "narrow")]
    sheet = f"<style>{style()}</style>" if styled else ""
    return f'<div class="pv-forest">{sheet}{"".join(drawings)}</div>'


def _drawing(
    kind: str,
    groups: Sequence[Sequence[PlotRow]],
    words: _Texts,
    key: str,
    lines: Sequence[tuple[float, str]],
) -> str:
    """Return one of the two drawings."""
    rows = [row for group in groups for row in group]
    frame = _frame(kind, rows)
    low, high = _limits(rows, words.kept)
    across = _Axis(low=low, high=high, left=frame.names, right=frame.numbers)
    lines = [(at, meaning) for at, meaning in lines if low <= at <= high]
    cut = any(
        across.beyond(end) for row in rows for end in (*row.total, *row.privacy) if end is not None
    )
    legend, top = _legend(frame, rows, words, lines, cut=cut)
    heights = [_height(frame, group) for group in groups]
    bottom = top + sum(heights) + 6
    axis = _axis(frame, (low, high), across, top, bottom)
    axis += "".join(_line(across(at), top, across(at), bottom, "pv-bound") for at, _ in lines)
    drawn, y = [], top + 3
    for group, height in zip(groups, heights, strict=True):
        drawn.append(_row(frame, group, words, y, height, across))
        y += height
    whole = bottom + 26
    tall = " pv-tall" if whole > 1.2 * frame.width else ""  # fills a sheet of paper by itself
    return (
        f'<svg class="pv-{kind}{tall}" viewBox="0 0 {_n(frame.width)} {_n(whole)}" role="group" '
        f'aria-labelledby="{key}-title" aria-describedby="{key}-text" data-top="{_n(top + 3)}">'
        f'<title id="{key}-title">{_text(words.title)}</title>'
        f'<desc id="{key}-text">{_text(words.description)}</desc>'
        f'<g aria-hidden="true">{legend}{axis}</g>{"".join(drawn)}</svg>'
    )


def _frame(kind: str, rows: Sequence[PlotRow]) -> _Frame:
    """Return the columns of a drawing: as wide as names, numbers and flags need."""
    if kind == "narrow":
        return _Frame(kind=kind, width=360, names=8, numbers=352, flags=352)
    names = min(max(_width(row.name) for row in rows), 280.0) + 14
    if any(row.arm for row in rows):
        names += 6
    flags = 860 - (min(max(_width(row.beside) for row in rows), 130.0) + 12)
    flags = flags if any(row.beside for row in rows) else 860.0
    numbers = flags - min(max(_width(row.text) for row in rows), 230.0) - 24
    return _Frame(kind=kind, width=860, names=names, numbers=numbers, flags=flags)


def _height(frame: _Frame, group: Sequence[PlotRow]) -> float:
    """Return how high a row is: its name, and a line for each arm."""
    lines = len(_lines(group[0].name, _room(frame)))
    each = len(group)
    if frame.kind == "wide":
        return max(lines * _LINE, each * (20.0 if each > 1 else 16.0)) + 8
    beside = each == 1 and _beside(frame, group[0])
    return lines * _LINE + each * (16 if beside else 16 + _LINE) + 12


def _room(frame: _Frame) -> float:
    """Return how wide a name may be."""
    return frame.names - 12 if frame.kind == "wide" else frame.width - 16


def _beside(frame: _Frame, row: PlotRow) -> bool:
    """Return whether a narrow drawing has room for name, number and flag in one line."""
    return _width(row.name) + _width(row.text) + _width(row.beside) + 40 < frame.width


def _row(
    frame: _Frame,
    group: Sequence[PlotRow],
    words: _Texts,
    y: float,
    height: float,
    across: _Axis,
) -> str:
    """Return one row: its name, the marks of each arm, their numbers and flags, and its box."""
    wide = frame.kind == "wide"
    names = _lines(group[0].name, _room(frame))
    parts = [f'<rect class="pv-hit" x="0" y="0" width="{_n(frame.width)}" height="{_n(height)}"/>']
    first = (height - len(names) * _LINE) / 2 + 12.5 if wide else 15.0
    x, anchor = (frame.names - 12, "end") if wide else (8.0, "start")
    parts += [
        _written_at(x, first + at * _LINE, line, anchor, "pv-name") for at, line in enumerate(names)
    ]
    beside = not wide and len(group) == 1 and _beside(frame, group[0])
    step = height / len(group) if not wide else (height - 8) / len(group)
    for at, row in enumerate(group):
        colour = f"pv-arm{at % len(_SHAPES)}"
        if wide:
            middle = 4 + (at + 0.5) * step
            parts.append(_written_at(frame.numbers + 12, middle + 4.5, row.text, "start", colour))
            flag = frame.flags + 4, middle + 4.5, "start"
        else:
            each = 16 if beside else 16 + _LINE
            line = 15.0 if beside else len(names) * _LINE + at * each + 15
            middle = len(names) * _LINE + at * each + (10 if beside else _LINE + 9)
            shown = f"{row.arm}: {row.text}" if row.arm and len(group) > 1 else row.text
            x, anchor = (352.0, "end") if beside else (8.0, "start")
            parts.append(_written_at(x, line, shown, anchor, colour))
            moved = 352 - _width(shown) - 8 if beside else 352.0
            flag = moved, line, "end"
        if row.beside:
            room = 134.0 if wide else 352 - _width(row.text) - 24
            parts.append(_written_at(flag[0], flag[1], _cut(row.beside, room), flag[2], "pv-flag"))
        parts.append(_marks(row, middle, across, at))
    tip = _tip(frame, group, words)
    return (
        f'<g class="pv-row" tabindex="0" role="img" aria-label="{_text(_spoken(group, words))}" '
        f'data-value="{_n(group[0].value, 9)}" data-height="{_n(height)}" '
        f'transform="translate(0 {_n(y)})">{"".join(parts)}{tip}</g>'
    )


def _marks(row: PlotRow, y: float, across: _Axis, arm: int) -> str:
    """Return the line of the total interval, the bar of the privacy interval, and the value."""
    colour = f"pv-arm{arm % len(_SHAPES)}"
    parts = []
    edges = across(-math.inf), across(math.inf)

    def ends(pair: Ends) -> tuple[float, float]:
        low, high = pair
        return (
            edges[0] if low is None else across(low),
            edges[1] if high is None else across(high),
        )

    if row.total != (None, None):
        left, right = ends(row.total)
        parts.append(_line(left, y, right, y, f"pv-total {colour}"))
        parts += [
            _line(x, y - 4, x, y + 4, f"pv-total {colour}")
            for x, end in zip((left, right), row.total, strict=True)
            if end is not None and not across.beyond(end)  # what is open has no stroke across
        ]
    inner = row.span if row.span != (None, None) else row.privacy
    if inner != (None, None):
        left, right = ends(inner)
        parts.append(
            f'<rect class="pv-inner {colour}" x="{_n(left)}" y="{_n(y - 3.5)}" '
            f'width="{_n(max(right - left, 1.0))}" height="7"/>'
        )
    outermost = row.total if row.total != (None, None) else row.privacy
    if outermost != (None, None):
        parts += [
            _arrow(x, y, side, colour)
            for x, end, side in zip(ends(outermost), outermost, (-1, 1), strict=True)
            if end is None or across.beyond(end)
        ]
    parts.append(_mark(across(row.value), y, arm, f"pv-value {colour}", bool(row.flag)))
    return "".join(parts)


def _arrow(x: float, y: float, side: int, colour: str) -> str:
    """Return the tip of an arrow: here an interval goes on."""
    back = x - side * 6
    return (
        f'<path class="pv-arrow {colour}" d="M{_n(x)} {_n(y)} L{_n(back)} {_n(y - 4)} '
        f'L{_n(back)} {_n(y + 4)} Z"/>'
    )


def _mark(x: float, y: float, arm: int, kind: str, flagged: bool) -> str:
    """Return the mark of a value: a shape for each arm, hollow where it is flagged."""
    kind += " pv-doubtful" if flagged else ""
    shape = _SHAPES[arm % len(_SHAPES)]
    if shape == "dot":
        return f'<circle class="{kind}" cx="{_n(x)}" cy="{_n(y)}" r="4.5"/>'
    turned = f' transform="rotate(45 {_n(x)} {_n(y)})"' if shape == "diamond" else ""
    return f'<rect class="{kind}" x="{_n(x - 4)}" y="{_n(y - 4)}" width="8" height="8"{turned}/>'


def _tip(frame: _Frame, group: Sequence[PlotRow], words: _Texts) -> str:
    """Return the box with exact numbers above a row, which hover and focus show."""
    most = frame.width - 32
    exact = [line for row in group for line in _exact(row, words)]
    lines = [_cut(line, most) for line in (group[0].name, *exact)]
    wide = max(map(_width, lines)) + 20
    left = min(frame.names, frame.width - wide - 2)
    height = len(lines) * _LINE + 9
    texts = "".join(
        _written_at(
            left + 10, -height + 14 + at * _LINE, line, "start", "pv-strong" if not at else ""
        )
        for at, line in enumerate(lines)
    )
    box = (
        f'<rect class="pv-box" x="{_n(left)}" y="{_n(-height - 2)}" width="{_n(wide)}" '
        f'height="{_n(height)}" rx="4"/>'
    )
    return f'<g class="pv-tip" aria-hidden="true">{box}{texts}</g>'


def _exact(row: PlotRow, words: _Texts) -> list[str]:
    """Return the numbers of a row with all digits that mean something, a line each."""
    single = row.span == (None, None)
    several = "" if single else "s"
    found = [
        f"{row.arm}: " * bool(row.arm) + f"{words.point if single else 'median'} "
        f"{written_exactly(row.value)}"
    ]
    for what, (low, high) in (
        ("values", row.span),
        (f"{words.outer}{several}", row.total),
        (f"{words.inner}{several}", row.privacy),
    ):
        if (low, high) != (None, None):
            found.append(f"{what} {written_exactly(low)} to {written_exactly(high)}")
    return [*found, *([row.beside] if row.beside else [])]


def _spoken(group: Sequence[PlotRow], words: _Texts) -> str:
    """Return a row as a sentence."""
    return f"{group[0].name}: {'; '.join(', '.join(_exact(row, words)) for row in group)}"


def _legend(
    frame: _Frame,
    rows: Sequence[PlotRow],
    words: _Texts,
    lines: Sequence[tuple[float, str]],
    *,
    cut: bool,
) -> tuple[str, float]:
    """Return what the marks mean, and where the plot begins below it."""
    arms = list(dict.fromkeys(row.arm for row in rows if row.arm))
    percent = "" if words.level is None else f"{100 * words.level:g}% "
    grouped = any(row.span != (None, None) for row in rows)
    value = "median of the group" if grouped else words.point
    entries: list[tuple[str, str]] = [
        (_mark(9, 0, at, f"pv-value pv-arm{at % len(_SHAPES)}", False), arm)
        for at, arm in enumerate(arms or [value])
    ]
    line = _line(0, 0, 18, 0, "pv-total pv-arm0")
    if any(row.total != (None, None) for row in rows):
        entries.append((line, f"{percent}{words.outer}"))
    bar = '<rect class="pv-inner pv-arm0" x="0" y="-3.5" width="18" height="7"/>'
    if grouped:
        entries.append((bar, "least to largest value"))
    elif any(row.privacy != (None, None) for row in rows):
        entries.append((bar, f"{percent}{words.inner}"))
    if any(row.flag for row in rows):
        entries.append((_mark(9, 0, 0, "pv-value", True), "flagged: be careful"))
    if cut:
        entries.append(
            (_line(0, 0, 18, 0, "pv-total pv-arm0") + _arrow(18, 0, 1, "pv-arm0"), "goes on")
        )
    dashed = _line(9, -6, 9, 6, "pv-bound")
    entries += [(dashed, meaning) for meaning in dict.fromkeys(meaning for _, meaning in lines)]
    x, y, parts = 8.0, 12.0, []
    for sample, meaning in entries:
        text = _cut(meaning, frame.width - 48)
        wide = 26 + _width(text) + 16
        if x > 8 and x + wide > frame.width:
            x, y = 8.0, y + _LINE + 2
        parts.append(
            f'<g transform="translate({_n(x)} {_n(y)})">{sample}'
            f"{_written_at(26, 4.5, text, 'start', '')}</g>"
        )
        x += wide
    return "".join(parts), y + 14


def _axis(
    frame: _Frame,
    limits: tuple[float, float],
    across: _Axis,
    top: float,
    bottom: float,
) -> str:
    """Return the grid, and round numbers below it."""
    step = _step(limits[1] - limits[0], 7 if frame.kind == "wide" else 5)
    place = min(decimal_place(10 * step) or 0, 0) if step < 1 else 0
    parts = []
    for at in range(math.ceil(limits[0] / step - 1e-9), math.floor(limits[1] / step + 1e-9) + 1):
        x, text = across(at * step), at_place(at * step, place)
        half = _width(text) / 2
        parts.append(_line(x, top, x, bottom, "pv-grid"))
        anchor = "start" if x < half else "end" if x + half > frame.width else "middle"
        parts.append(_written_at(x, bottom + 16, text, anchor, ""))
    return "".join(parts)


def _step(width: float, count: int) -> float:
    """Return a round step: so many of them, or somewhat fewer, make the width.

    >>> _step(1.0, 6), _step(37.0, 6)
    (0.2, 10.0)
    """
    rough = width / count
    scale = 10.0 ** math.floor(math.log10(rough))
    return float(next(m * scale for m in (1, 2, 5, 10) if m * scale >= rough * 0.999))


def _limits(rows: Sequence[PlotRow], kept: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the axis: a little more than all numbers need, those to be kept too.

    One flagged interval may be as wide as all that is possible, and would press the others into
    points: where it would, the axis ends at what is not flagged, and such an interval goes on
    beyond it.
    """
    (low, high), sound = _extent(rows), _extent(rows, flagged=False)
    mostly = 2 * sum(not row.flag for row in rows) >= len(rows)
    if mostly and high - low > _CROWDED * (sound[1] - sound[0]) > 0:
        low, high = sound
    low, high = min(low, *kept, low), max(high, *kept, high)
    room = (high - low) * 0.04 or max(abs(high) * 0.1, 1e-12)
    return low - room, high + room


def _extent(rows: Sequence[PlotRow], *, flagged: bool = True) -> tuple[float, float]:
    """Return the least and the largest number; of flagged rows the value alone, unless asked."""
    ends = [
        (row.value, *(row.total + row.privacy + row.span if flagged or not row.flag else ()))
        for row in rows
    ]
    known = [x for found in ends for x in found if x is not None and math.isfinite(x)] or [0.0]
    return min(known), max(known)


def _lines(text: str, room: float) -> list[str]:
    """Return a name in lines of at most so many pixels; what is left over is cut."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < _MOST_LINES - 1 and _width(rest) > room:
        fits = _fitting(rest, room)
        space = rest.rfind(" ", 0, fits + 1)
        end = space if space > fits // 2 else fits
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, _cut(rest, room)]


def _cut(text: str, room: float) -> str:
    """Return a text that is at most so many pixels wide."""
    return text if _width(text) <= room else text[: _fitting(text, room - 12)].rstrip() + _END


def _fitting(text: str, room: float) -> int:
    """Return how many characters of a text fit, one at least."""
    used = 0.0
    for at, character in enumerate(text):
        used += _wide(character)
        if used > room:
            return max(at, 1)
    return len(text)


def _width(text: str) -> float:
    """Return about how wide a text is, in pixels."""
    return sum(map(_wide, text))


@cache
def _wide(character: str) -> float:
    """Return about how wide a character is: no less than in the usual fonts."""
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return _FONT * 1.05
    if character in "ijlI.,:;|'() ":
        return _FONT * 0.36
    return _FONT * (0.96 if character in "mwMW@%" else 0.7 if character.isupper() else 0.62)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a line; its class decides how it looks."""
    return f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>'


def _written_at(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    """Return a text at a position; its direction of writing does not change its place."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{_text(text)}</text>'


def _text(text: str) -> str:
    """Return a text as HTML shows it, without characters that HTML cannot hold."""
    plain = text.isascii() and text.isprintable()
    return html.escape(text if plain else "".join(map(_allowed, text)), quote=True)


def _allowed(character: str) -> str:
    """Return a character, or a mark where HTML may not hold it, or it would turn the text round."""
    kind = unicodedata.category(character)
    if character in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        return ""
    return "\ufffd" if kind in {"Cc", "Cs", "Cn"} and character not in "\t\n" else character


def _n(number: float, digits: int = 2) -> str:
    """Format a coordinate without zeros at its end."""
    text = f"{number:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
