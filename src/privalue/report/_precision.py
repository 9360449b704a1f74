"""Find how precise a release is: as planned, from public numbers; as achieved, where released.

The noise of dp-lsw and dp-lsl has a scale that depends on the data. The plan, which never saw the
data, is all that may be published about it. dp-ssp has a public scale, and a released scale is
public, too: there, the widths of the intervals say what was achieved.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from privalue.errors import PrivalueError, UsageError
from privalue.estimate import described_actions
from privalue.planning import Prediction, quick_prediction
from privalue.releases import Release
from privalue.report._states import StateTable
from privalue.study import Study, files_named


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The prediction of the study's own mechanism, or why there is none."""

    prediction: Prediction | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Achieved:
    """Half the widths of intervals of one kind."""

    level: float
    median: float
    largest: float


def planned(release: Release, study: Study | None = None) -> Planned:
    """Predict the error from the study alone, for the public number of trajectories.

    Args:
        release: what was released.
        study: its study; without it, the study is rebuilt from the release where that is possible.
    """
    number = release.trajectories or release.study["study"].get("trajectories")
    if number is None:
        return Planned(
            prediction=None,
            reason="The number of trajectories is neither public here nor declared in the study, "
            "and nothing is planned without one.",
        )
    try:
        known = study_of(release) if study is None else study
        return Planned(prediction=quick_prediction(known, number))
    except UsageError as problem:
        return Planned(prediction=None, reason=f"Not predicted: {problem}.")
    except PrivalueError as problem:
        return Planned(prediction=None, reason=f"It could not be predicted: {problem}.")


def achieved(release: Release, states: StateTable, kind: str = "") -> Achieved | None:
    """Return the half-widths of the released intervals; None where there are none.

    Args:
        release: what was released.
        states: its values and intervals.
        kind: "" for privacy intervals, "total_" for total ones.
    """
    low, high = states.columns.get(f"{kind}low"), states.columns.get(f"{kind}high")
    if release.level is None or low is None or high is None:
        return None
    halves = (high - low) / 2
    return Achieved(
        level=release.level, median=float(np.median(halves)), largest=float(halves.max())
    )


def study_of(release: Release) -> Study:
    """Return the study that a release describes, where that needs no side file.

    Raises:
        UsageError: if the study has a side file, of which the release holds the hash alone.
    """
    described = release.study
    # The states themselves are in the release, whichever file they came from.
    listed = {("states", "file"), ("states", "groups"), ("actions", "file"), ("actions", "allowed")}
    files = [
        f"[{section}] {key}"
        for section, key in files_named(described)
        if (section, key) not in listed
    ]
    if files:
        remedy = (
            "a refit is predicted only without files"
            if release.refit_of is not None
            else "make the report with the study, which names its side files"
        )
        raise UsageError(f"the release names {files[0]} by its hash and does not hold it; {remedy}")
    states: dict[str, Any] = (
        {"count": len(release.states)}
        if "count" in described["states"]
        else {"labels": list(release.states)}
    )
    if "visits" in described["states"]:
        states["visits"] = described["states"]["visits"]
    return Study.from_description(described, states=states, **described_actions(release))


def require_same_study(release: Release, study: Study) -> None:
    """Refuse a study that is not the one that the release describes.

    Raises:
        UsageError: if some key or side file differs.
    """
    if release.study != study.public_description():
        raise UsageError(
            f'the study "{study.study.name}" is not the one of this release: some key or side '
            "file differs; give the study that was released, or none"
        )
