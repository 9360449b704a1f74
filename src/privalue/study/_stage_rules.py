"""Choose from released numbers, and from public ones: bounds, shapes, and which stages to have.

| symbol   | here            | shape | public                                                 |
|----------|-----------------|-------|--------------------------------------------------------|
| h~_j     | ``histogram``   | J     | yes, noisy: trajectories by the largest level of each  |
| B_j      | ``reach``       | J     | yes: how far from the reference level j reaches        |
| R_j      | ``width``       | J     | yes, of the interval of level j                        |
| n~_s     | ``counts``      | N     | yes, noisy: visits of each state                       |
| s        | ``deviation``   |       | yes, of the noise of each of these numbers             |
| omega_s  | the shape       | N     | yes                                                    |

None of this is about privacy: rules read what was released, or what was public before, and the core
computes the noise that their choice calls for. docs/accuracy.md says what they win and cost.
"""

import math

import numpy as np
from scipy import special

from privalue.core import Vector, count_weight
from privalue.study._choices import SHAPED_FOR, SPREADS, best_squares, sensitivity

_CLEAR = 3.0  # standard deviations above which a bin is not taken for noise
_WITHIN = 0.75  # of a level's reach: where returns of that level are, about
_MEETING = 0.5  # of the trajectories that are clamped: those that meet a given state, about
_QUANTILES = 7  # of what a count may be, given its noisy number
_BLENDS = (0.1, 0.2, 0.4, 0.7, 1.0)  # of the best shape with the usual one
_LOSS = 1.02  # how much larger than the usual error that of a shape may be, whatever the spread
_LEAST_SHARE = 0.1  # of what an even split gives each state
USUAL_SHARES = {"bounds": 0.10, "visits": 0.05}  # of mu^2
_LEAST_BOUNDS, _SLIVER = 0.02, 0.01
_WIDE = 0.8  # a discount from which implied bounds are five times a reward or wider
_HALF = 2.5  # times H, not below N: trajectories may count for about half of the states
_BINS, _COUNTS = 4, 20  # m over the noise of a bin, and of a count, from which they say something
_GAIN = 0.98  # an error that is not below this share of the usual one is no reason for a change


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


def shape_from_counts(
    counts: Vector,
    deviation: float,
    *,
    usual: Vector,
    alpha: float,
    most_states: int,
    trajectories_per_person: int = 1,
    add_remove: bool = False,
    shrinkage: bool = True,
) -> Vector:
    """Return omega for the visits that noisy counts suggest; the usual one where none is better.

    What a count may be, given its noisy number, is a normal law above 0, at seven quantiles. With
    noise q = K/(omega_s n)^2, K = (alpha Delta)^2 (1 + 1/(12 c_w^2)), a state is off by
    tau^2 q/(tau^2 + q), where values spread by tau^2: shrinkage does no worse. Nobody knows tau:
    where values are much alike, rare states are told by the others, and precision that they get is
    missing elsewhere. So an omega is judged by its error over that of the usual omega for every
    tau: none may be larger by more than 2%, and their geometric mean decides. Candidates are the
    best shapes for two of them, blended with the usual one. Without shrinkage, noise counts in
    full, and the largest tau decides.

    Args:
        counts: n~, the noisy visits.
        deviation: s, of the noise of each.
        usual: omega without this stage: 1 everywhere, or that of a prior.
        alpha: of the values.
        most_states: H.
        trajectories_per_person: L.
        add_remove: whether neighbours differ by a unit more or less.
        shrinkage: whether values are drawn to what they have in common.

    Returns:
        omega, the largest 1.
    """
    states = len(counts)
    weight = count_weight(states, most_states, add_remove=add_remove)
    may_be = _above_zero(counts, deviation)
    unit = alpha**2 * (1 + 1 / (12 * weight**2))  # K at Delta = 1
    judges, made_for = (SPREADS, SHAPED_FOR) if shrinkage else (SPREADS[:1], SPREADS[:1])

    def errors(shape: Vector) -> Vector:
        delta = sensitivity(
            shape,
            most_states=most_states,
            trajectories_per_person=trajectories_per_person,
            add_remove=add_remove,
            count_weight=weight,
        )
        noise = unit * delta**2 / np.square(shape * may_be)
        left = noise / (1 + noise / np.array(judges)[:, None, None])
        return np.asarray(left.mean(axis=(1, 2)))

    best, least, before = usual, _GAIN**2, errors(usual)
    kept = np.square(usual) / float(np.sum(np.square(usual)))
    expected = may_be.mean(axis=0)
    for spread in made_for:
        most = float(expected.max())
        squares = best_squares(
            expected / most, unit * (trajectories_per_person / most) ** 2 / spread
        )
        squares = np.maximum(squares, _LEAST_SHARE / (1 - _LEAST_SHARE) / states)
        squares /= squares.sum()
        for blend in _BLENDS:
            shape = np.sqrt((1 - blend) * kept + blend * squares)
            ratios = errors(shape) / before
            error = float(np.exp(np.log(ratios).mean()))
            if error < least and ratios.max() <= _LOSS**2:
                best, least = shape, error
    return np.asarray(best / best.max())


def _above_zero(noisy: Vector, deviation: float) -> Vector:
    """Return quantiles of N(noisy, deviation^2) given that it is above 0; quantile x state."""
    chances = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    tails = np.maximum(chances[:, None] * special.ndtr(noisy / deviation), 1e-300)
    return np.maximum(noisy - deviation * special.ndtri(tails), 1e-3 * deviation)


def auto_stages(
    *,
    implied: bool,
    discount: float,
    prior: bool,
    tabular: bool,
    states: int,
    most_states: int,
    trajectories_per_person: int,
    add_remove: bool,
    trajectories: int | None,
    alpha: float,
) -> tuple[str, ...]:
    """Return the stages that pay, judged by public numbers.

    Bounds, where those of returns were implied by those of rewards, and the discount makes them
    wide. Visits, where nobody said how often states are visited, each trajectory may count for
    half of the states or more (with fewer, the precision of one is not paid for by others), and
    counts will be clear of their noise. Where m is not known, it is taken to be large enough: the
    rules themselves do nothing where numbers say nothing.

    Args:
        implied: whether the bounds of returns follow from those of rewards.
        discount: gamma.
        prior: whether the study has a prior of visits.
        tabular: whether each state has a value of its own, so that counts alone say how precise.
        states: N.
        most_states: H.
        trajectories_per_person: L.
        add_remove: whether neighbours differ by a unit more or less.
        trajectories: m, where it is public.
        alpha: 1/mu of the whole release.

    Returns:
        Some of "bounds" and "visits".
    """
    stages = []
    usual = stage_noise(states, most_states, trajectories_per_person, add_remove, alpha)
    m = math.inf if trajectories is None else trajectories
    if implied and discount >= _WIDE and m >= _BINS * usual["bounds"]:
        stages.append("bounds")
    shared = not prior and tabular and _HALF * most_states >= states > 1
    if shared and m >= _COUNTS * usual["visits"]:
        stages.append("visits")
    return tuple(stages)


def stage_noise(
    states: int, most_states: int, trajectories_per_person: int, add_remove: bool, alpha: float
) -> dict[str, float]:
    """Return the noise of a bin and of a count, with the usual shares of mu^2.

    A trajectory that is replaced leaves one bin for another, and up to 2 H states for others.
    """
    bins, met = (1, most_states) if add_remove else (2, 2 * most_states)
    moved = {"bounds": bins, "visits": min(states, met)}
    return {
        stage: alpha * trajectories_per_person * math.sqrt(number / USUAL_SHARES[stage])
        for stage, number in moved.items()
    }


def least_shares(trajectories: int | None, noise: dict[str, float]) -> dict[str, float]:
    """Return the shares of mu^2 that stages need, where the study does not say them.

    The bins of a histogram need be no clearer than m/100, which many trajectories give for less
    than the usual share. Counts that will be lost in noise get a sliver.

    Args:
        trajectories: m, where it is public.
        noise: of a bin and of a count, with the usual shares.
    """
    if trajectories is None:
        return dict(USUAL_SHARES)
    needed = USUAL_SHARES["bounds"] * (100 * noise["bounds"] / trajectories) ** 2
    hopeless = trajectories < _COUNTS * noise["visits"]
    return {
        "bounds": min(max(needed, _LEAST_BOUNDS), USUAL_SHARES["bounds"]),
        "visits": _SLIVER if hopeless else USUAL_SHARES["visits"],
    }
