"""Convert the cells of an Arrow column to numbers, each cell independently of the others.

Every function takes a column of any physical type and returns a value and a status (``OK``,
``MISSING`` or ``INVALID``) for each cell. The result for a cell depends on that cell and the
declaration only: not on the column's scale, unit or time zone, and not on other cells. Arrow's
casts are exact and strict, and fail as a whole: if one fails, its halves are cast, and the last few
cells in Python, so that an error is confined to its cell.

**Sort keys.** An id becomes a few int64 numbers. Two ids have the same key exactly if they are
equal, and keys compare as ids do. A whole number of up to 18 digits, written in the usual way, is
one number: itself. Any other text begins with ``TEXT``, which is larger than every number, and
goes on with its bytes, seven to a number: 9 comes before 10, and both before every other text.
Zeros at the end (``pad``) change neither equality nor order.

**Canonical text.** With ``id_type = "text"`` an id is its canonical text, so that the same id is
equal in CSV, Parquet and a database: a text unchanged, a number without trailing zeros, true and
false as 1 and 0, a time in UTC in ISO format (a date alone at midnight). A Python object is
converted to its canonical text, too (``from_objects``), and then read like a text.
"""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privalue.core import Integers

OK, MISSING, INVALID = range(3)
LONGEST_ID = 255  # bytes
TEXT = 2**63 - 1  # the first number of the key of an id that is not a whole number
BLANKS = " \t\n\v\f\r"  # ASCII white space, which is stripped from cells
NO_TEXT = b"\xff"  # stands for an object without a text; not UTF-8, and so invalid in every role

Status = NDArray[np.uint8]

_MAX_IN_PYTHON = 32  # parts of at most this many cells are parsed in Python instead of being halved
_LONGEST_NUMBER = 400  # characters
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # in linear time
_NOT_FINITE = re.compile(r"[+-]?(nan(\(\w*\))?|inf(inity)?)", re.ASCII | re.IGNORECASE)  # as Arrow
_PLAIN_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"  # a whole number whose sort key is itself
_BOOLEANS = {"true": "1", "false": "0"}
_SUBMICROSECOND = re.compile(r"[.,]\d{6}0*[1-9]", re.ASCII)  # a time finer than a microsecond
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400 * 10**6  # microseconds
_INT64 = (-(2**63), 2**63 - 1)


class Cells(NamedTuple):
    """The values of a column, and the status of each. PRIVATE: its repr shows none of them."""

    values: NDArray[Any]
    status: Status

    def __repr__(self) -> str:
        return f"Cells(private, rows={len(self.status)})"

    @property
    def failed(self) -> NDArray[np.bool_] | None:
        """Return which cells have no value, or None if every cell has one."""
        return self.status != OK if self.status.any() else None

    def mark(self, where: NDArray[np.bool_], status: int) -> "Cells":
        """Return the same cells, with a new status for cells of ``where`` that were ``OK``."""
        if not where.any():
            return self
        marks = np.where(where & (self.status == OK), np.uint8(status), self.status)
        return Cells(self.values, marks)

    def restrict(self, low: float, high: float) -> "Cells":
        """Return the same cells; numbers below ``low`` or above ``high`` are invalid."""
        if low <= self.values.min(initial=low) and self.values.max(initial=low) <= high:
            return self
        outside = (self.values < low) | (self.values > high)
        return Cells(np.where(outside, 0, self.values), self.status).mark(outside, INVALID)


class Missing(NamedTuple):
    """The markers of missing cells: the texts that the study lists, and numbers equal to them."""

    texts: pa.Array
    numerals: pa.Array  # of these, all but infinite numbers, which are invalid in any column
    numbers: NDArray[np.float64]

    @classmethod
    def of(cls, markers: Sequence[str], decimal: str = ".") -> "Missing":
        """Return these markers for cells of any type; a blank text is always one.

        A marker that is a number also matches equal numbers: whether a cell arrives as a text or as
        a number depends on its neighbours in the batch, and must make no difference.
        """
        texts = pa.array(sorted({marker.strip(BLANKS) for marker in markers} | {""}))
        numbers = list(map(_parse_double, _with_points(texts, decimal).to_pylist()))
        is_infinite = [number is not None and math.isinf(number) for number in numbers]
        finite = [x for x in numbers if x is not None and math.isfinite(x)]
        return cls(texts, texts.filter(pc.invert(pa.array(is_infinite))), np.array(finite, float))

    def mark(self, cells: Cells) -> Cells:
        """Mark numbers that stand for missing cells, and replace them by 0, as for texts."""
        if len(self.numbers) == 0 or not (where := np.isin(cells.values, self.numbers)).any():
            return cells
        return Cells(np.where(where, 0, cells.values), cells.status).mark(where, MISSING)


# Texts as numbers


def _with_points(texts: pa.Array, decimal: str) -> pa.Array:
    """Return texts with points as decimal marks; a text with a point of its own is invalid."""
    if decimal == ".":
        return texts
    return pc.replace_substring(pc.replace_substring(texts, ".", "?"), decimal, ".")


def _parse_whole(text: str) -> int | None:
    """Return the whole number that a text represents, such as 3, 3.0, 1e+05 or true; else None."""
    text = _BOOLEANS.get(text.lower(), text)
    significant = text.lstrip("+-").lstrip("0")  # Arrow reads any number of leading zeros
    if len(significant) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except ArithmeticError:  # an exponent of very many digits
        return None
    if number and not 0 <= number.adjusted() < 20:
        return None
    return int(number) if number == int(number) and _INT64[0] <= number <= _INT64[1] else None


def _parse_double(text: str) -> float | None:
    """Return the double nearest to a text's number (infinite if too large); None if it has none."""
    text = _BOOLEANS.get(text.lower(), text)
    is_number = _NUMBER.fullmatch(text) or _NOT_FINITE.fullmatch(text)
    return float(text.partition("(")[0]) if is_number else None


BLANK = Missing.of(())


# Types


def decode_column(column: pa.Array) -> pa.Array:
    """Return the cells without dictionary or run encoding; texts as strings, booleans as 1, 0."""
    if pa.types.is_dictionary(column.type):
        column = pa.DictionaryArray.from_arrays(column.indices, decode_column(column.dictionary))
        column = column.dictionary_decode()
    elif pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if is_text(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.string())
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the cells themselves, whether or not the column is encoded."""
    encoded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return kind.value_type if encoded else kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells of this type are texts."""
    return kind in {pa.string(), pa.large_string(), pa.string_view()}


def is_number(kind: pa.DataType) -> bool:
    """Return whether cells of this type are numbers; true and false are 1 and 0."""
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return bool(whole or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_time(kind: pa.DataType) -> bool:
    """Return whether cells are dates or timestamps; times of day and durations are neither."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _null_status(column: pa.Array) -> Status:
    """Return the status of cells before they are parsed: nulls are missing."""
    if not column.null_count:
        return np.zeros(len(column), np.uint8)
    return _mask(column.is_null()) * np.uint8(MISSING)


def _mask(column: pa.Array) -> NDArray[np.bool_]:
    """Return a column of booleans as a NumPy array."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _as_numpy(column: pa.Array) -> NDArray[Any]:
    """Return a column of numbers as a NumPy array, 0 for nulls."""
    column = column.fill_null(0) if column.null_count else column
    return np.from_dlpack(column)  # to_numpy() would import pandas, where that is installed


# Texts


def _parse_texts(texts: pa.Array, kind: pa.DataType, missing: Missing, decimal: str = ".") -> Cells:
    """Return the numbers that texts represent, as int64 or doubles."""
    numerals = _with_points(texts, decimal)
    is_whole = kind == pa.int64()
    if is_whole and pc.any(pc.match_substring_regex(texts, "[xX]")).as_py():
        numerals = pc.replace_substring_regex(numerals, "[xX]", "?")  # Arrow would cast 0x10 to 16
    with suppress(pa.ArrowInvalid):
        return Cells(_as_numpy(numerals.cast(kind)), _null_status(texts))
    status = _null_status(texts)
    status[_mask(pc.is_in(pc.ascii_trim_whitespace(texts), missing.numerals))] = MISSING
    numerals = pc.if_else(pa.array(status == OK), pc.ascii_trim_whitespace(numerals), "0")
    if is_whole:  # pandas writes whole numbers as 1.0 if some are missing
        numerals = pc.replace_substring_regex(numerals, r"^(-?\d+)\.0{0,9}$", r"\1")
    values, valid = _cast(numerals, kind, _parse_whole if is_whole else _parse_double)
    return Cells(values, status).mark(~valid, INVALID)


def _cast(
    column: pa.Array, kind: pa.DataType, parse: Callable[[str], Any] | None = None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the number of each cell, 0 for nulls, and which cells could be cast.

    Args:
        column: the cells.
        kind: the type to cast to.
        parse: parses one text, once a cast of many has failed; None if cells are not texts.
    """
    if parse is not None and len(column) <= _MAX_IN_PYTHON:
        numbers = [parse(_text(cell)) for cell in column]
        valid = np.array([number is not None for number in numbers], np.bool_)
        numbers = [0 if number is None else number for number in numbers]
        return np.array(numbers, kind.to_pandas_dtype()), valid
    try:
        values = column.cast(kind)
        values = values.cast(pa.int64()) if pa.types.is_timestamp(kind) else values
        return _as_numpy(values), np.ones(len(column), np.bool_)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return np.zeros(1, np.int64), np.zeros(1, np.bool_)
        half = len(column) // 2
        halves = [_cast(part, kind, parse) for part in (column[:half], column[half:])]
        values, valid = map(np.concatenate, zip(*halves, strict=True))
        return values, valid


def _text(cell: pa.Scalar) -> str:
    """Return the text of a cell, which may not be valid UTF-8."""
    return bytes(cell.as_buffer()).decode("utf-8", "replace")


# Numbers


def whole_numbers(column: pa.Array, missing: Missing = BLANK, decimal: str = ".") -> Cells:
    """Return whole numbers within 64 bits, however they are written; int32 columns stay int32."""
    column = decode_column(column)
    kind = column.type
    if is_text(kind):
        cells = _parse_texts(column, pa.int64(), missing, decimal)
    elif pa.types.is_floating(kind):
        exact = _exact_floats(column)
        exact = exact.mark(np.floor(exact.values) != exact.values, INVALID)
        # 0 for cells that are not whole numbers, as for texts.
        cells = Cells(np.where(exact.status == OK, exact.values, 0).astype(np.int64), exact.status)
    elif pa.types.is_int32(kind):
        cells = Cells(_as_numpy(column), _null_status(column))
    else:
        values, valid = _cast(column, pa.int64())
        cells = Cells(values, _null_status(column)).mark(~valid, INVALID)
    return missing.mark(cells)


def positions(column: pa.Array, count: int, missing: Missing = BLANK, decimal: str = ".") -> Cells:
    """Return whole numbers from 0 to ``count`` - 1; 1.0 is 1, as pandas may write it.

    A text stands for the double nearest to it, so that 1 and 1.0 are parsed at the same speed.
    """
    kind = value_type(column.type)
    if not (is_text(kind) or pa.types.is_decimal(kind) or pa.types.is_float64(kind)):
        return whole_numbers(column, missing, decimal).restrict(0, count - 1)
    doubles = numbers(column, missing, decimal).restrict(0, count - 1)
    whole = doubles.values.astype(np.int32)
    return Cells(whole, doubles.status).mark(whole != doubles.values, INVALID)


def numbers(column: pa.Array, missing: Missing = BLANK, decimal: str = ".") -> Cells:
    """Return finite doubles, each nearest to the written number; 32-bit floats stay as they are."""
    column = decode_column(column)
    kind = column.type
    if is_text(kind):
        cells = _parse_texts(column, pa.float64(), missing, decimal)
    elif pa.types.is_decimal(kind):  # Arrow's cast to doubles would depend on the column's scale
        cells = _parse_texts(column.cast(pa.string()), pa.float64(), BLANK)
    else:
        values = _as_numpy(column)
        if values.dtype != np.float32:
            values = values.astype(np.float64, copy=False)
        cells = Cells(values, _null_status(column))
    finite = np.isfinite(cells.values)
    if not finite.all():
        cells = cells.mark(np.isnan(cells.values), MISSING).mark(~finite, INVALID)
        cells = Cells(np.where(finite, cells.values, 0), cells.status)
    return missing.mark(cells)


def _exact_floats(column: pa.Array) -> Cells:
    """Return floats of the range in which every whole number is exact; others are invalid.

    From 2^53 on (2^24 for 32 bits) floats skip whole numbers, so that two ids could become one.
    """
    values = _as_numpy(column).astype(np.float64)
    bits = {16: 11, 32: 24, 64: 53}[column.type.bit_width]
    cells = Cells(values, _null_status(column)).mark(np.isnan(values), MISSING)
    cells = cells.mark(np.abs(values) >= 2.0**bits, INVALID)
    return Cells(np.where(cells.status == OK, values, 0.0), cells.status)


# Ids


def ids(column: pa.Array, id_type: str) -> Cells:
    """Return the sort key of each id, as an array of row x number."""
    column = decode_column(column)
    if is_text(column.type):  # a trajectory's rows often follow each other
        runs = pc.run_end_encode(column)
        if 2 * len(runs.values) < len(column):
            keys, counts = ids(runs.values, id_type), np.diff(_as_numpy(runs.run_ends), prepend=0)
            return Cells(np.repeat(keys.values, counts, axis=0), np.repeat(keys.status, counts))
    if id_type == "integer":
        numbers = whole_numbers(column)
        return Cells(numbers.values.astype(np.int64, copy=False)[:, None], numbers.status)
    is_plain = pa.types.is_integer(column.type)
    texts = column if is_plain else canonical_texts(column)[0]
    with suppress(pa.ArrowInvalid):
        integers = texts.cast(pa.int64())
        values = _as_numpy(integers)
        is_short = values.min(initial=0) > -(10**18) and values.max(initial=0) < 10**18
        is_plain = is_plain or integers.cast(pa.string()).equals(texts)
        if is_short and is_plain and texts.null_count == 0:
            return Cells(values[:, None], _null_status(texts))
    return _sort_keys(*canonical_texts(column))


def _sort_keys(texts: pa.Array, status: Status) -> Cells:
    """Return the keys of canonical texts; a text that is too long or not UTF-8 is invalid."""
    sizes = _as_numpy(pc.binary_length(texts))
    blank = _mask(pc.equal(pc.binary_length(pc.ascii_trim_whitespace(texts)), 0).fill_null(False))
    marks = Cells(sizes, status).mark(blank, MISSING).mark(sizes > LONGEST_ID, INVALID)
    status = marks.mark(_not_utf8(texts), INVALID).status
    texts = pc.if_else(pa.array(status == OK), texts, "0")
    plain = pc.match_substring_regex(texts, _PLAIN_WHOLE)
    first = np.where(_mask(plain), _as_numpy(pc.if_else(plain, texts, "0").cast(pa.int64())), TEXT)
    texts = pc.if_else(plain, "", texts)
    sizes = _as_numpy(pc.binary_length(texts))
    longest = int(sizes.max(initial=0))
    keys = np.zeros((len(texts), 1 - -longest // 7), np.int64)
    keys[:, 0] = first
    begins = np.cumsum(sizes, dtype=np.int64) - sizes
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    for at in range(longest):
        # UTF-8 never has the byte 255, so byte + 1 fits, and 0 is free to mean the end.
        byte = data[np.minimum(begins + at, len(data) - 1)].astype(np.int64) + 1
        keys[:, 1 + at // 7] |= np.where(at < sizes, byte, 0) << (48 - 8 * (at % 7))
    return Cells(keys, status)


def _not_utf8(texts: pa.Array) -> NDArray[np.bool_]:
    """Return which texts are not valid UTF-8."""
    try:
        texts.validate(full=True)
        return np.zeros(len(texts), np.bool_)
    except pa.ArrowInvalid:
        cells = [cell or b"" for cell in texts.cast(pa.binary()).to_pylist()]
        return np.array([cell.decode("utf-8", "ignore").encode() != cell for cell in cells])


def pad(keys: Integers, size: int) -> Integers:
    """Return the same keys, extended by zeros to this many numbers each."""
    zeros = size - keys.shape[-1]
    return np.pad(keys, [(0, 0)] * (keys.ndim - 1) + [(0, zeros)]) if zeros else keys


def episode_keys(ids: Cells) -> Cells:
    """Return positions of episodes as keys that no id of a row has.

    A 1 is appended; the key of a number in a row ends after the number, or goes on with 0.
    """
    return Cells(np.column_stack([ids.values, np.ones(len(ids.values), np.int64)]), ids.status)


def id_of(key: Integers, id_type: str) -> int | str:
    """Return the id with this key, for a message."""
    if id_type == "integer":
        return int(key[0])
    if key[0] != TEXT:
        return str(key[0])
    packed = b"".join(int(number).to_bytes(7, "big") for number in key[1:])
    return bytes(byte - 1 for byte in packed if byte).decode()


# Canonical texts


def canonical_texts(column: pa.Array) -> tuple[pa.Array, Status]:
    """Return the canonical text of each cell, and the status of each."""
    column = decode_column(column)
    kind, status = column.type, _null_status(column)
    if is_text(kind):
        return column, status
    if pa.types.is_integer(kind):
        return column.cast(pa.string()), status
    if pa.types.is_decimal(kind):
        try:
            return column.cast(pa.int64()).cast(pa.string()), status
        except pa.ArrowInvalid:
            return _format_values(column.to_pylist(), _format_decimal, status)
    if pa.types.is_floating(kind):
        exact = _exact_floats(column)
        if (np.floor(exact.values) == exact.values).all():
            whole = pa.array(exact.values.astype(np.int64), mask=exact.status != OK)
            return whole.cast(pa.string()), exact.status
        floats = exact.values.astype(kind.to_pandas_dtype())  # of 32 bits: 0.1, not 0.10000000149
        decimals = [Decimal(str(value)) for value in floats]
        return _format_values(decimals, _format_decimal, exact.status)
    times = _timestamps(column)
    return _format_values(times.values.tolist(), _format_iso, times.status)


def _format_values(
    values: Sequence[Any], format_value: Callable[[Any], str | None], status: Status
) -> tuple[pa.Array, Status]:
    """Return the text of each value; a value without a text is invalid."""
    texts = [format_value(value) if status[at] == OK else None for at, value in enumerate(values)]
    absent = np.array([text is None for text in texts], np.bool_) & (status == OK)
    return pa.array(texts, pa.string()), np.where(absent, np.uint8(INVALID), status)


def _format_decimal(value: Decimal) -> str:
    """Return a decimal without trailing zeros, whatever its scale."""
    digits = format(value, "f")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits in {"-0", ""} else digits


def _format_iso(microseconds: int) -> str | None:
    """Return a timestamp in UTC in ISO format; None for years beyond Python's range."""
    try:
        moment = (_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None)
    except OverflowError:
        return None
    if microseconds % _DAY == 0:
        return moment.date().isoformat()
    return (moment.isoformat().rstrip("0") if moment.microsecond else moment.isoformat()) + "Z"


# Python objects


def from_objects(values: Sequence[Any], decimal: str = ".") -> pa.Array:
    """Return objects as an Arrow column: of numbers if all are int or all float, else of texts.

    In every role, a number and its canonical text give the same result.

    Args:
        values: the objects of a column.
        decimal: the decimal mark with which texts are parsed later.
    """
    kinds = set(map(type, values))
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return pa.array(values, pa.int64())
    if kinds == {float} and decimal == ".":
        floats = np.array(values, np.float64) + 0.0  # 0 for -0, as its canonical text
        if not (np.abs(floats[np.isfinite(floats)]) >= 2.0**53).any():  # larger ones are not exact
            return pa.array(floats, from_pandas=True)
    cells = [_canonical(value, decimal) for value in values]
    return pa.array(cells, pa.binary()).view(pa.string())  # without validation of UTF-8


def _canonical(value: Any, decimal: str) -> bytes | None:
    """Return the canonical text of an object; None if it is a missing value."""
    try:
        return _canonical_text(value, decimal)
    except Exception:  # an object of any class: its methods may raise anything
        return NO_TEXT


def _canonical_text(value: Any, decimal: str) -> bytes | None:
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        value = None if value is np.ma.masked else value.item()
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if isinstance(value, str):
        return str(value).encode("utf-8", "surrogatepass")
    if isinstance(value, bool | int):
        return str(int(value)).encode()
    if isinstance(value, float | Decimal):
        text = _format_float(value)
        return text if text is None else text.replace(b".", decimal.encode())
    if isinstance(value, datetime):
        # Times of pandas may be finer than a microsecond.
        iso = None if getattr(value, "nanosecond", 0) else _format_iso(_since_1970(value))
        return NO_TEXT if iso is None else iso.encode()
    if isinstance(value, date):
        return date(value.year, value.month, value.day).isoformat().encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return f"x'{bytes(value).hex()}'".encode()  # as in SQL, so that it is not a number
    return str(value).encode() if isinstance(value, UUID) else NO_TEXT


def _format_float(value: float | Decimal) -> bytes | None:
    """Return the canonical text of a float or a decimal; None for NaN."""
    number = Decimal(repr(value)) if isinstance(value, float) else value
    if number.is_nan():
        return None
    if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
        return NO_TEXT
    digits = _format_decimal(number)
    if isinstance(value, float) and abs(value) >= 2.0**53:
        # As in a column of floats, it may be a reward, but neither an id nor a whole number: the
        # zeros make the text too long for those.
        digits += "." + "0" * _LONGEST_NUMBER
    return digits.encode()


# Steps


def steps(
    column: pa.Array,
    step_type: str,
    step_format: str | None = None,
    missing: Missing = BLANK,
    decimal: str = ".",
) -> Cells:
    """Return steps as whole numbers that sort as the steps do.

    Args:
        column: the cells.
        step_type: "integer", "number", "date" or "datetime", as the study declares.
        step_format: the format of dates and times in texts; None for ISO format.
        missing: the markers of missing cells.
        decimal: the decimal mark of texts.

    Returns:
        Whole numbers unchanged; doubles as order-preserving 64-bit integers; dates as days, and
        times as microseconds, since 1970.
    """
    if step_type == "integer":
        return whole_numbers(column, missing, decimal)
    if step_type == "number":
        doubles = numbers(column, missing, decimal)
        bits = (doubles.values.astype(np.float64) + 0.0).view(np.int64)  # + 0.0 makes 0 of -0
        return Cells(bits ^ ((bits >> 63) & _INT64[1]), doubles.status)
    column = decode_column(column)
    if is_time(column.type):
        times = _timestamps(column)
    else:
        times = _parse_timestamps(*canonical_texts(column), step_format, missing)
    if step_type == "date":
        times = times.mark(times.values % _DAY != 0, INVALID)
        return Cells(times.values // _DAY, times.status)
    return times


def step_text(step: int, step_type: str) -> str:
    """Return a step as text for a message."""
    if step_type == "number":
        bits = np.int64(step) ^ ((np.int64(step) >> 63) & np.int64(_INT64[1]))
        return repr(float(bits.view(np.float64)))
    if step_type in {"date", "datetime"}:
        return str(_format_iso(step * _DAY if step_type == "date" else step))
    return str(step)


def _timestamps(column: pa.Array) -> Cells:
    """Return dates and times of any unit and zone as microseconds; finer times are invalid."""
    kind = pa.timestamp("us", getattr(column.type, "tz", None))
    values, valid = _cast(column, kind)
    return Cells(values, _null_status(column)).mark(~valid, INVALID)


def _parse_timestamps(
    texts: pa.Array, status: Status, step_format: str | None, missing: Missing
) -> Cells:
    """Return texts of dates and times as microseconds; each distinct text is parsed once."""
    encoded = texts.dictionary_encode()
    distinct = pc.ascii_trim_whitespace(encoded.dictionary)
    times = [parse_timestamp(_text(cell), step_format) for cell in distinct]
    codes = _as_numpy(encoded.indices)  # nulls have the index of another cell
    values = np.array([time or 0 for time in times] or [0], np.int64)[codes]
    absent = np.append(_mask(pc.is_in(distinct, missing.texts)), False)[codes]
    invalid = np.array([time is None for time in times] or [True])[codes]
    values = np.where(status == OK, values, 0)
    return Cells(values, status).mark(absent, MISSING).mark(invalid, INVALID)


def parse_timestamp(text: str, step_format: str | None) -> int | None:
    """Return a text's date or time (in UTC unless it has a zone) as microseconds since 1970."""
    with suppress(ValueError, OverflowError):
        if step_format is not None:
            with suppress(ValueError):
                return _since_1970(datetime.strptime(text, step_format))
        # A cell of a date type became a text in ISO format, whatever the study's format.
        is_iso = step_format is None or len(text) == 10 or text.endswith("Z")
        if is_iso and not _SUBMICROSECOND.search(text):
            return _since_1970(datetime.fromisoformat(text))
    return None


def _since_1970(moment: datetime) -> int:
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (aware - _EPOCH) // timedelta(microseconds=1)


# Labels


def label_codes(column: pa.Array, labels: pa.Array, missing: Missing = BLANK) -> Cells:
    """Return the position of each cell's canonical text among ``labels``.

    Surrounding blanks are ignored. A label takes precedence over an equal marker of missing cells.
    """
    texts, status = canonical_texts(column)
    texts = pc.ascii_trim_whitespace(texts)
    codes = pc.index_in(texts, value_set=labels)
    cells = Cells(_as_numpy(codes), status).mark(_mask(pc.is_in(texts, missing.texts)), MISSING)
    cells = cells.mark(_mask(codes.is_null()), INVALID)
    return Cells(cells.values, np.where(_mask(codes.is_valid()), np.uint8(OK), cells.status))


_YES = ("1", "true", "True", "TRUE", "yes", "Yes", "YES")
_NO = ("0", "false", "False", "FALSE", "no", "No", "NO")
_TRUTHS = pa.array([*_YES, *_NO])


def truths(column: pa.Array, missing: Missing = BLANK) -> Cells:
    """Return whether each cell is true (true, yes, 1) or false (false, no, 0)."""
    codes = label_codes(column, _TRUTHS, missing)
    return Cells((codes.values < len(_YES)) & (codes.status == OK), codes.status)
