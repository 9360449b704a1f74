"""Privacy intervals cover as often as they say, and the check that says so rejects wrong ones.

One repetition is one release: a noise scale is released, values get noise of the true scale, and
an interval is drawn around each. Repetitions are independent, so how many of them cover is
binomial. The check is two-sided: too wide is a fault, too. Releases come from the operating
system, planted mistakes from seeded sources.
"""

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from privalue.core._noise import (
    OperatingSystemEntropy,
    SeededForExperimentsOnly,
    discrete_laplace,
    gaussian_on_grid,
    public_grid,
)
from privalue.core._noise_scale import ReleasedScale, release_scale, scale_grid
from privalue.estimate._intervals import (
    known_scale,
    pivot_quantile,
    privacy_intervals,
    simultaneous_quantile,
)

REPETITIONS = 20_000
LEVELS = (0.9, 0.95, 0.99)
ALARM = 1e-9 / 60  # there are fewer checks than that
EXCESS = 0.004  # what the allowances may add to the coverage
SETTINGS = {  # beta, epsilon': b is about 0.1, 0.5 and 2
    "0.1": (0.02, 0.2),
    "0.5": (0.05, 0.1),
    "2": (0.2, 0.1),
}
WIDTH = 3  # values of a release
SIGMA = 1.7


class Releases(NamedTuple):
    """Noisy values of a true 0, one row per release, and the noise scales that were released."""

    values: np.ndarray
    scales: list[ReleasedScale]
    grid: float


def releases(beta, epsilon, source, *, sigma=SIGMA, released=release_scale, count=REPETITIONS):
    grid = public_grid(sigma / 4)
    noise = gaussian_on_grid(np.zeros(count * WIDTH), sigma=sigma, grid=grid, entropy=source)
    return Releases(
        noise.reshape(count, WIDTH),
        [released(sigma, beta, epsilon, source) for _ in range(count)],
        grid,
    )


@functools.cache
def true_releases(name):
    return releases(*SETTINGS[name], OperatingSystemEntropy())


@functools.cache
def seeded_releases(name):
    return releases(*SETTINGS[name], SeededForExperimentsOnly(2016))


def covered(drawn, level, *, quantile=None, **together):
    """For each release, whether the interval of its first value, or the band, covers 0.

    With ``quantile`` that is used for t, and no allowance for the grid of the scale: a mistake.
    """
    if quantile is not None:
        half = quantile * np.array([scale.sigma for scale in drawn.scales]) + drawn.grid / 2
        inside = np.abs(drawn.values) <= half[:, None]
    else:
        inside = np.empty(drawn.values.shape, dtype=bool)
        for i, scale in enumerate(drawn.scales):
            low, high = privacy_intervals(
                drawn.values[i], np.ones(WIDTH), scale, level, slack=drawn.grid / 2, **together
            )
            inside[i] = (low <= 0) & (high >= 0)
    return inside.all(axis=1) if together else inside[:, 0]


def alarms(hits, level):
    """The probabilities that correct intervals cover so seldom, and so often."""
    count, times = len(hits), int(hits.sum())
    return (
        float(stats.binom.cdf(times, count, level)),
        float(stats.binom.sf(times - 1, count, level + EXCESS)),
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_cover_as_often_as_they_say(name, level):
    assert min(alarms(covered(true_releases(name), level), level)) > ALARM


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SETTINGS)
def test_bands_cover_as_often_as_they_say(name, level):
    together = {"directions": WIDTH, "dimension": WIDTH}
    assert min(alarms(covered(true_releases(name), level, **together), level)) > ALARM


@pytest.mark.parametrize("level", LEVELS)
def test_a_public_scale_covers(level):
    drawn = true_releases("0.5")
    public = drawn._replace(scales=[known_scale(SIGMA)] * REPETITIONS)
    assert min(alarms(covered(public, level), level)) > ALARM


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_bands_of_correlated_values_cover(level):
    """Six values of two coordinates, in all directions; and their mean, a policy's one number."""
    phi = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [1.0, -1.0], [3.0, 1.0], [1.0, -2.0]])
    start = np.full(6, 1 / 6)
    drawn = true_releases("0.5")
    theta = drawn.values[:, :2]
    slack = drawn.grid / 2 * np.abs(phi).sum(axis=1)
    band, single = [], []
    for noise, scale in zip(theta, drawn.scales, strict=True):
        low, high = privacy_intervals(
            phi @ noise,
            np.linalg.norm(phi, axis=1),
            scale,
            level,
            slack=slack,
            directions=6,
            dimension=2,
        )
        band.append(bool(((low <= 0) & (high >= 0)).all()))
        low, high = privacy_intervals(
            start @ phi @ noise,
            np.linalg.norm(phi.T @ start),
            scale,
            level,
            slack=drawn.grid / 2 * np.abs(phi.T @ start).sum(),
        )
        single.append(bool(low <= 0 <= high))
    assert alarms(np.array(band), level)[0] > ALARM
    assert min(alarms(np.array(single), level)) > ALARM


# Planted mistakes, each caught by the very same check


@pytest.mark.parametrize("level", LEVELS)
def test_a_public_scales_quantile_is_rejected(level):
    """1.96, with b = 0.5: the noise of the scale is forgotten."""
    hits = covered(seeded_releases("0.5"), level, quantile=pivot_quantile(level, 0.0))
    assert alarms(hits, level)[0] < ALARM


def variance_for_deviation(sigma, beta, epsilon, source):
    """e^{h (k + J)}, and not e^{h (k + J)/2}."""
    right = release_scale(sigma, beta, epsilon, source)
    return ReleasedScale(sigma=right.sigma**2, laplace=right.laplace, grid=right.grid)


def half_the_steps(sigma, beta, epsilon, source):
    """Half the noise that privacy needs, published as if it were all of it."""
    right = release_scale(sigma, beta, 2 * epsilon, source)
    return ReleasedScale(sigma=right.sigma, laplace=2 * right.laplace, grid=right.grid)


def rounded_down(sigma, beta, epsilon, source):
    """k = floor(ln sigma^2 / h) instead of the nearest."""
    grid, steps = scale_grid(beta)
    scale = Fraction(steps) / Fraction(epsilon)
    k = math.floor(2 * math.log(sigma) / grid)
    return ReleasedScale(
        sigma=math.exp(grid * (k + discrete_laplace(scale, source)) / 2),
        laplace=float(scale * Fraction(grid)),
        grid=grid,
    )


@functools.cache
def wrong_releases(released, beta, epsilon, sigma=SIGMA):
    return releases(beta, epsilon, SeededForExperimentsOnly(5), sigma=sigma, released=released)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_the_variance_taken_for_the_deviation_is_rejected(level):
    """At sigma = 1, where the two agree but for J."""
    drawn = wrong_releases(variance_for_deviation, 0.05, 0.1, sigma=1.0)
    assert alarms(covered(drawn, level), level)[0] < ALARM


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_half_the_steps_are_rejected(level):
    """Too little noise on the scale shows as intervals that cover too often; and, the other way
    round, a quantile for half the noise covers too seldom."""
    drawn = wrong_releases(half_the_steps, 0.2, 0.1)
    assert alarms(covered(drawn, level), level)[1] < ALARM
    halved = pivot_quantile(level, seeded_releases("2").scales[0].laplace / 2)
    assert alarms(covered(seeded_releases("2"), level, quantile=halved), level)[0] < ALARM


COARSE = (100.0, 1000.0)  # beta and epsilon' for which h = 1/8 and b = 0.1
BELOW_A_STEP = math.exp(7.999 / 16)  # the sigma whose ln sigma^2 is just below 8 steps


@pytest.mark.parametrize("level", LEVELS)
def test_a_grid_that_is_used_wrongly_is_rejected(level):
    """ln sigma^2 rounded down, and no allowance for it."""
    assert scale_grid(COARSE[0])[0] == 0.125
    drawn = wrong_releases(rounded_down, *COARSE, sigma=BELOW_A_STEP)
    quantile = pivot_quantile(level, drawn.scales[0].laplace)
    assert alarms(covered(drawn, level, quantile=quantile), level)[0] < ALARM


@functools.cache
def coarse_releases():
    return releases(*COARSE, OperatingSystemEntropy(), sigma=BELOW_A_STEP)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_a_coarse_grid_covers(level):
    assert alarms(covered(coarse_releases(), level), level)[0] > ALARM


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["0.5", "2"])
def test_bands_with_too_small_a_quantile_are_rejected(name, level):
    """The quantile of one value; and one as if each value had a Y of its own, which cancel out."""
    drawn = seeded_releases(name)
    together = {"directions": WIDTH, "dimension": WIDTH}
    alone = pivot_quantile(level, drawn.scales[0].laplace)
    cancelled = simultaneous_quantile(level, 0.0, **together)
    for quantile in (alone, cancelled):
        assert alarms(covered(drawn, level, quantile=quantile, **together), level)[0] < ALARM


def test_the_check_accepts_what_is_right():
    """With the true quantile the seeded releases of the mistakes above pass."""
    for name in ("0.5", "2"):
        assert min(alarms(covered(seeded_releases(name), 0.95), 0.95)) > ALARM
