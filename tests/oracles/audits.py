"""Audits of the abstract worst pairs, and of releases made through the public path."""

import math
from dataclasses import dataclass

import numpy as np

import privalue as pv
from privalue.core import Ope, Ssp, calibration
from privalue.estimate import theta_of
from privalue.planning.audit import Audit, audit_events


def audit_worst_pairs(alpha, beta, *, dimension, epsilon, claimed, draws=200_000, seed=0):
    """One audit for each of three ratios of scales, with the shift at its limit.

    N(0, I) against N(s e_1, r^2 I), r = e^{-beta/2}, 1, e^{beta/2} and s = min(1, r)/alpha: no
    mechanism with these constants is worse (docs/proofs/calibration.md).
    """
    generator = np.random.default_rng(seed)
    audits = []
    for r in (math.exp(-beta / 2), 1.0, math.exp(beta / 2)):
        shift = np.zeros(dimension)
        shift[0] = min(1.0, r) / alpha
        hits = []
        for mean, scale in ((0.0, 1.0), (shift, r)):
            x = mean + scale * generator.standard_normal((draws, dimension))
            hits.append(int(np.count_nonzero(gaussian_loss(x, 0.0, shift, r) > epsilon)))
        audits.append(audit_events(*hits, draws=draws, epsilon=epsilon, claimed=claimed))
    return audits


def gaussian_loss(x, center, other, ratio):
    """The log of the density of N(center, I) over that of N(other, ratio^2 I), by row."""
    here, there = (np.sum((x - at) ** 2, axis=1) / 2 for at in (center, other))
    return x.shape[1] * math.log(ratio) + there / ratio**2 - here


@dataclass(frozen=True, kw_only=True)
class ReleaseAudit(Audit):
    """With the delta of this very pair, where its laws are known."""

    true: float | None

    @property
    def slack(self):
        """How many times larger the claim is than the pair's true delta."""
        return self.claimed / self.true if self.true else None


def audit_release(study, data, neighbour, *, releases=500, entropy=lambda: None):
    """Audit releases of two data sets that differ in one unit, made through the public path.

    Releases are ranked by the loss that they should have; the threshold is chosen on one half of
    them and counted on the other, so that wrong noise shows. ``true`` is
    the delta of the two Gaussians as they should be, and ``slack`` what the worst case costs.
    """
    epsilon, claimed = study.privacy.epsilon, study.privacy.delta
    diagnostics = [pv.inspect(study, rows) for rows in (data, neighbour)]
    losses = []
    for rows in (data, neighbour):
        samples = [
            pv.release(study, rows, accept_large_delta=True, accept_useless=True, entropy=entropy())
            for _ in range(2 * releases)
        ]
        losses.append(np.array(losses_of(study, diagnostics, samples)))
    threshold = best_threshold(losses[0][:releases], losses[1][:releases], epsilon)
    hits = (int(np.count_nonzero(part[releases:] > threshold)) for part in losses)
    audit = audit_events(*hits, draws=releases, epsilon=epsilon, claimed=claimed)
    return ReleaseAudit(**vars(audit), true=true_delta(diagnostics, epsilon))


def true_delta(diagnostics, epsilon):
    """The delta of the two Gaussians; None of Laplace noise, and where a stage chose the bounds."""
    mechanism, (here, there) = diagnostics[0].mechanism, (side.perturbation for side in diagnostics)
    if isinstance(mechanism, Ope) or "bounds" in mechanism.stages:
        return None
    distance = float(np.linalg.norm((here.center - there.center) / here.deviations))
    return calibration.divergence(
        epsilon, len(here.center), float(np.max(there.deviations / here.deviations)), distance
    ).estimate


def losses_of(study, diagnostics, releases):
    """The log of the density of each release under one data set over that under the other."""
    mechanism, (here, there) = diagnostics[0].mechanism, (side.perturbation for side in diagnostics)
    if isinstance(mechanism, Ssp):
        both = [side.statistics for side in diagnostics]
        return [loss_in_stages(mechanism, *both, release) for release in releases]
    if isinstance(mechanism, Ope):
        return [loss_of_weights(mechanism, here, there, release.weights) for release in releases]
    identity = np.eye(len(here.center))  # theta is linear in what was drawn
    matrix = np.array([theta_of(study, mechanism, {"values": column}) for column in identity])
    samples = np.linalg.solve(matrix.T, np.array([release.theta for release in releases]).T).T
    x, p, q = (vector / here.deviations for vector in (samples, here.center, there.center))
    return gaussian_loss(x, p, q, float(np.max(there.deviations / here.deviations)))


def loss_of_weights(mechanism, here, there, weights):
    units = np.repeat(mechanism.scales, mechanism.terms.limits.keys)
    parts = (weights.weighted, weights.weights, weights.returns, weights.sizes)
    numbers = np.concatenate([x / s for x, s in zip(parts, weights.scales, strict=False)])
    return float((abs(numbers - there.center / units) - abs(numbers - here.center / units)).sum())


def loss_in_stages(mechanism, here, there, release):
    """Stage by stage: what earlier ones chose follows from what they released.

    Given that, both laws of a stage are Gaussians of the same public scale.
    """
    loss, earlier = 0.0, {}
    for stage in release.stages:
        p, q = (mechanism.perturb(data, stage.name, earlier) for data in (here, there))
        numbers = stage.numbers
        if numbers is None:
            statistics = release.statistics
            numbers = np.concatenate([statistics.sums / mechanism.noise.step, statistics.counts])
        away = (numbers - q.center) ** 2 - (numbers - p.center) ** 2
        loss += float(np.sum(away / (2 * np.square(p.deviations))))
        earlier[stage.name] = numbers
    return loss


def best_threshold(in_p, in_q, epsilon):
    """The threshold above which P(L > t) - e^epsilon Q(L > t) is largest in these draws."""
    thresholds = np.concatenate([[epsilon], np.sort(np.concatenate([in_p, in_q]))])
    above_p, above_q = (
        1 - np.searchsorted(np.sort(losses), thresholds, side="right") / len(losses)
        for losses in (in_p, in_q)
    )
    return float(thresholds[np.argmax(above_p - math.exp(epsilon) * above_q)])
