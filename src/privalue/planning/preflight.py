"""Refuse a release that is certainly useless or has a large delta, before it spends budget.

| refused                                                     | unless                 |
|-------------------------------------------------------------|------------------------|
| 2 h(m) > R/2: even a state that all people visit gets an    | ``accept_useless``     |
| interval wider than half the range                          |                        |
| dp-lsw, dp-lsl, dp-ope: the noise alone makes the interval  | ``accept_useless``     |
| that wide, at the best counts that m allows                 |                        |
| delta >= 1/m                                                | ``accept_large_delta`` |

Everything here depends on public numbers only. The number of trajectories m is counted if the size
is public, and otherwise declared in the study; without either nothing is refused. Whether noise
hides the differences between states is reported by the release itself. Notes are Python warnings,
issued before the ledger is charged. With a stage for bounds, R is the range that the stage will
choose: noise and range shrink together, so that nothing here depends on the choice.
"""

import logging
import math
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse as sp

from privalue.core import GRID_STEPS, Lsl, Lsw, Mechanism, Ope, PublicSize, Ssp, Vector
from privalue.errors import PrivalueWarning, StudyError, plural
from privalue.estimate import normal_quantile
from privalue.planning.half_width import HalfWidth
from privalue.planning.sentences import sentence
from privalue.releases import WarningCode
from privalue.study import Study

USEFUL_WIDTH = 0.5  # an interval narrower than this share of the range of returns is useful
_log = logging.getLogger("privalue")
_MARGIN = 5  # a note warns if m is below this multiple of the visits that a useful value needs


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """How many visits make a value useful, and whether m trajectories can provide them."""

    visits: float | None  # None if the noise does not depend on the visits of a state alone
    trajectories: int | None  # m, if it is public or declared
    useless: bool

    @property
    def risky(self) -> bool:
        """Return whether a useful value needs visits from more than a fifth of all trajectories."""
        if self.useless or self.visits is None or self.trajectories is None:
            return False
        return self.trajectories < _MARGIN * self.visits

    @property
    def text(self) -> str:
        """Return the sentence about the visits that make a value useful, or about the noise."""
        if self.visits is None:
            return sentence("use", "noise")
        return sentence("use", "visits", visits=math.ceil(self.visits))

    @property
    def few_text(self) -> str:
        """Return the warning that few of the states will have useful values."""
        share = (self.visits or 0) / (self.trajectories or 1)
        return sentence("use", "few", text=self.text, trajectories=self.size_text, share=share)

    @property
    def size_text(self) -> str:
        """Return the number of trajectories with its noun; "any data", if it is not known."""
        return plural(self.trajectories, "trajectory") if self.trajectories else "any data"


def usefulness(study: Study, mechanism: Mechanism | None, trajectories: int | None) -> Usefulness:
    """Judge from public numbers whether a release can be useful.

    Args:
        study: the study.
        mechanism: its mechanism; None if its constants depend on an unknown m.
        trajectories: m, counted if the size is public, or declared.
    """
    visits, useless = None, False
    if isinstance(mechanism, Ssp):
        widths = HalfWidth.of(study, mechanism)
        visits = float(widths.visits_for(USEFUL_WIDTH / 2 * widths.range).min())
    elif isinstance(mechanism, Ope):
        # At the middle of the bounds, with all of the weight kept and all people in one group.
        scale = mechanism.scales[0] * mechanism.terms.limits.clip / GRID_STEPS
        visits = scale * -math.log1p(-study.report.level) * 2 / USEFUL_WIDTH
    elif isinstance(mechanism, Lsw | Lsl):
        useless = _noise_dominates(study, mechanism, trajectories)
    if visits is not None and trajectories is not None:
        useless = trajectories < visits
    return Usefulness(visits=visits, trajectories=trajectories, useless=useless)


def _noise_dominates(study: Study, mechanism: Lsw | Lsl, trajectories: int | None) -> bool:
    """Return whether data-dependent noise is too large even at the best possible counts.

    m trajectories count for H keys each: the least visited key is visited most often if all keys
    are visited equally. Where m is not known, no data set has less noise than the least.
    """
    psi, _ = mechanism.local.extremes()
    if trajectories is not None:
        share = min(study.limits.max_states_per_trajectory, study.keys_per_arm) / study.key_count
        best = np.full(study.key_count, max(math.ceil(trajectories * share), 1), dtype=np.int64)
        psi = mechanism.psi(best)
    deviation = float((mechanism.sigma(psi) * noise_factors(mechanism)).min())
    low, high = study.values.return_bounds
    return bool(2 * normal_quantile(study.report.level) * deviation > USEFUL_WIDTH * (high - low))


def require_useful(
    study: Study,
    mechanism: Mechanism | None,
    trajectories: int | None,
    *,
    accepted: bool,
) -> list[WarningCode]:
    """Refuse a release that is certainly useless; return the code of an accepted one.

    Raises:
        StudyError: the release would be useless, and ``accepted`` is false.
    """
    result = usefulness(study, mechanism, trajectories)
    if result.useless and not accepted:
        raise StudyError(
            sentence("use", "useless", trajectories=result.size_text, why=result.text),
            code="useless",
            hint="or accept it with {accept_useless}",
        )
    if result.risky:
        warn_caller(result.few_text, code="few-trajectories")
    elif result.visits is not None and trajectories is not None:
        _log.info("%s.", result.text.capitalize(), extra={"code": "of-use"})
    return ["useless"] if result.useless else []


@dataclass(frozen=True, kw_only=True)
class LargeDelta:
    """The message about a large delta, and whether that delta is refused."""

    code: str
    text: str
    refused: bool


def large_delta(study: Study, size: PublicSize) -> LargeDelta | None:
    """Compare delta with 1/m; return None if it is at most a tenth of 1/m, or m is unknown."""
    delta, units = study.privacy.delta, size.units or size.trajectories
    if units is None or delta * units * 10 <= 1:
        return None
    noun = "persons" if study.privacy.unit == "person" and size.units else "trajectories"
    refused = delta * units >= 1
    code = "delta-not-below-1/m" if refused else "large-delta"
    bound = (1.0 if refused else 0.1) / units
    text = sentence("delta", code, bound=bound, delta=delta, units=units, what=noun)
    return LargeDelta(code=code, text=text, refused=refused)


def require_small_delta(study: Study, size: PublicSize, *, accepted: bool) -> list[WarningCode]:
    """Refuse delta >= 1/m: it would allow one whole trajectory to be published outright."""
    large = large_delta(study, size)
    if large is None:
        return []
    if not large.refused:
        warn_caller(large.text, code=large.code)
        return []
    if not accepted:
        raise StudyError(
            large.text,
            code=large.code,
            hint="or accept it with {accept_large_delta}",
        )
    return ["large-delta"]


def warn_caller(text: str, code: str = "note") -> None:
    """Issue a warning that points at the line outside this package that called it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("privalue."):
        level, frame = level + 1, frame.f_back
    warnings.warn(PrivalueWarning(text, code=code), stacklevel=level)


def noise_factors(mechanism: Mechanism) -> Vector:
    """Return the standard deviation of each value, divided by sigma.

    It is ||W^{-T} phi_s|| with whitened features, and ||phi_s|| without.
    """
    rows = mechanism.design.phi
    if isinstance(mechanism, Lsw) and mechanism.terms.whitened:
        root = mechanism.design.weighted_features.root
        if root.ndim == 1:
            rows = sp.csr_array(sp.csr_array(rows).multiply(1 / root))
        else:
            rows = scipy.linalg.solve_triangular(root, np.asarray(rows).T, trans="T").T
    return np.asarray(np.sqrt((rows**2).sum(axis=1)))
