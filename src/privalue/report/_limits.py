"""Say which bound of returns a release chose, and how many trajectories are beyond it."""

from privalue._written import Written, written
from privalue.artefact import Release, ReleasedStage, Share
from privalue.report._numbers import interval
from privalue.study import described_values


def shown(share: Share) -> Written:
    """Return a share and its interval in percent, in as many digits as the interval supports.

    >>> str(shown(Share(value=0.19743, low=0.1811, high=0.2138)))
    '19.7% (18.1% to 21.4%)'
    """
    found = written(*(100 * number for number in (share.value, share.low, share.high)))
    return Written(value=f"{found.value}%", low=f"{found.low}%", high=f"{found.high}%")


def in_words(share: Share) -> str:
    """Return a share of trajectories with its interval."""
    found = shown(share)
    return f"{found.value} of trajectories ({found.within})"


def bounds_stage(release: Release) -> ReleasedStage | None:
    """Return the stage that chose a bound of returns; None without one."""
    return next((stage for stage in release.stages or () if stage.name == "bounds"), None)


def chosen_bound(release: Release) -> tuple[float, float] | None:
    """Return the bounds of returns that the release chose inside the study's; None without."""
    stage = bounds_stage(release)
    if stage is None or stage.chosen.low is None or stage.chosen.high is None:
        return None
    chosen = stage.chosen.low, stage.chosen.high
    return None if chosen == described_values(release.study).return_bounds else chosen


def clearly_beyond(release: Release) -> bool:
    """Return whether some trajectories clearly have a return beyond the chosen bound.

    A release that does not say how many is taken to have some.
    """
    stage = bounds_stage(release)
    return stage is None or stage.chosen.beyond is None or stage.chosen.beyond.low > 0


def bound_in_words(release: Release) -> str | None:
    """Return a sentence on the bound that the release chose; None where it chose none."""
    chosen, stage = chosen_bound(release), bounds_stage(release)
    if chosen is None or stage is None:
        return None
    text = (
        f"Returns count from {interval(*chosen)}, which the release chose from noisy numbers, "
        f"within {interval(*described_values(release.study).return_bounds)}"
    )
    beyond = stage.chosen.beyond
    told = "" if beyond is None else f"; {in_words(beyond)} have a return beyond"
    return (
        f"{text}{told}. Intervals are of returns counted like that: where a few people have much "
        'larger ones, state [values] returns, or write stages = "one".'
    )
