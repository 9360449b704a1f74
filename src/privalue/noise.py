"""Gaussian noise rounded exactly to a public grid; the only module that asks for entropy.

::

    symbol  code               shape  what it is
    mu      center             (d,)   **private**  the values to perturb
    sigma   sigma              ()     **private**  the standard deviation of the noise
    g       grid               ()     public       a power of two, from ``public_grid``
    Z       normal             (d,)   **private**  standard normal numbers, each as a triple
                                                   (negative, whole, fraction)
    j       multiple           (d,)   public       the nearest integer to (mu + sigma Z) / g

A release is ``j g``. The mechanism that is analysed adds *real* Gaussian noise; rounding its
output to a grid that does not depend on the data is post-processing. So what is rounded is the
real number ``mu + sigma Z``, not a floating-point approximation: ``mu`` and ``sigma`` are read as
the fractions that they are, Z is drawn after [Kar16] Algorithm N, and words are appended to its
expansion until every continuation rounds to the same multiple. Proof: docs/proofs/noise.md.

[Kar16] C. F. F. Karney, Sampling exactly from the normal distribution, ACM TOMS 42(1), 2016.
"""

import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privalue.errors import StudyError, UsageError

_BITS = 64
_HALF = 1 << (_BITS - 1)  # a uniform number is below 1/2 if its first word is below this
_BLOCK = 1 << 15  # bytes asked of a source at a time

_Word = Callable[[], int]
_Normal = tuple[bool, int, list[int]]


class Entropy(Protocol):
    """A source of independent, fair random bits."""

    @property
    def private(self) -> bool:
        """Whether nobody can predict the bits: a release is private only if so."""

    def read(self, count: int) -> bytes:
        """The next ``count`` random bytes, none of which was or will be given to anyone else."""


class OperatingSystemEntropy:
    """The operating system's entropy.

    It keeps no state: a draw buffers words for its own duration only, so that neither a thread
    nor a forked process can meet bits that another one has used.
    """

    __slots__ = ()
    private = True

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes of ``os.urandom``."""
        return os.urandom(count)

    def __repr__(self) -> str:
        return "OperatingSystemEntropy()"


class SeededForExperimentsOnly:
    """A reproducible stream: who knows the seed can subtract the noise. Not private.

    The stream goes on from draw to draw; do not share one source between threads.
    """

    __slots__ = ("_generator",)
    private = False

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise UsageError("seed must be an integer that is 0 or more")
        self._generator = np.random.Philox(seed)

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes of the stream, in whole words."""
        words = self._generator.random_raw(-(-count // 8))
        return words.astype("<u8").tobytes()[:count]

    def __repr__(self) -> str:
        return "SeededForExperimentsOnly(not private)"


def public_grid(smallest_sigma: float) -> float:
    """The largest power of two that is at most ``smallest_sigma / 1024``.

    ``smallest_sigma`` is a *public* lower bound on the standard deviation of the noise, one that
    holds for every data set. The grid must not come from the sigma of this data set: where sigma
    differs between neighbours so would the grid, and the trailing bits of the release would tell
    them apart with certainty (Mironov, CCS 2012). Rounding moves a value by at most g / 2, which
    is below 1/2000 of the noise.

    >>> public_grid(1.0) == 2.0**-10, public_grid(3.0) == 2.0**-9
    (True, True)

    Raises:
        StudyError: not a finite number above 0, or so small that the grid is not a normal double.
    """
    if not _is_positive_and_finite(smallest_sigma):
        raise StudyError(
            f"smallest_sigma is {smallest_sigma!r}; it must be a finite number above 0: "
            "state a public lower bound on the standard deviation of the noise"
        )
    _, exponent = math.frexp(smallest_sigma)  # 2**(exponent - 1) <= smallest_sigma < 2**exponent
    grid = math.ldexp(1.0, exponent - 11)
    if grid < sys.float_info.min:
        raise StudyError(
            f"smallest_sigma is {smallest_sigma!r}; it must be at least 2**-1012, so that the "
            "grid is a normal double: state the values in a smaller unit"
        )
    return grid


def gaussian_on_grid(
    center: NDArray[np.float64], *, sigma: float, grid: float, entropy: Entropy | None = None
) -> NDArray[np.float64]:
    """Independent draws of N(center_i, sigma^2), each rounded to the nearest multiple of the grid.

    The multiple is exact; the double nearest to ``multiple * grid`` is a function of it alone, so
    that this last step is post-processing too. It changes something only beyond 2**53 grid steps,
    and what exceeds the largest double becomes the largest double.

    Args:
        center: the private values; a plain one-dimensional float64 array.
        sigma: the private standard deviation. Zero is refused: it would return the data.
        grid: a public power of two, from ``public_grid``.
        entropy: the operating system's, if left out.

    Raises:
        UsageError: an argument that no parsed study and data set lead to. It never quotes a
            private value.
    """
    multiples = gaussian_multiples(center, sigma=sigma, grid=grid, entropy=entropy)
    unit, per = grid.as_integer_ratio()
    released = np.array([_nearest_double(j * unit, per) for j in multiples], dtype=np.float64)
    released.setflags(write=False)
    return released


def gaussian_multiples(
    center: NDArray[np.float64], *, sigma: float, grid: float, entropy: Entropy | None = None
) -> list[int]:
    """The integers j_i nearest to (center_i + sigma Z_i) / grid, Z_i independent N(0, 1).

    The arguments are those of ``gaussian_on_grid``.
    """
    is_power_of_two = isinstance(grid, float) and math.frexp(grid)[0] == 0.5
    if not is_power_of_two or grid < sys.float_info.min:
        raise UsageError(
            f"grid is {grid!r}; it must be a float that is a power of two and at least 2**-1022: "
            "take it from public_grid"
        )
    if type(center) is not np.ndarray or center.dtype != np.float64 or center.ndim != 1:
        raise UsageError("center must be a plain numpy array, float64 and one-dimensional")
    values: list[float] = center.tolist()
    if not all(map(math.isfinite, values)):
        raise UsageError("center holds a NaN or an infinity; every value must be finite")
    if not _is_positive_and_finite(sigma):
        raise UsageError("sigma must be a finite number above 0; without noise nothing is private")
    word = _words(OperatingSystemEntropy() if entropy is None else entropy).__next__
    scale = _in_steps(sigma, grid)
    return [_rounded(_in_steps(mu, grid), scale, _standard_normal(word), word) for mu in values]


# A uniform number in (0, 1) is the list of the words of its binary expansion that were drawn so
# far, at least one; whoever needs to know it better appends to it.


def _words(entropy: Entropy) -> Iterator[int]:
    """The source's stream in words of 64 bits: none skipped, none used twice."""
    while True:
        yield from np.frombuffer(entropy.read(_BLOCK), dtype="<u8").tolist()


def _below(u: list[int], v: list[int], word: _Word) -> bool:
    """Whether u < v, drawing more of both while they agree."""
    i = 0
    while u[i] == v[i]:
        i += 1
        if i == len(u):
            u.append(word())
        if i == len(v):
            v.append(word())
    return u[i] < v[i]


def _survives(x: list[int], word: _Word, *, halved: bool = False) -> bool:
    """True with probability e^{-x}; with ``halved``, e^{-x^2/2}. Von Neumann's trial.

    Count the steps of a run x > z_1 > z_2 > ... of fresh uniform numbers; with ``halved`` a step
    also has to pass a test of probability x/2. The run ends after an even number of steps with
    the probability asked for (docs/proofs/noise.md, lemma 1).
    """
    even = True
    last = x
    while True:
        z = [word()]
        if not _below(z, last, word):
            return even
        if halved and not (word() < _HALF and _below([word()], x, word)):
            return even
        even = not even
        last = z


def _survives_half(word: _Word) -> bool:
    """True with probability e^{-1/2} (lemma 2): the first step of the run must be below 1/2."""
    u = [word()]
    return u[0] >= _HALF or not _survives(u, word)


def _standard_normal(word: _Word) -> _Normal:
    """A standard normal number as its sign, whole part k and fraction x. [Kar16] Algorithm N.

    Step N4 accepts x with probability e^{-x(2k+x)/2}. [Kar16] factors it into k + 1 equal trials;
    here it is (e^{-x})^k e^{-x^2/2}, which needs no division by k.
    """
    while True:
        k = 0  # N1: k with probability proportional to e^{-k/2}
        while _survives_half(word):
            k += 1
        if not all(_survives_half(word) for _ in range(k * (k - 1))):  # N2: e^{-k(k-1)/2}
            continue
        x = [word()]  # N3
        if all(_survives(x, word) for _ in range(k)) and _survives(x, word, halved=True):  # N4
            return word() < _HALF, k, x  # N5, N6


def _rounded(center: tuple[int, int], sigma: tuple[int, int], normal: _Normal, word: _Word) -> int:
    """The integer nearest to center + sigma Z, all in grid steps, drawing more of Z while in doubt.

    With b bits of its fraction known, Z lies strictly between low / 2**b and (low + 1) / 2**b. In
    units of 2**-shift the sum lies strictly between two integers, and so does sum + 1/2, whose
    floor is the result; it is decided when no multiple of 2**shift is strictly between them.
    """
    (mu, mu_bits), (scale, scale_bits) = center, sigma
    negative, whole, fraction = normal
    common = max(mu_bits, scale_bits)
    mu <<= common - mu_bits
    scale <<= common - scale_bits
    while True:
        bits = _BITS * len(fraction)
        low = whole
        for digits in fraction:
            low = low << _BITS | digits
        if negative:
            low = -low - 1
        shift = common + bits
        left = (mu << bits) + scale * low + (1 << (shift - 1))
        right = left + scale
        multiple = left >> shift
        if multiple == (right - 1) >> shift:
            return multiple
        fraction.append(word())


def _in_steps(value: float, grid: float) -> tuple[int, int]:
    """The integers (n, p) with value / grid = n / 2**p exactly."""
    (n, d), (unit, per) = value.as_integer_ratio(), grid.as_integer_ratio()
    return n * per, (d * unit).bit_length() - 1


def _nearest_double(n: int, d: int) -> float:
    """The double nearest to n / d; the largest one of its sign beyond the range."""
    try:
        return n / d
    except OverflowError:
        return sys.float_info.max if n > 0 else -sys.float_info.max


def _is_positive_and_finite(value: float) -> bool:
    return isinstance(value, float | int) and 0 < value <= sys.float_info.max
