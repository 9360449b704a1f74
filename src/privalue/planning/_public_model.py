"""Hold what a plan assumes of the data: visits, returns and values, all of it public.

| symbol  | here            | shape | public |
|---------|-----------------|-------|--------|
| p_s     | ``visits``      | N     | yes: the chance that a trajectory visits s, and counts there |
| F_s     | ``means``       | N     | yes: the mean return of those visits |
| v_s     | ``variances``   | N     | yes: and its variance |
| V       | ``values``      | N     | yes: what is to be estimated; with actions, Q of pairs |
| V       | ``state_values`` | S    | yes: with actions, what states are worth |
| B x 2N  | ``together``    |       | yes: how visits and returns of the states vary together |
| J       | ``levels``      |       | yes: where returns lie, for a stage for bounds |
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from privalue.core import Vector
from privalue.errors import UsageError

SEED = 20160620
MOST_STATES = 100_000  # a plan of so many takes a minute; of a million, ten, and 3 GB


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels:
    """Where the returns of a world lie, among the intervals that a private bound is chosen from."""

    shares: Vector  # key x (level, side): of the key's visits
    steps: Vector  # key x (level, side): the mean return of these visits, in steps of the grid
    largest: Vector  # of each level, the share of trajectories whose largest level it is

    def in_every_arm(self, arms: int) -> Self:
        """Return the same for several arms that are alike."""
        shares, steps = (np.tile(each, (arms, 1)) for each in (self.shares, self.steps))
        return replace(self, shares=shares, steps=steps)


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
    levels: Levels | None = None  # of a world, where the study has a stage for bounds
    state_values: Vector | None = None  # where ``values`` are of pairs; NaN where there is none
    optimistic: Self | None = None
    cautious: Self | None = None

    def __post_init__(self) -> None:
        for name in ("visits", "means", "variances", "values", "together", "state_values"):
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

    def in_every_arm(self, arms: int) -> Self:
        """Return the model of several arms, each as large as the others and with the same law.

        How the states of an arm vary together is known from batches of trajectories. Other arms
        have other people: each gets the same batches, moved on by some places, so that no two meet.
        """
        together = self.together
        if together is not None:
            places = [len(together) * arm // arms for arm in range(arms)]
            halves = np.hsplit(together, 2)
            together = np.hstack([np.roll(half, at, axis=0) for half in halves for at in places])
        return replace(
            self,
            visits=np.tile(self.visits / arms, arms),
            means=np.tile(self.means, arms),
            variances=np.tile(self.variances, arms),
            values=np.tile(self.values, arms),
            together=together,
            levels=self.levels and self.levels.in_every_arm(arms),
            optimistic=self.optimistic and self.optimistic.in_every_arm(arms),
            cautious=self.cautious and self.cautious.in_every_arm(arms),
            assumptions=(
                *self.assumptions,
                f"the {arms} arms are equally large and alike; how large they are is not public",
            ),
        )
