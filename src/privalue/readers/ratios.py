"""Compute the key and the importance ratio of each row, for off-policy evaluation.

A row's ratio is the target's probability of its action over the behaviour's, which comes from a
public table or from the row itself: the ratio depends on that row alone. An action that the
behaviour never takes has ratio 0; the target's weight there is lost, which lowers the kept mass.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.study import Study


@dataclass(frozen=True, kw_only=True)
class ImportanceRatios:
    """The key and the ratio of every pair of state and action; public."""

    # Both end with an entry for an invalid row, and one for an end.
    key_of_pair: NDArray[np.int32] = field(compare=False)
    ratio_of_pair: Vector = field(compare=False)  # the target's probability, if rows have the other
    is_logged: bool  # whether rows have the behaviour's probability

    @classmethod
    def of(cls, study: Study, keys: int) -> "ImportanceRatios | None":
        """Return the keys and ratios of a study's pairs; None without a target policy."""
        if not study.is_off_policy:
            return None
        policies, pairs = study.policies, study.pairs
        assert pairs is not None
        keys_of_pairs = pairs.state_of if study.policy.by else np.zeros(pairs.count)
        ratios = policies["target"]
        if "behaviour" in policies:
            ratios = _divide(ratios, policies["behaviour"])
        return cls(
            key_of_pair=np.append(keys_of_pairs, [keys, keys + 1]).astype(np.int32),
            ratio_of_pair=np.append(ratios, [0.0, 1.0]),
            is_logged="behaviour" not in policies,
        )

    def apply(self, pairs: NDArray[np.int32], probabilities: Vector | None) -> tuple[Any, Vector]:
        """Return the key and the ratio of each row, from its pair and its logged probability."""
        ratios = self.ratio_of_pair[pairs]
        if self.is_logged:
            assert probabilities is not None
            ends = pairs == len(self.key_of_pair) - 1  # an end has no action, and so ratio 1
            ratios = np.where(ends, 1.0, _divide(ratios, probabilities))
        return self.key_of_pair[pairs], ratios


def _divide(target: Vector, behaviour: Vector) -> Vector:
    """Return target/behaviour, and 0 where the behaviour's probability is 0."""
    with np.errstate(over="ignore"):
        return np.where(behaviour > 0, target / np.where(behaviour > 0, behaviour, 1.0), 0.0)
