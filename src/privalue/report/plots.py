"""Draw with Matplotlib, which is imported only then.

Some values are rows, from top to bottom, each with its name; many are columns from left to right.
The total interval is a thin line, the privacy interval a thick one, the value a mark on both,
hollow where there is a flag.
"""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privalue.errors import MissingComponentError, UsageError
from privalue.releases import Release
from privalue.report.description import Description, Table
from privalue.report.release_facts import describe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 40  # values that are rows; more are columns
_MOST_CELLS = 150  # of a map, that show their numbers
_MOST_NAMES = 16  # columns that are named
_MOST_LINES = 300  # columns that have lines; more are bands
# Okabe and Ito's colours, which most colour-blind people can distinguish
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
ENDINGS = (".png", ".svg", ".pdf")


def plot_release(release: Release, ax: "Axes | None" = None) -> "Axes":
    """Draw the values with their intervals, arms in colours of their own."""
    description = describe(release)
    table = description.table("states") or description.table("values")
    assert table is not None
    return plot_table(description, table, ax)


def save_figure(description: Description, file: Path, *, force: bool = False) -> Path:
    """Write the page's first plot as a picture: differences, where there are any.

    Raises:
        UsageError: the file exists, or its name ends in something else than .png, .svg or .pdf.
        MissingComponentError: Matplotlib is not installed.
    """
    if file.suffix.lower() not in ENDINGS:
        raise UsageError(f"{file} must end in {', '.join(ENDINGS)}", code="figure-ending")
    if file.exists() and not force:
        raise UsageError(f"{file} exists; allow it to be overwritten (force)", code="exists")
    table = description.tables[0]
    figure = _matplotlib().figure.Figure(figsize=_size(table), layout="constrained")
    plot_table(description, table, figure.add_subplot())
    try:
        figure.savefig(file, dpi=200)
    except OSError as problem:
        raise UsageError(f"cannot write {file}: {problem.strerror}", code="cannot-write") from None
    return file


def plot_table(description: Description, table: Table, ax: "Axes | None" = None) -> "Axes":
    """Draw a table of values: one colour for each arm."""
    arms = list(table.labels.get("Arm", [""] * len(table)))
    groups = {arm: [at for at, of in enumerate(arms) if of == arm] for arm in dict.fromkeys(arms)}
    names = [
        [str(label) for label in column] for head, column in table.labels.items() if head != "Arm"
    ]
    first = next(iter(groups.values()), [])
    labels = [", ".join(column[at] for column in names) for at in first]
    is_rows = len(labels) <= _MOST_ROWS
    axes = _axes(ax, _size(table))
    for number, (arm, places) in enumerate(groups.items()):
        shift = 0.0 if len(groups) == 1 else 0.5 * (number / (len(groups) - 1) - 0.5)
        _draw(axes, table, np.array(places), shift, number, arm, is_rows=is_rows)
    if table.axis is not None:
        low, high = table.axis.low, table.axis.high
        (axes.set_xlim if is_rows else axes.set_ylim)(low, high)
        for mark in table.marks:
            if low <= mark <= high:
                (axes.axvline if is_rows else axes.axhline)(mark, color="0.5", lw=0.8, ls="--")
    _name(axes, labels, is_rows=is_rows)
    outcome = table.axis_label or "value"
    (axes.set_xlabel if is_rows else axes.set_ylabel)(outcome)
    private = "" if description.private else "NOT PRIVATE: "
    axes.set_title(textwrap.fill(f"{private}{table.title}", 60), loc="left")
    if len(groups) > 1:
        axes.legend()
    return axes  # type: ignore[no-any-return]


def _draw(
    axes: Any,
    table: Table,
    places: NDArray[Any],
    shift: float,
    number: int,
    arm: str,
    *,
    is_rows: bool,
) -> None:
    colour, along = _COLOURS[number % len(_COLOURS)], np.arange(len(places)) + shift
    lines = axes.hlines if is_rows else axes.vlines
    for ends, width, shade in ((table.total, 1.2, 1.0), (table.privacy, 4.0, 0.35)):
        if ends is None:
            continue
        low, high = ends[0][places], ends[1][places]
        if len(places) > _MOST_LINES:
            axes.fill_between(along, low, high, color=colour, alpha=0.25 * shade, lw=0)
        else:
            lines(along, low, high, color=colour, lw=width, alpha=shade)
    values = table.value[places]
    hollow = np.isin(places, table.flagged)
    for chosen, face, label in ((~hollow, colour, arm or "value"), (hollow, "white", None)):
        at, value = along[chosen], values[chosen]
        points = (value, at) if is_rows else (at, value)
        size = 24 if len(places) <= _MOST_LINES else 4
        axes.scatter(*points, s=size, facecolor=face, edgecolor=colour, zorder=3, label=label)


def _name(axes: Any, labels: list[str], *, is_rows: bool) -> None:
    step = 1 if is_rows else -(-len(labels) // _MOST_NAMES)
    at = np.arange(0, len(labels), step)
    short = [textwrap.shorten(labels[place], 32, placeholder="…") for place in at]
    plain = [text.replace("$", r"\$") for text in short]  # two would begin a formula
    if is_rows:
        axes.set_yticks(at, plain)
        axes.invert_yaxis()
    else:
        axes.set_xticks(at, plain, rotation=30, ha="right")


def plot_advantages(
    release: Release,
    advantage: NDArray[np.float64],
    known: NDArray[np.bool_],
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what every action is worth more than what was done; what is unknown is hatched."""
    states, actions = release.states, release.actions
    matrix = np.full((len(states), len(actions)), np.nan)
    matrix[release.places_of_pairs()] = np.where(known, advantage, np.nan)
    size = (7.0, max(2.4, 1.4 + 0.4 * min(len(states), _MOST_ROWS)))
    axes = _axes(ax, size)
    most = float(np.nanmax(np.abs(matrix))) if np.isfinite(matrix).any() else 1.0
    axes.set_facecolor("0.92")
    drawn = axes.imshow(matrix, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto")
    axes.figure.colorbar(drawn, ax=axes, label="worth more than what was done")
    axes.set_xticks(range(len(actions)), [textwrap.shorten(name, 24) for name in actions])
    axes.set_yticks(range(len(states)), [textwrap.shorten(name, 32) for name in states])
    if matrix.size <= _MOST_CELLS:
        for (row, column), value in np.ndenumerate(matrix):
            text = "?" if np.isnan(value) else f"{value:.2g}"
            axes.text(column, row, text, ha="center", va="center", fontsize="small")
    private = "" if release.private else "NOT PRIVATE: "
    axes.set_title(f"{private}Advantage of every action")
    return axes  # type: ignore[no-any-return]


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw into: new ones, if none are given."""
    if ax is None:
        return _matplotlib().pyplot.subplots(figsize=size, layout="constrained")[1]
    if not hasattr(ax, "hlines"):
        raise UsageError(f"ax is a {type(ax).__name__}; give Matplotlib axes", code="axes")
    return ax


def _size(table: Table) -> tuple[float, float]:
    return 7.0, 1.6 + 0.28 * len(table) if len(table) <= 2 * _MOST_ROWS else 4.0


def _matplotlib() -> Any:
    """Import Matplotlib, or say how to install it."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        import matplotlib.figure  # noqa: PLC0415
        import matplotlib.pyplot  # noqa: PLC0415
    except ImportError:
        raise MissingComponentError(
            "plots need Matplotlib: pip install matplotlib", code="matplotlib-missing"
        ) from None
    return mpl
