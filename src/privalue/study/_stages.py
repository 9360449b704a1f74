"""Decide whether a study has a stage for bounds, and what it may spend.

The rule by which it chooses is in ``_stage_rules``. All of this is from public numbers.
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
    block_sensitivity,
    count_weight,
    gaussian,
    visit_block,
)
from privalue.errors import StudyError
from privalue.study._stage_rules import bin_noise, bounds_pay, chosen_bound, least_share

if TYPE_CHECKING:
    from privalue.study._study import Study

MOST_CELLS = 2_000_000  # states x levels x sides: a bound needs a count and a sum in each


def automatic_stages(study: "Study", trajectories: int | None = None) -> tuple[str, ...]:
    """Return the stages that "auto" stands for, from what is public.

    Args:
        study: a study of dp-ssp.
        trajectories: m, where it is public; as the study declares it, if left out.
    """
    pays = bounds_pay(
        implied=study.values.returns is None,
        discount=study.values.discount,
        trajectories=study.study.trajectories if trajectories is None else trajectories,
        noise=_bin_noise(study),
    )
    return ("bounds",) if pays and _has_room(study) else ()


def stage_shares(study: "Study", size: PublicSize) -> dict[str, float]:
    """Return the share of mu^2 of each stage that there is; the values get the rest.

    Where the study does not say it, many trajectories need less, and "auto" leaves the stage out
    if there turn out to be too few.
    """
    m, chosen, stages = size.trajectories, study.mechanism, study.stages
    if chosen.stages == "auto" and stages:
        stages = automatic_stages(study, m)
    if "stage_shares" in chosen.given:
        return {name: chosen.stage_shares[name] for name in stages}
    return {name: least_share(m, _bin_noise(study)) for name in stages}


def _bin_noise(study: "Study") -> float:
    """Return the noise of a bin of the histogram of levels, with the usual share."""
    add_remove = study.privacy.neighbours == "add-remove"
    alpha = gaussian(study.privacy.epsilon, study.privacy.delta).alpha
    return bin_noise(study.trajectories_per_person, add_remove, alpha)


def require_room(study: "Study") -> None:
    """Refuse a bounds stage with so many states that its sums would not fit in the memory."""
    if "bounds" in study.stages and not _has_room(study):
        raise StudyError(
            f'[mechanism] stages: "bounds" is for at most {MOST_CELLS // (2 * MOST_LEVELS):,} '
            f"states, and there are {study.key_count:,}; leave it out, or give tighter returns"
        )


def _has_room(study: "Study") -> bool:
    return 2 * MOST_LEVELS * study.key_count <= MOST_CELLS


def stage_rules(limits: Limits, shape: Vector, alpha: float, *, shrinkage: bool) -> StageRules:
    """Return the rule with all that is public about a study in it.

    Args:
        limits: of the study.
        shape: omega.
        alpha: of the values.
        shrinkage: whether values are drawn to what they have in common.
    """
    intervals = [limits.interval(level) for level in range(limits.levels)]
    delta = block_sensitivity(limits, shape, *visit_block(count_weight(limits)))
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
    )
