"""Noisy numbers as whole multiples of the grid: exact, where doubles would round."""

from unittest.mock import patch

from privalue.core import OperatingSystemEntropy, noise


def gaussian_multiples(center, *, sigma, grid, entropy=None):
    """Return the integers j_i nearest to (center_i + sigma_i Z_i) / grid_i, as a list."""
    multiples, rare = with_rare(center, sigma=sigma, grid=grid, entropy=entropy)
    for i, multiple in rare.items():
        multiples[i] = multiple
    return multiples


def with_rare(center, *, sigma, grid, entropy=None):
    """The multiples that doubles decide, and those that they leave in doubt, by place."""
    fill, exactly = noise.fill, noise.round_exactly
    in_doubt, rare = [0], {}

    def count_fill(*args):
        result = fill(*args)
        in_doubt[0] = result[0]
        return result

    def note(*args):
        rare[in_doubt[0]] = exactly(*args)
        return 0

    with patch.object(noise, "fill", count_fill), patch.object(noise, "round_exactly", note):
        rounded = noise.gaussian_on_grid(
            center, sigma=sigma, grid=grid, entropy=entropy or OperatingSystemEntropy()
        )
    # Exact: doubles decide below 2**53 steps.
    return [int(multiple) for multiple in rounded / grid], rare
