"""Spend one budget in several Gaussian stages, each chosen by what was released before it.

| symbol   | here              | public |
|----------|-------------------|--------|
| alpha    | ``alpha``         | yes, 1/mu of the whole release |
| alpha_j  | ``stage_alphas``  | yes, of each stage |
| Delta_j  | ``sensitivity``   | yes, of its vector |

A stage adds noise of standard deviation alpha_j Delta_j to a vector of whole numbers, and is
1/alpha_j-Gaussian-DP whatever was released before. Stages compose exactly: they are mu-GDP together
where the sum of 1/alpha_j^2 is at most mu^2, also if each is chosen by what the earlier ones
released (Smith and Thakurta 2022; docs/proofs/stages.md).

| stage  | what gets noise                                                    | block: M, D  |
|--------|--------------------------------------------------------------------|--------------|
| bounds | trajectories by their largest level                                | 1, 2         |
| values | sums and counts, returns clamped to the interval that was chosen   | see ``_ssp`` |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privalue.core._arrays import Vector
from privalue.core._blocks import sensitivity_within
from privalue.core._terms import Limits
from privalue.errors import StudyError

STAGES = ("bounds", "values")  # in the order in which they are drawn


@dataclass(frozen=True, kw_only=True, eq=False)
class Chosen:
    """What the stages so far chose from what they released; public."""

    level: int  # of the interval that returns are clamped to; the last is the whole range


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """What a stage released; public."""

    name: str
    alpha: float
    numbers: Vector
    noise: float | Vector  # the standard deviation of each number


def stage_alphas(alpha: float, shares: Mapping[str, float]) -> dict[str, float]:
    """Return alpha_j = alpha/sqrt(share_j), rounded up; the values get what is left.

    In exact arithmetic the sum of 1/alpha_j^2 is at most 1/alpha^2: it is checked.
    """
    if not shares:
        return {"values": alpha}
    parts = {name: Fraction(shares[name]) for name in STAGES if name in shares}
    parts["values"] = 1 - sum(parts.values(), start=Fraction(0))
    if not (set(shares) < set(STAGES) and min(parts.values()) > 0):
        raise StudyError(f"[mechanism] stage_shares: {dict(shares)} are no shares of a whole")
    alphas = {name: alpha / math.sqrt(part) * (1 + 2**-50) for name, part in parts.items()}
    spent = sum(1 / Fraction(each) ** 2 for each in alphas.values())
    if spent > 1 / Fraction(alpha) ** 2:  # no assertion: python -O would leave it out
        raise StudyError("[mechanism] stage_shares: these spend more than there is")
    return alphas


def bounds_sensitivity(limits: Limits) -> float:
    """Return Delta of the numbers of trajectories by their largest level."""
    return sensitivity_within(limits, np.ones(1), 1, 2) * (1 + 1e-15)
