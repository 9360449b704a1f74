"""Write numbers as a person would: an interval's width decides how many digits there are.

The rule is the same wherever people read: terminal, page, notebook and plot. The last digit of a
value and of both ends stands for about a hundredth to a tenth of the interval's width, and all
three end at the same decimal place. An end that is not 0 is never written as 0, by up to three
digits more, for on which side of 0 it is decides what the interval says. Numbers without an
interval have four digits, and numbers that are exact six. Files for programs, ``release.json`` and
``values.csv``, keep every digit instead.

>>> str(written(0.873456, 0.861111, 0.885432))
'0.873 (0.861 to 0.885)'
>>> str(written(0.0496, -0.0004, 0.0996)), str(written(0.0504, 0.0004, 0.1004))
('0.0496 (-0.0004 to 0.0996)', '0.0504 (0.0004 to 0.1004)')
>>> str(written_count(-121.3, 0.0, 14.2))
'about 0 (0 to 14)'
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

UNBOUNDED = "unbounded"
UNKNOWN = "unknown"
_DIGITS = 4  # of a number without an interval
_EXACT = 6  # of a number that is known, such as a public bound
_MOST = 10  # digits before rounding errors of what was computed could show
_MORE = 3  # digits at most, so that an end beside 0 is not written as 0
_LARGE, _TINY = 15, -5  # powers of ten from which, and below which, the power is written
_WIDE = Context(prec=400, rounding=ROUND_HALF_EVEN)  # any float, to any place


@dataclass(frozen=True, kw_only=True)
class Written:
    """A number as text, with both ends of its interval."""

    value: str
    low: str = UNBOUNDED
    high: str = UNBOUNDED

    @property
    def within(self) -> str:
        """Return the interval by both of its ends."""
        if self.low == self.high == UNBOUNDED:
            return UNBOUNDED
        return f"{self.low} to {self.high}"

    def __str__(self) -> str:
        if self.low == self.high == UNBOUNDED:
            return self.value
        return f"{self.value} ({self.within})"


def written(value: float | None, low: float | None = None, high: float | None = None) -> Written:
    """Return a number and its interval as text, all to the same decimal place.

    Args:
        value: the number; None or NaN is unknown.
        low: the lower end; None, NaN or infinite is unbounded.
        high: the upper end.
    """
    return _written(value, low, high, last=None)


def written_count(
    value: float | None, low: float | None = None, high: float | None = None
) -> Written:
    """Return a noisy count and its interval as whole numbers.

    Noise may bring a count to zero or below: such a count is "about 0", and ends are 0 at least.

    Args:
        value: the noisy count.
        low: the lower end.
        high: the upper end.
    """
    low, high = (end if end is None or math.isnan(end) else max(end, 0.0) for end in (low, high))
    found = _written(value, low, high, last=0)
    few = value is not None and value <= 0.5
    return Written(value="about 0", low=found.low, high=found.high) if few else found


def written_exactly(number: float | None) -> str:
    """Return a number that is known, such as a public bound, without rounding errors.

    >>> written_exactly(19.999999999999982), written_exactly(1234567.0), written_exactly(2.5e-7)
    ('20', '1,234,567', '2.5e-7')
    """
    return _by_digits(number, _EXACT)


def counted(number: int, one: str) -> str:
    """Return a number with its noun.

    Args:
        number: how many.
        one: what one of them is called; its plural is regular.

    >>> counted(1, "state"), counted(2500, "trajectory")
    ('1 state', '2,500 trajectories')
    """
    many = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{number:,} {one if number == 1 else many}"


def decimal_place(width: float) -> int | None:
    """Return the place at which numbers end, as a power of ten; None where a width says nothing.

    >>> decimal_place(0.024), decimal_place(0.19), decimal_place(12.0), decimal_place(5000.0)
    (-3, -2, 0, 2)
    """
    if not 0.0 < width < math.inf:
        return None
    # Two digits of the width: 0.0999 is 0.10 in two digits, and ends where 0.10 does.
    return int(f"{width:.1e}".partition("e")[2]) - 1


def at_place(number: float | None, place: int, power: int = 0) -> str:
    """Return a number that ends at a decimal place.

    Args:
        number: None or infinite is unbounded, NaN unknown.
        place: of the last digit, as a power of ten.
        power: a power of ten that is written behind the number.

    >>> at_place(-0.0004, -3), at_place(1234.5, -1), at_place(123456.0, 3), at_place(2e-9, -10, -9)
    ('0.000', '1,234.5', '123,000', '2.0e-9')
    """
    if number is None or not math.isfinite(number):
        return UNKNOWN if number is not None and math.isnan(number) else UNBOUNDED
    if place <= 0 and not power:
        return _everyday(number, place)
    # Decimal arithmetic: a float times a power of ten could end in 999999999.
    exact = Decimal(number).scaleb(-power).quantize(Decimal(1).scaleb(place - power), context=_WIDE)
    text = f"{exact.copy_abs():,f}"
    sign = "-" if exact.is_signed() and exact else ""
    return f"{sign}{text}" + (f"e{power}" if power and exact else "")


def _written(
    value: float | None, low: float | None, high: float | None, last: int | None
) -> Written:
    """Return a number and its interval; ``last`` is the smallest place that a digit may have."""
    if value is None or math.isnan(value):
        return Written(value=UNKNOWN)
    if last is None and low is not None and high is not None:
        plainly = _plainly(value, low, high)
        if plainly is not None:
            return plainly
    numbers = [x if x is not None and math.isfinite(x) else None for x in (value, low, high)]
    size = _size(max(abs(x) for x in (*numbers, 0.0) if x is not None))
    place = _place(numbers[0], numbers[1], numbers[2], size)
    if last is not None:
        place = last if place is None else max(place, last)
    if place is None:
        texts = [_by_digits(x, _DIGITS) for x in numbers]
    else:
        power = 0 if last is not None and size < _LARGE else _power_of(size)
        if last is None:
            place = _beside_zero(place, numbers[1:])
            numbers[1:] = [_off_zero(x, place) for x in numbers[1:]]
        texts = [at_place(x, place, power) for x in numbers]
    return Written(value=texts[0], low=texts[1], high=texts[2])


def _plainly(value: float, low: float, high: float) -> Written | None:
    """Return the same where nothing is special, in a third of the time; else None.

    Nothing is where all numbers are of everyday size, and either end is 0 or far enough from it. A
    page has some thousand such intervals.
    """
    width, size = high - low, max(abs(value), abs(low), abs(high))
    if not 1e-4 <= width < 1e6 or not 1e-4 <= size < 1e6 or size > 1e5 * width:
        return None
    place = int(f"{width:.1e}"[4:]) - 1
    unit = 10.0**place
    if (low and abs(low) <= unit) or (high and abs(high) <= unit):
        return None
    texts = [_everyday(value, place), _everyday(low, place), _everyday(high, place)]
    return Written(value=texts[0], low=texts[1], high=texts[2])


def _everyday(number: float, place: int) -> str:
    """Return a number that ends at a place; Python rounds it as Decimal would, half to even."""
    size = abs(number)
    text = f"{size:,.{-place}f}" if place <= 0 else f"{round(size, -place):,.0f}"
    return f"-{text}" if number < 0 and text.strip("0.") else text


def _place(value: float | None, low: float | None, high: float | None, size: int) -> int | None:
    """Return the place of an interval's last digit; one end alone counts as half of its width."""
    ends = [end for end in (low, high) if end is not None]
    reach = [abs(value - end) for end in ends] if value is not None else []
    width = ends[1] - ends[0] if len(ends) > 1 else 2 * sum(reach)
    place = decimal_place(min(width, sys.float_info.max))
    return None if place is None else max(place, size - _MOST + 1)


def _beside_zero(place: int, ends: Sequence[float | None]) -> int:
    """Return a place at which an end that is not 0 has a digit, if a few more are enough."""
    hidden = [end for end in ends if end and _off_zero(end, place) != end]
    return max(min([place, *map(_size, hidden)]), place - _MORE)


def _off_zero(end: float | None, place: int) -> float | None:
    """Return an end, or the number next to 0 on its side if it would be written as 0."""
    if not end or abs(end) > 10.0**place:
        return end
    unit = Decimal(1).scaleb(place)
    hidden = not Decimal(end).quantize(unit, context=_WIDE)
    return math.copysign(float(unit), end) if hidden else end


def _by_digits(number: float | None, digits: int) -> str:
    """Return a number with at most so many digits, and without zeros at its end."""
    if not number or not math.isfinite(number):
        return at_place(number, 0)
    size = _size(float(f"{number:.{digits - 1}e}"))
    power = _power_of(size)
    text, mark, behind = at_place(
        number, size + 1 - digits if power else min(size + 1 - digits, 0), power
    ).partition("e")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + mark + behind


def _size(number: float) -> int:
    """Return the power of ten of a number's first digit; 0 for zero."""
    return math.floor(math.log10(abs(number))) if number else 0


def _power_of(size: int) -> int:
    """Return the power of ten to write behind numbers of such a size; 0 for none."""
    return 0 if _TINY <= size < _LARGE else size
