"""Cells, read one at a time and literally: the slow twin of ``privalue.readers.cells``."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction

BLANKS = " \t\n\v\f\r"


def exact(text):
    """A text as an exact number, or None."""
    text = text.strip(BLANKS)
    if text.lower() in {"true", "false"}:
        return Fraction(text.lower() == "true")
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    try:
        number = Decimal(text)
    except (InvalidOperation, OverflowError):
        return None
    if number and abs(number.adjusted()) > 5000:  # as good as exact, and not as long
        number = Decimal((number.is_signed(), (1,), 5000 if number.adjusted() > 0 else -5000))
    return Fraction(number) if number else Fraction(0)


def whole(text):
    """A text as a whole number within 64 bits, or None."""
    number = exact(text)
    if number is None or number.denominator != 1 or not -(2**63) <= number < 2**63:
        return None
    return int(number)


def double(text):
    """A text as the finite double nearest to it, or None."""
    number = exact(text)
    if number is None:
        return None
    try:
        return float(number)
    except OverflowError:
        return None


def canonical(value):
    """The canonical text of a value that is not missing, or None where it has none."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        if not abs(value) < 2.0**53:  # NaN, too
            return None
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        text = "".join(map(str, digits))
        text = text + "0" * exponent if exponent >= 0 else text.rjust(1 - exponent, "0")
        if exponent < 0:
            text = f"{text[:exponent]}.{text[exponent:]}".rstrip("0").rstrip(".")
        text = text.lstrip("0") if not text.startswith("0.") else text
        text = "0" + text if text.startswith(".") else text or "0"
        text = f"-{text}" if sign and text != "0" else text
        return text if len(text) <= 255 else None
    if isinstance(value, datetime):
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        text = f"{value.year:04}" + value.strftime("-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
        return text.removesuffix("T00:00:00") if text.endswith("T00:00:00") else f"{text}Z"
    if isinstance(value, date):
        return f"{value.year:04}-{value.month:02}-{value.day:02}"
    return str(value)


def rank(text):
    """The sort key of an id: whole numbers by value, then other texts by bytes."""
    canonical_number = re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text)
    return (0, int(text), b"") if canonical_number else (1, 0, text.encode())
