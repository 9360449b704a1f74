"""Refuse, before it is paid for, a release that is useless for sure or has a large delta.

| refused                                                     | unless                 |
|-------------------------------------------------------------|------------------------|
| 2 h(m) > R/2: even a state that everybody visits gets an    | ``accept_useless``     |
| interval wider than half the range                          |                        |
| dp-lsw, dp-lsl, dp-ope: the noise alone makes it so, at the | ``accept_useless``     |
| best counts that m allows                                   |                        |
| delta >= 1/m                                                | ``accept_large_delta`` |

Everything here depends on public numbers only. The number of trajectories m is the counted one
where that is public, or the one that the study declares; without either nothing is refused.
Whether the states could be told apart is the release's own verdict. Notes are Python warnings, and
they come before anything is charged. With a stage for bounds R is the range that it will choose:
noise and range shrink together, so that nothing here depends on the choice.
"""

import logging
import math
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse as sp

from privalue.core import GRID_STEPS, Lsl, Lsw, Mechanism, Ope, PublicSize, Ssp, Vector, dense
from privalue.errors import PrivalueWarning, StudyError, plural
from privalue.estimate import normal_quantile
from privalue.planning.half_width import HalfWidth
from privalue.planning.sentences import say
from privalue.releases import Accepted
from privalue.study import Study

OF_USE = 0.5  # of the range of returns: an interval that is narrower is of use
_log = logging.getLogger("privalue")
_ROOM = 5  # times the visits that make a state of use; with fewer trajectories a note says so


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """From how many visits on a value will be of use, and whether m trajectories can give them."""

    visits: float | None  # None where the noise does not go by the visits of a state
    trajectories: int | None  # m, where it is public or declared
    useless: bool

    @property
    def risky(self) -> bool:
        """Return whether a state needs more than a fifth of all trajectories to be of use."""
        if self.useless or self.visits is None or self.trajectories is None:
            return False
        return self.trajectories < _ROOM * self.visits

    @property
    def text(self) -> str:
        """Return in a line from how many visits on a value will be of use, or that none will."""
        if self.visits is None:
            return say("use", "drowned")
        return say("use", "visits", visits=math.ceil(self.visits))

    @property
    def few(self) -> str:
        """Return what to say where there are few trajectories."""
        share = (self.visits or 0) / (self.trajectories or 1)
        return say("use", "few", text=self.text, trajectories=self.people, share=share)

    @property
    def people(self) -> str:
        """Return how many trajectories there are, in words."""
        return plural(self.trajectories or 0, "trajectory")


def usefulness(study: Study, mechanism: Mechanism | None, trajectories: int | None) -> Usefulness:
    """Judge a release by public numbers.

    Args:
        study: what is public.
        mechanism: with its constants; None where they depend on an m that is not known.
        trajectories: m, counted where that is public, or declared.
    """
    visits = None
    useless = False
    if isinstance(mechanism, Ssp):
        widths = HalfWidth.of(study, mechanism)
        visits = float(widths.visits_for(OF_USE / 2 * widths.reach).min())
    elif isinstance(mechanism, Ope):
        # At the middle of the bounds, with all of the weight kept and everybody in one group.
        scale = mechanism.scales[0] * mechanism.terms.limits.clip / GRID_STEPS
        visits = scale * -math.log1p(-study.report.level) * 2 / OF_USE
    elif isinstance(mechanism, Lsw | Lsl) and trajectories is not None:
        useless = _drowns(study, mechanism, trajectories)
    if visits is not None and trajectories is not None:
        useless = trajectories < visits
    return Usefulness(visits=visits, trajectories=trajectories, useless=useless)


def _drowns(study: Study, mechanism: Lsw | Lsl, trajectories: int) -> bool:
    """Return whether noise that follows the data is too large even at the best counts.

    m trajectories count for H keys each: the least visited key has the most where all are alike.
    """
    share = min(study.limits.max_states_per_trajectory, study.keys_per_arm) / study.key_count
    best = np.full(study.key_count, max(math.ceil(trajectories * share), 1), dtype=np.int64)
    sigma = mechanism.sigma(mechanism.bound.local.smooth(best, mechanism.calibration.beta))
    deviation = float((sigma * noise_factors(mechanism)).min())
    low, high = study.return_bounds
    return bool(2 * normal_quantile(study.report.level) * deviation > OF_USE * (high - low))


def require_useful(
    study: Study,
    mechanism: Mechanism | None,
    trajectories: int | None,
    *,
    accepted: bool,
) -> list[Accepted]:
    """Refuse a release that is useless for sure; return what was accepted, for it to say.

    Raises:
        StudyError: it would be useless, and that is not accepted.
    """
    found = usefulness(study, mechanism, trajectories)
    if found.useless and not accepted:
        raise StudyError(
            say("use", "useless", trajectories=found.people, why=found.text),
            code="useless",
            hint="or accept it with {accept_useless}",
        )
    if found.risky:
        warn_caller(found.few, code="few-trajectories")
    elif found.visits is not None and trajectories is not None:
        _log.info("%s.", found.text.capitalize(), extra={"code": "of-use"})
    return ["useless"] if found.useless else []


@dataclass(frozen=True, kw_only=True)
class LargeDelta:
    """The message about a delta that is not small, and whether such a delta is refused."""

    text: str
    refused: bool


def large_delta(study: Study, size: PublicSize) -> LargeDelta | None:
    """Compare delta with 1/m; return None if it is at most a tenth of that, or m is not known."""
    delta, units = study.privacy.delta, size.units or size.trajectories
    if units is None or delta * units * 10 <= 1:
        return None
    what = "persons" if study.privacy.unit == "person" and size.units else "trajectories"
    refused = delta * units >= 1
    kind, bound = ("refused", 1 / units) if refused else ("large", 0.1 / units)
    text = say("delta", kind, bound=bound, delta=delta, units=units, what=what)
    return LargeDelta(text=text, refused=refused)


def require_small_delta(study: Study, size: PublicSize, *, accepted: bool) -> list[Accepted]:
    """Refuse delta >= 1/m: it would allow one whole trajectory to be published outright."""
    found = large_delta(study, size)
    if found is None:
        return []
    if not found.refused:
        warn_caller(found.text, code="large-delta")
        return []
    if not accepted:
        raise StudyError(
            found.text,
            code="delta-not-below-1/m",
            hint="or accept it with {accept_large_delta}",
        )
    return ["large-delta"]


def warn_caller(text: str, code: str = "note") -> None:
    """Warn the caller outside the package: the warning points at the line that called us."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("privalue."):
        level, frame = level + 1, frame.f_back
    warnings.warn(PrivalueWarning(text, code=code), stacklevel=level)


def noise_factors(mechanism: Lsw | Lsl) -> Vector:
    """Return the standard deviation of every value, over sigma: ||W^{-T} phi_s||, or ||phi_s||."""
    rows = mechanism.design.phi
    if isinstance(mechanism, Lsw) and mechanism.constants.whitened:
        root = mechanism.design.weighted_features.root
        if root.ndim == 1:
            rows = sp.csr_array(sp.csr_array(rows).multiply(1 / root))
        else:
            rows = scipy.linalg.solve_triangular(root, dense(rows).T, trans="T").T
    return np.asarray(np.sqrt((rows**2).sum(axis=1)))
