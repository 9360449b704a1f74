"""Turn terms into a mechanism, and statistics into the numbers that leave.

Everything on the way from statistics to ``Drawn`` is private, and nothing of it is returned: what
is drawn is the analysed mechanism's output, and all that post-processing ever sees.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from privalue.core._arrays import Vector
from privalue.core._contributions import VisitStatistics
from privalue.core._lsl import DpLsl
from privalue.core._lsw import DpLsw
from privalue.core._mechanism import Perturbation
from privalue.core._noise import (
    Entropy,
    SeededForExperimentsOnly,
    gaussian_on_grid,
    laplace_on_grid,
)
from privalue.core._ope import DpOpe
from privalue.core._sensitivity_lsl import sum_of_capped_counts
from privalue.core._ssp import DpSsp
from privalue.core._stages import Chosen, Stage
from privalue.core._terms import LslTerms, LswTerms, SspTerms, Terms
from privalue.errors import BoundaryError

Mechanism: TypeAlias = DpSsp | DpLsw | DpLsl  # whose numbers become values of states
_MECHANISMS: dict[type, Any] = {SspTerms: DpSsp, LswTerms: DpLsw, LslTerms: DpLsl}


def mechanism_of(terms: Terms) -> Mechanism:
    """Return the mechanism with all its public constants, ready for any statistics.

    Raises:
        StudyError: the terms ask for what cannot be done; nothing here depends on data.
    """
    mechanism: Mechanism = _MECHANISMS[type(terms.constants)](terms, terms.constants)
    return mechanism


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """What leaves: the output of the analysed mechanism, and public from here on."""

    numbers: Vector  # the centre plus noise, on its grid; of DP-SSP, those of the last stage
    stages: tuple[Stage, ...] = ()  # of DP-SSP, in the order in which they were drawn
    chosen: Chosen | None = None  # by the stages before the last


def compile_draw(mechanism: Mechanism | DpOpe) -> None:
    """Compile every kernel that ``draw`` calls, before a charge: afterwards nothing may fail."""
    if not isinstance(mechanism, DpOpe):
        gaussian_on_grid(np.zeros(1), sigma=1.0, grid=1.0, entropy=SeededForExperimentsOnly(0))
    if isinstance(mechanism, DpLsl):
        sum_of_capped_counts(np.zeros(1, dtype=np.int64), np.ones(1), cap=1, per_person=1)


# A caller may have turned warnings into errors, and an error after the charge would depend on
# private values: none is raised here.
@np.errstate(all="ignore")
def draw(mechanism: Mechanism | DpOpe, statistics: VisitStatistics, entropy: Entropy) -> Drawn:
    """Draw the noise, once: the one place where private numbers become public ones.

    Each call is a release of its own: whoever calls it twice with the same statistics spends
    epsilon and delta twice.

    Args:
        mechanism: with its public constants.
        statistics: what the data adds up to. PRIVATE.
        entropy: where the noise comes from.

    Returns:
        The noisy numbers.
    """
    if statistics.limits != mechanism.terms.limits:  # noise and data are held to the same
        raise BoundaryError("limits", 0)
    if isinstance(mechanism, DpSsp):
        return _in_stages(mechanism, statistics, entropy)
    return Drawn(numbers=_noisy(mechanism.perturbation(statistics), entropy))


def _in_stages(mechanism: DpSsp, statistics: VisitStatistics, entropy: Entropy) -> Drawn:
    """Draw stage after stage; each goes by the statistics and by what was released before it."""
    chosen, stages = mechanism.unchosen, list[Stage]()
    for name, alpha in mechanism.alphas.items():
        perturbation = mechanism.perturbation(statistics, name, chosen)
        numbers = _noisy(perturbation, entropy)
        noise = perturbation.deviations  # those of DP-SSP are public
        stages.append(Stage(name=name, alpha=alpha, numbers=numbers, noise=noise))
        chosen = mechanism.choose(name, numbers, chosen)
    return Drawn(numbers=numbers, stages=tuple(stages), chosen=chosen)


def _noisy(at: Perturbation, entropy: Entropy) -> Vector:
    """Draw the noise of one perturbation."""
    if at.laplace:
        return laplace_on_grid(at.center, at.laplace, entropy)
    return gaussian_on_grid(at.center, sigma=at.deviations, grid=at.grids, entropy=entropy)
