"""Estimate delta at the claimed epsilon from draws, with a confidence bound.

For two neighbouring data sets let P and Q be the laws of what is released, and L = ln(dP/dQ). For
every event E, delta >= P(E) - e^epsilon Q(E), with equality for E = {L > epsilon}. Counting how
often an event happens in independent draws of either bounds delta from below:

    delta >= (lower bound of P(E)) - e^epsilon (upper bound of Q(E)),

each bound by Clopper and Pearson (1934). A claim is rejected if the lower bound exceeds it. An
audit can only reject: that it accepts proves nothing, and proofs are elsewhere. It finds bugs; so
the event must not trust the code: one half of the releases chooses it, the other half is counted.

Seeded draws here come from numpy; releases go through the public path.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from privalue.core import (
    Entropy,
    Lsl,
    Lsw,
    Ope,
    Perturbation,
    Ssp,
    Stage,
    Statistics,
    Vector,
    divergence,
)
from privalue.curator import inspect, release
from privalue.estimate import estimates_of
from privalue.releases import Release
from privalue.study import Study


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A claimed delta beside what draws say of it: bounds, and an estimate."""

    epsilon: float
    claimed: float
    lower: float
    estimate: float
    upper: float
    draws: int
    true: float | None = None  # delta of this very pair, where its laws are known

    @property
    def rejected(self) -> bool:
        """Return whether the claim is wrong, at the audit's confidence."""
        return self.lower > self.claimed

    @property
    def slack(self) -> float | None:
        """Return how many times larger the claim is than the pair's true delta."""
        return None if not self.true else self.claimed / self.true


def audit_events(
    in_p: int, in_q: int, *, draws: int, epsilon: float, claimed: float, confidence: float = 0.9999
) -> Audit:
    """Return the audit of two counts: how often an event E happened under P and under Q.

    Args:
        in_p: how often, in ``draws`` draws of P.
        in_q: likewise of Q.
        draws: how many draws there were of either.
        epsilon: as claimed.
        claimed: delta as claimed.
        confidence: of both bounds together.

    Returns:
        Bounds on P(E) - e^epsilon Q(E), the claim beside them.
    """
    tail = (1 - confidence) / 2
    scale = math.exp(epsilon)

    def low(hits: int) -> float:
        return 0.0 if hits == 0 else float(scipy.stats.beta.ppf(tail, hits, draws - hits + 1))

    def high(hits: int) -> float:
        return (
            1.0 if hits == draws else float(scipy.stats.beta.ppf(1 - tail, hits + 1, draws - hits))
        )

    return Audit(
        epsilon=epsilon,
        claimed=claimed,
        lower=low(in_p) - scale * high(in_q),
        estimate=(in_p - scale * in_q) / draws,
        upper=high(in_p) - scale * low(in_q),
        draws=draws,
    )


def audit_release(
    study: Study,
    data: Any,
    neighbour: Any,
    *,
    releases: int = 500,
    entropy: Callable[[], Entropy | None] = lambda: None,
) -> Audit:
    """Audit releases of two neighbouring data sets, made through the public path.

    Releases are ranked by the loss that they should have; the threshold is chosen on one half of
    them and counted on the other, so that noise which is not what it should be shows. ``true`` is
    the delta of the two Gaussians as they should be, and ``slack`` what the worst case costs.

    Args:
        study: whose epsilon and delta are the claim.
        data: one data set.
        neighbour: a data set that differs from it in one unit.
        releases: how many of either are counted; as many again choose the threshold.
        entropy: makes the source of each release; the operating system's, if it returns None.

    Returns:
        The audit of this pair.
    """
    epsilon, claimed = study.privacy.epsilon, study.privacy.delta
    inspected = [inspect(study, rows) for rows in (data, neighbour)]
    here, there = (each.perturbation for each in inspected)
    mechanism = inspected[0].mechanism
    center, other_center = (each.center / here.deviations for each in (here, there))
    ratio = there.sigma / here.sigma
    loss = _loss(center, other_center, ratio)
    losses = []
    for rows in (data, neighbour):
        released = [
            release(study, rows, accept_large_delta=True, accept_useless=True, entropy=entropy())
            for _ in range(2 * releases)
        ]
        if isinstance(mechanism, Ssp):
            both = inspected[0].statistics, inspected[1].statistics
            losses.append(np.array([_loss_in_stages(mechanism, *both, r) for r in released]))
        elif isinstance(mechanism, Ope):
            losses.append(_losses_of_weights(mechanism, here, there, released))
        else:
            losses.append(loss(_drawn(study, released, mechanism, here)))
    threshold = _best_threshold(losses[0][:releases], losses[1][:releases], epsilon)
    in_p, in_q = (int(np.count_nonzero(each[releases:] > threshold)) for each in losses)
    found = audit_events(in_p, in_q, draws=releases, epsilon=epsilon, claimed=claimed)
    if isinstance(mechanism, Ssp) and "bounds" in mechanism.stages:
        return found  # what the values add depends on what the stage before them chose
    if isinstance(mechanism, Ope):
        return found  # the delta of a pair is 0 at its own loss
    distance = float(np.linalg.norm(center - other_center))
    true = divergence(epsilon, len(center), ratio, distance).estimate
    return Audit(**{**vars(found), "true": true})


def _losses_of_weights(
    mechanism: Ope, here: Perturbation, there: Perturbation, released: list[Release]
) -> Vector:
    """Return the log of the probability of each release under one data set over the other."""
    units = np.repeat(mechanism.scales, mechanism.terms.limits.keys)
    one, other = here.center / units, there.center / units
    found = []
    for each in released:
        weights = each.weights
        assert weights is not None
        parts = (weights.weighted, weights.weights, weights.returns, weights.sizes)
        drawn = np.concatenate(
            [part / scale for part, scale in zip(parts, weights.scales, strict=False)]
        )
        found.append(float((abs(drawn - other) - abs(drawn - one)).sum()))
    return np.array(found)


def _loss_in_stages(
    mechanism: Ssp, here: Statistics, there: Statistics, released: Release
) -> float:
    """Return the log of the density of a release under one data set over that under the other.

    Stage by stage: what earlier ones chose follows from what they released, so that given it both
    laws of a stage are Gaussians of the same public scale.
    """
    loss, earlier = 0.0, list[Stage]()
    for stage in released.stages or ():
        p, q = (mechanism.perturb(each, stage.name, earlier) for each in (here, there))
        if stage.numbers is not None:
            numbers = np.array(stage.numbers)
        else:
            kept = released.statistics
            assert kept is not None  # every release of dp-ssp has them
            numbers = np.concatenate([np.array(kept.sums) / mechanism.noise.step, kept.counts])
        away = (numbers - q.center) ** 2 - (numbers - p.center) ** 2
        loss += float(np.sum(away / (2 * np.square(p.deviations))))
        earlier.append(Stage(name=stage.name, alpha=stage.alpha, numbers=numbers, sigma=None))
    return loss


def _best_threshold(in_p: Vector, in_q: Vector, epsilon: float) -> float:
    """Return the threshold above which P(L > t) - e^epsilon Q(L > t) is largest in these draws."""
    thresholds = np.concatenate([[epsilon], np.sort(np.concatenate([in_p, in_q]))])
    above_p = 1 - np.searchsorted(np.sort(in_p), thresholds, side="right") / len(in_p)
    above_q = 1 - np.searchsorted(np.sort(in_q), thresholds, side="right") / len(in_q)
    return float(thresholds[np.argmax(above_p - math.exp(epsilon) * above_q)])


def _drawn(
    study: Study, released: list[Release], mechanism: Ssp | Lsw | Lsl, here: Perturbation
) -> Vector:
    """Return what was drawn, in units of the noise, computed from what was released."""
    thetas = np.array([each.theta for each in released])
    identity = np.eye(thetas.shape[1])  # theta is linear in what was drawn
    matrix = np.array([estimates_of(study, mechanism, column).theta for column in identity])
    return np.asarray(np.linalg.solve(matrix.T, thetas.T).T / here.deviations)


def _loss(center: Vector, other_center: Vector, ratio: float) -> Callable[[Vector], Vector]:
    """Return L, the log of the density of N(center, I) over that of N(other, ratio^2 I), by row."""
    dimension = len(center)

    def loss(x: Vector) -> Vector:
        here = np.sum((x - center) ** 2, axis=1) / 2
        there = np.sum((x - other_center) ** 2, axis=1) / (2 * ratio**2)
        return np.asarray(dimension * math.log(ratio) + there - here)

    return loss
