"""Draw noise exactly, on a public grid, from the operating system's entropy.

No other module draws noise.

::

    symbol  code       shape       what it is
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

That program is slow. A compiled copy goes ahead of it, with one word for each number and the
rounding in doubles, which nearly always suffice. Where they do not, it gives the coordinate up,
and the exact program does it with the very same words. Proof: docs/proofs/noise.md.

[Kar16] C. F. F. Karney, Sampling exactly from the normal distribution, ACM TOMS 42(1), 2016.
[CKS20] C. L. Canonne, G. Kamath, T. Steinke, The discrete Gaussian for differential privacy,
NeurIPS 2020.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privalue.core._arrays import Integers, Vector, is_number
from privalue.core._kernels import kernel
from privalue.errors import StudyError, UsageError

_BITS = 64
_HALF = 1 << (_BITS - 1)  # a uniform number is below 1/2 if its first word is below this
_BLOCK = 1 << 15  # bytes asked of a source at a time
_SHORT_BLOCK = 1 << 9  # the same, where a few words will do

_Word = Callable[[], int]
_Normal = tuple[bool, int, list[int]]
_DTYPES = (np.dtype(np.float64), np.dtype(np.int64))


class Entropy(Protocol):
    """A source of independent, fair random bits."""

    def read(self, count: int) -> bytes:
        """Return ``count`` random bytes, none of which was or will be given to anyone else."""


class OperatingSystemEntropy:
    """The operating system's entropy.

    It keeps no state: a draw buffers words for its own duration only, so that neither a thread
    nor a forked process can meet bits that another one has used.
    """

    __slots__ = ()

    def read(self, count: int) -> bytes:
        """Return ``count`` bytes of ``os.urandom``."""
        return os.urandom(count)


class SeededForExperimentsOnly:
    """A reproducible stream: who knows the seed can subtract the noise. Not private.

    The stream goes on from draw to draw; do not share one source between threads.
    """

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise UsageError("seed must be an integer that is 0 or more")
        self._generator = np.random.Philox(seed)

    def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes of the stream, in whole words."""
        words = self._generator.random_raw(-(-count // 8))
        return words.astype("<u8").tobytes()[:count]

    def __repr__(self) -> str:
        return "SeededForExperimentsOnly(not private)"


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
    if not (is_number(smallest_sigma) and smallest_sigma > 0):
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
    center: Vector | Integers,
    *,
    sigma: float | Vector,
    grid: float | Vector,
    entropy: Entropy | None = None,
) -> Vector:
    """Draw N(center_i, sigma_i^2) independently, rounded to the nearest multiples of the grid.

    The multiple is exact; the double nearest to ``multiple * grid`` is a function of it alone, so
    that this last step is post-processing too. It changes something only beyond 2**53 grid steps,
    and what exceeds the largest double becomes the largest double.

    Args:
        center: the private values; a plain one-dimensional array, float64 or int64. Integers
            beyond 2**53 are not rounded.
        sigma: the private standard deviation, or an array with one for each value. Zero is
            refused: it would return the data.
        grid: a public power of two, from ``public_grid``, or an array with one for each value.
        entropy: the operating system's, if left out.

    Returns:
        The released numbers, as many as in ``center``: public, and read-only.

    Raises:
        UsageError: an argument that no parsed study and data set lead to. It never quotes a
            private value.
    """
    multiples, rare = _multiples(center, sigma, grid, entropy)
    with np.errstate(over="ignore"):
        released = multiples.astype(np.float64) * grid
    # An infinity would be refused later, after the charge; the largest double is not.
    np.clip(released, -sys.float_info.max, sys.float_info.max, out=released)
    steps = np.full(len(released), grid)
    for i, multiple in rare.items():
        unit, per = steps[i].item().as_integer_ratio()
        released[i] = _nearest_double(multiple * unit, per)
    released.setflags(write=False)
    return released


def discrete_laplace(scale: Fraction, entropy: Entropy | None = None) -> int:
    """Draw an integer y with probability proportional to e^{-|y| / scale}: [CKS20] Algorithm 2.

    ``scale`` = t/s is public. Integers and random words are all that is used, so that the law is
    exactly this one (docs/proofs/noise.md, theorem 6).

    Raises:
        UsageError: the scale is not a fraction above 0.
    """
    if not isinstance(scale, Fraction) or scale <= 0:
        raise UsageError(f"scale is {scale!r}; it must be a Fraction above 0")
    t, s = scale.as_integer_ratio()
    word = _Words(entropy, _SHORT_BLOCK).__next__
    while True:
        u = _uniform_below(t, word)
        if not _survives_ratio(u, t, word):
            continue
        v = 0
        while _survives_ratio(1, 1, word):
            v += 1
        size = (u + t * v) // s  # u + t v is x with probability proportional to e^{-x/t}
        negative = word() < _HALF
        if size > 0 or not negative:  # 0 has one sign
            return -size if negative else size


def laplace_on_grid(
    center: Vector | Integers, scales: Sequence[Fraction], entropy: Entropy | None = None
) -> Vector:
    """Add discrete Laplace noise of public scales to whole numbers, in whole numbers.

    The double nearest to each sum is a function of it alone: post-processing.
    """
    noise = (discrete_laplace(scale, entropy) for scale in scales)
    released = np.array([float(int(x) + y) for x, y in zip(center, noise, strict=True)])
    released.setflags(write=False)
    return released


def _multiples(
    center: Vector | Integers, sigma: float | Vector, grid: float | Vector, entropy: Entropy | None
) -> tuple[Integers, dict[int, int]]:
    """Draw floor((mu + sigma Z)/g + 1/2) for every coordinate.

    Whatever the stream of words, the answer is that of the exact program alone: the compiled copy
    decides a coordinate only where every continuation of its words leads to the same multiple.

    Args:
        center: mu. PRIVATE.
        sigma: one standard deviation, or one for each coordinate. PRIVATE.
        grid: one power of two, or one for each coordinate.
        entropy: the operating system's, if None.

    Returns:
        The multiples of the compiled copy, 0 where it gave up, and by their places those of the
        exact program, which may have more than 64 bits.
    """
    sigma, grid = _drawable(center, sigma, grid)
    whole, rest, scale = _in_doubles(center, sigma, grid)
    words = _Words(entropy, _BLOCK)
    multiples = np.zeros(len(center), dtype=np.int64)
    rare: dict[int, int] = {}
    i = 0
    while i < len(center):
        words.fetch()
        i, words.at = _go_ahead(words.block, words.at, whole, rest, scale, i, multiples)
        if i == len(center):
            break
        # Coordinate i starts again from its first word: had it started from a later one, giving
        # up would have chosen which words count, and the law would not be the Gaussian's.
        mu, spread = (_in_steps(of[i].item(), grid[i].item()) for of in (center, sigma))
        rare[i] = _rounded(mu, spread, _standard_normal(words.__next__), words.__next__)
        i += 1
    return multiples, rare


def _drawable(
    center: Vector | Integers, sigma: float | Vector, grid: float | Vector
) -> tuple[Vector, Vector]:
    """Return sigma and the grid of each coordinate, or refuse what no study and data set lead to.

    Public arguments come first. The checks of ``center`` and ``sigma`` read private values. They
    are for programming errors: statistics are clamped and sigma is bounded from below, so no data
    set fails them.
    """
    if type(center) is not np.ndarray or center.ndim != 1 or center.dtype not in _DTYPES:
        raise UsageError("center must be a plain numpy array, float64 or int64, one-dimensional")
    like = (np.ndarray, np.dtype(np.float64), center.shape)
    for name, value in (("grid", grid), ("sigma", sigma)):
        if isinstance(value, np.ndarray) and (type(value), value.dtype, value.shape) != like:
            raise UsageError(
                f"{name} must be a number, or a plain numpy array, float64, with as many numbers "
                "as center"
            )
    bad: list[Any] = [grid]
    if isinstance(grid, float | np.ndarray):
        far = (np.frexp(grid)[0] != 0.5) | np.less(grid, sys.float_info.min)
        bad = np.extract(far, grid).tolist()
    if bad:
        raise UsageError(
            f"grid is {bad[0]!r}; it must be a float that is a power of two and at least 2**-1022: "
            "take it from public_grid"
        )
    if not np.isfinite(center).all():
        raise UsageError("center holds a NaN or an infinity; every value must be finite")
    number = isinstance(sigma, np.ndarray) or is_number(sigma)
    if not (number and np.all((sigma > 0) & np.less_equal(sigma, sys.float_info.max))):
        raise UsageError("sigma must be a finite number above 0; without noise nothing is private")
    return np.full(center.shape, sigma, dtype=np.float64), np.full(center.shape, grid)


class _Words:
    """The source's stream in words of 64 bits: none skipped, none used twice."""

    __slots__ = ("_read", "at", "block")

    def __init__(self, entropy: Entropy | None, size: int) -> None:
        source = OperatingSystemEntropy() if entropy is None else entropy
        self._read = partial(source.read, size)
        self.block = np.empty(0, dtype=np.uint64)
        self.at = 0  # the place of the next word in the block

    def __iter__(self) -> Self:
        return self

    def fetch(self) -> None:
        """Read the next block, if this one is used up."""
        if self.at == len(self.block):
            self.block, self.at = np.frombuffer(self._read(), dtype="<u8").astype(np.uint64), 0

    def __next__(self) -> int:
        self.fetch()
        self.at += 1
        return int(self.block[self.at - 1])


# A uniform number in (0, 1) is the list of the words of its binary expansion that were drawn so
# far, at least one; whoever needs to know it better appends to it.


def _below(u: list[int], v: list[int], word: _Word) -> bool:
    """Return whether u < v, drawing more of both while they agree."""
    i = 0
    while u[i] == v[i]:
        i += 1
        if i == len(u):
            u.append(word())
        if i == len(v):
            v.append(word())
    return u[i] < v[i]


def _survives(x: list[int], word: _Word, *, halved: bool = False) -> bool:
    """Return True with probability e^{-x}; with ``halved``, e^{-x^2/2}: von Neumann's trial.

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
    """Return True with probability e^{-1/2} (docs/proofs/noise.md, lemma 2)."""
    u = [word()]
    return u[0] >= _HALF or not _survives(u, word)


def _standard_normal(word: _Word) -> _Normal:
    """Draw a standard normal number as its sign, whole part k and fraction x: [Kar16] Algorithm N.

    An accepted (k, x) has a density proportional to e^{-k/2} e^{-k(k-1)/2} e^{-x(2k+x)/2} =
    e^{-(k+x)^2/2}, that of a half-normal number (docs/proofs/noise.md, theorem 3).

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
    """Return the integer nearest to center + sigma Z, in grid steps; draw more of Z while in doubt.

    With b bits of its fraction known, Z lies strictly between low / 2**b and (low + 1) / 2**b. In
    units of 2**-shift the sum lies strictly between two integers, and so does sum + 1/2, whose
    floor is the result; it is decided when no multiple of 2**shift is strictly between them.

    Args:
        center: the integers (n, p) with center = n / 2**p. PRIVATE.
        sigma: likewise. PRIVATE.
        normal: Z, as far as it is drawn. PRIVATE; words are appended to its fraction.
        word: the source of random words.

    Returns:
        The multiple of the grid, of any size.
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
        if negative:  # (-low - 1, -low) in place of (low, low + 1)
            low = -low - 1
        shift = common + bits
        left = (mu << bits) + scale * low + (1 << (shift - 1))
        right = left + scale
        multiple = left >> shift
        if multiple == (right - 1) >> shift:
            return multiple
        fraction.append(word())


def _uniform_below(bound: int, word: _Word) -> int:
    """Draw a uniform integer from 0 to bound - 1.

    As many bits as the largest one has are drawn until they make one of these: a remainder would
    favour small integers.
    """
    bits = (bound - 1).bit_length()
    count = -(-bits // _BITS)
    while True:
        drawn = 0
        for _ in range(count):
            drawn = drawn << _BITS | word()
        drawn >>= count * _BITS - bits
        if drawn < bound:
            return drawn


def _survives_ratio(p: int, q: int, word: _Word) -> bool:
    """Return True with probability e^{-p/q}, 0 <= p <= q: [CKS20] Algorithm 1.

    Count k = 1, 2, ... while a test of probability p/(q k) is passed; an odd k is a success.
    """
    k = 1
    while _uniform_below(q * k, word) < p:
        k += 1
    return k % 2 == 1


# The compiled copy. It knows each uniform number by its first word alone, and decides what that
# decides. Functions return the place after the last word that they used, _GIVE_UP if words of the
# block run out or two of them agree; they read up to three words at a time.

_GIVE_UP = -1
_WORD_HALF = np.uint64(_HALF)
_LOW_BITS = np.uint64(_BITS - 53)


def _in_doubles(
    center: Vector | Integers, sigma: Vector, grid: Vector
) -> tuple[Integers, Vector, Vector]:
    """Return (whole, rest, scale): center/grid = whole + rest, sigma/grid = scale, up to rounding.

    ``whole`` is exact, rest is at most 1 in size and, like scale, right to 2**-53. What does not
    fit has an infinite scale, which makes the compiled copy give it up.
    """
    parts: list[NDArray[Any]] = [center]
    if center.dtype == np.int64:  # in two parts, each of which is a double
        low = np.bitwise_and(center, 2**32 - 1)
        parts = [center - low, low]
    whole, rest = np.zeros(len(center), dtype=np.int64), np.zeros(len(center))
    with np.errstate(all="ignore"):
        scale = sigma / grid
        for part in parts:
            steps = part / grid
            nearest = np.rint(steps)
            fits = np.abs(nearest) <= 2.0**61
            whole += np.where(fits, nearest, 0.0).astype(np.int64)
            rest += np.where(fits, steps - nearest, 0.0)
            scale[~fits] = np.inf
    return whole, rest, scale


@kernel()
def _go_ahead(words, at, whole, rest, scale, first, multiples):  # type: ignore[no-untyped-def]
    """Fill ``multiples`` from place ``first`` on, until one has to be given up.

    The error of t is at most half of ``doubt`` (docs/proofs/noise.md, theorem 5): where t is
    further than that from a boundary between two multiples, the exact program decides likewise.

    Args:
        words: a block of random words.
        at: the place of the next word.
        whole: of each coordinate, the nearest multiple to its centre. PRIVATE.
        rest: what is left of the centre, in grid steps. PRIVATE.
        scale: sigma in grid steps; infinite where doubles do not do. PRIVATE.
        first: the coordinate to begin with.
        multiples: written to.

    Returns:
        The coordinate that was given up, or their number, and the place of the word at which it
        starts: the words of a coordinate that was given up stay unused.
    """
    for i in range(first, len(whole)):
        negative, k, x, after = _normal_ahead(words, at)
        if after == _GIVE_UP:
            return i, at
        z = k + np.float64(x >> _LOW_BITS) * 2.0**-53  # 53 of 64 bits: exact as a double
        t = rest[i] + scale[i] * (-z if negative else z)
        nearest = np.rint(t)
        doubt = 2.0**-50 * (scale[i] * (k + 2) + 1)
        if not abs(t - nearest) + doubt < 0.5:  # also where doubt is infinite
            return i, at
        multiples[i] = whole[i] + np.int64(nearest)
        at = after
    return len(whole), at


@kernel()
def _normal_ahead(words, at):  # type: ignore[no-untyped-def]
    """Return negative, k, x and the place: ``_standard_normal`` with one word for the fraction.

    Words are read in the very order in which ``_standard_normal`` reads them.
    """
    nothing = False, 0, _WORD_HALF, _GIVE_UP
    while True:
        k = 0
        going, at = _survives_half_ahead(words, at)
        while going and at != _GIVE_UP:
            k += 1
            going, at = _survives_half_ahead(words, at)
        going = True
        for _ in range(k * (k - 1)):
            if going and at != _GIVE_UP:
                going, at = _survives_half_ahead(words, at)
        if at == _GIVE_UP or at == len(words):
            return nothing
        if not going:
            continue
        x = words[at]
        at += 1
        for _ in range(k):
            if going and at != _GIVE_UP:
                going, at = _survives_ahead(words, at, x, False)
        if going and at != _GIVE_UP:
            going, at = _survives_ahead(words, at, x, True)
        if at == _GIVE_UP or at == len(words):
            return nothing
        if going:
            return words[at] < _WORD_HALF, k, x, at + 1


@kernel()
def _survives_half_ahead(words, at):  # type: ignore[no-untyped-def]
    """Return what ``_survives_half`` does with these words, and the place after them."""
    if at == len(words):
        return False, _GIVE_UP
    if words[at] >= _WORD_HALF:
        return True, at + 1
    survived, after = _survives_ahead(words, at + 1, words[at], False)
    return not survived, after


@kernel()
def _survives_ahead(words, at, x, halved):  # type: ignore[no-untyped-def]
    """Return what ``_survives`` does with these words, and the place after them.

    Args:
        words: a block of random words.
        at: the place of the next word.
        x: the first word of x.
        halved: ask for e^{-x^2/2}.

    Returns:
        The outcome, and the place after its last word, or ``_GIVE_UP``: at a tie of two first
        words, which later words would have to break, and near the end of the block.
    """
    even = True
    last = x
    while at + 3 <= len(words):
        z = words[at]
        at += 1
        if z == last:
            break
        if z > last:
            return even, at
        if halved:
            if words[at] >= _WORD_HALF:
                return even, at + 1
            if words[at + 1] == x:
                break
            if words[at + 1] > x:
                return even, at + 2
            at += 2
        even = not even
        last = z
    return even, _GIVE_UP


def _in_steps(value: float, grid: float) -> tuple[int, int]:
    """Return the integers (n, p) with value / grid = n / 2**p exactly.

    A double is a fraction over a power of two, and the grid is a power of two.
    """
    (n, d), (unit, per) = value.as_integer_ratio(), grid.as_integer_ratio()
    return n * per, (d * unit).bit_length() - 1


def _nearest_double(n: int, d: int) -> float:
    """Return the double nearest to n / d; the largest one of its sign beyond the range."""
    try:
        return n / d
    except OverflowError:
        return sys.float_info.max if n > 0 else -sys.float_info.max
