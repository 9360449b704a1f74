"""Find how precise a release is, where it has intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from privalue.errors import UsageError
from privalue.estimate import described_actions
from privalue.releases import Release
from privalue.report._states import StateTable
from privalue.study import Study, files_named


@dataclass(frozen=True, kw_only=True)
class Achieved:
    """Half the widths of intervals of one kind."""

    level: float
    median: float
    largest: float


def shown(error: float) -> str:
    """Return a half-width with two or three digits."""
    if error >= 1000:
        return f"{error:,.0f}" if error < 1e5 else f"{error:.2g}"
    return f"{error:.2g}" if error < 0.1 else f"{error:.3g}"


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
