"""DP-SSP before the data: how far the statistics of neighbours differ, and the shape of the noise.

| symbol             | here                      | shape | public |
|--------------------|---------------------------|-------|--------|
| omega_s            | ``shape``                 | N     | yes    |
| c_w, in units of R | ``count_weight``          |       | yes    |
| H                  | ``most_states``           |       | yes, None means N |
| L                  | ``trajectories_per_person`` |     | yes    |
| p_s                | ``prior``                 | N     | yes, a guess |
| Delta, in units of R | ``sensitivity``         |       | yes    |

What gets noise is, for every state, omega_s T_s and omega_s c_w R n_s, where n_s counts the
trajectories that visit s, and T_s is the sum of their returns less the middle c of the return
bounds, of range R. Everything here is public; docs/proofs/dp-ssp.md has the proofs.
"""

import math

import numpy as np
from numpy.typing import NDArray

from privalue.errors import StudyError, UsageError

Vector = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-53
_LEAST_SHARE = 0.1  # of what an even split gives each state: a prior may be wrong
_FLOORS = 16  # shapes that are compared
_SPREAD = 1 / 12  # the variance of values spread evenly over a range of 1
_USUAL_ERROR = 1e-3  # of that variance: the noise at a typical state where m is not known


def count_weight(states: int, most_states: int | None, *, add_remove: bool = False) -> float:
    """c_w in units of R: sqrt(3)/2, or 1/2 where that is better for every value.

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
    """Delta, in units of R: how far the statistics of neighbours are apart, exactly; rounded up.

    With omega sorted downwards, H' = min(H, N), kappa = 1/4 + c_w^2 and P(t) = omega_1^2 + ... +
    omega_t^2, replacing one trajectory gives

        Delta^2 = max_{H' <= t <= min(N, 2H')} [P(2H' - t) + kappa (P(t) - P(2H' - t))]

    for kappa <= 1, where t states are visited by either, and kappa P(min(N, 2H')) for kappa >= 1.
    Adding or removing one gives kappa P(H'). Persons of up to L trajectories: L Delta.
    """
    omega = _checked_shape(shape)
    states = len(omega)
    limit = _checked_limit(most_states, states)
    times = _checked_whole("trajectories_per_person", trajectories_per_person)
    if not 0 < count_weight < 1e100:
        raise UsageError(f"count_weight is {count_weight!r}; it must be a number above 0")
    kappa = 0.25 + count_weight**2
    largest = float(omega.max())
    squares = np.sort(np.square(omega / largest))[::-1]
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    either = min(states, 2 * limit)
    if add_remove:
        squared = kappa * sums[limit]
    elif kappa >= 1:
        squared = kappa * sums[either]
    else:
        both = sums[2 * limit - either : limit + 1][::-1]  # P(2H' - t) for t = H', ..., either
        squared = ((1 - kappa) * both + kappa * sums[limit : either + 1]).max()
    # Sums of positive terms: each is right to N roundings, and the rest takes a few more.
    slack = 2 * (states + 16) * _UNIT_ROUNDOFF
    return times * largest * math.sqrt(float(squared)) * (1 + slack)


def shape_weights(
    prior: Vector | None,
    states: int,
    *,
    most_states: int | None = None,
    add_remove: bool = False,
    expected_trajectories: int | None = None,
    alpha: float | None = None,
) -> Vector:
    """omega: how precisely to release each state; the largest is 1, and read-only.

    Ones without a prior. With one, the omega that promises the smallest error of the means: at
    noise q_s = K/(omega_s p_s)^2, K = (alpha Delta/m)^2 (1 + 1/(12 c_w^2)), a state whose value
    is spread evenly over the range is off by tau^2 q_s/(tau^2 + q_s), tau^2 = R^2/12. Where Delta
    is the norm of omega, the sum of these is least for

        omega_s^2 = (u/p_s - k/p_s^2)_+,  k = K/(tau Delta)^2,

    which gives up on states that have no hope; u makes the squares sum to 1. Since a prior may be
    wrong, no state gets less than a tenth of an even share; and where trajectories count for few
    states, it costs nothing to raise the small omega: of some floors the best is taken.

    Args:
        prior: p_s, a public guess of the probability that a trajectory visits s; 0 is allowed.
        states: N.
        most_states: H.
        add_remove: whether neighbours differ by a trajectory more or less.
        expected_trajectories: m as far as it is public; without it the noise is taken to be 1% of
            the range at the typical state.
        alpha: of the calibration; needed with ``expected_trajectories``.
    """
    number = _checked_whole("states", states)
    if prior is None:
        return _read_only(np.ones(number))
    p = np.array(prior, dtype=np.float64)
    if p.shape != (number,) or not ((p >= 0) & (p <= 1)).all():
        raise StudyError(
            f"[states] visits must be {number} probabilities from 0 to 1, one for each state"
        )
    if not p.any():
        return _read_only(np.ones(number))
    p = np.maximum(p, 1e-12)
    weight = count_weight(number, most_states, add_remove=add_remove)
    typical = float(p @ p / p.sum())
    unit = _USUAL_ERROR * _SPREAD * typical**2 / number  # K at Delta = 1
    if expected_trajectories is not None:
        m = _checked_whole("expected_trajectories", expected_trajectories)
        if alpha is None or not 0 < alpha < math.inf:
            raise UsageError(f"alpha is {alpha!r}; with expected_trajectories it must be above 0")
        unit = (alpha / m) ** 2 * (1 + 1 / (12 * weight**2))
    squares = _best_squares(p, unit / _SPREAD)
    least = _LEAST_SHARE / (1 - _LEAST_SHARE) / number  # the squares sum to 1
    best, least_error = squares, math.inf
    for floor in np.geomspace(least, max(float(squares.max()), least), _FLOORS):
        candidate = np.maximum(squares, floor)
        delta = sensitivity(
            np.sqrt(candidate), most_states=most_states, add_remove=add_remove, count_weight=weight
        )
        noise = unit * delta**2 / (candidate * p**2)
        error = float(np.sum(noise / (1 + noise / _SPREAD)))
        if error < least_error:
            best, least_error = candidate, error
    return _read_only(np.sqrt(best / best.max()))


def _best_squares(p: Vector, k: float) -> Vector:
    """(u/p_s - k/p_s^2)_+, with u such that they sum to 1.

    The states with the largest p take part; if the first j do, u = (1 + k sum 1/p^2)/(sum 1/p),
    and they are the right ones where u p_s > k for these and no others.
    """
    order = np.sort(p)[::-1]
    u = (1 + k * np.cumsum(order**-2.0)) / np.cumsum(1 / order)
    taking_part = int(np.count_nonzero(u * order > k))
    return np.asarray(np.maximum(u[taking_part - 1] / p - k / p**2, 0.0))


def _checked_shape(shape: Vector) -> Vector:
    omega = np.asarray(shape, dtype=np.float64)
    if omega.ndim != 1 or len(omega) == 0 or not ((omega > 0) & (omega < np.inf)).all():
        raise UsageError("shape must be a list of finite numbers above 0, one for each state")
    return omega


def _checked_limit(most_states: int | None, states: int) -> int:
    number = _checked_whole("states", states)
    if most_states is None:
        return number
    return min(_checked_whole("most_states", most_states), number)


def _checked_whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least 1")
    return int(value)


def _read_only(array: Vector) -> Vector:
    array.setflags(write=False)
    return array
