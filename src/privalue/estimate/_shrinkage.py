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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privalue.core import Integers, Vector
from privalue.estimate._ratios import Ratios, plain_values, summed

FEWEST_STATES = 4  # the smallest worlds that the rule was tried on
SPREADS = np.geomspace(1.0, 3e-4, 8)  # tau, as shares of half the range of returns
FAR, FARTHER = 5.0, 0.1  # so many times as far spreads this share of the states
ANYWHERE = 0.01  # and so many of them all may be anywhere
LEVEL = 1.0  # how far the common value may be from that of an unvisited state
NEAR = 6.0  # or so many times tau, if that is less
BEND, MOST_BEND = np.array([8.0, 4.0]), np.array([0.2, 0.1])  # the same of a parabola, and at most
TILT, MOST_TILT = 8.0, 0.1  # the same of a feature
DOUBT = np.array([0.0, 1.0, 3.0])  # of a constant, one that is near, and a parabola: e^-3
TILTED = 1.0  # and of features
EFFECT = 2.0  # tau times this is how far what an action does everywhere may be from nothing
MOST_ACTIONS = 100  # of which such effects are fitted
STEPS = 2
PEOPLE = 0.6  # of the variance that returns can have at most, for the choice of people
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
    people: float = 0.0  # the variance of a return, as a share of the most that it can be
    with_squares: bool = False

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

    def noise(self, y: Vector, visits: Vector) -> Vector:
        """Return the variance of T~ - y n~ where y is the value."""
        noise: Vector = self.sum_variance + y * y * self.count_variance
        return noise + self.people * visits * (1 - y * y) if self.people else noise

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
    base: Vector  # the target where all coefficients are as they are likely to be
    begin: Vector  # the target where the fit begins
    first: float  # the common value there, less the base
    unsure: Vector | float = 0.0  # the variance of the base
    near: bool = False  # whether no state is farther than a normal number says
    doubt: Vector  # how much less likely each kind is beforehand, as a logarithm


def _above_zero(number: Vector, variance: Vector) -> Vector:
    """Return the positive n with n - variance/n = number."""
    root = np.sqrt(number * number + 4 * variance)
    return np.where(number > 0, 0.5 * (root + number), 2 * variance / (root + np.abs(number)))


def shrunk(
    ratios: Ratios,
    plain: Vector,
    unvisited: float,
    features: Vector | None = None,
    around: Vector | None = None,
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
        around: targets of their own, in place of a constant and a parabola.

    Returns:
        Values between the bounds. Nothing may fail once a release is paid for: a value that cannot
        be computed stays as it was.
    """
    if len(plain) < FEWEST_STATES:
        return plain
    try:
        drawn, _ = _drawn(ratios, unvisited, features, around)
    except np.linalg.LinAlgError:
        return plain
    return np.where(np.isfinite(drawn), drawn, plain)


def posterior(
    ratios: Ratios, unvisited: float, states: Integers, actions: Integers | None = None
) -> tuple[Vector, Vector]:
    """Return posterior means and standard deviations of action values, people's choice included.

    The actions of a state are compared with each other, so that they are drawn towards the state's
    own value and no other; returns are taken to vary as much as they can between their bounds. An
    action may be worth more or less than others everywhere: what it does in all states together is
    known much better than in any one of them, and counts as far as the numbers say so.

    Args:
        ratios: of the noisy sums and counts of every pair (state, action).
        unvisited: what a pair is worth about which nothing is known.
        states: the state of every pair, ascending from 0.
        actions: the action of every pair; None, if those of two states have nothing in common.
    """
    around = _posterior(pooled(ratios, states), unvisited, None)
    targets, doubts = (each[states] for each in around)
    return _posterior(ratios, unvisited, targets, doubts, _taken(actions))


def _taken(actions: Integers | None) -> Vector | None:
    """Return which action each pair is of, as columns of 0 and 1; None for too many of them."""
    if actions is None:
        return None
    found, numbers = np.unique(actions, return_inverse=True)
    return np.eye(len(found))[numbers] if len(found) <= MOST_ACTIONS else None


def _posterior(
    ratios: Ratios,
    unvisited: float,
    around: Vector | None,
    doubts: Vector | float = 0.0,
    taken: Vector | None = None,
) -> tuple[Vector, Vector]:
    """Return means and deviations, by the noise of each alone where models do not apply."""
    reach = 0.5 * ratios.bounds[1] - 0.5 * ratios.bounds[0]
    plain = plain_values(ratios, unvisited)
    own = np.hypot(ratios.sum_noise, reach * ratios.count_noise)
    apart = own / _above_zero(ratios.counts, np.square(ratios.count_noise))
    alone = plain, np.minimum(np.where(ratios.counts > 0, apart, reach), reach)
    if around is None and len(plain) < FEWEST_STATES:
        return alone
    try:
        found = _drawn(ratios, unvisited, None, around, doubts, people=PEOPLE, taken=taken)
    except np.linalg.LinAlgError:
        return alone
    fine = np.isfinite(found[0]) & np.isfinite(found[1])
    return np.where(fine, found[0], alone[0]), np.where(fine, found[1], alone[1])


def pooled(ratios: Ratios, states: Integers) -> Ratios:
    """Return the sums and counts of every state: those of its pairs together."""

    def total(numbers: Vector) -> Vector:
        return summed(numbers, states, int(states[-1]) + 1)

    return replace(
        ratios,
        sums=total(ratios.sums),
        counts=total(ratios.counts),
        sum_noise=np.sqrt(total(np.square(ratios.sum_noise))),
        count_noise=np.sqrt(total(np.square(ratios.count_noise))),
    )


def state_targets(ratios: Ratios, unvisited: float, states: Integers) -> Vector:
    """Return for every pair the value of its state, shrunk towards those of the others."""
    whole = pooled(ratios, states)
    return shrunk(whole, plain_values(whole, unvisited), unvisited)[states]


def _drawn(
    ratios: Ratios,
    unvisited: float,
    features: Vector | None,
    around: Vector | None,
    doubts: Vector | float = 0.0,
    *,
    people: float | None = None,
    taken: Vector | None = None,
) -> tuple[Vector, Vector]:
    """Return the values that all models give together; their deviations, if people are given.

    Args:
        ratios: of noisy sums and counts.
        unvisited: what a state is worth about which nothing is known.
        features: public features.
        around: targets of their own.
        doubts: the standard deviations of these targets.
        people: the variance of returns, as a share of the most that it can be.
        taken: a column of 0 and 1 for each action, whose effects are added to such targets.
    """
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
        people=people or 0.0,
        with_squares=people is not None,
    )
    level = (unvisited - ratios.centre) / reach
    targets = None if around is None else (around - ratios.centre) / reach
    models = _models(scene, features, level, targets, np.square(doubts / reach), taken)
    found = [each for some in models for each in _tried(scene, some)]
    weights, values, squares = (np.concatenate(each) for each in zip(*found, strict=True))
    weights = np.exp(weights - weights.max())
    whole = weights.sum()
    y = weights @ values / whole
    # The mean square of y under a model, less that of the mean: models differ, too.
    variance = np.maximum(weights @ squares / whole - np.square(y), 0.0)
    return np.asarray(ratios.centre + reach * np.clip(y, -1, 1)), reach * np.sqrt(variance)


def _models(
    scene: _Scene,
    features: Vector | None,
    level: float,
    around: Vector | None,
    unsure: Vector | float,
    taken: Vector | None,
) -> Iterator[_Models]:
    """Yield the models: constants and parabolas, or targets of their own; then features.

    Targets of their own come with effects of actions and without.

    A constant is a parabola whose other coefficients do not spread. Visits are those at the pooled
    value, which are independent of what a state says about itself there: were they taken
    elsewhere, noise in a count would look like a parabola.
    """
    ones = np.ones(len(scene.sums))
    base, begin, first = level * ones, scene.pooled * ones, scene.pooled - level
    if around is None:
        visits = scene.visits(scene.pooled * ones)
        x = 2 * visits / visits.max() - 1
        deviations = np.zeros((len(SPREADS), 3, 3))
        deviations[:, :, 0] = LEVEL
        deviations[:, 1, 0] = np.minimum(NEAR * SPREADS, LEVEL)
        deviations[:, 2, 1:] = np.minimum(BEND * SPREADS[:, None], MOST_BEND)
        columns = np.column_stack([ones, x, 2 * x * x - 1])
        yield _Models(
            columns=columns,
            deviations=deviations,
            doubt=DOUBT,
            base=base,
            begin=begin,
            first=first,
        )
    else:
        # Targets were fitted to the same numbers, one for each state: half a unit each is what
        # that adds to a likelihood by chance.
        columns = ones[:, None] if taken is None else np.column_stack([ones, taken])
        deviations = np.zeros((len(SPREADS), 1 if taken is None else 2, columns.shape[1]))
        deviations[:, 1:, 1:] = EFFECT * SPREADS[:, None, None]
        yield _Models(
            columns=columns,
            deviations=deviations,
            doubt=np.full(deviations.shape[1], 0.5 * len(np.unique(around))),
            base=around,
            begin=around,
            first=0.0,
            unsure=unsure,
            near=True,
        )
    if features is not None and features.shape[1]:
        deviations = np.empty((len(SPREADS), 1, features.shape[1] + 1))
        deviations[:, 0, 0] = LEVEL
        deviations[:, 0, 1:] = np.minimum(TILT * SPREADS, MOST_TILT)[:, None]
        yield _Models(
            columns=np.column_stack([ones, features]),
            deviations=deviations,
            doubt=np.array([TILTED]),
            base=base,
            begin=begin,
            first=first,
        )


def _tried(scene: _Scene, models: _Models) -> Iterator[tuple[Vector, Vector, Vector]]:
    """Yield what ``_fitted`` says of some models at once, until smaller tau cannot fit better."""
    kinds = len(models.doubt)
    together = max(MOST_AT_ONCE // (len(models.columns) * kinds), 1)
    going = np.ones(kinds, dtype=np.bool_)
    best = np.full(kinds, -math.inf)
    for at in range(0, len(SPREADS), together):
        spreads = SPREADS[at : at + together]
        deviations = models.deviations[at : at + together, going]
        evidence, values, squares = _fitted(
            scene,
            models,
            np.repeat(spreads, deviations.shape[1]),
            deviations.reshape(-1, models.columns.shape[1]),
        )
        by_kind = evidence.reshape(len(spreads), -1) - models.doubt[going]
        yield by_kind.ravel(), values, squares
        best[going] = np.maximum(best[going], by_kind.max(axis=0))
        going[going] = by_kind[-1] >= best[going] - NOWHERE
        if not going.any():
            return


def _fitted(
    scene: _Scene, models: _Models, tau: Vector, deviations: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return the logarithm of each model's evidence, the values that go with it, their squares.

    Visits and the noise are taken at the target: there they are independent of T~ - mu n~, so that
    the score has mean 0, and no state chooses its own weight. Coefficients are u times their
    deviations away from where they are likely to be, and u has the variance 1.

    Args:
        scene: the noisy statistics.
        models: with their columns, and where targets begin.
        tau: of each model.
        deviations: model x coefficient.
    """
    columns = models.columns
    states, unit = len(columns), np.eye(columns.shape[1])
    across = deviations[:, :, None] * deviations[:, None, :]
    farther = 0.0 if models.near else FARTHER
    anywhere = 0.0 if models.near else min(ANYWHERE / states, 1.0 - 2 * FARTHER)
    shares = np.array([1.0 - farther - anywhere, farther, anywhere])[:, None, None]
    far = np.minimum(FAR * tau, 1.0)
    spreads = np.square(np.stack([tau, far, np.ones_like(far)]))[:, :, None]
    theta = np.zeros_like(deviations)
    theta[:, 0] = models.first  # away from where they are likely to be
    target = models.begin[None, :]
    visits = scene.visits(target)
    noise = scene.noise(target, visits)
    away = scene.sums - target * scene.counts
    inverse = 1 / (noise + spreads * (visits * visits))
    weights = visits * (shares * inverse).sum(axis=0)
    for step in range(STEPS):
        information = _information(columns, weights * visits)
        score = (weights * away) @ columns + (information @ theta[:, :, None])[:, :, 0]
        scaled = unit + across * information
        u = np.linalg.solve(scaled, (deviations * score)[:, :, None])[:, :, 0]
        theta = deviations * u
        target = np.clip(theta @ columns.T + models.base, -1, 1)
        visits = scene.visits(target)
        noise = scene.noise(target, visits)
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
    divisor = noise + gains * scene.divisor
    drawn = (likely * gains / divisor).sum(axis=0) / total
    values = np.clip(target + drawn * away, -1, 1)
    if not scene.with_squares:
        return evidence, values, values
    # A component's variance is tau^2 (1 - its gain); its mean is apart from the mixture's; and so
    # far as a value follows its target, it is as uncertain as the coefficients.
    each = gains / divisor
    left = 1 - each * scene.divisor
    covariance = across * np.linalg.inv(scaled)
    of_target = np.einsum("msp,sp->ms", columns @ covariance, columns) + models.unsure
    apart = np.square(away * (each - drawn)) + spreads * left + np.square(left) * of_target
    return evidence, values, np.square(values) + (likely * apart).sum(axis=0) / total


def _information(columns: Vector, weights: Vector) -> Vector:
    """Return X' W X for each row of weights."""
    states, number = columns.shape
    if states * number * number > MOST_PRODUCTS:
        return np.stack([(columns.T * each) @ columns for each in weights])
    products = (columns[:, :, None] * columns[:, None, :]).reshape(states, -1)
    return np.asarray(weights @ products).reshape(-1, number, number)
