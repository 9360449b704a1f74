"""Refuse a release that would be useless or has a large delta, unless it is accepted by name.

| refused                                       | unless                    | in ``accepted`` |
|-----------------------------------------------|---------------------------|-----------------|
| a plan no better than guessing                | ``accept_useless``        | useless         |
| delta >= 1/m                                  | ``accept_large_delta``    | large-delta     |

The plan is its middle case. Where only the cautious end is no better than guessing, a note says so:
the assumptions cannot decide, and whoever knows more about the visits may go ahead.

Everything here depends on public numbers only. The number of trajectories m is the counted one
where that is public, or the one that the study declares; without either nothing is refused. Notes
are Python warnings, and they come before anything is charged.
"""

import math
import sys
import warnings
from typing import NamedTuple

from privalue._written import counted
from privalue.core import Design, Lsl, Lsw, Ope, PublicSize, Ssp
from privalue.errors import PrivalueWarning, StudyError
from privalue.planning._judgement import Judgement, judge, most_helpful
from privalue.planning._predict import USELESS
from privalue.planning._rare_states import rare_state_words
from privalue.planning._shown import shown
from privalue.releases import Accepted
from privalue.study import Study


def require_useful(
    study: Study,
    built: Design,
    mechanism: Ssp | Lsw | Lsl | None,
    trajectories: int | None,
    *,
    accepted: bool,
) -> list[Accepted]:
    """Refuse a release that is predicted to be no better than guessing.

    Args:
        study: what is public.
        built: its features and weights.
        mechanism: with its constants; None where they depend on an m that is not known.
        trajectories: m.
        accepted: whether it goes ahead all the same.

    Returns:
        What was accepted, for the release to say: ``["useless"]``, or an empty list.

    Raises:
        StudyError: if the release would be useless and that is not accepted.
    """
    rare = rare_state_words(study, built, mechanism, trajectories)
    if rare is not None:
        warn_caller(rare)
    if mechanism is None or trajectories is None:
        warn_caller(
            "nothing is predicted, and a release of no use is not refused, since the number of "
            "trajectories is neither public nor declared; set [study] trajectories"
        )
        return []
    found = judge(study, built, mechanism, trajectories)
    if found.doubtful and not accepted and rare is None:
        warn_caller(doubtful_words(found))
    if not found.useless:
        return []
    if isinstance(mechanism, Ssp) and "bounds" in mechanism.stages:
        # The prediction keeps the whole range: what the stage will find is not public yet.
        warn_caller(
            "with the whole range of returns this release would be no better than guessing; it is "
            "made all the same, since a stage may find a smaller range: see the bound it chose, or "
            "state [values] returns"
        )
        return []
    if not accepted:
        low, high = study.return_bounds
        raise StudyError(
            f"this release would be of no use: with {counted(trajectories, 'trajectory')} "
            f"{study.mechanism.name} is predicted to be off by {shown(found.rmse)}, and guessing "
            f"{(low + high) / 2:g} for every state by {shown(found.guess)}; "
            f"{most_helpful(study, trajectories)}; nothing was spent: change the study, or accept "
            "it explicitly "
            "(--accept-useless; in Python accept_useless=True)"
        )
    return ["useless"]


def doubtful_words(judged: Judgement) -> str:
    """Return the note on a release that is of use only where visits are kind."""
    return (
        f"with {counted(judged.trajectories, 'trajectory')} the values are predicted to be off by "
        f"{shown(judged.rmse)}, but at the cautious end, where few visit some of the states, by "
        f"{shown(judged.cautious)}, and guessing by {shown(judged.guess)}: they may be no better "
        "than guessing; a public prior of visits ([states] visits) or a plan with a public world "
        "tells more"
    )


def require_useful_policy(
    mechanism: Ope, trajectories: int | None, *, accepted: bool
) -> list[Accepted]:
    """Refuse to value a policy where the noise alone is as large as the error of guessing.

    Args:
        mechanism: with its constants.
        trajectories: m, where it is known; without it nothing is predicted.
        accepted: whether it goes ahead all the same.

    Returns:
        What was accepted, for the release to say.
    """
    if trajectories is None:
        warn_caller(
            "nothing is predicted, and a release of no use is not refused, since the number of "
            "trajectories is not public here; declare [study] trajectories"
        )
        return []
    low, high = mechanism.terms.limits.return_bounds
    # At the most that can be kept, and with all trajectories in one group.
    noise, guessing = mechanism.sigma / trajectories, (high - low) / math.sqrt(12)
    if noise < USELESS * guessing:
        return []
    if accepted:
        return ["useless"]
    raise StudyError(
        f"this release would be no better than guessing: the noise of the value is at least "
        f"{noise:.3g} with {counted(trajectories, 'trajectory')}, and guessing between {low:g} "
        f"and {high:g} is off by {guessing:.3g}; use a smaller [policy] clip, a larger epsilon, "
        "or more trajectories, or accept it explicitly "
        "(--accept-useless; in Python accept_useless=True)"
    )


def require_small_delta(study: Study, size: PublicSize, *, accepted: bool) -> list[Accepted]:
    """Refuse delta >= 1/m: it would allow one whole trajectory to be published outright."""
    found = large_delta(study, size)
    if found is None:
        return []
    if not found.refused:
        warn_caller(found.text)
        return []
    if not accepted:
        raise StudyError(
            f"{found.text}, or accept it explicitly (--accept-large-delta; in Python "
            "accept_large_delta=True)"
        )
    return ["large-delta"]


class LargeDelta(NamedTuple):
    """The message about a delta that is not small, and whether such a delta is refused."""

    text: str
    refused: bool


def large_delta(study: Study, size: PublicSize) -> LargeDelta | None:
    """Compare delta with 1/m; return None if it is at most a tenth of that, or m is not known."""
    delta, units = study.privacy.delta, size.units or size.trajectories
    if units is None or delta * units * 10 <= 1:
        return None
    what = "persons" if study.privacy.unit == "person" and size.units else "trajectories"
    refused = delta * units >= 1
    limit, bound = ("not below 1/m", 1 / units) if refused else ("above 1/(10 m)", 0.1 / units)
    return LargeDelta(
        f"[privacy] delta = {delta:g} is {limit} = {bound:.3g} for m = {units} {what}: a mechanism "
        f"that publishes one of them outright would satisfy {'it' if refused else 'delta = 1/m'}; "
        "use a smaller delta",
        refused,
    )


def warn_caller(text: str) -> None:
    """Warn the caller outside the package: the warning points at the line that called us."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("privalue."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, PrivalueWarning, stacklevel=level)
