"""Convert cells to numbers, by what the study declares, each cell by itself.

Every function takes a column of any physical type and returns for each cell a value and a status
(``OK``, ``MISSING`` or ``INVALID``). What a cell becomes depends on that cell and on the
declaration, never on the column: not on its scale, unit or time zone, not on other cells.

**Words of an id.** Ids are compared, sorted and hashed very often, so an id becomes a few int64
numbers, its words. Two ids have the same words exactly if they are equal, and words compare in the
order of the ids. A whole number of up to 18 digits, written in the usual way, is one word: itself.
Any other text begins with the word ``TEXT``, which is larger than every number, and goes on with
its bytes, seven to a word. So 9 comes before 10, and both come before every other text. In a batch
all ids have as many words as the longest one: ``widened`` adds zeros at the end, which changes
neither equality nor order.

**Canonical text.** With ``id_type = "text"`` an id is its canonical text, so that the same id is
equal in CSV, Parquet and a database: a text as it is, a number without trailing zeros, true and
false as 1 and 0, a time in UTC as ISO writes it (a date alone if it is midnight).
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers
from privalue.readers import _text_kernels as kernels
from privalue.readers._arrow import flag_array, flags_in, numbers_in, text_array
from privalue.readers._text_kernels import CHECK, INVALID, LONG, MISSING, OK, TEXT

LONGEST_ID = 255  # bytes

Status = NDArray[np.uint8]

_INT64 = (-(2**63), 2**63 - 1)
_MOST_IN_A_WORD = 10**18
_LONGEST_NUMBER = 400  # characters
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FEW_EDGES = 64
_WORDS = {"true": 1, "false": 0}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FRACTION = re.compile(r"(.*:\d\d)[.,](\d{1,9})(.*)", re.DOTALL)
BLANKS = " \t\n\v\f\r"  # the white space that is no part of a cell: that of ASCII


class Missing(NamedTuple):
    """What means that a cell is missing: the listed texts, and numbers equal to a listed one."""

    texts: pa.Array | None = None  # without the blank, which is always missing
    numbers: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Missing":
        """Return what these texts mean, in cells of any type."""
        listed = sorted({text.strip(BLANKS) for text in texts} - {""})
        if not listed:
            return cls()
        found = numbers(text_array(listed))
        status = np.zeros(len(listed)) if found.status is None else found.status
        return cls(text_array(listed), found.values[status == OK])

    def marked(self, found: "Cells") -> "Cells":
        """Return the same cells, with the status MISSING for numbers that mean missing."""
        if self.numbers is None or len(self.numbers) == 0:
            return found
        values, status = found.values, found.status
        status = np.zeros(len(values), dtype=np.uint8) if status is None else status
        status[np.isin(values, self.numbers) & (status == OK)] = MISSING
        return Cells(values, status)


NOTHING = Missing()


class Cells(NamedTuple):
    """The values of a column; ``status`` is None if every cell has a value."""

    values: NDArray[Any]
    status: Status | None = None

    def failed(self) -> NDArray[np.bool_] | None:
        """Return which cells have no value; None if all have one."""
        return None if self.status is None or not self.status.any() else self.status != OK


# Types


def plain(column: pa.Array) -> pa.Array:
    """Return the same cells without dictionary or runs, and texts as 32-bit strings."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    elif pa.types.is_run_end_encoded(column.type):
        column = _compute().run_end_decode(column)
    if is_text(column.type) and not pa.types.is_string(column.type):
        return column.cast(pa.string())
    return column


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the cells themselves, also for a dictionary or for runs."""
    encoded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return kind.value_type if encoded else kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells of this type are texts."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    """Return whether cells of this type are numbers; true and false are 1 and 0."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def is_time(kind: pa.DataType) -> bool:
    """Return whether cells of this type are dates or moments.

    A time of day and a span of time are neither.
    """
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def by_kind(function: Callable[..., Cells], column: pa.Array, *given: Any) -> Cells:
    """Apply a function to a union, to the cells of each type by themselves.

    Args:
        function: takes a column and ``given``, and returns its cells.
        column: a dense union, as ``_python_cells`` builds for columns of mixed types.
        given: what else the function takes.
    """
    # If the column is a slice, Arrow's type_codes and offsets are still those of the whole array.
    here = slice(column.offset, column.offset + len(column))
    _, codes_of, offsets_of = column.buffers()[:3]
    codes, offsets = (
        np.frombuffer(codes_of, np.int8)[here],
        np.frombuffer(offsets_of, np.int32)[here],
    )
    values: NDArray[Any] | None = None
    status = np.zeros(len(column), dtype=np.uint8)
    for code in range(column.type.num_fields):
        at = np.flatnonzero(codes == code)
        if len(at) == 0:
            continue
        found = function(column.field(code).take(pa.array(offsets[at])), *given)
        if values is None:
            values = np.zeros((len(column), *found.values.shape[1:]), dtype=found.values.dtype)
        if values.ndim > 1:  # ids need more words for some kinds than for others
            words = max(values.shape[1], found.values.shape[1])
            values, found = (
                widened(values, words),
                Cells(widened(found.values, words), found.status),
            )
        # Numbers of 32 bits may come first, and those of 64 bits after them.
        values = values.astype(np.result_type(values, found.values), copy=False)
        values[at] = found.values
        status[at] = 0 if found.status is None else found.status
    return Cells(np.zeros(0) if values is None else values, status)


# Ids


def ids(column: pa.Array, id_type: str) -> Cells:
    """Return the words of each id, as row x word."""
    if pa.types.is_union(column.type):
        return by_kind(ids, column, id_type)
    column = plain(column)
    if id_type == "integer":
        numbers = whole_numbers(column)
        return Cells(numbers.values[:, None], numbers.status)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        numbers = whole_numbers(column)
        if numbers.failed() is None and _within(numbers.values, _MOST_IN_A_WORD):
            return Cells(numbers.values[:, None])
    texts, status = canonical_texts(column)
    return _words(texts, status)


def _within(numbers: Integers, limit: int) -> bool:
    """Return whether all numbers are smaller than ``limit`` in size."""
    if len(numbers) == 0 or numbers.view(np.uint64).max() < limit:  # negative ones are very large
        return True
    return bool(numbers.min() > -limit and numbers.max() < limit)


def id_of(words: Integers, id_type: str) -> int | str:
    """Return the id that became these words, for a message."""
    if id_type == "integer":
        return int(words[0])
    if words[0] != TEXT:
        return str(words[0])
    packed = b"".join(int(word).to_bytes(7, "big") for word in words[1:])
    return bytes(byte - 1 for byte in packed if byte).decode()


def widened(ids: Integers, words: int) -> Integers:
    """Return the same ids with so many words: zeros are added at the end."""
    absent = words - ids.shape[-1]
    return np.pad(ids, [(0, 0)] * (ids.ndim - 1) + [(0, absent)]) if absent else ids


def apart(ids: Cells) -> Cells:
    """Return numbers as ids that no row has: an id that is a number has one word, or zeros after.

    A text has others, after a first word that no number has.
    """
    return Cells(np.column_stack([ids.values[:, 0], np.ones_like(ids.values[:, 0])]), ids.status)


def _words(texts: pa.Array, status: Status) -> Cells:
    """Return the words of canonical texts; mark a text that is too long or not UTF-8 as invalid."""
    offsets, data = _buffers(texts)
    first = np.empty(len(texts), dtype=np.int64)
    longest = kernels.first_words(offsets, data, LONGEST_ID, status, first)
    words = np.zeros((len(texts), 1 - -longest // 7), dtype=np.int64)
    words[:, 0] = first
    if longest:
        kernels.text_words(offsets, data, words)
    return Cells(words, status)


def canonical_texts(column: pa.Array) -> tuple[pa.Array, Status]:
    """Return the canonical text of each cell, and which cells have none."""
    column = plain(column)
    kind, status = column.type, _absent(column)
    if pa.types.is_null(kind):
        return column.cast(pa.string()), status
    if is_text(kind):
        return column, status
    if pa.types.is_integer(kind):
        return column.cast(pa.string()), status
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.string()), status
    if pa.types.is_decimal(kind):
        try:
            return column.cast(pa.int64()).cast(pa.string()), status
        except pa.ArrowInvalid:
            return _by_value(column.to_pylist(), _decimal_text, status)
    if pa.types.is_floating(kind):
        exact = _exact_floats(column, status)
        shown = exact.values.astype({2: np.float16, 4: np.float32, 8: np.float64}[_bytes(kind)])
        whole = np.floor(exact.values) == exact.values
        if whole.all():  # a cell without a number has 0 here, which the mask removes
            digits = pa.array(exact.values.astype(np.int64), mask=status != OK)
            return digits.cast(pa.string()), status
        return _by_value([Decimal(str(number)) for number in shown], _decimal_text, status)
    seconds, ticks = _moments(column, status)
    stamps = zip(seconds.tolist(), ticks.tolist(), strict=True)
    return _by_value(list(stamps), lambda stamp: _iso(*stamp), status)


def _decimal_text(value: Decimal) -> str:
    """Return a decimal without trailing zeros, whatever its scale."""
    digits = format(value, "f")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits in {"-0", ""} else digits


def _iso(seconds: int, nanoseconds: int) -> str | None:
    """Return a moment as ISO writes it, in UTC; None for a year that Python does not have."""
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    if nanoseconds == 0 and seconds % _DAY == 0:
        return moment.date().isoformat()
    fraction = f".{nanoseconds:09d}".rstrip("0").rstrip(".")
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}{fraction}Z"


def _by_value(
    values: Sequence[Any], text: Callable[[Any], str | None], status: Status
) -> tuple[pa.Array, Status]:
    """Return the text of each value by itself; a value without a text is invalid."""
    texts: list[str | None] = [
        text(value) if status[at] == OK else None for at, value in enumerate(values)
    ]
    for at, found in enumerate(texts):
        if found is None and status[at] == OK:
            status[at] = INVALID
    return pa.array(texts, pa.string()), status


# Numbers


def whole_numbers(
    column: pa.Array, missing: Missing = NOTHING, decimal: str = ".", *, narrow: bool = False
) -> Cells:
    """Return whole numbers within 64 bits, in whatever way they are written.

    With ``narrow`` a column of int32 may stay what it is: a copy takes as long as a sum.
    """
    if pa.types.is_union(column.type):
        return by_kind(whole_numbers, column, missing, decimal)
    found = missing.marked(_whole_numbers(column, missing, decimal))
    return found if narrow else Cells(found.values.astype(np.int64, copy=False), found.status)


def _whole_numbers(column: pa.Array, missing: Missing, decimal: str) -> Cells:
    """Do the same for a column of one type, before numbers that mean missing are marked."""
    column = plain(column)
    kind = column.type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind) and column.null_count == 0:
        found = numbers_in(column)
        return Cells(found if found.dtype == np.int32 else found.astype(np.int64, copy=False))
    status = _absent(column)
    numbers = np.zeros(len(column), dtype=np.int64)
    if pa.types.is_null(kind):
        return Cells(numbers, status)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type):
        if pa.types.is_uint64(kind):
            found = numbers_in(column.fill_null(0))
            status[found > np.uint64(_INT64[1])] = INVALID
            return Cells(np.where(status == OK, found, 0).astype(np.int64), status)
        return Cells(numbers_in(column.fill_null(0)).astype(np.int64), status)
    if pa.types.is_floating(kind):
        exact = _exact_floats(column, status)
        status[(np.floor(exact.values) != exact.values) & (status == OK)] = INVALID
        return Cells(np.where(status == OK, exact.values, 0.0).astype(np.int64), status)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    elif not is_text(kind):
        status[status == OK] = INVALID
        return Cells(numbers, status)
    _mark_missing(column, missing, status)
    offsets, data = _buffers(column)
    kernels.whole_numbers(offsets, data, status, numbers)
    decimal = "." if pa.types.is_decimal(kind) else decimal
    for at in np.flatnonzero(status == CHECK).tolist():
        number = _whole_number(_text(column, at), decimal)
        status[at] = INVALID if number is None else OK
        numbers[at] = number or 0
    return Cells(numbers, status)


def numbers(
    column: pa.Array, missing: Missing = NOTHING, decimal: str = ".", *, narrow: bool = False
) -> Cells:
    """Return finite doubles, each the one nearest to what is written.

    With ``narrow`` a column of floats of 32 bits may stay what it is: each is a double as well.
    """
    if pa.types.is_union(column.type):
        return by_kind(numbers, column, missing, decimal)
    found = missing.marked(_numbers(column, missing, decimal))
    return found if narrow else Cells(found.values.astype(np.float64, copy=False), found.status)


def _numbers(column: pa.Array, missing: Missing, decimal: str) -> Cells:
    """Do the same for a column of one type, before numbers that mean missing are marked."""
    column = plain(column)
    kind = column.type
    if pa.types.is_floating(kind) and column.null_count == 0:
        found = numbers_in(column)
        found = found if found.dtype == np.float32 else found.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(found.sum()):  # then every cell is finite, and no other test is needed
                return Cells(found)
    status = _absent(column)
    found = np.zeros(len(column))
    if pa.types.is_null(kind):
        return Cells(found, status)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type):
        filled = numbers_in(column.fill_null(0))
        return Cells(filled.astype(np.float64), status)
    if pa.types.is_floating(kind):
        return _finite(numbers_in(column.fill_null(np.nan)).astype(np.float64), status)
    if pa.types.is_decimal(kind):  # a decimal as a double would depend on the column's scale
        return _finite(_doubles(column.cast(pa.string())), status)
    if not is_text(kind):
        status[status == OK] = INVALID
        return Cells(found, status)
    _mark_missing(column, missing, status)
    offsets, data = _buffers(column)
    kernels.decimals(offsets, data, ord(decimal), status, found)
    for at in np.flatnonzero(status == CHECK).tolist():
        word = _WORDS.get(_text(column, at).lower())
        status[at], found[at] = (INVALID, 0.0) if word is None else (OK, float(word))
    long = status == LONG
    if long.any():
        texts = _compute().ascii_trim_whitespace(column.filter(flag_array(long)))
        if decimal != ".":
            texts = _compute().replace_substring(texts, decimal, ".")
        found[long], status[long] = _doubles(texts), OK
    return _finite(found, status)


def _doubles(texts: pa.Array) -> NDArray[np.float64]:
    """Return the doubles nearest to well-formed numbers; one that is too large is infinite."""
    return numbers_in(texts.cast(pa.float64()).fill_null(np.nan)).copy()


def _finite(found: NDArray[np.float64], status: Status) -> Cells:
    """Mark NaN as missing and infinities as invalid, with 0 in their place."""
    status[np.isnan(found) & (status == OK)] = MISSING
    status[np.isinf(found)] = INVALID
    return Cells(np.where(status == OK, found, 0.0), status)


def _exact_floats(column: pa.Array, status: Status) -> Cells:
    """Return floats that are small enough to be exact whole numbers, with 0 for the others.

    From 2^53 on (2^24 for 32 bits) floats skip whole numbers, so that two ids could become one.
    """
    found = numbers_in(column.fill_null(np.nan)).astype(np.float64)
    bits = {2: 11, 4: 24, 8: 53}[_bytes(column.type)]
    status[np.isnan(found) & (status == OK)] = MISSING
    with np.errstate(invalid="ignore"):
        status[np.abs(found) >= 2.0**bits] = INVALID
    return Cells(np.where(status == OK, found, 0.0), status)


def _whole_number(text: str, decimal: str) -> int | None:
    """Return the whole number that a text means if it is not simply digits: 3.0, 1e+05, true."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if decimal != ".":
        text = "" if "." in text else text.replace(decimal, ".")
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except ArithmeticError:  # an exponent of very many digits
        return None
    if number != 0 and not 0 <= number.adjusted() < 20:
        return None
    if number == 0:
        return 0
    whole = int(number)
    return whole if whole == number and _INT64[0] <= whole <= _INT64[1] else None


# Steps


def steps(
    column: pa.Array,
    step_type: str,
    step_format: str | None = None,
    missing: Missing = NOTHING,
    decimal: str = ".",
) -> Cells:
    """Return steps as whole numbers, which compare in the order of the steps.

    Args:
        column: the cells.
        step_type: "integer", "number", "date" or "datetime", as the study declares.
        step_format: how dates are written in text, if not as ISO does.
        missing: what means that a cell is missing.
        decimal: the decimal mark of texts.

    Returns:
        Whole numbers as they are, of 32 bits where the column's are; doubles by their bits,
        reordered; days or nanoseconds since 1970.
    """
    if pa.types.is_union(column.type):
        return by_kind(steps, column, step_type, step_format, missing, decimal)
    if step_type == "integer":
        return whole_numbers(column, missing, decimal, narrow=True)
    if step_type == "number":
        doubles = numbers(column, missing, decimal)
        bits = (doubles.values + 0.0).view(np.int64)  # 0 and not -0
        return Cells(bits ^ ((bits >> 63) & _INT64[1]), doubles.status)
    column = plain(column)
    status = _absent(column)
    if pa.types.is_null(column.type):
        seconds = ticks = np.zeros(len(column), dtype=np.int64)
    elif is_time(column.type):
        seconds, ticks = _moments(column, status)
    elif not is_text(column.type):
        seconds = ticks = np.zeros(len(column), dtype=np.int64)
        status[status == OK] = INVALID
    else:
        _mark_missing(column, missing, status)
        seconds, ticks = _written_moments(column, step_format, status)
    if step_type == "date":
        status[((seconds % _DAY != 0) | (ticks != 0)) & (status == OK)] = INVALID
        return Cells(np.where(status == OK, seconds // _DAY, 0), status)
    inside = np.abs(seconds) < _INT64[1] // 10**9
    status[~inside & (status == OK)] = INVALID
    return Cells(np.where(status == OK, np.where(inside, seconds, 0) * 10**9 + ticks, 0), status)


def step_text(step: int, step_type: str) -> str:
    """Return a step as a message shows it."""
    if step_type == "number":
        bits = np.int64(step) ^ ((np.int64(step) >> 63) & np.int64(_INT64[1]))
        return repr(float(bits.view(np.float64)))
    if step_type == "date":
        return str(_iso(step * _DAY, 0))
    if step_type == "datetime":
        return str(_iso(*divmod(step, 10**9)))
    return str(step)


def _moments(column: pa.Array, status: Status) -> tuple[Integers, Integers]:
    """Return dates and times, of any unit and zone, as seconds since 1970 UTC and nanoseconds."""
    kind = column.type
    if pa.types.is_date32(kind):
        days = numbers_in(column.cast(pa.int32()).fill_null(0))
        return days.astype(np.int64) * _DAY, np.zeros(len(column), dtype=np.int64)
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    ticks = numbers_in(column.cast(pa.int64()).fill_null(0))
    seconds, rest = np.divmod(np.where(status == OK, ticks, 0), _PER_SECOND[unit])
    return seconds, rest * (10**9 // _PER_SECOND[unit])


def _written_moments(
    column: pa.Array, step_format: str | None, status: Status
) -> tuple[Integers, Integers]:
    """Return the same for texts; each different text is parsed once."""
    coded = column.dictionary_encode()
    found: list[tuple[int, int] | None] = []
    for cell in coded.dictionary:
        try:
            text = str(cell.as_py()).strip(BLANKS)
        except UnicodeDecodeError:
            found.append(None)
            continue
        found.append((0, -1) if not text else moment_of(text, step_format))
    table = np.array([(0, -2) if one is None else one for one in [*found, None]], dtype=np.int64)
    codes = numbers_in(coded.indices.fill_null(len(found)))
    seconds, ticks = table[codes].T.copy()
    status[(ticks == -1) & (status == OK)] = MISSING
    status[(ticks == -2) & (status == OK)] = INVALID
    return seconds, np.maximum(ticks, 0)


def moment_of(text: str, step_format: str | None) -> tuple[int, int] | None:
    """Return a written date or time as seconds since 1970 UTC and nanoseconds, or None."""
    if step_format is not None:
        try:
            written = datetime.strptime(text, step_format)
            return _since_1970(written, written.microsecond * 1000)
        except (ValueError, OverflowError):
            if not (len(text) == 10 or text.endswith("Z")):
                return None
            # A cell that was a date, not a text, was written as ISO does: it is read below.
    split = _FRACTION.fullmatch(text)
    try:
        if split is None:
            moment = datetime.fromisoformat(text)
            return _since_1970(moment, moment.microsecond * 1000)
        whole = datetime.fromisoformat(split[1] + split[3])
        return _since_1970(whole, int(split[2].ljust(9, "0")))
    except (ValueError, OverflowError):
        return None


def _since_1970(moment: datetime, nanoseconds: int) -> tuple[int, int]:
    """Return the seconds since 1970; a moment without a zone is taken to be in UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    since = aware - _EPOCH
    return since.days * _DAY + since.seconds, nanoseconds


# States


def positions(column: pa.Array, labels: pa.Array, missing: Missing = NOTHING) -> Cells:
    """Return the position of each cell's canonical text among ``labels``.

    Blanks around a text do not count.
    """
    if pa.types.is_union(column.type):
        return by_kind(positions, column, labels, missing)
    if pa.types.is_dictionary(column.type) and len(column.dictionary) < len(column):
        return _coded_positions(column, labels, missing)
    texts, status = canonical_texts(column)
    if is_text(plain(column).type):
        compute = _compute()
        texts = compute.ascii_trim_whitespace(texts)
        blank = compute.equal(compute.binary_length(texts), 0).fill_null(False)
        status[flags_in(blank)] = MISSING
    _mark_missing(texts, missing, status)
    at = _compute().index_in(texts, value_set=labels)
    known = flags_in(at.is_valid())
    status[~known & (status == OK)] = INVALID
    status[known & (status == MISSING)] = OK  # a label that the study lists is one
    return Cells(numbers_in(at.fill_null(0)), status)


def _coded_positions(column: pa.Array, labels: pa.Array, missing: Missing) -> Cells:
    """Do the same for codes of texts: each different text is looked up once."""
    known = positions(column.dictionary, labels, missing)
    absent = len(known.values)  # the code of a cell that is null
    codes = column.indices
    codes = numbers_in(codes.cast(pa.int64()).fill_null(absent) if codes.null_count else codes)
    values = np.append(known.values, 0)[codes]
    status = np.zeros(absent, dtype=np.uint8) if known.status is None else known.status
    return Cells(values, np.append(status, np.uint8(MISSING))[codes])


def bins(found: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the bin of each number: how many edges are not above it.

    With few edges it is faster to compare with all of them than to search.
    """
    if len(edges) > _FEW_EDGES:
        return np.searchsorted(edges, found, side="right").astype(np.int32)
    counted = np.zeros(len(found), dtype=np.int32)
    for edge in edges:
        counted += found >= edge
    return counted


# Marks

_YES, _NO = (
    dict.fromkeys(form for word in words for form in (word, word.capitalize(), word.upper()))
    for words in (("true", "yes", "1"), ("false", "no", "0"))
)
_FLAGS = text_array([*_YES, *_NO])


def flags(column: pa.Array, missing: Missing = NOTHING) -> Cells:
    """Return whether each cell says yes: true, yes or 1; false, no or 0 say no."""
    at, status = positions(column, _FLAGS, missing)
    return Cells((at < len(_YES)) & (status == OK), status)


# Buffers


def _absent(column: pa.Array) -> Status:
    """Return the status of a column's cells before they are read: nulls are missing."""
    status = np.zeros(len(column), dtype=np.uint8)
    if column.null_count:
        status[flags_in(column.is_null())] = MISSING
    return status


def _compute() -> Any:
    """Return Arrow's functions: an import defines hundreds of them, and numbers need none."""
    return import_module("pyarrow.compute")


def _mark_missing(texts: pa.Array, missing: Missing, status: Status) -> None:
    """Mark the texts that mean missing."""
    if missing.texts is not None and is_text(texts.type):
        compute = _compute()
        found = compute.is_in(compute.ascii_trim_whitespace(texts), value_set=missing.texts)
        status[flags_in(found)] = MISSING


def _buffers(texts: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return where each text begins and ends, and the bytes of all."""
    if len(texts) == 0:
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    _, ends, data = texts.buffers()
    offsets = np.frombuffer(ends, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return offsets, np.frombuffer(data or b"", dtype=np.uint8)


def _text(column: pa.Array, at: int) -> str:
    """Return the text of a cell, which may not be valid UTF-8."""
    return bytes(column[at].as_buffer()).decode("utf-8", errors="replace").strip(BLANKS)


def _bytes(kind: pa.DataType) -> int:
    """Return how many bytes a number of this type has."""
    return int(kind.bit_width) // 8
