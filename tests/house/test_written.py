"""One rule for numbers that people read: the interval's width decides how many digits there are."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privalue import _written as rules
from privalue._written import (
    at_place,
    decimal_place,
    written,
    written_count,
    written_exactly,
)

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.873456, 0.861111, 0.885432), "0.873 (0.861 to 0.885)"),
        ((0.87, 0.86, 0.88), "0.870 (0.860 to 0.880)"),
        ((0.5312, 0.4362, 0.6262), "0.53 (0.44 to 0.63)"),
        ((12.3456, 8.1, 16.2), "12.3 (8.1 to 16.2)"),
        ((123456.0, 100000.0, 150000.0), "123,000 (100,000 to 150,000)"),
        ((-0.001, -0.5, 0.5), "0.0 (-0.5 to 0.5)"),  # no minus before a zero
        ((0.0999, 0.0, 0.0999), "0.10 (0.00 to 0.10)"),
        # on which side of 0 an end is stays in sight, and an end at 0 is one
        ((0.0496, -0.0004, 0.0996), "0.0496 (-0.0004 to 0.0996)"),
        ((0.0504, 0.0004, 0.1004), "0.0504 (0.0004 to 0.1004)"),
        ((-0.05, -0.1, -0.004), "-0.050 (-0.100 to -0.004)"),
        ((0.05, -1e-9, 0.1), "0.05000 (-0.00001 to 0.10000)"),
        ((50.0, -0.4, 100.0), "50.0 (-0.4 to 100.0)"),
        ((0.05, -0.0, 0.1), "0.05 (0.00 to 0.10)"),
        # a width of zero, or one that is next to nothing, says nothing of digits
        ((0.5, 0.5, 0.5), "0.5 (0.5 to 0.5)"),
        ((0.0, 0.0, 0.0), "0 (0 to 0)"),
        ((0.5, 0.5 - 1e-13, 0.5 + 1e-13), "0.5000000000 (0.5000000000 to 0.5000000000)"),
        # no interval, or one end of it
        ((19.999999999999982, None, None), "20"),
        ((0.123456, None, None), "0.1235"),
        ((0.5, None, 0.6), "0.50 (unbounded to 0.60)"),
        ((0.5, -INF, INF), "0.5"),
        ((1.0, NAN, 2.0), "1.0 (unbounded to 2.0)"),
        ((NAN, 0.0, 1.0), "unknown"),
        ((None, 0.0, 1.0), "unknown"),
        ((INF, 0.0, 1.0), "unbounded (0.0 to 1.0)"),
        # huge and tiny numbers have a power of ten, the same for all three
        ((1e20, 0.9e20, 1.1e20), "1.00e20 (0.90e20 to 1.10e20)"),
        ((1e-9, 0.9e-9, 1.1e-9), "1.00e-9 (0.90e-9 to 1.10e-9)"),
        ((5e-324, 0.0, 1e-323), "4.9e-324 (0.0 to 9.9e-324)"),
        ((1.7e308, -1.7e308, 1.7e308), "1.7e308 (-1.7e308 to 1.7e308)"),
        ((1e-9, -1.0, 1.0), "0.0 (-1.0 to 1.0)"),
    ],
)
def test_digits_follow_the_width_of_the_interval(numbers, text):
    assert str(written(*numbers)) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((-121.3, 0.0, 14.2), "about 0 (0 to 14)"),
        ((-121.3, -256.0, 14.2), "about 0 (0 to 14)"),
        ((0.4, 0.0, 3.0), "about 0 (0 to 3)"),
        ((12.6, 9.1, 16.0), "13 (9 to 16)"),
        ((12345.6, 12045.0, 12646.0), "12,350 (12,040 to 12,650)"),
        ((7.2, None, None), "7"),
        ((NAN, 0.0, 1.0), "unknown"),
    ],
)
def test_a_noisy_count_is_a_whole_number_and_never_negative(numbers, text):
    assert str(written_count(*numbers)) == text


def test_exact_numbers_show_no_rounding_errors():
    numbers = (19.999999999999982, 0.1 + 0.2, 0.99, 1234567.0, 2.5e-7, -0.0, 1e22, 999999.5)
    texts = ("20", "0.3", "0.99", "1,234,567", "2.5e-7", "0", "1e22", "1,000,000")
    assert tuple(map(written_exactly, numbers)) == texts
    assert [written_exactly(x) for x in (None, INF, NAN)] == ["unbounded", "unbounded", "unknown"]


def test_a_width_that_says_nothing_has_no_place():
    assert [decimal_place(width) for width in (0.0, -1.0, INF, NAN)] == [None] * 4


sizes = st.floats(min_value=-1e12, max_value=1e12)


def misses(text, number, place):
    """Whether a text is more than half a place away from its number, in exact arithmetic."""
    return abs(Decimal(text.replace(",", "")) - Decimal(number)) > Decimal(10) ** place / 2


@given(sizes, st.floats(min_value=1e-12, max_value=1e12), st.floats(min_value=0, max_value=1))
def test_a_person_could_have_written_it(low, width, share):
    """All three end at one place, are right to half of it, and show enough of the width."""
    high = low + width
    value = min(low + share * width, high)
    if low == high:
        return
    found = written(value, low, high)
    texts = [found.value, found.low, found.high]
    ends = {len(text.partition("e")[0].partition(".")[2]) for text in texts if text != "0"}
    assert len(ends) == 1
    largest = max(abs(low), abs(high))
    digits = math.floor(math.log10(largest)) - 9  # ten digits are the most
    place = max(decimal_place(high - low), digits)
    for text, number in zip(texts, (value, low, high), strict=True):
        assert not misses(text, number, place)
    for text, number in zip(texts[1:], (low, high), strict=True):
        shown = float(text.replace(",", ""))
        assert (shown > 0, shown < 0) == (number > 0, number < 0)
    assert place == digits or 9.94 < (high - low) / 10.0**place < 99.6


@given(sizes, st.integers(min_value=-8, max_value=8))
def test_a_place_is_where_a_number_ends(number, place):
    text = at_place(number, place)
    assert not misses(text, number, place)
    assert len(text.partition(".")[2]) == max(-place, 0)
    assert not text.startswith("-0") or text.strip("-0.,")


NUMBER = st.one_of(
    st.floats(-200, 200),
    st.floats(-1e9, 1e9),
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, 10.0, 99.95, 9.995, 0.0999, 94.9, 95.0, -0.5, 1e-4, 1e5, 1e6]),
)


@given(NUMBER, st.floats(-1, 1), st.floats(0, 1), st.floats(-9, 9), NUMBER, st.booleans())
def test_the_short_way_writes_what_the_long_way_does(value, off, share, size, end, either):
    """Both ends near the value, or one of them anywhere."""
    width = 10**size
    low, high = value + (off - share) * width, value + (off + share) * width
    low, high = (min(low, end), high) if either else (low, max(high, end))
    short = written(value, low, high)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "_plainly", lambda *_: None)
        assert written(value, low, high) == short


def test_the_short_way_is_taken_by_everyday_numbers():
    assert rules._plainly(12.34, 8.1, 16.2) == written(12.34, 8.1, 16.2)
    assert rules._plainly(-0.25, -0.5, 0.0) is not None
    assert rules._plainly(25.0, 0.0, 100.0) == written(25.0, 0.0, 100.0)
    for numbers in ((0.05, -1e-9, 0.1), (0.5, 0.5, 0.5), (1e9, 0.0, 2e9), (0.5, -4.0, 100.0)):
        assert rules._plainly(*numbers) is None
