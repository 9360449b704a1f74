"""Load ICU-Sepsis [Choudhary, Gupta and Thomas 2024]: sepsis treatment as a tabular MDP.

It has 716 states (0 to 712 are patients' conditions, then death, survival and an empty one) and 25
actions. The dynamics were estimated from MIMIC-III and come with the distribution ``icu-sepsis``;
its data file is read, its code is not imported. Entering survival pays 1; death, survival and the
empty state are final observations without a row, so at discount 1 the value of a state is the
probability of survival. It is a benchmark, and no advice on treatment.
"""

from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from privalue.core import Vector
from privalue.errors import MissingComponentError, StudyError
from privalue.simulation.mdp import MDP
from privalue.simulation.worlds import World

SHAPE = (716, 25, 716)
TERMINAL = (713, 714, 715)


def dynamics_file() -> Path:
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


@lru_cache(maxsize=1)
def _dynamics(path: Path) -> tuple[MDP, Vector]:
    """Read the MDP at discount 1 and the clinicians' policy, once: it takes a second or two."""
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
    # The file's policy is all zeros in terminal states; any distribution will do there.
    expert[list(TERMINAL)] = 1 / mdp.actions
    return mdp, mdp.policy_table(expert)


def icu_sepsis(*, policy: Any = "expert", discount: float = 0.99) -> World:
    """Return the world of ICU-Sepsis.

    In a state, an action that clinicians did not use has the average transitions of the actions
    that they used: the tables of icu-sepsis are already filled in this way.

    Args:
        policy: "expert" (the clinicians'), or any other form of ``World.of``.
        discount: gamma, in (0, 1].
    """
    mdp, expert = _dynamics(dynamics_file())
    return World.of(
        replace(mdp, discount=discount),
        policy,
        name="icu-sepsis",
        parameters={"policy": "", "discount": float(discount)},
        behaviour=expert,
    )
