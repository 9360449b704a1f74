"""What was drawn, as whole multiples of the grid: exact, where doubles would round."""

from privalue.core import _noise as noise


def gaussian_multiples(center, *, sigma, grid, entropy=None):
    """Return the integers j_i nearest to (center_i + sigma_i Z_i) / grid_i, as a list."""
    multiples, rare = noise._multiples(center, sigma, grid, entropy)
    drawn = multiples.tolist()
    for i, multiple in rare.items():
        drawn[i] = multiple
    return drawn
