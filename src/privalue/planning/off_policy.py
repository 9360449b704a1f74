"""Bound from below what clipping keeps of another policy's weight, and the error from above.

| symbol  | here           | public | meaning                                              |
|---------|----------------|--------|------------------------------------------------------|
| pi, b   | ``target``, ``behaviour`` | yes | probabilities of actions, by state              |
| w       |                | **no** | product of pi/b over the rows of a trajectory        |
| C       | ``clip``       | yes    | weights are clipped at C                             |
| kappa   | ``kept``       | yes here | E min(w, C), the mass that is kept                 |
| tau     | 1 - kappa      | yes here | what is clipped, or lost where b is 0              |
| T       | ``steps``      | yes    | the most rows of a trajectory                        |
| V_t(x)  |                | yes    | least mass kept of t more rows, x = ln w so far      |

Under pi, kappa is the mean of min(1, C/w). Whatever the states are that a trajectory comes to,

    V_0(x) = min(1, C e^-x),   V_t(x) = min_s sum_a pi(a|s) V_{t-1}(x + ln(pi(a|s)/b(a|s)))

bounds it: kappa >= V_T(0) for trajectories of at most T rows (docs/proofs/weights.md, theorem 8).
V falls in x, so it is computed on a grid with every shift rounded up. The value's bias is at most
tau R (theorem 4); noise and the choice of people come on top, over the kappa m that is kept.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from privalue.core import GRID_STEPS, Ope, Vector
from privalue.estimate import SUPPORTED
from privalue.planning.made_up import SEED, FromWorld
from privalue.planning.predict import mechanism_of_study, predict
from privalue.simulation import World
from privalue.study import Study

CLIPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_WORK, _MOST_POINTS = 2**31, 2**15  # additions, and points of the grid of x
_BEYOND = 14.0  # e^-14 of a weight is nothing
_DRAWS = 2**17


@dataclass(frozen=True, kw_only=True)
class ClipRow:
    """What a clip would give, in units of returns: at worst, or in a world."""

    clip: float
    kept: float  # at least; in a world, on average
    bias: float  # of clipping, at most; in a world it is part of the error
    noise: float  # and sampling, at the study's level
    error: float  # at most, at the study's level; in a world, the root mean square error

    @property
    def supported(self) -> bool:
        """Return whether enough is kept for a release to vouch for the value."""
        return self.kept > SUPPORTED


def least_kept(target: Vector, behaviour: Vector, clip: float, steps: int) -> float:
    """Return V_T(0), below which the kept mass is in no world.

    Args:
        target: pi, states x actions.
        behaviour: b, likewise; where it is 0, what the target does is lost.
        clip: C.
        steps: T.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts = np.where(target > 0, np.log(target) - np.log(behaviour), 0.0)
    down = -float(shifts.min(initial=0.0))
    highest = math.log(clip) + _BEYOND  # from there on V is taken as 0
    lowest = -min(steps * down, _BEYOND) - 1.0  # what is below is moved up to there
    points = int(np.clip(_WORK // (steps * target.size), 512, _MOST_POINTS))
    step = (highest - lowest) / points
    zero = math.ceil(-lowest / step)
    moves = np.ceil(np.minimum(shifts / step, points)).astype(np.int64)
    # How often x moves how far, state by state.
    moved, inverse = np.unique(moves, return_inverse=True)
    rows = np.repeat(np.arange(len(target)), target.shape[1])
    chances = sparse.csr_array(
        (target.ravel(), (rows, inverse.ravel())), shape=(len(target), len(moved))
    )
    kept = np.minimum(1.0, clip * np.exp((zero - np.arange(points)) * step))
    for _ in range(steps):
        after = np.stack([_moved(kept, int(by)) for by in moved])
        kept = np.min(np.asarray(chances @ after), axis=0)
    return float(kept[zero])


def _moved(kept: Vector, by: int) -> Vector:
    """Return V(x + shift) on the grid: 0 above it, its first number below it."""
    if by >= 0:
        return np.append(kept[by:], np.zeros(min(by, len(kept))))
    return np.append(np.full(min(-by, len(kept)), kept[0]), kept[: max(len(kept) + by, 0)])


def cautious_row(study: Study, trajectories: float, clip: float, steps: int | None) -> ClipRow:
    """Return the error that a clip has at most, at the study's level; R without a bound of rows.

    Args:
        study: with dp-ope.
        trajectories: m, of one start where each has a number of its own.
        clip: C.
        steps: the most rows of a trajectory; None where nobody knows.
    """
    low, high = study.return_bounds
    reach, policies, pairs = high - low, study.policies, study.pairs
    assert pairs is not None
    if steps is None or policies.behaviour is None:
        return ClipRow(clip=clip, kept=0.0, bias=reach, noise=reach, error=reach)
    shape = (pairs.states.count, pairs.actions.count)
    target, behaviour = np.zeros(shape), np.zeros(shape)
    target[pairs.state_of, pairs.action_of] = policies.target
    behaviour[pairs.state_of, pairs.action_of] = policies.behaviour
    kept = least_kept(target, behaviour, clip, steps)
    noise = reach * _noise_and_people(with_clip(study, clip), trajectories, kept)
    bias = reach * (1 - kept)
    return ClipRow(clip=clip, kept=kept, bias=bias, noise=noise, error=min(bias + noise, reach))


def _noise_and_people(study: Study, trajectories: float, kept: float) -> float:
    """Return the level's quantile of noise and sampling over what is kept, at most 1.

    In units of R: the noise of both sums at |u| = 1/2, and a sampling variance of C n/4, each the
    largest that there is (docs/proofs/weights.md, theorems 5 and 6).
    """
    mechanism = mechanism_of_study(study, None)
    assert isinstance(mechanism, Ope)
    clip, mass = mechanism.terms.limits.clip, kept * trajectories
    of_returns, of_weights = (scale * clip / GRID_STEPS for scale in mechanism.scales[:2])
    people = math.sqrt(study.limits.max_trajectories_per_person * clip * mass / 4)

    generator = np.random.default_rng(SEED)
    first, second = generator.laplace(size=(2, _DRAWS))
    away = of_returns * first + of_weights / 2 * second + people * generator.standard_normal(_DRAWS)
    return min(float(np.quantile(np.abs(away), study.report.level)) / max(mass, 1e-300), 1.0)


def world_row(study: Study, trajectories: int, clip: float, world: World) -> ClipRow:
    """Return what a clip gives in a world, by made-up releases."""
    changed = with_clip(study, clip)
    made_up = FromWorld(changed, world)
    found = predict(changed, made_up, trajectories)
    low, high = study.return_bounds
    return ClipRow(
        clip=clip,
        kept=made_up.kept,
        bias=(high - low) * max(1 - made_up.kept, 0.0),
        noise=float(found.by_key.max()),
        error=found.rmse,
    )


def with_clip(study: Study, clip: float) -> Study:
    """Return the study with another clip."""
    return study.replace(policy={**study.policy.model_dump(), "clip": clip})
