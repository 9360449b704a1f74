"""Limits with defaults, for tests; the package has none, so that nothing fails open."""

import sys

from privalue.core import Limits


def limits(**changes):
    """One trajectory that is replaced, one state, returns from 0 to 1; and the changes."""
    usual = {
        "unit": "trajectory",
        "neighbours": "replace-one",
        "keys": 1,
        "arms": 1,
        "max_states_per_trajectory": 1,
        "max_trajectories_per_person": 1,
        "discount": 1.0,
        "return_bounds": (0.0, 1.0),
        "reward_bounds": (-sys.float_info.max, sys.float_info.max),
        "levels": 1,
        "clip": 0.0,
        "drop_invalid": False,
        "drop_truncated": False,
    }
    given = {**usual, **changes}
    secret = (given["drop_invalid"], given["drop_truncated"], given["neighbours"] == "add-remove")
    return Limits(**{"size_is_public": not any(secret), **given})
