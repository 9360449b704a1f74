"""Compute the key and the importance ratio of each row, for off-policy evaluation.

A row's ratio is the target's probability of its action over the behaviour's, which comes from a
public table, or from the row itself: it depends on that row alone. An action that the behaviour
never takes has ratio 0: the target's weight there is lost, and the kept mass shows it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.study import Study


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """The key and the ratio of every pair of state and action; public."""

    # Key of every pair, and of the two numbers that mark an invalid row and an end.
    starts: NDArray[np.int32] = field(compare=False)
    of_pairs: Vector = field(compare=False)  # the target's probability alone if rows are logged
    logged: bool

    @classmethod
    def of(cls, study: Study, keys: int) -> "Ratios | None":
        """Return the keys and ratios of a study's pairs; None if it values no other policy."""
        if not study.is_off_policy:
            return None
        policies, pairs = study.policies, study.pairs
        assert pairs is not None
        starts = pairs.state_of if study.policy.by else np.zeros(pairs.count)
        ratios = policies["target"]
        if "behaviour" in policies:
            ratios = _over(ratios, policies["behaviour"])
        return cls(
            starts=np.append(starts, [keys, keys + 1]).astype(np.int32),
            of_pairs=np.append(ratios, [0.0, 1.0]),
            logged="behaviour" not in policies,
        )

    def apply(self, pairs: NDArray[np.int32], logged: Vector | None) -> tuple[Any, Vector]:
        """Return the key and the ratio of each row, from its pair and its logged probability."""
        ratios = self.of_pairs[pairs]
        if self.logged:
            assert logged is not None
            # An end has no action, and so ratio 1.
            ratios = np.where(pairs == len(self.starts) - 1, 1.0, _over(ratios, logged))
        return self.starts[pairs], ratios


def _over(target: Vector, behaviour: Vector) -> Vector:
    """Return target/behaviour, and 0 where the behaviour's probability is 0."""
    with np.errstate(over="ignore"):
        return np.where(behaviour > 0, target / np.where(behaviour > 0, behaviour, 1.0), 0.0)
