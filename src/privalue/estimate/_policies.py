"""Make what is published of another policy's value, from the numbers that were drawn."""

from typing import Any

import numpy as np

from privalue.artefact import (
    Compared,
    KeptMass,
    PolicyInterval,
    PolicyTrust,
    PolicyTrusts,
    ReleasedWeights,
    StateValues,
    as_numbers,
    kept_masses,
)
from privalue.core import GRID_STEPS, Ope, Vector
from privalue.estimate._weights import NoisyWeights, PolicyEstimates, Quantity, policy_estimates
from privalue.study import Study

_INTERVALS = ("total_", "", "total_band_")  # in the order of release.json


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


def published_policy(study: Study, mechanism: Ope, drawn: Vector) -> dict[str, Any]:
    """Return the parts of a release that come from the mechanism's output alone.

    Args:
        study: what is public; it says whether there is one number for each start.
        mechanism: that made the numbers, with its constants.
        drawn: the numbers that left.
    """
    noisy = noisy_weights(mechanism, drawn)
    found = policy_estimates(noisy, study.return_bounds, study.report.level)
    private = len(mechanism.scales) == 4
    weights = ReleasedWeights(
        weighted=as_numbers(noisy.weighted),
        weights=as_numbers(noisy.weights),
        returns=as_numbers(noisy.returns),
        sizes=as_numbers(noisy.sizes) if private else None,
        scales=as_numbers(np.array(noisy.scales[: len(mechanism.scales)])),
    )
    common: dict[str, Any] = {
        "theta": as_numbers(np.zeros(0)),
        "level": found.level,
        "weights": weights,
    }
    if study.start_names:
        return {**common, **_by_start(study, found)}
    return {**common, "values": StateValues([], {"value": np.zeros(0)}), **_alone(found)}


def _alone(found: PolicyEstimates) -> dict[str, Any]:
    """Return the fields of a release with one number."""
    return {
        "policy_value": float(found.target.value[0]),
        "policy_interval": _interval(found.target),
        "kept_mass": KeptMass(
            value=float(found.kept[0]),
            low=float(found.kept_low[0]),
            high=float(found.kept_high[0]),
            supported=bool(found.supported[0]),
        ),
        "policy_trust": PolicyTrust(
            clipping_bias=float(found.bias[0]),
            largest_clipping_bias=float(found.largest_bias[0]),
            effective_trajectories=float(found.effective[0]),
            behaviour_contradicted=bool(found.refuted.any()) or None,
        ),
        "behaviour_value": _compared(found.behaviour),
        "policy_difference": _compared(found.difference),
    }


def _by_start(study: Study, found: PolicyEstimates) -> dict[str, Any]:
    """Return the fields of a release with one number for each start."""
    kept = kept_masses(found.kept, found.kept_low, found.kept_high, found.supported)
    more = {"supported": found.supported, "kept_mass": kept}
    names = study.start_names
    return {
        "values": StateValues(names, {**_columns(found.target), **more}),
        "policy_trusts": PolicyTrusts(
            clipping_bias=as_numbers(found.bias),
            largest_clipping_bias=as_numbers(found.largest_bias),
            effective_trajectories=as_numbers(found.effective),
            behaviour_contradicted=bool(found.refuted.any()) or None,
        ),
        "behaviour_values": StateValues(names, _columns(found.behaviour)),
        "differences": StateValues(names, _columns(found.difference)),
    }


def _columns(of: Quantity) -> dict[str, Any]:
    """Return a quantity as columns; bands are only of several numbers."""
    columns = {"value": of.value}
    for kind in _INTERVALS:
        for side in ("low", "high"):
            numbers = getattr(of, f"{kind}{side}")
            if numbers is not None:
                columns[f"{kind}{side}"] = numbers
    return columns


def _interval(of: Quantity) -> PolicyInterval:
    """Return the intervals of the one number."""
    return PolicyInterval(
        low=float(of.low[0]),
        high=float(of.high[0]),
        total_low=float(of.total_low[0]),
        total_high=float(of.total_high[0]),
    )


def _compared(of: Quantity) -> Compared:
    """Return a number with its intervals."""
    return Compared(value=float(of.value[0]), interval=_interval(of))
