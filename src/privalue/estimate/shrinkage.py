"""Shrink noisy means towards what the states have in common, as far as the noise calls for.

| symbol   | here         | shape | public |
|----------|--------------|-------|--------|
| T~, n~   | ``sums``, ``counts`` | N | yes, noisy; returns are -1 and 1 at the bounds |
| s_T, s_n | ``sum_noise``, ``count_noise`` | N | yes, standard deviations |
| y_s      | ``y``        | N     | yes, the value of a state |
| mu_s     | ``mu``       | N     | yes, its target: base + X theta |
| X, theta | ``columns``, ``theta`` | N x K, K | yes; the first column of X is 1 |
| tau      | ``tau``      |       | yes, how far values are from their targets |
| n_s      | ``n``        | N     | yes, the visits that are believed in, above 0 |
| v_s      | ``noise``    | N     | yes, the variance of T~ - mu n~ if mu is the value |

A model is a kind of target and a tau: theta is normal around 0, and y_s is normal around mu_s, with
the deviation tau for nine states of ten, 5 tau for one in ten, and 1 for hardly any. The result is
the mean over all models, each weighed by how well it explains the noisy numbers. Nothing is divided
by a noisy count: T~ - y n~ has mean 0 at the true y, whatever n is. Post-processing, which costs no
privacy; docs/proofs/shrinkage.md has the reasons, and the errors in many worlds.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from privalue.core import Integers, Vector
from privalue.estimate._ratios import Ratios, plain_values, summed

FEWEST_STATES = 4  # fewer have nothing in common
TAUS = np.geomspace(1.0, 3e-4, 8)  # in halves of the range of returns
FACTORS = np.array([1.0, 5.0, np.inf])  # a near, a far or any state is so many tau off; 1 at most
FAR, ANY = 0.1, 0.01  # the share of states that are far, and the number of those that are anywhere
STEPS = 3  # of the fit; the last only says how good it is
MOST_ACTIONS = 100  # more have no effects of their own
AT_ONCE = 10_000  # numbers in the columns of all models that are fitted together
HOPELESS = 40.0  # a model whose likelihood is smaller by e^-40


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrunken:
    """The posterior of the values."""

    means: Vector
    deviations: Vector
    own: Vector  # from 0 to 1: how much of a mean is the state's own ratio, and not its target


@dataclass(frozen=True, kw_only=True, eq=False)
class _Kind:
    """Targets base + X theta, where theta_k has the deviation min(tilt_k tau, most_k)."""

    columns: Vector
    tilt: list[float]
    most: list[float]
    doubt: float  # how much less likely it is beforehand, as a logarithm
    base: Vector
    base_variance: Vector | float = 0.0
    begin: float = 0.0  # theta_1 where the fit begins
    far: float = FAR
    anywhere: float = ANY


def shrink(
    ratios: Ratios,
    unvisited: float,
    *,
    features: Vector | None = None,
    towards: Shrunken | None = None,
    actions: Integers | None = None,
    people: float = 0.0,
) -> Shrunken:
    """Return the posterior of the values; nothing in it depends on the order of the states.

    Args:
        ratios: of noisy sums and counts.
        unvisited: what a state is worth about which nothing is known.
        features: public features, whose combinations are targets too: one row for each state,
            columns of mean 0, the larger the more they are likely to say.
        towards: targets of their own, in place of a constant and a parabola.
        actions: the action of every such pair, which may be worth more than others everywhere.
        people: the variance of a return, as a share of the most that it can be; 0 where values are
            the means of those who are in the data.

    Returns:
        Values between the bounds. Nothing may fail once a release is paid for: one that cannot be
        computed stays as it was.
    """
    low, high = ratios.bounds
    reach, middle = 0.5 * high - 0.5 * low, ratios.centre
    scaled = {"sums": ratios.sums / reach, "sum_noise": ratios.sum_noise / reach}
    unit = replace(ratios, **scaled, centre=0.0, bounds=(-1.0, 1.0))
    noise = np.hypot(unit.sum_noise, unit.count_noise) / _above_zero(unit.counts, unit.count_noise)
    plain = Shrunken(
        means=plain_values(ratios, unvisited),
        deviations=reach * np.where(unit.counts > 0, np.minimum(noise, 1.0), 1.0),
        own=np.ones(len(noise)),
    )
    if towards is None and len(noise) < FEWEST_STATES:
        return plain
    level = (unvisited - middle) / reach
    if towards is None:
        kinds = _common(unit, level)
    else:
        base, variance = (towards.means - middle) / reach, np.square(towards.deviations / reach)
        kinds = _of_states(base, variance, actions)
    if features is not None and features.shape[1]:
        kinds.append(_of_features(unit, level, features))
    with np.errstate(all="ignore"):
        try:
            fits = [fit for kind in kinds for fit in _fits(unit, kind, people)]
        except np.linalg.LinAlgError:
            return plain
        evidence, *parts = (np.concatenate(part) for part in zip(*fits, strict=True))
        weights = np.exp(evidence - evidence.max())
        y, squares, own = (weights @ part / weights.sum() for part in parts)
        variance = np.maximum(squares - y * y, 0.0)  # models differ, too
    fine = np.isfinite(y) & np.isfinite(variance)
    return Shrunken(
        means=np.where(fine, middle + reach * np.clip(y, -1, 1), plain.means),
        deviations=np.where(fine, reach * np.sqrt(variance), plain.deviations),
        own=np.where(fine, own, plain.own),
    )


def shrink_pairs(
    ratios: Ratios,
    unvisited: float,
    states: Integers,
    *,
    features: Vector | None = None,
    actions: Integers | None = None,
    people: float = 0.0,
) -> Shrunken:
    """Return the posterior of values of pairs, each drawn towards the value of its state.

    Drawn towards what all pairs have in common, a rare action of a bad state would look better than
    the other actions there.
    """
    whole = shrink(pooled(ratios, states), unvisited, people=people)
    of_pairs = (part[states] for part in (whole.means, whole.deviations, whole.own))
    towards = Shrunken(**dict(zip(("means", "deviations", "own"), of_pairs, strict=True)))
    return shrink(
        ratios, unvisited, features=features, towards=towards, actions=actions, people=people
    )


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


def _above_zero(number: Vector, deviation: Vector) -> Vector:
    """Return the positive n with n - deviation^2/n = number."""
    root = np.hypot(number, 2 * deviation)
    below = 2 * np.square(deviation) / (root + np.abs(number))  # without cancellation
    return np.where(number > 0, 0.5 * (root + number), below)


def _mean_visits(unit: Ratios) -> float:
    """Return the mean of all counts, or its own noise if that is more."""
    noise = math.sqrt(float(np.square(unit.count_noise).sum())) / len(unit.counts)
    return max(float(unit.counts.mean()), noise)


def _visits(unit: Ratios, y: Vector) -> Vector:
    """Return the visits that are believed in where y is the value.

    (n~ + y q T~)/(1 + y^2 q), where q = s_n^2/s_T^2, fits both noisy numbers best, and is
    independent of T~ - y n~: no state chooses its own weight. The prior of visits has the mean of
    all counts: where most states are empty, a few visits are noise.
    """
    slope = y * np.square(unit.count_noise / unit.sum_noise)
    both = 1 + y * slope
    noise = unit.count_noise / np.sqrt(both)
    fitted = (unit.counts + slope * unit.sums) / both
    return _above_zero(fitted - np.square(noise) / _mean_visits(unit), noise)


def _pooled_value(unit: Ratios) -> float:
    """Return the value of all states together."""
    return min(max(float(unit.sums.mean()) / _mean_visits(unit), -1.0), 1.0)


def _common(unit: Ratios, level: float) -> list[_Kind]:
    """Return a constant, one that is near the value of an unvisited state, and a parabola.

    The parabola is one in the visits at the pooled value, which are independent of what a state
    says there: taken elsewhere, noise in a count would look like a parabola.
    """
    value, ones = _pooled_value(unit), np.ones(len(unit.sums))
    visits = _visits(unit, value * ones)
    x = 2 * visits / visits.max() - 1
    parabola = np.column_stack([ones, x, 2 * x * x - 1])
    rows = [
        (ones[:, None], [np.inf], [1.0], 0.0),
        (ones[:, None], [6.0], [1.0], 1.0),
        (parabola, [np.inf, 8.0, 4.0], [1.0, 0.2, 0.1], 3.0),
    ]
    return [
        _Kind(columns=x, tilt=tilt, most=most, doubt=doubt, base=level * ones, begin=value - level)
        for x, tilt, most, doubt in rows
    ]


def _of_features(unit: Ratios, level: float, features: Vector) -> _Kind:
    """Return what public features say."""
    ones, each = np.ones(len(features)), features.shape[1]
    return _Kind(
        columns=np.column_stack([ones, features]),
        tilt=[np.inf] + [8.0] * each,
        most=[1.0] + [0.1] * each,
        doubt=1.0,
        base=level * ones,
        begin=_pooled_value(unit) - level,
    )


def _of_states(base: Vector, variance: Vector, actions: Integers | None) -> list[_Kind]:
    """Return the values of the pairs' states; then with what an action does everywhere.

    They were fitted to the same numbers, one for each state: half a unit each is what that adds to
    a likelihood by chance. No pair is far from its state.
    """
    ones = np.ones((len(base), 1))
    columns = [ones]
    names, which = np.unique([] if actions is None else actions, return_inverse=True)
    if 0 < len(names) <= MOST_ACTIONS:
        columns.append(np.column_stack([ones, np.eye(len(names))[which]]))
    return [
        _Kind(
            columns=x,
            tilt=[0.0] + [2.0] * (x.shape[1] - 1),
            most=[np.inf] * x.shape[1],
            doubt=0.5 * len(np.unique(base)),
            base=base,
            base_variance=variance,
            far=0.0,
            anywhere=0.0,
        )
        for x in columns
    ]


def _fits(unit: Ratios, kind: _Kind, people: float) -> Iterator[tuple[Vector, ...]]:
    """Yield fits, the largest tau first, until smaller ones have no hope of being likelier."""
    best, together = -math.inf, max(AT_ONCE // kind.columns.size, 1)
    for at in range(0, len(TAUS), together):
        evidence, *rest = _fit(unit, kind, TAUS[at : at + together], people)
        yield evidence, *rest
        best = max(best, float(evidence.max()))
        if evidence[-1] < best - HOPELESS:
            return


def _fit(unit: Ratios, kind: _Kind, tau: Vector, people: float) -> tuple[Vector, ...]:
    """Return the evidence of a model for each tau, with its values, their squares, own weights.

    Arrays are model x state; those of near, far and any states have one more axis in front.
    """
    columns = kind.columns
    anywhere = kind.anywhere / len(columns)
    shares = np.array([1 - kind.far - anywhere, kind.far, anywhere])[:, None, None]
    spreads = np.square(np.minimum(np.outer(FACTORS, tau), 1.0))[:, :, None]
    deviations = np.minimum(np.outer(tau, kind.tilt), kind.most)
    across = deviations[:, :, None] * deviations[:, None, :]
    theta = np.zeros_like(deviations)
    theta[:, 0] = kind.begin
    for step in range(STEPS):
        # Visits and noise are those at the target, where they are independent of T~ - mu n~.
        mu = np.clip(kind.base + theta @ columns.T, -1, 1)
        n, away = _visits(unit, mu), unit.sums - mu * unit.counts
        noise = np.square(unit.sum_noise) + np.square(mu * unit.count_noise)
        noise += people * n * (1 - mu * mu)
        variance = noise + spreads * (n * n)
        density = np.exp(np.maximum(-0.5 * away * away / variance, -300.0)) / np.sqrt(variance)
        total = (shares * density).sum(axis=0)
        likely = shares * density / total
        # Where a fit begins, many states may seem far: there shares are those of the prior.
        weights = n * ((likely if step else shares) / variance).sum(axis=0)
        information = (columns.T * (weights * n)[:, None, :]) @ columns
        # theta is the deviations times u, whose prior is standard normal.
        scaled = np.eye(columns.shape[1]) + across * information
        if step + 1 < STEPS:
            score = (weights * away) @ columns + (information @ theta[:, :, None])[:, :, 0]
            u = np.linalg.solve(scaled, (deviations * score)[:, :, None])[:, :, 0]
            theta = deviations * u
    evidence = np.log(total).sum(axis=1) - kind.doubt
    evidence -= 0.5 * (np.linalg.slogdet(scaled)[1] + np.square(u).sum(axis=1))
    # y = mu + g/(1 + g D) (T~ - mu n~), g = spread n/v: T~/D where the noise vanishes. D in place
    # of n~ takes away the bias of a ratio.
    divisor = _above_zero(unit.counts, unit.count_noise)
    gains = spreads * n / (noise + spreads * n * divisor)
    gain = (likely * gains).sum(axis=0)
    y = np.clip(mu + gain * away, -1, 1)
    # What a state's own numbers leave of its spread, and of how uncertain its target is.
    left = 1 - gains * divisor
    covariance = across * np.linalg.inv(scaled)
    of_target = ((columns @ covariance) * columns).sum(axis=2) + kind.base_variance
    apart = np.square((gains - gain) * away) + spreads * left + np.square(left) * of_target
    return evidence, y, y * y + (likely * apart).sum(axis=0), gain * divisor
