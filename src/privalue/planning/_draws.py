"""Draw the statistics of m trajectories from a public model, without drawing trajectories.

| symbol | here      | shape | public                                             |
|--------|-----------|-------|----------------------------------------------------|
| z      | ``scores``| K x 2N| yes: normal scores, for counts and for mean returns |
| n_s    | ``counts``| K x N | yes here: made up                                  |
| S_s    | ``steps`` | K x N | yes here: made up                                  |

A count is the binomial quantile, n_s = Q(Phi(z_s); m, p_s), and the mean return of those visits has
the mean F_s, the variance v_s/n_s and the bounds of returns: it is a normal quantile, or where that
would leave the bounds the quantile of the Beta distribution with the same two moments. Between
states the scores vary together as the model says: a Gaussian copula.

Each column of scores is stratified: it is a permutation of the same K normal quantiles, so that few
draws suffice. The scores do not depend on m: predictions for two values of m differ because of m,
not because of chance.
"""

from typing import Any

import numpy as np
from scipy import special

from privalue.core import GRID_STEPS, Integers, Statistics, Vector
from privalue.planning._public_model import SEED, PublicModel
from privalue.study import Study

_SMOOTH = 12.0  # standard deviations of a count from which the expansion is right to a visit
_WIDE = 4.0  # standard deviations that must fit between the bounds for a normal quantile


class Draws:
    """The statistics of K made-up data sets, for any number of trajectories."""

    def __init__(self, model: PublicModel, study: Study, count: int) -> None:
        self.count = count
        self._model = model
        self._bounds = study.return_bounds
        self._per_person = study.trajectories_per_person
        self._limits = study.limits
        self._scores = normal_scores(model, count)

    def statistics(self, trajectories: int) -> list[Statistics]:
        """Return the statistics of every made-up data set with m trajectories."""
        model, states = self._model, len(self._model.visits)
        counts = binomial_quantiles(self._scores[:, :states], trajectories, model.visits)
        means = bounded_means(self._scores[:, states:], counts, model, self._bounds)
        return [
            self._gathered(trajectories, n, mean) for n, mean in zip(counts, means, strict=True)
        ]

    def expected(self, trajectories: int) -> Statistics:
        """Return the expected statistics; each state that can be visited has a visit at least."""
        visits = self._model.visits
        counts = np.maximum(np.rint(trajectories * visits), visits > 0).astype(np.int64)
        return self._gathered(trajectories, counts, self._model.means)

    def _gathered(self, trajectories: int, counts: Integers, means: Vector) -> Statistics:
        """Return the statistics with these counts and mean returns, in whole steps of the grid."""
        low, high = self._bounds
        share = np.clip((means - low) / (high - low), 0.0, 1.0)
        steps = np.rint(share * (counts * float(GRID_STEPS))).astype(np.int64)
        steps = np.minimum(steps, counts * GRID_STEPS)
        return Statistics(
            return_bounds=self._bounds,
            trajectories=trajectories,
            rows=int(counts.sum()),
            rewards_clamped=0,
            returns_clamped=0,
            counts=counts,
            return_steps=steps,
            persons=-(-trajectories // self._per_person),
            **self._by_level(trajectories, counts, steps),
        )

    def _by_level(self, trajectories: int, counts: Integers, steps: Integers) -> dict[str, Any]:
        """Return the same visits by level, where the model knows where the returns of a world lie.

        Shares and means are those that are expected, in whole numbers. What is left over, chance
        included, goes where most visits of a state are.
        """
        levels = self._model.levels
        if levels is None or self._limits.levels == 1:
            return {}
        by_level = np.floor(counts[:, None] * levels.shares).astype(np.int64)
        most, every = levels.shares.argmax(axis=1), np.arange(len(counts))
        by_level[every, most] += counts - by_level.sum(axis=1)
        steps_by_level = np.rint(by_level * levels.steps).astype(np.int64)
        steps_by_level[every, most] += steps - steps_by_level.sum(axis=1)
        largest = np.floor(trajectories * levels.largest).astype(np.int64)
        largest[levels.largest.argmax()] += trajectories - largest.sum()
        return {
            "level_counts": by_level,
            "level_steps": steps_by_level,
            "largest_levels": largest,
            "limits": self._limits,
        }


def normal_scores(model: PublicModel, count: int) -> Vector:
    """Return K x 2N stratified standard normal scores that vary together as the model says."""
    generator = np.random.default_rng(SEED)
    scores = generator.standard_normal((count, 2 * len(model.visits)))
    if model.together is not None:
        seen = np.isfinite(model.together).all(axis=0)
        mixed = generator.standard_normal((count, len(model.together)))
        scores[:, seen] = mixed @ model.together[:, seen]
    quantiles = special.ndtri((np.arange(count) + 0.5) / count)
    quantiles /= max(
        float(np.sqrt(np.mean(quantiles**2))), 1e-300
    )  # their variance is 1, whatever K is
    ranks = np.argsort(np.argsort(scores, axis=0), axis=0)
    return np.asarray(quantiles[ranks])


def binomial_quantiles(scores: Vector, trials: int, chances: Vector) -> Integers:
    """Return the binomial quantiles Q(Phi(z); m, p).

    They are exact, or come from the expansion of Cornish and Fisher where counts vary a lot.
    """
    spread = np.sqrt(trials * chances * (1 - chances))
    smooth = spread > _SMOOTH
    counts = np.empty(scores.shape)
    z, p, sd = scores[:, smooth], chances[smooth], spread[smooth]
    counts[:, smooth] = np.rint(trials * p + sd * z + (1 - 2 * p) * (z**2 - 1) / 6)
    counts[:, ~smooth] = _binomial(special.ndtr(scores[:, ~smooth]), trials, chances[~smooth])
    return np.clip(counts, 0, trials).astype(np.int64)


def _binomial(levels: Vector, trials: int, chances: Vector) -> Vector:
    """Return the least k with P(Binomial(m, p) <= k) >= q, without the weight of scipy.stats."""
    with np.errstate(invalid="ignore"):
        above = np.ceil(special.bdtrik(levels, trials, chances))
        below = np.maximum(above - 1, 0)
        found = np.where(special.bdtr(below, trials, chances) >= levels, below, above)
    certain = np.where(chances > 0.5, float(trials), 0.0)  # NaN where p is as good as 0 or 1
    return np.where(np.isnan(found), certain, found)


def bounded_means(
    scores: Vector, counts: Integers, model: PublicModel, bounds: tuple[float, float]
) -> Vector:
    """Return mean returns inside the bounds, with the model's mean and variance.

    Args:
        scores: K x N normal scores, one for each draw and state.
        counts: K x N visits n; the variance of a mean is v/n.
        model: F and v of every state.
        bounds: the bounds of returns.

    Returns:
        K x N means.
    """
    low, high = bounds
    center = (model.means - low) / (high - low)  # in units of the range
    room = center * (1 - center)
    spread = np.sqrt(model.variances / np.maximum(counts, 1)) / (high - low)
    means = center + spread * scores
    nearest = np.minimum(center, 1 - center)
    narrow = (spread * _WIDE > nearest) & (spread > 0) & (counts > 0)
    at = np.nonzero(narrow)
    if at[0].size:
        column = at[1]
        size = np.maximum(room[column] / np.square(spread[at]) - 1, 1e-2)  # a + b
        means[at] = special.betaincinv(
            center[column] * size, (1 - center[column]) * size, special.ndtr(scores[at])
        )
    return np.asarray(low + (high - low) * np.clip(means, 0.0, 1.0))
