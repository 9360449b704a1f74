"""Bound how far the statistics of neighbours differ: the sensitivity of DP-SSP, before any data.

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

import numpy as np

from privalue.core._arrays import UNIT_ROUNDOFF, Vector
from privalue.errors import UsageError


def count_weight(states: int, most_states: int | None, *, add_remove: bool = False) -> float:
    """Return c_w in units of R: sqrt(3)/2, or 1/2 where that is better for every value.

    With sqrt(3)/2 a state that both trajectories visit counts as much as one that only one of
    them visits; where trajectories need not share states, or nothing is replaced, 1/2 gives means
    of smaller variance whatever the values are.
    """
    limit = _checked_limit(most_states, states)
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

    With omega sorted downwards, H' = min(H, N), kappa = 1/4 + c_w^2 and P(t) = omega_1^2 + ... +
    omega_t^2, replacing one trajectory gives

        Delta^2 = max_{H' <= t <= min(N, 2H')} [P(2H' - t) + kappa (P(t) - P(2H' - t))]

    for kappa <= 1, where t states are visited by either, and kappa P(min(N, 2H')) for kappa >= 1.
    Adding or removing one gives kappa P(H'). Persons of up to L trajectories: L Delta.

    Args:
        shape: omega_s, one number above 0 for every state.
        most_states: H, the states that a trajectory counts for; None means all.
        trajectories_per_person: L.
        add_remove: whether neighbours differ by a unit more or less, not by another one.
        count_weight: c_w, in units of R.

    Returns:
        Delta, exactly but for rounding, which goes up.
    """
    omega = _checked_shape(shape)
    states = len(omega)
    limit = _checked_limit(most_states, states)
    times = checked_whole("trajectories_per_person", trajectories_per_person)
    if not 0 < count_weight < 1e100:
        raise UsageError(f"count_weight is {count_weight!r}; it must be a number above 0")
    kappa = 0.25 + count_weight**2
    largest = float(omega.max())
    squares = np.sort(np.square(omega / largest))[::-1]  # at most 1: none overflows
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    either = min(states, 2 * limit)
    if add_remove:
        squared = kappa * sums[limit]
    elif kappa >= 1:
        squared = kappa * sums[either]
    else:
        # (1 - kappa) P(2H' - t) + kappa P(t): both terms are positive, so nothing cancels.
        both = sums[2 * limit - either : limit + 1][::-1]  # P(2H' - t) for t = H', ..., either
        squared = ((1 - kappa) * both + kappa * sums[limit : either + 1]).max()
    # Sums of positive terms: each is right to N roundings, and the rest takes a few more.
    slack = 2 * (states + 16) * UNIT_ROUNDOFF
    return times * largest * math.sqrt(float(squared)) * (1 + slack)


def _checked_shape(shape: Vector) -> Vector:
    """Return omega, or refuse what is not one finite number above 0 for each state."""
    omega = np.asarray(shape, dtype=np.float64)
    if omega.ndim != 1 or len(omega) == 0 or not ((omega > 0) & (omega < np.inf)).all():
        raise UsageError("shape must be a list of finite numbers above 0, one for each state")
    return omega


def _checked_limit(most_states: int | None, states: int) -> int:
    """Return H' = min(H, N), or refuse numbers that are none."""
    number = checked_whole("states", states)
    if most_states is None:
        return number
    return min(checked_whole("most_states", most_states), number)


def checked_whole(name: str, value: int) -> int:
    """Return a whole number of at least 1, or refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least 1")
    return int(value)
