"""Choose defaults that a study leaves open: beta, the precision of each state, and the stage.

| symbol   | here             | shape | public                                                 |
|----------|------------------|-------|--------------------------------------------------------|
| omega_s  | ``shape``        | N     | yes                                                    |
| p_s      | ``prior``        | N     | yes, a guess of the probability of a visit             |
| beta     | ``choose_beta``  |       | yes                                                    |
| h~_j     | ``histogram``    | J     | yes, noisy: trajectories by their largest level        |
| B_j      | ``reach``        | J     | yes: distance from the centre to the bound of level j  |
| R_j      | ``width``        | J     | yes: of the interval of level j                        |
| s        | ``deviation``    |       | yes, of the noise of each of these numbers             |

These are heuristics about error, not about privacy: any public omega and beta, and any rule on
released numbers, are private; the core calibrates the noise to them. Nothing here reads data.
docs/accuracy.md has the measured gains and costs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privalue import core
from privalue.core import Integers, Limits, Vector
from privalue.study.names import read_only
from privalue.study.sections import STAGE_SHARES, Sections

_MIN_SHARE = 0.1  # of an even split, for every state: a prior may be wrong
_CANDIDATES = 16  # shapes to compare for each variance
# Variances of values across states, in units of R^2: from a uniform distribution to nearly equal.
SPREADS = (1 / 12, 0.06**2, 0.012**2, 0.0024**2, 0.0005**2)
CANDIDATE_SPREADS = (SPREADS[0], SPREADS[2])  # candidates suit these, and are compared at all
_MAX_LOSS = 1.05  # the most that errors may grow over those of an even shape, at any spread
_USUAL_ERROR = 1e-3  # of the first of SPREADS: the assumed noise at a typical state if m is unknown
BETA_LOSS = 0.05  # the share of noise that a larger beta may add if visits are unknown
_MIN_BIN_Z = 3.0  # standard deviations above which a bin counts
_TYPICAL = 0.75  # of a level's reach: the typical size of its returns
_VISIT_SHARE = 0.5  # of all trajectories: the share that visits a typical state
_WIDE = 0.8  # from this discount on, implied bounds are at least five times those of a reward
_MIN_SIGNAL = 4  # m over the noise of a bin, from which a histogram is informative
_MIN_STAGE_SHARE = 0.02  # of mu^2
# The most keys for a stage, by memory: each key has a count and a sum by level and side.
MAX_STAGE_KEYS = 2_000_000 // (2 * core.MAX_LEVELS)


def choose_beta(
    epsilon: float, delta: float, dimension: int, predict_psi: Callable[[float], float], loss: float
) -> float:
    """Return the largest beta with nearly the least predicted noise, alpha(beta) sqrt(psi(beta)).

    A larger beta lets the noise fall at fewer visits, but multiplies all of it. If visits are only
    guessed, a state may be rarer than the guess. Below a threshold, which falls as beta grows, its
    noise is larger by orders of magnitude; a little more noise everywhere guards against that.

    Args:
        epsilon: of the values alone.
        delta: likewise.
        dimension: d, the number of coordinates that get noise.
        predict_psi: psi as a function of beta, at counts guessed from public numbers.
        loss: the share by which the noise may exceed the least.

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
    if loss:
        most, largest = noise(best) + math.log1p(loss), min(highest, best + math.log(1e4))
        while largest - best > 0.01:
            middle = 0.5 * (best + largest)
            best, largest = (middle, largest) if noise(middle) <= most else (best, middle)
    return float(f"{math.exp(best):.6g}")  # six digits, so that people can copy it


def guess_counts(prior: Vector | None, states: int, trajectories: int) -> Integers:
    """Return the expected visits of every state, less three standard deviations.

    They follow from public numbers: p_s is the study's prior of visits; without one it is 1/N, 2/N,
    ..., 1, from a state that one trajectory in N visits to one that all visit. Counts are rounded
    down to three digits.
    """
    p = np.arange(1, states + 1) / states if prior is None else prior
    expected = trajectories * p
    low = expected - 3 * np.sqrt(expected * (1 - p))
    counts = np.maximum(np.floor(low), 0).astype(np.int64)
    digit = 10 ** np.maximum(np.floor(np.log10(np.maximum(counts, 1))).astype(np.int64) - 2, 0)
    return np.asarray(counts // digit * digit)


def count_weight(limits: Limits) -> float:
    """Return c_w in units of R: sqrt(3)/2, or 1/2 where that is better for every value.

    With sqrt(3)/2, a state that both trajectories visit contributes as much to the sensitivity as
    one that only one of them visits. If two trajectories can avoid each other's states, or under
    add-remove, 1/2 gives means of smaller variance whatever the values (docs/proofs/dp-ssp.md).
    """
    can_be_disjoint = 2 * limits.max_states_per_trajectory <= limits.keys
    return 0.5 if limits.add_remove or can_be_disjoint else math.sqrt(3) / 2


def choose_shape(
    limits: Limits, prior: Vector | None, trajectories: int | None, alpha: float, *, shrinkage: bool
) -> Vector:
    """Return omega, the relative precision of the release of each state; the largest is 1.

    Without a prior all are 1. With one, at noise q_s = K/(omega_s p_s)^2,
    K = (alpha Delta/m)^2 (1 + 1/(12 c_w^2)), a state has squared error tau^2 q_s/(tau^2 + q_s) if
    values have variance tau^2. If Delta is the norm of omega, the sum of these is least for

        omega_s^2 = (u/p_s - k/p_s^2)_+,  k = K/(tau Delta)^2,

    which gives 0 to states that are too rare; u makes the squares sum to 1. A prior may be wrong,
    so no state gets less than a tenth of an even share. If trajectories count for few states only,
    raising the small omega costs nothing, so several lower bounds are compared. tau is unknown, and
    the more similar values are, the less the precision of a rare state matters. So every shape is
    compared with an even one at several tau: no error may grow by more than 5%, and the least
    geometric mean wins. Without shrinkage, noise counts in full: only the largest tau is used.

    Args:
        limits: H, L and the relation.
        prior: p_s, a public guess of the probability that a trajectory visits s; 0 is allowed.
        trajectories: m, if it is public; otherwise the noise at a typical state is assumed to be 1%
            of the range.
        alpha: of the calibration.
        shrinkage: whether values are shrunk towards a common one.

    Returns:
        omega, one number for each state, read-only.
    """
    even = np.ones(limits.keys)
    best, least_error = even, 1.0
    if prior is not None and prior.any():
        p = np.maximum(prior, 1e-12)
        weight, per_person = count_weight(limits), limits.max_trajectories_per_person
        if trajectories is None:
            unit = _USUAL_ERROR * SPREADS[0] * float(p @ p / p.sum()) ** 2 / limits.keys
        else:
            unit = (alpha * per_person / trajectories) ** 2 * (1 + 1 / (12 * weight**2))
        spreads = np.array(SPREADS if shrinkage else SPREADS[:1])

        def errors(squares: Vector) -> Vector:
            delta = core.visit_sensitivity(limits, np.sqrt(squares), weight) / per_person
            return _predict_errors(unit * delta**2 / (squares * p**2), spreads)

        even_errors = errors(even)
        least = _MIN_SHARE / (1 - _MIN_SHARE) / limits.keys  # of squares, which sum to 1
        for spread in CANDIDATE_SPREADS if shrinkage else SPREADS[:1]:
            squares = best_squares(p, unit / spread)
            for bound in np.geomspace(least, max(float(squares.max()), least), _CANDIDATES):
                candidate = np.maximum(squares, bound)
                ratios = errors(candidate) / even_errors
                error = float(np.exp(np.log(ratios).mean()))
                if error < least_error and ratios.max() <= _MAX_LOSS**2:
                    best, least_error = candidate, error
    return read_only(np.sqrt(best / best.max()))


def _predict_errors(noise: Vector, spreads: Vector) -> Vector:
    """Return for each spread the sum of squared errors of values that are shrunk to a common one.

    Each has squared error tau^2 q/(tau^2 + q), plus the noise of the common value, weighted by the
    square of its shrinkage q/(tau^2 + q).
    """
    total = noise + spreads[:, None]
    factor = noise / total  # of shrinkage
    common = np.square(factor).sum(axis=1) / (1 / total).sum(axis=1)
    return np.asarray(spreads * factor.sum(axis=1) + common)


def best_squares(p: Vector, k: float) -> Vector:
    """Return (u/p_s - k/p_s^2)_+, with u such that they sum to 1.

    Only the states with the largest p get more than 0. If these are the first j, then u = (1 + k
    sum 1/p^2)/(sum 1/p), and j is right if u p_s > k holds for these states and no others.
    """
    order = np.sort(p)[::-1]
    u = (1 + k * np.cumsum(order**-2.0)) / np.cumsum(1 / order)
    j = max(int(np.count_nonzero(u * order > k)), 1)
    squares = np.maximum(u[j - 1] / p - k / p**2, 0.0)
    if abs(float(squares.sum()) - 1) < 1e-6:
        return np.asarray(squares)
    largest = p == order[0]  # k exceeds p^2 by so much that rounding leaves nothing of the others
    return np.asarray(largest / np.count_nonzero(largest))


# The stage that chooses bounds


def bin_noise(study: Sections) -> float:
    """Return the noise of a bin of the histogram of levels, with the default share of mu^2.

    Replacing a trajectory changes two bins.
    """
    alpha = core.calibration.gaussian(study.privacy.epsilon, study.privacy.delta).alpha
    bins = 1 if study.privacy.neighbours == "add-remove" else 2
    most = study.privacy.max_trajectories_per_person or 1
    return alpha * most * math.sqrt(bins / STAGE_SHARES["bounds"])


def decide_stages(study: Sections, keys: int, trajectories: int | None) -> tuple[str, ...]:
    """Return the stages before the values: "bounds", or none; "auto" is decided by public numbers.

    A stage for bounds pays off if the bounds of returns are implied by those of rewards, the
    discount makes them wide, and bins will exceed their noise. An unknown m is assumed to be large
    enough, since ``BoundRule`` keeps the whole range if no bin is significant.

    Args:
        study: the study.
        keys: the number of values.
        trajectories: m, if it is public.
    """
    stages = study.mechanism.stages
    if stages != "auto":
        return () if stages == "one" else stages
    if study.values.returns is not None or study.values.discount < _WIDE or keys > MAX_STAGE_KEYS:
        return ()
    m = math.inf if trajectories is None else trajectories
    return ("bounds",) if m >= _MIN_SIGNAL * bin_noise(study) else ()


def bounds_share(trajectories: int | None, noise: float) -> float:
    """Return the default share of mu^2 for the stage that chooses bounds.

    Noise of m/100 in a bin is small enough; with many trajectories, less than the usual share
    suffices for that.

    Args:
        trajectories: m, if it is public.
        noise: of a bin, with the usual share.
    """
    usual = STAGE_SHARES["bounds"]
    if trajectories is None:
        return usual
    return min(max(usual * (100 * noise / trajectories) ** 2, _MIN_STAGE_SHARE), usual)


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundRule:
    """The rule by which the stage for bounds chooses, with the public numbers that it uses.

    Attributes:
        reach: B_j, increasing.
        width: R_j, in the same units.
        noise: the standard deviation of the noise of a sum, for a range of 1.
        states: N.
        shrinkage: whether values are shrunk towards a common one.
    """

    reach: Vector
    width: Vector
    noise: float
    states: int
    shrinkage: bool
    name: str = "privalue.study"

    @classmethod
    def of(cls, limits: Limits, shape: Vector, alpha: float, *, shrinkage: bool) -> "BoundRule":
        """Return the rule for a study with these limits, omega, and alpha of the values."""
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
        """Return the level with the least predicted error: privacy noise and clamping bias.

        At a state that n trajectories visit, half of those in significant bins,

            noise_j = noise R_j/n,   bias_j = sum_{i > j} h_i (3/4 B_i - B_j)_+ / (2n)

        if half of the clamped trajectories visit the state, too, and returns of level i are at 3/4
        of its reach. Shrinkage reduces noise and no bias: if values are uniform over the highest
        significant level, with variance tau^2, noise^2 becomes tau^2 noise^2/(tau^2 + noise^2),
        plus the noise of the common value. Without shrinkage, noise counts in full. A bin counts
        only if it is significant, or else the largest noise of J empty bins would decide. A bin
        that is not significant has fewer than about 3 s trajectories, so the bias of clamping them
        is bounded (docs/accuracy.md). If no bin is significant, the whole range stays.

        Args:
            histogram: h~, the noisy numbers of trajectories by their largest level.
            deviation: s, the standard deviation of the noise of a bin.

        Returns:
            j, from 0 to J - 1.
        """
        counts = np.where(histogram > _MIN_BIN_Z * deviation, histogram, 0.0)
        if not counts.any():
            return len(counts) - 1
        excess = np.maximum(_TYPICAL * self.reach - self.reach[:, None], 0.0)  # of i, clamped at j
        visits = _VISIT_SHARE * float(counts.sum())
        bias = _VISIT_SHARE * (np.triu(excess, 1) @ counts) / visits
        spread = SPREADS[0] * float(self.width[np.flatnonzero(counts)[-1]]) ** 2
        variance = np.square(self.noise * self.width / visits)
        if self.shrinkage:
            factor = variance / (variance + spread)
            variance = factor * spread + np.square(factor) * (variance + spread) / self.states
        return int(np.argmin(variance + np.square(bias)))
