"""Hold what leaves: the release, its values by state, and their JSON.

A ``Release`` holds the study, the terms that were used, and the analysed mechanism's output, and
nothing else that depends on the data. It is written whole or not at all, and never overwritten.
"""

from privalue.artefact._columns import Flags, Tabular
from privalue.artefact._parts import (
    Accepted,
    Compared,
    Guarantee,
    PolicyInArm,
    PolicyInterval,
    PolicyTrust,
    PolicyTrusts,
    PublicNoise,
    ReleasedStage,
    ReleasedStatistics,
    ReleasedWeights,
    Restriction,
    Share,
    Software,
    StageChoice,
    TotalInterval,
)
from privalue.artefact._release import (
    NOT_PRIVATE,
    Release,
    policy_doubt,
)
from privalue.artefact._values import (
    FIELDS,
    KeptMass,
    StateValue,
    StateValues,
    as_numbers,
    json_cells,
    kept_masses,
)

__all__ = [
    "FIELDS",
    "NOT_PRIVATE",
    "Accepted",
    "Compared",
    "Flags",
    "Guarantee",
    "KeptMass",
    "PolicyInArm",
    "PolicyInterval",
    "PolicyTrust",
    "PolicyTrusts",
    "PublicNoise",
    "Release",
    "ReleasedStage",
    "ReleasedStatistics",
    "ReleasedWeights",
    "Restriction",
    "Share",
    "Software",
    "StageChoice",
    "StateValue",
    "StateValues",
    "Tabular",
    "TotalInterval",
    "as_numbers",
    "json_cells",
    "kept_masses",
    "policy_doubt",
]
