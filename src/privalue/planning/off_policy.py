"""Bound the kept mass of clipped weights (from below) and the off-policy error (from above).

| symbol  | here           | public | meaning                                              |
|---------|----------------|--------|------------------------------------------------------|
| pi, b   | ``target``, ``behaviour`` | yes | probabilities of actions, by state              |
| w       |                | **no** | product of pi/b over the rows of a trajectory        |
| C       | ``clip``       | yes    | weights are clipped at C                             |
| kappa   | ``kept``       | yes here | kept mass: E min(w, C), the weight after clipping  |
| tau     | 1 - kappa      | yes here | the weight clipped, or lost where b is 0           |
| T       | ``steps``      | yes    | the most rows of a trajectory                        |
| V_t(x)  |                | yes    | least kept mass over t more rows; x = ln w           |

Under pi, kappa is the mean of min(1, C/w). Whatever states a trajectory visits,

    V_0(x) = min(1, C e^-x),   V_t(x) = min_s sum_a pi(a|s) V_{t-1}(x + ln(pi(a|s)/b(a|s)))

bounds it: kappa >= V_T(0) for trajectories of at most T rows (docs/proofs/weights.md, theorem 8).
V falls in x, so it is computed on a grid with every shift rounded up. The value's bias is at most
tau R (theorem 4); noise and sampling error, divided by kappa m, come on top.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from privalue.core import GRID_STEPS, Ope, Vector
from privalue.estimate import MIN_KEPT_MASS
from privalue.planning.predict import mechanism_of_study, predict
from privalue.planning.synthetic import SEED, FromWorld
from privalue.simulation import World
from privalue.study import Study

CLIPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_WORK, _MAX_POINTS = 2**31, 2**15  # additions, and points of the grid of x
_LOG_RANGE = 14.0  # the grid of x ends where less than e^-14 of a weight is left
_DRAWS = 2**17


@dataclass(frozen=True, kw_only=True)
class ClipRow:
    """The error of an off-policy value with one clip, in units of returns.

    Without a world every number is a bound (``kept`` from below); in a world it is a prediction.
    """

    clip: float
    kept: float  # kept mass: the least; in a world, the mean
    bias: float  # of clipping; in a world it is part of the error
    noise: float  # privacy noise and sampling error, at the study's level
    error: float  # at the study's level; in a world, the root mean square error

    @property
    def supported(self) -> bool:
        """Return whether the kept mass is enough for a release to call the value supported."""
        return self.kept > MIN_KEPT_MASS


def least_kept_mass(target: Vector, behaviour: Vector, clip: float, steps: int) -> float:
    """Return V_T(0): in every world the kept mass is at least this.

    Args:
        target: pi, states x actions.
        behaviour: b, likewise; where it is 0, the target's weight is lost.
        clip: C.
        steps: T.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts = np.where(target > 0, np.log(target) - np.log(behaviour), 0.0)
    down = -float(shifts.min(initial=0.0))
    highest = math.log(clip) + _LOG_RANGE  # beyond it V is 0
    lowest = -min(steps * down, _LOG_RANGE) - 1.0  # smaller x are moved up to it
    points = int(np.clip(_WORK // (steps * target.size), 512, _MAX_POINTS))
    step = (highest - lowest) / points
    zero = math.ceil(-lowest / step)
    moves = np.ceil(np.minimum(shifts / step, points)).astype(np.int64)
    # The probability of each shift of x, state by state.
    distinct, inverse = np.unique(moves, return_inverse=True)
    rows = np.repeat(np.arange(len(target)), target.shape[1])
    probabilities = sparse.csr_array(
        (target.ravel(), (rows, inverse.ravel())), shape=(len(target), len(distinct))
    )
    weight = np.minimum(1.0, clip * np.exp((zero - np.arange(points)) * step))
    for _ in range(steps):
        next_weights = np.stack([_shift(weight, int(by)) for by in distinct])
        weight = np.min(np.asarray(probabilities @ next_weights), axis=0)
    return float(weight[zero])


def _shift(weight: Vector, by: int) -> Vector:
    """Return V(x + shift) on the grid: 0 above the grid, its first number below the grid."""
    if by >= 0:
        return np.append(weight[by:], np.zeros(min(by, len(weight))))
    return np.append(np.full(min(-by, len(weight)), weight[0]), weight[: max(len(weight) + by, 0)])


def bound_row(study: Study, trajectories: float, clip: float, steps: int | None) -> ClipRow:
    """Return a bound of the error at the study's level; it is R without a bound on the rows.

    Args:
        study: with dp-ope.
        trajectories: m; with a value per start, those of one start.
        clip: C.
        steps: the most rows of a trajectory; None if there is no public bound.
    """
    low, high = study.values.return_bounds
    width, policies, pairs = high - low, study.policies, study.pairs
    assert pairs is not None
    if steps is None or "behaviour" not in policies:
        return ClipRow(clip=clip, kept=0.0, bias=width, noise=width, error=width)
    shape = (pairs.states.count, pairs.actions.count)
    target, behaviour = np.zeros(shape), np.zeros(shape)
    target[pairs.state_of, pairs.action_of] = policies["target"]
    behaviour[pairs.state_of, pairs.action_of] = policies["behaviour"]
    mass = least_kept_mass(target, behaviour, clip, steps)
    noise = width * _noise_and_sampling(with_clip(study, clip), trajectories, mass)
    bias = width * (1 - mass)
    return ClipRow(clip=clip, kept=mass, bias=bias, noise=noise, error=min(bias + noise, width))


def _noise_and_sampling(study: Study, trajectories: float, kept_mass: float) -> float:
    """Return the quantile of noise and sampling error, divided by the kept mass, at most 1.

    In units of R: the noise of both sums at |u| = 1/2, and a sampling variance of C n/4, each the
    largest possible (docs/proofs/weights.md, theorems 5 and 6).
    """
    mechanism = mechanism_of_study(study, None)
    assert isinstance(mechanism, Ope)
    clip, mass = mechanism.terms.limits.clip, kept_mass * trajectories
    returns, weights = (scale * clip / GRID_STEPS for scale in mechanism.scales[:2])
    sampling = math.sqrt(study.limits.max_trajectories_per_person * clip * mass / 4)

    generator = np.random.default_rng(SEED)
    first, second = generator.laplace(size=(2, _DRAWS))
    errors = returns * first + weights / 2 * second + sampling * generator.standard_normal(_DRAWS)
    return min(float(np.quantile(np.abs(errors), study.report.level)) / max(mass, 1e-300), 1.0)


def world_row(study: Study, trajectories: int, clip: float, world: World) -> ClipRow:
    """Return the error of a clip in a world, predicted by synthetic releases."""
    candidate = with_clip(study, clip)
    source = FromWorld(candidate, world)
    prediction = predict(candidate, source, trajectories)
    low, high = study.values.return_bounds
    return ClipRow(
        clip=clip,
        kept=source.kept_mass,
        bias=(high - low) * max(1 - source.kept_mass, 0.0),
        noise=float(prediction.by_key.max()),
        error=prediction.rmse,
    )


def with_clip(study: Study, clip: float) -> Study:
    """Return the study with another clip."""
    return study.replace(policy={**dict(study.policy), "clip": clip})
