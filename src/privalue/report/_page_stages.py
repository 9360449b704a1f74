"""Collect what the public page says of stages, and of the bound that one of them chose."""

from typing import Any

from privalue.releases import Release, ReleasedStage
from privalue.report._limits import restriction_in_words
from privalue.report._numbers import interval, percent
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
        else "The budget was spent in two stages, one after the other. The first one may choose "
        "how the second one works, from what it released and from nothing else. Both together cost "
        "what one release costs.",
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
    "values": "Releasing the values",
}


def _chosen(release: Release, stage: ReleasedStage) -> str:
    """Return what a stage released and chose, in sentences."""
    if stage.name == "bounds":
        levels = 0 if stage.numbers is None else len(stage.numbers)
        bound = restriction_in_words(release) or (
            "It chose none that is tighter: returns count from "
            f"{interval(*described_values(release.study).return_bounds)}, as in the study."
        )
        return (
            "This stage released, with noise, how many trajectories have their largest return at "
            f"each of {levels} levels. {bound}"
        )
    return (
        "This stage released the noisy sums of returns and numbers of visits that the values are "
        "computed from."
    )
