"""Flag rows that need care, using released and public numbers only.

Code uses the codes of flags; ``words.toml`` has their texts, as rows show them, and meanings.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.errors import read_texts
from privalue.releases import FLAG_SEPARATOR, NOT_PRIVATE, ValueTable
from privalue.study import Study

FEW_VISITS = 10  # expected of all trajectories, by the study's prior
WORDS = read_texts(__file__, "words.toml")

Flag = tuple[str, NDArray[np.bool_]]  # its code, and the mask of its rows


def flags_of_release(*, private: bool, accepted: Sequence[str]) -> list[str]:
    """Return the texts of the flags of every row of a release."""
    useless = [WORDS["flags"]["guessed"]] if "useless" in accepted else []
    return useless if private else [NOT_PRIVATE, *useless]


def flagged_table(
    columns: dict[str, Any], flags: Sequence[Flag], common: Sequence[str] = ()
) -> ValueTable:
    """Return a table with the flags of each row as one text.

    Args:
        columns: the table without flags.
        flags: of single rows.
        common: the texts of flags of every row.

    >>> flagged_table({"value": [0.5, 1.0]}, [("weightless", np.array([True, False]))]).flags
    array(['weight 0', ''], dtype=object)
    """
    texts = np.full(len(columns["value"]), FLAG_SEPARATOR.join(common), dtype=object)
    for code, mask in flags:
        label = WORDS["flags"][code]
        texts[mask] = [text + FLAG_SEPARATOR + label if text else label for text in texts[mask]]
    return ValueTable({**columns, "flags": texts})


def flags_of_study(study: Study, values: Vector, trajectories: int | None = None) -> list[Flag]:
    """Return the flags that follow from the study's prior of visits, its weights and bounds.

    Args:
        study: the public study.
        values: the released values.
        trajectories: m, where it is public.
    """
    flags: list[Flag] = []
    has_counts = study.mechanism.name == "dp-ssp"  # even noisy ones say more than a prior
    prior = study.key_visits
    if not has_counts and prior is not None and trajectories is not None:
        flags.append(("rare", trajectories * prior < FEW_VISITS))
    flags.append(("weightless", study.key_weights == 0))
    # Intervals of means show how near a bound is; only values without any need this flag.
    if not has_counts or study.features.kind == "matrix":
        low, high = study.values.return_bounds
        flags.append(("at-a-bound", (values <= low) | (values >= high)))
    return flags
