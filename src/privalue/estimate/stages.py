"""Say what each stage of DP-SSP released and chose.

| symbol | here              | public |
|--------|-------------------|--------|
| x~, s  | ``number``, ``noise`` | yes: trajectories with some property, noisy |
| n      | ``size``          | yes: of all trajectories, where it is public |
| x/n    | ``Share``         | **private**, what the interval covers |

All of it is post-processing of what was drawn.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privalue.core import Ssp, Stage, StatisticsNoise
from privalue.estimate.ratios import Ratios, normal_quantile, ratio_intervals
from privalue.releases import ReleasedStage, Restriction, Share, StageChoice

_MOST_ODDS = 1e12


def stage_parts(mechanism: Ssp, stages: Sequence[Stage], level: float) -> dict[str, Any]:
    """Return the parts of a release that describe stages.

    Args:
        mechanism: with its public constants.
        stages: what was drawn, stage by stage.
        level: of the intervals.
    """
    noise, study = mechanism.noise_at(mechanism.level(stages)), mechanism.terms.limits.return_bounds
    low, high = noise.bounds
    mu = 1 / mechanism.calibration.alpha
    return {
        "gaussian_mu": mu,
        "zcdp_rho": mu**2 / 2,
        "restriction": None if (low, high) == study else Restriction(low=low, high=high),
        "stages": tuple(_stage(mechanism, stage, noise, level) for stage in stages),
    }


def _stage(mechanism: Ssp, stage: Stage, noise: StatisticsNoise, level: float) -> ReleasedStage:
    """Return one stage; the numbers of the values are the release's statistics."""
    choice = StageChoice()
    if stage.name == "bounds":
        low, high = noise.bounds
        beyond = _beyond(mechanism, stage, noise.level, level)
        choice = StageChoice(level=noise.level, low=low, high=high, beyond=beyond)
    numbers = None if stage.name == "values" else stage.numbers
    return ReleasedStage(
        name=stage.name,
        alpha=stage.alpha,
        mu=1 / stage.alpha,
        chosen=choice,
        numbers=numbers,
        noise=None if numbers is None else _sigma(stage),
    )


def _sigma(stage: Stage) -> float:
    """Return the largest standard deviation of its numbers, which is public for dp-ssp."""
    return 0.0 if stage.sigma is None else float(np.max(stage.sigma))


def _beyond(mechanism: Ssp, stage: Stage, chosen: int, level: float) -> Share | None:
    """Return the share of trajectories with a return outside of the bound that was chosen.

    The histogram chose the bound itself: of its J bins, J - 1 bounds have something outside. So
    each has an interval at level^(1/(J - 1)), and all hold together, that of the chosen one
    included (Sidak's inequality). Where m is not public, the odds of being outside have
    independent numbers above and below the line (Fieller). None, if the study's own bounds were
    chosen: the histogram says nothing about returns outside of these.
    """
    outside, inside = stage.numbers[chosen + 1 :], stage.numbers[: chosen + 1]
    if not len(outside):
        return None
    noise = _sigma(stage)
    z = normal_quantile(level, len(stage.numbers) - 1)
    m = mechanism.terms.size.units if mechanism.terms.limits.counts_trajectories else None
    number, deviation = float(outside.sum()), noise * len(outside) ** 0.5
    if m is not None:
        return _share(number, deviation, float(m), z)
    odds = ratio_intervals(
        Ratios(
            sums=np.array([number]),
            counts=np.array([float(inside.sum())]),
            sum_noise=np.array([deviation]),
            count_noise=np.array([noise * len(inside) ** 0.5]),
            centre=0.0,
            bounds=(0.0, _MOST_ODDS),
        ),
        z,
    )
    low, high = (float(end[0] / (1 + end[0])) for end in odds)
    value = max(number, 0.0) / max(float(stage.numbers.sum()), 1.0)
    return Share(value=min(max(value, low), high), low=low, high=high)


def _share(number: float, noise: float, size: float, z: float) -> Share:
    """Return x~/n between 0 and 1, and its interval.

    Args:
        number: x~.
        noise: its standard deviation.
        size: n, above 0.
        z: of the interval.
    """
    value = min(max(number / max(size, 1.0), 0.0), 1.0)
    # As for quotients, z grows by how far the number is outside: no interval vanishes.
    outside = max(-number, number - size, 0.0)
    half = math.hypot(z * noise, outside)
    low, high = (min(max((number + end) / size, 0.0), 1.0) for end in (-half, half))
    return Share(value=min(max(value, low), high), low=low, high=high)
