"""Decide which stages a study has, what they may spend, and what limits are counted.

The rules by which stages choose are in ``_stage_rules``. All of this is from public numbers.
"""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privalue.core import (
    MOST_LEVELS,
    Limits,
    PublicSize,
    StageRules,
    Vector,
    count_weight,
    gaussian,
)
from privalue.errors import StudyError
from privalue.study._choices import sensitivity
from privalue.study._sections import implied_returns
from privalue.study._stage_rules import (
    auto_stages,
    chosen_bound,
    least_shares,
    shape_from_counts,
    stage_noise,
)

if TYPE_CHECKING:
    from privalue.study._study import Study

MOST_CELLS = 2_000_000  # states x levels x sides: a bound needs a count and a sum in each


def automatic_stages(study: "Study", trajectories: int | None = None) -> tuple[str, ...]:
    """Return the stages that "auto" stands for, from what is public.

    Args:
        study: a study of dp-ssp.
        trajectories: m, where it is public; as the study declares it, if left out.
    """
    chosen = auto_stages(
        implied=study.values.returns is None,
        discount=study.values.discount,
        prior=study.states.visits is not None,
        tabular=study.features.kind == "tabular",
        states=study.key_count,
        most_states=study.states_per_trajectory,
        trajectories_per_person=study.trajectories_per_person,
        add_remove=study.privacy.neighbours == "add-remove",
        trajectories=study.study.trajectories if trajectories is None else trajectories,
        alpha=gaussian(study.privacy.epsilon, study.privacy.delta).alpha,
    )
    return tuple(stage for stage in chosen if stage != "bounds" or _has_room(study))


def stage_shares(study: "Study", size: PublicSize) -> dict[str, float]:
    """Return the shares of mu^2 of the stages that there are; the values get the rest.

    Where the study does not say them, many trajectories need less, and "auto" leaves a stage out
    if there turn out to be too few.
    """
    m, chosen, stages = size.trajectories, study.mechanism, study.stages
    if chosen.stages == "auto":
        stages = tuple(stage for stage in automatic_stages(study, m) if stage in stages)
    shares = dict(chosen.stage_shares)
    if "stage_shares" not in chosen.given:
        noise = stage_noise(
            study.key_count,
            study.states_per_trajectory,
            study.trajectories_per_person,
            study.privacy.neighbours == "add-remove",
            gaussian(study.privacy.epsilon, study.privacy.delta).alpha,
        )
        shares |= least_shares(m, noise)
    return {name: shares[name] for name in (*stages, "limits") if shares[name] > 0}


def require_room(study: "Study") -> None:
    """Refuse a bounds stage with so many states that its sums would not fit in the memory."""
    if "bounds" in study.stages and not _has_room(study):
        raise StudyError(
            f'[mechanism] stages: "bounds" is for at most {MOST_CELLS // (2 * MOST_LEVELS):,} '
            f"states, and there are {study.key_count:,}; leave it out, or give tighter returns"
        )


def _has_room(study: "Study") -> bool:
    return 2 * MOST_LEVELS * study.key_count <= MOST_CELLS


def limit_tallies(study: "Study") -> tuple[str, ...]:
    """Return what is counted of what limits change: only what can be other than 0.

    Sizes are counted with noise where they are not public, so that there are shares.
    """
    limits, values = study.limits, study.values
    low, high = implied_returns(values.rewards, values.discount)
    tight = limits.return_bounds[0] > low or limits.return_bounds[1] < high
    several = limits.by_person and not study.data.one_trajectory_per_person
    counted = {
        "trajectories_beyond": limits.most_keys < study.keys_per_arm,
        "trajectories_with_clamped_rewards": True,
        "trajectories_with_clamped_returns": tight,
        "trajectories": not limits.counts_trajectories,
        "persons_with_surplus": several,
        "persons": several and not limits.size_is_public,
    }
    return tuple(name for name, there in counted.items() if there)


def stage_rules(
    limits: Limits, shape: Vector, alpha: float, *, shrinkage: bool, tabular: bool
) -> StageRules:
    """Return the rules with all that is public about a study in them.

    Args:
        limits: of the study.
        shape: omega before anything is chosen.
        alpha: of the values.
        shrinkage: whether values are drawn to what they have in common.
        tabular: whether each state has a value of its own.
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
            states=limits.keys,
            shrinkage=shrinkage,
        ),
        shape=partial(
            shape_from_counts,
            usual=shape,
            alpha=alpha,
            most_states=limits.most_keys,
            trajectories_per_person=limits.most_trajectories,
            add_remove=limits.add_remove,
            shrinkage=shrinkage and tabular,
        ),
    )
