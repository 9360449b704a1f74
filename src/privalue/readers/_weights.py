"""Turn pairs of a state and an action into where a trajectory counts, and into ratios of policies.

A row's ratio is the target's probability of its action over the behaviour's, which comes from a
public table, or from the row itself. Either way it is that row's alone. An action that the
behaviour never takes has ratio 0: what the target does there is lost, and the kept mass says so.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.study import Study


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """What a pair stands for where another policy is valued; public."""

    # Of every pair, and of the number that marks an invalid row: the key at which it starts.
    starts: NDArray[np.int32] = field(compare=False)
    ratios: Vector = field(compare=False)  # of every pair; without the behaviour where it is logged
    logged: bool

    @classmethod
    def of(cls, study: Study) -> "Weighing | None":
        """Return what a study's pairs stand for; None where no other policy is valued."""
        if not study.values_a_policy:
            return None
        policies, pairs, keys = study.policies, study.pairs, study.limits.keys
        assert pairs is not None
        starts = pairs.state_of if study.start_names else np.zeros(pairs.count)
        ratios = policies.target
        if policies.behaviour is not None:
            ratios = _over(ratios, policies.behaviour)
        return cls(
            starts=np.append(starts, keys).astype(np.int32),
            ratios=np.append(ratios, 0.0),
            logged=policies.behaviour is None,
        )

    def weighed(self, *columns: Any) -> tuple[NDArray[Any], ...]:
        """Return ids, steps, keys, rewards and ratios, each row's from that row alone.

        Args:
            columns: ids, steps, pairs and rewards, and, where they are logged, probabilities.
        """
        ids, steps, pairs, rewards, *logged = columns
        ratios = self.ratios[pairs]
        if self.logged:
            ratios = _over(ratios, logged[0])
        return ids, steps, self.starts[pairs], rewards, ratios


def _over(target: Vector, behaviour: Vector) -> Vector:
    """Return target/behaviour, and 0 where the behaviour has no probability."""
    with np.errstate(over="ignore"):
        return np.where(behaviour > 0, target / np.where(behaviour > 0, behaviour, 1.0), 0.0)
