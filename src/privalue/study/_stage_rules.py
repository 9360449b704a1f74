"""Choose bounds from released numbers, and from public ones whether to have a stage for them.

| symbol   | here            | shape | public                                                 |
|----------|-----------------|-------|--------------------------------------------------------|
| h~_j     | ``histogram``   | J     | yes, noisy: trajectories by the largest level of each  |
| B_j      | ``reach``       | J     | yes: how far from the reference level j reaches        |
| R_j      | ``width``       | J     | yes, of the interval of level j                        |
| s        | ``deviation``   |       | yes, of the noise of each of these numbers             |

None of this is about privacy: rules read what was released, or what was public before, and the core
computes the noise that their choice calls for. docs/accuracy.md says what they win and cost.
"""

import math

import numpy as np

from privalue.core import Vector
from privalue.study._choices import SPREADS
from privalue.study._mechanism import STAGE_SHARES

_CLEAR = 3.0  # standard deviations above which a bin is not taken for noise
_WITHIN = 0.75  # of a level's reach: where returns of that level are, about
_MEETING = 0.5  # of the trajectories that are clamped: those that meet a given state, about
_USUAL_SHARE, _LEAST_SHARE = STAGE_SHARES["bounds"], 0.02  # of mu^2
_WIDE = 0.8  # a discount from which implied bounds are five times a reward or wider
_BINS = 4  # m over the noise of a bin, from which it says something


def chosen_bound(
    histogram: Vector,
    deviation: float,
    *,
    reach: Vector,
    width: Vector,
    noise: float,
    states: int,
    shrinkage: bool = True,
) -> int:
    """Return the level whose interval promises the least error: noise, and what clamping takes off.

    At a state that n trajectories visit, half of those who are seen,

        noise_j = noise R_j/n,   bias_j = sum_{i > j} h_i (3/4 B_i - B_j)_+ / (2n)

    Half of those who are clamped meet the state, too, and returns of level i are at 3/4 of its
    reach, about. Shrinkage takes off what noise exceeds the differences between values by, and
    takes off no bias: values are taken to be spread over the highest level that anybody is seen at,
    with the variance tau^2, and noise leaves tau^2 noise^2/(tau^2 + noise^2) of its square, besides
    that of the value that states have in common. Without shrinkage, noise counts in full. A bin
    counts for nothing unless it is clear of the noise: of J empty bins the largest noise would
    otherwise decide. Those who hide in a bin that is not clear are fewer than 3 s, so what is lost
    by clamping them is bounded (docs/accuracy.md). Where no bin is clear, the whole range stays.

    Args:
        histogram: h~, the noisy numbers of trajectories by their largest level.
        deviation: s, of the noise of each.
        reach: B_j, upwards.
        width: R_j, of the intervals, in the same units.
        noise: the standard deviation of the noise of a sum, for a range of 1.
        states: N.
        shrinkage: whether values are drawn to what they have in common.

    Returns:
        j, from 0 to J - 1.
    """
    clear = np.where(histogram > _CLEAR * deviation, histogram, 0.0)
    if not clear.any():
        return len(clear) - 1
    beyond = np.maximum(_WITHIN * reach[None, :] - reach[:, None], 0.0)  # of i, clamped at j
    visits = _MEETING * float(clear.sum())
    bias = _MEETING * (np.triu(beyond, 1) @ clear) / visits
    spread = SPREADS[0] * float(width[np.flatnonzero(clear)[-1]]) ** 2
    alone = np.square(noise * width / visits)
    drawn = alone / (alone + spread)
    left = alone if not shrinkage else drawn * spread + np.square(drawn) * (alone + spread) / states
    return int(np.argmin(left + np.square(bias)))


def bounds_pay(
    *,
    implied: bool,
    discount: float,
    trajectories: int | None,
    noise: float,
) -> bool:
    """Return whether a stage for bounds pays, judged by public numbers.

    It does where the bounds of returns were implied by those of rewards, the discount makes them
    wide, and bins will be clear of their noise. Where m is not known, it is taken to be large
    enough: the rule itself does nothing where numbers say nothing.

    Args:
        implied: whether the bounds of returns follow from those of rewards.
        discount: gamma.
        trajectories: m, where it is public.
        noise: of a bin, with the usual share of mu^2.
    """
    m = math.inf if trajectories is None else trajectories
    return implied and discount >= _WIDE and m >= _BINS * noise


def bin_noise(trajectories_per_person: int, add_remove: bool, alpha: float) -> float:
    """Return the noise of a bin, with the usual share of mu^2.

    A trajectory that is replaced leaves one bin for another.
    """
    return alpha * trajectories_per_person * math.sqrt((1 if add_remove else 2) / _USUAL_SHARE)


def least_share(trajectories: int | None, noise: float) -> float:
    """Return the share of mu^2 that the bounds need, where the study does not say it.

    The bins of a histogram need be no clearer than m/100, which many trajectories give for less
    than the usual share.

    Args:
        trajectories: m, where it is public.
        noise: of a bin, with the usual share.
    """
    if trajectories is None:
        return _USUAL_SHARE
    needed = _USUAL_SHARE * (100 * noise / trajectories) ** 2
    return min(max(needed, _LEAST_SHARE), _USUAL_SHARE)
