"""Choose what a study leaves open: beta, and how precisely each state is released.

| symbol   | here             | shape | public                                      |
|----------|------------------|-------|---------------------------------------------|
| omega_s  | ``shape_weights``| N     | yes                                         |
| p_s      | ``prior``        | N     | yes, a guess of the probability of a visit  |
| beta     | ``automatic_beta`` |     | yes                                         |

These are heuristics about error, not about privacy: any public omega and any public beta are
private, and the core computes the noise that the chosen ones need. Nothing here sees data.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privalue.core import (
    Integers,
    Limits,
    Vector,
    block_sensitivity,
    count_weight,
    exact_alpha,
    largest_beta,
    privacy_profile,
    visit_block,
)
from privalue.errors import StudyError, UsageError

if TYPE_CHECKING:
    from privalue.study._study import Study

_LEAST_SHARE = 0.1  # of what an even split gives each state: a prior may be wrong
_FLOORS = 16  # shapes that are compared
_SPREAD = 1 / 12  # the variance of values spread evenly over a range of 1
# Variances that values may have, in units of R^2: spread out, or ever more alike; all are judges.
SPREADS = (_SPREAD, 0.06**2, 0.012**2, 0.0024**2, 0.0005**2)
SHAPED_FOR = (SPREADS[0], SPREADS[2])  # those for which shapes are made
_LOSS = 1.05  # how much larger than with an even shape errors may be, whatever the spread
UNKNOWN_VISITS = 0.05  # of noise that beta may cost, where nothing is known of visits
_STEADY = 1e-5  # computed ln alpha may fall by less than this where the true one does not
_NEAR = 1.0  # alphas so near to each other, by ln beta, tell what is between them
_CLOSE = 1e-7  # of ln delta, where an alpha is looked for between others
_USUAL_ERROR = 1e-3  # of that variance: the noise at a typical state where m is not known


def automatic_beta(
    epsilon: float,
    delta: float,
    dimension: int,
    predicted_psi: Callable[[float], float],
    *,
    room: float = 0.0,
) -> float:
    """Return the largest beta with nearly the least predicted noise, alpha(beta) sqrt(psi(beta)).

    A larger beta lets the noise fall sooner as visits come in, but makes all of it larger. Where
    visits are guessed, states may be rarer than the guess: below their threshold, which falls as
    beta grows, noise is larger by orders of magnitude, and a little of it is a fair price.

    Args:
        epsilon: of the values alone.
        delta: likewise.
        dimension: d, how many numbers get noise.
        predicted_psi: psi as a function of beta, at counts that are guessed from public numbers.
        room: how much larger than the least the noise may be, as a share.

    Returns:
        beta, rounded to six digits.
    """

    noise = _Noise(epsilon, delta, dimension, predicted_psi)
    highest = math.log(largest_beta(epsilon, delta, dimension)) - 1e-3
    low, high = highest - math.log(1e4), highest
    for points in (25, 9, 9):
        grid = np.linspace(low, high, points).tolist()
        at = noise.smallest(grid)
        low, high, best = grid[max(at - 1, 0)], grid[min(at + 1, points - 1)], grid[at]
    if room:
        most, largest = noise.at(best) + math.log1p(room), min(highest, best + math.log(1e4))
        while largest - best > 0.01:
            middle = 0.5 * (best + largest)
            best, largest = (middle, largest) if noise.within(middle, most) else (best, middle)
    return float(f"{math.exp(best):.6g}")  # six digits: a number that people can copy


class _Noise:
    """The predicted noise by ln beta, with as little of the costly search for alphas as will do.

    alpha does not fall as beta grows, since a larger beta allows neighbours more. So each alpha
    that is known bounds those of larger betas from below and those of smaller ones from above.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        dimension: int,
        predicted_psi: Callable[[float], float],
    ) -> None:
        self._promise, self._psi = (epsilon, delta, dimension), predicted_psi
        # ln alpha by ln beta, as far as it is known; without any beta d does not matter.
        self._alphas = {-math.inf: math.log(exact_alpha(epsilon, delta, 1, 0.0))}

    def at(self, log_beta: float) -> float:
        """Return ln alpha + (ln psi)/2."""
        if log_beta not in self._alphas:
            self._alphas[log_beta] = self._log_alpha(log_beta)
        return self._alphas[log_beta] + self._half_log_psi(log_beta)

    def smallest(self, grid: list[float]) -> int:
        """Return which of some ln beta, in order, has the least noise.

        The middle one of those that may still be the least is computed next: it is a bound for all
        to its right.
        """
        psi = {log_beta: self._half_log_psi(log_beta) for log_beta in grid}
        found: dict[float, float] = {}
        while True:
            least = min(found.values(), default=math.inf)
            doubtful = [
                log_beta
                for log_beta in grid
                if log_beta not in found
                and self._least_alpha(log_beta) + psi[log_beta] <= least + _STEADY
            ]
            if not doubtful:
                return grid.index(min(found, key=found.__getitem__))
            chosen = doubtful[len(doubtful) // 2]
            found[chosen] = self.at(chosen)

    def within(self, log_beta: float, most: float) -> bool:
        """Return whether the noise is at most so much."""
        psi = self._half_log_psi(log_beta)
        if self._least_alpha(log_beta) + psi > most + _STEADY:
            return False
        above = [known for at, known in self._alphas.items() if at >= log_beta]
        return min(above, default=math.inf) + psi <= most - _STEADY or self.at(log_beta) <= most

    def _least_alpha(self, log_beta: float) -> float:
        """Return a number that ln alpha is not below."""
        return max(known for at, known in self._alphas.items() if at <= log_beta)

    def _half_log_psi(self, log_beta: float) -> float:
        return 0.5 * math.log(self._psi(math.exp(log_beta)))

    def _log_alpha(self, log_beta: float) -> float:
        """Return ln alpha: between neighbours that are near, or else by the certified search."""
        left = max(at for at in self._alphas if at < log_beta)
        right = min((at for at in self._alphas if at > log_beta), default=math.inf)
        found = None
        if right - left < _NEAR:
            ends = (left, self._alphas[left]), (right, self._alphas[right])
            found = _log_alpha_between(*self._promise, log_beta, *ends)
        return math.log(exact_alpha(*self._promise, math.exp(log_beta))) if found is None else found


@lru_cache(maxsize=4096)
def _log_alpha_between(
    epsilon: float,
    delta: float,
    dimension: int,
    log_beta: float,
    left: tuple[float, float],
    right: tuple[float, float],
) -> float | None:
    """Return ln alpha by a few secants, or None if they lead nowhere.

    Nothing is certified here: the core does so for the beta that is chosen.

    Args:
        epsilon: of the values alone.
        delta: likewise.
        dimension: d.
        log_beta: ln beta.
        left: a smaller ln beta, and its ln alpha.
        right: a larger one, and its ln alpha.
    """
    share = (log_beta - left[0]) / (right[0] - left[0])
    guess = left[1] + share * (right[1] - left[1])
    steepness = -2 * math.log(delta)  # of ln delta by ln alpha, as in a Gaussian's tail
    before: tuple[float, float] | None = None
    for _ in range(6):
        found = privacy_profile(math.exp(guess), math.exp(log_beta), dimension, epsilon).estimate
        excess = math.log(max(found, 1e-300) / (delta * (1 - 2e-6)))  # as the certified search
        if abs(excess) < _CLOSE:
            return guess
        if before is not None and guess != before[0]:
            steepness = (before[1] - excess) / (guess - before[0])
        if not steepness > 0:
            break
        before, guess = (guess, excess), guess + excess / steepness
    return None


def guessed_counts(study: "Study", trajectories: int) -> Integers:
    """Return the visits to expect of every state, minus three standard deviations.

    They follow from public numbers alone. p_s is the study's prior of visits; without one it is
    1/N, 2/N, ..., 1: anything from a state that one trajectory in N visits to one that all visit.
    Three digits are kept, since it is a guess.
    """
    p = study.visit_prior
    if p is None:
        p = np.arange(1, study.state_count + 1) / study.state_count
    expected = trajectories * p
    low = expected - 3 * np.sqrt(expected * (1 - p))
    counts = np.maximum(np.floor(low), 0).astype(np.int64)
    digit = 10 ** np.maximum(np.floor(np.log10(np.maximum(counts, 1))).astype(np.int64) - 2, 0)
    return np.asarray(counts // digit * digit)


def shape_weights(
    limits: Limits,
    prior: Vector | None,
    *,
    expected_trajectories: int | None = None,
    alpha: float | None = None,
    shrinkage: bool = True,
) -> Vector:
    """Return omega: how precisely to release each state; the largest is 1.

    Without a prior they are all 1. With one, at noise q_s = K/(omega_s p_s)^2,
    K = (alpha Delta/m)^2 (1 + 1/(12 c_w^2)), a state is off by tau^2 q_s/(tau^2 + q_s), if values
    spread by tau^2. If Delta is the norm of omega, the sum of these is least for

        omega_s^2 = (u/p_s - k/p_s^2)_+,  k = K/(tau Delta)^2,

    which gives up on states that have no hope; u makes the squares sum to 1. A prior may be wrong,
    so no state gets less than a tenth of an even share. If trajectories count for few states only,
    it costs nothing to raise the small omega, so several floors are compared. Nobody knows tau, and
    the more values are alike, the less it helps to know a rare state well. So every shape is
    compared with an even one for several tau: none of its errors may be larger by more than 5%, and
    their geometric mean decides. Without shrinkage, noise counts in full: the largest tau decides.

    Args:
        limits: N, H, L and the relation; noise is L times as large.
        prior: p_s, a public guess of the probability that a trajectory visits s; 0 is allowed.
        expected_trajectories: m as far as it is public; without it the noise is taken to be 1% of
            the range at the typical state.
        alpha: of the calibration; needed with ``expected_trajectories``.
        shrinkage: whether values are drawn to what they have in common.

    Returns:
        omega, one number for each state, read-only.
    """
    number = limits.keys
    if prior is None:
        return read_only(np.ones(number))
    p = np.array(prior, dtype=np.float64)
    if p.shape != (number,) or not ((p >= 0) & (p <= 1)).all():
        raise StudyError(
            f"[states] visits must be {number} probabilities from 0 to 1, one for each state"
        )
    if not p.any():
        return read_only(np.ones(number))
    p = np.maximum(p, 1e-12)
    weight = count_weight(limits)
    typical = float(p @ p / p.sum())
    unit = _USUAL_ERROR * _SPREAD * typical**2 / number  # K at Delta = 1
    if expected_trajectories is not None:
        if expected_trajectories < 1:
            raise UsageError(f"expected_trajectories is {expected_trajectories}; at least 1")
        if alpha is None or not 0 < alpha < math.inf:
            raise UsageError(f"alpha is {alpha!r}; with expected_trajectories it must be above 0")
        persons = limits.max_trajectories_per_person
        unit = (alpha * persons / expected_trajectories) ** 2 * (1 + 1 / (12 * weight**2))
    judges, made_for = (SPREADS, SHAPED_FOR) if shrinkage else (SPREADS[:1], SPREADS[:1])

    one, block = replace(limits, max_trajectories_per_person=1), visit_block(weight)

    def errors(squares: Vector) -> Vector:
        delta = block_sensitivity(one, np.sqrt(squares), *block)
        noise = unit * delta**2 / (squares * p**2)
        return _shrunk_errors(noise, np.array(judges))

    best, least_error = np.ones(number), 1.0
    even, least = errors(best), _LEAST_SHARE / (1 - _LEAST_SHARE) / number  # of squares, sum 1
    for spread in made_for:
        squares = best_squares(p, unit / spread)
        for floor in np.geomspace(least, max(float(squares.max()), least), _FLOORS):
            candidate = np.maximum(squares, floor)
            ratios = errors(candidate) / even
            error = float(np.exp(np.log(ratios).mean()))
            if error < least_error and ratios.max() <= _LOSS**2:
                best, least_error = candidate, error
    return read_only(np.sqrt(best / best.max()))


def _shrunk_errors(noise: Vector, spreads: Vector) -> Vector:
    """Return for each spread the sum of squared errors of shrunk values around a common one.

    Each is off by tau^2 q/(tau^2 + q), and the common value by its own noise, as far as values are
    drawn to it.
    """
    whole = noise + spreads[:, None]
    drawn = noise / whole
    common = np.square(drawn).sum(axis=1) / (1 / whole).sum(axis=1)
    return np.asarray(spreads * drawn.sum(axis=1) + common)


def best_squares(p: Vector, k: float) -> Vector:
    """Return (u/p_s - k/p_s^2)_+, with u such that they sum to 1.

    Only the states with the largest p get more than 0. If these are the first j, then u = (1 + k
    sum 1/p^2)/(sum 1/p), and j is right if u p_s > k holds for these states and no others.
    """
    order = np.sort(p)[::-1]
    u = (1 + k * np.cumsum(order**-2.0)) / np.cumsum(1 / order)
    taking_part = max(int(np.count_nonzero(u * order > k)), 1)
    squares = np.maximum(u[taking_part - 1] / p - k / p**2, 0.0)
    if abs(float(squares.sum()) - 1) < 1e-6:
        return np.asarray(squares)
    first = p == order[0]  # k is so far beyond p^2 that rounding is all that is left of the others
    return np.asarray(first / np.count_nonzero(first))


def read_only(array: Vector) -> Vector:
    """Forbid changes of an array, and return it: nobody can alter what was chosen."""
    array.setflags(write=False)
    return array
