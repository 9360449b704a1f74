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
| D_s      | ``divisor``  | N     | yes, n~ + s_n^2/n~ where the count is clear |

A model is a kind of target and a tau: theta is normal around 0, and y_s is normal around mu_s, with
the deviation tau for nine states of ten, 5 tau for one in ten, and 1 for hardly any. The result is
the mean over all models, each weighed by how well it explains the noisy numbers. Nothing is divided
by a noisy count: T~ - y n~ has mean 0 at the true y, whatever n is. Post-processing, which costs no
privacy; docs/proofs/shrinkage.md has the reasons, and the errors in many worlds.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from privalue.core import Integers, Vector
from privalue.estimate.ratios import Ratios, plain_values, pool_pairs

TAUS = np.geomspace(1.0, 3e-4, 8)  # in halves of the range of returns
FACTORS = np.array([1.0, 5.0, math.inf])  # near, far and other states are so many tau off, or 1
FAR, OTHER = 0.1, 0.01  # the share of far states, and the number of others: hardly ever one
ANY = math.inf  # of a coefficient that tau says nothing about
STEPS = 3  # of the fit; the last one only says how good it is
MOST_ACTIONS = 100  # more have no effects of their own
AT_ONCE = 10_000  # numbers in the columns of all models that are fitted together
HOPELESS = 40.0  # a model that is less likely by this logarithm says nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrunken:
    """The posterior of the values."""

    means: Vector
    deviations: Vector
    own: Vector  # from 0 to 1: how much of a mean is the state's own ratio, and not its target


class _Kind(NamedTuple):
    """Targets base + X theta, where theta_k has the deviation min(tilt_k tau, most_k)."""

    base: Vector
    columns: Vector
    tilt: list[float]
    most: list[float]
    doubt: float  # how much less likely it is beforehand, as a logarithm
    begin: float = 0.0  # theta_1 where the fit begins
    unsure: Vector | float = 0.0  # the variance of the base
    far: float = FAR
    other: float = OTHER


@np.errstate(all="ignore")
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
        actions: the action of every pair, which may be worth more than others everywhere.
        people: the variance of a return, as a share of the most that it can be; 0 where values are
            the means of those who are in the data.

    Returns:
        Values between the bounds. Nothing may fail once a release is paid for: a value that cannot
        be computed stays as it was.
    """
    low, high = ratios.bounds
    reach, middle, states = 0.5 * high - 0.5 * low, ratios.centre, len(ratios.sums)
    unit = replace(ratios, sums=ratios.sums / reach, sum_noise=ratios.sum_noise / reach)
    one, level = np.ones((states, 1)), np.full(states, (unvisited - middle) / reach)
    value = np.full(states, np.clip(unit.sums.mean() / _mean_visits(unit), -1, 1))
    begin = float(value[0] - level[0])
    if towards is None:
        # Visits at the pooled value are independent of what a state says about itself there: were
        # they taken elsewhere, noise in a count would look like a parabola.
        x = _visits(unit, value)[:, None]
        x = 2 * x / x.max() - 1
        parabola = np.hstack([one, x, 2 * x * x - 1])
        kinds = [
            _Kind(level, one, [ANY], [1.0], 0.0, begin),
            _Kind(level, one, [6.0], [1.0], 1.0, begin),  # near the value of an unvisited state
            _Kind(level, parabola, [ANY, 8.0, 4.0], [1.0, 0.2, 0.1], 3.0, begin),
        ]
    else:
        # Such targets were fitted to the same numbers: by chance alone that adds half a unit to a
        # logarithm of the likelihood for each that is different. No pair is far from its state.
        base, unsure = (towards.means - middle) / reach, np.square(towards.deviations / reach)
        doubt = 0.5 * len(np.unique(base))
        around = _Kind(base, one, [0.0], [1.0], doubt, unsure=unsure, far=0.0, other=0.0)
        kinds = [around]
        names, of_pair = np.unique([] if actions is None else actions, return_inverse=True)
        if 0 < len(names) <= MOST_ACTIONS:
            effects, tilt = np.hstack([one, np.eye(len(names))[of_pair]]), [2.0] * len(names)
            kinds.append(around._replace(columns=effects, tilt=[0.0, *tilt], most=[1.0, *tilt]))
    if features is not None and features.shape[1]:
        tilt, most = [8.0] * features.shape[1], [0.1] * features.shape[1]
        x = np.hstack([one, features])
        kinds.append(_Kind(level, x, [ANY, *tilt], [1.0, *most], 1.0, begin))
    models = []
    for kind in kinds:
        likeliest = -math.inf
        for tau in np.array_split(TAUS, min(kind.columns.size * len(TAUS) // AT_ONCE + 1, 8)):
            try:
                fit = _fit(unit, kind, tau, people)
            except np.linalg.LinAlgError:
                break  # columns that are alike
            models.append(fit)
            likeliest = max(likeliest, fit[0].max())
            if fit[0][-1] < likeliest - HOPELESS:
                break  # smaller tau are worse still
    evidence, *parts = (np.concatenate(part) for part in zip(*models, strict=True))
    weights = np.exp(evidence - evidence.max())
    y, squares, own = (weights @ part / weights.sum() for part in parts)
    deviations = np.sqrt(np.maximum(squares - y * y, 0.0))  # models differ, too
    fine = np.isfinite(y) & np.isfinite(deviations)
    return Shrunken(
        means=np.where(fine, middle + reach * y, plain_values(ratios, unvisited)),
        deviations=np.where(fine, reach * deviations, reach),
        own=np.where(fine, own, 1.0),
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
    whole = shrink(pool_pairs(ratios, states, int(states[-1]) + 1), unvisited, people=people)
    towards = Shrunken(
        means=whole.means[states], deviations=whole.deviations[states], own=whole.own[states]
    )
    return shrink(
        ratios, unvisited, features=features, towards=towards, actions=actions, people=people
    )


def _fit(
    unit: Ratios, kind: _Kind, tau: Vector, people: float
) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the evidence of a model for each tau, with its values, their squares, own weights.

    Arrays are model x state; those of near, far and other states have one more axis in front.
    theta is deviations times u, whose prior is standard normal.
    """
    columns, other = kind.columns, kind.other / len(kind.base)
    shares = np.array([1 - kind.far - other, kind.far, other])[:, None, None]
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
        scaled = np.eye(columns.shape[1]) + across * information
        if step + 1 < STEPS:
            score = (weights * away) @ columns + (information @ theta[:, :, None])[:, :, 0]
            u = np.linalg.solve(scaled, (deviations * score)[:, :, None])[:, :, 0]
            theta = deviations * u
    evidence = np.log(total).sum(axis=1) - kind.doubt
    evidence -= 0.5 * (np.linalg.slogdet(scaled)[1] + np.square(u).sum(axis=1))
    # y = mu + g/(1 + g D) (T~ - mu n~) with g = spread n/v, which is T~/D where noise vanishes; D
    # in place of n~ takes away the bias of a ratio.
    divisor = _above_zero(unit.counts, unit.count_noise)
    gains = spreads * n / (noise + spreads * n * divisor)
    gain = (likely * gains).sum(axis=0)
    y = np.clip(mu + gain * away, -1, 1)
    # A state's own numbers leave so much of its spread, and of how uncertain its target is.
    left = 1 - gains * divisor
    of_target = kind.unsure + (columns @ (across * np.linalg.inv(scaled)) * columns).sum(axis=2)
    apart = np.square((gains - gain) * away) + spreads * left + np.square(left) * of_target
    return evidence, y, y * y + (likely * apart).sum(axis=0), gain * divisor


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


def _mean_visits(unit: Ratios) -> float:
    """Return the mean of all counts, or its own noise if that is more."""
    return max(
        float(unit.counts.mean()), float(np.linalg.norm(unit.count_noise)) / len(unit.counts)
    )


def _above_zero(number: Vector, deviation: Vector) -> Vector:
    """Return the positive n with n - deviation^2/n = number."""
    root = np.hypot(number, 2 * deviation)
    below = 2 * np.square(deviation) / (root + np.abs(number))  # without cancellation
    return np.where(number > 0, 0.5 * (root + number), below)
