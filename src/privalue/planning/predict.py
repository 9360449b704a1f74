"""Predict the error of a release by sending made-up statistics through the real mechanism.

No formula of an error is written down here: statistics go through the code that a release goes
through, sensitivity, noise, stages and fit, so that a prediction cannot drift from it.
"""

from dataclasses import dataclass

import numpy as np

from privalue.core import (
    MECHANISMS,
    Draw,
    Lsl,
    Lsw,
    Mechanism,
    Ope,
    PublicSize,
    Ssp,
    Stage,
    Statistics,
    Vector,
)
from privalue.errors import StudyError
from privalue.estimate import noisy_weights, values_of
from privalue.planning.made_up import SEED, MadeUp
from privalue.planning.noiseless import theta_before_noise
from privalue.study import Study, declared_size, resolve

NOISES = 2  # draws of noise for each draw of statistics


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The error to expect, over the keys that have a value and a weight above 0."""

    trajectories: int
    rmse: float
    without_privacy: float
    visits: Vector  # to expect, of every key
    by_key: Vector  # the distance to V that a release keeps to, at the study's level
    reach: float  # the range of returns that counts, which a stage may have chosen


def mechanism_of_study(study: Study, trajectories: int | None) -> Mechanism:
    """Return the mechanism that a release of m trajectories would use.

    Args:
        study: what is public.
        trajectories: m; as the study declares it, or not known, if None. Each person is taken to
            have as many as the study allows.

    Raises:
        StudyError: a rule of the mechanism needs m, or the study asks for what cannot be done.
    """
    size = declared_size(study)
    if trajectories is not None:
        persons = -(-trajectories // study.trajectories_per_person)
        size = PublicSize.of(study.limits, trajectories, trajectories=trajectories, persons=persons)
    terms = resolve(study, size)
    return MECHANISMS[terms.mechanism](terms)


def predict(
    study: Study, made_up: MadeUp, trajectories: int, *, draws: int | None = None
) -> Prediction:
    """Predict the error with m trajectories; the same numbers give the same answer.

    Args:
        study: what is public.
        made_up: where statistics come from.
        trajectories: m.
        draws: how many data sets are made up; by the number of keys, if left out, since an error
            averages over keys.
    """
    m = made_up.rounded(trajectories)
    mechanism = mechanism_of_study(study, m)
    counts = np.isfinite(made_up.values)
    if not study.values_a_policy:
        counts &= study.key_weights > 0
    if not counts.any():
        raise StudyError("no state with a weight above 0 has a value in the world; use another one")
    generator = np.random.default_rng(SEED)
    released, clean, reach = list[Vector](), list[Vector](), list[float]()
    for _ in range(draws or int(np.clip(6_000 // len(made_up.values), 16, 150))):
        statistics = made_up.statistics(m, generator)
        clean.append(_without_noise(study, mechanism, statistics))
        for _ in range(NOISES):
            draw = _draw(mechanism, statistics, generator)
            released.append(_values(study, mechanism, draw))
            reach.append(_reach(mechanism, draw))
    off, off_clean = (np.array(each) - made_up.values for each in (released, clean))
    return Prediction(
        trajectories=m,
        rmse=_mean_error(off[:, counts]),
        without_privacy=_mean_error(off_clean[:, counts]),
        visits=m * made_up.visits,
        by_key=np.quantile(np.abs(off), study.report.level, axis=0),
        reach=float(np.median(reach)),
    )


def _mean_error(off: Vector) -> float:
    """Return the root mean square over keys, averaged over draws."""
    return float(np.sqrt(np.mean(np.square(off), axis=1)).mean())


def _without_noise(study: Study, mechanism: Mechanism, statistics: Statistics) -> Vector:
    """Return the values that the same fit gives without noise or shrinkage."""
    if isinstance(mechanism, Ssp | Lsw | Lsl):
        theta = theta_before_noise(study, mechanism, statistics)
        return np.asarray(mechanism.design.values(theta))
    return _values(study, mechanism, _draw(mechanism, statistics, None))


def _draw(
    mechanism: Mechanism, statistics: Statistics, generator: np.random.Generator | None
) -> Draw:
    """Return what a release would draw, stage by stage; without a generator, no noise.

    Only a world says where returns lie: without one the stage for bounds is left out, and the whole
    range stands for what it chooses.
    """
    released = list[Stage]()
    for name, alpha in mechanism.stages.items():
        if name == "bounds" and not statistics.level_counts.size:
            continue
        at = mechanism.perturb(statistics, name, released)
        noise = np.zeros(len(at.center))
        if generator is not None and at.laplace:
            noise = generator.laplace(scale=0.5**0.5, size=len(noise))
        elif generator is not None:
            noise = generator.standard_normal(len(noise))
        numbers = np.asarray(at.center + at.deviations * noise)
        released.append(Stage(name=name, alpha=alpha, numbers=numbers, sigma=at.deviations))
    return Draw(stages=tuple(released))


def _values(study: Study, mechanism: Mechanism, draw: Draw) -> Vector:
    """Return the values of a release."""
    if isinstance(mechanism, Ope):
        return _policy_values(study, mechanism, draw.numbers)
    assert isinstance(mechanism, Ssp | Lsw | Lsl)
    level = mechanism.level(draw.stages) if isinstance(mechanism, Ssp) else None
    return values_of(study, mechanism, draw.numbers, level=level)


def _reach(mechanism: Mechanism, draw: Draw) -> float:
    """Return the range of returns that count, which a stage may have chosen."""
    low, high = mechanism.terms.limits.return_bounds
    if isinstance(mechanism, Ssp):
        low, high = mechanism.noise_at(mechanism.level(draw.stages)).bounds
    return high - low


def _policy_values(study: Study, mechanism: Ope, drawn: Vector) -> Vector:
    """Return the target's value from sums of weights and of weighted returns."""
    noisy, (low, high) = noisy_weights(mechanism, drawn), study.return_bounds
    share = np.divide(
        noisy.weighted, noisy.weights, out=np.zeros(len(noisy.weights)), where=noisy.weights > 0
    )
    return (low + high) / 2 + (high - low) * np.clip(share, -0.5, 0.5)
