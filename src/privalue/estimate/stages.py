"""Describe the numbers and the choice of each stage of DP-SSP: post-processing only.

| symbol | here              | public |
|--------|-------------------|--------|
| x~, s  | ``number``, ``noise`` | yes: trajectories with some property, noisy |
| n      | ``size``          | yes: of all trajectories, where it is public |
| x/n    | ``Share``         | **private**, covered by its interval |
"""

from typing import Any

import numpy as np

from privalue.core import Draw, Ssp, Vector
from privalue.estimate.ratios import Ratios, normal_quantile
from privalue.releases import ReleasedStage, Restriction, Share, StageChoice

_MAX_ODDS = 1e12
_NO_NOISE = 1e-12  # of a public number, relatively


def stage_parts(mechanism: Ssp, draw: Draw, level: float) -> dict[str, Any]:
    """Return the parts of a release that describe stages.

    Args:
        mechanism: the mechanism of the draw, with its constants.
        draw: the noisy numbers of each stage.
        level: of the intervals.
    """
    noise, mu = mechanism.noise_after(draw), 1 / mechanism.calibration.alpha
    low, high = noise.bounds
    is_restricted = noise.bounds != mechanism.terms.limits.return_bounds
    stages = []
    for name, numbers in draw.items():
        fields: dict[str, Any] = {"chosen": StageChoice()}
        if name == "bounds":
            share = _share_beyond(mechanism, numbers, noise.level, level)
            fields["chosen"] = StageChoice(level=noise.level, low=low, high=high, beyond=share)
            fields |= {"numbers": numbers, "noise": mechanism.bounds_sigma}
        alpha = mechanism.stages[name]
        stages.append(ReleasedStage(name=name, alpha=alpha, mu=1 / alpha, **fields))
    return {
        "gaussian_mu": mu,
        "zcdp_rho": mu**2 / 2,
        "restriction": Restriction(low=low, high=high) if is_restricted else None,
        "stages": tuple(stages),
    }


def _share_beyond(mechanism: Ssp, histogram: Vector, bound: int, level: float) -> Share | None:
    """Return the share of trajectories with a return beyond the chosen bound.

    The same histogram chose the bound. Of the bounds of its J bins all but the outermost have bins
    beyond: each of these J - 1 gets an interval at level^(1/(J - 1)), so that all cover at once,
    and that of the chosen bound with them (Sidak's inequality). Where m is not public, the odds of
    being beyond are a ratio of two independent noisy numbers (Fieller). None if the study's own
    bounds were chosen: the histogram holds nothing beyond these.
    """
    beyond, inside = histogram[bound + 1 :], histogram[: bound + 1]
    if not len(beyond):
        return None
    noise = mechanism.bounds_sigma
    size = mechanism.terms.size.units if mechanism.terms.limits.counts_trajectories else None
    is_public = size is not None
    numerator, base = float(beyond.sum()), float(inside.sum() if size is None else size)
    odds = Ratios(
        sums=np.array([numerator]),
        counts=np.array([base]),
        sum_noise=np.array([noise * len(beyond) ** 0.5]),
        count_noise=np.array([_NO_NOISE * base if is_public else noise * len(inside) ** 0.5]),
        centre=0.0,
        bounds=(0.0, 1.0 if is_public else _MAX_ODDS),
    )
    ends = odds.intervals(normal_quantile(level, len(histogram) - 1))
    low, high = (float(end[0]) if is_public else float(end[0] / (1 + end[0])) for end in ends)
    value = numerator / max(base if is_public else numerator + base, 1.0)
    return Share(value=min(max(value, low), high), low=low, high=high)
