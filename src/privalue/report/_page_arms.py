"""Collect what the public page shows of arms: their values side by side, and differences."""

from typing import Any

from privalue._written import written
from privalue.releases import Release
from privalue.report._page_values import HEAD_ROWS, MOST_LISTED, state_names
from privalue.report._pages import LABEL, PageHtml, PageTable, flags, named
from privalue.report._plots import MOST_ROWS, Series, figure
from privalue.report._rows import policies, whole
from privalue.report._states import StateTable, flags_of

DIFFERENCES_COVER = "the difference among people at large, by noise and sampling together"


def arms_context(release: Release, states: StateTable) -> dict[str, Any] | None:
    """Return how far each arm is from the first, state by state; None where there are no arms.

    Args:
        release: what was released.
        states: its values.
    """
    if not release.arms:
        return None
    level = f"{100 * (release.level or 0):g}%"
    return {
        "all": "Both arms" if len(release.arms) == 2 else f"All {len(release.arms)} arms",
        "first": named(release.arms[0], LABEL),
        "words": [
            f"The interval of a difference covers, with probability {level} at least, "
            f"{DIFFERENCES_COVER}. {_how(release)} A band holds for all states and all arms at "
            "once.",
        ],
        "policies": _policies(release) if policies(release) else None,
        "figure": _figure(release, states),
        "tables": [_differences(release, states, arm) for arm in release.arms[1:]],
    }


def _how(release: Release) -> str:
    """Return how the intervals of two arms make that of their difference."""
    data = release.study["data"]
    if release.privacy.unit == "trajectory" and {"person", "trajectory"} <= set(data):
        return (
            "One person may have trajectories in two arms, so its ends are differences of the ends "
            f"of two intervals, at a level of {100 * (1 + (release.level or 0)) / 2:g}% each: it "
            "is somewhat wider than necessary."
        )
    return (
        "Nobody is in two arms, and their noise is independent, so the half-widths of both "
        "intervals add up as squares."
    )


def ends_of(entry: Any) -> tuple[float | None, float | None]:
    """Return the interval that is shown first: for privacy and sampling."""
    return entry.total_low, entry.total_high


def _policies(release: Release) -> PageTable:
    """Return the table of the policy's overall value in each arm."""

    def cell(value: float | None, ends: Any) -> str:
        return "" if value is None else str(written(value, *(ends_of(ends) if ends else ())))

    return PageTable(
        name="The policy's overall value by arm",
        caption="Averaged over where people start, by the study's public start distribution; with "
        "intervals.",
        heads=["Arm", "overall value of the policy", "difference from the first arm"],
        rows=[
            [
                named(policy.arm, LABEL),
                cell(policy.value, policy.interval),
                cell(policy.difference, policy.difference_interval),
            ]
            for policy in policies(release)
        ],
        kind="small",
        numbers=(1, 2),
    )


def _figure(release: Release, states: StateTable) -> Any:
    """Return the plot of differences: an arm below the other, where there are several."""
    found = release.differences
    assert found is not None  # every release with arms has them
    every = len(states) - len(release.states)  # the rows after these are overall values
    bits = states.bits_of_differences
    few = len(release.states) <= MOST_ROWS
    return figure(
        Series(
            names=state_names(states),
            values=found.value[:every],
            outer=(found.total_low[:every], found.total_high[:every]),
            flags=["; ".join(flags_of(number)) for number in bits.tolist()] if few else None,
            flagged=bits != 0,
            arms=release.arms[1:] if len(release.arms) > 2 else ("",),
        ),
        key="figure-differences",
        number=2,
        title="Difference from the first arm by state",
        caption=PageHtml(
            f"How much larger values are than in the first arm, {named(release.arms[0], LABEL)}. "
            "Where an interval contains 0, the data does not show that the arms differ."
        ),
        level=release.level,
        zero="no difference",
    )


def _differences(release: Release, table: StateTable, arm: str) -> PageTable:
    """Return the table of one arm's differences from the first."""
    differences = release.differences
    assert differences is not None  # every release with arms has them
    states = len(release.states)
    bits = table.bits_of_differences
    before = (release.arms.index(arm) - 1) * states
    seen = HEAD_ROWS if states > MOST_LISTED else states

    def cells(at: int) -> list[object]:
        entry = whole(differences.row(before + at))
        both = [whole(release.values.row(place)) for place in (at, before + states + at)]
        shown = written(entry.value, *ends_of(entry))
        return [
            named(entry.state, LABEL),
            *(str(written(each.value, *ends_of(each))) for each in both),
            shown.value,
            shown.within,
            written(entry.value, entry.total_band_low, entry.total_band_high).within,
            flags(flags_of(int(bits[before + at]))),
        ]

    return PageTable(
        name=f"Differences of {arm} from {release.arms[0]}",
        caption=PageHtml(
            f"Values of both arms, and differences of {named(arm, LABEL)} from "
            f"{named(release.arms[0], LABEL)}. "
            + (
                f"The first {seen:,} of {states:,} states; all of them are in release.json."
                if seen < states
                else "Every state, in the order of the study; all digits are in release.json."
            )
        ),
        heads=[
            "State",
            named(release.arms[0], LABEL),
            named(arm, LABEL),
            "difference",
            f"{100 * (release.level or 0):g}% interval",
            "band for all states",
            "Flag",
        ],
        rows=[cells(at) for at in range(seen)],
        numbers=range(1, 6),
        kind="long" if seen > 12 else "",
        flags=True,
    )
