"""Audit the guarantee of a study empirically, on synthetic neighbouring data sets.

For two neighbouring data sets let P and Q be the distributions of the output. For every event E,
delta >= P(E) - e^epsilon Q(E). Counting how often E happens in independent draws of P and of Q
bounds delta from below:

    delta >= (lower bound of P(E)) - e^epsilon (upper bound of Q(E)),

each bound by Clopper and Pearson (1934). A claim is rejected if the lower bound exceeds it. An
audit finds bugs; that it does not reject proves nothing. The proofs are in docs/proofs.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import scipy

from privalue import core
from privalue.study import Study, resolve

PLANTED_SHARE = 0.95  # the planted mistake: this share of the noise, which the audit must reject
DRAWS = 60_000  # of either data set; enough to detect that a twentieth of the noise is missing
SEPARATION = 3.0  # the distance of the data sets, in standard deviations, that this takes
_EXTRA_ROWS, _FEW_KEYS = 1000, 20  # rows after which a return stops growing; keys whose sums differ
_DEFAULT_TRAJECTORIES = 1000  # trajectories, if the study declares none
_PEOPLE = [2**k for k in range(25)]  # how many differ: tried until the data sets are far apart

# How many have the smallest returns, how many the largest, how many the smallest at other keys.
_People: TypeAlias = tuple[int, int] | tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A claimed delta, and its estimate from draws, with confidence bounds."""

    epsilon: float
    claimed: float
    lower: float
    estimate: float
    upper: float

    @property
    def rejected(self) -> bool:
        """Return whether the claim is wrong, at the audit's confidence."""
        return self.lower > self.claimed


@dataclass(frozen=True, kw_only=True)
class StageAudit:
    """The audit of one stage of a mechanism, on data sets that differ in ``people`` people."""

    stage: str
    people: int
    sound: Audit  # with the stage's own noise; ``claimed`` is the exact delta of this pair
    planted: Audit  # with a twentieth less noise, which must be rejected
    promised: float  # delta of the study
    worst: float  # a lower bound of delta over synthetic neighbours, at the study's epsilon

    @property
    def rejected(self) -> bool:
        """Return whether the study's own noise is smaller than claimed."""
        return self.sound.rejected or self.worst > self.promised * (1 + 1e-6) + 1e-12


def audit_study(
    study: Study, *, draws: int = DRAWS, entropy: core.Entropy | None = None
) -> list[StageAudit]:
    """Audit the guarantee of a study on synthetic neighbouring data sets; reads no data.

    A delta such as 1e-6 is too small to be measured. So the draws are of data sets that differ in
    several people: the exact delta of that pair is large, and a missing twentieth of the noise is
    detected. The noise is drawn by the same code as in a release.

    Args:
        study: the study; its mechanism is audited with its own epsilon, delta, limits and size.
        draws: how many draws of either data set.
        entropy: the source of randomness; the operating system, if left out.

    Returns:
        An audit of each stage.
    """
    declared, promise = study.study.trajectories or _DEFAULT_TRAJECTORIES, study.privacy
    size = core.PublicSize.of(study.limits, declared, trajectories=declared, persons=declared)
    terms = resolve(study, size)
    mechanism = core.MECHANISMS[terms.mechanism](terms)
    source = entropy or core.OperatingSystemEntropy()
    earlier, audits = dict[str, core.Vector](), list[StageAudit]()
    for stage in mechanism.stages:

        def pair(high: _People, low: _People, keys: int, stage: str = stage) -> "_Pair":
            data_sets = (_extreme_statistics(terms.limits, people, keys) for people in (high, low))
            return _Pair(*(mechanism.perturb(item, stage, earlier) for item in data_sets))

        for people in _PEOPLE:
            distant = pair((0, people), (people, 0), _FEW_KEYS)
            if distant.distance >= SEPARATION / math.sqrt(2):
                break
        if distant.distance > SEPARATION * math.sqrt(2):  # the noise is less among so many people
            among, people = people, math.ceil(people * SEPARATION / distant.distance)
            distant = pair((among - people, people), (among, 0), _FEW_KEYS)
        # One person among others: all returns of this person flip, at the same keys or at as many
        # others as there are; or the person is removed.
        replacements = [(0, 0)] if terms.limits.add_remove else [(1, 0), (0, 1)]
        neighbours = (
            pair((others, others + 1), (others + same, others, moved), terms.limits.keys)
            for others in (0, 1, 32)
            for same, moved in replacements  # a person at the same keys, or at others
        )
        audits.append(
            StageAudit(
                stage=stage,
                people=people,
                sound=distant.audit(1.0, draws, source),
                planted=distant.audit(PLANTED_SHARE, draws, source),
                promised=promise.delta,
                worst=max(item.least_delta(promise.epsilon) for item in neighbours),
            )
        )
        earlier[stage] = np.asarray(distant.first.center, dtype=np.float64)
    return audits


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
    tests = (scipy.stats.binomtest(hits, draws) for hits in (in_p, in_q))
    p, q = (test.proportion_ci(confidence, method="exact") for test in tests)
    scale = math.exp(epsilon)
    return Audit(
        epsilon=epsilon,
        claimed=claimed,
        lower=float(p.low - scale * q.high),
        estimate=(in_p - scale * in_q) / draws,
        upper=float(p.high - scale * q.low),
    )


def _extreme_statistics(limits: core.Limits, people: _People, keys: int) -> core.Statistics:
    """Return the statistics of people whose returns are the smallest possible, and the largest.

    Each has one trajectory more than the limit allows, and visits more keys than the limit allows.
    """
    path = np.arange(min(limits.keys // limits.arms, keys + 1))
    by_person = limits.unit == "person"
    per_person = limits.max_trajectories_per_person + 1 if by_person else 1
    shape = (per_person, len(path) + _EXTRA_ROWS)
    trajectory, step = (axis.ravel() for axis in np.indices(shape, dtype=np.int64))
    ids = np.stack([0 * step, trajectory], axis=1) if by_person else trajectory[:, None]
    ratios = np.full(len(step), 1e3) if limits.clip else None
    totals: dict[str, Any] = defaultdict(int)
    (low, high), first = limits.reward_bounds, limits.max_states_per_trajectory
    for number, reward, shift in zip(people, (low, high, low), (0, 0, first), strict=False):
        visited = np.pad(np.roll(path, -shift), (0, _EXTRA_ROWS), mode="edge")
        sums, rewards = core.Contributions(limits), np.full(len(step), float(reward))
        sums.add(ids[:, :, None], step, visited[step].astype(np.int32), rewards, ratios)
        one_person = sums.finish()
        for name in (*core.ARRAYS, "trajectories"):
            totals[name] = totals[name] + number * getattr(one_person, name)  # not +=: read-only
    return core.Statistics(limits=limits, **totals)


class _Pair:
    """The output distributions of a stage on two data sets, ``first`` and ``second``."""

    def __init__(self, *data_sets: core.mechanisms.Perturbation) -> None:
        self.first, self.second = data_sets
        scales = [float(scale) for scale in self.first.laplace] or self.first.deviations
        self.units = np.broadcast_to(np.asarray(scales, dtype=np.float64), self.first.center.shape)
        self.shift = (self.second.center.astype(np.float64) - self.first.center) / self.units
        # With Laplace noise, the distance in the coordinate that differs most; others only add.
        self.distance = float(np.linalg.norm(self.shift, np.inf if self.first.laplace else 2))

    def exact_delta(self, epsilon: float) -> float:
        """Return the exact delta; with Laplace noise, that of the most shifted coordinate.

        For Laplace noise of scale 1, s apart, it is 1 - e^{(epsilon - s)/2}, or 0 if s <= epsilon.
        """
        if self.first.laplace:
            return max(0.0, -math.expm1((epsilon - self.distance) / 2))
        # The same ratio in every coordinate: scales are public, or there is one scale.
        ratio = float(np.max(self.second.deviations / self.first.deviations))
        return max(
            core.calibration.divergence(epsilon, len(self.shift), scale, distance).estimate
            for scale, distance in ((ratio, self.distance), (1 / ratio, self.distance / ratio))
        )

    def least_delta(self, epsilon: float) -> float:
        """Return a lower bound of delta, over all coordinates of Laplace noise together.

        The event that all k shifted coordinates exceed their centres has probability 2^-k under one
        law and at most e^-s 2^-k under the other; s is the sum of the shifts.
        """
        shifts = abs(self.shift[self.shift != 0])
        together = -(0.5 ** len(shifts)) * math.expm1(epsilon - float(shifts.sum()))
        return max(self.exact_delta(epsilon), together if self.first.laplace else 0.0)

    def audit(self, share: float, draws: int, entropy: core.Entropy) -> Audit:
        """Return the audit of the event that the privacy loss exceeds a level.

        The noise is scaled by ``share``.

        Both distributions have the same scales: a coordinate that is equal in both has no loss.
        """
        shift, distance, laplace = abs(self.shift), self.distance, self.first.laplace
        epsilon = 0.0 if laplace else max(0.0, distance * (distance - SEPARATION) / 2)
        keys = np.array([np.argmax(shift)]) if laplace else np.flatnonzero(shift)
        hits = []
        for data in (self.second, self.first):
            scales = [data.laplace[k] * Fraction(share) for k in keys] if laplace else []
            copies = core.mechanisms.Perturbation(
                center=np.tile(np.asarray(data.center)[keys], draws),
                deviations=np.tile(share * self.units[keys], draws),
                grids=np.tile(np.broadcast_to(data.grids, shift.shape)[keys], draws),
                laplace=tuple(scales * draws),
            )
            samples = core.mechanisms.add_noise(copies, entropy).reshape(draws, len(keys))
            loss = (samples - self.first.center[keys]) / self.units[keys] @ self.shift[keys]
            hits.append(int(np.count_nonzero(loss > distance**2 / 2 + epsilon)))
        exact = self.exact_delta(epsilon)
        return audit_events(*hits, draws=draws, epsilon=epsilon, claimed=exact)
