"""Hold what leaves: the release, its values by state, and their JSON.

A ``Release`` holds the study, the terms that were used, and the analysed mechanism's output, and
nothing else that depends on the data. It is written whole or not at all, and never overwritten.
"""

from privalue.artefact._columns import Flags, Tabular
from privalue.artefact._release import (
    FILE_NAME,
    NOT_PRIVATE,
    Accepted,
    Guarantee,
    NoiseScale,
    PolicyInArm,
    PolicyInterval,
    PublicNoise,
    Release,
    ReleasedLimits,
    ReleasedStage,
    ReleasedStatistics,
    Share,
    Software,
    StageChoice,
    require_vacant,
)
from privalue.artefact._values import FIELDS, StateValue, StateValues, as_numbers, json_cells

__all__ = [
    "FIELDS",
    "FILE_NAME",
    "NOT_PRIVATE",
    "Accepted",
    "Flags",
    "Guarantee",
    "NoiseScale",
    "PolicyInArm",
    "PolicyInterval",
    "PublicNoise",
    "Release",
    "ReleasedLimits",
    "ReleasedStage",
    "ReleasedStatistics",
    "Share",
    "Software",
    "StageChoice",
    "StateValue",
    "StateValues",
    "Tabular",
    "as_numbers",
    "json_cells",
    "require_vacant",
]
