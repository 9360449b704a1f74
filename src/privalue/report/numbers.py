"""Format numbers for people: the width of an interval determines the number of digits.

The last digit of a value and of both ends is worth a hundredth to a tenth of the interval's width.
An end that is not 0 is never written as 0, since its sign decides whether the interval contains 0.
Files for programs keep every digit.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class FormattedNumber(NamedTuple):
    """A number as text, and its interval."""

    value: str
    interval: str

    def __str__(self) -> str:
        return f"{self.value} ({self.interval})" if self.interval else self.value


def format_interval(
    value: float | None, low: float | None = None, high: float | None = None
) -> FormattedNumber:
    """Return a number and its interval, all to the same decimal place.

    >>> str(format_interval(0.873456, 0.861111, 0.885432)), str(format_interval(0.123456))
    ('0.873 (0.861 to 0.885)', '0.1235')
    >>> str(format_interval(0.0504, 0.0004, 0.1004)), str(format_interval(2e-9, 1e-9, 3.5e-9))
    ('0.0504 (0.0004 to 0.1004)', '2.0e-9 (1.0e-9 to 3.5e-9)')
    """
    if value is None or math.isnan(value):
        return FormattedNumber("unknown", "")
    ends = [end for end in (low, high) if end is not None and math.isfinite(end)]
    if not ends or not math.isfinite(value):
        return FormattedNumber(format_number(value), "")
    width = ends[1] - ends[0] if len(ends) > 1 else 2 * abs(value - ends[0])
    size = _exponent(max(map(abs, (value, *ends))))
    place = max(_exponent(width or value or 1.0) - (1 if width else 6), size - 9)
    hidden = [_exponent(end) for end in ends if end and abs(end) < 0.5 * 10.0**place]
    place = max(min([place, *hidden]), place - 3)
    low_text, high_text = (
        "unbounded" if end is None or not math.isfinite(end) else _at_place(end, place, size)
        for end in (low, high)
    )
    return FormattedNumber(_at_place(value, place, size), f"{low_text} to {high_text}")


def format_row(row: Any) -> str:
    """Return the value of a row of a release, with its total interval if it has one."""
    ends = getattr(row, "total_low", None), getattr(row, "total_high", None)
    return str(format_interval(row.value, *ends))


def format_number(number: float | None, digits: int = 4) -> str:
    """Return a number that has no interval.

    >>> format_number(0.123456), format_number(123456.7), format_number(19.999999999999982, 6)
    ('0.1235', '123,457', '20')
    """
    if number is None or not math.isfinite(number):
        return "unknown" if number is None or math.isnan(number) else "unbounded"
    size = _exponent(float(f"{number:.{digits - 1}e}"))
    text = _at_place(number, min(size + 1 - digits, 0 if -5 <= size < 15 else size), size)
    digits_text, mark, power = text.partition("e")
    if "." in digits_text:
        digits_text = digits_text.rstrip("0").rstrip(".")
    return digits_text + mark + power


def format_bounds(bounds: Sequence[float]) -> str:
    """Return public bounds as "low to high"."""
    return f"{format_number(bounds[0], 6)} to {format_number(bounds[1], 6)}"


def format_power(number: float) -> str:
    """Return epsilon or delta.

    >>> format_power(1e-06), format_power(2.5e-07), format_power(0.01)
    ('10⁻⁶', '2.5·10⁻⁷', '0.01')
    """
    mantissa, mark, exponent = f"{number:.6g}".partition("e")
    if not mark:
        return mantissa
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def nice_ticks(low: float, high: float) -> list[tuple[str, float]]:
    """Return two to five round numbers between two others, with their texts.

    >>> nice_ticks(-0.03, 1.04)
    [('0.0', 0.0), ('0.5', 0.5), ('1.0', 1.0)]
    """
    least = (high - low) / 4
    if not 0 < least < math.inf:
        return []
    power = 10.0 ** math.floor(math.log10(least))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= least)
    place, first = _exponent(step), math.ceil(low / step)
    size = _exponent(max(abs(low), abs(high)))
    numbers = [step * at for at in range(first, math.floor(high / step) + 1)]
    return [(_at_place(number, place, size), number) for number in numbers]


def _exponent(number: float) -> int:
    """Return the power of ten of the first digit, after rounding to two digits."""
    return int(f"{number:.1e}".partition("e")[2])


def _at_place(number: float, place: int, size: int) -> str:
    """Return a number that ends at a decimal place; ``size`` is the exponent of its neighbours."""
    if not -5 <= size < 15:
        digits = max(size - place, 0)
        text = f"{Decimal(number).scaleb(-size):.{digits}f}"
        return f"{text}e{size}" if text.strip("-0.") else "0"
    text = f"{round(abs(number), -place):,.{max(-place, 0)}f}"
    return f"-{text}" if number < 0 and text.strip("0.,") else text
