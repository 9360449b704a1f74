"""Limits with defaults, for tests; the package has none, so that nothing fails open."""

import sys
from types import SimpleNamespace

from privalue.core import Limits
from privalue.core import sensitivity as sensitivities


def make_limits(**changes):
    """One trajectory that is replaced, one state, returns from 0 to 1; and the changes."""
    defaults = {
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
        "has_ends": False,
        "drop_truncated": False,
    }
    terms = {**defaults, **changes}
    secret = terms["drop_invalid"] or terms["drop_truncated"]
    return Limits(**{"size_is_public": not secret and terms["neighbours"] != "add-remove", **terms})


def of_sums(keys, most_states=None, *, trajectories_per_person=1, add_remove=False):
    """Limits of N, H, L and the relation."""
    return make_limits(
        unit="trajectory" if trajectories_per_person == 1 else "person",
        neighbours="add-remove" if add_remove else "replace-one",
        keys=keys,
        max_states_per_trajectory=keys if most_states is None else most_states,
        max_trajectories_per_person=trajectories_per_person,
    )


# The core's sensitivities by plain arguments


def block_sensitivity(
    shape, *, largest, furthest, most_keys=None, most_trajectories=1, add_remove=False
):
    bounds = of_sums(
        max(len(shape), 1),
        most_keys,
        trajectories_per_person=most_trajectories,
        add_remove=add_remove,
    )
    return sensitivities.block_sensitivity(bounds, shape, largest, furthest)


def smooth_lsw(counts, weights, beta, *, pseudo_count=0.0, per_person=1, touched=None):
    """psi^w; all states may be touched if it is left out."""
    changed = touched or len(counts)
    bounds = SimpleNamespace(max_trajectories_per_person=per_person, max_keys_changed=changed)
    return sensitivities.LswSensitivity(bounds, weights, 0, pseudo_count).smooth(counts, beta)


def smooth_lsl(counts, weights, cap, beta, *, slope, offset, per_person=1):
    bounds = SimpleNamespace(max_trajectories_per_person=per_person)
    return sensitivities.LslSensitivity(bounds, weights, cap, slope, offset).smooth(counts, beta)


def count_weight(states, most_states=None, *, add_remove=False):
    """c_w, by plain arguments."""
    from privalue.study import heuristics

    return heuristics.count_weight(of_sums(states, most_states, add_remove=add_remove))


def sensitivity(shape, *, count_weight, most_states=None, **unit):
    """Delta of DP-SSP, by plain arguments."""
    bounds = of_sums(max(len(shape), 1), most_states, **unit)
    return sensitivities.visit_sensitivity(bounds, shape, count_weight)


def shape_weights(prior, states, *, expected_trajectories=None, alpha=None, shrinkage=True, **unit):
    """omega, by plain arguments."""
    from privalue.study.heuristics import choose_shape

    bounds = of_sums(states, **unit)
    return choose_shape(bounds, prior, expected_trajectories, alpha or 1.0, shrinkage=shrinkage)


# A planted mistake: the kernel does not enforce a limit

OF_A_UNIT = ("max_states_per_trajectory", "max_trajectories_per_person")


def without(limit, gather):
    """The kernel without one limit."""

    def careless(*columns_and_rules):
        *columns, rules, sums = columns_and_rules
        return gather(*columns, rules._replace(**{limit: 10**9}), sums)

    return careless
