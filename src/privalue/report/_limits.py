"""Find what limits cost: how many trajectories they changed, and which values that could move.

| symbol | here                 | public |
|--------|----------------------|--------|
| p      | ``Limit.share``      | yes: share of trajectories that a limit changed, with its ends |
| m~     | ``_trajectories``    | yes: how many there are; noisy where that is no public number |
| R      | ``Limit.reach``      | yes: how far a limit can move one return |
| n~     | ``_least_visits``    | yes: the lower ends of the noisy visits |

A trajectory has one first visit of a state, so that of n visits a limit changed at most p m, each
by no more than R: the value moved by at most min(p m / n, 1) R. The upper end of p and the lower
end of n stand for both. A share whose interval begins at 0 may be none at all, and is too
uncertain to flag a state by.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue._written import Written, written
from privalue.artefact import Release, ReleasedStage, Share
from privalue.core import Vector
from privalue.estimate import normal_quantile
from privalue.report._numbers import interval
from privalue.study import described_values


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One limit, the share of trajectories or persons that it changed, and what that means."""

    name: str
    changed: str  # goes on after "3% of trajectories"
    effect: str
    share: Share
    reach: float | None  # None where no number of trajectories is known
    whose: str = "trajectories"

    @property
    def clear(self) -> bool:
        """Return whether the share is clearly above 0: by twice what its interval asks for.

        One release in twenty has a share of nothing whose interval leaves 0 out.
        """
        return self.share.low > self.share.value / 2

    @property
    def words(self) -> str:
        """Return the share, its interval and what it is a share of, as a clause."""
        return f"{in_words(self.share, self.whose)} {self.changed}"


def shown(share: Share) -> Written:
    """Return a share and its interval in percent, in as many digits as the interval supports.

    >>> str(shown(Share(value=0.19743, low=0.1811, high=0.2138)))
    '19.7% (18.1% to 21.4%)'
    """
    found = written(*(100 * number for number in (share.value, share.low, share.high)))
    return Written(value=f"{found.value}%", low=f"{found.low}%", high=f"{found.high}%")


def in_words(share: Share, whose: str = "trajectories") -> str:
    """Return a share with its interval, and what it is a share of."""
    found = shown(share)
    return f"{found.value} of {whose} ({found.within})"


def limits_of(release: Release) -> tuple[Limit, ...]:
    """Return every limit whose cost was released; none for mechanisms without stages."""
    found, terms = release.limits, release.terms
    if found is None:
        return ()
    values = described_values(release.study)
    bounds = values.return_bounds
    # V is of returns as they were clamped by a chosen bound: what else moves them stays inside it.
    low, high = chosen_bound(release) or bounds
    limits = []
    if found.beyond_h is not None:
        most = terms["most_keys"]
        one, many, do = ("state", "states", "visit")
        if release.actions:
            one, many, do = ("pair of state and action", "pairs of state and action", "have")
        limits.append(
            Limit(
                name=f"the first {most:,} {many} of a trajectory count"
                if most > 1
                else f"the first {one} of a trajectory counts",
                changed=f"{do} more {many} than the {most:,} that count",
                effect="The visits beyond are in no value: a value is of those who come to the "
                f"{one} among their first ones.",
                share=found.beyond_h,
                reach=high - low,
            )
        )
    if found.rewards_clamped is not None:
        limits.append(
            Limit(
                name=f"rewards count from {interval(*values.rewards)}",
                changed=f"have a reward outside of {interval(*values.rewards)}",
                effect="Such a reward counts as the nearest bound: values of the states before it "
                "are drawn towards the inside.",
                share=found.rewards_clamped,
                reach=high - low,
            )
        )
    if found.returns_clamped is not None:
        loose = _implied(release)
        limits.append(
            Limit(
                name=f"returns count from {interval(*bounds)}, by the study",
                changed=f"have a return outside of {interval(*bounds)}",
                effect="Such a return counts as the nearest bound: values are drawn towards the "
                "inside.",
                share=found.returns_clamped,
                reach=max(bounds[0] - loose[0], loose[1] - bounds[1], 0.0),
            )
        )
    if found.surplus_trajectories is not None:
        most = terms["most_trajectories"]
        limits.append(
            Limit(
                name=f"{most:,} trajectories of a person count"
                if most > 1
                else "1 trajectory of a person counts",
                changed=f"have more trajectories than the {most:,} that count",
                effect="Their other trajectories are in no value. How many those are was not "
                "counted.",
                share=found.surplus_trajectories,
                reach=None,
                whose="persons",
            )
        )
    return tuple(limits)


def moved(release: Release, limits: Iterable[Limit]) -> NDArray[np.bool_]:
    """Return for which states limits could move the value by more than half of its interval.

    Args:
        release: what was released, with noisy counts and intervals.
        limits: at the upper ends of their shares, and all of them together.
    """
    ends = [release.values.column(f"total_{end}") for end in ("low", "high")]
    if ends[0] is None or ends[1] is None:
        ends = [release.values.column(end) for end in ("low", "high")]
    low, high = ends
    visits = _least_visits(release)
    if low is None or high is None or visits is None:
        return np.zeros(len(release.values), dtype=np.bool_)
    most = np.zeros(len(release.values))
    for limit in limits:
        changed = limit.share.high * _trajectories(release)
        if limit.reach and changed > 0:
            most += np.where(visits > changed, changed / np.maximum(visits, 1.0), 1.0) * limit.reach
    return np.asarray(most > (high - low) / 2)


def clearly_moved(release: Release) -> NDArray[np.bool_] | None:
    """Return which states limits that clearly changed something could move too far; None if none.

    If they are all states the page says so once, and flags none of them.
    """
    clear = [limit for limit in limits_of(release) if limit.clear]
    return moved(release, clear) if clear else None


def mostly_clamped(release: Release) -> Limit | None:
    """Return a bound that clearly clamped most trajectories; None if none did.

    Then values are of the bounds, and hardly of what happened: the study or the columns are wrong.
    """
    found = release.limits
    if found is None:
        return None
    shares = [share for share in (found.rewards_clamped, found.returns_clamped) if share]
    return next(
        (one for one in limits_of(release) if one.share in shares and one.share.low > 0.5), None
    )


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
        "larger ones, state [values] returns, or use stages without a bound."
    )


def cost_in_words(release: Release) -> str | None:
    """Return a sentence on the limits that clearly changed something; None if none did."""
    clear = [limit.words for limit in limits_of(release) if limit.clear]
    return f"Limits changed what counts: {'; '.join(clear)}." if clear else None


def _implied(release: Release) -> tuple[float, float]:
    """Return what returns could be without bounds of their own; infinite without a discount."""
    values = described_values(release.study)
    if values.discount == 1:
        return -np.inf, np.inf
    return values.model_copy(update={"returns": None}).return_bounds


def _trajectories(release: Release) -> float:
    """Return how many trajectories count: the public number, or the noisy one of the limits."""
    if release.trajectories is not None:
        return float(release.trajectories)
    names = release.terms["tallies"]
    numbers = next(s.numbers for s in release.stages or () if s.name == "limits")
    assert numbers is not None  # the stage publishes what it counted
    return float(max(dict(zip(names, numbers, strict=True))["trajectories"], 1.0))


def _least_visits(release: Release) -> Vector | None:
    """Return the lower ends of the noisy visits."""
    if release.statistics is None or release.level is None:
        return None
    reach = normal_quantile(release.level) * np.asarray(release.statistics.count_noise)
    return np.maximum(np.asarray(release.statistics.counts) - reach, 0.0)
