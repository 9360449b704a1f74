"""Ask the statistics of a dp-ssp release again: other features, weights, ridge, level; a verdict.

All of it is post-processing of what was released: it needs no data and spends nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privalue.errors import UsageError
from privalue.estimate.flags import cautions
from privalue.estimate.intervals import distinct_values, total_intervals
from privalue.estimate.ratios import Ratios, normal_quantile, plain_values, ratio_intervals
from privalue.estimate.values import statistics_tables
from privalue.releases import Release
from privalue.study import (
    KEYWORDS,
    Study,
    described_values,
    design,
    files_named,
    ridge_of,
)
from privalue.version import VERSION


def refit(
    release: Release | str | Path,
    *,
    features: Any = None,
    size: int | None = None,
    shrink: bool = False,
    weights: Any = None,
    ridge: float | str | None = None,
    ridge_scale: float | None = None,
    shrinkage: bool | None = None,
    start: Any = None,
    level: float | None = None,
) -> Release:
    """Return the release that the same noisy statistics give with other choices.

    Nothing is spent, and no data is opened.

    Args:
        release: a dp-ssp release, its file, or its folder.
        features: in place of the release's: a matrix with a row for each state, or the name of its
            file.
        size: in place of features: how many adjacent states share one value; 1 for none.
        shrink: whether values are only shrunk towards the features.
        weights: a number for each state, in an array or by label, "uniform", or a file.
        ridge: as in ``[mechanism]``; the three of them are in place of the release's.
        ridge_scale: likewise.
        shrinkage: likewise.
        start: a public start distribution: an array, a table by label, or a file.
        level: of the intervals.

    Returns:
        A release with the guarantee, statistics and terms of the first one; ``refit_of`` names it.

    Raises:
        UsageError: the release holds no statistics, or a file of its study is asked for anew.
        StudyError: the choices do not fit the release's states.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> tied = pv.refit(pv.release(study, people), features=[[1.0], [1.0]])
    >>> len(tied.theta)
    1
    """
    release = release if isinstance(release, Release) else Release.load(release)
    if release.statistics is None:
        raise UsageError(
            f"only dp-ssp releases its statistics, and this release is of {release.mechanism}; "
            "another fit would need the data, and a budget"
        )
    mechanism = {"ridge": ridge, "ridge_scale": ridge_scale, "shrinkage": shrinkage}
    given = {
        "features": _features(features, size, shrink),
        "weights": None if weights is None else KEYWORDS["weights"](weights)["weights"],
        "mechanism": {key: value for key, value in mechanism.items() if value is not None} or None,
    }
    study = _study(release, given, start, level)
    built = design(study)
    if not study.mechanism.has_ridge:
        built.require_full_rank()
    ridge = ridge_of(study, release.trajectories or study.study.trajectories)
    every = cautions(private=release.private, accepted=release.accepted)
    return Release(
        **{
            **{name: getattr(release, name) for name in Release.model_fields},
            "study": study.public_description(),
            "ridge": ridge,
            **statistics_tables(study, built, released_ratios(release), ridge, every),
            "refit_of": release.sha256,
            "created": datetime.now(UTC).strftime("%Y-%m-%d"),
            "software": f"privalue {VERSION}",
        }
    )


def released_ratios(release: Release) -> Ratios:
    """Return the noisy numbers of a dp-ssp release, which holds statistics."""
    kept, held = release.statistics, release.restriction
    assert kept is not None
    return Ratios.within(
        described_values(release.study).return_bounds if held is None else (held.low, held.high),
        sums=kept.sums,
        counts=kept.counts,
        sum_noise=kept.sum_noise,
        count_noise=kept.count_noise,
    )


class Verdict(NamedTuple):
    """Whether states can be told apart, at the release's level for all of them at once."""

    different_values: int  # at least so many; 1: one value would fit them all
    common_value: float  # the mean return over all first visits
    common_low: float
    common_high: float

    @property
    def told_apart(self) -> bool:
        """Return whether not all values are the same."""
        return self.different_values > 1


def verdict(release: Release) -> Verdict | None:
    """Return what the bands say of all values together; None where there are none, or one value.

    Bands hold for all values at once, whatever their correlations: so do both answers.
    """
    low, high = release.column("total_band_low"), release.column("total_band_high")
    if release.statistics is None or low is None or high is None or len(low) == 1:
        return None
    return Verdict(distinct_values(low, high), *common_value(release))


def common_value(release: Release) -> tuple[float, float, float]:
    """Return the mean return over all first visits, whatever the state, with its total interval.

    Visits of one unit, in any of the states that it may count for, may all be alike.

    Args:
        release: which holds statistics.
    """
    each, privacy = released_ratios(release), release.study["privacy"]
    keys = len(each.sums) // max(len(release.arms), 1)
    most = min(privacy.get("max_states_per_trajectory") or keys, keys)
    alike = most * (privacy.get("max_trajectories_per_person") or 1)
    ratios = replace(
        each,
        sums=np.array([each.sums.sum()]),
        counts=np.array([each.counts.sum()]),
        sum_noise=np.array([np.linalg.norm(each.sum_noise)]),
        count_noise=np.array([np.linalg.norm(each.count_noise)]),
    )
    z = normal_quantile(release.level or 0.95)
    low, high = total_intervals(ratios, z, ratio_intervals(ratios, z), alike=alike)
    value = np.clip(plain_values(ratios, each.centre), low, high)
    return float(value[0]), float(low[0]), float(high[0])


def _features(features: Any, size: int | None, shrink: bool) -> dict[str, Any] | None:
    """Return the keys of the features that were given; None for the release's own."""
    if features is None and size is None:
        if shrink:
            raise UsageError("shrink=True needs features to shrink towards: give features or size")
        return None
    if features is not None and size is not None:
        raise UsageError("features and size both say which features; give one of the two")
    tied = {"kind": "tabular"} if size == 1 else {"size": size}
    keys = tied if features is None else KEYWORDS["features"](features)["features"]
    return {**keys, "shrink": True} if shrink else keys


def _study(
    release: Release,
    chosen: Mapping[str, dict[str, Any] | None],
    start: Any,
    level: float | None,
) -> Study:
    """Return the release's study with other choices; its states are those of the release.

    Args:
        release: which holds statistics.
        chosen: the keys of features, weights and mechanism; None: the release's own.
        start: a start distribution.
        level: of the intervals.
    """
    described = release.study
    given: dict[str, Any] = {name: keys for name, keys in chosen.items() if keys is not None}
    for section, _ in files_named(described):
        if section in chosen and section not in given:
            raise UsageError(
                f"the release's {section} came from a file, which it names but does not hold; give "
                f"the {section} again"
            )
    bins = {key: value for key, value in described["states"].items() if key == "bins"}
    given |= {
        "states": bins or {"labels": list(release.states)},
        "mechanism": {"name": "dp-ssp", **given.get("mechanism", described["mechanism"])},
        "report": {"level": level or release.level},
        **_described_actions(release),
    }
    return Study.from_description(described, start=start, **given)


def _described_actions(release: Release) -> dict[str, Any]:
    """Return the section of actions without the files that it names; nothing without any."""
    described = release.study.get("actions")
    if not described:
        return {}
    allowed: dict[str, list[str]] = {}
    for row in release.values:
        allowed.setdefault(row.state, []).append(row.action)
    only = {"allowed": allowed} if "allowed" in described else {}
    return {"actions": {"labels": list(release.actions), **only}}
