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
class Ratios:
    """What a pair stands for where another policy is valued; public."""

    # Of every pair, and of the numbers that mark an invalid row and an end: the key.
    starts: NDArray[np.int32] = field(compare=False)
    of_pairs: Vector = field(compare=False)  # without the behaviour where rows have it
    logged: bool

    @classmethod
    def of(cls, study: Study, keys: int) -> "Ratios | None":
        """Return what a study's pairs stand for; None where no other policy is valued."""
        if not study.is_off_policy:
            return None
        policies, pairs = study.policies, study.pairs
        assert pairs is not None
        starts = pairs.state_of if study.start_names else np.zeros(pairs.count)
        ratios = policies.target
        if policies.behaviour is not None:
            ratios = _over(ratios, policies.behaviour)
        return cls(
            starts=np.append(starts, [keys, keys + 1]).astype(np.int32),
            of_pairs=np.append(ratios, [0.0, 1.0]),
            logged=policies.behaviour is None,
        )

    def apply(self, pairs: NDArray[np.int32], logged: Vector | None) -> tuple[Any, Vector]:
        """Return the key and the ratio of each row, from its pair and its logged probability."""
        ratios = self.of_pairs[pairs]
        if self.logged:
            assert logged is not None
            # An end has no action: nothing of it was chosen.
            ratios = np.where(pairs == len(self.starts) - 1, 1.0, _over(ratios, logged))
        return self.starts[pairs], ratios


def _over(target: Vector, behaviour: Vector) -> Vector:
    """Return target/behaviour, and 0 where the behaviour has no probability."""
    with np.errstate(over="ignore"):
        return np.where(behaviour > 0, target / np.where(behaviour > 0, behaviour, 1.0), 0.0)
