"""Say what one visit adds to the statistics of DP-SSP: a block with a sum and a count.

| symbol             | here                      | shape | public |
|--------------------|---------------------------|-------|--------|
| omega_s            | ``shape``                 | N     | yes    |
| c_w, in units of R | ``count_weight``          |       | yes    |
| H                  | ``most_states``           |       | yes, None means N |
| L                  | ``trajectories_per_person`` |     | yes    |
| Delta, in units of R | ``sensitivity``         |       | yes    |

What gets noise is, for every state, omega_s T_s and omega_s c_w R n_s, where n_s counts the
trajectories that visit s, and T_s is the sum of their returns less the middle c of the return
bounds, of range R. Everything here is public; docs/proofs/dp-ssp.md has the proofs.
"""

import math

from privalue.core._arrays import Vector
from privalue.core._blocks import block_sensitivity, checked_limit
from privalue.errors import UsageError


def count_weight(states: int, most_states: int | None, *, add_remove: bool = False) -> float:
    """Return c_w in units of R: sqrt(3)/2, or 1/2 where that is better for every value.

    With sqrt(3)/2 a state that both trajectories visit counts as much as one that only one of
    them visits; where trajectories need not share states, or nothing is replaced, 1/2 gives means
    of smaller variance whatever the values are.
    """
    limit = checked_limit(most_states, states)
    return 0.5 if add_remove or 2 * limit <= states else math.sqrt(3) / 2


def sensitivity(
    shape: Vector,
    *,
    most_states: int | None,
    trajectories_per_person: int = 1,
    add_remove: bool = False,
    count_weight: float,
) -> float:
    """Return Delta, in units of R: the most that the statistics of neighbours differ by.

    A visit adds (f, c_w), |f| <= 1/2: no such vector is longer than M = 1/4 + c_w^2, squared, and
    no two are further apart than D = 1.

    Args:
        shape: omega_s, one number above 0 for every state.
        most_states: H, the states that a trajectory counts for; None means all.
        trajectories_per_person: L.
        add_remove: whether neighbours differ by a unit more or less, not by another one.
        count_weight: c_w, in units of R.

    Returns:
        Delta, exactly but for rounding, which goes up.
    """
    if not 0 < count_weight < 1e100:
        raise UsageError(f"count_weight is {count_weight!r}; it must be a number above 0")
    return block_sensitivity(
        shape,
        largest=0.25 + count_weight**2,
        furthest=1.0,
        most_keys=most_states,
        most_trajectories=trajectories_per_person,
        add_remove=add_remove,
    )
