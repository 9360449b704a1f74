"""Write the parts of the public page about states: their values, and what to be careful with."""

from dataclasses import replace
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from privalue.artefact import Release
from privalue.report._html import LABEL, Content, Html, element, named, table
from privalue.report._page_stages import limits_note, policy_words, unclear_words
from privalue.report._page_tables import first_rows, group_table
from privalue.report._page_words import interval, number, paragraphs
from privalue.report._states import MEANINGS, StateRow, StateTable, return_bounds
from privalue.report._svg import ARM_COLOURS, Group, Series, key_of, state_chart, visible

_VALUES = element("a", "values.csv", href="values.csv")


def values_part(release: Release, states: StateTable) -> Content:
    """Show every value with its intervals, as a chart and as a table.

    Args:
        release: what was released.
        states: the same values, with their flags.
    """
    bounds = return_bounds(release)
    percent = f"{100 * (release.level or 0):g}%"
    series = _series(states)
    summary = (
        f"The released values of {release.state_count:,} states{_in_arms(states)}, from "
        f"{states.value.min():.4g} to "
        f"{states.value.max():.4g}, in the order of the study"
        + (f", with {percent} {_kind(states)} intervals" if release.level is not None else "")
        + ". The numbers are in the table that follows."
    )
    keys: list[tuple[str, Content]] = [("value", "released value")]
    if series.arms > 1:
        keys = [
            (colour, ["released value, ", named(arm, LABEL)])
            for arm, colour in zip(states.arms, cycle(ARM_COLOURS), strict=False)
        ]
    if states.flagged.any() and not series.grouped:
        keys.append(("doubtful", "released value, flagged"))
    if release.level is not None:
        keys.append(
            ("area" if series.grouped else "interval", f"{percent} {_kind(states)} interval")
        )
    if visible(series, bounds):
        keys.append(("bound", "public bounds of returns"))
    return [
        *paragraphs(
            "The value of a state is the return to expect from the first time that a trajectory "
            f"comes to it: the sum of rewards, discounted by "
            f"{release.study['values']['discount']:g} per step.",
            _policy(release),
        ),
        element(
            "figure",
            key_of(*keys, round_=series.arms > 1),
            state_chart(series, name=summary, axis="value", bounds=bounds),
            element("figcaption", _about_the_chart(release, states, series)),
        ),
        _group_table(series) if series.grouped else None,
        _value_table(release, states),
        *paragraphs(_about_the_intervals(release, states), ["Every digit: ", _VALUES, "."]),
    ]


def _kind(states: StateTable) -> str:
    """Return what the interval is called that is shown first."""
    return "total" if states.has_totals else "privacy"


def _series(states: StateTable) -> Series:
    """Return the values for a chart, with the intervals that are shown first."""
    low, high = states.first_ends
    return by_arm(
        Series(
            labels=states.names,
            values=states.value,
            low=states.columns.get(low),
            high=states.columns.get(high),
            doubtful=states.flagged,
        ),
        states,
    )


def by_arm(series: Series, states: StateTable) -> Series:
    """Return a series that is drawn with the arms of a state side by side, if they are few."""
    if not states.arms or series.grouped:
        return series
    each, first = len(states) // len(states.arms), f"{states.arms[0]}: "
    labels = [str(name).removeprefix(first) for name in states.names[:each]]
    return replace(series, arms=len(states.arms), labels=labels)


def _in_arms(states: StateTable) -> str:
    """Return in how many arms there are values, if there are arms."""
    return f" in each of {len(states.arms)} arms" if states.arms else ""


def _policy(release: Release) -> Content:
    """Return the value of the policy as a whole; None where the study has no start."""
    if release.policy_value is None:
        return None
    within = release.policy_interval
    found: list[Content] = [
        "From the study's public start distribution, the policy as a whole is worth ",
        element("strong", number(release.policy_value)),
    ]
    if within is not None:
        level = f"{100 * (release.level or 0):g}%"
        privacy = f"privacy interval {interval(within.low, within.high)}"
        found.append(
            f" ({level} {privacy})"
            if within.total_low is None
            else f" ({level} total interval {interval(within.total_low, within.total_high)}; "
            f"{privacy})"
        )
    return [*found, "."]


def _about_the_chart(release: Release, states: StateTable, series: Series) -> str:
    """Return the caption of the chart: how it groups states, and which error bars it has."""
    if series.grouped:
        return (
            "Too many states to draw one by one: each column is a group of neighbours, from the "
            "least to the largest value"
            + (", and of intervals." if release.level is not None else ".")
        )
    if release.level is None:
        return (
            "There are no error bars: the scale of this mechanism's noise depends on the data and "
            "was not released. The section on precision has what may be said."
        )
    if states.has_totals:
        return "Intervals hold the noise of privacy and the choice of people, state by state."
    return "Intervals are for the noise of privacy alone, state by state."


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


def _columns(release: Release, states: StateTable) -> list[tuple[tuple[str, str], str]]:
    """Return the ends and the heads of the intervals that the table shows, in their order."""
    level = f"{100 * (release.level or 0):g}%"
    privacy = ("low", "high"), "privacy interval"
    sampling = ("sampling_low", "sampling_high"), "sampling interval"
    if states.has_totals:
        return [
            (("total_low", "total_high"), f"{level} total interval"),
            (("total_band_low", "total_band_high"), "band for all states"),
            privacy,
            sampling,
        ]
    first = [(privacy[0], f"{level} {privacy[1]}")] if release.level is not None else []
    more = [(("band_low", "band_high"), "band for all states"), sampling]
    return [*first, *(column for column in more if column[0][0] in states.columns)]


def _value_table(release: Release, states: StateTable) -> Html:
    """Return the table of values, with a column for everything that was released."""
    present = _columns(release, states)
    flagged = bool(states.flagged.any())
    heads: list[Content] = ["State", "value", *(head for _, head in present)]
    counted = release.statistics is not None
    heads += ["noisy visits"] if counted else []
    heads += ["careful"] if flagged else []

    def cells(row: StateRow) -> list[Content]:
        found: list[Content] = [named(row.state, LABEL), number(row.value)]
        found += [interval(*(row.columns.get(name) for name in names)) for names, _ in present]
        if counted:
            visits = [row.columns.get(f"noisy_visits{end}") or 0.0 for end in ("", "_low", "_high")]
            found.append(f"{visits[0]:,.0f} ({visits[1]:,.0f} to {visits[2]:,.0f})")
        if flagged:
            found.append([element("span", flag, class_="flag") for flag in row.flags])
        return found

    return first_rows(
        heads,
        lambda at: cells(states[at]),
        count=len(states),
        name="Released values by state",
        whole="Every state, in the order of the study.",
        cut=lambda first: [f"{first} states; all of them are in ", _VALUES, "."],
        numbers=range(1, len(heads) - (1 if flagged else 0)),
    )


def _group_table(series: Series) -> Html:
    """Return the table of values by group, for studies with very many states."""

    def ends(group: Group) -> str:
        return interval(group.low, group.high) if series.ranges else "not released"

    return group_table(
        series,
        "value",
        rest=["Each state is in ", _VALUES, "."],
        name="Released values by group of states",
        number=number,
        more={"lowest and highest end of intervals": ends},
    )


def flags_part(release: Release, states: StateTable) -> Content:
    """List the flagged states, and show the noisy visits where they were released.

    Args:
        release: what was released.
        states: its values, with their flags.
    """
    places = {flag: states.with_flag(flag) for flag in MEANINGS}
    present = [(flag, found) for flag, found in places.items() if len(found)]
    content: list[Content] = [limits_note(release)]
    if present:
        content.append(
            table(
                "A flag comes from what was released or is public, never from the data itself.",
                ["Flag", "states", "which", "what it means"],
                [
                    [flag, f"{len(found):,}", _some(states, found), MEANINGS[flag]]
                    for flag, found in present
                ],
                name="Flags",
                numbers=(1,),
            )
        )
    else:
        content += paragraphs("No state is flagged, by what was released and what is public.")
    content += paragraphs(unclear_words(release), policy_words(release))
    if release.statistics is None:
        content.append(
            element(
                "div",
                element(
                    "p",
                    f"With {release.mechanism} the number of visits to a state is not released, "
                    "not even with noise: a state that hardly anyone visited looks like any "
                    "other, and only a public prior of visits can flag it. dp-ssp releases noisy "
                    "counts.",
                ),
                class_="note",
            )
        )
        return content
    visits = states.columns["noisy_visits"]
    series = Series(
        labels=states.names,
        values=visits,
        low=states.columns["noisy_visits_low"],
        high=states.columns["noisy_visits_high"],
        doubtful=states.flagged,
    )
    level = f"{100 * (release.level or 0):g}%"
    content.append(
        element(
            "figure",
            key_of(
                ("value", "noisy number of trajectories that visit the state"),
                *([] if series.grouped or not present else [("doubtful", "the same, flagged")]),
                ("area" if series.grouped else "interval", f"{level} interval"),
            ),
            state_chart(
                series,
                name=f"Noisy visits of {len(states):,} states, from {visits.min():,.0f} to "
                f"{visits.max():,.0f}, with {level} intervals. The numbers are in the table of "
                "values.",
                axis="visits, with noise",
                zero=True,
            ),
            element(
                "figcaption",
                "Counts with noise, as released; they may be below 0. The table of values has the "
                "numbers.",
            ),
        )
    )
    return content


def _some(states: StateTable, places: NDArray[np.int64]) -> Content:
    """Return the first few labels, and how many more there are."""
    shown_states: list[Content] = []
    for at, place in enumerate(places[:8].tolist()):
        shown_states += [", " if at else "", named(states.names[place], LABEL)]
    more = len(places) - 8
    return [*shown_states, f" and {more:,} more" if more > 0 else ""]
