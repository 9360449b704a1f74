"""Collect what the public page says of stages, and of what the limits cost."""

from typing import Any

import numpy as np

from privalue.artefact import Release, ReleasedStage
from privalue.report._limits import (
    bound_in_words,
    bounds_stage,
    chosen_bound,
    clearly_beyond,
    clearly_moved,
    limits_of,
    moved,
    shown,
)
from privalue.report._numbers import interval, number, percent
from privalue.report._pages import PageTable
from privalue.study import described_values


def stages_context(release: Release) -> dict[str, Any] | None:
    """Return in which stages the budget was spent, and what each of them chose; None without."""
    stages = release.stages
    if not stages:
        return None
    whole = sum(stage.mu**2 for stage in stages)
    return {
        "words": "The whole budget was spent on the values, in one stage."
        if len(stages) == 1
        else f"The budget was spent in {len(stages)} stages, one after another. A stage may choose "
        "how the next one works, from what was released so far and from nothing else. All of them "
        "together cost what one release costs.",
        "stages": [
            (
                _NAMES[stage.name],
                f"took {percent(stage.mu**2 / whole)} of the budget (alpha = {stage.alpha:.6g}). "
                f"{_chosen(release, stage)}",
            )
            for stage in stages
        ]
        if len(stages) > 1
        else [],
    }


_NAMES = {
    "bounds": "Finding a bound of returns",
    "visits": "Counting visits",
    "limits": "Counting what the limits cost",
    "values": "Releasing the values",
}


def _chosen(release: Release, stage: ReleasedStage) -> str:
    """Return what a stage released and chose, in sentences."""
    if stage.name == "bounds":
        levels = 0 if stage.numbers is None else len(stage.numbers)
        bound = bound_in_words(release) or (
            "It chose none that is tighter: returns count from "
            f"{interval(*described_values(release.study).return_bounds)}, as in the study."
        )
        return (
            "This stage released, with noise, how many trajectories have their largest return at "
            f"each of {levels} levels. {bound}"
        )
    if stage.name == "visits":
        told = "This stage released, with noise, how many trajectories visit each state."
        if not stage.chosen.shaped or release.statistics is None:
            return f"{told} It chose to release all states as the study has them."
        noise = np.asarray(release.statistics.count_noise)
        return (
            f"{told} It chose to release some states more precisely than others: the standard "
            f"deviation of a count's noise is between {number(float(noise.min()))} and "
            f"{number(float(noise.max()))}."
        )
    if stage.name == "limits":
        return "This stage counted, with noise, how many trajectories the limits changed."
    return (
        "This stage released the noisy sums of returns and numbers of visits that the values are "
        "computed from."
    )


def limits_table(release: Release) -> PageTable | None:
    """Return the table of limits, with the shares that they changed; None where none was told."""
    level, states = f"{100 * (release.level or 0):g}%", len(release.values)
    rows = [
        [
            limit.name,
            f"{shown(limit.share).value} of {limit.whose}",
            shown(limit.share).within,
            "not known"
            if limit.reach is None
            else f"{np.count_nonzero(moved(release, [limit])):,} of {states:,}",
            limit.effect,
        ]
        for limit in limits_of(release)
    ]
    chosen, stage = chosen_bound(release), bounds_stage(release)
    clamped = release.values.column("clamped")
    if chosen is not None and stage is not None and stage.chosen.beyond is not None:
        beyond = stage.chosen.beyond
        rows.append(
            [
                f"returns count from {interval(*chosen)}, as the release chose",
                f"{shown(beyond).value} of trajectories",
                shown(beyond).within,
                "not known" if clamped is None else f"{int(clamped.sum()):,} of {states:,}",
                "A return outside counts as the nearest bound. That makes values less noisy, and "
                "draws them towards the inside.",
            ]
        )
    if not rows:
        return None
    return PageTable(
        name="What the limits cost",
        caption="How many trajectories or persons each limit changed, from noisy numbers. The "
        "noise alone can show a share where a limit changed nothing. Values at risk are those that "
        "could move by more than half of their interval, if the share were at its upper end and "
        "all that the limit changed came to that state.",
        heads=["Limit", "it changed", f"{level} interval", "values at risk", "what it means"],
        rows=rows,
        numbers=(1, 2, 3),
    )


def limits_note(release: Release) -> str | None:
    """Return a warning where limits could move every value by more than half of its interval."""
    found = clearly_moved(release)
    if found is None or not found.all():
        return None
    clear = "; ".join(limit.words for limit in limits_of(release) if limit.clear)
    return (
        f"Limits clearly changed what counts: {clear}. That could have moved every value by more "
        "than half of its interval: read the values as those of what counted, and see What the "
        "limits cost."
    )


def unclear_words(release: Release) -> str | None:
    """Say once what the noise may hide of limits whose cost is not clear of 0; None if nothing.

    No state is flagged for those: with wide bounds it would be nearly every one.
    """
    found, states = [], len(release.values)
    clamped = release.values.column("clamped")
    if clamped is not None and clamped.any() and not clearly_beyond(release):
        found.append(
            f"returns beyond the bound that the release chose ({int(clamped.sum()):,} of "
            f"{states:,} values, whose total intervals are for returns as clamped)"
        )
    unclear = [limit for limit in limits_of(release) if not limit.clear]
    for limit in unclear:
        count = np.count_nonzero(moved(release, [limit]))
        if count:
            found.append(f"trajectories that {limit.changed} ({count:,} of {states:,} values)")
    if not found:
        return None
    return (
        "Noise may hide what some limits cost. The limits below changed no clear share of "
        "trajectories, so no state is flagged for them; perhaps they changed nothing at all. In "
        "the worst case, every trajectory that the noise could hide came to the same state. Its "
        f"value would then move by more than half of its interval: {'; '.join(found)}."
    )


def policy_words(release: Release) -> str | None:
    """Say that the policy's interval is for clamped returns, where clamping may hide more."""
    within = [release.policy_interval, *(policy.interval for policy in release.policies or ())]
    if not any(ends.clamped for ends in within if ends is not None):
        return None
    return (
        "The total interval of the policy's overall value is for returns as clamped to the bound "
        "that the release chose: what noise may hide beyond it is more than half of that interval."
    )
