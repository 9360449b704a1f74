"""Decide which stages a study has, what they may spend, and what limits are counted.

The rules by which stages choose are in ``_stage_rules``. All of this is from public numbers.
"""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privalue.core import MOST_LEVELS, Limits, StageRules, Vector, count_weight, sensitivity
from privalue.errors import StudyError
from privalue.study._sections import implied_returns
from privalue.study._stage_rules import chosen_bound, shape_from_counts

if TYPE_CHECKING:
    from privalue.study._study import Study

MOST_CELLS = 2_000_000  # states x levels x sides: a bound needs a count and a sum in each


def automatic_stages(study: "Study") -> tuple[str, ...]:
    """Return the stages that "auto" stands for, from the study alone."""
    return ()


def require_room(study: "Study") -> None:
    """Refuse a bounds stage with so many states that its sums would not fit in the memory."""
    if "bounds" in study.stages and 2 * MOST_LEVELS * study.key_count > MOST_CELLS:
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
        "trajectories_beyond": limits.most_keys < study.state_count,
        "trajectories_with_clamped_rewards": True,
        "trajectories_with_clamped_returns": tight,
        "trajectories": not limits.counts_trajectories,
        "persons_with_surplus": several,
        "persons": several and not limits.size_is_public,
    }
    return tuple(name for name, there in counted.items() if there)


def stage_rules(limits: Limits, shape: Vector, alpha: float) -> StageRules:
    """Return the rules with all that is public about a study in them.

    Args:
        limits: of the study.
        shape: omega before anything is chosen.
        alpha: of the values.
    """
    intervals = [limits.interval(level) for level in range(limits.levels)]
    delta = sensitivity(
        shape,
        most_states=limits.most_keys,
        trajectories_per_person=limits.most_trajectories,
        add_remove=limits.add_remove,
        count_weight=count_weight(limits.keys, limits.most_keys, add_remove=limits.add_remove),
    )
    return StageRules(
        name="privalue.study",
        bound=partial(
            chosen_bound,
            reach=np.array([float(limits.nearest << level) for level in range(limits.levels)]),
            width=np.array([float(last - first) for first, last in intervals]),
            noise=alpha * delta / float(shape.mean()),
        ),
        shape=partial(
            shape_from_counts,
            alpha=alpha,
            most_states=limits.most_keys,
            trajectories_per_person=limits.most_trajectories,
            add_remove=limits.add_remove,
        ),
    )
