"""Describe the numbers that each stage of DP-SSP released, and its choice.

| symbol | here              | public |
|--------|-------------------|--------|
| x~, s  | ``number``, ``noise`` | yes: trajectories with some property, noisy |
| n      | ``size``          | yes: of all trajectories, where it is public |
| x/n    | ``Share``         | **private**, what the interval covers |

All of it is post-processing of what was drawn.
"""

from typing import Any

import numpy as np

from privalue.core import Draw, Ssp, Vector
from privalue.estimate.ratios import Ratios, normal_quantile
from privalue.releases import ReleasedStage, Restriction, Share, StageChoice

_MOST_ODDS = 1e12
_NO_NOISE = 1e-12  # of a number that is public


def stage_parts(mechanism: Ssp, draw: Draw, level: float) -> dict[str, Any]:
    """Return the parts of a release that describe stages.

    Args:
        mechanism: with its public constants.
        draw: what was drawn, stage by stage.
        level: of the intervals.
    """
    noise, mu = mechanism.noise_after(draw), 1 / mechanism.calibration.alpha
    low, high = noise.bounds
    is_restricted = noise.bounds != mechanism.terms.limits.return_bounds
    released = []
    for name, numbers in draw.items():
        more: dict[str, Any] = {"chosen": StageChoice()}
        if name == "bounds":
            beyond = _beyond(mechanism, numbers, noise.level, level)
            more["chosen"] = StageChoice(level=noise.level, low=low, high=high, beyond=beyond)
            more |= {"numbers": numbers, "noise": mechanism.bounds_sigma}
        alpha = mechanism.stages[name]
        released.append(ReleasedStage(name=name, alpha=alpha, mu=1 / alpha, **more))
    return {
        "gaussian_mu": mu,
        "zcdp_rho": mu**2 / 2,
        "restriction": Restriction(low=low, high=high) if is_restricted else None,
        "stages": tuple(released),
    }


def _beyond(mechanism: Ssp, histogram: Vector, chosen: int, level: float) -> Share | None:
    """Return the share of trajectories with a return outside of the bound that was chosen.

    The histogram chose the bound itself: of its J bins, J - 1 bounds have something outside. So
    each has an interval at level^(1/(J - 1)), and all hold together, that of the chosen one
    included (Sidak's inequality). Where m is not public, the odds of being outside have
    independent numbers above and below the line (Fieller). None, if the study's own bounds were
    chosen: the histogram says nothing about returns outside of these.
    """
    outside, inside = histogram[chosen + 1 :], histogram[: chosen + 1]
    if not len(outside):
        return None
    noise = mechanism.bounds_sigma
    size = mechanism.terms.size.units if mechanism.terms.limits.counts_trajectories else None
    is_public = size is not None
    number, rest = float(outside.sum()), float(inside.sum() if size is None else size)
    odds = Ratios(
        sums=np.array([number]),
        counts=np.array([rest]),
        sum_noise=np.array([noise * len(outside) ** 0.5]),
        count_noise=np.array([_NO_NOISE * rest if is_public else noise * len(inside) ** 0.5]),
        centre=0.0,
        bounds=(0.0, 1.0 if is_public else _MOST_ODDS),
    )
    ends = odds.intervals(normal_quantile(level, len(histogram) - 1))
    low, high = (float(end[0]) if is_public else float(end[0] / (1 + end[0])) for end in ends)
    value = number / max(rest if is_public else number + rest, 1.0)
    return Share(value=min(max(value, low), high), low=low, high=high)
