"""Collect what the public page says of precision, planned and achieved, and of limits."""

from typing import Any

from privalue.releases import Release
from privalue.report._guarantee import cut_units
from privalue.report._numbers import interval
from privalue.report._pages import PageTable, bar
from privalue.report._precision import achieved, shown
from privalue.report._states import StateTable, return_bounds
from privalue.study import described_values


def precision_context(release: Release, states: StateTable) -> dict[str, Any]:
    """Return the precision, where that is public.

    Args:
        release: what was released.
        states: its values and intervals.
    """
    return {
        "achieved": _achieved(release, states),
        "secret": f"Not public. The noise of {release.mechanism} has a scale that depends on the "
        "data; telling it would cost privacy.",
    }


def _achieved(release: Release, states: StateTable) -> PageTable | None:
    """Return half the widths of intervals; None where no interval was released."""
    privacy, total = achieved(release, states), achieved(release, states, "total_")
    if privacy is None or total is None:
        return None
    low, high = return_bounds(release)
    rows: list[list[object]] = []
    for kind, found in (("total", total), ("privacy", privacy)):
        for what, half in (("median over the states", found.median), ("widest", found.largest)):
            share = half / ((high - low) / 2)
            colour = "stop" if share > 0.9 else "warn" if share > 0.5 else ""
            rows.append([f"{kind} interval, {what}", bar(share, f"±\u202f{shown(half)}", colour)])
    rows.append(["possible returns", interval(low, high)])
    return PageTable(
        name="Achieved precision",
        caption=f"Half the width of the {100 * privacy.level:g}% intervals. A full bar is as wide "
        "as all possible returns. The scale of the noise is public.",
        rows=rows,
        kind="small",
    )


def limits_context(release: Release, states: StateTable) -> list[tuple[str, str]]:
    """Return what the numbers cannot say, whatever their precision, each with its reason."""
    unvisited = described_values(release.study).unvisited_value
    found = [
        (
            "Not what would happen under another policy.",
            "These are values of the policy that produced the data, as it was followed. They say "
            "nothing about a treatment or a rule that was not.",
        ),
        (
            "Not cause and effect.",
            "A state with a high value is one from which trajectories went well, for whatever "
            "reason. That moving someone there would do them good does not follow.",
        ),
        (
            "Noise is not the only error.",
            "The noise of privacy comes on top of sampling: other people, drawn from the same "
            "population, would have given other values even without noise. Privacy intervals do "
            "not cover that"
            + ("; total intervals do, approximately." if states.has_intervals else "."),
        ),
        (
            "Unvisited states have no value of their own.",
            f"A state that nobody visited counts as {unvisited:g} where nothing else is known, or "
            "is drawn towards the other states where values are shrunk. It looks like one that was "
            "visited, unless noisy counts were released: then it is flagged.",
        ),
        (
            "Values are of what counted.",
            "Rewards and returns outside of their bounds were clamped to them, and draw values "
            "towards the inside; visits and trajectories beyond the limits are in no value. How "
            "many the study's own bounds and limits changed is private.",
        ),
        _cut(release),
    ]
    if release.actions:
        found.insert(
            2,
            (
                "The better action is not known to be better.",
                "People who were given one action may differ from those who were given another in "
                "ways that the states do not show: a difference of values is an association, and a "
                "hypothesis for a trial.",
            ),
        )
        found.insert(
            3,
            (
                "Values of states count first visits of actions.",
                "Where people return to a state and act otherwise, rare actions count for more "
                "than they were taken: the value of a state, the overall value, and what an action "
                "is worth more than what was done can then be off by as much as actions differ, "
                "and no interval holds that.",
            ),
        )
    if release.study["features"].get("kind", "tabular") != "tabular":
        found.append(
            (
                "Features decide what can be seen.",
                "Values are fitted with the study's features: differences that the features "
                "cannot express are not in them.",
            )
        )
    return found


def _cut(release: Release) -> tuple[str, str]:
    """Return what became of trajectories that were cut off, and what that does to the values."""
    if "truncated" not in release.study["data"]:
        return (
            "Missing data stays missing.",
            "If a trajectory was cut off, it counts as if it had ended there.",
        )
    if release.study["values"].get("truncated") == "drop-unit":
        return (
            "Values are of those whose end was seen.",
            f"{cut_units(release.privacy.unit)} was left out; "
            "how many were is private. If being cut off has to do with how people fare, those who "
            "are left fare better or worse than all, and the values with them, by an amount that "
            "no interval covers.",
        )
    return (
        "Trajectories that were cut off were kept.",
        "They count as if they had ended where they were cut: rewards that came afterwards are "
        "missing from their returns. So values are too near to what they would be without any "
        "further reward: too low where rewards are above 0, too high where they are below. No "
        "interval covers that.",
    )
