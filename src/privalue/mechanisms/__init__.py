"""The algorithms, one file each, one line of code per line of the algorithm.

A mechanism states its smooth bound, which is public, and turns statistics into a ``Perturbation``:
where noise is to be added, and how much. Drawing it is the curator's business; turning the noisy
vector into theta is post-processing.
"""

from collections.abc import Callable
from typing import NamedTuple

from privalue.calibration import Calibration
from privalue.errors import StudyError
from privalue.features import Design
from privalue.mechanisms.lsl import dp_lsl, lsl_bound, resolve_ridge
from privalue.mechanisms.lsw import dp_lsw, lsw_bound
from privalue.mechanisms.perturbation import (
    Perturbation,
    SmoothBound,
    require_representable,
    resolve_calibration,
)
from privalue.statistics import VisitStatistics
from privalue.study import Study


class Mechanism(NamedTuple):
    """A smooth bound, and the algorithm that uses it."""

    bound: Callable[[Study, Design, int], SmoothBound]
    perturb: Callable[[VisitStatistics, Design, Study, Calibration], Perturbation]


MECHANISMS = {
    "dp-lsw": Mechanism(lsw_bound, dp_lsw),
    "dp-lsl": Mechanism(lsl_bound, dp_lsl),
}


def calibration_for(study: Study, design: Design, trajectories: int) -> Calibration:
    """alpha and beta of a study with m trajectories, from public numbers alone."""
    try:
        bound = MECHANISMS[study.mechanism.name].bound(study, design, trajectories)
        require_representable(bound)
    except (OverflowError, ZeroDivisionError):
        raise StudyError(
            "[weights] weights, features, returns or ridge are too extreme to compute with; state "
            "them in other units"
        ) from None
    return resolve_calibration(study, design.dimension, trajectories, bound)


__all__ = [
    "MECHANISMS",
    "Mechanism",
    "Perturbation",
    "SmoothBound",
    "calibration_for",
    "dp_lsl",
    "dp_lsw",
    "resolve_ridge",
]
