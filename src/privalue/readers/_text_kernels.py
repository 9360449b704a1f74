"""Compile the kernels that read the cells of a text column, each cell by itself.

A kernel gives each cell a status. ``CHECK`` leaves a cell to Python: it has a rare form, or is not
a number. ``LONG`` is a number that needs a conversion of more digits.

Args that all kernels share: ``offsets``, where each text begins, and the end of the last; ``data``,
the bytes of all texts; ``status``, one for each cell, of which a kernel reads and changes only
those that are ``OK``.
"""

import numpy as np

from privalue.core import jit

OK, MISSING, INVALID, LONG, CHECK = range(5)
# As numbers: to compile ord() takes longer than to compile a kernel.
_MINUS, _PLUS, _EXPONENT, _CAPITAL_EXPONENT = b"-+eE"
TEXT = np.int64(2**63 - 1)  # the first word of an id that is not a whole number of 18 digits


@jit(nogil=True)
def _is_space(byte):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return whether a byte is white space in ASCII."""
    return byte == 32 or 9 <= byte <= 13


@jit(nogil=True)
def _trimmed(data, begin, end):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return begin and end of a text without the white space around it."""
    while begin < end and _is_space(data[begin]):
        begin += 1
    while begin < end and _is_space(data[end - 1]):
        end -= 1
    return begin, end


@jit(nogil=True)
def whole_numbers(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    offsets, data, status, numbers
):
    """Fill ``numbers`` where a cell is a whole number of up to 18 digits; else ``CHECK``.

    Args:
        offsets: see above, like data and status.
        data: bytes.
        status: changed in place.
        numbers: gets the numbers, and 0 where there is none.
    """
    for i in range(len(numbers)):
        numbers[i] = 0
        if status[i] != OK:
            continue
        begin, end = _trimmed(data, np.int64(offsets[i]), np.int64(offsets[i + 1]))
        if begin == end:
            status[i] = MISSING
            continue
        digits = begin + (data[begin] == _MINUS or data[begin] == _PLUS)
        number = np.int64(0)
        plain = 0 < end - digits <= 18
        if plain:
            for at in range(digits, end):
                digit = np.int64(data[at]) - 48
                plain &= 0 <= digit <= 9
                number = 10 * number + digit
        if plain:
            numbers[i] = -number if data[begin] == _MINUS else number
        else:
            status[i] = CHECK


# Powers of ten are exact up to 22, and so are whole numbers below 2^53: one division rounds as
# reading the decimal does.
POWERS = np.array([float(10**power) for power in range(16)])


@jit(nogil=True)
def decimals(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    offsets, data, mark, status, numbers
):
    """Fill ``numbers`` where a cell has up to 15 digits, with or without a decimal mark.

    The status becomes ``LONG`` for a number with more digits or an exponent, and ``CHECK`` for any
    other form.

    Args:
        offsets: see above, like data and status.
        data: bytes.
        mark: the decimal mark, one byte.
        status: changed in place.
        numbers: gets the numbers, and 0 where there is none.
    """
    for i in range(len(numbers)):
        numbers[i] = 0.0
        if status[i] != OK:
            continue
        begin, end = _trimmed(data, np.int64(offsets[i]), np.int64(offsets[i + 1]))
        if begin == end:
            status[i] = MISSING
            continue
        negative = data[begin] == _MINUS
        at = begin + (negative or data[begin] == _PLUS)
        number, digits, after = np.int64(0), 0, 0
        marked = False
        while at < end:
            byte = data[at]
            if 48 <= byte <= 57:
                digits += 1
                after += marked
                if digits <= 15:
                    number = 10 * number + (np.int64(byte) - 48)
            elif byte == mark and not marked:
                marked = True
            else:
                break
            at += 1
        if digits == 0:
            status[i] = CHECK
        elif at < end:
            status[i] = LONG if _is_exponent(data, at, end) else CHECK
        elif digits > 15:
            status[i] = LONG
        else:
            value = number / POWERS[after]
            numbers[i] = -value if negative else value


@jit(nogil=True)
def _is_exponent(data, at, end):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Return whether the rest of a text is an exponent, such as e-05."""
    if data[at] != _EXPONENT and data[at] != _CAPITAL_EXPONENT:
        return False
    at += 1
    if at < end and (data[at] == _MINUS or data[at] == _PLUS):
        at += 1
    good = at < end
    while at < end:
        good &= 48 <= data[at] <= 57
        at += 1
    return good


@jit(nogil=True)
def first_words(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    offsets, data, longest, status, words
):
    """Fill the first word of every id, and return how many bytes the longest text has.

    A whole number of up to 18 digits, written in the usual way, is its own word. Any other id
    begins with ``TEXT``, which is larger, and goes on with its bytes (``text_words``).

    Args:
        offsets: see above, like data and status.
        data: bytes.
        longest: the most bytes that an id may have.
        status: changed in place.
        words: gets the first words.
    """
    most = np.int64(0)
    for i in range(len(words)):
        words[i] = 0
        if status[i] != OK:
            continue
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if _trimmed(data, begin, end)[0] == end:
            status[i] = MISSING
            continue
        digits = begin + (data[begin] == _MINUS)
        usual = 0 < end - digits <= 18 and (data[digits] != 48 or end - begin == 1)
        number = np.int64(0)
        if usual:
            for at in range(digits, end):
                digit = np.int64(data[at]) - 48
                usual &= 0 <= digit <= 9
                number = 10 * number + digit
        if usual:
            words[i] = -number if digits > begin else number
        elif end - begin > longest or not _is_utf8(data, begin, end):
            status[i] = INVALID
        else:
            words[i] = TEXT
            most = max(most, end - begin)
    return most


@jit(nogil=True)
def text_words(offsets, data, words):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Fill the words after the first of ids that are texts: seven bytes each, zeros at the end."""
    for i in range(len(words)):
        if words[i, 0] != TEXT:
            continue
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        # UTF-8 never has the byte 255, so byte + 1 fits, and 0 is free to mean the end.
        for at in range(end - begin):
            words[i, 1 + at // 7] |= (np.int64(data[begin + at]) + 1) << (48 - 8 * (at % 7))


@jit(nogil=True)
def _is_utf8(data, begin, end):  # type: ignore[no-untyped-def]  # noqa: PLR0912  # pragma: no cover - compiled
    """Return whether a text is valid UTF-8."""
    at = begin
    while at < end:
        byte = data[at]
        if byte < 0x80:
            at += 1
            continue
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
        elif 0xF0 <= byte <= 0xF4:
            more = 3
        else:
            return False
        if at + more >= end:
            return False
        second = data[at + 1]
        low, high = 0x80, 0xBF
        if byte == 0xE0:
            low = 0xA0
        elif byte == 0xED:
            high = 0x9F  # no surrogates
        elif byte == 0xF0:
            low = 0x90
        elif byte == 0xF4:
            high = 0x8F
        if not low <= second <= high:
            return False
        for k in range(2, more + 1):
            if not 0x80 <= data[at + k] <= 0xBF:
                return False
        at += more + 1
    return True
