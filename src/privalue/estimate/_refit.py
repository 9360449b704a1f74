"""Other values from the statistics of a dp-ssp release: features, weights, ridge, level.

All of it is post-processing of what was released: it needs no data and spends nothing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from privalue.artefact._release import Release, Software
from privalue.errors import UsageError
from privalue.estimate._published import fitted, published
from privalue.estimate._statistics import NoisyStatistics
from privalue.study._features import design
from privalue.study._study import Study
from privalue.study._terms import refuse_early, ridge_of
from privalue.version import VERSION


def refit(
    release: Release,
    *,
    features: Mapping[str, Any] | None = None,
    weights: Mapping[str, Any] | None = None,
    mechanism: Mapping[str, Any] | None = None,
    start: str | Mapping[str, float] | None = None,
    level: float | None = None,
) -> Release:
    """The release that the same noisy statistics give with other choices; nothing is spent.

    Args:
        release: a dp-ssp release.
        features: the keys of ``[features]``, in place of the release's.
        weights: the keys of ``[weights]``.
        mechanism: ``ridge``, ``ridge_scale`` and ``shrinkage`` of ``[mechanism]``.
        start: a public start distribution, by state or as a file.
        level: of the intervals.

    Raises:
        UsageError: the release holds no statistics, or a file of its study is asked for anew.
        StudyError: the choices do not fit the release's states.
    """
    if release.statistics is None:
        raise UsageError(
            f"only dp-ssp releases its statistics, and this release is of {release.mechanism}; "
            "another fit would need the data, and a budget"
        )
    study = _study(release, features, weights, mechanism, start, level)
    kept = release.statistics
    noisy = NoisyStatistics(
        return_bounds=study.return_bounds,
        sums=np.array(kept.sums),
        counts=np.array(kept.counts),
        sum_noise=np.array(kept.sum_noise),
        count_noise=np.array(kept.count_noise),
    )
    built = design(study)
    refuse_early(study, built)
    ridge = ridge_of(study, release.trajectories or study.study.trajectories)
    return Release(
        **{
            **{name: getattr(release, name) for name in _KEPT},
            "study": study.public_description(),
            "ridge": ridge,
            **published(fitted(noisy, built, study, ridge), study.state_names),
            "refit_of": release.sha256,
            "created": datetime.now(UTC).strftime("%Y-%m-%d"),
            "software": Software(version=VERSION),
        }
    )


_KEPT = (
    *("private", "privacy", "mechanism", "terms", "noise", "trajectories", "persons"),
    *("accepted", "ledger_head"),
)


def _study(
    release: Release,
    features: Mapping[str, Any] | None,
    weights: Mapping[str, Any] | None,
    mechanism: Mapping[str, Any] | None,
    start: str | Mapping[str, float] | None,
    level: float | None,
) -> Study:
    """The release's study with other choices; its states are those of the release."""
    told = release.study
    values = {key: value for key, value in told["values"].items() if key != "start"}
    if start is not None:
        values["start"] = start if isinstance(start, str) else dict(start)
    report = {"level": level or release.level}
    return Study(
        study=told["study"],
        privacy=told["privacy"],
        values=values,
        states={"labels": [entry.state for entry in release.values]},
        features=_again("features", features, told),
        weights=_again("weights", weights, told),
        mechanism={"name": "dp-ssp", **(told["mechanism"] if mechanism is None else mechanism)},
        report=report,
    )


def _again(section: str, chosen: Mapping[str, Any] | None, told: Mapping[str, Any]) -> Any:
    if chosen is not None:
        return dict(chosen)
    if "file" in told[section] or told[section].get("kind") == "matrix":
        raise UsageError(
            f"the release's {section} came from a file, which it names but does not hold; give "
            f"the {section} again"
        )
    return told[section]
