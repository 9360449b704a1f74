"""Collect what the public page shows of states: the plot, the flags, the table of all of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue._written import written, written_count
from privalue.artefact import Release
from privalue.report._page_stages import policy_words, unclear_words
from privalue.report._pages import LABEL, PageHtml, PageTable, flags, listed, named
from privalue.report._plots import MOST_ROWS, Series, figure
from privalue.report._states import MEANINGS, StateTable, return_bounds

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
    series = _series(states)
    return {
        "figure": figure(
            series,
            key="figure-values",
            number=1,
            title="Value by state",
            caption=_caption(release, states, series),
            level=release.level,
            bounds=return_bounds(release),
        ),
        "meaning": "The value of a state is the return to expect from the first time that a "
        f"trajectory comes to it: the sum of rewards, discounted by {discount:g} per step.",
        "intervals": _about_the_intervals(release, states),
        "table": _table(release, states),
        "link": _LINK,
    }


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
    found = ["Released values by state."]
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
    elif states.has_totals:
        found.append(
            "Total intervals hold the noise of privacy and the choice of people; the privacy "
            "interval inside is the noise alone."
        )
    else:
        found.append("Intervals are for the noise of privacy alone, state by state.")
    return " ".join([*found, "Point at a row, or reach it by keyboard, for exact numbers."])


def _about_the_intervals(release: Release, states: StateTable) -> str:
    """Explain what the intervals cover, or why there are none."""
    if release.level is None:
        return "The study did not ask for intervals ([mechanism] noise_scale_share, or dp-ssp)."
    level = f"{100 * release.level:g}%"
    privacy = f"covers, with probability {level}, what would have been released for that state "
    if not states.has_totals:
        missing = (
            "Nothing here covers the choice of people: for that the number of visits to a state is "
            f"needed, and {release.mechanism} does not release it."
            if release.statistics is None
            else "A refit of this release also has total intervals, for the choice of people."
        )
        return (
            f"The privacy interval {privacy}without noise; the band does so for all states at "
            f"once. {missing}"
        )
    return (
        f"The total interval covers, with probability {level}, the value among people at large, "
        "from whom these are taken to be drawn: it holds both the noise of privacy and the choice "
        "of people; the band does so for all states at once. The other two explain its parts. The "
        f"privacy interval {privacy}without noise. The sampling interval says how far the people "
        "in the data may be from people at large, if the released value had no noise; approximate."
    )


def _columns(release: Release, states: StateTable) -> list[tuple[str, str]]:
    """Return the intervals that the table shows by the beginning of their names, and heads."""
    level = f"{100 * (release.level or 0):g}%"
    first = "total_" if states.has_totals else ""
    wanted = [
        ("total_", "total interval"),
        ("", "privacy interval"),
        ("total_band_" if states.has_totals else "band_", "band for all states"),
        ("sampling_", "sampling interval"),
    ]
    present = [
        (kind, head)
        for kind, head in wanted
        if f"{kind}low" in states.columns or f"{kind}high" in states.columns
    ]
    return [(kind, f"{level} {head}" if kind == first else head) for kind, head in present]


def _table(release: Release, states: StateTable) -> PageTable:
    """Return the table of values: all states, or the first ones where they are too many to read."""
    present = _columns(release, states)
    counted = "noisy_visits" in states.columns
    count = len(states)
    seen = HEAD_ROWS if count > MOST_LISTED else count
    heads = ["State", "value", *(head for _, head in present)]
    heads[3:3] = ["visits, with noise"] if counted else []

    def cells(at: int) -> list[object]:
        row = states[at]
        ends = {
            kind: (row.columns.get(f"{kind}low"), row.columns.get(f"{kind}high"))
            for kind, _ in present
        }
        first = next(iter(ends.values()), (None, None))
        found: list[object] = [named(row.state, LABEL), written(row.value, *first).value]
        found += [written(row.value, *pair).within for pair in ends.values()]
        if counted:
            visits = [row.columns[f"noisy_visits{end}"] for end in ("", "_low", "_high")]
            found.insert(3, str(written_count(*visits)))
        return [*found, flags(row.flags)]

    whole = "Every state, in the order of the study."
    cut: str | PageHtml = PageHtml(
        f"The first {seen:,} of {count:,} states; all of them are in {_LINK}."
    )
    return PageTable(
        key="all-states",
        name="Released values by state",
        caption=cut if seen < count else whole,
        heads=[*heads, "Flag"],
        rows=[cells(at) for at in range(seen)],
        numbers=range(1, len(heads)),
        kind="long" if seen > 12 else "",
        flags=True,
    )


def flags_context(release: Release, states: StateTable) -> dict[str, Any]:
    """Return the flagged states, and what noise may hide.

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
            heads=["Flag", "states", "which", "what it means"],
            rows=rows,
            numbers=(1,),
        )
        if rows
        else None,
        "words": [unclear_words(release), policy_words(release)],
        "uncounted": release.mechanism if release.statistics is None else None,
    }


def _some(states: StateTable, places: NDArray[np.int64]) -> PageHtml:
    """Return the first few names, and how many more there are."""
    return listed([states.names[at] for at in places[:8].tolist()], more=len(places) - 8)
