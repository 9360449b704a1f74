"""The one sequence from public study and private data to what leaves, or stays.

``inspect`` computes everything up to the noise, for the curator alone: it returns a private type,
adds no noise and spends nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privalue.calibration import Calibration, calibrate
from privalue.engines import local
from privalue.errors import DataError
from privalue.features import Design, design
from privalue.mechanisms import MECHANISMS, Perturbation
from privalue.private import Private
from privalue.statistics import VisitStatistics
from privalue.study import Study

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Diagnostics(Private):
    """What only the curator may see: the statistics, the estimate before noise, and the noise."""

    study: Study
    design: Design
    statistics: VisitStatistics
    perturbation: Perturbation

    def _public_shape(self) -> str:
        return f"mechanism={self.study.mechanism.name!r}, states={self.study.state_count}"

    def private_fields(self) -> dict[str, Any]:
        """Everything as plain values. PRIVATE: none of it may be published."""
        mechanism, perturbation = self.study.mechanism, self.perturbation
        return {
            "mechanism": mechanism.name,
            "calibration": mechanism.calibration,
            "noise": mechanism.noise,
            "trajectories": self.statistics.trajectories,
            "rows": self.statistics.rows,
            "rewards_clamped": self.statistics.rewards_clamped,
            "returns_clamped": self.statistics.returns_clamped,
            "counts": self.statistics.counts.tolist(),
            "mean_returns": self.statistics.mean_returns(
                self.study.values.unvisited_value
            ).tolist(),
            "theta": perturbation.theta.tolist(),
            "values": self.design.values(perturbation.theta).tolist(),
            "alpha": perturbation.calibration.alpha,
            "beta": perturbation.calibration.beta,
            "psi": perturbation.psi,
            "sigma": perturbation.sigma,
        }


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that is settled before any data is opened."""

    study: Study
    design: Design
    calibration: Calibration


def prepare(study: Study) -> Prepared:
    """Checks everything that can be checked without data."""
    built = design(study)
    return Prepared(
        study=study,
        design=built,
        calibration=calibrate(
            study.mechanism.calibration,
            epsilon=study.privacy.epsilon,
            delta=study.privacy.delta,
            dimension=built.dimension,
        ),
    )


def inspect(study: Study, data: Any, *, progress: Progress | None = None) -> Diagnostics:
    """The curator's private diagnostics of ``data``; nothing is drawn, nothing is spent."""
    prepared = prepare(study)
    statistics = local.statistics(data, study, progress=progress)
    return Diagnostics(
        study=study,
        design=prepared.design,
        statistics=statistics,
        perturbation=_perturb(prepared, statistics),
    )


def _perturb(prepared: Prepared, statistics: VisitStatistics) -> Perturbation:
    _require_declared_size(prepared.study, statistics.trajectories)
    mechanism = MECHANISMS[prepared.study.mechanism.name]
    return mechanism(statistics, prepared.design, prepared.study, prepared.calibration)


def _require_declared_size(study: Study, trajectories: int) -> None:
    """m is public here (replace-one, unit trajectory): a wrong declaration would mislead."""
    declared = study.study.trajectories
    if declared is not None and declared != trajectories:
        raise DataError(
            f"the data has {trajectories} trajectories, and the study declares {declared}; correct "
            "[study] trajectories, or leave it out"
        )
