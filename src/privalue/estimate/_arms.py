"""Compare arms: differences of their values, and the overall value of the policy in each.

| symbol    | here        | shape | public |
|-----------|-------------|-------|--------|
| G, N      | ``arms``    |       | yes: arms, and states of each; values are arm after arm |
| V_g       | ``values``  | N     | yes, the values of arm g; the first arm is arm 0 |
| x_g, I_g  | ``Located`` | N     | yes: V_g by its own sum and count, and its total interval |

Post-processing. Nobody is in two arms, and the noise of different keys is independent, so that
half-widths add up as squares (``difference_ends``). Where one person may have trajectories in two
arms, they are added up, and the intervals of both cover at (1 + level)/2: then both do with
probability ``level`` at least, whatever hangs together with what (docs/proofs/arms.md). Bands cover
all values of all arms at once already.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.estimate._totals import Ends, Located, difference_ends


@dataclass(frozen=True, kw_only=True)
class Overall:
    """What the policy as a whole is worth, with the ends of its intervals."""

    value: float
    interval: tuple[float, float] | None = None  # None where the noise is a secret
    total: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class ArmPolicy:
    """What the policy as a whole is worth in one arm, and how much more than in the first."""

    overall: Overall
    difference: float | None = None
    difference_total: tuple[float, float] | None = None
    supported: bool = False  # every state with weight is, in both arms


@dataclass(frozen=True, kw_only=True, eq=False)
class ArmEstimates:
    """The differences of the other arms from the first one, by the names of ``Estimates``."""

    differences: dict[str, NDArray[Any]]  # (G - 1) N of each, arm after arm
    policies: tuple[ArmPolicy, ...] = ()  # of every arm, where there is a start distribution


def level_of_each(level: float) -> float:
    """Return the level at which two intervals must cover, so that both do at ``level``."""
    return (1 + level) / 2


def arm_differences(
    values: Vector,
    supported: NDArray[np.bool_],
    own: Vector,
    totals: Ends,
    bands: Ends,
    *,
    arms: int,
    bounds: tuple[float, float],
    independent: bool,
) -> dict[str, NDArray[Any]]:
    """Return the differences of the other arms' values from the first's, with their intervals.

    Args:
        values: of all arms, arm after arm.
        supported: of each.
        own: the ratios of the noisy sums and counts.
        totals: the ends of total intervals, at ``level_of_each`` where arms are not independent.
        bands: those of the total band.
        arms: G, at least 2.
        bounds: of returns.
        independent: whether nobody is in two arms.
    """
    each = len(values) // arms

    def less(ends: Ends) -> Ends:
        first = [np.tile(column[:each], arms - 1) for column in (own, *ends)]
        others = [column[each:] for column in (own, *ends)]
        more, fewer = (Located(own=own, low=low, high=high) for own, low, high in (others, first))
        low, high = difference_ends(more, fewer, bounds, independent=independent)
        return np.minimum(low, value), np.maximum(high, value)

    value = values[each:] - np.tile(values[:each], arms - 1)
    low, high = less(totals)
    band_low, band_high = less(bands)
    return {
        "value": value,
        "total_low": low,
        "total_high": high,
        "total_band_low": np.minimum(low, band_low),
        "total_band_high": np.maximum(high, band_high),
        "supported": supported[each:] & np.tile(supported[:each], arms - 1),
    }


def policies_by_arm(
    found: list[Overall],
    located: list[Located],
    supported: list[bool],
    bounds: tuple[float, float],
    *,
    independent: bool,
) -> tuple[ArmPolicy, ...]:
    """Return the overall value of the policy in each arm, and the difference from the first.

    Args:
        found: of each arm.
        located: of each, at ``level_of_each`` where arms are not independent.
        supported: whether every state with weight is, in each.
        bounds: of returns.
        independent: whether nobody is in two arms.
    """
    policies = [ArmPolicy(overall=overall) for overall in found[:1]]
    for overall, place, own in zip(found[1:], located[1:], supported[1:], strict=True):
        apart = overall.value - found[0].value
        low, high = difference_ends(place, located[0], bounds, independent=independent)
        ends = min(float(low[0]), apart), max(float(high[0]), apart)
        policies.append(
            ArmPolicy(
                overall=overall,
                difference=apart,
                difference_total=ends,
                supported=own and supported[0],
            )
        )
    return tuple(policies)
