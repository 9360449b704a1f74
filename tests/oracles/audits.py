"""Audits of the abstract worst pairs, for which no mechanism is needed."""

from __future__ import annotations

import math

import numpy as np

from privalue.audit import Audit, audit_events


def audit_worst_pairs(
    alpha: float,
    beta: float,
    *,
    dimension: int,
    epsilon: float,
    claimed: float,
    draws: int = 200_000,
    seed: int = 0,
) -> list[Audit]:
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
            here, there = (np.sum((x - at) ** 2, axis=1) / 2 for at in (0.0, shift))
            loss = dimension * math.log(r) + there / r**2 - here
            hits.append(int(np.count_nonzero(loss > epsilon)))
        audits.append(audit_events(*hits, draws=draws, epsilon=epsilon, claimed=claimed))
    return audits
