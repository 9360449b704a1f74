"""What was drawn, as whole multiples of the grid: exact, where doubles would round."""

from privalue.core import OperatingSystemEntropy, noise


def gaussian_multiples(center, *, sigma, grid, entropy=None):
    """Return the integers j_i nearest to (center_i + sigma_i Z_i) / grid_i, as a list."""
    drawn, rare = with_rare(center, sigma=sigma, grid=grid, entropy=entropy)
    for i, multiple in rare.items():
        drawn[i] = multiple
    return drawn


def with_rare(center, *, sigma, grid, entropy=None):
    """The multiples that doubles decide, and those that they leave in doubt, by place."""
    sigmas, grids = noise.require_drawable(center, sigma, grid)
    entropy = entropy or OperatingSystemEntropy()
    multiples, rare = noise.draw_multiples(center, sigmas, grids, entropy)
    return multiples.tolist(), rare
