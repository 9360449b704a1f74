"""Choose by released numbers: the bound of returns, and how precisely each state is released.

| symbol   | here              | shape | public                                      |
|----------|-------------------|-------|---------------------------------------------|
| h_j      | ``histogram``     | J     | yes, noisy: trajectories by largest level   |
| n~_s     | ``counts``        | N     | yes, noisy                                  |
| s        | ``deviation``     |       | yes, of the noise of each number            |
| omega_s  | the shape         | N     | yes                                         |

All of this is post-processing of released numbers. Any choice is private: the core computes the
noise that the choice calls for. A bad one costs accuracy.
"""

from typing import TYPE_CHECKING

import numpy as np

from privalue.core import MOST_LEVELS, StageRules, Vector
from privalue.errors import StudyError
from privalue.study._choices import shape_weights
from privalue.study._sections import implied_returns

if TYPE_CHECKING:
    from privalue.core import Limits, PublicSize
    from privalue.study._study import Study

MOST_CELLS = 2_000_000  # states x levels x sides: a bound needs a count and a sum in each
_FAR = 2.0  # standard deviations that are taken for noise
_FEW = 0.002  # the share of trajectories that may be clamped
_CLEAR = 4.0  # standard deviations from which a number says something


def automatic_stages(study: "Study") -> tuple[str, ...]:
    """Return the stages that "auto" stands for, from the study alone."""
    return ()


def require_room(study: "Study") -> None:
    """Refuse a bounds stage with so many states that its sums would not fit in the memory."""
    if "bounds" in study.stages and 2 * MOST_LEVELS * study.state_count > MOST_CELLS:
        raise StudyError(
            f'[mechanism] stages: "bounds" is for at most {MOST_CELLS // (2 * MOST_LEVELS):,} '
            f"states, and there are {study.state_count:,}; leave it out, or give tighter returns"
        )


def stage_shares(study: "Study") -> dict[str, float]:
    """Return the shares of mu^2 of the stages that there are; the values get the rest."""
    shares = study.mechanism.stage_shares
    return {name: shares[name] for name in (*study.stages, "limits") if shares[name] > 0}


def limit_tallies(study: "Study") -> tuple[str, ...]:
    """Return what is counted of what limits change: only what can be other than 0.

    Sizes are counted with noise where they are not public, so that there are shares.
    """
    limits, values = study.limits, study.values
    low, high = implied_returns(values.rewards, values.discount)
    tight = limits.return_bounds[0] > low or limits.return_bounds[1] < high
    several = limits.by_person and not study.data.one_trajectory_per_person
    counted = {
        "trajectories_beyond": limits.most_keys < limits.keys,
        "trajectories_with_clamped_rewards": True,
        "trajectories_with_clamped_returns": tight,
        "trajectories": not limits.counts_trajectories,
        "persons_with_surplus": several,
        "persons": several and not limits.size_is_public,
    }
    return tuple(name for name, there in counted.items() if there)


def stage_rules(limits: "Limits", size: "PublicSize", alpha: float) -> StageRules:
    """Return the rules with all that is public about a study in them.

    Args:
        limits: of the study.
        size: what is public about the number of trajectories.
        alpha: of the values.
    """

    def shape(counts: Vector, deviation: float) -> Vector:
        return shape_from_counts(
            counts,
            deviation,
            most_states=limits.most_keys,
            add_remove=limits.add_remove,
            trajectories=size.trajectories,
            alpha=alpha,
        )

    return StageRules(name="privalue.study", bound=chosen_bound, shape=shape)


def chosen_bound(histogram: Vector, deviation: float) -> int:
    """Return the level of the bound: the smallest beyond which there are few, or only noise.

    Beyond level j are the trajectories with a return further than B_j from the reference. Where
    all of them together are not clear of the noise, the whole range stays.

    Args:
        histogram: noisy numbers of trajectories by their largest level.
        deviation: of the noise of each.

    Returns:
        j, from 0 to the last level.
    """
    levels = len(histogram)
    total = float(histogram.sum())
    if total <= _CLEAR * deviation * levels**0.5:
        return levels - 1
    for level in range(levels - 1):
        beyond = histogram[level + 1 :]
        if float(beyond.sum()) <= _FEW * total + _FAR * deviation * len(beyond) ** 0.5:
            return level
    return levels - 1


def shape_from_counts(
    counts: Vector,
    deviation: float,
    *,
    most_states: int,
    add_remove: bool,
    trajectories: int | None,
    alpha: float,
) -> Vector:
    """Return omega from noisy counts: that of a prior with these visits; 1 where they say little.

    Args:
        counts: noisy numbers of visits of each state.
        deviation: of the noise of each.
        most_states: H.
        add_remove: whether neighbours differ by a trajectory more or less.
        trajectories: m, where it is public.
        alpha: of the values.

    Returns:
        omega, the largest 1.
    """
    if np.count_nonzero(counts > _CLEAR * deviation) * 2 < len(counts):
        return np.ones(len(counts))
    floored = np.maximum(counts, _FAR * deviation)
    m = trajectories or max(round(float(floored.max())), 1)
    return shape_weights(
        np.minimum(floored / m, 1.0),
        len(counts),
        most_states=most_states,
        add_remove=add_remove,
        expected_trajectories=m,
        alpha=alpha,
    )
