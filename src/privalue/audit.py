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
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from privalue.core import (
    MECHANISMS,
    Contributions,
    Entropy,
    Lsl,
    Lsw,
    Ope,
    OperatingSystemEntropy,
    Perturbation,
    PublicSize,
    Ssp,
    Stage,
    Statistics,
    Vector,
    add_noise,
    divergence,
)
from privalue.curator import inspect, release
from privalue.estimate import theta_of
from privalue.releases import Release
from privalue.study import Study, resolve


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
    matrix = np.array([theta_of(study, mechanism, column) for column in identity])
    return np.asarray(np.linalg.solve(matrix.T, thetas.T).T / here.deviations)


def _loss(center: Vector, other_center: Vector, ratio: float) -> Callable[[Vector], Vector]:
    """Return L, the log of the density of N(center, I) over that of N(other, ratio^2 I), by row."""
    dimension = len(center)

    def loss(x: Vector) -> Vector:
        here = np.sum((x - center) ** 2, axis=1) / 2
        there = np.sum((x - other_center) ** 2, axis=1) / (2 * ratio**2)
        return np.asarray(dimension * math.log(ratio) + there - here)

    return loss


# The audit of a study, on made-up data.

PLANTED = 0.95  # of the noise: what the audit must reject to be worth anything
DRAWS = 60_000  # of either data set; enough to see that a twentieth of the noise lacks
APART = 3.0  # how many standard deviations apart made-up data sets should be for that
_LONG, _FEW = 1000, 20  # rows after which a return is as large as it gets; keys that are moved
_MADE_UP = 1000  # trajectories, where the study declares none


@dataclass(frozen=True, kw_only=True)
class StageAudit:
    """One stage of a study's mechanism: made-up data sets so many people apart."""

    stage: str
    people: int
    sound: Audit  # its own noise; ``claimed`` is the exact delta of this pair
    planted: Audit  # a twentieth less, which must be rejected


@dataclass(frozen=True, kw_only=True)
class StudyAudit:
    """What an audit of a study says: the exact delta of its worst neighbours, and draws."""

    epsilon: float
    claimed: float
    worst: float  # exact delta, at epsilon, of made-up neighbours; of the last stage alone
    stages: tuple[StageAudit, ...]

    @property
    def rejected(self) -> bool:
        """Return whether the study's own noise is not what it should be."""
        too_near = self.worst > self.claimed * (1 + 1e-6) + 1e-12
        return too_near or any(stage.sound.rejected for stage in self.stages)

    @property
    def planted_rejected(self) -> bool:
        """Return whether every planted mistake was rejected."""
        return all(stage.planted.rejected for stage in self.stages)


def audit_study(study: Study, *, draws: int = DRAWS, entropy: Entropy | None = None) -> StudyAudit:
    """Try to break the guarantee of a study, on made-up neighbours; reads no data.

    A delta such as 1e-6 is too small to be measured. So the draws are of data sets that differ in
    several people: the exact delta of that pair is large, and noise that lacks a twentieth shows.
    The noise is drawn by the code that draws a release's.

    Args:
        study: whose mechanism, with its own epsilon, delta, limits and size, is audited.
        draws: how many of either data set.
        entropy: where noise comes from; the operating system, if left out.
    """
    declared = study.study.trajectories or _MADE_UP
    size = PublicSize.of(study.limits, declared, trajectories=declared, persons=declared)
    terms = resolve(study, size)
    mechanism = MECHANISMS[terms.mechanism](terms)
    assert isinstance(mechanism, Ssp | Lsw | Lsl | Ope)
    limits, epsilon = mechanism.terms.limits, study.privacy.epsilon
    source, earlier, audits = entropy or OperatingSystemEntropy(), list[Stage](), []
    for name, alpha in mechanism.stages.items():

        def pair(here: list[int], there: list[int], keys: int) -> tuple[Perturbation, Perturbation]:
            both = (_made_up(mechanism, ends, keys) for ends in (here, there))
            one, other = (mechanism.perturb(each, name, earlier) for each in both)  # noqa: B023
            return one, other

        people = 1
        while _distance(*pair([1] * people, [0] * people, _FEW)) < APART / math.sqrt(2):
            people *= 2
            if people > _MADE_UP:
                break
        apart = pair([1] * people, [0] * people, _FEW)
        sound, planted = (_audit_pair(*apart, share, draws, source) for share in (1.0, PLANTED))
        audits.append(StageAudit(stage=name, people=people, sound=sound, planted=planted))
        # One person among others, all of whose returns flip; or who is not there at all.
        neighbours = [
            pair([1, *others], others if limits.add_remove else [0, *others], limits.keys)
            for others in ([], [0, 1], [0, 1] * 32)
        ]
        worst = max(_exact(*each, epsilon) for each in neighbours)
        numbers = np.asarray(apart[0].center, dtype=np.float64)
        earlier.append(Stage(name=name, alpha=alpha, numbers=numbers, sigma=None))
    claimed = study.privacy.delta or 0.0
    return StudyAudit(epsilon=epsilon, claimed=claimed, worst=worst, stages=tuple(audits))


def _made_up(mechanism: Ssp | Lsw | Lsl | Ope, ends: list[int], keys: int) -> Statistics:
    """Return the statistics of people, the returns of each as large (1) or small (0) as can be.

    Each has one trajectory more than may count, and visits more keys than may.
    """
    limits = mechanism.terms.limits
    path = np.arange(min(limits.keys // limits.arms, keys + 1))
    path = np.concatenate([path, np.full(_LONG, path[-1])])
    owned = limits.max_trajectories_per_person + 1 if limits.by_person else 1
    person, trajectory, step = (
        axis.ravel() for axis in np.indices((len(ends), owned, len(path)), dtype=np.int64)
    )
    ids = np.stack([person, trajectory], axis=1) if limits.by_person else person[:, None]
    rewards = np.array(limits.reward_bounds, dtype=np.float64)[np.array(ends, dtype=int)[person]]
    ratios = np.full(len(step), 1e3) if limits.clip else None
    sums = Contributions(limits)
    sums.add(ids[:, :, None], step, path[step].astype(np.int32), rewards, ratios)
    return sums.finish()


def _units(at: Perturbation) -> Vector:
    """Return the scale of the noise of each number: deviations, or scales of Laplace noise."""
    if at.laplace:
        return np.array([float(scale) for scale in at.laplace])
    return np.broadcast_to(np.asarray(at.deviations, dtype=np.float64), np.shape(at.center))


def _shift(here: Perturbation, there: Perturbation) -> Vector:
    away: Vector = np.asarray(there.center, dtype=np.float64) - here.center
    return away / _units(here)


def _distance(here: Perturbation, there: Perturbation) -> float:
    """Return how far apart the centres are; with Laplace noise, of the number that moves most."""
    shift = _shift(here, there)
    return float(abs(shift).max() if here.laplace else np.linalg.norm(shift))


def _exact(here: Perturbation, there: Perturbation, epsilon: float) -> float:
    """Return the exact delta of the two laws; of Laplace noise, of the number that moves most.

    For Laplace noise of scale 1, s apart, it is 1 - e^{(epsilon - s)/2}, or 0 if s <= epsilon.
    """
    distance = _distance(here, there)
    if here.laplace:
        return max(0.0, -math.expm1((epsilon - distance) / 2))
    ratio, dimension = there.sigma / here.sigma, len(here.center)
    both = (
        divergence(epsilon, dimension, ratio, distance),
        divergence(epsilon, dimension, 1 / ratio, distance / ratio),
    )
    return max(each.estimate for each in both)


def _audit_pair(
    here: Perturbation, there: Perturbation, share: float, draws: int, entropy: Entropy
) -> Audit:
    """Count how often the loss exceeds a level, in draws of both with this share of the noise.

    The two laws have the same scales, so that numbers which do not move tell nothing.
    """
    shift, distance = _shift(here, there), _distance(here, there)
    epsilon = 0.0 if here.laplace else max(0.0, distance * (distance - APART) / 2)
    moved = np.array([np.argmax(abs(shift))]) if here.laplace else np.flatnonzero(shift)
    hits = []
    for at in (there, here):
        scales = [at.laplace[k] * Fraction(share) for k in moved] if at.laplace else []
        copies = Perturbation(
            center=np.tile(np.asarray(at.center)[moved], draws),
            deviations=np.tile(share * _units(at)[moved], draws),
            grids=np.tile(np.broadcast_to(at.grids, shift.shape)[moved], draws),
            laplace=tuple(scales * draws),
            psi=at.psi,
            sigma=at.sigma,
            calibration=at.calibration,
        )
        drawn = add_noise(copies, entropy).reshape(draws, len(moved)) - here.center[moved]
        along = drawn / _units(here)[moved] @ shift[moved] / distance
        hits.append(int(np.count_nonzero(along > distance / 2 + epsilon / distance)))
    exact = _exact(here, there, epsilon)
    return audit_events(*hits, draws=draws, epsilon=epsilon, claimed=exact)
