"""Make what is published of another policy's value, from the numbers that were drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privalue.core import GRID_STEPS, Ope, Vector
from privalue.estimate._weights import NoisyWeights, Quantity, policy_estimates
from privalue.estimate.flags import flag_texts, flags_of_policy
from privalue.releases import ReleasedWeights, ValueTable
from privalue.study import Study


def noisy_weights(mechanism: Ope, drawn: Vector) -> NoisyWeights:
    """Return the drawn numbers in units of trajectories, and of returns' range.

    Args:
        mechanism: that made them.
        drawn: the sums in steps: weighted returns, weights, returns, and sizes if they are private.
    """
    limits, size = mechanism.terms.limits, mechanism.terms.size
    keys, steps = limits.keys, (limits.clip / GRID_STEPS, limits.clip / GRID_STEPS, 1 / GRID_STEPS)
    parts = [drawn[at * keys : (at + 1) * keys] for at in range(len(mechanism.scales))]
    if len(parts) == 3:  # the size is public
        parts.append(np.full(keys, float(size.units or 0)))
    scales = [*mechanism.scales, 0.0][:4]
    return NoisyWeights(
        weighted=parts[0] * steps[0],
        weights=parts[1] * steps[1],
        returns=parts[2] * steps[2],
        sizes=parts[3],
        scales=(scales[0] * steps[0], scales[1] * steps[1], scales[2] * steps[2], scales[3]),
        clip=limits.clip,
        alike=limits.max_trajectories_per_person,
    )


def published_policy(
    study: Study, mechanism: Ope, drawn: Vector, every: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that come from the mechanism's output alone.

    Args:
        study: what is public; it says whether there is one number for each start.
        mechanism: that made the numbers, with its constants.
        drawn: the numbers that left.
        every: flags that every row has.
    """
    noisy = noisy_weights(mechanism, drawn)
    found = policy_estimates(noisy, study.return_bounds, study.report.level)
    labels = {"start": list(map(str, study.start_names))} if study.start_names else {}
    flags = flags_of_policy(found.supported, found.impossible, refuted=bool(found.refuted.any()))
    doubtful, plain = (flag_texts(len(found.kept), part, every) for part in (flags, []))
    more = {
        "kept_mass": found.kept,
        "kept_low": found.kept_low,
        "kept_high": found.kept_high,
        "clipping_bias": found.bias,
        "largest_clipping_bias": found.largest_bias,
        "effective_trajectories": found.effective,
        "refuted": found.refuted,
        "supported": found.supported,
    }
    target, behaviour, difference = map(_columns, (found.target, found.behaviour, found.difference))
    private = len(mechanism.scales) == 4
    return {
        "level": found.level,
        "tables": {
            "policy": ValueTable({**labels, **target, **more, "flags": doubtful}),
            "behaviour": ValueTable({**labels, **behaviour, "flags": plain}),
            "differences": ValueTable({**labels, **difference, "flags": doubtful}),
        },
        "weights": ReleasedWeights(
            weighted=noisy.weighted,
            weights=noisy.weights,
            returns=noisy.returns,
            sizes=noisy.sizes if private else None,
            scales=noisy.scales[: len(mechanism.scales)],
        ),
    }


def _columns(of: Quantity) -> dict[str, Any]:
    """Return a quantity as columns; bands are only of several numbers."""
    return {name: numbers for name, numbers in vars(of).items() if numbers is not None}
