"""Refit the statistics of a dp-ssp release with other choices, and test whether states differ.

All of it is post-processing of released numbers: it needs no data and spends nothing.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privalue.errors import UsageError
from privalue.estimate.flags import flags_of_release
from privalue.estimate.intervals import count_distinct_values, estimate_intervals
from privalue.estimate.ratios import Ratios, normal_quantile
from privalue.estimate.values import fit_keys, statistics_parts
from privalue.releases import Release
from privalue.study import Study, described_values, design, place_keywords, ridge_of
from privalue.version import VERSION

# The keys of a study that a refit may change: neither statistics nor the guarantee depend on them.
CHOICES = ("features", "size", "shrink", "weights", "ridge", "ridge_scale", "shrinkage", "level")


def refit(release: Release | str | Path, *, start: Any = None, **choices: Any) -> Release:
    """Return a release from the same noisy statistics, with other choices.

    Nothing is spent, and no data is opened.

    Args:
        release: a dp-ssp release, its file, or its folder.
        start: a public start distribution: an array, a table by label, or a file.
        choices: keywords of ``Study`` that replace the release's; None keeps the release's own.
            ``features``: a matrix with a row for each state, or the name of its file. ``size``, in
            place of features: how many adjacent states share one value; 1 for none. ``shrink``:
            whether values are only shrunk towards the features. ``weights``: a number for each
            state, in an array or by label, "uniform", or a file. ``ridge``, ``ridge_scale``,
            ``shrinkage``: as in ``[mechanism]``. ``level``: of the intervals.

    Returns:
        A release with the same guarantee, statistics and terms; ``refit_of`` names the original.

    Raises:
        UsageError: the release holds no statistics, or there is no such choice.
        StudyError: the choices do not fit the release's states, or its own came from a file.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> tied = pv.refit(pv.release(study, people), features=[[1.0], [1.0]])
    >>> len(tied.theta)
    1
    """
    release = as_release(release)
    ratios = ratios_of(release)
    if not choices.keys() <= set(CHOICES):
        raise UsageError(f"a refit may change {', '.join(CHOICES)} and start, not {[*choices]}")
    sections = place_keywords({key: value for key, value in choices.items() if value is not None})
    if choices.get("size") == 1:
        sections["features"] = {"kind": "tabular"}
    study = change_study(release, sections, start)
    ridge = ridge_of(study, release.trajectories or study.study.trajectories)
    common = flags_of_release(private=release.private, accepted=release.accepted)
    estimates = fit_keys(study, design(study), ratios, ridge, release.releases_per_person or 1)
    parts = statistics_parts(study, estimates, common)
    description = study.public_description()
    return derive(release, study=description, ridge=ridge, refit_of=release.sha256, **parts)


def as_release(source: Release | str | Path) -> Release:
    """Return a release, which is loaded if the source is its file or folder."""
    return source if isinstance(source, Release) else Release.load(source)


def derive(release: Release, **parts: Any) -> Release:
    """Return a copy of a release with other parts, dated today and of this version."""
    parts["created"] = datetime.now(UTC).strftime("%Y-%m-%d")
    parts["software"] = f"privalue {VERSION}"
    return Release(**{name: getattr(release, name) for name in Release.model_fields} | parts)


def change_study(release: Release, changes: dict[str, dict[str, Any]], start: Any) -> Study:
    """Return the release's study with changed sections; its states are those of the release."""
    description, level = release.study, {"level": release.level}
    states = {key: value for key, value in description["states"].items() if key in ("bins", "ends")}
    sections = {
        **changes,
        "values": {**description["values"], "start": start},
        "states": states if "bins" in states else {"labels": list(release.states), **states},
        "report": {**description.get("report", {}), **level, **changes.get("report", {})},
    }
    if release.actions:
        sections["actions"] = {"labels": list(release.actions)}
        if "allowed" in description["actions"]:
            allowed: dict[str, list[str]] = {state: [] for state in release.states}
            for row in release.values:
                allowed[row.state].append(row.action)
            sections["actions"]["allowed"] = allowed
    return Study.from_description(description, **sections)


def ratios_of(release: Release) -> Ratios:
    """Return the noisy numbers of a dp-ssp release.

    Raises:
        UsageError: the release is of another mechanism, and holds no statistics.
    """
    if release.statistics is None:
        raise UsageError(
            f"this release is of {release.mechanism}, which has no statistics (only dp-ssp has): "
            "anything else would need the data, and a budget"
        )
    restriction, values = release.restriction, described_values(release.study)
    bounds = values.return_bounds if restriction is None else (restriction.low, restriction.high)
    return Ratios.within(bounds, **dict(release.statistics))


def cluster_size_of(release: Release) -> int:
    """Return how many trajectories of one unit may count in a release; they may all be equal."""
    return int(release.terms["max_trajectories_per_person"] * (release.releases_per_person or 1))


class Verdict(NamedTuple):
    """Whether the values of states differ, at the release's level for all of them at once."""

    different_values: int  # a lower bound; 1: a single value would fit all states
    common_value: float  # the mean return over all first visits
    common_low: float
    common_high: float


def verdict(release: Release) -> Verdict | None:
    """Return whether values differ, judged by their bands; None without bands or with one value.

    Bands hold for all values at once, for any correlations, and so do both answers. Visits of one
    unit, in all states that it may count for, may be equal.
    """
    low, high = release.column("total_band_low"), release.column("total_band_high")
    if release.statistics is None or low is None or high is None or len(low) == 1:
        return None
    ratios = ratios_of(release)
    cluster_size = release.terms["max_states_per_trajectory"] * cluster_size_of(release)
    pooled = ratios.pool(np.zeros(len(low), dtype=np.int64))
    z, different_values = normal_quantile(release.level or 0.95), count_distinct_values(low, high)
    common = estimate_intervals(pooled, ratios.centre, z, cluster_size)
    value = np.clip(common.point, common.low, common.high)
    return Verdict(different_values, *(float(end[0]) for end in (value, common.low, common.high)))
