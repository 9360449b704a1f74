"""Plot with Matplotlib, which is imported only when needed.

A few values are drawn as labelled rows, many as columns from left to right. The total interval is a
thin line, the privacy interval a thick one, and the value a mark on both, hollow if it is flagged.
The axis is that of the page, unless an interval reaches beyond it.
"""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privalue.errors import UsageError
from privalue.planning import Plan
from privalue.releases import Release
from privalue.report.description import Description, Table
from privalue.report.html import replace_controls
from privalue.report.tables import describe_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_ROWS = 40  # with more values, these are columns
_MAX_LABELS = 16  # the most columns with a label
_MAX_LARGE = 300  # the most columns with large marks
# Okabe and Ito's colours, which most colour-blind people can distinguish
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
ENDINGS = (".png", ".svg", ".pdf")


def plot_release(release: Release, ax: "Axes | None" = None) -> "Axes":
    """Plot the values with their intervals."""
    table = next(table for table in describe_tables(release) if table.key in {"states", "values"})
    return plot_table(table, ax, private=release.private)


def plot_plan(plan: Plan, ax: "Axes | None" = None) -> "Axes":
    """Plot the half-width against the people who visit a state, for several epsilon."""
    axes, table = _axes(ax, (6.4, 4.8)), plan.by_visits
    visits = np.geomspace(table[0].visits, table[-1].visits, 200)
    for epsilon, widths in plan.half_widths(visits).items():
        axes.plot(visits, widths, label=f"epsilon = {epsilon:g}")
    clean = [row.without_privacy for row in table]
    axes.plot([row.visits for row in table], clean, "k:", label="without privacy")
    suffix = ", share of the range" if plan.relative else ""
    axes.set(xscale="log", yscale="log", xlabel="people who visit a state")
    axes.set_ylabel(f"half-width of the interval{suffix}")
    axes.legend()
    return axes  # type: ignore[no-any-return]


def save_figure(description: Description, file: Path) -> Path:
    """Write the page's first plot to a file: the differences, if there are any.

    Raises:
        UsageError: the name does not end in .png, .svg or .pdf.
        MissingComponentError: Matplotlib is not installed.
    """
    if file.suffix.lower() not in ENDINGS:
        raise UsageError(f"{file} must end in {', '.join(ENDINGS)}", code="figure-ending")
    from privalue.report.drawing import Figure  # noqa: PLC0415 - an extra

    table = description.tables[0]
    figure = Figure(figsize=_size(table), layout="constrained")
    plot_table(table, figure.add_subplot(), private=description.private)
    try:
        figure.savefig(file, dpi=200)
    except OSError as problem:
        raise UsageError(f"cannot write {file}: {problem.strerror}", code="cannot-write") from None
    return file


def plot_table(table: Table, ax: "Axes | None" = None, *, private: bool) -> "Axes":
    """Plot a table of values, each group of rows in its own colour."""
    by = list(table.labels.get(table.by, [""] * len(table)))
    groups = {name: [at for at in range(len(by)) if by[at] == name] for name in dict.fromkeys(by)}
    names = [list(map(str, column)) for head, column in table.labels.items() if head != table.by]
    first = next(iter(groups.values()), [])
    labels = [", ".join(column[at] for column in names) for at in first]
    is_rows = len(labels) <= _MAX_ROWS
    axes = _axes(ax, _size(table))
    lines = axes.hlines if is_rows else axes.vlines
    for number, (name, places) in enumerate(groups.items()):
        shift = 0.0 if len(groups) == 1 else 0.5 * (number / (len(groups) - 1) - 0.5)
        along, colour = np.arange(len(places)) + shift, _COLOURS[number % len(_COLOURS)]
        for ends, width, alpha in ((table.total, 1.2, 1.0), (table.privacy, 4.0, 0.35)):
            if ends is not None:
                low, high = ends[0][places], ends[1][places]
                lines(along, low, high, color=colour, lw=width, alpha=alpha)
        hollow, values = np.isin(places, table.flagged), table.value[places]
        style = {"edgecolor": colour, "s": 24 if len(places) <= _MAX_LARGE else 4, "zorder": 3}
        for mask, face, label in ((~hollow, colour, name or "value"), (hollow, "white", "")):
            points = (values, along) if is_rows else (along, values)
            at = [end[mask] for end in points]
            axes.scatter(*at, facecolor=face, label=_literal(label) or None, **style)
    if table.axis is not None:
        if not np.any([*table.beyond.values()]):
            (axes.set_xlim if is_rows else axes.set_ylim)(table.axis.low, table.axis.high)
        for mark in table.marks:
            if table.axis.low <= mark <= table.axis.high:
                (axes.axvline if is_rows else axes.axhline)(mark, color="0.5", lw=0.8, ls="--")
    _label_rows(axes, labels, is_rows=is_rows)
    set_label = axes.set_xlabel if is_rows else axes.set_ylabel
    set_label(_literal(table.axis_label or "value"))
    title = table.title if private else f"NOT PRIVATE: {table.title}"
    axes.set_title(_literal(textwrap.fill(title, 60)), loc="left")
    if len(groups) > 1:
        axes.legend()
    return axes  # type: ignore[no-any-return]


def _label_rows(axes: Any, labels: list[str], *, is_rows: bool) -> None:
    step = 1 if is_rows else -(-len(labels) // _MAX_LABELS)
    at = np.arange(0, len(labels), step)
    texts = [_literal(textwrap.shorten(labels[place], 32, placeholder="…")) for place in at]
    if is_rows:
        axes.set_yticks(at, texts)
        axes.invert_yaxis()
    else:
        axes.set_xticks(at, texts, rotation=30, ha="right")


def _literal(text: str) -> str:
    """Return a text that Matplotlib shows literally: dollar signs would enclose a formula."""
    return replace_controls(text).replace("$", r"\$")


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw into: new ones, if none are given."""
    from privalue.report.drawing import pyplot  # noqa: PLC0415 - an extra

    return pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def _size(table: Table) -> tuple[float, float]:
    return 7.0, 1.6 + 0.28 * len(table) if len(table) <= 2 * _MAX_ROWS else 4.0
