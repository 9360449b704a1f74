"""Shrink noisy means towards common targets, the noisier the further.

| symbol   | here         | shape | public |
|----------|--------------|-------|--------|
| T~, n~   | ``sums``, ``counts`` | N | yes, noisy; returns are -1 and 1 at the bounds |
| s_T, s_n | ``sum_noise``, ``count_noise`` | N | yes, standard deviations |
| y_s      | ``y``        | N     | yes, the value of a state |
| mu_s     | ``mu``       | N     | yes, its target: base + X theta |
| X        | ``columns``  | N x K | yes    |
| theta    | ``u`` times its prior deviations | K | yes, coefficients |
| tau      | ``tau``      |       | yes, how far values are from their targets |
| n_s      | ``n``        | N     | yes, estimated visits, above 0 |
| v_s      | ``noise``    | N     | yes, the variance of T~ - mu n~ if mu is the value |
| D_s      | ``divisor``  | N     | yes, n~ + s_n^2/n~ where the count is clear |

A model is a target and a tau: theta is normal around 0, and y_s is normal around mu_s, with the
standard deviation tau for nine states of ten, 5 tau for one in ten, and 1 for hardly any. The
result is the average over all models, weighted by their evidence. Nothing is divided by a noisy
count: T~ - y n~ has mean 0 at the true y, whatever n is. Post-processing, which costs no privacy;
docs/proofs/shrinkage.md has the reasons, and the errors in many worlds.
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
SPREAD_FACTORS = np.array([1.0, 5.0, math.inf])  # times tau, at most 1: near, far, other states
FAR, OTHER = 0.1, 0.01  # the share of far states; the expected number of other states
STEPS = 3  # of the fit; the last one only computes its evidence
MAX_STATES_AT_ONCE = 3_000  # with more states taus are fitted one by one, to save memory


class Posterior(NamedTuple):
    """The posterior of the values."""

    means: Vector
    deviations: Vector
    own_share: Vector  # from 0 to 1: the weight of the state's own ratio, against its target


class _Target(NamedTuple):
    """Targets base + X theta, where theta has the prior deviations min(slopes tau, 1)."""

    base: Vector | float
    columns: Vector
    slopes: list[float]
    penalty: float  # subtracted from the log evidence: the prior of the target
    initial: float = 0.0  # theta_1 at the start of the fit
    base_variance: Vector | float = 0.0
    is_near: bool = False  # whether no state is far from it


@np.errstate(all="ignore")
def shrink(
    ratios: Ratios,
    unvisited: float,
    *,
    features: Vector | None = None,
    states: Integers | None = None,
    effects: Vector | None = None,
    sampling: float = 0.0,
) -> Posterior:
    """Return the posterior of the values; the order of the states makes no difference.

    Args:
        ratios: noisy sums and counts.
        unvisited: the value of a state without any information.
        features: public features, whose linear combinations are targets too: a row for each state,
            columns of mean 0, scaled by how much they are expected to explain.
        states: of keys that are pairs of a state and an action: their states, ascending from 0.
            Pairs are shrunk towards their state: shrunk towards a common target, a rare action of a
            bad state would look better than the other actions there.
        effects: of pairs: a column for each action that may be better or worse in all states.
        sampling: the sampling variance of a return, as a share of its largest possible variance; 0
            to estimate the means of those in the data.

    Returns:
        Values within the bounds. Nothing may fail after the charge: a value that cannot be computed
        keeps its ratio.
    """
    half_range = 0.5 * ratios.bounds[1] - 0.5 * ratios.bounds[0]
    scaled = replace(ratios, sums=ratios.sums / half_range, sum_noise=ratios.sum_noise / half_range)
    fallback = (unvisited - ratios.centre) / half_range
    targets = _common_targets(scaled, fallback)
    if features is not None and features.size:
        columns = np.hstack([targets[0].columns, 0.1 * features])
        slopes = [math.inf] + [80.0] * features.shape[1]
        targets.append(targets[0]._replace(columns=columns, slopes=slopes, penalty=1.0))
    if states is not None:
        by_state = scaled.pool(states)
        v = _posterior(by_state, _common_targets(by_state, fallback), sampling)
        own = _state_targets(v.means[states], v.deviations[states], effects)
        targets = own + targets[3:]  # the features, if any
    y, deviations, weights = _posterior(scaled, targets, sampling)
    is_finite = np.isfinite(y) & np.isfinite(deviations)
    return Posterior(
        means=np.where(is_finite, ratios.centre + half_range * y, ratios.divide(unvisited)),
        deviations=np.where(is_finite, half_range * deviations, half_range),
        own_share=np.where(is_finite, weights, 1.0),
    )


def _common_targets(scaled: Ratios, fallback: float) -> list[_Target]:
    """Return targets for all states in common: a constant, or a parabola of visits."""
    ones = np.ones((len(scaled.sums), 1))
    value = np.clip(scaled.sums.mean() / _mean_visits(scaled), -1, 1)
    # At the pooled value, estimated visits are independent of the state's residual; at any other
    # value, noise of counts would look like a parabola.
    x = _visits(scaled, value)[:, None]
    x = 2 * x / x.max() - 1
    curve = np.hstack([ones, 0.2 * x, 0.1 * (2 * x * x - 1)])
    constant = _Target(fallback, ones, [math.inf], penalty=0.0, initial=float(value) - fallback)
    near = constant._replace(slopes=[6.0], penalty=1.0)
    parabola = constant._replace(columns=curve, slopes=[math.inf, 40.0, 40.0], penalty=3.0)
    return [constant, near, parabola]


def _state_targets(base: Vector, deviations: Vector, effects: Vector | None) -> list[_Target]:
    """Return targets of pairs: the values of their states, without and with effects of actions.

    They were fitted to the same numbers, which by chance alone adds half a unit to the log
    likelihood for each distinct target. No pair is far from its state.
    """
    penalty, empty = 0.5 * len(np.unique(base)), np.empty((len(base), 0))
    own = _Target(base, empty, [], penalty, base_variance=np.square(deviations), is_near=True)
    if effects is None:
        return [own]
    return [own, own._replace(columns=2 * effects, slopes=[1.0] * effects.shape[1])]


def _posterior(scaled: Ratios, targets: list[_Target], sampling: float) -> Posterior:
    """Return the average over all models, weighted by their evidence, relative to ``peak``."""
    peak, total, sums = -math.inf, 0.0, np.zeros((3, len(scaled.sums)))
    parts = 1 if len(scaled.sums) <= MAX_STATES_AT_ONCE else len(TAUS)
    for target, taus in product(targets, np.split(TAUS, parts)):
        with suppress(np.linalg.LinAlgError):  # collinear columns
            evidence, columns = _fit(scaled, target, taus, sampling)
            new_peak = max(peak, evidence.max())
            old, new = np.exp(peak - new_peak), np.exp(evidence - new_peak)
            total, sums = old * total + new.sum(), old * sums + new @ columns
            peak = new_peak
    y, squares, own_share = sums / total
    return Posterior(y, np.sqrt(np.maximum(squares - y * y, 0.0)), own_share)  # models differ, too


def _fit(scaled: Ratios, target: _Target, taus: Vector, sampling: float) -> tuple[Vector, Vector]:
    """Return the log evidence for each tau, with values, their squares, and own shares.

    Axes of arrays end with taus and states; before these comes the component: near, far, other.
    theta is its prior deviations times u, whose prior is standard normal.
    """
    count, size = target.columns.shape
    far, other = (0.0, 0.0) if target.is_near else (FAR, OTHER / count)
    shares = np.array([1 - far - other, far, other])[:, None, None]
    spreads = np.square(np.minimum(np.multiply.outer(SPREAD_FACTORS, taus), 1.0))[:, :, None]
    deviations = np.minimum(np.multiply.outer(taus, target.slopes), 1.0)
    columns = deviations[:, :, None] * target.columns.T
    u = np.zeros((len(taus), 1, size))
    u[:, 0, :1] = target.initial / deviations[:, :1]
    for step in range(STEPS):
        # At the target, visits and noise are independent of T~ - mu n~.
        mu = np.clip(target.base + (u @ columns)[:, 0], -1, 1)
        n, residual = _visits(scaled, mu), scaled.sums - mu * scaled.counts
        noise = np.square(scaled.sum_noise) + np.square(mu * scaled.count_noise)
        noise += sampling * n * (1 - mu * mu)
        variance = noise + spreads * (n * n)
        density = np.exp(np.maximum(-0.5 * residual * residual / variance, -300.0))
        density *= shares / np.sqrt(variance)
        total = density.sum(axis=0)
        # At the start of a fit many states may seem far: responsibilities are those of the prior.
        responsibility = density / total if step else shares
        weights = (n * (responsibility / variance).sum(axis=0))[:, None]
        weighted = weights * columns
        information = (weighted * n[:, None]) @ columns.mT
        precision = np.eye(size) + information
        if step + 1 < STEPS:
            score = residual[:, None] @ weighted.mT + u @ information
            u = np.linalg.solve(precision, score.mT).mT
    evidence = np.log(total).sum(axis=1) - target.penalty
    evidence -= 0.5 * (np.linalg.slogdet(precision)[1] + np.square(u).sum(axis=(1, 2)))
    # y = mu + g/(1 + g D) (T~ - mu n~) with g = spread n/v, which tends to T~/D without noise; D in
    # place of n~ reduces the bias of a ratio.
    divisor = _above_zero(scaled.counts, scaled.count_noise)
    gains = spreads * n / (noise + spreads * n * divisor)
    gain = (responsibility * gains).sum(axis=0)
    y = np.clip(mu + gain * residual, -1, 1)
    # The share of the spread and of the target's uncertainty that the state's own ratio leaves.
    remaining = 1 - gains * divisor
    v_mu = target.base_variance + (columns * (np.linalg.inv(precision) @ columns)).sum(axis=1)
    v_y = np.square((gains - gain) * residual) + spreads * remaining + np.square(remaining) * v_mu
    return evidence, np.array([y, y * y + (responsibility * v_y).sum(axis=0), gain * divisor])


def _visits(scaled: Ratios, y: Vector) -> Vector:
    """Return estimated visits, if y is the value.

    (n~ + y q T~)/(1 + y^2 q), where q = s_n^2/s_T^2, is the best fit to both noisy numbers, and is
    independent of T~ - y n~: a state's weight does not depend on its residual. The prior mean of
    visits is the mean of all counts: where most states are empty, a few visits are noise.
    """
    slope = y * np.square(scaled.count_noise / scaled.sum_noise)
    denominator = 1 + y * slope
    noise = scaled.count_noise / np.sqrt(denominator)
    fitted = (scaled.counts + slope * scaled.sums) / denominator
    return _above_zero(fitted - np.square(noise) / _mean_visits(scaled), noise)


def _mean_visits(scaled: Ratios) -> float:
    """Return the mean of all counts, or the standard deviation of its noise if that is more."""
    counts = scaled.counts
    return max(float(counts.mean()), float(np.linalg.norm(scaled.count_noise)) / len(counts))


def _above_zero(number: Vector, deviation: Vector) -> Vector:
    """Return the positive n with n - deviation^2/n = number."""
    root = np.hypot(number, 2 * deviation)
    below = 2 * np.square(deviation) / (root + np.abs(number))  # without cancellation
    return np.where(number > 0, 0.5 * (root + number), below)
