"""Compare arms: differences of their values, and the overall value of the policy in each.

| symbol       | here      | shape | public |
|--------------|-----------|-------|--------|
| G, N         | ``arms``  |       | yes: arms, and states of each; values are arm after arm |
| V_g          | ``values``| N     | yes, the values of arm g; the first arm is arm 0 |
| I_g          | ``low``, ``high`` | N | yes, an interval of each value |

Post-processing. If I_g and I_0 each cover with probability (1 + level)/2, both do with probability
``level`` at least, whatever hangs together with what. Then the difference lies from the lower end
of I_g less the upper end of I_0 to the upper end of I_g less the lower end of I_0: intervals of any
kind give such intervals of differences (docs/proofs/arms.md). Bands cover all values of all arms
at once already, and are subtracted as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.estimate._statistics import Estimates

At = Callable[[float, Vector | None], Estimates]  # estimates at a level, from a start distribution


Ends = dict[str, tuple[float, float]]  # low and high, by the beginning of their names: "", "total_"


@dataclass(frozen=True, kw_only=True)
class ArmPolicy:
    """What the policy as a whole is worth in one arm, and how much more than in the first."""

    value: float
    ends: Ends
    difference: float | None = None
    difference_ends: Ends | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ArmEstimates:
    """The differences of the other arms from the first one, by the names of ``Estimates``."""

    differences: dict[str, NDArray[Any]]  # (G - 1) N of each, arm after arm
    policies: tuple[ArmPolicy, ...] = ()  # of every arm, where there is a start distribution


def level_of_each(level: float) -> float:
    """Return the level at which two intervals must cover, so that both do at ``level``."""
    return (1 + level) / 2


def by_arm(at: At, *, arms: int, level: float, start: Vector | None) -> Estimates:
    """Return the estimates of all arms, with their differences.

    Args:
        at: returns the estimates at a level, and the policy's number from a start over all keys.
        arms: G, at least 2.
        level: of every interval, those of differences included.
        start: a distribution over the states of an arm, or None.

    Returns:
        The estimates at the level; ``arms`` has the differences.
    """
    whole, each = at(level, None), at(level_of_each(level), None)
    first, others = slice(0, len(whole.values) // arms), slice(len(whole.values) // arms, None)

    def less(more: Vector, fewer: Vector) -> Vector:
        return more[others] - np.tile(fewer[first], arms - 1)

    found: dict[str, NDArray[Any]] = {"value": less(whole.values, whole.values)}
    for field in fields(Estimates):
        if field.name.endswith("low"):
            low, high = field.name, f"{field.name.removesuffix('low')}high"
            source = whole if "band" in low else each
            ends = getattr(source, low), getattr(source, high)
            if ends[0] is not None:
                found |= {low: less(*ends), high: less(*ends[::-1])}
    if whole.supported is not None:
        found["supported"] = whole.supported[others] & np.tile(whole.supported[first], arms - 1)
    return replace(
        whole,
        arms=ArmEstimates(
            differences=found,
            policies=() if start is None else _policies(at, arms, level, start),
        ),
    )


def _policies(at: At, arms: int, level: float, start: Vector) -> tuple[ArmPolicy, ...]:
    """Return the overall value of the policy in each arm, and the difference from the first."""

    def numbers(arm: int, level: float) -> tuple[float, Ends]:
        inside = np.zeros(arms * len(start))
        inside[arm * len(start) : (arm + 1) * len(start)] = start
        found = at(level, inside)
        assert found.policy_value is not None
        kinds = {"": "policy_interval", "total_": "policy_total"}
        ends = {kind: getattr(found, name, None) for kind, name in kinds.items()}
        return found.policy_value, {kind: pair for kind, pair in ends.items() if pair is not None}

    policies = []
    first, least = numbers(0, level_of_each(level))
    for arm in range(arms):
        value, ends = numbers(arm, level)
        policy = ArmPolicy(value=value, ends=ends)
        if arm:
            _, wider = numbers(arm, level_of_each(level))
            apart = {
                kind: (low - least[kind][1], high - least[kind][0])
                for kind, (low, high) in wider.items()
            }
            policy = replace(policy, difference=value - first, difference_ends=apart)
        policies.append(policy)
    return tuple(policies)
