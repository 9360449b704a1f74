"""The algorithms, one file each, one line of code per line of the algorithm.

A mechanism is made from what is public: the study, its features and the public sizes. It turns
statistics into a ``Perturbation``: where noise is to be added, and how much. Drawing it is the
curator's business; what is made of the noisy vector is post-processing.
"""

from collections.abc import Callable

from privalue.core._calibration import gaussian, require_exact
from privalue.core._design import Design
from privalue.core._lsl import DpLsl, fits_by_lsl, resolve_ridge, ridge_of
from privalue.core._lsw import DpLsw
from privalue.core._mechanism import Mechanism, Perturbation, SmoothBound, SmoothMechanism
from privalue.core._size import PublicSize
from privalue.core._ssp import DpSsp
from privalue.errors import StudyError
from privalue.estimate._intervals import scale_share
from privalue.study._study import Study

MECHANISMS: dict[str, Callable[[Study, Design, PublicSize], Mechanism]] = {
    "dp-lsw": DpLsw,
    "dp-lsl": DpLsl,
    "dp-ssp": DpSsp,
}
SMOOTH = frozenset({"dp-lsw", "dp-lsl"})  # their noise follows the data
MOST_WORK = 1e12  # N d^2


def mechanism_for(study: Study, design: Design, size: PublicSize) -> Mechanism:
    """The study's mechanism with its constants, or a refusal, from public numbers alone."""
    refuse_early(study, design)
    try:
        return MECHANISMS[study.mechanism.name](study, design, size)
    except (OverflowError, ZeroDivisionError):
        raise StudyError(
            "[weights] weights, features, returns or ridge are too extreme to compute with; state "
            "them in other units"
        ) from None


def gaussian_alpha(study: Study) -> float | None:
    """alpha, where all that is drawn is Gaussian noise of one public sigma: mu = 1/alpha of it.

    None for the others: they have an alpha, and a sigma that depends on the data.
    """
    if study.mechanism.name in SMOOTH:
        return None
    return gaussian(study.privacy.epsilon, study.privacy.delta).alpha


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
    if chosen.calibration == "exact" and chosen.name in SMOOTH:
        _, epsilon = scale_share(study.privacy.epsilon, chosen.noise_scale_share)
        require_exact(epsilon, study.privacy.delta, design.dimension)


def rules_that_need_trajectories(study: Study) -> list[str]:
    """The study's choices that depend on the number of trajectories."""
    chosen = study.mechanism
    rules = []
    if chosen.name in SMOOTH and chosen.calibration == "exact" and isinstance(chosen.beta, str):
        rules.append('beta = "auto"')
    if fits_by_lsl(study) and isinstance(chosen.ridge, str):
        rules.append('ridge = "sqrt"')
    return rules


__all__ = [
    "MECHANISMS",
    "SMOOTH",
    "DpLsl",
    "DpLsw",
    "DpSsp",
    "Mechanism",
    "Perturbation",
    "SmoothBound",
    "SmoothMechanism",
    "fits_by_lsl",
    "gaussian_alpha",
    "mechanism_for",
    "refuse_early",
    "resolve_ridge",
    "ridge_of",
    "rules_that_need_trajectories",
]
