"""The sampler has the law it should have, and the checker that says so rejects wrong ones.

Samples of the true sampler come from the operating system. All their checks together raise a
false alarm with probability below 1e-9. Planted faults come from seeded sources, so that their
rejection is not a matter of chance.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from oracles.discrete_laplace import discrete_laplace_mass
from oracles.draws import gaussian_multiples
from oracles.gaussian import CHECKS, RoundedGaussian, alarm_of_counts, alarm_of_distance
from oracles.normal import HALF, stream_of, words_from
from privalue.core import OperatingSystemEntropy, noise
from privalue.core.noise import discrete_laplace
from privalue.simulation import SeededForExperimentsOnly

SAMPLES = 100_000
SETTINGS = {  # center, sigma, grid
    "0.3 steps, on the grid": (0.0, 0.3, 1.0),
    "0.3 steps, off the grid": (0.3, 0.3, 1.0),
    "0.3 steps, between two multiples": (-2.5, 0.3, 1.0),
    "5 steps": (0.37, 5.0, 1.0),
    "5 fine steps, far from 0": (-7.77, 5.1 * 2.0**-20, 2.0**-20),
    "5 coarse steps": (1e300, 5.3 * 2.0**980, 2.0**980),
    "1000 steps": (-0.123, 1000.0, 1.0),
}
TRIALS = {  # the first word of x, whether it is halved, and the probability of success
    "e^-x, x = 1/4": (1 << 62, False, math.exp(-0.25)),
    "e^-x, x = 7/8": (7 << 61, False, math.exp(-0.875)),
    "e^-x^2/2, x = 1/4": (1 << 62, True, math.exp(-1.0 / 32.0)),
    "e^-x^2/2, x = 7/8": (7 << 61, True, math.exp(-49.0 / 128.0)),
    "e^-1/2": (None, False, math.exp(-0.5)),
}
LAPLACE_SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(513) / Fraction(0.1)]
CHECKS_OF_THE_OPERATING_SYSTEM = (
    (len(SETTINGS) + 6) * len(CHECKS) + len(TRIALS) + 4 + 1 + len(LAPLACE_SCALES)
)
ALARM = 1e-9 / (CHECKS_OF_THE_OPERATING_SYSTEM + 1)
OVERWHELMING = 1e-20


@functools.cache
def law(center: float, sigma: float, grid: float) -> RoundedGaussian:
    return RoundedGaussian(center, sigma, grid)


def draw(center, sigma, grid, source=None, samples=SAMPLES):
    return gaussian_multiples(np.full(samples, center), sigma=sigma, grid=grid, entropy=source)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_sampler_has_the_law_of_the_rounded_gaussian(setting):
    alarms = law(*setting).check(draw(*setting))
    assert set(alarms) == set(CHECKS)
    assert min(alarms.values()) > ALARM, alarms


def test_each_coordinate_has_its_own_sigma_and_grid():
    settings = [(0.2, 3.0, 0.5), (-31.4, 0.3, 1.0)]
    center, sigma, grid = (np.tile(column, SAMPLES) for column in zip(*settings, strict=True))
    sample = gaussian_multiples(center, sigma=sigma, grid=grid)
    for offset, setting in enumerate(settings):
        alarms = law(*setting).check(sample[offset::2])
        assert min(alarms.values()) > ALARM, alarms
    swapped = law(*settings[0]).check(sample[1::2])
    assert min(swapped.values()) < OVERWHELMING


def test_integers_as_centers():
    for center, sigma, grid in ((3, 5.0, 2.0), (2**60 + 1, 3.0, 4.0)):
        sample = gaussian_multiples(np.full(SAMPLES, center), sigma=sigma, grid=grid)
        step = int(grid)
        base = center // step  # the law in doubles, near 0
        alarms = law(float(center % step), sigma, grid).check([j - base for j in sample])
        assert min(alarms.values()) > ALARM, alarms
        rounded = law(float(center % step) - 1.0, sigma, grid).check([j - base for j in sample])
        assert min(rounded.values()) < OVERWHELMING


def test_every_bit_of_a_very_fine_release_is_right():
    sample = draw(0.1, 1.7 * 2.0**200, 1.0, samples=40_000)
    coarse = [(j + (1 << 197)) >> 198 for j in sample]
    assert law(0.0, 6.8, 1.0).check(coarse)["cells"] > ALARM
    for bit in (0, 70, 134):  # the last bits, and those where two words of the fraction meet
        counts = np.bincount([(j >> bit) & 15 for j in sample], minlength=16)
        assert alarm_of_counts(counts.tolist(), [1 / 16] * 16) > ALARM


def test_noise_far_below_the_grid_still_breaks_the_tie():
    ups = sum(draw(0.5, 2.0**-300, 1.0, samples=20_000))
    assert alarm_of_counts([20_000 - ups, ups], [0.5, 0.5]) > ALARM


@pytest.mark.parametrize(("x", "halved", "probability"), TRIALS.values(), ids=TRIALS)
def test_the_trials_of_the_proof_have_their_probabilities(x, halved, probability):
    words = np.frombuffer(OperatingSystemEntropy().read(8 * 20 * SAMPLES), dtype="<u8")
    stream = stream_of(np.concatenate([[0, x or 0, 0], words]).astype(np.uint64))
    stream.at[0], stream.after[1] = 3, 2  # x is at place 1, and 0 its second word
    successes = sum(
        noise.survives_half(stream) if x is None else noise.survives(stream, 1, halved)
        for _ in range(SAMPLES)
    )
    counts = [successes, SAMPLES - successes]
    assert alarm_of_counts(counts, [probability, 1.0 - probability]) > ALARM
    for wrong in (probability - 0.03, probability + 0.03):
        assert alarm_of_counts(counts, [wrong, 1.0 - wrong]) < 1e-6


# The discrete Laplace number


def alarm_of_laplace(sample, scale):
    """Counts of the multiples, or of groups of them if they are many, against the exact law."""
    group = math.ceil(scale / 4)
    last = 12 * (4 if scale > 4 else 1) * group
    mass = discrete_laplace_mass(scale, last)
    cells = np.arange(2 * last + 1) // group
    at = np.clip(np.array(sample), -last, last) + last
    return alarm_of_counts(
        np.bincount(cells[at], minlength=cells[-1] + 1).tolist(),
        np.bincount(cells, weights=mass).tolist(),
    )


def laplace(scale, source, samples=40_000):
    return [discrete_laplace(scale, source) for _ in range(samples)]


@pytest.mark.parametrize("scale", LAPLACE_SCALES, ids=str)
def test_the_discrete_laplace_number_has_its_law(scale):
    assert alarm_of_laplace(laplace(scale, OperatingSystemEntropy()), scale) > ALARM


def zero_counted_twice(scale, source):
    """A geometric size and a sign: Algorithm 2 without its last rejection."""
    word = words_from(source).__next__
    sizes = [math.floor(-math.log((word() + 1) / 2**64) * float(scale)) for _ in range(40_000)]
    return [size if word() < HALF else -size for size in sizes]


def floored_continuous(scale, source):
    """A continuous Laplace number, rounded down."""
    word = words_from(source).__next__
    sizes = [-math.log((word() + 1) / 2**64) * float(scale) for _ in range(40_000)]
    return [math.floor(size if word() < HALF else -size) for size in sizes]


def without_a_sign(scale, source):
    return [abs(y) for y in laplace(scale, source)]


@pytest.mark.parametrize(
    "fault",
    [
        lambda scale, source: laplace(scale * Fraction(9, 10), source),
        lambda scale, source: laplace(scale * Fraction(11, 10), source),
        lambda scale, source: [y + 1 for y in laplace(scale, source)],
        zero_counted_twice,
        floored_continuous,
        without_a_sign,
    ],
)
def test_the_checker_rejects_other_discrete_laws(fault):
    scale = Fraction(7, 2)
    assert alarm_of_laplace(fault(scale, SeededForExperimentsOnly(20160619)), scale) < 1e-12


# The faults. Each takes a setting and a seeded source and returns what a wrong sampler would.


def scaled(factor: float) -> Callable[..., list[int]]:
    def fault(center, sigma, grid, source):
        return draw(center, factor * sigma, grid, source)

    fault.__name__ = f"{factor} sigma"
    return fault


def moved(center, sigma, grid, source):
    return draw(center + 0.05 * sigma, sigma, grid, source)


def on_a_double_grid(center, sigma, grid, source):
    return [2 * j for j in draw(center, sigma, 2.0 * grid, source)]


def floored(center, sigma, grid, source):
    return [j >> 30 for j in draw(center, sigma, grid * 2.0**-30, source)]


def truncated_towards_zero(center, sigma, grid, source):
    return [int(j / 2**30) for j in draw(center, sigma, grid * 2.0**-30, source)]


def discrete_gaussian(center, sigma, grid, source):
    """Proportional to the density at the multiples: a distinct law when sigma < grid."""
    j = np.arange(-50, 51)
    weights = np.exp(-0.5 * ((j * grid - center) / sigma) ** 2)
    uniform = (word / 2**64 for word in words_from(source))
    return j[
        np.searchsorted(np.cumsum(weights / weights.sum()), list(islice(uniform, SAMPLES)))
    ].tolist()


def never_beyond_three_sigma(center, sigma, grid, source):
    bound = round((abs(center) + 3 * sigma) / grid)
    return [min(max(j, -bound), bound) for j in draw(center, sigma, grid, source)]


def correlated(center, sigma, grid, source):
    """Every second number has correlation 0.15 with the one before it; each law is right."""
    x = np.array(draw(0.0, 1.0, 2.0**-40, source)) * 2.0**-40
    x[1::2] = 0.15 * x[0::2] + math.sqrt(1.0 - 0.15**2) * x[1::2]
    return np.rint((center + sigma * x) / grid).astype(int).tolist()


def correlated_across_pairs(center, sigma, grid, source):
    return [0, *correlated(center, sigma, grid, source)]


def correlated_in_size(center, sigma, grid, source):
    """Every tenth pair shares its distance from the centre, with independent signs."""
    x = np.array(draw(0.0, 1.0, 2.0**-40, source)) * 2.0**-40
    x[1::20] = np.copysign(x[0::20], x[1::20])
    return np.rint((center + sigma * x) / grid).astype(int).tolist()


# Half-way between two multiples nearly all falls on these two, whatever a small sigma is.
SENSITIVE = [name for name in SETTINGS if "between" not in name]
FAULTS = [  # the fault, where it is planted, and who must see it
    *((scaled(f), s, ("cells", "distribution")) for f in (0.9, 1.1) for s in SENSITIVE),
    (moved, "5 steps", ("cells", "distribution")),
    (moved, "1000 steps", ("cells", "distribution")),
    (on_a_double_grid, "0.3 steps, off the grid", ("cells", "residues")),
    (on_a_double_grid, "5 steps", ("cells", "residues")),
    (on_a_double_grid, "1000 steps", ("residues",)),
    (floored, "0.3 steps, off the grid", ("cells", "distribution")),
    (floored, "5 steps", ("cells", "distribution")),
    (truncated_towards_zero, "0.3 steps, off the grid", ("cells", "distribution")),
    (discrete_gaussian, "0.3 steps, off the grid", ("cells", "distribution")),
    (never_beyond_three_sigma, "1000 steps", ("cells",)),
    (correlated, "5 steps", ("pairs",)),
    (correlated, "1000 steps", ("pairs",)),
    (correlated_across_pairs, "1000 steps", ("pairs",)),
    (correlated_in_size, "5 steps", ("pairs of sizes",)),
    (correlated_in_size, "1000 steps", ("pairs of sizes",)),
]


@pytest.mark.parametrize(
    ("fault", "name", "checks"),
    FAULTS,
    ids=[f"{fault.__name__}, {name}" for fault, name, _ in FAULTS],
)
def test_the_checker_rejects(fault, name, checks):
    setting = SETTINGS[name]
    alarms = law(*setting).check(fault(*setting, SeededForExperimentsOnly(20160619)))
    assert all(alarms[check] < OVERWHELMING for check in checks), alarms


def test_the_faulty_laws_are_otherwise_right():
    setting = SETTINGS["1000 steps"]
    for fault in (correlated, correlated_in_size):
        alarms = law(*setting).check(fault(*setting, SeededForExperimentsOnly(7)))
        assert min(alarms["cells"], alarms["distribution"]) > 1e-3


def test_the_oracle_agrees_with_a_plain_computation():
    center, sigma, grid = SETTINGS["5 steps"]
    table = law(center, sigma, grid)
    assert math.fsum(table.mass) == pytest.approx(1.0, abs=1e-15)
    for j in (-9, 0, 4):
        high, low = (((j + h) * grid - center) / (sigma * math.sqrt(2.0)) for h in (0.5, -0.5))
        expected = (math.erf(high) - math.erf(low)) / 2.0
        assert table.mass[j - table.first] == pytest.approx(expected, rel=1e-12)


def test_the_bounds_of_the_checker_hold():
    """In 2,000 repetitions with the true law, an alarm at level a is raised in less than 2a."""
    generator = np.random.Generator(np.random.Philox(3))
    true = [0.5, 0.3, 0.15, 0.05]
    counts = generator.multinomial(200, true, size=2000)
    alarms = np.array([alarm_of_counts(row.tolist(), true) for row in counts])
    uniforms = np.sort(generator.random((2000, 200)))
    ranks = np.arange(200) / 200
    distances = np.maximum(uniforms - ranks, ranks + 1 / 200 - uniforms).max(axis=1)
    supremum = np.array([alarm_of_distance(float(distance), 200) for distance in distances])
    for level in (0.3, 0.1, 0.02):
        assert (alarms < level).mean() < 2.0 * level
        assert (supremum < level).mean() < 2.0 * level
