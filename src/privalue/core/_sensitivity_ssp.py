"""Say what one visit adds to the statistics of DP-SSP: a block with a sum and a count.

| symbol             | here                      | shape | public |
|--------------------|---------------------------|-------|--------|
| omega_s            | ``shape``, of ``_ssp``    | N     | yes    |
| c_w, in units of R | ``count_weight``          |       | yes    |
| H                  | ``most_states``           |       | yes, None means N |
| M, D, in units of R^2 | ``visit_block``        |       | yes    |

What gets noise is, for every state, omega_s T_s and omega_s c_w R n_s, where n_s counts the
trajectories that visit s, and T_s is the sum of their returns less the middle c of the return
bounds, of range R. Everything here is public; docs/proofs/dp-ssp.md has the proofs.
"""

import math

from privalue.core._blocks import checked_limit
from privalue.errors import UsageError


def count_weight(states: int, most_states: int | None, *, add_remove: bool = False) -> float:
    """Return c_w in units of R: sqrt(3)/2, or 1/2 where that is better for every value.

    With sqrt(3)/2 a state that both trajectories visit counts as much as one that only one of
    them visits; where trajectories need not share states, or nothing is replaced, 1/2 gives means
    of smaller variance whatever the values are.
    """
    limit = checked_limit(most_states, states)
    return 0.5 if add_remove or 2 * limit <= states else math.sqrt(3) / 2


def visit_block(count_weight: float) -> tuple[float, float]:
    """Return (M, D) of what a visit adds, (f, c_w) with |f| <= 1/2, in units of R.

    No such vector is longer than M = 1/4 + c_w^2, squared, and no two are further apart than D = 1.
    """
    if not 0 < count_weight < 1e100:
        raise UsageError(f"count_weight is {count_weight!r}; it must be a number above 0")
    return 0.25 + count_weight**2, 1.0
