"""Ask the statistics of a dp-ssp release again: other features, weights, ridge, level; a verdict.

All of it is post-processing of what was released: it needs no data and spends nothing.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privalue.errors import UsageError
from privalue.estimate.flags import cautions
from privalue.estimate.intervals import distinct_values, locate
from privalue.estimate.ratios import Ratios, normal_quantile
from privalue.estimate.values import fit_keys, statistics_tables
from privalue.releases import Release
from privalue.study import Study, described_values, design, place_keywords, ridge_of
from privalue.version import VERSION

# The keys of a study that are free to choose again: no statistic and no promise rests on them.
CHOICES = ("features", "size", "shrink", "weights", "ridge", "ridge_scale", "shrinkage", "level")


def refit(release: Release | str | Path, *, start: Any = None, **choices: Any) -> Release:
    """Return the release that the same noisy statistics give with other choices.

    Nothing is spent, and no data is opened.

    Args:
        release: a dp-ssp release, its file, or its folder.
        start: a public start distribution: an array, a table by label, or a file.
        choices: in place of the release's, as ``Study`` takes them; None for the release's own.
            ``features``: a matrix with a row for each state, or the name of its file. ``size``, in
            place of features: how many adjacent states share one value; 1 for none. ``shrink``:
            whether values are only shrunk towards the features. ``weights``: a number for each
            state, in an array or by label, "uniform", or a file. ``ridge``, ``ridge_scale`` and
            ``shrinkage``: as in ``[mechanism]``, all three of them. ``level``: of the intervals.

    Returns:
        A release with the guarantee, statistics and terms of the first one; ``refit_of`` names it.

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
    release = release if isinstance(release, Release) else Release.load(release)
    ratios = released_ratios(release)
    if not choices.keys() <= set(CHOICES):
        raise UsageError(f"a refit may change {', '.join(CHOICES)} and start, not {[*choices]}")
    given = place_keywords({word: value for word, value in choices.items() if value is not None})
    if choices.get("size") == 1:
        given["features"] = {"kind": "tabular"}
    study = study_of(release, given, start)
    ridge = ridge_of(study, release.trajectories or study.study.trajectories)
    every = cautions(private=release.private, accepted=release.accepted)
    made = fit_keys(study, design(study), ratios, ridge, release.releases_per_person or 1)
    parts = statistics_tables(study, made, every)
    described = study.public_description()
    return derive(release, study=described, ridge=ridge, refit_of=release.sha256, **parts)


def derive(release: Release, **parts: Any) -> Release:
    """Return a release of today and of this version, with these parts and else those of another."""
    parts["created"] = datetime.now(UTC).strftime("%Y-%m-%d")
    parts["software"] = f"privalue {VERSION}"
    return Release(**{name: getattr(release, name) for name in Release.model_fields} | parts)


def study_of(release: Release, given: dict[str, dict[str, Any]], start: Any) -> Study:
    """Return the release's study with other choices; its states are those of the release."""
    described, level = release.study, {"level": release.level}
    states = {key: value for key, value in described["states"].items() if key in ("bins", "ends")}
    sections = {
        **given,
        "values": {**described["values"], "start": start},
        "states": states if "bins" in states else {"labels": list(release.states), **states},
        "report": {**described.get("report", {}), **level, **given.get("report", {})},
    }
    if release.actions:
        sections["actions"] = {"labels": list(release.actions)}
        if "allowed" in described["actions"]:
            allowed: dict[str, list[str]] = {state: [] for state in release.states}
            for row in release.values:
                allowed[row.state].append(row.action)
            sections["actions"]["allowed"] = allowed
    return Study.from_description(described, **sections)


def released_ratios(release: Release) -> Ratios:
    """Return the noisy numbers of a dp-ssp release.

    Raises:
        UsageError: it is by another mechanism, and holds no statistics.
    """
    if release.statistics is None:
        raise UsageError(
            f"only dp-ssp releases its statistics, and this release is of {release.mechanism}; "
            "anything else would need the data, and a budget"
        )
    held, values = release.restriction, described_values(release.study)
    bounds = values.return_bounds if held is None else (held.low, held.high)
    return Ratios.within(bounds, **dict(release.statistics))


def trajectories_alike(release: Release) -> int:
    """Return how many trajectories one unit may have in a release, which may all be alike."""
    return int(release.terms["max_trajectories_per_person"] * (release.releases_per_person or 1))


class Verdict(NamedTuple):
    """Whether states can be told apart, at the release's level for all of them at once."""

    different_values: int  # at least so many; 1: one value would fit them all
    common_value: float  # the mean return over all first visits
    common_low: float
    common_high: float


def verdict(release: Release) -> Verdict | None:
    """Return what the bands say of all values together; None where there are none, or one value.

    Bands hold for all values at once, whatever their correlations: so do both answers. Visits of
    one unit, in any of the states that it may count for, may all be alike.
    """
    low, high = release.column("total_band_low"), release.column("total_band_high")
    if release.statistics is None or low is None or high is None or len(low) == 1:
        return None
    ratios = released_ratios(release)
    alike = release.terms["max_states_per_trajectory"] * trajectories_alike(release)
    whole = ratios.pooled(np.zeros(len(low), dtype=np.int64))
    place = locate(whole, ratios.centre, normal_quantile(release.level or 0.95), alike)
    value = np.clip(place.own, place.low, place.high)
    return Verdict(
        distinct_values(low, high), float(value[0]), float(place.low[0]), float(place.high[0])
    )
