"""Say in one sentence whether the values can be used: as they are, with care, or not.

The plan, the band and the flags decide, which are public. A release that its own plan calls no
better than guessing is not usable, whatever its values are. The band holds for all states at once:
where one value meets every state's, the states cannot be told apart, and the value that they have
in common is shown; if even its interval spans more than half of what is possible, nothing can be
used. Neither can values that all have too few visits or such an interval. Any flag, a plan that is
doubtful at its cautious end, or noise of unknown size call for care.
"""

from dataclasses import dataclass

from privalue._written import written, written_exactly
from privalue.estimate import BORROWED, UNCLEAR, WIDE, common_value, distinct_values
from privalue.planning import shown
from privalue.releases import Release
from privalue.report._limits import counted_between
from privalue.report._numbers import interval
from privalue.report._pages import PageHtml, listed
from privalue.report._precision import Planned, achieved
from privalue.report._states import FLAGS, StateTable, return_bounds

_HEADS = {"usable": "Usable.", "care": "Usable with care.", "unusable": "Not usable."}
_DOUBTFUL = (
    "At the cautious end of its own plan this release is no better than guessing: if few people "
    "visited some of the states, do not act on their values."
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to whether the values can be used."""

    kind: str  # usable, care or unusable
    sentence: PageHtml | str

    @property
    def head(self) -> str:
        """Return the answer in a word or three."""
        return _HEADS[self.kind]


def verdict_of(release: Release, states: StateTable, plan: Planned) -> Verdict:
    """Return whether values can be used, and why not, or with which states to be careful.

    Args:
        release: what was released.
        states: its values, with their flags.
        plan: the prediction from the study alone, or why there is none.
    """
    predicted = plan.prediction
    useless = predicted is not None and predicted.useless
    told = accepted_in_words(release) or (_useless(release) if useless else None)
    if told is not None:
        return Verdict(kind="unusable", sentence=told)
    flagged = states.flagged.nonzero()[0]
    apart = _distinct(release, states)
    doubtful = f" {_DOUBTFUL}" if predicted is not None and predicted.doubtful else ""
    if apart == 1:
        return _together(release, states, doubtful)
    if sum(len(states.with_flag(flag)) for flag in (UNCLEAR, BORROWED, WIDE)) == len(states):
        return Verdict(
            kind="unusable",
            sentence="Every value has too few visits to say anything, or its interval spans more "
            "than half of what is possible. Do not act on the values.",
        )
    if len(flagged):
        present = [flag for flag in FLAGS if len(states.with_flag(flag))]
        sound = len(states) - len(flagged)
        first = [str(states.names[at]) for at in flagged[:3].tolist()]
        first = first[: 3 if max(map(len, first)) <= 30 else 2]
        names = listed(first, more=len(flagged) - len(first), most=72)
        kept = (
            f"{sound:,} of {len(states):,} values carry no flag"
            if sound
            else "Every value is flagged"
        )
        return Verdict(
            kind="care",
            sentence=PageHtml(f"{kept}; be careful with {names} ({'; '.join(present)}).{doubtful}"),
        )
    reasons = [reason for reason in _of_all_states(release, plan) if reason is not None]
    if reasons:
        return Verdict(kind="care", sentence=reasons[0])
    return Verdict(kind="usable", sentence=_usable(release, states, apart))


def _distinct(release: Release, states: StateTable) -> int | None:
    """Return how many different values there are at least; None of one alone, or without a band."""
    low, high = states.columns.get("total_band_low"), states.columns.get("total_band_high")
    if low is None or high is None or release.statistics is None or len(states) == 1:
        return None
    return distinct_values(low, high)


def _together(release: Release, states: StateTable, doubtful: str) -> Verdict:
    """Return that values cannot be told apart, and what they are taken together."""
    what = "values" if states.arms or states.pairs else "states"
    value, low, high = common_value(release)
    first, last = counted_between(release)
    wide = (
        ""
        if release.restriction is not None
        else " If returns are far narrower than their bounds, the noise is larger than it must be: "
        'tighter [values] returns, or stages = ["bounds"], may show more.'
    )
    return Verdict(
        kind="care" if high - low <= (last - first) / 2 else "unusable",
        sentence=f"The {what} cannot be told apart: at the level of "
        f"{100 * (release.level or 0):g}% for all at once, one value would fit them all. The mean "
        f"over all visits is {written(value, low, high)}.{wide}{doubtful}",
    )


def accepted_in_words(release: Release) -> str | None:
    """Return what to say of a release that was made although it is of no use; None of others."""
    if "useless" not in release.accepted:
        return None
    return _useless(release, " Whoever made it was told so and accepted it explicitly.")


def _useless(release: Release, accepted: str = "") -> str:
    """Return that a release is no better than guessing, and what was said to that."""
    low, high = return_bounds(release)
    return (
        "By its own plan this release is no better than guessing "
        f"{written_exactly((low + high) / 2)}, the middle of the bounds, for every "
        f"state.{accepted} Do not act on the values."
    )


def _of_all_states(release: Release, plan: Planned) -> list[str | None]:
    """Return what calls for care with every state, the most important first."""
    return [
        f"No state is flagged. {_DOUBTFUL}"
        if plan.prediction is not None and plan.prediction.doubtful
        else None,
        "No state is flagged, but how noisy the values are is not public: there are no intervals."
        if release.level is None
        else None,
    ]


def _usable(release: Release, states: StateTable, apart: int | None) -> str:
    """Return how precise values are that nothing speaks against."""
    found = achieved(release, states, "total_")
    assert found is not None  # without intervals a release calls for care
    different = "" if apart is None else f" There are at least {apart:,} different values."
    return (
        f"No state is flagged. Half of the {100 * found.level:g}% intervals go no further than "
        f"{shown(found.median)} to either side; returns count from "
        f"{interval(*counted_between(release))}.{different}"
    )
