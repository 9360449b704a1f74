"""Collect what the public page shows of states: the plot, the flags, the table of all of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue._written import written, written_count
from privalue.estimate import MEANINGS, greedy_step_of
from privalue.releases import Release
from privalue.report._heat import HeatTable, heat_table
from privalue.report._limits import counted_between, heading, restriction_in_words
from privalue.report._pages import LABEL, PageHtml, PageTable, flags, listed, named
from privalue.report._plots import MOST_ROWS, Series, figure
from privalue.report._rows import own_flags, rows_of
from privalue.report._states import StateTable, bits_of

MOST_LISTED = 2000  # rows of a whole table; values.csv has any number
HEAD_ROWS = 100  # rows that are shown of a longer one
_LINK = PageHtml('<a href="values.csv">values.csv</a>')


def values_context(release: Release, states: StateTable) -> dict[str, Any]:
    """Return the plot of values, their table, and what intervals mean.

    Args:
        release: what was released.
        states: the same values, with their flags.
    """
    discount = release.study["values"]["discount"]
    series = _series(states) if release.state_values is None else _series_of_states(release)
    return {
        "title": heading(release, "The values"),
        "figure": figure(
            series,
            key="figure-values",
            number=1,
            title=heading(release, "Value by state"),
            caption=_caption(release, states, series),
            level=release.level,
            bounds=counted_between(release),
        ),
        "maps": _maps(release, states) if release.actions else [],
        "meaning": f"The value of {_of(release)}: the sum of rewards, discounted by {discount:g} "
        f"per step. {restriction_in_words(release) or ''}".rstrip(),
        "intervals": _about_the_intervals(release),
        "table": _table(release, states),
        "states": _states(release),
        "link": _LINK,
    }


def _key(release: Release) -> str:
    """Return what a value is of."""
    return "state and action" if release.actions else "state"


def _of(release: Release) -> str:
    """Return what has a value, and when the return that the value describes begins."""
    if release.actions:
        return (
            "an action in a state is the return to expect from the first time that a trajectory "
            "takes it there, going on as people did"
        )
    return "a state is the return to expect from the first time that a trajectory comes to it"


def _series_of_states(release: Release) -> Series:
    """Return V for the plot, where values are of states and actions: a map has these."""
    found = release.state_values
    assert found is not None
    column = found.column
    few = len(found) <= MOST_ROWS
    return Series(
        names=release.states,
        values=found.value,
        outer=(column("total_low"), column("total_high")),
        inner=(column("low"), column("high")),
        flags=["; ".join(own_flags(entry.flags)) for entry in rows_of(found)] if few else None,
        flagged=bits_of(found) != 0,
    )


def _maps(release: Release, states: StateTable) -> list[HeatTable]:
    """Return the maps of actions: their values, and how much more than the state's each is."""
    state_of, action_of = release.places_of_pairs()
    low, high = (release.column(f"total_{end}") for end in ("low", "high"))
    _, _, step = greedy_step_of(release, level=release.level or 0.95, only_clear_gains=False)
    common: dict[str, Any] = {
        "states": release.states,
        "actions": release.actions,
        "state_of": state_of,
        "action_of": action_of,
    }
    return [
        heat_table(
            name="Values of actions",
            caption=PageHtml(
                "<strong>Values of actions.</strong> The stronger the colour, the larger the "
                "value. A question mark is an action that too few people took; an empty cell, one "
                "that is not allowed. Point at a cell for its interval."
            ),
            values=states.value,
            ends=(states.value if low is None else low, states.value if high is None else high),
            known=step.clear,
            **common,
        ),
        heat_table(
            name="Advantages of actions",
            caption=PageHtml(
                "<strong>Advantages.</strong> How much more (or less) an action is worth than what "
                "was done in the state. These intervals hold for all actions at once. They are "
                "associations: who got an action, and why, is not known here. A policy to try can "
                "be made of them at no further cost."
            ),
            values=step.advantage,
            ends=(step.low, step.high),
            known=step.clear,
            middle=0.0,
            **common,
        ),
    ]


def _states(release: Release) -> PageTable | None:
    """Return the table of V, where values are of states and actions; None without actions."""
    found = release.state_values
    if found is None:
        return None
    seen = HEAD_ROWS if len(found) > MOST_LISTED else len(found)

    def cells(entry: Any) -> list[object]:
        total = written(entry.value, entry.total_low, entry.total_high)
        privacy = written(entry.value, entry.low, entry.high).within
        known = own_flags(entry.flags)
        return [named(entry.state, LABEL), total.value, total.within, privacy, flags(known)]

    more = f"The first {seen:,} of {len(found):,} states. " if seen < len(found) else ""
    return PageTable(
        key="values-of-states",
        name=heading(release, "Values of states"),
        caption=f"{more}The value of a state, over the actions that were taken in it, each counted "
        "the first time that a trajectory took it there; from the same noisy numbers.",
        heads=[
            *("State", "value", f"{100 * (release.level or 0):g}% total interval"),
            *("privacy interval", "Flag"),
        ],
        rows=[cells(entry) for entry in rows_of(found, seen)],
        numbers=range(1, 4),
        kind="long" if seen > 12 else "",
        flags=True,
    )


def state_names(states: StateTable) -> Any:
    """Return the names of the states of one arm."""
    if not states.arms:
        return states.names
    first = f"{states.arms[0]}: "
    each = len(states) // len(states.arms)
    return [str(name).removeprefix(first) for name in states.names[:each]]


def _series(states: StateTable) -> Series:
    """Return the values for the plot, total intervals outside and privacy intervals inside."""
    columns = states.columns.get
    names = state_names(states)
    few = len(names) <= MOST_ROWS
    return Series(
        names=names,
        values=states.value,
        outer=(columns("total_low"), columns("total_high")),
        inner=(columns("low"), columns("high")),
        flags=["; ".join(states[at].flags) for at in range(len(states))] if few else None,
        flagged=states.flagged,
        arms=states.arms or ("",),
    )


def _caption(release: Release, states: StateTable, series: Series) -> str:
    """Return what the plot shows, and which error bars it has."""
    found = [
        "Values of states, over the actions that were taken in them."
        if release.actions
        else "Released values by state."
    ]
    if series.grouped:
        found.append(
            "There are too many states to draw one by one: each row is a group of neighbours, "
            "from the least value to the largest, with the ends of their intervals. States with a "
            "flag are counted beside their group, and drawn only where it has no other."
        )
    if release.level is None:
        found.append(
            "There are no error bars: the scale of this mechanism's noise depends on the data "
            "and was not released. The section on precision has what may be said."
        )
    else:
        found.append(
            "A total interval covers the noise of privacy and the choice of people. The privacy "
            "interval inside it covers the noise alone."
        )
    return " ".join([*found, "Point at a row, or reach it by keyboard, for exact numbers."])


def _about_the_intervals(release: Release) -> str:
    """Explain what the intervals cover, or why there are none."""
    if release.level is None:
        return "Intervals are released by dp-ssp only."
    level = f"{100 * release.level:g}%"
    return (
        f"The total interval covers, with probability {level}, the value among people at large, "
        "from whom the people in the data are assumed to be drawn. It includes both the noise of "
        "privacy and the choice of people. The band does the same for all states at once. The "
        f"privacy interval covers, with probability {level}, what would have been released for "
        "that state without noise."
    )


def _columns(release: Release, states: StateTable) -> list[tuple[str, str]]:
    """Return the intervals that the table shows by the beginning of their names, and heads."""
    level = f"{100 * (release.level or 0):g}%"
    wanted = [
        ("total_", "total interval"),
        ("", "privacy interval"),
        ("total_band_", "band for all states"),
    ]
    return [
        (kind, f"{level} {head}" if kind == "total_" else head)
        for kind, head in wanted
        if f"{kind}low" in states.columns
    ]


def _table(release: Release, states: StateTable) -> PageTable:
    """Return the table of values: all states, or the first ones where they are too many to read."""
    present = _columns(release, states)
    counted = "noisy_visits" in states.columns
    count = len(states)
    seen = HEAD_ROWS if count > MOST_LISTED else count
    heads = [_key(release).capitalize(), "value", *(head for _, head in present)]
    heads[3:3] = ["visits, with noise"] if counted else []

    def cells(at: int) -> list[object]:
        row = states[at]
        texts = [
            written(row.value, row.columns.get(f"{kind}low"), row.columns.get(f"{kind}high"))
            for kind, _ in present
        ] or [written(row.value)]
        found: list[object] = [named(row.state, LABEL), texts[0].value]
        found += [text.within for text in texts[: len(present)]]
        if counted:
            visits = [row.columns[f"noisy_visits{end}"] for end in ("", "_low", "_high")]
            found.insert(3, str(written_count(*visits)))
        return [*found, flags(row.flags)]

    whole = f"Every {_key(release)}, in the order of the study."
    what = "values" if release.actions else "states"
    cut: str | PageHtml = PageHtml(
        f"The first {seen:,} of {count:,} {what}; all of them are in {_LINK}."
    )
    return PageTable(
        key="all-states",
        name=f"{heading(release, 'Released values')} by {_key(release)}",
        caption=cut if seen < count else whole,
        heads=[*heads, "Flag"],
        rows=[cells(at) for at in range(seen)],
        numbers=range(1, len(heads)),
        kind="long" if seen > 12 else "",
        flags=True,
    )


def flags_context(release: Release, states: StateTable) -> dict[str, Any]:
    """Return the flagged states.

    Args:
        release: what was released.
        states: its values, with their flags.
    """
    places = {flag: states.with_flag(flag) for flag in MEANINGS}
    rows = [
        [flag, f"{len(found):,}", _some(states, found), MEANINGS[flag]]
        for flag, found in places.items()
        if len(found)
    ]
    return {
        "table": PageTable(
            name="Flags",
            caption="A flag comes from what was released or is public, never from the data itself.",
            heads=["Flag", "values" if release.actions else "states", "which", "what it means"],
            rows=rows,
            numbers=(1,),
        )
        if rows
        else None,
        "uncounted": release.mechanism if release.statistics is None else None,
    }


def _some(states: StateTable, places: NDArray[np.int64]) -> PageHtml:
    """Return the first few names, and how many more there are."""
    return listed([states.names[at] for at in places[:8].tolist()], more=len(places) - 8)
