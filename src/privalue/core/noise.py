"""Draw noise exactly, on a public grid, from the operating system's entropy.

No other module draws noise.

::

    symbol  code       shape       meaning
    mu      center     (d,)        **private**  the values to perturb
    sigma   sigma      () or (d,)  **private**  the standard deviation of the noise
    g       grid       () or (d,)  public       a power of two, from ``public_grid``
    Z       normal     (d,)        **private**  standard normal numbers, each as a triple
                                                (negative, whole, fraction)
    j       multiple   (d,)        public       the nearest integer to (mu + sigma Z) / g

A release is ``j g``. The mechanism that is analysed adds *real* Gaussian noise; rounding its
output to a grid that does not depend on the data is post-processing. So what is rounded is the
real number ``mu + sigma Z``, not a floating-point approximation: ``mu`` and ``sigma`` are read as
the fractions that they are, Z is drawn after [Kar16] Algorithm N, and words are appended to its
expansion until every continuation rounds to the same multiple.

One program draws Z, ``standard_normal``, compiled because a release may need millions of numbers.
Rounding in doubles nearly always suffices; where it is in doubt, ``round_exactly`` decides in whole
numbers of any size, from the same words. Proof: docs/proofs/noise.md.

[Kar16] C. F. F. Karney, Sampling exactly from the normal distribution, ACM TOMS 42(1), 2016.
[CKS20] C. L. Canonne, G. Kamath, T. Steinke, The discrete Gaussian for differential privacy,
NeurIPS 2020.
"""

import math
import os
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privalue.core.kernel import Integers, Vector, jit
from privalue.core.limits import refusal
from privalue.errors import UsageError

_BITS = 64
_HALF = np.uint64(1 << (_BITS - 1))  # a uniform number is below 1/2 if its first word is below this
_LOW_BITS = np.uint64(_BITS - 53)
_BLOCK = 1 << 15  # bytes read from a source at a time
_SHORT_BLOCK = 1 << 9  # likewise, where a few words suffice
_LARGEST = Fraction(sys.float_info.max)  # no larger number is a double


class Entropy(Protocol):
    """A source of independent, fair random bits."""

    def read(self, count: int) -> bytes:
        """Return ``count`` fresh random bytes: a source returns none of its bits twice."""


class OperatingSystemEntropy:
    """The operating system's entropy.

    It keeps no state: a draw buffers words for its own duration only, so that no thread and no
    forked process uses the bits of another one.
    """

    __slots__ = ()

    def read(self, count: int) -> bytes:
        """Return ``count`` bytes of ``os.urandom``."""
        return os.urandom(count)


def public_grid(smallest_sigma: float) -> float:
    """Return the largest power of two that is at most ``smallest_sigma / 1024``.

    ``smallest_sigma`` is a *public* lower bound on the standard deviation of the noise, one that
    holds for every data set. The grid must not come from the sigma of this data set: where sigma
    differs between neighbours so would the grid, and the trailing bits of the release would give
    away which of them it was (Mironov, CCS 2012; docs/proofs/noise.md, section 1). Rounding moves
    a value by at most g / 2, which is below 1/2000 of the noise.

    >>> public_grid(1.0) == 2.0**-10, public_grid(3.0) == 2.0**-9
    (True, True)

    Raises:
        StudyError: not a finite number above 0, or so small that the grid is not a normal double.
    """
    if not 2.0**-1012 <= smallest_sigma <= sys.float_info.max:
        raise refusal("noise-without-grid", sigma=smallest_sigma)
    _, exponent = math.frexp(smallest_sigma)  # 2**(exponent - 1) <= smallest_sigma < 2**exponent
    return math.ldexp(1.0, exponent - 11)


def gaussian_on_grid(
    center: Vector | Integers, *, sigma: float | Vector, grid: float | Vector, entropy: Entropy
) -> Vector:
    """Draw N(center_i, sigma_i^2) independently, rounded to the nearest multiples of the grid.

    The multiple is exact; the double nearest to ``multiple * grid`` is a function of it alone, so
    that this last step is post-processing too. It changes something only beyond 2**53 grid steps,
    and what exceeds the largest double becomes the largest double.

    Where words run out, the coordinate starts again from its first word, with more words behind
    it: had it started from a later one, the end of a block would have chosen which words count,
    and the law would not be the Gaussian's.

    Args:
        center: the private values, float64 or int64. Integers beyond 2**53 are not rounded.
        sigma: the private standard deviation, or an array with one for each value. Zero is
            refused: it would return the data.
        grid: a public power of two, from ``public_grid``, or an array with one for each value.
        entropy: where words come from.

    Returns:
        The released numbers, as many as in ``center``: public, and read-only.

    Raises:
        UsageError: an argument is invalid, which no study and no data can cause. The message has
            no private value.
    """
    sigmas, grids = (np.full(len(center), x, dtype=np.float64) for x in (sigma, grid))
    _require_noise(center, sigmas, grids)
    whole, rest, scale = _to_steps(center, sigmas, grids)
    numbers = np.zeros(len(center))
    stream, i = Stream.of(np.zeros(0, dtype=np.uint64), 0), 0
    while i < len(center):
        try:
            i, negative, k, x = fill(stream, i, whole, rest, scale, grids, numbers)
            if i < len(center):  # doubles do not decide
                step, mu, spread = (Fraction(of[i].item()) for of in (grids, center, sigmas))
                multiple = round_exactly(mu / step, spread / step, (negative, k, x), stream)
                numbers[i] = float(min(max(multiple * step, -_LARGEST), _LARGEST))
                i += 1
        except IndexError:
            i, begin = stream.begin.tolist()
            more = np.frombuffer(entropy.read(_BLOCK), dtype="<u8")
            stream = Stream.of(np.concatenate([stream.words[begin:], more]), i)
    # An infinity would be refused later, after the charge; the largest double is not. And 0 has no
    # sign, which would be that of the centre or of its noise.
    numbers = np.clip(numbers, -sys.float_info.max, sys.float_info.max) + 0.0
    numbers.setflags(write=False)
    return numbers


def discrete_laplace(scale: Fraction, entropy: Entropy) -> int:
    """Draw an integer y with probability proportional to e^{-|y| / scale}: [CKS20] Algorithm 2.

    ``scale`` = t/s is public. Integers and random words are all that is used, so that the law is
    exactly this one (docs/proofs/noise.md, theorem 6).

    Raises:
        UsageError: the scale is not a fraction above 0.
    """
    if not isinstance(scale, Fraction) or scale <= 0:
        raise UsageError(f"scale is {scale!r}; it must be a Fraction above 0")
    t, s = scale.as_integer_ratio()
    words = _read_words(entropy)
    while True:
        u = uniform_below(t, words)
        if not _survives_ratio(u, t, words):
            continue
        v = 0
        while _survives_ratio(1, 1, words):
            v += 1
        size = (u + t * v) // s  # u + t v is x with probability proportional to e^{-x/t}
        negative = next(words) < 1 << (_BITS - 1)
        if size > 0 or not negative:  # 0 has one sign
            return -size if negative else size


def laplace_on_grid(
    center: Vector | Integers, scales: Sequence[Fraction], entropy: Entropy
) -> Vector:
    """Add discrete Laplace noise of public scales to whole numbers, in whole numbers.

    The double nearest to each sum is a function of it alone: post-processing.
    """
    pairs = zip(center, scales, strict=True)
    numbers = np.array([float(int(x) + discrete_laplace(scale, entropy)) for x, scale in pairs])
    numbers.setflags(write=False)
    return numbers


def _read_words(source: Entropy) -> Iterator[int]:
    """Yield the source's words of 64 bits: none skipped, none twice."""
    while True:
        yield from np.frombuffer(source.read(_SHORT_BLOCK), dtype="<u8").tolist()


def _require_noise(center: Vector | Integers, sigmas: Vector, grids: Vector) -> None:
    """Refuse arguments that no study and no data can cause: without noise nothing is private.

    The checks are for programming errors, and quote no private value: statistics are clamped and
    sigma is bounded from below, so no data set fails them.
    """
    valid = (np.frexp(grids)[0] == 0.5) & (grids >= sys.float_info.min) & np.isfinite(center)
    valid &= (sigmas > 0) & (sigmas <= sys.float_info.max)
    if center.dtype not in (np.float64, np.int64) or not valid.all():
        raise UsageError("center must be finite, sigma above 0, grid one of public_grid")


class Stream(NamedTuple):
    """Random words, and how far they are used. A uniform number is the place of its first word.

    ``after`` has for each place that of the next word of the same number, or 0 before there is one;
    ``word_after`` adds it when the number is needed to more bits.
    """

    words: NDArray[np.uint64]
    after: Integers
    at: Integers  # the place of the next unused word
    begin: Integers  # the current coordinate, and the place of its first word

    @classmethod
    def of(cls, words: NDArray[np.uint64], coordinate: int) -> "Stream":
        """Return a stream of unused words."""
        after, at = np.zeros(len(words), dtype=np.int64), np.zeros(1, dtype=np.int64)
        return cls(words, after, at, np.array([coordinate, 0]))


def _to_steps(center: Vector | Integers, sigma: Vector, grid: Vector) -> tuple[Vector, ...]:
    """Return (whole, rest, scale): center/grid = whole + rest, sigma/grid = scale, up to rounding.

    ``whole`` is exact and below 2**52, rest is at most 1/2 in size and, like scale, right to
    2**-53. Where doubles are too coarse, scale is infinite, and ``fill`` stops in doubt.
    """
    with np.errstate(all="ignore"):
        steps, scale = center / grid, sigma / grid
        whole = np.rint(steps)
        # A whole number below 2**53 is a double.
        exact = (np.abs(whole) < 2.0**52) & (np.abs(center.astype(np.float64)) < 2.0**53)
        return whole, steps - whole, np.where(exact, scale, np.inf)


@jit
def next_word(stream):  # type: ignore[no-untyped-def]
    """Return the place of the next word, which is used from now on."""
    place = stream.at[0]
    if place == len(stream.words):
        raise IndexError("more words are needed")
    stream.at[0] = place + 1
    return place


@jit
def word_after(stream, place):  # type: ignore[no-untyped-def]
    """Return the place of the next word of the same number; take a new word if it has none."""
    if stream.after[place] == 0:
        stream.after[place] = next_word(stream)
    return stream.after[place]


@jit
def is_below(stream, u, v):  # type: ignore[no-untyped-def]
    """Return whether u < v, drawing more of both while they agree."""
    while stream.words[u] == stream.words[v]:
        u, v = word_after(stream, u), word_after(stream, v)
    return stream.words[u] < stream.words[v]


@jit
def survives(stream, x, halved):  # type: ignore[no-untyped-def]
    """Return True with probability e^{-x}; with ``halved``, e^{-x^2/2}: von Neumann's trial.

    Count the steps of a run x > z_1 > z_2 > ... of fresh uniform numbers; with ``halved`` a step
    also has to pass a test of probability x/2. The run ends after an even number of steps with
    the required probability (docs/proofs/noise.md, lemma 1).
    """
    even = True
    last = x
    while True:
        z = next_word(stream)
        if not is_below(stream, z, last):
            return even
        if halved:
            if stream.words[next_word(stream)] >= _HALF:
                return even
            if not is_below(stream, next_word(stream), x):
                return even
        even = not even
        last = z


@jit
def survives_half(stream):  # type: ignore[no-untyped-def]
    """Return True with probability e^{-1/2} (docs/proofs/noise.md, lemma 2)."""
    u = next_word(stream)
    return stream.words[u] >= _HALF or not survives(stream, u, False)


@jit
def standard_normal(stream):  # type: ignore[no-untyped-def]
    """Draw a standard normal number as its sign, whole part k and fraction x: [Kar16] Algorithm N.

    An accepted (k, x) has a density proportional to e^{-k/2} e^{-k(k-1)/2} e^{-x(2k+x)/2} =
    e^{-(k+x)^2/2}, that of a half-normal number (docs/proofs/noise.md, theorem 3).

    Step N4 accepts x with probability e^{-x(2k+x)/2}. [Kar16] factors it into k + 1 equal trials;
    here it is (e^{-x})^k e^{-x^2/2}, which needs no division by k.
    """
    while True:
        k = 0  # N1: k with probability proportional to e^{-k/2}
        while survives_half(stream):
            k += 1
        accepted = True
        for _ in range(k * (k - 1)):  # N2: e^{-k(k-1)/2}
            accepted = accepted and survives_half(stream)
        if not accepted:
            continue
        x = next_word(stream)  # N3
        for _ in range(k):  # N4
            accepted = accepted and survives(stream, x, False)
        if accepted and survives(stream, x, True):
            return stream.words[next_word(stream)] < _HALF, k, x  # N5, N6


@jit
def fill(stream, first, whole, rest, scale, grid, numbers):  # type: ignore[no-untyped-def]
    """Fill ``numbers`` from place ``first`` on, until doubles leave a number in doubt.

    The error of t is at most half of ``doubt`` (docs/proofs/noise.md, theorem 5): where t is
    further than that from a boundary between two multiples, whole numbers decide likewise.

    Args:
        stream: random words; an IndexError where they do not suffice.
        first: the coordinate to begin with.
        whole: of each coordinate, the nearest multiple to its centre. PRIVATE.
        rest: what is left of the centre, in grid steps. PRIVATE.
        scale: sigma in grid steps; infinite where doubles are too coarse. PRIVATE.
        grid: of each coordinate.
        numbers: the result, filled in place.

    Returns:
        The coordinate in doubt and its Z, as ``standard_normal`` returns it; if there is none, the
        number of coordinates.
    """
    for i in range(first, len(whole)):
        stream.begin[0], stream.begin[1] = i, stream.at[0]
        negative, k, x = standard_normal(stream)
        z = k + np.float64(stream.words[x] >> _LOW_BITS) * 2.0**-53  # 53 of 64 bits: exact
        t = rest[i] + scale[i] * (-z if negative else z)
        nearest = np.rint(t)
        doubt = 2.0**-50 * (scale[i] * (k + 2) + 1)
        if not abs(t - nearest) + doubt < 0.5:  # also where doubt is infinite
            return i, negative, k, x
        numbers[i] = (whole[i] + nearest) * grid[i]
    return len(whole), False, 0, 0


def round_exactly(
    center: Fraction, sigma: Fraction, normal: tuple[bool, int, int], stream: Stream
) -> int:
    """Return the integer nearest to center + sigma Z, in grid steps; draw more of Z while in doubt.

    With b bits of its fraction known, |Z| lies strictly between low / 2**b and (low + 1) / 2**b,
    and center + sigma Z + 1/2, whose floor is the result, strictly between two numbers: it is
    decided when no integer is strictly between them.

    Args:
        center: mu / g. PRIVATE.
        sigma: sigma / g. PRIVATE.
        normal: Z, as ``standard_normal`` returns it. PRIVATE.
        stream: the random words.

    Returns:
        The multiple of the grid, of any size.
    """
    negative, low, place = normal
    denominator = 1
    while True:
        low, denominator = low << _BITS | int(stream.words[place]), denominator << _BITS
        below = -low - 1 if negative else low  # (-low - 1, -low) in place of (low, low + 1)
        lower = center + sigma * Fraction(below, denominator) + Fraction(1, 2)
        upper = lower + sigma / denominator
        if math.floor(lower) == math.ceil(upper) - 1:
            return math.floor(lower)
        place = int(word_after(stream, place))


def uniform_below(bound: int, words: Iterator[int]) -> int:
    """Draw a uniform integer from 0 to bound - 1.

    As many bits as the largest one has are drawn until they make one of these: a remainder would
    favour small integers.
    """
    bits = (bound - 1).bit_length()
    while True:
        number = 0
        for _ in range(-(-bits // _BITS)):
            number = number << _BITS | next(words)
        number >>= -bits % _BITS  # surplus bits of the last word
        if number < bound:
            return number


def _survives_ratio(p: int, q: int, words: Iterator[int]) -> bool:
    """Return True with probability e^{-p/q}, 0 <= p <= q: [CKS20] Algorithm 1.

    Count k = 1, 2, ... while a test of probability p/(q k) is passed; an odd k is a success.
    """
    k = 1
    while uniform_below(q * k, words) < p:
        k += 1
    return k % 2 == 1
