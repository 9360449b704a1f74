"""The sharper bound of DP-LSL as functions of plain arguments."""

from oracles.limits import make_limits
from privalue.core.sensitivity import RidgeSensitivity


def smooth_ridge(counts, design, *, beta, **public):
    return of_ridge(design, **public).smooth(counts, beta)


def least_ridge_psi(design, *, largest=1.0, **public):
    return of_ridge(design, largest=largest, **public).extremes()[0]


def most_ridge_psi(design, **public):
    return of_ridge(design, **public).extremes()[1]


def of_ridge(design, *, trajectories, ridge, largest, reach, per_person=1, touched=None):
    """Returns of any size and reach, also those that no bounds have, for planted mistakes."""
    bounds = make_limits(
        unit="person",
        neighbours="add-remove",
        keys=design.states,
        max_trajectories_per_person=per_person,
        return_bounds=(-largest, largest),
    )
    sensitivity = RidgeSensitivity(bounds, design, cap=trajectories, ridge=ridge)
    sensitivity.reach, sensitivity.max_keys_changed = reach, touched or design.states
    return sensitivity
