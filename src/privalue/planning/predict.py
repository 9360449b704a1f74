"""Predict the error of a release by sending synthetic statistics through the real mechanism.

There is no formula for the error: statistics go through the same code as a release (sensitivity,
noise, stages and fit), so that a prediction cannot drift from it.
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
from privalue.estimate import importance_sums, theta_of
from privalue.planning.sentences import sentence
from privalue.planning.synthetic import SEED, Synthetic
from privalue.study import Study, declared_size, resolve, ridge_of

NOISE_DRAWS = 2  # draws of noise for each draw of statistics
_MIN_DATA_SETS, _MAX_DATA_SETS = 16, 400  # synthetic data sets
_MAX_VALUES = 3_000_000  # held in memory at once
_STANDARD_ERROR = 0.015  # sampling stops at this standard error, relative to the mean error


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The predicted error, over the keys that have a value and a weight above 0."""

    trajectories: int
    rmse: float
    without_privacy: float
    errors: Vector  # of every synthetic release: rmse is their mean
    worst: float  # 95% of releases have at most this error
    visits: Vector  # expected visits of every key
    by_key: Vector  # quantile of |released value - V| at the study's level, for every key
    range: float  # range between the bounds of returns, which a stage may have chosen


def mechanism_of_study(study: Study, trajectories: int | None) -> Mechanism:
    """Return the mechanism that a release of m trajectories would use.

    Args:
        study: the study.
        trajectories: m; if None, the number that the study declares, if any. Each person is assumed
            to have as many as the study allows.

    Raises:
        StudyError: a rule of the mechanism needs m, or the study is infeasible.
    """
    size = declared_size(study)
    if trajectories is not None:
        persons = -(-trajectories // study.limits.max_trajectories_per_person)
        size = PublicSize.of(study.limits, trajectories, trajectories=trajectories, persons=persons)
    terms = resolve(study, size)
    return MECHANISMS[terms.mechanism](terms)


def predict(
    study: Study, source: Synthetic, trajectories: int, *, draws: int | None = None
) -> Prediction:
    """Predict the error with m trajectories; the same arguments give the same answer.

    Args:
        study: the study.
        source: the source of synthetic statistics.
        trajectories: m.
        draws: how many data sets are simulated; by default 400, or as many as fit in memory, or,
            with a single stage, enough for a standard error of 1.5% of the mean.
    """
    m = source.round_size(trajectories)
    mechanism = mechanism_of_study(study, m)
    mask = np.isfinite(source.values)
    if not study.is_off_policy:
        mask &= study.key_weights > 0
    if not mask.any():
        raise StudyError(sentence("world", "no-value"))
    generator = np.random.default_rng(SEED)
    noisy, ranges = list[Vector](), list[float]()
    errors, noiseless_errors = list[float](), list[float]()
    most = int(np.clip(_MAX_VALUES // len(source.values), _MIN_DATA_SETS, _MAX_DATA_SETS))
    # A stage's rare choices cause most of the uncertainty, and a few data sets do not show them.
    has_fixed_draws = draws is not None or len(mechanism.stages) > 1
    while len(noiseless_errors) < (draws or most) and (has_fixed_draws or not _is_precise(errors)):
        statistics = source.statistics(m, generator)
        noiseless = _without_noise(study, mechanism, statistics)
        noiseless_errors.append(_error(noiseless - source.values, mask))
        for _ in range(NOISE_DRAWS):
            draw = _draw(mechanism, statistics, generator)
            noisy.append(_values(study, mechanism, draw))
            errors.append(_error(noisy[-1] - source.values, mask))
            low, high = _bounds(mechanism, draw)
            ranges.append(high - low)
    deviations = np.abs(np.array(noisy) - source.values)
    return Prediction(
        trajectories=m,
        rmse=float(np.mean(errors)),
        without_privacy=float(np.mean(noiseless_errors)),
        errors=np.array(errors),
        worst=float(np.quantile(errors, 0.95)),
        visits=m * source.visits,
        by_key=np.quantile(deviations, study.report.level, axis=0),
        range=float(np.median(ranges)),
    )


def _is_precise(errors: list[float]) -> bool:
    """Return whether the standard error of the mean error is small enough to stop."""
    if len(errors) < NOISE_DRAWS * _MIN_DATA_SETS:
        return False
    by_data_set = np.reshape(errors, (-1, NOISE_DRAWS)).mean(axis=1)
    deviation = float(by_data_set.std(ddof=1))
    return deviation <= _STANDARD_ERROR * math.sqrt(len(by_data_set)) * float(by_data_set.mean())


def _error(deviations: Vector, mask: NDArray[np.bool_]) -> float:
    """Return the root mean square over the keys in ``mask``."""
    return float(np.sqrt(np.mean(np.square(deviations[mask]))))


def theta_before_noise(study: Study, mechanism: Mechanism, statistics: Statistics) -> Vector:
    """Return theta, fitted without noise or shrinkage. PRIVATE if the statistics are real.

    Only plans and the curator use it: the core computes nothing that a release does not need.
    """
    if isinstance(mechanism, Lsw):
        terms = mechanism.terms
        means = statistics.mean_returns(terms.unvisited, pseudo_count=terms.pseudo_count)
        return lsw(means, mechanism.design)
    if isinstance(mechanism, Lsl):
        return mechanism.center(statistics)
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    if ridge is None:
        return lsw(statistics.mean_returns(study.values.unvisited_value), mechanism.design)
    return lsl(statistics.counts, statistics.return_sums, mechanism.design, ridge)


def _without_noise(study: Study, mechanism: Mechanism, statistics: Statistics) -> Vector:
    """Return the values, fitted without noise or shrinkage."""
    if isinstance(mechanism, Ope):
        return _values(study, mechanism, _draw(mechanism, statistics, None))
    theta = theta_before_noise(study, mechanism, statistics)
    return np.asarray(mechanism.design.values(theta))


def _draw(
    mechanism: Mechanism, statistics: Statistics, generator: np.random.Generator | None
) -> Draw:
    """Draw the numbers of a release, stage by stage; without a generator, add no noise.

    The distribution of returns is known from a world only: without one the stage for bounds is left
    out, and results are relative to the range that it would choose.
    """
    numbers: dict[str, Vector] = {}
    for name in mechanism.stages:
        if name == "bounds" and not statistics.level_counts.size:
            continue
        perturbation = mechanism.perturb(statistics, name, numbers)
        noise = np.zeros(len(perturbation.center))
        if generator is not None and perturbation.laplace:
            noise = generator.laplace(scale=0.5**0.5, size=len(noise))
        elif generator is not None:
            noise = generator.standard_normal(len(noise))
        numbers[name] = np.asarray(perturbation.center + perturbation.deviations * noise)
    return numbers


def _values(study: Study, mechanism: Mechanism, draw: Draw) -> Vector:
    """Return the values of a release."""
    if isinstance(mechanism, Ope):
        return _policy_values(study, mechanism, draw["values"])
    theta = theta_of(study, mechanism, draw)
    return np.clip(mechanism.design.values(theta), *_bounds(mechanism, draw))


def _bounds(mechanism: Mechanism, draw: Draw) -> tuple[float, float]:
    """Return the bounds to which returns are clamped, which a stage may have chosen."""
    if isinstance(mechanism, Ssp):
        return mechanism.noise_after(draw).bounds
    return mechanism.terms.limits.return_bounds


def _policy_values(study: Study, mechanism: Ope, numbers: Vector) -> Vector:
    """Return the target's value from sums of weights and of weighted returns."""
    noisy, (low, high) = importance_sums(mechanism, numbers), study.values.return_bounds
    share = np.divide(
        noisy.weighted, noisy.weights, out=np.zeros(len(noisy.weights)), where=noisy.weights > 0
    )
    return (low + high) / 2 + (high - low) * np.clip(share, -0.5, 0.5)
