"""Read blocks of CSV whose cells are all plainly written, in one pass over the bytes.

Plain means: no quotes, no white space around cells, nothing but ASCII beside labels; ids, steps and
counted states are whole numbers of up to 18 digits in the usual form, rewards are decimal numbers,
and labels are those of the study. Such a block becomes the columns of numbers that the same cells
would be in Parquet, and is read on as those are. A block with anything else in it is left to the
usual way, which reads every cell by itself and has the messages: what a cell becomes is the same on
both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers, jit
from privalue.readers._arrow import number_array, numbers_in, text_array
from privalue.readers._cells import BLANKS
from privalue.readers._rules import RowRules
from privalue.readers._text_kernels import POWERS

# What the cells of a column are. An id in the usual form is the same as text and as a number.
_IGNORED, _LABEL, _ID, _WHOLE, _STATE, _DECIMAL = range(6)
_LF, _CR, _SPACE, _QUOTE, _MINUS, _PLUS, _POINT = b'\n\r "-+.'
_PRIME, _BASIS = 16777619, 2166136261  # of the hash FNV-1a; labels are compared besides


@dataclass(frozen=True, eq=False)
class PlainLines:
    """How the plain lines of files with one heading are read."""

    names: tuple[str, ...]  # of the columns that are read
    kinds: NDArray[np.int8]  # of every column of the heading
    slots: NDArray[np.int8]  # where the numbers of a column go
    marks: tuple[int, int]  # delimiter and decimal mark
    states: int  # how many there are, if they are counted
    labels: Mapping[int, "_Labels"]  # of states, and of actions, by where they go

    @classmethod
    def of(cls, columns: Sequence[str], delimiter: str, rules: RowRules) -> "PlainLines | None":
        """Return how to read files with this heading; None if the study has other cells in mind."""
        kinds = {
            "person": _ID,
            "trajectory": _ID,
            "step": _WHOLE if rules.step_type == "integer" else None,
            "state": _STATE if rules.raw_labels is None else _LABEL,
            "action": _LABEL if rules.action_labels else _WHOLE,  # the encoder looks at its size
            "reward": _DECIMAL,
        }
        listed = any(text.strip(BLANKS) for text in rules.missing)
        # A delimiter that numbers may hold: only cells tell the two apart.
        inside = delimiter in {rules.decimal, ".", "+", "-"}
        if listed or inside or any(kinds.get(role) is None for role in rules.columns):
            return None
        by_name = {name: kinds[role] for role, name in rules.columns.items()}
        known = {"state": list(rules.raw_labels or ()), "action": list(rules.action_labels)}
        return cls(
            names=tuple(rules.names),
            kinds=np.array([by_name.get(name, _IGNORED) for name in columns], dtype=np.int8),
            slots=np.array(
                [rules.names.index(name) if name in by_name else 0 for name in columns], np.int8
            ),
            marks=(ord(delimiter), ord(rules.decimal)),
            states=rules.states,
            labels={
                at: _Labels.of(known[role])
                for at, role in enumerate(rules.columns)
                if kinds[role] == _LABEL
            },
        )

    def read(self, text: NDArray[np.uint8]) -> pa.RecordBatch | None:
        """Return the rows of whole lines, or None if one of them is not plain."""
        if len(text) == 0 or text[-1] != _LF:
            return None
        most = len(text) // len(self.kinds) + 1  # an empty cell still has a byte that ends it
        numbers = np.empty((len(self.names), most), dtype=np.int64)
        # Rewards of more digits than a division rounds as it should go to Arrow, as texts.
        at, ends = np.empty(most, dtype=np.int64), np.empty(most + 1, dtype=np.int32)
        room = np.empty(len(text), dtype=np.uint8)
        both = (
            numbers,
            numbers.view(np.float64),
        )  # here: to compile a view takes a tenth of a second
        rows, longs = _plain_lines(
            text, *self.marks, self.states, self.kinds, self.slots, *both, at, ends, room
        )
        if rows < 0:
            return None
        columns = self._columns(text, numbers[:, :rows], at[:longs], ends, room)
        # Not of a mapping: Arrow would ask, and import pandas to find out, what its values are.
        return columns and pa.RecordBatch.from_arrays(columns, names=self.names)

    def _columns(
        self,
        text: NDArray[np.uint8],
        numbers: Integers,
        at: Integers,
        ends: NDArray[np.int32],
        texts: NDArray[np.uint8],
    ) -> list[pa.Array] | None:
        """Return the columns, or None if a label or a long number is none."""
        both = zip(self.slots.tolist(), self.kinds.tolist(), strict=True)
        kinds = {slot: kind for slot, kind in both if kind != _IGNORED}
        found = []
        for slot in range(len(self.names)):
            column = numbers[slot]
            if kinds[slot] == _LABEL:
                codes = np.empty(len(column), dtype=np.int32)
                known = self.labels[slot]
                if not _find_labels(text, column, known.joined, known.ends, known.table, codes):
                    return None
                labels = number_array(codes), known.labels
                found.append(pa.DictionaryArray.from_arrays(*labels, safe=False))
                continue
            if kinds[slot] == _DECIMAL:
                column = column.view(np.float64)
                if len(at) and not _fill(column, at, ends, texts):
                    return None
            found.append(number_array(column))
        return found


class _Labels(NamedTuple):
    """The labels of states, or of actions, and where to find one by its bytes."""

    labels: pa.Array
    joined: NDArray[np.uint8]  # the bytes of all, one after the other
    ends: Integers
    table: NDArray[np.int32]  # positions of labels, by the hash of their bytes

    @classmethod
    def of(cls, labels: list[str]) -> "_Labels":
        """Return these labels."""
        encoded = [label.encode() for label in labels]
        return cls(
            text_array(labels),
            np.frombuffer(b"".join(encoded) or b"\0", np.uint8),
            np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            _table(encoded),
        )


def _fill(
    column: NDArray[np.float64], at: Integers, ends: NDArray[np.int32], texts: NDArray[np.uint8]
) -> bool:
    """Put long numbers in their places, as Arrow reads them; return whether all are finite."""
    buffers = [None, pa.py_buffer(ends[: len(at) + 1]), pa.py_buffer(texts)]
    try:
        written = pa.Array.from_buffers(pa.string(), len(at), buffers).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    column[at] = numbers_in(written)
    return bool(np.isfinite(column[at]).all())


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


@jit(nogil=True)
def _plain_lines(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915  # pragma: no cover - compiled
    text, delimiter, mark, states, kinds, slots, numbers, rewards, long_rows, long_ends, room
):
    """Read the cells of all lines, and return how many rows and long numbers there are.

    The text ends with the end of a line, so that every scan for the end of a cell ends.

    Args:
        text: whole lines.
        delimiter: one byte.
        mark: the decimal mark, one byte.
        states: how many there are, if they are counted.
        kinds: what the cells of each column are.
        slots: where the numbers of each column go.
        numbers: gets them, slot x row; labels by their places in the text.
        rewards: the same memory as doubles.
        long_rows: gets the rows whose decimals are left to somebody else.
        long_ends: gets where the texts of these begin and end in ``room``.
        room: gets these texts.

    Returns:
        Rows and long numbers; (-1, 0) if there is anything that is not plain.
    """
    at, row, longs, used, columns = 0, 0, 0, 0, len(kinds)
    long_ends[0] = 0
    while at < len(text):
        byte = text[at]
        if byte == _LF or (byte == _CR and text[at + 1] == _LF):  # a blank line is no row
            at += 1
            continue
        if row == numbers.shape[1]:
            return -1, 0
        for column in range(columns):
            kind, begin = kinds[column], at
            number, count, after, negative = np.int64(0), 0, -1, False
            if kind > _LABEL:
                negative = text[at] == _MINUS
                at += negative or (kind != _ID and text[at] == _PLUS)
                byte = text[at]
                while 48 <= byte <= 57 or (byte == mark and kind == _DECIMAL and after < 0):
                    if byte == mark:
                        after = count
                    else:
                        # It wraps where it is not used.
                        number = 10 * number + (np.int64(byte) - 48)
                        count += 1
                    at += 1
                    byte = text[at]
            first_digit = text[begin + negative]
            counted = at
            byte = text[at]
            while byte != delimiter and byte >= _SPACE and byte != _QUOTE:
                if byte > 127 and kind != _LABEL:
                    return -1, 0
                at += 1
                byte = text[at]
            # Now at the end of the cell, or at what no plain cell has.
            if byte == _CR and text[at + 1] == _LF:
                byte = text[at + 1]
            if byte != (delimiter if column < columns - 1 else _LF):
                return -1, 0
            if kind == _LABEL:
                numbers[slots[column], row] = (begin << 32) | at
            elif kind == _DECIMAL:
                if counted == at and 0 < count <= 15:
                    value = number / POWERS[count - after if after >= 0 else 0]
                    rewards[slots[column], row] = -value if negative else value
                else:
                    for i in range(begin, at):
                        if mark != _POINT and text[i] == _POINT:
                            return -1, 0
                        room[used] = _POINT if text[i] == mark else text[i]
                        used += 1
                    long_rows[longs] = row
                    longs += 1
                    long_ends[longs] = used
            elif kind != _IGNORED:
                if counted != at or not 0 < count <= 18:
                    return -1, 0
                if kind == _STATE and (number >= states or (negative and number > 0)):
                    return -1, 0
                # As text, 007 and -0 are other ids than 7 and 0.
                if kind == _ID and first_digit == 48 and (count > 1 or negative):
                    return -1, 0
                numbers[slots[column], row] = -number if negative else number
            at += 1 + (text[at] == _CR)
        row += 1
    return row, longs


@jit(nogil=True)
def _find_labels(text, places, label_bytes, label_ends, table, codes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write the position of each label, and return whether all are labels.

    Args:
        text: whole lines.
        places: where each label begins (times 2^32) and ends.
        label_bytes: of all labels of the study, one after the other.
        label_ends: where each begins, and the end of the last.
        table: positions of labels by their hash.
        codes: gets the positions.
    """
    last = len(table) - 1
    for row in range(len(places)):
        begin, end = places[row] >> 32, places[row] & 0xFFFFFFFF
        mixed = np.uint32(_BASIS)
        for at in range(begin, end):
            mixed = np.uint32((mixed ^ np.uint32(text[at])) * np.uint32(_PRIME))
        slot = np.int64(mixed) & last
        while True:
            position = table[slot]
            if position < 0:
                return False
            start = label_ends[position]
            same = label_ends[position + 1] - start == end - begin
            if same:
                for i in range(end - begin):
                    same &= label_bytes[start + i] == text[begin + i]
            if same:
                break
            slot = (slot + 1) & last
        codes[row] = position
    return True
