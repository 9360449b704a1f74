"""Bound how far the sums of neighbours differ: the sensitivity of the one Gaussian mechanism.

| symbol  | here                | shape | public |
|---------|---------------------|-------|--------|
| omega_k | ``shape``           | N     | yes    |
| M_k     | ``largest``         | N, or one for all | yes |
| D_k     | ``furthest``        | N, or one for all | yes |
| H       | ``most_keys``       |       | yes, None means N |
| L       | ``most_trajectories`` |     | yes    |
| Delta   | ``block_sensitivity`` |     | yes    |

A trajectory contributes, at its first visit to each of its first H distinct keys k, one vector
omega_k psi, psi one of the vectors that are possible at k. No possible psi has a squared norm above
M_k, and no two of them a squared distance above D_k. What gets noise is the sum over all
trajectories. Everything here is public; docs/proofs/blocks.md has the proof.
"""

import math

import numpy as np

from privalue.core._arrays import UNIT_ROUNDOFF, Vector, q_largest
from privalue.core.limits import Limits
from privalue.errors import UsageError


def block_sensitivity(
    shape: Vector,
    *,
    largest: float | Vector,
    furthest: float | Vector,
    most_keys: int | None,
    most_trajectories: int = 1,
    add_remove: bool = False,
) -> float:
    """Return Delta: the most that the sums of neighbours differ by, in the norm of Euclid.

    With m_k = omega_k^2 M_k, d_k = omega_k^2 D_k, m'_k = max(m_k, d_k/2), e_k = (d_k - m'_k)_+,

        Delta^2 = the sum of the 2H largest of {m'_k} and {e_k}   (one unit replaced),
        Delta^2 = the sum of the H largest m_k                    (one unit added or removed),

    and L times Delta where a unit has up to L trajectories. A key that both the old and the new
    trajectory visit takes two of 2H places, a key that one of them visits takes one.

    Args:
        shape: omega_k, one number above 0 for every key.
        largest: M_k; it counts where one of two trajectories visits k.
        furthest: D_k; it counts where both do. 0 where only one vector is possible.
        most_keys: H, the keys that a trajectory counts for; None means all.
        most_trajectories: L.
        add_remove: whether neighbours differ by a unit more or less, not by another one.

    Returns:
        Delta, never too small: what rounding does goes up.
    """
    omega = _checked_shape(shape)
    keys = len(omega)
    places = checked_limit(most_keys, keys)
    times = checked_whole("most_trajectories", most_trajectories)
    alone, both = (np.asarray(each, dtype=np.float64) for each in (largest, furthest))
    if not ((alone > 0) & (alone < 1e200) & (both >= 0) & (both < 1e200)).all():
        raise UsageError("largest and furthest must be finite; largest above 0, furthest not below")
    top = float(omega.max())
    squares = np.square(omega / top)  # at most 1: none overflows
    m, d = squares * alone, squares * both
    if not add_remove:
        m = np.maximum(m, d / 2)
        m, places = np.concatenate([m, np.maximum(d - m, 0.0)]), 2 * places
    m = q_largest(m, places)
    # A sum of positive terms is right to 2N roundings. d - m cancels, but wherever it is among the
    # largest so is m, which is no smaller: its error is a few roundings of what is added anyway.
    slack = 2 * (keys + 16) * UNIT_ROUNDOFF
    return times * top * math.sqrt(float(m.sum())) * (1 + slack)


def sensitivity_within(
    limits: Limits, shape: Vector, largest: float | Vector, furthest: float | Vector
) -> float:
    """Return Delta for the unit, the relation, L and H that contributions are held to."""
    return block_sensitivity(
        shape,
        largest=largest,
        furthest=furthest,
        most_keys=limits.max_states_per_trajectory,
        most_trajectories=limits.max_trajectories_per_person,
        add_remove=limits.add_remove,
    )


def _checked_shape(shape: Vector) -> Vector:
    """Return omega, or refuse what is not one finite number above 0 for each key."""
    omega = np.asarray(shape, dtype=np.float64)
    if omega.ndim != 1 or len(omega) == 0 or not ((omega > 0) & (omega < np.inf)).all():
        raise UsageError("shape must be a list of finite numbers above 0, one for each state")
    return omega


def checked_limit(most_keys: int | None, keys: int) -> int:
    """Return min(H, N), or refuse numbers that are none."""
    number = checked_whole("states", keys)
    if most_keys is None:
        return number
    return min(checked_whole("most_states", most_keys), number)


def checked_whole(name: str, value: int) -> int:
    """Return a whole number of at least 1, or refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least 1")
    return int(value)
