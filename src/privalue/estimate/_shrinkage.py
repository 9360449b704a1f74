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
SPREADS = np.geomspace(1.0, 3e-4, 8)  # tau, as shares of half the range of returns
FAR, FARTHER = 5.0, 0.1  # so many times as far spreads this share of the states
ANYWHERE = 0.1  # and so many of them all may be anywhere
LEVEL = 1.0  # how far the common value may be from that of an unvisited state
NEAR = 6.0  # or so many times tau, if that is less
BEND, MOST_BEND = np.array([8.0, 4.0]), np.array([0.2, 0.1])  # the same of a parabola, and at most
TILT, MOST_TILT = 8.0, 0.1  # the same of a feature
DOUBT = np.array([0.0, 1.0, 3.0])  # of a constant, one that is near, and a parabola: e^-3
TILTED = 1.0  # and of features
STEPS = 2
NOWHERE = 40.0  # a weight of e^-40 is none
NOTHING = -300.0  # the logarithm of no likelihood, beside others
MOST_AT_ONCE = 10_000  # models times states: beyond, the likelier half may be enough
MOST_PRODUCTS = 3_000_000  # of columns: beyond, models are gone through one by one


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scene:
    """Noisy statistics in units of the bounds, and what is known of the visits as a whole."""

    sums: Vector
    counts: Vector
    sum_variance: Vector
    count_variance: Vector
    mean_visits: float

    @property
    def pooled(self) -> float:
        """Return the value that all states have together, between the bounds."""
        return min(max(float(self.sums.mean()) / self.mean_visits, -1.0), 1.0)

    @cached_property
    def divisor(self) -> Vector:
        """Return n~ + s_n^2/n~ where counts are clear, which takes the bias of 1/n~ away.

        It is above 0 where counts are not.
        """
        return _above_zero(self.counts, self.count_variance)

    @cached_property
    def ratio(self) -> Vector:
        """Return the variance of counts over that of sums."""
        return self.count_variance / self.sum_variance

    def noise(self, y: Vector) -> Vector:
        """Return the variance of T~ - y n~ where y is the value."""
        return self.sum_variance + y * y * self.count_variance

    def visits(self, y: Vector) -> Vector:
        """Return how many visits to believe in where y is the value; always above 0.

        (n~ + y q T~)/(1 + y^2 q), q the ratio of the variances, is the count that fits both noisy
        numbers best, and is independent of T~ - y n~. It goes with a prior of visits with the mean
        that all counts have together: where most states are empty, a few visits are noise.
        """
        slope = y * self.ratio
        both = 1 + y * slope
        variance = self.count_variance / both
        fitted = (self.counts + slope * self.sums) / both - variance / self.mean_visits
        return _above_zero(fitted, variance)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Models:
    """Models with the same columns: those of a kind differ in tau."""

    columns: Vector  # state x coefficient, the first one the common value
    deviations: Vector  # tau x kind x coefficient
    doubt: Vector  # how much less likely each kind is beforehand, as a logarithm


def _above_zero(number: Vector, variance: Vector) -> Vector:
    """Return the positive n with n - variance/n = number."""
    root = np.sqrt(number * number + 4 * variance)
    return np.where(number > 0, 0.5 * (root + number), 2 * variance / (root + np.abs(number)))


def shrunk(
    ratios: Ratios, plain: Vector, unvisited: float, features: Vector | None = None
) -> Vector:
    """Return the posterior means of the values, where these spread around a common target.

        y_s ~ mu_s + tau times a normal number; five times that for one state in ten
        mu  = X theta: a constant, a parabola in the number of visits, or the public features

    Every kind of target and every tau has a weight, the likelihood of T~ - mu n~, and what is
    returned is the mean over them all. Nothing depends on the order of the states.

    Args:
        ratios: of noisy sums and counts.
        plain: the values without shrinkage.
        unvisited: what a state is worth about which nothing is known.
        features: public features, whose combinations are targets too: one row for each state,
            columns of mean 0, the larger the more they are likely to say.

    Returns:
        Values between the bounds. Nothing may fail once a release is paid for: a value that cannot
        be computed stays as it was.
    """
    if len(plain) < FEWEST_STATES:
        return plain
    try:
        drawn = _drawn(ratios, unvisited, features)
    except np.linalg.LinAlgError:
        return plain
    return np.where(np.isfinite(drawn), drawn, plain)


def _drawn(ratios: Ratios, unvisited: float, features: Vector | None) -> Vector:
    """Return the values that all models give together."""
    states = len(ratios.sums)
    low, high = ratios.bounds
    reach = 0.5 * high - 0.5 * low
    count_variance = np.square(ratios.count_noise)
    scene = _Scene(
        sums=ratios.sums / reach,
        counts=ratios.counts,
        sum_variance=np.square(ratios.sum_noise / reach),
        count_variance=count_variance,
        mean_visits=max(
            float(ratios.counts.mean()), math.sqrt(float(count_variance.sum())) / states
        ),
    )
    level = (unvisited - ratios.centre) / reach
    found = [each for models in _models(scene, features) for each in _tried(scene, models, level)]
    weights = np.concatenate([evidence for evidence, _ in found])
    weights = np.exp(weights - weights.max())
    y = weights @ np.concatenate([values for _, values in found]) / weights.sum()
    return np.asarray(ratios.centre + reach * np.clip(y, -1, 1))


def _models(scene: _Scene, features: Vector | None) -> Iterator[_Models]:
    """Yield the models: constants and parabolas, then features.

    A constant is a parabola whose other coefficients do not spread. Visits are those at the pooled
    value, which are independent of what a state says about itself there: were they taken
    elsewhere, noise in a count would look like a parabola.
    """
    visits = scene.visits(np.full(len(scene.sums), scene.pooled))
    x = 2 * visits / visits.max() - 1
    deviations = np.zeros((len(SPREADS), 3, 3))
    deviations[:, :, 0] = LEVEL
    deviations[:, 1, 0] = np.minimum(NEAR * SPREADS, LEVEL)
    deviations[:, 2, 1:] = np.minimum(BEND * SPREADS[:, None], MOST_BEND)
    yield _Models(
        columns=np.column_stack([np.ones(len(x)), x, 2 * x * x - 1]),
        deviations=deviations,
        doubt=DOUBT,
    )
    if features is not None and features.shape[1]:
        deviations = np.empty((len(SPREADS), 1, features.shape[1] + 1))
        deviations[:, 0, 0] = LEVEL
        deviations[:, 0, 1:] = np.minimum(TILT * SPREADS, MOST_TILT)[:, None]
        yield _Models(
            columns=np.column_stack([np.ones(len(x)), features]),
            deviations=deviations,
            doubt=np.array([TILTED]),
        )


def _tried(scene: _Scene, models: _Models, level: float) -> Iterator[tuple[Vector, Vector]]:
    """Yield evidence and values of some models at once, until smaller tau cannot fit any better."""
    kinds = len(models.doubt)
    together = max(MOST_AT_ONCE // (len(models.columns) * kinds), 1)
    going = np.ones(kinds, dtype=np.bool_)
    best = np.full(kinds, -math.inf)
    for at in range(0, len(SPREADS), together):
        spreads = SPREADS[at : at + together]
        deviations = models.deviations[at : at + together, going]
        evidence, values = _fitted(
            scene,
            models.columns,
            np.repeat(spreads, deviations.shape[1]),
            deviations.reshape(-1, models.columns.shape[1]),
            level,
        )
        by_kind = evidence.reshape(len(spreads), -1) - models.doubt[going]
        yield by_kind.ravel(), values
        best[going] = np.maximum(best[going], by_kind.max(axis=0))
        going[going] = by_kind[-1] >= best[going] - NOWHERE
        if not going.any():
            return


def _fitted(
    scene: _Scene, columns: Vector, tau: Vector, deviations: Vector, level: float
) -> tuple[Vector, Vector]:
    """Return the logarithm of each model's evidence, and the values that go with it.

    Visits and the noise are taken at the target: there they are independent of T~ - mu n~, so that
    the score has mean 0, and no state chooses its own weight. Coefficients are u times their
    deviations away from where they are likely to be, and u has the variance 1.

    Args:
        scene: the noisy statistics.
        columns: state x coefficient, the first one the common value.
        tau: of each model.
        deviations: model x coefficient.
        level: where the common value is likely to be.
    """
    states, unit = len(columns), np.eye(columns.shape[1])
    across = deviations[:, :, None] * deviations[:, None, :]
    anywhere = min(ANYWHERE / states, 1.0 - 2 * FARTHER)
    shares = np.array([1.0 - FARTHER - anywhere, FARTHER, anywhere])[:, None, None]
    far = np.minimum(FAR * tau, 1.0)
    spreads = np.square(np.stack([tau, far, np.ones_like(far)]))[:, :, None]
    theta = np.zeros_like(deviations)
    theta[:, 0] = scene.pooled - level  # away from where they are likely to be
    target = np.full((1, states), scene.pooled)
    noise, visits = scene.noise(target), scene.visits(target)
    away = scene.sums - target * scene.counts
    inverse = 1 / (noise + spreads * (visits * visits))
    weights = visits * (shares * inverse).sum(axis=0)
    for step in range(STEPS):
        information = _information(columns, weights * visits)
        score = (weights * away) @ columns + (information @ theta[:, :, None])[:, :, 0]
        scaled = unit + across * information
        u = np.linalg.solve(scaled, (deviations * score)[:, :, None])[:, :, 0]
        theta = deviations * u
        target = np.clip(theta @ columns.T + level, -1, 1)
        noise, visits = scene.noise(target), scene.visits(target)
        away = scene.sums - target * scene.counts
        inverse = 1 / (noise + spreads * (visits * visits))
        likely = np.maximum((-0.5 * away * away) * inverse, NOTHING)
        np.exp(likely, out=likely)
        likely *= shares * np.sqrt(inverse)
        total = likely.sum(axis=0)
        if step + 1 < STEPS:
            inverse *= likely
            weights = visits * inverse.sum(axis=0) / total
    evidence = np.log(total).sum(axis=1)
    evidence -= 0.5 * (np.linalg.slogdet(scaled)[1] + np.square(u).sum(axis=1))
    # tau^2 n/v over 1 + tau^2 n D/v, in the mean over the three spreads
    gains = spreads * visits
    drawn = (likely * gains / (noise + gains * scene.divisor)).sum(axis=0) / total
    return evidence, np.clip(target + drawn * away, -1, 1)


def _information(columns: Vector, weights: Vector) -> Vector:
    """Return X' W X for each row of weights."""
    states, number = columns.shape
    if states * number * number > MOST_PRODUCTS:
        return np.stack([(columns.T * each) @ columns for each in weights])
    products = (columns[:, :, None] * columns[:, None, :]).reshape(states, -1)
    return np.asarray(weights @ products).reshape(-1, number, number)
