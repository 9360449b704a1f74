"""Draw releases and plans with Matplotlib, which is imported only then.

Some states are rows, from top to bottom, each with its name; many are columns from left to right,
of which some are named. The total interval is a thin line, the privacy interval a thick one, the
value a mark on both, hollow where there is something to be careful about.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privalue.errors import MissingComponentError, UsageError
from privalue.planning import Prediction
from privalue.releases import NOT_PRIVATE, Release
from privalue.report import bits_of, heading, policy_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

_MOST_ROWS = 40  # states that are rows; more are columns
_MOST_CELLS = 150  # of a map, that show their numbers
_MOST_NAMES = 16  # columns that are named
_LABEL, _LINES = 32, 4  # characters of a line of a label, and how many lines it may have
# Okabe and Ito's colours, which most colour-blind people can distinguish
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_MARKS = ("o", "s", "D", "^", "v", "P")


@dataclass(frozen=True, kw_only=True)
class Marks:
    """One value for each state, with intervals, as one colour of a plot."""

    name: str
    value: Floats
    total: tuple[Floats, Floats] | None
    privacy: tuple[Floats, Floats] | None
    doubtful: NDArray[np.bool_]


def marks_of(release: Release) -> list[Marks]:
    """Return the values of a release for a plot: one set of marks for each arm."""
    each = len(release) // max(len(release.arms), 1)

    def ends(kind: str, part: slice) -> tuple[Floats, Floats] | None:
        low, high = (release.column(f"{kind}{end}") for end in ("low", "high"))
        if low is None and high is None:
            return None
        open_end = np.full(each, np.inf)
        return (
            -open_end if low is None else low[part],
            open_end if high is None else high[part],
        )

    found = []
    told = "" if release.private else f" ({NOT_PRIVATE})"  # beside titles, which people replace
    for at, arm in enumerate(release.arms or ("value",)):
        part = slice(at * each, (at + 1) * each)
        found.append(
            Marks(
                name=arm + told,
                value=release.value[part],
                total=ends("total_", part),
                privacy=ends("", part),
                doubtful=bits_of(release.main)[part] != 0,
            )
        )
    return found


def plot_release(release: Release, ax: "Axes | None" = None) -> "Axes":
    """Draw the values of a release; see ``Release.plot``."""
    told = release.privacy
    if release.mechanism == "dp-ope":
        axes = _policies(release, ax)
    elif release.actions:
        known = release.column("supported")
        axes = _map(release, release.value, known, ax, heading(release, "value"), "viridis")
    else:
        marks, what = marks_of(release), heading(release, "value")
        axes = _states(release.states, marks, ax, level=release.level, what=what)
    promise = (
        f"epsilon = {told.epsilon:g}, delta = {told.delta:g}"
        if release.private
        else f"{NOT_PRIVATE}, an experiment"
    )
    if "useless" in release.accepted:
        promise += "; no better than guessing"
    axes.set_title(
        f"{_cut(release.study['study'].get('name') or 'release')}: {promise}", loc="left"
    )
    return axes


def _policies(release: Release, ax: "Axes | None") -> "Axes":
    """Draw both policies side by side, or the target's value by start."""
    if release.policy_value is None:
        return _states(release.states, marks_of(release), ax, level=release.level)
    found = [line for _, of, line, _ in policy_lines(release) if of != "difference"]
    fields = ("value", "low", "high", "total_low", "total_high")
    columns = {name: np.array([line[name] for line in found]) for name in fields}
    marks = Marks(
        name="value" + ("" if release.private else f" ({NOT_PRIVATE})"),
        value=columns["value"],
        total=(columns["total_low"], columns["total_high"]),
        privacy=(columns["low"], columns["high"]),
        doubtful=np.array([not release.supported[0], False]),
    )
    return _states(["the target", "the behaviour"], [marks], ax, level=release.level)


def plot_advantages(
    release: Release, advantage: Floats, known: NDArray[np.bool_], ax: "Axes | None" = None
) -> "Axes":
    """Draw what actions are worth more than what was done, as a map of states and actions.

    Args:
        release: whose actions they are.
        advantage: of every pair.
        known: where the data say something.
        ax: axes to draw into; new ones, if left out.
    """
    most = float(np.abs(advantage[known]).max()) if known.any() else 1.0
    axes = _map(release, advantage, known, ax, "advantage", "RdBu", (-most, most))
    told = "" if release.private else f"{NOT_PRIVATE}: "
    axes.set_title(f"{told}advantage over what was done; a hypothesis", loc="left")
    return axes


def _map(
    release: Release,
    values: Floats,
    known: NDArray[np.bool_] | None,
    ax: "Axes | None",
    what: str,
    colours: str,
    between: tuple[float | None, float | None] = (None, None),
) -> "Axes":
    """Draw a number for every state and action; what is not known is hatched.

    Args:
        release: whose states and actions they are.
        values: of every pair.
        known: where the data say something; everywhere, if None.
        ax: axes to draw into; new ones, if left out.
        what: the numbers are.
        colours: the name of a colour map.
        between: the numbers at both ends of it.
    """
    states, actions = release.states, release.actions
    cells = np.full((len(states), len(actions)), np.nan)
    allowed = np.zeros(cells.shape, dtype=np.bool_)
    places = np.stack(release.places_of_pairs())
    allowed[tuple(places)] = True
    seen = slice(None) if known is None else known
    cells[tuple(places[:, seen])] = values[seen]
    axes = _axes(ax, min(len(states), _MOST_ROWS), "plot()")
    unknown = np.where(allowed & np.isnan(cells), 1.0, np.nan)
    edges = np.arange(len(actions) + 1) - 0.5, np.arange(len(states) + 1) - 0.5
    axes.pcolor(*edges, np.ma.masked_invalid(unknown), hatch="///", cmap="Greys", vmin=0, vmax=9)
    low, high = between
    drawn = axes.pcolormesh(*edges, np.ma.masked_invalid(cells), cmap=colours, vmin=low, vmax=high)
    axes.figure.colorbar(drawn, ax=axes, label=what)
    least, largest = drawn.get_clim()
    span = (largest or 0.0) - (least or 0.0)
    for (row, column), value in np.ndenumerate(cells) if cells.size <= _MOST_CELLS else ():
        if np.isfinite(value):
            share = (value - (least or 0.0)) / span if span else 0.5
            dark = abs(share - 0.5) > 0.35 if colours == "RdBu" else share < 0.6
            told = f"{value:.2f}".replace("-0.00", "0.00")
            colour = "white" if dark else "black"
            axes.text(column, row, told, ha="center", va="center", color=colour, fontsize=8)
    _name_places(axes.set_xticks, actions)
    _name_places(axes.set_yticks, states)
    axes.invert_yaxis()
    axes.set_xlabel("action (hatched: too little is known)")
    axes.set_ylabel("state")
    return axes


def _name_places(set_ticks: Any, labels: Sequence[str]) -> None:
    """Name the rows or columns of a map, or some of them."""
    every = -(-len(labels) // _MOST_ROWS)
    places = range(0, len(labels), every)
    set_ticks(list(places), labels=[_cut(labels[at]) for at in places])


def plot_plan(prediction: Prediction, ax: "Axes | None" = None) -> "Axes":
    """Draw the predicted error of every mechanism, with its range, beside that of guessing.

    Args:
        prediction: the plan.
        ax: axes to draw into; new ones, if left out.
    """
    planned = [each for each in prediction.forecasts if each.refused is None]
    if not planned:
        raise UsageError(f"there is nothing to plot: {prediction.chosen.refused}")
    axes = _axes(ax, len(planned) + 1, "plan.plot()")
    places = np.arange(len(planned))
    for place, each in zip(places.tolist(), planned, strict=True):
        own = each.option.chosen
        colour = _COLOURS[0] if own else "0.45"
        axes.plot(each.range, (place, place), color=colour, linewidth=2.0, solid_capstyle="butt")
        axes.plot(each.rmse, place, "o", color=colour, markersize=8 if own else 6)
    guess = prediction.guess
    axes.axvline(guess, color="0.35", linestyle=(0, (6, 2)), label="guessing")
    axes.axvline(prediction.floor, color="0.2", linestyle=":", label="without privacy")
    axes.set_xscale("log")
    own_name = {each.option.label: " (this study)" for each in planned if each.option.chosen}
    axes.set_yticks(
        places, [each.option.label + own_name.get(each.option.label, "") for each in planned]
    )
    axes.set_ylim(len(planned) - 0.5, -0.5)
    axes.set_xlabel("predicted root mean square error")
    axes.set_title(
        f"{_cut(prediction.study.study.name)}: {prediction.trajectories:,} trajectories", loc="left"
    )
    _finish(axes)
    return axes


def _states(
    states: Sequence[str],
    marks: Sequence[Marks],
    ax: "Axes | None",
    *,
    level: float | None,
    what: str = "value",
) -> "Axes":
    """Draw marks of every state, those of one state side by side.

    Args:
        states: their labels.
        marks: one set for each arm.
        ax: axes to draw into; new ones, if left out.
        level: of the intervals, for the legend.
        what: the values are.
    """
    count = len(states)
    rows = count <= _MOST_ROWS
    axes = _axes(ax, count * (1 + 0.35 * (len(marks) - 1)) if rows else None, "plot()")
    places = np.arange(count, dtype=np.float64)
    bottom, top = _limits(marks)
    line = axes.hlines if rows else axes.vlines
    thin = 1.0 if rows else max(0.3, min(1.0, 250 / count))
    for at, each in enumerate(marks):
        colour = _COLOURS[at % len(_COLOURS)]
        beside = places + 0.7 * ((at + 0.5) / len(marks) - 0.5)
        for ends, width, alpha in ((each.total, 1.2, 1.0), (each.privacy, 4.0, 0.45)):
            if ends is not None:
                low, high = (np.clip(end, bottom, top) for end in ends)
                line(beside, low, high, color=colour, linewidth=width * thin, alpha=alpha)
        for doubtful in (False, True):
            chosen = each.doubtful == doubtful
            if chosen.any():
                pair = (each.value[chosen], beside[chosen])
                axes.plot(
                    *(pair if rows else pair[::-1]),
                    _MARKS[at % len(_MARKS)],
                    color=colour,
                    markersize=6.0 * max(thin, 0.4),
                    markerfacecolor="white" if doubtful else colour,
                    linestyle="none",
                )
        axes.plot([], [], _MARKS[at % len(_MARKS)], color=colour, label=each.name)
    percent = "" if level is None else f"{100 * level:g}% "
    if any(each.total is not None for each in marks):
        axes.plot([], [], color="0.3", linewidth=1.2, label=f"{percent}total interval")
    if any(each.privacy is not None for each in marks):
        axes.plot([], [], color="0.3", linewidth=4, alpha=0.45, label=f"{percent}privacy interval")
    if any(each.doubtful.any() for each in marks):
        axes.plot(
            [], [], "o", color="0.3", markerfacecolor="white", linestyle="none", label="be careful"
        )
    if rows:
        axes.set_yticks(places, [_cut(state) for state in states])
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_xlabel(what)
        axes.set_xlim(bottom, top)
    else:
        named = np.unique(np.linspace(0, count - 1, _MOST_NAMES).astype(int))
        axes.set_xticks(named, [_cut(states[at]) for at in named], rotation=30, ha="right")
        axes.set_xlim(-1, count)
        axes.set_ylabel(what)
        axes.set_ylim(bottom, top)
    _finish(axes)
    return axes


def _limits(marks: Sequence[Marks]) -> tuple[float, float]:
    """Return the ends of the axis of values: a little more than all numbers need."""
    seen: list[Floats] = []
    for each in marks:
        seen += [each.value, *(each.total or ()), *(each.privacy or ())]
    known = np.concatenate(seen)
    known = known[np.isfinite(known)]
    low, high = float(known.min()), float(known.max())
    room = 0.04 * (high - low) or max(0.1 * abs(high), 1e-12)
    return low - room, high + room


def _axes(ax: "Axes | None", rows: float | None, use: str) -> "Axes":
    """Return the axes that were given, or new ones: as high as the rows need.

    Args:
        ax: what was given.
        rows: how many rows there are; None for columns.
        use: what asks for it, for the message where Matplotlib is missing.
    """
    if ax is not None:
        if not hasattr(ax, "hlines"):
            raise UsageError(
                f"ax is a {type(ax).__name__}; give Matplotlib axes, as plt.subplots()[1], or none"
            )
        return ax
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra, and heavy
    except ImportError:
        raise MissingComponentError(
            f"{use} draws with Matplotlib, the extra pictures: pip install matplotlib; a notebook "
            "shows releases and plans without it"
        ) from None
    size = (8.0, 4.0) if rows is None else (7.5, 1.3 + 0.34 * max(rows, 2))
    made: Any = plt.subplots(figsize=size, layout="constrained")
    axes: Axes = made[1]
    return axes


def _finish(axes: "Axes") -> None:
    """Set what all plots have in common."""
    axes.grid(color="0.5", alpha=0.2)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _cut(text: object) -> str:
    """Return a label that Matplotlib shows as it is: a pair of dollars would be a formula."""
    lines = textwrap.wrap(str(text), _LABEL, max_lines=_LINES, placeholder="…")
    return "\n".join(lines).replace("$", r"\$")
