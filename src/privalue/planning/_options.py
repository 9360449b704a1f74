"""List the mechanisms that a plan compares: the study's own, and the others that it could have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from privalue.errors import StudyError
from privalue.study import SECTIONS, Study

PSEUDO_COUNTS = (10.0, 100.0, 1000.0)
RIDGE_SCALES = (1.0, 10.0)  # beside the default of 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """A study with one of the mechanisms.

    ``chosen`` marks the study as its author wrote it, ``tuned`` a setting that nobody asked for.
    """

    study: Study
    chosen: bool = False
    tuned: bool = False

    @property
    def mechanism(self) -> str:
        """Return the name of the mechanism: dp-lsw, dp-lsl or dp-ssp."""
        return self.study.mechanism.name

    @property
    def calibration(self) -> str:
        """Return the calibration: exact, nissim or appendix."""
        return self.study.mechanism.calibration

    @property
    def detail(self) -> str:
        """Return the settings that differ from the default, in the words of the study file."""
        chosen = self.study.mechanism
        details = []
        if chosen.name == "dp-lsw" and chosen.noise == "isotropic":
            details.append("isotropic")
        for key in ("beta", "pseudo_count", "ridge", "ridge_scale"):
            value, default = getattr(chosen, key), SECTIONS["mechanism"].model_fields[key].default
            if value != default:
                details.append(
                    f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
                )
        if chosen.name == "dp-ssp" and not chosen.shrinkage:
            details.append("shrinkage = false")
        return ", ".join(details)

    @property
    def label(self) -> str:
        """Return the whole name: mechanism, calibration, details."""
        parts = [self.mechanism]
        if self.mechanism != "dp-ssp":
            parts.append(self.calibration)
        return ", ".join([*parts, *([self.detail] if self.detail else [])])


def options_of(study: Study, trajectories: int) -> list[Option]:
    """Return the study as it is, then every mechanism with every calibration."""
    ridge = _ridge(study)
    others: list[dict[str, Any]] = [
        {"name": "dp-lsw", "calibration": "appendix", "noise": "isotropic"},
        {"name": "dp-lsl", "calibration": "appendix", **ridge},
    ]
    tuned: list[dict[str, Any]] = [
        {"name": "dp-lsw", "pseudo_count": kappa} for kappa in PSEUDO_COUNTS if kappa < trajectories
    ]
    tuned += [] if ridge else [{"name": "dp-lsl", "ridge_scale": scale} for scale in RIDGE_SCALES]
    return _distinct(study, _distinct(study, main_options(study), others), tuned, tuned=True)


def main_options(study: Study) -> list[Option]:
    """Return the study as it is, every mechanism calibrated exactly, and the paper's."""
    ridge = _ridge(study)
    others: list[dict[str, Any]] = [
        {"name": "dp-ssp"},
        {"name": "dp-lsw"},
        {"name": "dp-lsl", **ridge},
        {"name": "dp-lsw", "calibration": "nissim", "noise": "isotropic"},
        {"name": "dp-lsl", "calibration": "nissim", **ridge},
    ]
    return _distinct(study, [Option(study=study, chosen=True)], others)


def _ridge(study: Study) -> dict[str, Any]:
    """Return the ridge that the study's author gave, as keys for another mechanism."""
    given = study.mechanism.given & {"ridge", "ridge_scale"}
    return {key: getattr(study.mechanism, key) for key in given}


def _distinct(
    study: Study,
    options: list[Option],
    others: Iterable[Mapping[str, Any]],
    *,
    tuned: bool = False,
) -> list[Option]:
    """Add to the options the others that the study allows and that are not among them yet."""
    found = list(options)
    for keys in others:
        other = with_mechanism(study, keys, tuned=tuned)
        if other is not None and all(other.label != option.label for option in found):
            found.append(other)
    return found


def with_mechanism(study: Study, keys: Mapping[str, Any], *, tuned: bool = False) -> Option | None:
    """Return the study with another mechanism; None where its other sections do not allow it."""
    try:
        mechanism = {"mechanism": keys["name"], **{k: v for k, v in keys.items() if k != "name"}}
        return Option(study=study.replace(**mechanism), tuned=tuned)
    except StudyError:
        return None
