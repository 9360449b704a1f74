"""Shrink noisy means towards what the states have in common, as far as the noise calls for.

| symbol | here         | shape | public |
|--------|--------------|-------|--------|
| T~, n~ | ``sums``, ``counts`` | N | yes, noisy; returns are -1 and 1 at the bounds |
| y_s    | ``y``        | N     | yes, the value of a state |
| n_s    | ``visits``   | N     | yes, the visits of a state as they are believed, above 0 |
| v_s    | ``noise``    | N     | yes, the variance of T~ - y n~ at the value y |
| X      | ``columns``  | N x D | yes, what targets are made of; the first column is 1 |
| mu_s   | ``target``   | N     | yes, X times some coefficients |
| tau    | ``spread``   |       | yes, how far values are from their targets |

Nothing is divided by a noisy count: T~ - y n~ is normal with mean 0 at the true y, whatever n is.
Post-processing: it costs no privacy. Why the rule is this one, and what it does in many worlds, is
in docs/proofs/shrinkage.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privalue.core import Vector
from privalue.estimate._ratios import Ratios

FEWEST_STATES = 4  # the smallest worlds that the rule was tried on
SPREADS = np.geomspace(1.0, 1e-3, 8)  # tau, as shares of half the range of returns
FAR = 3.0  # some states spread so many times as far, and a few anywhere
SHARES = np.array([[0.8], [0.199], [0.001]])
POWERS = (0.0, 1.0)  # tau is the same for all states, or goes with 1/n: rare states spread further
DOUBT = 4.0  # which is less likely beforehand, by e^-4
CONSTANT = 0.7  # how far the common value may be from that of an unvisited state
RATIO = 8.0  # what targets differ by, over tau, where they do
FEATURE = 0.3  # of that, for each feature
STEPS = 2  # for each tau; each starts where the one before it ended
NOWHERE = 40.0  # a weight of e^-40 is none
MOST_AT_ONCE = 100_000  # models times states: beyond, memory matters more than calls
_LOG_SHARES = np.log(SHARES)[:, :, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scene:
    """Noisy statistics in units of the bounds, and what is known of the visits as a whole."""

    sums: Vector
    counts: Vector
    sum_variance: Vector
    count_variance: Vector
    mean_visits: float

    @cached_property
    def divisor(self) -> Vector:
        """Return n~ + s_n^2/n~ where counts are clear, which takes the bias of 1/n~ away.

        It is above 0 where counts are not.
        """
        return _above_zero(self.counts, self.count_variance)

    def noise(self, y: Vector) -> Vector:
        """Return the variance of T~ - y n~ where y is the value."""
        return self.sum_variance + y * y * self.count_variance

    def visits(self, y: Vector) -> Vector:
        """Return how many visits to believe in where y is the value; always above 0.

        (n~ + y q T~)/(1 + y^2 q), q the ratio of the variances, is the count that fits both noisy
        numbers best, and is independent of T~ - y n~. It goes with a prior of visits with the mean
        that all counts have together: where most states are empty, a few visits are noise.
        """
        ratio = y * self.count_variance / self.sum_variance
        variance = self.count_variance / (1 + y * ratio)
        fitted = (self.counts + ratio * self.sums) / (1 + y * ratio) - variance / self.mean_visits
        return _above_zero(fitted, variance)


def _above_zero(number: Vector, variance: Vector) -> Vector:
    """Return the positive n with n - variance/n = number."""
    root = np.sqrt(number * number + 4 * variance)
    return np.where(number > 0, 0.5 * (root + number), 2 * variance / (root + np.abs(number)))


def shrunk(
    ratios: Ratios, plain: Vector, unvisited: float, features: Vector | None = None
) -> Vector:
    """Return the posterior means of the values, where these spread around a common target.

        y_s ~ mu_s + tau times a normal number; three times that for one state in five
        mu  = X theta: a constant, a parabola in the number of visits, or the public features

    Every kind of target and every tau has a weight, the likelihood of T~ - mu n~, and what is
    returned is the mean over them all. Nothing depends on the order of the states.

    Args:
        ratios: of noisy sums and counts.
        plain: the values without shrinkage.
        unvisited: what a state is worth about which nothing is known.
        features: public features, whose combinations are targets too: one row for each state,
            orthogonal columns of mean 0 and mean square 1.

    Returns:
        Values between the bounds.
    """
    if len(plain) < FEWEST_STATES:
        return plain
    low, high = ratios.bounds
    reach = 0.5 * high - 0.5 * low
    scene = _Scene(
        sums=ratios.sums / reach,
        counts=ratios.counts,
        sum_variance=np.square(ratios.sum_noise / reach),
        count_variance=np.square(ratios.count_noise),
        mean_visits=max(
            float(ratios.counts.mean()),
            math.sqrt(float(np.square(ratios.count_noise).sum())) / len(plain),
        ),
    )
    believed = scene.visits(np.zeros(len(plain)))
    constant = (unvisited - ratios.centre) / reach
    wider = np.stack([np.power(believed.max() / believed, power) for power in POWERS])
    weighed = list[tuple[Vector, Vector]]()
    for columns, ratio in _targets(believed, features):
        power = np.arange(len(columns)) % len(POWERS)
        for at in _together(len(columns), len(plain)):
            found = _fits(scene, columns[at], ratio[at], constant, wider[power[at]])
            doubt = DOUBT * np.array(POWERS)[power[at]]
            weighed.extend((evidence - doubt, y) for evidence, y in found)
    evidence = np.concatenate([each for each, _ in weighed])
    weights = np.exp(evidence - evidence.max())
    y = weights @ np.concatenate([each for _, each in weighed]) / weights.sum()
    return np.asarray(ratios.centre + reach * np.clip(y, -1, 1))


def _together(models: int, states: int) -> list[slice]:
    """Return which models of a group to fit at once: all of them, unless states are many."""
    each = models if models * states <= MOST_AT_ONCE else 1
    return [slice(at, at + each) for at in range(0, models, each)]


def _targets(visits: Vector, features: Vector | None) -> Iterator[tuple[Vector, Vector]]:
    """Yield groups of models: what targets are made of, and the spread of coefficients over tau.

    Models of a target go through ``POWERS`` in turn. A constant is a parabola whose other columns
    are 0; their coefficients stay at 0, and 0 as their spread marks them.
    """
    ones = np.ones(len(visits))
    x = 2 * visits / visits.max() - 1
    level = np.column_stack([ones, np.zeros((len(visits), 2))])
    curve = np.column_stack([ones, x, 2 * x * x - 1])
    bent = [RATIO, RATIO / 2]
    powers = len(POWERS)
    columns = np.stack([level] * powers + [curve] * powers)
    yield columns, np.array([[0.0, 0.0]] * powers + [bent] * powers)
    if features is not None and features.shape[1]:
        columns = np.column_stack([ones, features])
        spread = np.full(features.shape[1], FEATURE * RATIO)
        yield np.stack([columns] * powers), np.stack([spread] * powers)


def _fits(
    scene: _Scene, columns: Vector, ratio: Vector, constant: float, wider: Vector
) -> Iterator[tuple[Vector, Vector]]:
    """Yield, for each tau, the logarithm of each model's evidence, and the values that go with it.

    Visits and the noise are taken at the target: there they are independent of T~ - mu n~, so that
    the score has mean 0, and no state chooses its own weight.

    Args:
        scene: the noisy statistics.
        columns: model x state x coefficient.
        ratio: model x coefficient after the first: its spread over tau, 0 where there is none.
        constant: where the first coefficient is likely to be.
        wider: model x state: how much further values spread.
    """
    models, turned = len(columns), np.swapaxes(columns, 1, 2)
    centre = np.zeros((models, columns.shape[2]))
    centre[:, 0] = constant
    pooled = float(scene.sums.mean()) / scene.mean_visits
    theta = np.zeros_like(centre)
    theta[:, 0] = min(max(pooled, -1.0), 1.0)
    target = (columns @ theta[:, :, None])[:, :, 0]
    shares, best = SHARES[:, :, None] * np.ones(target.shape), np.full(models, -math.inf)
    going = np.ones(models, dtype=np.bool_)
    for spread in SPREADS:
        deviations = np.column_stack([np.full(models, CONSTANT), ratio * spread])
        deviations[deviations == 0] = 1.0
        precision = np.apply_along_axis(np.diag, 1, deviations**-2.0)
        own = np.minimum(spread * wider, 1.0)
        spreads = np.square(np.stack([own, np.minimum(FAR * own, 1.0), np.ones(own.shape)]))
        for _ in range(STEPS):
            noise, visits = scene.noise(target), scene.visits(target)
            variances = noise + spreads * np.square(visits)
            weight = visits * (shares / variances).sum(axis=0)
            away = scene.sums - target * scene.counts
            information = turned @ ((weight * visits)[:, :, None] * columns)
            score = turned @ (weight * away)[:, :, None]
            known = information @ theta[:, :, None] + score + precision @ centre[:, :, None]
            theta = np.linalg.solve(information + precision, known)[:, :, 0]
            target = np.clip((columns @ theta[:, :, None])[:, :, 0], -1, 1)
            away = scene.sums - target * scene.counts
            each = _LOG_SHARES - 0.5 * (np.log(variances) + away * away / variances)
            most = each.max(axis=0)
            shares = np.exp(each - most)
            total = shares.sum(axis=0)
            both = most + np.log(total)
            shares /= total
        scaled = deviations[:, :, None] * (information + precision) * deviations[:, None, :]
        evidence = both.sum(axis=1) - 0.5 * np.linalg.slogdet(scaled)[1]
        evidence -= 0.5 * np.square((theta - centre) / deviations).sum(axis=1)
        gains = spreads * (visits / noise)
        drawn = (shares * gains / (1 + gains * scene.divisor)).sum(axis=0)
        yield np.where(going, evidence, -math.inf), np.clip(target + drawn * away, -1, 1)
        best = np.maximum(best, evidence)
        going &= evidence >= best - NOWHERE  # where it is not, smaller ones fit no better
        if not going.any():
            return
