"""The sharper bound of DP-LSL as functions of plain arguments."""

from oracles.limits import limits
from privalue.core.sensitivity import RidgeSensitivity


def smooth_ridge(counts, design, *, beta, **public):
    return of_ridge(design, **public).smooth(counts, beta)


def least_ridge_psi(design, *, largest=1.0, **public):
    return of_ridge(design, largest=largest, **public).extremes()[0]


def most_ridge_psi(design, **public):
    return of_ridge(design, **public).extremes()[1]


def of_ridge(design, *, trajectories, ridge, largest, reach, per_person=1, touched=None):
    """Returns of any size and reach, also of such as no bounds have: mistakes are planted here."""
    held = limits(
        unit="person",
        neighbours="add-remove",
        keys=design.states,
        max_trajectories_per_person=per_person,
        return_bounds=(-largest, largest),
    )
    made = RidgeSensitivity(held, design, cap=trajectories, ridge=ridge)
    made.reach, made.max_keys_changed = reach, touched or design.states
    return made
