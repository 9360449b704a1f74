"""Load ICU-Sepsis [Choudhary, Gupta and Thomas 2024]: sepsis treatment as a tabular MDP.

It has 716 states (0 to 712 are patients' conditions, then death, survival and an empty one) and 25
actions. The dynamics were estimated from MIMIC-III and come with the distribution ``icu-sepsis``,
from which only the file is read. Survival pays 1 when it is entered; death, survival and the empty
state are final observations and get no row, so at discount 1 the value of a state is the
probability of survival. It is a benchmark, and says nothing about how to treat anyone.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from privalue.errors import MissingComponentError, StudyError
from privalue.simulation._groups import grouped
from privalue.simulation._markov import MDP
from privalue.simulation._policies import Policy
from privalue.simulation._worlds import Parameter, World

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHAPE = (716, 25, 716)
TERMINAL = (713, 714, 715)
CONDITIONS = 713
DOSES = (0, 1, 1, 2, 2)
"""The level of each of the five doses of a drug: none, low and high."""

TRIED = 0.02
"""The share of cases in which the clinicians of a merged world try any action."""


def _dynamics_file() -> Path:
    """Return the path of the tables in the installed distribution ``icu-sepsis``."""
    try:
        files = metadata.files("icu-sepsis") or []
    except metadata.PackageNotFoundError as error:
        raise MissingComponentError(
            "ICU-Sepsis is not installed; install its data with: pip install --no-deps icu-sepsis"
        ) from error
    for file in files:
        if file.name == "dynamics.npz" and Path(str(file.locate())).is_file():
            return Path(str(file.locate()))
    raise MissingComponentError(
        "the installed icu-sepsis has no file dynamics.npz; "
        "install it again with: pip install --no-deps --force-reinstall icu-sepsis"
    )


class _Dynamics(NamedTuple):
    """What the file holds, as far as it is used."""

    mdp: MDP  # of all 716 states and 25 actions, at discount 1
    expert: Policy
    known: NDArray[np.float64]  # published of each condition: its centre, and its SOFA score


@lru_cache(maxsize=1)
def _dynamics(path: Path) -> _Dynamics:
    """Read the tables; it takes a second or two, so they are kept."""
    with np.load(path, allow_pickle=False) as tables:
        if tables["tx_mat"].shape != SHAPE:
            raise StudyError(
                f"the dynamics of icu-sepsis have shape {tables['tx_mat'].shape}; "
                f"{SHAPE} is known: install icu-sepsis 2.0"
            )
        mdp = MDP.tabular(
            transitions=tables["tx_mat"],
            rewards=tables["r_mat"],
            start=tables["d_0"],
            discount=1.0,
            terminal=TERMINAL,
        )
        expert = tables["expert_policy"]
        known = np.column_stack([tables["state_cluster_centers"], tables["sofa_scores"]])
    # The file has no actions for states in which nobody acts.
    expert[list(TERMINAL)] = 1 / mdp.actions
    return _Dynamics(mdp, Policy(probabilities=expert), known[:CONDITIONS])


def icu_sepsis(
    *,
    groups: int | None = None,
    actions: int = 25,
    policy: str | Policy = "expert",
    discount: float = 0.99,
) -> World:
    """Return the world of ICU-Sepsis, as it is, or as a smaller one of public groups.

    An action that clinicians did not use in a state moves as the average of those that they used:
    the tables hold that already.

    Args:
        groups: merge the 713 conditions into so many groups of ``sepsis_groups``.
        actions: 25 treatments (five doses of one drug times five of another), or 9: none, low
            (1, 2) and high (3, 4) of each.
        policy: "expert" (the clinicians'), "uniform", "greedy", "optimal:0.5", or a Policy. Where
            groups or actions are merged, "expert" tries each action in 2% / A of the cases besides:
            some pairs of groups would have nobody.
        discount: gamma, in (0, 1].

    Returns:
        The world ``icu-sepsis``.
    """
    if actions not in (len(DOSES) ** 2, 9):
        raise StudyError(f"actions is {actions!r}; it must be 25, or 9 for three doses of each")
    if groups is not None:
        _require_groups(groups)
    dynamics = _dynamics(_dynamics_file())
    behaviour = dynamics.expert
    mdp = MDP(outcomes=dynamics.mdp.outcomes, start=dynamics.mdp.start, discount=discount)
    merged: dict[str, Parameter] = {}
    if groups is not None or actions != mdp.actions:
        state_groups = np.full(mdp.states, -1)
        state_groups[:CONDITIONS] = (
            np.arange(CONDITIONS) if groups is None else sepsis_groups(groups)
        )
        doses = DOSES if actions == 9 else range(len(DOSES))
        levels = max(doses) + 1
        action_groups = [one * levels + other for one in doses for other in doses]
        mdp, behaviour = grouped(
            mdp, behaviour, state_groups=state_groups, action_groups=action_groups
        )
        uniform = Policy.uniform(states=mdp.states, actions=mdp.actions)
        behaviour = behaviour.towards(uniform, TRIED)
        merged = {**({} if groups is None else {"groups": groups}), "actions": actions}
    return World.of(
        mdp,
        policy,
        name="icu-sepsis",
        parameters={**merged, "policy": "", "discount": float(discount)},
        behaviour=behaviour,
    )


def sepsis_groups(count: int) -> NDArray[np.int64]:
    """Return a public group for each of the 713 conditions.

    They are clusters of the published centres of the conditions (vital signs and laboratory values,
    standardised) and of three times the standardised SOFA score, by k-means.
    """
    _require_groups(count)
    known = _dynamics(_dynamics_file()).known
    known = (known - known.mean(axis=0)) / known.std(axis=0)
    known[:, -1] *= 3
    found = scipy.cluster.vq.kmeans2(known, count, minit="++", seed=0)[1]
    # K-means may leave a cluster without any member.
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _require_groups(count: int) -> None:
    """Refuse a number of groups that cannot be."""
    if not 1 <= count <= CONDITIONS:
        raise StudyError(f"groups is {count!r}; it must be a whole number from 1 to {CONDITIONS}")
