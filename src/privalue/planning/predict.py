"""Predict the error of a release by sending made-up statistics through the real mechanism.

No formula of an error is written down here: statistics go through the code that a release goes
through, sensitivity, noise, stages and fit, so that a prediction cannot drift from it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue.core import (
    MECHANISMS,
    Draw,
    Lsl,
    Lsw,
    Mechanism,
    Ope,
    PublicSize,
    Ssp,
    Statistics,
    Vector,
    lsl,
    lsw,
)
from privalue.errors import StudyError
from privalue.estimate import noisy_weights, theta_of
from privalue.planning.made_up import SEED, MadeUp
from privalue.planning.sentences import say
from privalue.study import Study, declared_size, resolve, ridge_of

NOISES = 2  # draws of noise for each draw of statistics
_FEWEST, _MOST = 16, 400  # made-up data sets
_MOST_VALUES = 3_000_000  # that are held at once
_PRECISE = 0.015  # of the mean error: a standard error that is small enough


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The error to expect, over the keys that have a value and a weight above 0."""

    trajectories: int
    rmse: float
    without_privacy: float
    errors: Vector  # of every made-up release: rmse is their mean
    worst: float  # of nineteen releases in twenty
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
        persons = -(-trajectories // study.limits.max_trajectories_per_person)
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
        draws: how many data sets are made up; if left out, 400, or what the memory holds, or, with
            a single stage, as many as it takes for a standard error of 1.5% of the mean.
    """
    m = made_up.rounded(trajectories)
    mechanism = mechanism_of_study(study, m)
    counts = np.isfinite(made_up.values)
    if not study.is_off_policy:
        counts &= study.key_weights > 0
    if not counts.any():
        raise StudyError(say("world", "no-value"))
    generator = np.random.default_rng(SEED)
    released, clean, reach = list[Vector](), list[Vector](), list[float]()
    errors, errors_clean = list[float](), list[float]()
    most = int(np.clip(_MOST_VALUES // len(made_up.values), _FEWEST, _MOST))
    # A stage's rare choices are most of what is uncertain, and are not seen in a few data sets.
    goes_on = draws is not None or len(mechanism.stages) > 1
    while len(clean) < (draws or most) and (goes_on or not _is_precise(errors)):
        statistics = made_up.statistics(m, generator)
        clean.append(_without_noise(study, mechanism, statistics))
        errors_clean.append(_error(clean[-1] - made_up.values, counts))
        for _ in range(NOISES):
            draw = _draw(mechanism, statistics, generator)
            released.append(_values(study, mechanism, draw))
            errors.append(_error(released[-1] - made_up.values, counts))
            low, high = _bounds(mechanism, draw)
            reach.append(high - low)
    off = np.abs(np.array(released) - made_up.values)
    return Prediction(
        trajectories=m,
        rmse=float(np.mean(errors)),
        without_privacy=float(np.mean(errors_clean)),
        errors=np.array(errors),
        worst=float(np.quantile(errors, 0.95)),
        visits=m * made_up.visits,
        by_key=np.quantile(off, study.report.level, axis=0),
        reach=float(np.median(reach)),
    )


def _is_precise(errors: list[float]) -> bool:
    """Return whether enough data sets were made up for their mean error to be known."""
    if len(errors) < NOISES * _FEWEST:
        return False
    by_data_set = np.reshape(errors, (-1, NOISES)).mean(axis=1)
    deviation = float(by_data_set.std(ddof=1))
    return deviation <= _PRECISE * math.sqrt(len(by_data_set)) * float(by_data_set.mean())


def _error(off: Vector, counts: NDArray[np.bool_]) -> float:
    """Return the root mean square over the keys that count."""
    return float(np.sqrt(np.mean(np.square(off[counts]))))


def theta_before_noise(study: Study, mechanism: Ssp | Lsw | Lsl, statistics: Statistics) -> Vector:
    """Return theta as the same fit gives it without noise or shrinkage. PRIVATE.

    It is for plans, and for the curator alone: the core computes nothing that a release does not
    need.
    """
    if isinstance(mechanism, Lsw):
        return lsw(mechanism.mean_returns(statistics), mechanism.design)
    if not isinstance(mechanism, Ssp):
        return mechanism.center(statistics)
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    if ridge is None:
        return lsw(statistics.mean_returns(study.values.unvisited_value), mechanism.design)
    return lsl(statistics.counts, statistics.return_sums, mechanism.design, ridge)


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
    released: dict[str, Vector] = {}
    for name in mechanism.stages:
        if name == "bounds" and not statistics.level_counts.size:
            continue
        at = mechanism.perturb(statistics, name, released)
        noise = np.zeros(len(at.center))
        if generator is not None and at.laplace:
            noise = generator.laplace(scale=0.5**0.5, size=len(noise))
        elif generator is not None:
            noise = generator.standard_normal(len(noise))
        released[name] = np.asarray(at.center + at.deviations * noise)
    return released


def _values(study: Study, mechanism: Mechanism, draw: Draw) -> Vector:
    """Return the values of a release."""
    if isinstance(mechanism, Ope):
        return _policy_values(study, mechanism, draw["values"])
    assert isinstance(mechanism, Ssp | Lsw | Lsl)
    theta = theta_of(study, mechanism, draw)
    return np.clip(mechanism.design.values(theta), *_bounds(mechanism, draw))


def _bounds(mechanism: Mechanism, draw: Draw) -> tuple[float, float]:
    """Return the bounds between which returns count, which a stage may have chosen."""
    if isinstance(mechanism, Ssp):
        return mechanism.noise_at(mechanism.level(draw)).bounds
    return mechanism.terms.limits.return_bounds


def _policy_values(study: Study, mechanism: Ope, drawn: Vector) -> Vector:
    """Return the target's value from sums of weights and of weighted returns."""
    noisy, (low, high) = noisy_weights(mechanism, drawn), study.return_bounds
    share = np.divide(
        noisy.weighted, noisy.weights, out=np.zeros(len(noisy.weights)), where=noisy.weights > 0
    )
    return (low + high) / 2 + (high - low) * np.clip(share, -0.5, 0.5)
