"""The standard normal number by [Kar16] Algorithm N, literally: the slow twin of core/noise.py.

A uniform number is the list of the words of its binary expansion that were drawn so far, at least
one; a function that needs more digits appends words. ``word`` gives the next word.
"""

import numpy as np

from privalue.core.noise import Stream

BITS = 64
HALF = 1 << (BITS - 1)


def below(u, v, word):
    """Whether u < v, drawing more of both while they agree."""
    i = 0
    while u[i] == v[i]:
        i += 1
        if i == len(u):
            u.append(word())
        if i == len(v):
            v.append(word())
    return u[i] < v[i]


def survives(x, word, *, halved=False):
    """True with probability e^{-x}; with ``halved``, e^{-x^2/2}: von Neumann's trial."""
    even = True
    last = x
    while True:
        z = [word()]
        if not below(z, last, word):
            return even
        if halved and not (word() < HALF and below([word()], x, word)):
            return even
        even = not even
        last = z


def survives_half(word):
    u = [word()]
    return u[0] >= HALF or not survives(u, word)


def standard_normal(word):
    """The sign, the whole part and the words of the fraction."""
    while True:
        k = 0
        while survives_half(word):
            k += 1
        if not all(survives_half(word) for _ in range(k * (k - 1))):
            continue
        x = [word()]
        if all(survives(x, word) for _ in range(k)) and survives(x, word, halved=True):
            return word() < HALF, k, x


def round_exactly(center, sigma, normal, word):
    """The integer nearest to center + sigma Z, as fractions; more of Z is drawn while in doubt."""
    negative, whole, fraction = normal
    while True:
        low = whole
        for digits in fraction:
            low = low << BITS | digits
        ends = [(-1 if negative else 1) * end for end in (low, low + 1)]
        first, last = sorted(center + sigma * end / 2 ** (BITS * len(fraction)) for end in ends)
        multiple = (first * 2 + 1) // 2
        if last * 2 + 1 <= 2 * (multiple + 1):  # the ends themselves are never met
            return int(multiple)
        fraction.append(word())


# Inputs of the core's sampler


def stream_of(words):
    """A stream of the program, with these words and no more."""
    return Stream.of(np.array(words, dtype=np.uint64), 0)


def words_from(source):
    """The words of a source, without an end."""
    while True:
        yield from np.frombuffer(source.read(1 << 15), dtype="<u8").tolist()
