"""Flag rows that need care, using released and public numbers only.

Flags have codes here; ``words.toml`` has what rows carry and what it means.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.errors import read_texts
from privalue.releases import FLAGS_BETWEEN, NOT_PRIVATE, ValueTable
from privalue.study import Study

FEW_VISITS = 10  # expected of all trajectories, by the study's own prior
WORDS = read_texts(__file__, "words.toml")

Flag = tuple[str, NDArray[np.bool_]]  # the code, and which rows it is of


def cautions(*, private: bool, accepted: Sequence[str]) -> list[str]:
    """Return the flags that every row of a release has."""
    useless = [WORDS["flags"]["guessed"]] if "useless" in accepted else []
    return useless if private else [NOT_PRIVATE, *useless]


def flagged_table(
    columns: dict[str, Any], flags: Sequence[Flag], every: Sequence[str] = ()
) -> ValueTable:
    """Return a table with the flags of each row as one text.

    Args:
        columns: without flags.
        flags: of some rows each.
        every: flags that every row has.

    >>> flagged_table({"value": [0.5, 1.0]}, [("weightless", np.array([True, False]))]).flags
    array(['weight 0', ''], dtype=object)
    """
    texts = np.full(len(columns["value"]), FLAGS_BETWEEN.join(every), dtype=object)
    for code, mask in flags:
        word = WORDS["flags"][code]
        texts[mask] = [text + FLAGS_BETWEEN + word if text else word for text in texts[mask]]
    return ValueTable({**columns, "flags": texts})


def flags_of_study(study: Study, values: Vector, trajectories: int | None = None) -> list[Flag]:
    """Return the flags of rows that the study gives, by its prior of visits, weights and bounds.

    Args:
        study: what is public.
        values: as released.
        trajectories: m, where it is public.
    """
    flags: list[Flag] = []
    counted = study.mechanism.name == "dp-ssp"  # though noisy, counts say more than a prior
    prior = study.key_visits
    if not counted and prior is not None and trajectories is not None:
        flags.append(("rare", trajectories * prior < FEW_VISITS))
    flags.append(("weightless", study.key_weights == 0))
    # The intervals of means show how far these may be from a bound. Other values have none.
    if not counted or study.features.kind == "matrix":
        low, high = study.values.return_bounds
        flags.append(("at-a-bound", (values <= low) | (values >= high)))
    return flags
