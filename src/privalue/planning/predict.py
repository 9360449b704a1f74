"""Predict the error of a release by sending made-up statistics through the real mechanism.

No formula of an error is written down here: statistics go through the code that a release goes
through, sensitivity, noise, stages and fit, so that a prediction cannot drift from it.
"""

from dataclasses import dataclass

import numpy as np

from privalue.core import (
    Chosen,
    DpOpe,
    DpSsp,
    Mechanism,
    Perturbation,
    PublicSize,
    Vector,
    VisitStatistics,
)
from privalue.errors import StudyError
from privalue.estimate import noisy_weights, values_of
from privalue.planning.made_up import SEED, MadeUp
from privalue.planning.noiseless import theta_before_noise
from privalue.study import Study, declared_size, design, mechanism_for, policy_mechanism

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


def mechanism_of_study(study: Study, trajectories: int | None) -> Mechanism | DpOpe:
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
    if study.values_a_policy:
        return policy_mechanism(study, size)
    return mechanism_for(study, design(study), size)


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
    for _ in range(draws or int(np.clip(10_000 // len(made_up.values), 16, 250))):
        statistics = made_up.statistics(m, generator)
        clean.append(_without_noise(study, mechanism, statistics))
        for _ in range(NOISES):
            values, width = _release(study, mechanism, statistics, generator)
            released.append(values)
            reach.append(width)
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


def _without_noise(
    study: Study, mechanism: Mechanism | DpOpe, statistics: VisitStatistics
) -> Vector:
    """Return the values that the same fit gives without noise or shrinkage."""
    if isinstance(mechanism, DpOpe):
        return _policy_values(
            study, mechanism, np.asarray(mechanism.perturbation(statistics).center, np.float64)
        )
    return np.asarray(mechanism.design.values(theta_before_noise(study, mechanism, statistics)))


def _release(
    study: Study,
    mechanism: Mechanism | DpOpe,
    statistics: VisitStatistics,
    generator: np.random.Generator,
) -> tuple[Vector, float]:
    """Return the values of a release, and the range of returns that it counts."""

    def noisy(perturbed: Perturbation) -> Vector:
        size = len(perturbed.center)
        unit = (
            generator.laplace(scale=0.5**0.5, size=size)
            if perturbed.laplace
            else (generator.standard_normal(size))
        )
        return np.asarray(perturbed.center + perturbed.deviations * unit)

    low, high = study.return_bounds
    if isinstance(mechanism, DpOpe):
        drawn = noisy(mechanism.perturbation(statistics))
        return _policy_values(study, mechanism, drawn), high - low
    if not isinstance(mechanism, DpSsp):
        return values_of(study, mechanism, noisy(mechanism.perturbation(statistics))), high - low
    chosen: Chosen = mechanism.unchosen
    # Only a world says where returns lie; without one the whole range stands for what is chosen.
    if "bounds" in mechanism.alphas and statistics.level_counts.size:
        numbers = noisy(mechanism.perturbation(statistics, "bounds"))
        chosen = mechanism.choose("bounds", numbers, chosen)
    drawn = noisy(mechanism.perturbation(statistics, "values", chosen))
    first, last = mechanism.noise_for(chosen).bounds
    return values_of(study, mechanism, drawn, chosen=chosen), last - first


def _policy_values(study: Study, mechanism: DpOpe, drawn: Vector) -> Vector:
    """Return the target's value from sums of weights and of weighted returns."""
    noisy, (low, high) = noisy_weights(mechanism, drawn), study.return_bounds
    share = np.divide(
        noisy.weighted, noisy.weights, out=np.zeros(len(noisy.weights)), where=noisy.weights > 0
    )
    return (low + high) / 2 + (high - low) * np.clip(share, -0.5, 0.5)
