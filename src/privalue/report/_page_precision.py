"""Collect what the public page says of precision, planned and achieved, and of limits."""

from typing import Any

from privalue._written import counted
from privalue.planning import Prediction, shown
from privalue.releases import Release
from privalue.report._guarantee import cut_units
from privalue.report._numbers import interval, percent
from privalue.report._pages import PageTable, bar
from privalue.report._plan_words import misfit_known
from privalue.report._precision import Planned, achieved
from privalue.report._states import StateTable, return_bounds
from privalue.study import described_values


def precision_context(release: Release, states: StateTable, plan: Planned) -> dict[str, Any]:
    """Return the planned precision, and the achieved one where that is public.

    Args:
        release: what was released.
        states: its values and intervals.
        plan: the prediction from the study alone, or why there is none.
    """
    return {
        "achieved": _achieved(release, states),
        "secret": f"Not public. The noise of {release.mechanism} has a scale that depends on the "
        "data; telling it would cost privacy.",
        "planned": None if plan.prediction is None else _plan(plan.prediction),
        "unplanned": plan.reason,
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


def _plan(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction: in words, and as a table with bars, which end at guessing."""
    chosen = prediction.chosen
    low, high = prediction.study.return_bounds
    rows = [
        ("optimistic end", chosen.optimistic),
        ("middle", chosen.rmse),
        ("cautious end", chosen.cautious),
        ("middle, noise of privacy alone", chosen.noise),
        ("middle, without privacy", chosen.without_noise),
        (f"guessing {(low + high) / 2:g} everywhere", prediction.guess),
    ]

    def drawn(error: float) -> object:
        share = error / prediction.guess
        colour = "stop" if share >= 1 else "warn" if share >= 0.5 else ""
        return bar(share, shown(error), "" if error == prediction.guess else colour)

    return {
        "words": f"With {counted(prediction.trajectories, 'trajectory')} the root mean square "
        f"error over the states was predicted to be {shown(chosen.rmse)}, or anything from "
        f"{shown(chosen.optimistic)}, the optimistic end, to {shown(chosen.cautious)}, the "
        "cautious end: how often states are visited is not known beforehand. Guessing the middle "
        f"of the bounds for every state would give {shown(prediction.guess)}.",
        "hopeless": prediction.hopeless,
        "table": PageTable(
            name="Planned precision",
            caption="Predicted root mean square error over the states; a full bar is that of "
            "guessing, or more. The parts do not simply add up.",
            heads=["Part", "error", "share of the range of returns"],
            rows=[[label, drawn(error), percent(error / (high - low))] for label, error in rows],
            numbers=(2,),
            kind="small",
        ),
        "assumed": f"Assumed: {'; '.join(prediction.model.assumptions)}. Nothing of this comes "
        "from the data."
        + (
            ""
            if misfit_known(prediction)
            else " How well the features fit the values is not known beforehand, and comes on top."
        ),
    }


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
