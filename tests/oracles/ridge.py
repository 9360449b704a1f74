"""The sharper bound of DP-LSL as functions of plain arguments."""

from privalue.core._sensitivity_lsl import RidgeSensitivity


def smooth_ridge(counts, design, *, beta, trajectories, **public):
    return RidgeSensitivity(design=design, cap=trajectories, **public).smooth(counts, beta)


def least_ridge_psi(design, *, trajectories, largest=1.0, **public):
    return RidgeSensitivity(design=design, cap=trajectories, largest=largest, **public).least()


def most_ridge_psi(design, *, trajectories, **public):
    return RidgeSensitivity(design=design, cap=trajectories, **public).most()
