"""Choose defaults that a study leaves open: beta, the precision of each state, and the stage.

| symbol   | here             | shape | public                                                 |
|----------|------------------|-------|--------------------------------------------------------|
| omega_s  | ``choose_shape`` | N     | yes                                                    |
| p_s      | ``prior``        | N     | yes, a guess of the probability of a visit             |
| beta     | ``choose_beta``  |       | yes                                                    |
| h~_j     | ``histogram``    | J     | yes, noisy: trajectories by the largest level of each  |
| B_j      | ``reach``        | J     | yes: how far from the reference level j reaches        |
| R_j      | ``width``        | J     | yes, of the interval of level j                        |
| s        | ``deviation``    |       | yes, of the noise of each of these numbers             |

These are heuristics about error, not about privacy: any public omega, any public beta and any rule
that reads released numbers are private, and the core computes the noise that the choices need.
Nothing here sees data. docs/accuracy.md says what they win and cost.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privalue import core
from privalue.core import Integers, Limits, Vector
from privalue.study.sections import STAGE_SHARES, Sections

_LEAST_SHARE = 0.1  # of what an even split gives each state: a prior may be wrong
_FLOORS = 16  # shapes that are compared
# Variances that values may have, in units of R^2: spread evenly, or ever more alike.
SPREADS = (1 / 12, 0.06**2, 0.012**2, 0.0024**2, 0.0005**2)
SHAPED_FOR = (SPREADS[0], SPREADS[2])  # those for which shapes are made; all are judges
_LOSS = 1.05  # how much larger than with an even shape errors may be, whatever the spread
_USUAL_ERROR = 1e-3  # of that variance: the noise at a typical state where m is not known
UNKNOWN_VISITS = 0.05  # of noise that beta may cost, where nothing is known of visits
_CLEAR = 3.0  # standard deviations above which a bin is not taken for noise
_WITHIN = 0.75  # of a level's reach: where returns of that level are, about
_MEETING = 0.5  # of the trajectories that are clamped: those that meet a given state, about
_WIDE = 0.8  # a discount from which implied bounds are five times a reward or wider
_BINS = 4  # m over the noise of a bin, from which it says something
_LEAST_STAGE_SHARE = 0.02  # of mu^2
# Keys with which a stage fits in the memory: each has a count and a sum by level and side.
MOST_STAGED = 2_000_000 // (2 * core.MOST_LEVELS)


def choose_beta(
    epsilon: float, delta: float, dimension: int, predict_psi: Callable[[float], float], room: float
) -> float:
    """Return the largest beta with nearly the least predicted noise, alpha(beta) sqrt(psi(beta)).

    A larger beta lets the noise fall sooner as visits come in, but makes all of it larger. Where
    visits are guessed, states may be rarer than the guess: below their threshold, which falls as
    beta grows, noise is larger by orders of magnitude, and a little of it is a fair price.

    Args:
        epsilon: of the values alone.
        delta: likewise.
        dimension: d, how many numbers get noise.
        predict_psi: psi as a function of beta, at counts that are guessed from public numbers.
        room: how much larger than the least the noise may be, as a share.

    Returns:
        beta, rounded to six digits.
    """

    def noise(log_beta: float) -> float:
        psi = predict_psi(math.exp(log_beta))
        alpha = core.calibration.exact_alpha(epsilon, delta, dimension, math.exp(log_beta))
        return math.log(alpha) + 0.5 * math.log(max(psi, 1e-300))

    highest = math.log(core.calibration.largest_beta(epsilon, delta, dimension)) - 1e-3
    low, high = highest - math.log(1e4), highest
    for points in (25, 9, 9):
        grid = np.linspace(low, high, points).tolist()
        at = int(np.argmin([noise(log_beta) for log_beta in grid]))
        low, high, best = grid[max(at - 1, 0)], grid[min(at + 1, points - 1)], grid[at]
    if room:
        most, largest = noise(best) + math.log1p(room), min(highest, best + math.log(1e4))
        while largest - best > 0.01:
            middle = 0.5 * (best + largest)
            best, largest = (middle, largest) if noise(middle) <= most else (best, middle)
    return float(f"{math.exp(best):.6g}")  # six digits: a number that people can copy


def guess_counts(prior: Vector | None, states: int, trajectories: int) -> Integers:
    """Return the visits to expect of every state, minus three standard deviations.

    They follow from public numbers alone. p_s is the study's prior of visits; without one it is
    1/N, 2/N, ..., 1: anything from a state that one trajectory in N visits to one that all visit.
    Three digits are kept, since it is a guess.
    """
    p = np.arange(1, states + 1) / states if prior is None else prior
    expected = trajectories * p
    low = expected - 3 * np.sqrt(expected * (1 - p))
    counts = np.maximum(np.floor(low), 0).astype(np.int64)
    digit = 10 ** np.maximum(np.floor(np.log10(np.maximum(counts, 1))).astype(np.int64) - 2, 0)
    return np.asarray(counts // digit * digit)


def count_weight(limits: Limits) -> float:
    """Return c_w in units of R: sqrt(3)/2, or 1/2 where that is better for every value.

    With sqrt(3)/2 a state that both trajectories visit counts as much as one that only one of
    them visits; where trajectories need not share states, or nothing is replaced, 1/2 gives means
    of smaller variance whatever the values are (docs/proofs/dp-ssp.md).
    """
    apart = 2 * limits.max_states_per_trajectory <= limits.keys
    return 0.5 if limits.add_remove or apart else math.sqrt(3) / 2


def choose_shape(
    limits: Limits, prior: Vector | None, trajectories: int | None, alpha: float, *, shrinkage: bool
) -> Vector:
    """Return omega: how precisely to release each state; the largest is 1.

    Without a prior they are all 1. With one, at noise q_s = K/(omega_s p_s)^2,
    K = (alpha Delta/m)^2 (1 + 1/(12 c_w^2)), a state is off by tau^2 q_s/(tau^2 + q_s), if values
    spread by tau^2. If Delta is the norm of omega, the sum of these is least for

        omega_s^2 = (u/p_s - k/p_s^2)_+,  k = K/(tau Delta)^2,

    which gives up on states that have no hope; u makes the squares sum to 1. A prior may be wrong,
    so no state gets less than a tenth of an even share. If trajectories count for few states only,
    it costs nothing to raise the small omega, so several floors are compared. Nobody knows tau, and
    the more values are alike, the less it helps to know a rare state well. So every shape is
    compared with an even one for several tau: none of its errors may be larger by more than 5%, and
    their geometric mean decides. Without shrinkage, noise counts in full: the largest tau decides.

    Args:
        limits: H, L and the relation.
        prior: p_s, a public guess of the probability that a trajectory visits s; 0 is allowed.
        trajectories: m as far as it is public; without it the noise is taken to be 1% of the range
            at the typical state.
        alpha: of the calibration.
        shrinkage: whether values are drawn to what they have in common.

    Returns:
        omega, one number for each state, read-only.
    """
    even = np.ones(limits.keys)
    best, least_error = even, 1.0
    if prior is not None and prior.any():
        p = np.maximum(prior, 1e-12)
        weight, persons = count_weight(limits), limits.max_trajectories_per_person
        if trajectories is None:
            unit = _USUAL_ERROR * SPREADS[0] * float(p @ p / p.sum()) ** 2 / limits.keys
        else:
            unit = (alpha * persons / trajectories) ** 2 * (1 + 1 / (12 * weight**2))
        judges = np.array(SPREADS if shrinkage else SPREADS[:1])

        def errors(squares: Vector) -> Vector:
            delta = core.visit_sensitivity(limits, np.sqrt(squares), weight) / persons  # of one
            return _predict_errors(unit * delta**2 / (squares * p**2), judges)

        usual = errors(even)
        least = _LEAST_SHARE / (1 - _LEAST_SHARE) / limits.keys  # of squares, which sum to 1
        for spread in SHAPED_FOR if shrinkage else SPREADS[:1]:
            squares = best_squares(p, unit / spread)
            for floor in np.geomspace(least, max(float(squares.max()), least), _FLOORS):
                candidate = np.maximum(squares, floor)
                ratios = errors(candidate) / usual
                error = float(np.exp(np.log(ratios).mean()))
                if error < least_error and ratios.max() <= _LOSS**2:
                    best, least_error = candidate, error
    shape = np.sqrt(best / best.max())
    shape.setflags(write=False)
    return np.asarray(shape)


def _predict_errors(noise: Vector, spreads: Vector) -> Vector:
    """Return for each spread the sum of squared errors of shrunk values around a common one.

    Each is off by tau^2 q/(tau^2 + q), and the common value by its own noise, as far as values are
    drawn to it.
    """
    total = noise + spreads[:, None]
    drawn = noise / total
    common = np.square(drawn).sum(axis=1) / (1 / total).sum(axis=1)
    return np.asarray(spreads * drawn.sum(axis=1) + common)


def best_squares(p: Vector, k: float) -> Vector:
    """Return (u/p_s - k/p_s^2)_+, with u such that they sum to 1.

    Only the states with the largest p get more than 0. If these are the first j, then u = (1 + k
    sum 1/p^2)/(sum 1/p), and j is right if u p_s > k holds for these states and no others.
    """
    order = np.sort(p)[::-1]
    u = (1 + k * np.cumsum(order**-2.0)) / np.cumsum(1 / order)
    taking_part = max(int(np.count_nonzero(u * order > k)), 1)
    squares = np.maximum(u[taking_part - 1] / p - k / p**2, 0.0)
    if abs(float(squares.sum()) - 1) < 1e-6:
        return np.asarray(squares)
    first = p == order[0]  # k is so far beyond p^2 that rounding is all that is left of the others
    return np.asarray(first / np.count_nonzero(first))


# The stage that chooses bounds


def bin_noise(study: Sections) -> float:
    """Return the noise of a bin of the histogram of levels, with the usual share of mu^2.

    A trajectory that is replaced leaves one bin for another.
    """
    alpha = core.calibration.gaussian(study.privacy.epsilon, study.privacy.delta).alpha
    bins = 1 if study.privacy.neighbours == "add-remove" else 2
    most = study.privacy.max_trajectories_per_person or 1
    return alpha * most * math.sqrt(bins / STAGE_SHARES["bounds"])


def decide_stages(study: Sections, keys: int, trajectories: int | None) -> tuple[str, ...]:
    """Return the stages before the values, "auto" decided by public numbers: "bounds", or none.

    A stage for bounds pays where the bounds of returns were implied by those of rewards, the
    discount makes them wide, and bins will be clear of their noise. Where m is not known, it is
    taken to be large enough: the rule itself does nothing where numbers say nothing.

    Args:
        study: what is public.
        keys: how many values there are.
        trajectories: m, where it is public.
    """
    chosen = study.mechanism.stages
    if chosen != "auto":
        return () if chosen == "one" else chosen
    if study.values.returns is not None or study.values.discount < _WIDE or keys > MOST_STAGED:
        return ()
    m = math.inf if trajectories is None else trajectories
    return ("bounds",) if m >= _BINS * bin_noise(study) else ()


def bounds_share(trajectories: int | None, noise: float) -> float:
    """Return the share of mu^2 that the bounds need, where the study does not say it.

    The bins of a histogram need be no clearer than m/100, which many trajectories give for less
    than the usual share.

    Args:
        trajectories: m, where it is public.
        noise: of a bin, with the usual share.
    """
    usual = STAGE_SHARES["bounds"]
    if trajectories is None:
        return usual
    return min(max(usual * (100 * noise / trajectories) ** 2, _LEAST_STAGE_SHARE), usual)


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundRule:
    """The rule of the stage for bounds, with all that is public about a study in it.

    Attributes:
        reach: B_j, upwards.
        width: R_j, of the intervals, in the same units.
        noise: the standard deviation of the noise of a sum, for a range of 1.
        states: N.
        shrinkage: whether values are drawn to what they have in common.
    """

    reach: Vector
    width: Vector
    noise: float
    states: int
    shrinkage: bool
    name: str = "privalue.study"

    @classmethod
    def of(cls, limits: Limits, shape: Vector, alpha: float, *, shrinkage: bool) -> "BoundRule":
        """Return the rule of a study by its limits, omega, and alpha of the values."""
        levels = range(limits.levels)
        intervals = [limits.clamping_interval(level) for level in levels]
        sensitivity = core.visit_sensitivity(limits, shape, count_weight(limits))
        return cls(
            reach=np.array([float(limits.smallest_radius << level) for level in levels]),
            width=np.array([float(last - first) for first, last in intervals]),
            noise=alpha * sensitivity / float(shape.mean()),
            states=limits.keys,
            shrinkage=shrinkage,
        )

    def choose_level(self, histogram: Vector, deviation: float) -> int:
        """Return the level that promises the least error: noise, and what clamping takes off.

        At a state that n trajectories visit, half of those who are seen,

            noise_j = noise R_j/n,   bias_j = sum_{i > j} h_i (3/4 B_i - B_j)_+ / (2n)

        Half of those who are clamped meet the state, too, and returns of level i are at 3/4 of its
        reach, about. Shrinkage takes off what noise exceeds the differences between values by, and
        takes off no bias: values are taken to be spread over the highest level that anybody is seen
        at, with the variance tau^2, and noise leaves tau^2 noise^2/(tau^2 + noise^2) of its square,
        besides that of the value that states have in common. Without shrinkage, noise counts in
        full. A bin counts for nothing unless it is clear of the noise: of J empty bins the largest
        noise would otherwise decide. Those who hide in a bin that is not clear are fewer than 3 s,
        so what is lost by clamping them is bounded (docs/accuracy.md). Where no bin is clear, the
        whole range stays.

        Args:
            histogram: h~, the noisy numbers of trajectories by their largest level.
            deviation: s, of the noise of each.

        Returns:
            j, from 0 to J - 1.
        """
        clear = np.where(histogram > _CLEAR * deviation, histogram, 0.0)
        if not clear.any():
            return len(clear) - 1
        beyond = np.maximum(_WITHIN * self.reach - self.reach[:, None], 0.0)  # of i, clamped at j
        visits = _MEETING * float(clear.sum())
        bias = _MEETING * (np.triu(beyond, 1) @ clear) / visits
        spread = SPREADS[0] * float(self.width[np.flatnonzero(clear)[-1]]) ** 2
        alone = np.square(self.noise * self.width / visits)
        drawn = alone / (alone + spread)
        shrunk = drawn * spread + np.square(drawn) * (alone + spread) / self.states
        left = shrunk if self.shrinkage else alone
        return int(np.argmin(left + np.square(bias)))
