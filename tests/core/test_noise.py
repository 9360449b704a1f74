"""Exact noise: its grid, its refusals, its rounding, and its slow twin, word by word."""

import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from oracles import normal as slow
from oracles.draws import gaussian_multiples, with_rare
from oracles.normal import stream_of
from oracles.refusals import refused
from privalue.core import OperatingSystemEntropy, noise
from privalue.core.noise import discrete_laplace, gaussian_on_grid, public_grid
from privalue.simulation import SeededForExperimentsOnly

LARGEST = sys.float_info.max
SMALLEST_NORMAL = sys.float_info.min
TOP = 2**64 - 1
SYSTEM = OperatingSystemEntropy()


class Scripted:
    """Hands out the given words, in blocks of any size, and fails when there are no more."""

    def __init__(self, words, block=1):
        self.rest = list(words)
        self.block = block

    def read(self, _):
        if not self.rest:
            raise EOFError("the script has no more words")
        head, self.rest = self.rest[: self.block], self.rest[self.block :]
        return np.array(head, dtype="<u8").tobytes()


def nearest(center, sigma, grid, z):
    """The multiple of the grid that is nearest to center + sigma z, by fractions."""
    return math.floor((Fraction(center) + Fraction(sigma) * z) / Fraction(grid) + Fraction(1, 2))


def digits(x, words):
    """The first words of the binary expansion of the fraction x."""
    expansion = []
    for _ in range(words):
        x *= 2**64
        expansion.append(math.floor(x))
        x -= math.floor(x)
    return expansion


def value(words):
    return sum(Fraction(word, 2 ** (64 * (i + 1))) for i, word in enumerate(words))


def zero_plus(fraction, more=(), *, negative=False):
    """A script for which the standard normal number is +-(0 + fraction), fraction having one word.

    0 < 1/2 and then 1 > 0: the first trial fails, so k = 0. All ones is above the fraction: it is
    accepted. The next word is the sign, and the rest continue the fraction.
    """
    return [0, 1, fraction, TOP, 0 if negative else TOP, *more]


# The grid


@pytest.mark.parametrize(
    ("smallest_sigma", "exponent"),
    [
        (1.0, -10),
        (math.nextafter(1.0, 0.0), -11),
        (math.nextafter(2.0, 0.0), -10),
        (2.0, -9),
        (1000.0, -1),
        (1024.0, 0),
        (LARGEST, 1013),
        (2.0**-1012, -1022),
        (3, -9),
    ],
)
def test_the_grid_is_the_largest_power_of_two_below_a_1024th(smallest_sigma, exponent):
    grid = public_grid(smallest_sigma)
    assert grid == 2.0**exponent
    assert Fraction(grid) <= Fraction(smallest_sigma) / 1024 < 2 * Fraction(grid)


@pytest.mark.parametrize(
    "smallest_sigma",
    [
        *(0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 10**400),
        *(math.nextafter(2.0**-1012, 0.0), SMALLEST_NORMAL, 5e-324),
    ],
)
def test_a_sigma_without_a_grid_is_refused(smallest_sigma):
    with refused("noise-without-grid"):
        public_grid(smallest_sigma)


# What is refused


@pytest.mark.parametrize(
    "change",
    [
        {"sigma": 0.0},
        {"sigma": -731.25},
        {"sigma": math.nan},
        {"sigma": math.inf},
        {"center": np.array([731.25, math.nan])},
        {"center": np.array([731.25, -math.inf])},
        {"center": np.array([731.25], dtype=np.float32)},
        {"center": np.array([731], dtype=np.int32)},
        {"grid": 0.0},
        {"grid": -0.5},
        {"grid": 0.75},
        {"grid": math.inf},
        {"sigma": np.array([731.25, 0.0])},
        {"sigma": np.array([731.25, math.nan])},
        {"grid": np.array([0.5, 0.75])},
        {"grid": np.array([0.5, math.inf])},
        {"grid": np.array([0.5, SMALLEST_NORMAL / 2.0])},
    ],
)
def test_refusals_quote_no_private_value(change):
    class Untouched:
        def read(self, _):
            raise AssertionError("refuse before any entropy is used")

    arguments = {"center": np.array([731.25, 0.5]), "sigma": 731.25, "grid": 0.5} | change
    with refused("usage") as error:
        gaussian_on_grid(arguments.pop("center"), **arguments, entropy=Untouched())
    assert "731" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


# What comes back


def test_the_release_is_on_the_grid_and_read_only():
    center = np.linspace(-3.0, 3.0, 50)
    before = center.copy()
    result = gaussian_on_grid(center, sigma=2.0, grid=2.0**-9, entropy=SYSTEM)
    assert result.shape == (50,)
    assert result.dtype == np.float64
    assert (result * 2.0**9 == np.rint(result * 2.0**9)).all()
    assert (center == before).all()
    assert not np.array_equal(result, center)
    assert not result.flags.writeable


@pytest.mark.parametrize("sigma", [LARGEST, 1e308])
@pytest.mark.parametrize("grid", [SMALLEST_NORMAL, 1.0, 2.0**1023])
def test_beyond_the_doubles_the_release_is_the_largest_double(sigma, grid):
    result = gaussian_on_grid(
        np.full(200, LARGEST), sigma=sigma, grid=grid, entropy=SeededForExperimentsOnly(1)
    )
    assert np.isfinite(result).all()
    assert result.max() == LARGEST
    result = gaussian_on_grid(
        np.full(200, -LARGEST), sigma=sigma, grid=grid, entropy=SeededForExperimentsOnly(1)
    )
    assert result.min() == -LARGEST


def test_noise_far_below_the_grid():
    tiny, grid = 5e-324, 2.0**1023
    assert set(gaussian_multiples(np.full(50, 0.25), sigma=tiny, grid=1.0)) == {0}
    assert set(gaussian_multiples(np.full(50, -0.75), sigma=tiny, grid=1.0)) == {-1}
    assert set(gaussian_multiples(np.full(200, 0.5), sigma=tiny, grid=1.0)) == {0, 1}
    assert set(gaussian_multiples(np.full(200, -grid / 2.0), sigma=tiny, grid=grid)) == {-1, 0}


# The rounding

doubles = st.floats(allow_nan=False, allow_infinity=False, width=64)
sigmas = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)
grids = st.integers(-1022, 1023).map(lambda exponent: 2.0**exponent)
words = st.lists(st.integers(0, TOP), min_size=1, max_size=3)


@given(doubles, sigmas, grids, st.tuples(st.booleans(), st.integers(0, 40), words))
def test_rounding_is_that_of_the_real_number(center, sigma, grid, normal):
    """Compared with fractions, the number having all the words that it could ever ask for."""
    more = [(0x9E3779B97F4A7C15 * (i + 1)) & TOP for i in range(40)]
    negative, whole, start = normal
    z = whole + value(start + more)
    stream = stream_of(start + more)
    stream.at[0] = 1
    result = noise.round_exactly(
        *(Fraction(x) / Fraction(grid) for x in (center, sigma)), (negative, whole, 0), stream
    )
    assert result == nearest(center, sigma, grid, -z if negative else z)


@given(
    st.floats(-8.0, 8.0),
    st.floats(0.01, 8.0),
    st.integers(-12, 12),
    st.integers(1, 4),
    st.sampled_from([-1, 1]),
)
def test_rounding_just_beside_a_boundary(center, sigma, exponent, agreeing, side):
    """Z agrees with a rounding boundary in several words, and then lies just beside it."""
    grid = 2.0**exponent
    multiple = nearest(center, sigma, grid, Fraction(3, 2))
    boundary = ((multiple + Fraction(1, 2)) * Fraction(grid) - Fraction(center)) / Fraction(sigma)
    negative, whole = boundary < 0, math.floor(abs(boundary))
    z = abs(boundary) + side * Fraction(1, 2 ** (64 * agreeing + 5))
    if not whole < z < whole + 1:
        z = abs(boundary) - side * Fraction(1, 2 ** (64 * agreeing + 5))
    assume(whole < z < whole + 1)  # the words of a fraction
    expansion = digits(z - whole, agreeing + 3)
    z = whole + value(expansion)
    stream = stream_of(expansion)
    stream.at[0] = 1
    result = noise.round_exactly(
        *(Fraction(x) / Fraction(grid) for x in (center, sigma)), (negative, whole, 0), stream
    )
    assert result == nearest(center, sigma, grid, -z if negative else z)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("agreeing", [1, 2, 5])
@pytest.mark.parametrize("side", [-1, 1])
def test_more_words_are_drawn_until_the_rounding_is_decided(negative, agreeing, side):
    """sigma = 3 grid steps: the boundary is at Z = 1/6, whose expansion does not end."""
    shared = digits(Fraction(1, 6), agreeing + 1)
    shared[-1] += side
    script = Scripted([*zero_plus(shared[0], shared[1:], negative=negative), 1234])
    z = value(shared)
    (multiple,) = gaussian_multiples(np.zeros(1), sigma=3.0, grid=1.0, entropy=script)
    assert multiple == nearest(0.0, 3.0, 1.0, -z if negative else z)
    assert abs(multiple) == (side > 0)
    assert script.rest == [1234]


def test_an_interval_that_only_touches_a_boundary_is_decided():
    for negative in (False, True):
        for fraction, expected in ((2**63 - 1, 0), (2**63, 1)):  # Z ends or begins at 1/2
            script = Scripted(zero_plus(fraction, negative=negative))
            (multiple,) = gaussian_multiples(np.zeros(1), sigma=1.0, grid=1.0, entropy=script)
            assert multiple == (-expected if negative else expected)
            assert script.rest == []


# Integers, and a scale and a grid for each


def slow_program(center, sigma, grid, words):
    """The multiples by the slow twin, and how many words it took."""
    rest = iter(words)
    count = 0

    def word():
        nonlocal count
        count += 1
        return next(rest)

    sigmas = sigma.tolist() if isinstance(sigma, np.ndarray) else [sigma] * len(center)
    grids = grid.tolist() if isinstance(grid, np.ndarray) else [grid] * len(center)
    multiples = [
        slow.round_exactly(
            Fraction(mu) / Fraction(step),
            Fraction(spread) / Fraction(step),
            slow.standard_normal(word),
            word,
        )
        for mu, spread, step in zip(center.tolist(), sigmas, grids, strict=True)
    ]
    return multiples, count


@pytest.mark.parametrize("huge", [2**53 + 1, 2**62 + 1, 2**63 - 1, -(2**63), -(2**63) + 1])
def test_integers_beyond_the_doubles_are_not_rounded(huge):
    center = np.array([huge, 0, huge])
    assert gaussian_multiples(center, sigma=1e-9, grid=1.0) == [huge, 0, huge]
    assert gaussian_multiples(center, sigma=1e-9, grid=0.25) == [4 * huge, 0, 4 * huge]
    halved = gaussian_multiples(np.full(60, huge), sigma=1e-9, grid=2.0)
    assert set(halved) == ({huge // 2, huge // 2 + 1} if huge % 2 else {huge // 2})
    assert int(float(huge)) != huge or huge % 2 == 0  # doubles would not suffice


# The sampler and its slow twin

few_words = st.integers(0, 3).map(lambda n: n << 62)  # ties all the time
near_ties = st.integers(0, 7).map(lambda n: (n << 61) + 1)
streams = st.lists(st.one_of(few_words, near_ties, st.integers(0, TOP)), min_size=20, max_size=200)


@example(np.array([0.0]), 1.6e308, 2.0**977, [2**63] * 30, 40)
@given(
    st.one_of(
        st.lists(doubles, min_size=1, max_size=6).map(lambda x: np.array(x, dtype=np.float64)),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6).map(
            lambda x: np.array(x, dtype=np.int64)
        ),
    ),
    st.one_of(sigmas, st.floats(0.25, 1e6)),
    st.one_of(grids, st.just(1.0)),
    streams,
    st.sampled_from([1, 3, 40, 10_000]),
)
def test_the_sampler_agrees_with_its_slow_twin(center, sigma, grid, stream, block):
    """The same multiples from the same words, whatever the blocks, the ties and the sizes."""
    tail = np.frombuffer(SeededForExperimentsOnly(1).read(8 * 4000), "<u8").tolist()
    expected, count = slow_program(center, sigma, grid, stream + tail)
    script = Scripted(stream + tail, block)
    result = gaussian_multiples(center, sigma=sigma, grid=grid, entropy=script)
    most = int(Fraction(sys.float_info.max) / Fraction(grid))  # what exceeds doubles is the largest
    assert np.clip(result, -most, most).tolist() == np.clip(expected, -most, most).tolist()
    words_read = len(stream + tail) - len(script.rest)
    assert count <= words_read < count + block  # none skipped, no block too many


@pytest.mark.parametrize("steps", [0.3, 1.0, 1e3, 1e6, 1e11, 1e14, 1e15, 1e16, 1e40])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_the_sampler_agrees_with_its_slow_twin_on_long_streams(steps, dtype):
    count = 3000
    center = np.linspace(-1e6, 1e6, count).astype(dtype)
    sigma = steps * np.geomspace(0.5, 2.0, count)
    grid = 2.0 ** (np.arange(count) % 5 - 2)
    stream = np.frombuffer(SeededForExperimentsOnly(12).read(8 * 40 * count), "<u8").tolist()
    expected, _ = slow_program(center, sigma, grid, stream)
    source = SeededForExperimentsOnly(12)
    assert gaussian_multiples(center, sigma=sigma, grid=grid, entropy=source) == expected


def in_doubt(center, sigma, grid, words):
    """How many coordinates doubles do not decide."""
    return len(with_rare(center, sigma=sigma, grid=grid, entropy=Scripted(words, len(words)))[1])


def boundary_word(rest, scale):
    """The word whose numbers hold the one for which rest + scale Z is a half."""
    return math.floor((Fraction(1, 2) - Fraction(rest)) / Fraction(scale) * 2**64)


@given(st.floats(-0.4, 0.4), st.floats(1.0, 40.0), st.integers(-(2**22), 2**22), st.booleans())
def test_doubles_never_guess_beside_a_boundary(rest, scale, offset, negative):
    """Within millions of words of a boundary: where doubles decide, they agree with fractions."""
    word = boundary_word(-rest if negative else rest, scale) + offset
    script = [*zero_plus(word, [12345, 678], negative=negative), TOP, TOP]
    z = value([word, 12345, 678])
    (result,) = gaussian_multiples(
        np.array([rest]), sigma=scale, grid=1.0, entropy=Scripted(script, 9)
    )
    assert result == nearest(rest, scale, 1.0, -z if negative else z)


def test_doubles_alone_would_round_wrongly():
    """Why doubles may not decide beside a boundary: the planted mistake is found."""
    scale, rest, wrong = 3.7, 0.1, 0
    for offset in range(-2000, 2000, 7):
        word = boundary_word(rest, scale) + offset
        z = value([word, 12345])
        exact = nearest(rest, scale, 1.0, z)
        wrong += round(rest + scale * (word >> 11) * 2.0**-53) != exact
        script = [*zero_plus(word, [12345]), TOP, TOP]
        (result,) = gaussian_multiples(
            np.array([rest]), sigma=scale, grid=1.0, entropy=Scripted(script, 9)
        )
        assert result == exact
        assert in_doubt(np.array([rest]), scale, 1.0, script) == 1
    assert wrong > 100


# The normal number


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 9), st.booleans())
def test_the_trial_is_its_twin_also_at_ties(script, x, halved):
    words = [word << 60 for word in [*script, 7, 3, 9, 7, 8, 1, 9, 0, 9, 9]]
    rest = iter(words)
    try:
        expected = slow.survives([x << 60], rest.__next__, halved=halved)
    except StopIteration:
        return
    stream = stream_of([x << 60, *words])
    stream.at[0] = 1
    assert noise.survives(stream, 0, halved) is expected
    assert stream.at[0] == 1 + len(words) - len(list(rest))


@pytest.mark.parametrize("script", [[], [40, 30, 20, 10], [50, 50]])
def test_a_trial_that_needs_more_words_says_so(script):
    stream = stream_of([50, *script])
    stream.at[0] = 1
    with pytest.raises(IndexError):
        noise.survives(stream, 0, False)


# The discrete Laplace number


@pytest.mark.parametrize(
    ("script", "scale", "expected"),
    [
        # scale 1: u = 0 without words; e^0: 0 < 0 is false, odd, without words; then e^-1 is a run
        # of tests 1/1 (no words), 1/2, 1/3, ...: k = 2 at the first failure is even.
        ([TOP, TOP], (1, 1), 0),
        # 1/2 is passed (top bit 0) and 1/3 fails (1 of 0, 1, 2): k = 3, odd, v = 1; then v ends
        ([0, 1 << 62, TOP, TOP], (1, 1), 1),
        ([0, 1 << 62, TOP, 0], (1, 1), -1),
        # 3 of 2 bits does not fit below 3 and is drawn again
        ([0, 3 << 62, 1 << 62, TOP, TOP], (1, 1), 1),
        # 0 with a minus sign is drawn again
        ([TOP, 0, TOP, TOP], (1, 1), 0),
        # scale 1/2: the size is halved
        ([0, 1 << 62, TOP, TOP], (1, 2), 0),
        # scale 4: u = 3, and the test of 3/4 fails: k = 1; v = 0
        ([3 << 62, 3 << 62, TOP, TOP], (4, 1), 3),
        # u = 3, 3/4 is passed and then 3/8 fails: k = 2: begin again with u = 1, 1/4 fails
        ([3 << 62, 0, TOP, 1 << 62, 1 << 62, TOP, TOP], (4, 1), 1),
    ],
)
def test_the_discrete_laplace_number_by_hand(script, scale, expected):
    source = Scripted([*script, 1234])
    assert discrete_laplace(Fraction(*scale), source) == expected
    assert source.rest == [1234]


@pytest.mark.parametrize(
    "scale",
    [
        *(Fraction(0), Fraction(-1, 2), (0, 1), (1, 2), ()),
        *(1.5, (1.5, 1), (math.inf, 1), math.nan, None, "1", 3),
    ],
)
def test_an_invalid_scale_of_discrete_laplace_noise_is_refused(scale):
    with refused("usage"):
        discrete_laplace(scale, SYSTEM)


@given(st.integers(1, 2**130), st.lists(st.integers(0, TOP), min_size=3, max_size=9))
def test_uniform_numbers_are_the_first_that_fit(bound, words):
    """As many top bits as bound - 1 has."""
    bits = (bound - 1).bit_length()
    count = -(-bits // 64)
    chunks = [words[i : i + count] for i in range(0, len(words), count)] if count else [[]]
    fitting = [math.floor(value(chunk) * 2**bits) for chunk in chunks if len(chunk) == count]
    expected = next((number for number in fitting if number < bound), None)
    rest = iter(words)
    if expected is None:
        with pytest.raises(StopIteration):
            noise.uniform_below(bound, rest)
    else:
        assert noise.uniform_below(bound, rest) == expected


# The sources


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_the_sizes_of_the_blocks_do_not_matter(block):
    stream = np.frombuffer(SeededForExperimentsOnly(11).read(8 * 20_000), "<u8").tolist()
    center = np.linspace(-1.0, 1.0, 300)
    arguments = {"sigma": 1e30, "grid": 2.0**-9}
    expected = gaussian_multiples(center, **arguments, entropy=Scripted(stream, 20_000))
    assert gaussian_multiples(center, **arguments, entropy=Scripted(stream, block)) == expected


def test_a_source_that_fails_is_not_replaced():
    with pytest.raises(EOFError):
        gaussian_multiples(np.zeros(1), sigma=1.0, grid=1.0, entropy=Scripted([0, 1, 5]))


def test_the_default_is_the_operating_system(monkeypatch):
    sizes = []

    def urandom(count):
        sizes.append(count)
        return SeededForExperimentsOnly(0).read(count)

    monkeypatch.setattr(os, "urandom", urandom)
    arguments = {"sigma": 1.0, "grid": 2.0**-10}
    first = gaussian_multiples(np.zeros(4), **arguments)
    again = gaussian_multiples(np.zeros(4), **arguments, entropy=OperatingSystemEntropy())
    assert len(sizes) == 2
    assert first == again
    assert first == gaussian_multiples(
        np.zeros(4), **arguments, entropy=SeededForExperimentsOnly(0)
    )


def test_the_seeded_stream_stays_the_same_over_versions():
    assert SeededForExperimentsOnly(2016).read(10).hex() == "2b57bd0d4307c0bd4d74"
    assert gaussian_multiples(
        np.zeros(4), sigma=1.0, grid=2.0**-10, entropy=SeededForExperimentsOnly(2016)
    ) == [960, 1341, 399, 771]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_parent_and_child_draw_different_noise():
    """In a process of its own, because forking one with threads is warned about."""
    program = """
import os, numpy as np
from privalue.core import OperatingSystemEntropy
from privalue.core.noise import gaussian_on_grid
source = OperatingSystemEntropy()
draw = lambda: gaussian_on_grid(np.zeros(3), sigma=2.0**200, grid=1.0, entropy=source).tolist()
before = draw()
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, repr(draw()).encode())
    os._exit(0)
os.wait()
print(before, os.read(reader, 4096).decode(), draw(), sep="\\n")
"""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True
    )
    numbers = [number for line in result.stdout.splitlines() for number in line[1:-1].split(", ")]
    assert len(numbers) == len(set(numbers)) == 9
