"""Read blocks of CSV whose cells are all plainly written, in one pass over the bytes.

Plain means: no quotes, no white space around cells, nothing but ASCII beside labels; ids, steps and
counted states are whole numbers of up to 18 digits in the usual form, rewards are decimal numbers,
and labels are those of the study. Such a block becomes the columns of numbers that the same cells
would be in Parquet, and is read on as those are. A block with anything else in it is left to the
usual way, which reads every cell by itself and has the messages: what a cell becomes is the same on
both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers, kernel
from privalue.readers._arrow import number_array, numbers_in, text_array
from privalue.readers._rules import RowRules

# What the cells of a column are. An id in the usual form is the same as text and as a number.
_IGNORED, _ID, _WHOLE, _STATE, _DECIMAL, _LABEL = range(6)
_LF, _CR, _SPACE, _QUOTE, _MINUS, _PLUS, _EXPONENT, _CAPITAL_EXPONENT = b'\n\r "-+eE'
_POWERS = np.array([float(10**power) for power in range(16)])  # exact, as numbers below 2^53 are
_PRIME, _BASIS = 16777619, 2166136261  # of the hash FNV-1a; labels are compared besides


@dataclass(frozen=True, eq=False)
class PlainLines:
    """How the plain lines of files with one heading are read."""

    names: tuple[str, ...]  # of the columns that are read
    kinds: NDArray[np.int8]  # of every column of the heading
    slots: NDArray[np.int8]  # where the numbers of a column go
    marks: tuple[int, int]  # delimiter and decimal mark
    states: int  # how many there are, if they are counted
    labels: pa.Array
    label_bytes: NDArray[np.uint8]
    label_ends: Integers
    table: NDArray[np.int32]  # positions of labels, by the hash of their bytes

    @classmethod
    def of(cls, columns: Sequence[str], delimiter: str, rules: RowRules) -> "PlainLines | None":
        """Return how to read files with this heading; None if the study has other cells in mind."""
        kinds = {
            "person": _ID,
            "trajectory": _ID,
            "step": _WHOLE if rules.step_type == "integer" else None,
            "state": _STATE if rules.raw_labels is None else _LABEL,
            "reward": _DECIMAL,
        }
        listed = any(text.strip() for text in rules.missing)
        if listed or any(kinds.get(role) is None for role in rules.columns):
            return None
        by_name = {name: kinds[role] for role, name in rules.columns.items()}
        labels = list(rules.raw_labels or ())
        encoded = [label.encode() for label in labels]
        return cls(
            names=tuple(rules.names),
            kinds=np.array([by_name.get(name, _IGNORED) for name in columns], dtype=np.int8),
            slots=np.array(
                [rules.names.index(name) if name in by_name else 0 for name in columns], np.int8
            ),
            marks=(ord(delimiter), ord(rules.decimal)),
            states=rules.states,
            labels=text_array(labels),
            label_bytes=np.frombuffer(b"".join(encoded) or b"\0", np.uint8),
            label_ends=np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            table=_table(encoded),
        )

    def read(self, text: NDArray[np.uint8]) -> pa.RecordBatch | None:
        """Return the rows of whole lines, or None if one of them is not plain."""
        if len(text) == 0 or text[-1] != _LF:
            return None
        most = len(text) // (2 * len(self.kinds)) + 1  # a cell and what ends it: two bytes or more
        numbers = np.empty((len(self.names), most), dtype=np.int64)
        # Rewards of more digits than a division rounds as it should go to Arrow, as texts.
        at, ends = np.empty(most, dtype=np.int64), np.empty(most + 1, dtype=np.int32)
        room = np.empty(len(text), dtype=np.uint8)
        rows, longs = _plain_lines(
            text, *self.marks, self.states, self.kinds, self.slots, numbers, at, ends, room,
            self.label_bytes, self.label_ends, self.table,
        )  # fmt: skip
        if rows < 0:
            return None
        columns = self._columns(numbers[:, :rows], at[:longs], ends, room)
        # Not of a mapping: Arrow would ask, and import pandas to find out, what its values are.
        return columns and pa.RecordBatch.from_arrays(columns, names=self.names)

    def _columns(
        self, numbers: Integers, at: Integers, ends: NDArray[np.int32], texts: NDArray[np.uint8]
    ) -> list[pa.Array] | None:
        """Return the columns, with the long numbers in their places; None if one is too large."""
        both = zip(self.slots.tolist(), self.kinds.tolist(), strict=True)
        kinds = {slot: kind for slot, kind in both if kind != _IGNORED}
        found = []
        for slot in range(len(self.names)):
            column = numbers[slot]
            if kinds[slot] == _LABEL:
                codes = number_array(column.astype(np.int32))
                found.append(pa.DictionaryArray.from_arrays(codes, self.labels, safe=False))
                continue
            if kinds[slot] == _DECIMAL:
                column = column.view(np.float64)
                if len(at):
                    buffers = [None, pa.py_buffer(ends[: len(at) + 1]), pa.py_buffer(texts)]
                    written = pa.Array.from_buffers(pa.string(), len(at), buffers)
                    column[at] = numbers_in(written.cast(pa.float64()))
                    if not np.isfinite(column[at]).all():
                        return None
            found.append(number_array(column))
        return found


def _table(labels: Sequence[bytes]) -> NDArray[np.int32]:
    """Return positions of labels by the hash of their bytes, by open addressing."""
    table = np.full(1 << (4 * len(labels)).bit_length(), -1, dtype=np.int32)
    for position, label in enumerate(labels):
        slot = _BASIS
        for byte in label:
            slot = ((slot ^ byte) * _PRIME) & 0xFFFFFFFF
        while table[slot & (len(table) - 1)] >= 0:
            slot += 1
        table[slot & (len(table) - 1)] = position
    return table


@kernel(nogil=True)
def _plain_lines(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915  # pragma: no cover - compiled
    text, delimiter, mark, states, kinds, slots, numbers, long_rows, long_ends, room,
    label_bytes, label_ends, table,
):  # fmt: skip
    """Read the cells of all lines, and return how many rows and long numbers there are.

    The text ends with the end of a line, so that every scan for the end of a cell ends.

    Args:
        text: whole lines.
        delimiter: one byte.
        mark: the decimal mark, one byte.
        states: how many there are, if they are counted.
        kinds: what the cells of each column are.
        slots: where the numbers of each column go.
        numbers: gets them, slot x row; doubles by their bits.
        long_rows: gets the rows whose decimals are left to somebody else.
        long_ends: gets where the texts of these begin and end in ``room``.
        room: gets these texts.
        label_bytes: of all labels, one after the other.
        label_ends: where each begins, and the end of the last.
        table: positions of labels by their hash.

    Returns:
        Rows and long numbers; (-1, 0) if there is anything that is not plain.
    """
    rewards = numbers.view(np.float64)
    at, row, longs, used = 0, 0, 0, 0
    columns, size, last = len(kinds), len(text), len(table) - 1
    long_ends[0] = 0
    while at < size:
        if text[at] == _LF or (text[at] == _CR and text[at + 1] == _LF):  # a blank line is no row
            at += 1 + (text[at] == _CR)
            continue
        for column in range(columns):
            kind, begin = kinds[column], at
            if kind == _IGNORED:
                while text[at] != delimiter and text[at] > 13 and text[at] != _QUOTE:
                    if text[at] > 127:
                        return -1, 0
                    at += 1
            elif kind == _LABEL:
                mixed = np.uint32(_BASIS)
                while text[at] != delimiter and text[at] >= _SPACE and text[at] != _QUOTE:
                    mixed = np.uint32((mixed ^ np.uint32(text[at])) * np.uint32(_PRIME))
                    at += 1
                if at == begin or text[begin] == _SPACE or text[at - 1] == _SPACE:
                    return -1, 0
                slot = np.int64(mixed) & last
                while True:
                    position = table[slot]
                    if position < 0:
                        return -1, 0
                    start, length = label_ends[position], at - begin
                    same = label_ends[position + 1] - start == length
                    if same:
                        for i in range(length):
                            same &= label_bytes[start + i] == text[begin + i]
                    if same:
                        break
                    slot = (slot + 1) & last
                numbers[slots[column], row] = position
            else:
                negative = text[at] == _MINUS
                at += negative or (kind != _ID and text[at] == _PLUS)
                digits, number = at, np.int64(0)
                digit = np.int64(text[at]) - 48
                while 0 <= digit <= 9:
                    number = 10 * number + digit  # it wraps around where it is not used
                    at += 1
                    digit = np.int64(text[at]) - 48
                count = at - digits
                if kind == _DECIMAL:
                    after = 0
                    if text[at] == mark and mark != delimiter:
                        at += 1
                        digit = np.int64(text[at]) - 48
                        while 0 <= digit <= 9:
                            number = 10 * number + digit
                            at += 1
                            after += 1
                            digit = np.int64(text[at]) - 48
                    count += after
                    exponent = text[at] == _EXPONENT or text[at] == _CAPITAL_EXPONENT
                    if count == 0:
                        return -1, 0
                    if exponent:
                        at += 1
                        at += text[at] == _MINUS or text[at] == _PLUS
                        if not 48 <= text[at] <= 57:
                            return -1, 0
                        while 48 <= text[at] <= 57:
                            at += 1
                    if exponent or count > 15:
                        for i in range(begin, at):
                            room[used] = 46 if text[i] == mark else text[i]
                            used += 1
                        long_rows[longs] = row
                        longs += 1
                        long_ends[longs] = used
                        rewards[slots[column], row] = 0.0
                    else:
                        value = number / _POWERS[after]
                        rewards[slots[column], row] = -value if negative else value
                else:
                    if not 0 < count <= 18:
                        return -1, 0
                    if kind == _STATE and (number >= states or (negative and number > 0)):
                        return -1, 0
                    # As text, 007 and -0 are other ids than 7 and 0.
                    if kind == _ID and text[digits] == 48 and (count > 1 or negative):
                        return -1, 0
                    numbers[slots[column], row] = -number if negative else number
            if column < columns - 1:
                if text[at] != delimiter:
                    return -1, 0
            elif text[at] == _CR and text[at + 1] == _LF:
                at += 1
            elif text[at] != _LF:
                return -1, 0
            at += 1
        row += 1
    return row, longs
