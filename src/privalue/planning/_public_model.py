"""Hold what a plan assumes of the data: visits, returns and values, all of it public.

| symbol  | here            | shape | public |
|---------|-----------------|-------|--------|
| p_s     | ``visits``      | N     | yes: the chance that a trajectory visits s, and counts there |
| F_s     | ``means``       | N     | yes: the mean return of those visits |
| v_s     | ``variances``   | N     | yes: and its variance |
| V       | ``values``      | N     | yes: what is to be estimated |
| B x 2N  | ``together``    |       | yes: how visits and returns of the states vary together |
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from privalue.core import Vector
from privalue.errors import UsageError

SEED = 20160620
MOST_STATES = 100_000  # a plan of so many takes a minute; of a million, ten, and 3 GB


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicModel:
    """The visits, returns and values that a plan assumes, and where the assumptions come from.

    What is assumed from the study alone is the middle of three cases; ``optimistic`` and
    ``cautious`` are the other two. A world needs no such ends, and has none.
    """

    visits: Vector
    means: Vector
    variances: Vector
    values: Vector  # NaN where the world has none
    known: bool  # the values are a world's, not made up
    source: str
    assumptions: tuple[str, ...]
    together: Vector | None = None
    optimistic: Self | None = None
    cautious: Self | None = None

    def __post_init__(self) -> None:
        for name in ("visits", "means", "variances", "values", "together"):
            if getattr(self, name) is not None:
                array = np.array(getattr(self, name), dtype=np.float64)
                array.setflags(write=False)
                object.__setattr__(self, name, array)
        if not ((self.visits >= 0) & (self.visits <= 1)).all() or not (self.variances >= 0).all():
            raise UsageError("a model needs visits from 0 to 1 and variances of at least 0")

    @property
    def distinct_states(self) -> float:
        """Return sum_s p_s, the expected number of distinct states of a trajectory."""
        return float(self.visits.sum())
