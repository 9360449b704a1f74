"""Name what values are where a stage chose bounds of returns: a restricted mean."""

from privalue._written import Written, written, written_exactly
from privalue.releases import Release, ReleasedStage, Share
from privalue.study import described_values


def shown(share: Share) -> Written:
    """Return a share and its interval in percent, in as many digits as the interval supports.

    >>> str(shown(Share(value=0.19743, low=0.1811, high=0.2138)))
    '19.7% (18.1% to 21.4%)'
    """
    found = written(*(100 * number for number in (share.value, share.low, share.high)))
    return Written(value=f"{found.value}%", low=f"{found.low}%", high=f"{found.high}%")


def bounds_stage(release: Release) -> ReleasedStage | None:
    """Return the stage that chose a bound of returns; None without one."""
    return next((stage for stage in release.stages or () if stage.name == "bounds"), None)


def counted_between(release: Release) -> tuple[float, float]:
    """Return the bounds between which returns count: the study's, or what a stage chose."""
    held = release.restriction
    return described_values(release.study).return_bounds if held is None else (held.low, held.high)


def restricted(release: Release) -> str | None:
    """Return how returns count, where a stage chose their bounds; None where it did not.

    A side of these that is the study's own holds nothing back, and is not named.
    """
    held = release.restriction
    if held is None:
        return None
    low, high = described_values(release.study).return_bounds
    if held.low == low:
        return f"each counted up to {written_exactly(held.high)}"
    if held.high == high:
        return f"each counted down to {written_exactly(held.low)}"
    return f"each held between {written_exactly(held.low)} and {written_exactly(held.high)}"


def heading(release: Release, plain: str) -> str:
    """Return the heading of values: what they are where returns are restricted, else ``plain``."""
    how = restricted(release)
    return plain if how is None else f"Mean of returns, {how}"


def restriction_in_words(release: Release) -> str | None:
    """Return what is estimated, and on which side the mean of unrestricted returns lies.

    None where the release chose no bound.
    """
    how, stage = restricted(release), bounds_stage(release)
    if how is None or stage is None:
        return None
    side = (
        "at least as large"
        if how.startswith("each counted up")
        else "at most as large"
        if how.startswith("each counted down")
        else "larger or smaller"
    )
    beyond = stage.chosen.beyond
    share = (
        ""
        if beyond is None
        else f"By the noisy numbers of that stage, {shown(beyond).value} of all trajectories "
        f"({shown(beyond).within}) have a return beyond. "
    )
    return (
        f"Values and intervals are for a restricted mean: of returns, {how}, a bound that an "
        "earlier stage of the release chose. The intervals hold over people, noise and the choice "
        f"of the bound together. {share}The mean of unrestricted returns is {side}; a study that "
        "must have it gives [values] returns."
    )
