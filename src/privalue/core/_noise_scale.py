"""Release the scale of a smooth mechanism's noise: epsilon'-DP, by the discrete Laplace law.

| symbol   | here              | public      |                                                |
|----------|-------------------|-------------|------------------------------------------------|
| sigma_X  | ``sigma``         | **private** | the standard deviation of the noise            |
| beta     | ``beta``          | yes         | ln sigma_X^2 moves by at most this much        |
| epsilon' | ``epsilon_scale`` | yes         | what the release of the scale costs            |
| h        | ``scale.grid``    | yes         | a power of two; 0 where sigma is public        |
| k        |                   | **private** | ln sigma_X^2 in steps of h, rounded            |
| J        |                   | **private** | discrete Laplace noise, in steps of h          |
| a        | ``steps``         | yes         | k moves by at most this much                   |
| b        | ``scale.laplace`` | yes         | h a / epsilon', the scale of h J               |
| sigma~   | ``scale.sigma``   | yes         | e^{h (k + J) / 2}                              |

sigma_X depends on the data and may not be published. Its logarithm is smooth, so it takes little
noise to publish that: h (k + J) is epsilon'-DP. Proofs: docs/proofs/noise-scale.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from privalue.core._arrays import is_number
from privalue.core._noise import Entropy, discrete_laplace
from privalue.errors import StudyError, UsageError

# Computed scales of neighbours may differ by this much more than beta says: psi is right to a
# relative 1e-9, products and the logarithm to far less (docs/proofs/calibration.md).
_ROOM = 5e-9
_STEPS = 512  # beta is at least so many steps of the grid
_LARGEST_LOG = 709.0  # e to this is a double


@dataclass(frozen=True, kw_only=True)
class ReleasedScale:
    """The noise scale as published. It and the values are all that intervals are made from."""

    sigma: float
    laplace: float  # b, of ln sigma^2
    grid: float  # h

    def __post_init__(self) -> None:
        numbers = (self.sigma, self.laplace, self.grid)
        if not all(map(is_number, numbers)) or self.sigma <= 0 or min(numbers) < 0:
            raise UsageError(
                f"a released scale has sigma = {self.sigma!r}, laplace = {self.laplace!r} and grid "
                f"= {self.grid!r}; sigma must be a finite number above 0, the others 0 or more"
            )


def scale_share(epsilon: float, share: float) -> tuple[float, float]:
    """Return (epsilon', epsilon - epsilon') with epsilon' = share epsilon, each rounded down.

    Both releases together then cost at most epsilon, by basic composition, as real numbers and
    not only as doubles. A share of 0 leaves
    everything to the values.

    >>> scale_share(1.0, 0.25)
    (0.25, 0.75)
    """
    if not is_number(epsilon) or epsilon <= 0:
        raise StudyError(f"[privacy] epsilon = {epsilon!r} must be a finite number above 0")
    if not is_number(share) or not 0 <= share < 1:
        raise StudyError(
            f"[mechanism] noise_scale_share = {share!r} must be at least 0 and below 1"
        )
    scale = _rounded_down(Fraction(epsilon) * Fraction(share))
    values = _rounded_down(Fraction(epsilon) - Fraction(scale))
    if values <= 0 or (share > 0 and scale <= 0):
        raise StudyError(
            f"[mechanism] noise_scale_share = {share!r} leaves nothing of epsilon = {epsilon!r} to "
            "one of the two releases; use a share such as 0.1"
        )
    return scale, values


def release_scale(
    sigma: float, beta: float, epsilon_scale: float, entropy: Entropy | None = None
) -> ReleasedScale:
    """Draw e^{h (k + J) / 2}: an epsilon'-DP release of a scale whose ln sigma^2 is beta-smooth.

    k = floor(ln sigma^2 / h + 1/2) moves by at most a = floor((beta + room) / h) + 1 between
    neighbours; J is discrete Laplace of scale a / epsilon' (docs/proofs/noise-scale.md,
    lemma 1 and theorem 2).

    Args:
        sigma: the private standard deviation.
        beta: public; the smoothness that sigma was computed with.
        epsilon_scale: public; what this release may cost.
        entropy: the operating system's, if left out.

    Returns:
        The scale as published, with the public constants of its own noise.
    """
    grid, steps = scale_grid(beta)
    laplace = laplace_scale(beta, epsilon_scale)
    if not is_number(sigma) or sigma <= 0:
        raise UsageError("sigma must be a finite number above 0; without noise nothing is private")
    noise = discrete_laplace(Fraction(steps) / Fraction(epsilon_scale), entropy)
    # Whole numbers are added, and what is published is a function of their sum: adding noise to
    # ln sigma^2 in doubles would leave its last bits as they are (Mironov 2012).
    multiple = _steps_of(sigma, grid) + noise
    exponent = Fraction(multiple) * Fraction(grid) / 2
    bounded = float(min(max(exponent, Fraction(-_LARGEST_LOG)), Fraction(_LARGEST_LOG)))
    return ReleasedScale(sigma=math.exp(bounded), laplace=laplace, grid=grid)


def scale_grid(beta: float) -> tuple[float, int]:
    """Return (h, a): the grid of ln sigma^2, and by how many of its steps neighbours may differ.

    h is the largest power of two that is at most (beta + room) / 512, a = floor((beta + room)/h)
    + 1: an interval of that length has at most so many boundaries of the rounding in it. Both
    follow from beta alone, and are public.
    """
    if not is_number(beta) or not 0 <= beta <= 100:
        raise UsageError(f"beta is {beta!r}; it must be a number from 0 to 100")
    _, exponent = math.frexp((beta + _ROOM) / _STEPS)
    grid = math.ldexp(0.5, exponent)
    return grid, math.floor((Fraction(beta) + Fraction(_ROOM)) / Fraction(grid)) + 1


def laplace_scale(beta: float, epsilon_scale: float) -> float:
    """Return b = h a / epsilon', rounded up: what ``release_scale`` publishes, before any data."""
    grid, steps = scale_grid(beta)
    if not is_number(epsilon_scale) or not 1e-9 <= epsilon_scale <= 1e6:
        raise StudyError(
            f"[mechanism] noise_scale_share leaves epsilon' = {epsilon_scale!r} to the noise "
            "scale; it must be from 1e-9 to 1e6: use a share such as 0.1"
        )
    return -_rounded_down(-Fraction(grid) * steps / Fraction(epsilon_scale))


def _steps_of(sigma: float, grid: float) -> int:
    """Return k = floor(ln sigma^2 / h + 1/2), exactly for the logarithm as a double. PRIVATE."""
    log_variance = 2 * math.log(sigma)
    return math.floor(Fraction(log_variance) / Fraction(grid) + Fraction(1, 2))


def _rounded_down(value: Fraction) -> float:
    """Return the largest double that is at most the value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
