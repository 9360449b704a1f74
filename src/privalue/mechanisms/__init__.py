"""The algorithms, one file each, one line of code per line of the algorithm.

A mechanism finds its constants from what is public, and turns statistics into a ``Perturbation``:
where noise is to be added, and how much. Drawing it is the curator's business; what is made of the
noisy vector is post-processing.
"""

from collections.abc import Callable
from typing import NamedTuple

from privalue.calibration import Calibration, require_exact
from privalue.errors import StudyError
from privalue.features import Design
from privalue.intervals import laplace_scale, scale_share
from privalue.mechanisms.lsl import dp_lsl, fits_by_lsl, lsl_bound, resolve_ridge, ridge_of
from privalue.mechanisms.lsw import dp_lsw, lsw_bound
from privalue.mechanisms.perturbation import (
    Perturbation,
    SmoothBound,
    require_representable,
    resolve_calibration,
)
from privalue.mechanisms.ssp import dp_ssp, ssp_calibration
from privalue.size import PublicSize
from privalue.statistics import VisitStatistics
from privalue.study import Study


class Mechanism(NamedTuple):
    """The algorithm, and its smooth bound where it has one."""

    perturb: Callable[[VisitStatistics, Design, Study, PublicSize, Calibration], Perturbation]
    bound: Callable[[Study, Design, PublicSize], SmoothBound] | None


MECHANISMS = {
    "dp-lsw": Mechanism(dp_lsw, lsw_bound),
    "dp-lsl": Mechanism(dp_lsl, lsl_bound),
    "dp-ssp": Mechanism(dp_ssp, None),
}


def calibration_for(study: Study, design: Design, size: PublicSize) -> Calibration:
    """alpha and beta of a study, from public numbers alone."""
    refuse_early(study, design)
    bound_of = MECHANISMS[study.mechanism.name].bound
    if bound_of is None:
        return ssp_calibration(study)
    try:
        bound = require_representable(bound_of(study, design, size))
    except (OverflowError, ZeroDivisionError):
        raise StudyError(
            "[weights] weights, features, returns or ridge are too extreme to compute with; state "
            "them in other units"
        ) from None
    chosen = resolve_calibration(study, design.dimension, size, bound)
    share, _ = scale_share(study.privacy.epsilon, study.mechanism.noise_scale_share)
    # Refuses what the release of the scale would refuse, before anything is charged.
    if share and not laplace_scale(chosen.beta, share) <= WIDEST_SPREAD:
        raise StudyError(
            f"[mechanism] noise_scale_share = {study.mechanism.noise_scale_share:g} leaves too "
            "little to the noise scale: its own noise would be a factor of more than "
            f"e^{WIDEST_SPREAD / 2:g}, and intervals no use to anybody; use a share such as 0.1"
        )
    return chosen


def gaussian_alpha(study: Study) -> float | None:
    """alpha, where all that is drawn is Gaussian noise of one public sigma: mu = 1/alpha of it.

    None for the others: they have an alpha, and a sigma that depends on the data.
    """
    smooth = MECHANISMS[study.mechanism.name].bound is not None
    return None if smooth else ssp_calibration(study).alpha


MOST_WORK = 1e12  # N d^2
WIDEST_SPREAD = 20.0  # of ln sigma^2: a released scale is off by e^{spread/2} or more, often


def refuse_early(study: Study, design: Design) -> None:
    """Refuses what exact calibration does not cover, or what no fit can be made of in time."""
    chosen = study.mechanism
    if chosen.name == "dp-ssp" and not fits_by_lsl(study):
        design.require_full_rank()
    work = float(design.states) * design.dimension**2
    if chosen.name == "dp-ssp" and fits_by_lsl(study) and design.by_gram and work > MOST_WORK:
        raise StudyError(
            f"[mechanism] dp-ssp with a ridge and {design.dimension} overlapping features of "
            f"{design.states} states would take hours; leave ridge out, or use dp-lsl"
        )
    if chosen.calibration == "exact" and MECHANISMS[chosen.name].bound is not None:
        _, epsilon = scale_share(study.privacy.epsilon, chosen.noise_scale_share)
        require_exact(epsilon, study.privacy.delta, design.dimension)


def rules_that_need_trajectories(study: Study) -> list[str]:
    """The study's choices that depend on the number of trajectories."""
    chosen = study.mechanism
    smooth = MECHANISMS[chosen.name].bound is not None
    rules = []
    if smooth and chosen.calibration == "exact" and isinstance(chosen.beta, str):
        rules.append('beta = "auto"')
    if fits_by_lsl(study) and isinstance(chosen.ridge, str):
        rules.append('ridge = "sqrt"')
    return rules


__all__ = [
    "MECHANISMS",
    "Mechanism",
    "Perturbation",
    "SmoothBound",
    "calibration_for",
    "dp_lsl",
    "dp_lsw",
    "dp_ssp",
    "fits_by_lsl",
    "gaussian_alpha",
    "refuse_early",
    "resolve_ridge",
    "ridge_of",
    "rules_that_need_trajectories",
]
