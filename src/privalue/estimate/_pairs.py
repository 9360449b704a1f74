"""Make values of states from values of pairs of a state and an action: V from Q.

| symbol          | here       | shape | public |
|-----------------|------------|-------|--------|
| T~_sa, n~_sa    | ``noisy``  | keys  | yes, with their noise |
| T~_s, n~_s      |            | N     | yes, sums over the state's actions |
| A_s             |            | N     | yes: how many actions the state has |
| H, L            | ``most``, ``alike`` | | yes: pairs of a trajectory, trajectories of a unit |

Post-processing. The noise of a sum is the sum of independent normal numbers, so that at
v = c + T_s/n_s the number T~_s - (v - c) n~_s is exactly normal, as for a state by itself: privacy
intervals are exact by the same argument (docs/proofs/actions.md). A trajectory may count for
several actions of a state, at most min(A_s, H): its visits may all be alike, as the trajectories of
a person may, and the choice of people counts so many times.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from privalue.core import Design, Vector
from privalue.estimate._ratios import summed
from privalue.estimate._statistics import Estimates, NoisyStatistics
from privalue.study import PairNames, aggregation

At = Callable[[NoisyStatistics, Design, int | Vector], Estimates]  # by statistics, Phi and kappa


def with_states(
    pairs_of: Estimates, pairs: PairNames, at: At, *, most: int, alike: int
) -> Estimates:
    """Return the estimates of pairs, of states, and of the overall value of the policy.

    Args:
        pairs_of: values of pairs, with the statistics that they come from.
        pairs: which pairs there are.
        at: returns tabular estimates of states.
        most: H.
        alike: L.
    """
    noisy = pairs_of.statistics
    assert noisy is not None
    phi = aggregation(pairs.states.count, 1)
    design = Design(phi=phi, weights=np.ones(pairs.states.count))
    summed = summed_over_actions(noisy, pairs)
    found = at(summed, design, alike * _repeats(pairs, most))
    return replace(pairs_of, of_states=found, policy=found.policy)


def _repeats(pairs: PairNames, most: int) -> Vector:
    """Return min(A_s, H): for how many actions of each state one trajectory may count."""
    actions = np.bincount(pairs.state_of, minlength=pairs.states.count)
    return np.asarray(np.minimum(actions, most))


def summed_over_actions(noisy: NoisyStatistics, pairs: PairNames) -> NoisyStatistics:
    """Return the noisy sums and counts of states, over their actions."""

    def total(numbers: Vector) -> Vector:
        return summed(numbers, pairs.state_of, pairs.states.count)

    def together(noise: Vector) -> Vector:
        return np.sqrt(total(np.square(noise)))

    return NoisyStatistics(
        return_bounds=noisy.return_bounds,
        sums=total(noisy.sums),
        counts=total(noisy.counts),
        sum_noise=together(noisy.sum_noise),
        count_noise=together(noisy.count_noise),
    )
