"""Shrink noisy means towards common targets, as far as the noise requires.

| symbol   | here         | shape | public |
|----------|--------------|-------|--------|
| T~, n~   | ``sums``, ``counts`` | N | yes, noisy; returns are -1 and 1 at the bounds |
| s_T, s_n | ``sum_noise``, ``count_noise`` | N | yes, standard deviations |
| y_s      | ``y``        | N     | yes, the value of a state |
| mu_s     | ``mu``       | N     | yes, its target: base + X theta |
| X        | ``columns``  | N x K | yes    |
| theta    | ``u`` times its prior deviations | K | yes, coefficients |
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
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from privalue.core import Integers, Vector
from privalue.estimate.ratios import Ratios

TAUS = np.geomspace(1.0, 3e-4, 8)  # in halves of the range of returns
FACTORS = np.array([1.0, 5.0, math.inf])  # near, far, other states are so many tau off, or 1
FAR, OTHER = 0.1, 0.01  # the share of far states, and the number of others: hardly ever one
STEPS = 3  # of the fit; the last one only says how good it is
MOST_AT_ONCE = 3_000  # states; with more, taus are tried one by one


class Shrunken(NamedTuple):
    """The posterior of the values."""

    means: Vector
    deviations: Vector
    own: Vector  # from 0 to 1: how much of a mean is the state's own ratio, and not its target


class _Kind(NamedTuple):
    """Targets base + X theta; theta has the prior deviations min(slopes tau, 1)."""

    base: Vector | float
    columns: Vector
    slopes: list[float]
    doubt: float  # how much less likely it is beforehand, as a logarithm
    begin: float = 0.0  # theta_1 where the fit begins
    unsure: Vector | float = 0.0  # the variance of the base
    all_near: bool = False


@np.errstate(all="ignore")
def shrink(
    ratios: Ratios,
    unvisited: float,
    *,
    features: Vector | None = None,
    states: Integers | None = None,
    effects: Vector | None = None,
    people: float = 0.0,
) -> Shrunken:
    """Return the posterior of the values; nothing in it depends on the order of the states.

    Args:
        ratios: of noisy sums and counts.
        unvisited: what a state is worth about which nothing is known.
        features: public features, whose combinations are targets too: one row for each state,
            columns of mean 0, the larger the more they are likely to say.
        states: of keys that are pairs of a state and an action, ascending from 0. Each is drawn
            towards its state: drawn towards what all have in common, a rare action of a bad state
            would look better than the other actions there.
        effects: of pairs: a column for each action that may be worth more than others everywhere.
        people: the variance of a return, as a share of the most that it can be; 0 where values are
            the means of those who are in the data.

    Returns:
        Values between the bounds. Nothing may fail once a release is paid for: a value that cannot
        be computed stays as it was.
    """
    reach = 0.5 * ratios.bounds[1] - 0.5 * ratios.bounds[0]
    unit = replace(ratios, sums=ratios.sums / reach, sum_noise=ratios.sum_noise / reach)
    level = (unvisited - ratios.centre) / reach
    kinds = _common_kinds(unit, level)
    if features is not None and features.size:
        columns = np.hstack([kinds[0].columns, 0.1 * features])
        slopes = [math.inf] + [80.0] * features.shape[1]
        kinds.append(kinds[0]._replace(columns=columns, slopes=slopes, doubt=1.0))
    if states is not None:
        whole = unit.pooled(states)
        of_state = _posterior(whole, _common_kinds(whole, level), people)
        own = _own_kinds(of_state.means[states], of_state.deviations[states], effects)
        kinds = own + kinds[3:]  # the features, if any
    y, deviations, weights = _posterior(unit, kinds, people)
    fine = np.isfinite(y) & np.isfinite(deviations)
    return Shrunken(
        means=np.where(fine, ratios.centre + reach * y, ratios.plain(unvisited)),
        deviations=np.where(fine, reach * deviations, reach),
        own=np.where(fine, weights, 1.0),
    )


def _common_kinds(unit: Ratios, level: float) -> list[_Kind]:
    """Return targets that all states have in common: a constant, or a parabola of visits."""
    one = np.ones((len(unit.sums), 1))
    value = np.clip(unit.sums.mean() / _mean_visits(unit), -1, 1)
    # Visits at the pooled value are independent of what a state says about itself there: were they
    # taken elsewhere, noise in a count would look like a parabola.
    x = _visits(unit, value)[:, None]
    x = 2 * x / x.max() - 1
    bent = np.hstack([one, 0.2 * x, 0.1 * (2 * x * x - 1)])
    constant = _Kind(level, one, [math.inf], doubt=0.0, begin=float(value) - level)
    near = constant._replace(slopes=[6.0], doubt=1.0)
    parabola = constant._replace(columns=bent, slopes=[math.inf, 40.0, 40.0], doubt=3.0)
    return [constant, near, parabola]


def _own_kinds(base: Vector, deviations: Vector, effects: Vector | None) -> list[_Kind]:
    """Return targets that each pair has for itself, without and with effects of actions.

    They were fitted to the same numbers: by chance alone that adds half a unit to a logarithm of
    the likelihood for each that is different. No pair is far from its state.
    """
    doubt, nothing = 0.5 * len(np.unique(base)), np.empty((len(base), 0))
    alone = _Kind(base, nothing, [], doubt, unsure=np.square(deviations), all_near=True)
    if effects is None:
        return [alone]
    return [alone, alone._replace(columns=2 * effects, slopes=[1.0] * effects.shape[1])]


def _posterior(unit: Ratios, kinds: list[_Kind], people: float) -> Shrunken:
    """Return the mean over all models, weighed by their evidence, as a logarithm below ``most``."""
    most, whole, sums = -math.inf, 0.0, np.zeros((3, len(unit.sums)))
    parts = 1 if len(unit.sums) <= MOST_AT_ONCE else len(TAUS)
    for kind, taus in product(kinds, np.split(TAUS, parts)):
        with suppress(np.linalg.LinAlgError):  # columns that are alike
            evidence, columns = _fit(unit, kind, taus, people)
            higher = max(most, evidence.max())
            before, now = np.exp(most - higher), np.exp(evidence - higher)
            whole, sums = before * whole + now.sum(), before * sums + now @ columns
            most = higher
    y, squares, own = sums / whole
    return Shrunken(y, np.sqrt(np.maximum(squares - y * y, 0.0)), own)  # models differ, too


def _fit(unit: Ratios, kind: _Kind, taus: Vector, people: float) -> tuple[Vector, Vector]:
    """Return the evidence for each tau, with values, their squares, and own weights.

    The last axis of an array is the states, the one before it the taus; near, far and other states
    come before these. theta is its prior deviations times u, which is standard normal beforehand.
    """
    count, size = kind.columns.shape
    far, other = (0.0, 0.0) if kind.all_near else (FAR, OTHER / count)
    shares = np.array([1 - far - other, far, other])[:, None, None]
    spreads = np.square(np.minimum(np.multiply.outer(FACTORS, taus), 1.0))[:, :, None]
    deviations = np.minimum(np.multiply.outer(taus, kind.slopes), 1.0)
    columns = deviations[:, :, None] * kind.columns.T
    u = np.zeros((len(taus), 1, size))
    u[:, 0, :1] = kind.begin / deviations[:, :1]
    for step in range(STEPS):
        # Visits and noise are those at the target, where they are independent of T~ - mu n~.
        mu = np.clip(kind.base + (u @ columns)[:, 0], -1, 1)
        n, away = _visits(unit, mu), unit.sums - mu * unit.counts
        noise = np.square(unit.sum_noise) + np.square(mu * unit.count_noise)
        noise += people * n * (1 - mu * mu)
        variance = noise + spreads * (n * n)
        density = np.exp(np.maximum(-0.5 * away * away / variance, -300.0))
        density *= shares / np.sqrt(variance)
        total = density.sum(axis=0)
        # Where a fit begins, many states may seem far: shares are those of the prior.
        likely = density / total if step else shares
        weights = (n * (likely / variance).sum(axis=0))[:, None]
        weighted = weights * columns
        information = (weighted * n[:, None]) @ columns.mT
        precision = np.eye(size) + information
        if step + 1 < STEPS:
            score = away[:, None] @ weighted.mT + u @ information
            u = np.linalg.solve(precision, score.mT).mT
    evidence = np.log(total).sum(axis=1) - kind.doubt
    evidence -= 0.5 * (np.linalg.slogdet(precision)[1] + np.square(u).sum(axis=(1, 2)))
    # y = mu + g/(1 + g D) (T~ - mu n~) with g = spread n/v, which is T~/D where noise vanishes; D
    # in place of n~ takes away the bias of a ratio.
    divisor = _above_zero(unit.counts, unit.count_noise)
    gains = spreads * n / (noise + spreads * n * divisor)
    gain = (likely * gains).sum(axis=0)
    y = np.clip(mu + gain * away, -1, 1)
    # A state's own numbers leave so much of its spread, and of how uncertain its target is.
    left = 1 - gains * divisor
    of_target = kind.unsure + (columns * (np.linalg.inv(precision) @ columns)).sum(axis=1)
    apart = np.square((gains - gain) * away) + spreads * left + np.square(left) * of_target
    return evidence, np.array([y, y * y + (likely * apart).sum(axis=0), gain * divisor])


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
    counts = unit.counts
    return max(float(counts.mean()), float(np.linalg.norm(unit.count_noise)) / len(counts))


def _above_zero(number: Vector, deviation: Vector) -> Vector:
    """Return the positive n with n - deviation^2/n = number."""
    root = np.hypot(number, 2 * deviation)
    below = 2 * np.square(deviation) / (root + np.abs(number))  # without cancellation
    return np.where(number > 0, 0.5 * (root + number), below)
