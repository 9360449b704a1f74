"""The one place that meets untrusted values: checks them and turns them into plain numbers.

The first mistake in a chunk ends it, with the place, the row, the column and the value.

An id becomes a few lanes of int64, which are equal, and in order, exactly where the ids are. A
whole number is one lane. A text is (0, n) if it is the usual way to write a whole number n of up
to 18 digits, and otherwise 1 and its bytes, seven to a lane. So the texts 9 and 10 come in the
order of the numbers, before every text that is none, and how two ids compare depends on the two
alone.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.kernels import kernel
from privalue.private import Private, sealed
from privalue.study import Study
from privalue.trajectories.chunks import Chunk

Integers = NDArray[np.int64]

LONGEST_ID = 255  # bytes
PART_ROWS = 1 << 17  # what is made of them stays near the processor
_MOST_EXACT = 2.0**53


class Origin(NamedTuple):
    """Where rows are from."""

    place: str
    first_row: int
    told: Callable[[int], str] | None
    kinds: tuple[str, ...]  # the type of each id
    step_kind: str = "int64"

    def where(self, at: int) -> str:
        """The file and the number of a row in it."""
        number = self.first_row + at
        return self.told(number) if self.told else f"{self.place}, row {number}"

    def require_same_ids(self, later: "Origin") -> None:
        """Refuses rows that follow these with ids of other types, or without persons."""
        if later.kinds != self.kinds:
            raise DataError(
                f"{later.place}: ids are {' and '.join(later.kinds)} here and "
                f"{' and '.join(self.kinds)} before; they have the same types throughout"
            )
        if later.step_kind != self.step_kind:
            raise DataError(
                f"{later.place}: steps are {later.step_kind} here and {self.step_kind} before; "
                "they have the same type throughout"
            )


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Row(Private):
    """What tells a row from others."""

    origin: Origin
    at: int  # its place among the rows from there
    keys: Integers  # id (the person's, where there is one, and the trajectory's) x lane
    step: int

    @property
    def where(self) -> str:
        """The file and the number of the row in it."""
        return self.origin.where(self.at)

    @property
    def ids(self) -> tuple[int | str, ...]:
        """The ids as they were."""
        return tuple(map(_id_of, self.keys, self.origin.kinds))


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Rows(Private):
    """Some rows as plain numbers."""

    origin: Origin
    keys: Integers  # row x id x lane
    steps: Integers
    states: NDArray[np.int32]  # positions
    rewards: NDArray[np.float64]  # clamped to the public bounds
    rewards_clamped: int

    def __post_init__(self) -> None:
        for array in (self.keys, self.steps, self.states, self.rewards):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.steps)

    def row(self, at: int) -> Row:
        """One of them, which keeps nothing else in memory."""
        return Row(self.origin, at, self.keys[at].copy(), int(self.steps[at]))


class Encoder:
    """Checks and encodes chunks, in several threads at once if need be."""

    def __init__(self, study: Study) -> None:
        self._columns = study.data
        self._reward_bounds = study.values.rewards
        self._states = study.state_count
        self._raw_labels: pa.Array | None = None
        if study.raw_labels is not None:
            self._raw_labels = pa.array(list(study.raw_labels), pa.string())
            self._codes = np.fromiter(study.raw_labels.values(), dtype=np.int32)
            grouped = study.states.groups is not None
            self._known_as = "the raw labels of [states] groups" if grouped else "the states"

    def parts(self, chunk: Chunk) -> Iterator[Rows]:
        """The chunk as plain numbers, a part at a time; to look up labels is set up for each."""
        labels = 0 if self._raw_labels is None else len(self._raw_labels)
        return map(self.encode, chunk.parts(max(PART_ROWS, 4 * labels)))

    def encode(self, chunk: Chunk) -> Rows:
        """The chunk as plain numbers, or a ``DataError`` that names the row and the value."""
        try:
            return self._encoded(chunk)
        except DataError:
            if chunk.as_text is None:
                raise
            return self._encoded(chunk.as_text())
        except (pa.ArrowException, OverflowError) as problem:
            reason = " ".join(str(problem).split())[:160]
            raise DataError(
                f"{_where(chunk, 0)} and on: a column cannot be read: {reason}"
            ) from None

    def _encoded(self, chunk: Chunk) -> Rows:
        names, ids = self._columns, self.ids(chunk)
        written = chunk.as_text is not None
        kinds = tuple("string" if written else str(values.type) for values in ids)
        steps, step_kind = self._step(chunk, names.step)
        states = self._state(chunk, names.state)
        rewards, clamped = self._reward(chunk, names.reward)
        return Rows(
            Origin(chunk.place, chunk.first_row, chunk.told, kinds, step_kind),
            _side_by_side([_lanes(values, written) for values in ids]),
            steps.to_numpy(zero_copy_only=False),
            states,
            rewards,
            clamped,
        )

    def ids(self, chunk: Chunk) -> list[pa.Array]:
        """The person's, where there is a column of it, and the trajectory's."""
        names = (self._columns.person, self._columns.trajectory)
        return [self._key(chunk, name) for name in names if name in chunk.rows.schema.names]

    def _key(self, chunk: Chunk, column: str) -> pa.Array:
        """An id: whole numbers or text; "NA" is an id like any other.

        Text is taken as it stands: two ids that differ in a blank are two trajectories.
        """
        values = _present(chunk, column, trimmed=False)
        if pa.types.is_floating(values.type):
            values = _whole_floats(chunk, column, values)
        elif pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
            values = values.cast(pa.int64())
        elif not _is_text(values.type):
            values = values.cast(pa.string())
        if _is_text(values.type):
            long = pc.greater(pc.binary_length(values), LONGEST_ID).to_numpy(zero_copy_only=False)
            if long.any():
                _fail(chunk, _first(long), column, values, f"has more than {LONGEST_ID} bytes")
        return values

    def _step(self, chunk: Chunk, column: str) -> tuple[pa.Array, str]:
        """The steps as numbers, and what they are: ticks of different clocks do not compare."""
        values = _present(chunk, column, read_as=pa.int64())
        if pa.types.is_temporal(values.type):  # dates and times order rows as well as numbers do
            ticks = pa.int32() if values.type.bit_width == 32 else pa.int64()
            return values.cast(ticks).cast(pa.int64()), clock(values.type)
        return _whole_numbers(chunk, column, values), clock(values.type)

    def _reward(self, chunk: Chunk, column: str) -> tuple[NDArray[np.float64], int]:
        values = _present(chunk, column, read_as=pa.float64())
        if _is_text(values.type):
            values = _parsed(chunk, column, values, "a number")
        elif not _is_number(values.type):
            _fail(chunk, 0, column, values, "must be a number")
        rewards = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        low, high = self._reward_bounds
        if len(rewards) == 0 or (rewards.min() >= low and rewards.max() <= high):  # no NaN is
            return rewards, 0
        finite = np.isfinite(rewards)
        if not finite.all():
            _fail(chunk, _first(~finite), column, values, "must be a finite number")
        clamped: NDArray[np.float64] = np.clip(rewards, low, high)
        return clamped, int(np.count_nonzero(clamped != rewards))

    def _state(self, chunk: Chunk, column: str) -> NDArray[np.int32]:
        if self._raw_labels is None:
            values = _present(chunk, column, read_as=pa.int64())
            allowed = f"states are the numbers 0 to {self._states - 1}"
            hint = f"{allowed}, or what [states] labels lists"
            codes: Integers = _whole_numbers(chunk, column, values, hint).to_numpy(
                zero_copy_only=False
            )
            if len(codes) and not (codes.min() >= 0 and codes.max() < self._states):
                outside = _first((codes < 0) | (codes >= self._states))
                values = _present(chunk, column)
                _fail(chunk, outside, column, values, f"is not a state: {allowed}")
            return codes.astype(np.int32)
        values = _present(chunk, column)
        if pa.types.is_floating(values.type):
            values = _whole_floats(chunk, column, values)
        labels = values if _is_text(values.type) else values.cast(pa.string())
        at = pc.index_in(labels, value_set=self._raw_labels)
        if at.null_count:
            unknown = _first(at.is_null().to_numpy(zero_copy_only=False))
            some = ", ".join(repr(label) for label in self._raw_labels[:3].to_pylist())
            allowed = f"{self._known_as}, {len(self._raw_labels)} in all: {some}, ..."
            _fail(chunk, unknown, column, values, f"is not one of {allowed}")
        codes = self._codes[at.to_numpy(zero_copy_only=False)]
        return codes.astype(np.int32)


def clock(kind: pa.DataType) -> str:
    """What steps of a type count: numbers, days, or ticks of some length, whatever the zone."""
    return str(kind).split(", tz")[0] if pa.types.is_temporal(kind) else "int64"


def _present(
    chunk: Chunk, column: str, *, trimmed: bool = True, read_as: pa.DataType | None = None
) -> pa.Array:
    """The column, plain and without missing values; text is trimmed unless it is an id.

    If all of a text can be ``read_as`` this type just as it stands, that is what comes back.
    """
    values = chunk.rows.column(column)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not _is_text(values.type):
        missing = values.is_null() if values.null_count else None
    else:
        values = values.cast(pa.string())
        if read_as is not None and values.null_count == 0:
            with suppress(pa.ArrowInvalid):
                return values.cast(read_as)
        blank = pc.or_(pc.equal(values, ""), pc.utf8_is_space(values))
        missing = blank.fill_null(True)
        values = pc.utf8_trim_whitespace(values) if trimmed else values
    if missing is not None and pc.any(missing).as_py():
        at = _first(missing.to_numpy(zero_copy_only=False))
        raise DataError(f"{_where(chunk, at)}: {column} is missing; every row needs one")
    return values


def _lanes(values: pa.Array, written: bool = False) -> Integers:
    """Ids as rows of whole numbers, equal and in order where the ids are."""
    if not _is_text(values.type):
        numbers: Integers = values.to_numpy(zero_copy_only=False)
        return np.stack([np.zeros_like(numbers), numbers], axis=1) if written else numbers[:, None]
    values.validate(full=True)  # UTF-8, which has no byte 255
    _, ends, text = values.buffers()
    offsets = np.frombuffer(ends, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(text, dtype=np.uint8)
    lanes = np.zeros((len(values), 2), dtype=np.int64)
    if not _pack(offsets, data, lanes):
        longest = int(np.diff(offsets).max())
        lanes = np.zeros((len(values), 1 - -longest // 7), dtype=np.int64)
        _pack(offsets, data, lanes)
    return lanes


@kernel(nogil=True)
def _pack(offsets, data, lanes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Fills ``lanes``; False where a text does not fit. No UTF-8 has the byte 255: 0 pads."""
    for i in range(len(lanes)):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        digits = begin + (data[begin] == 45)  # a minus
        whole = 0 < end - digits <= 18 and (data[digits] != 48 or end - begin == 1)
        number = 0
        for at in range(digits, end):
            digit = int(data[at]) - 48
            if not 0 <= digit <= 9:
                whole = False
                break
            number = 10 * number + digit
        if whole:
            lanes[i, 1] = -number if digits > begin else number
            continue
        if end - begin > 7 * (lanes.shape[1] - 1):
            return False
        lanes[i, 0] = 1
        for at in range(end - begin):
            lanes[i, 1 + at // 7] |= (np.int64(data[begin + at]) + 1) << (48 - 8 * (at % 7))
    return True


def _side_by_side(ids: list[Integers]) -> Integers:
    """Row x id x lane; an id that needs fewer lanes ends with zeros."""
    if len(ids) == 1:
        return ids[0][:, None, :]
    lanes = max(values.shape[1] for values in ids)
    return np.stack([widened(values, lanes) for values in ids], axis=1)


def widened(keys: Integers, lanes: int) -> Integers:
    """The same ids in so many lanes: zeros are added at the end."""
    missing = lanes - keys.shape[-1]
    return np.pad(keys, [(0, 0)] * (keys.ndim - 1) + [(0, missing)]) if missing else keys


def _id_of(lanes: Integers, kind: str) -> int | str:
    """The id that became these lanes."""
    if kind == "int64":
        return int(lanes[0])
    if lanes[0] == 0:
        return str(lanes[1])
    packed = b"".join(int(lane).to_bytes(7, "big") for lane in lanes[1:])
    return bytes(byte - 1 for byte in packed if byte).decode()


def _whole_numbers(
    chunk: Chunk, column: str, values: pa.Array, what: str = "within 64 bits"
) -> pa.Array:
    """int64, from whole numbers however they are written."""
    what = f"a whole number ({what})"
    if _is_text(values.type):
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            values = _parsed(chunk, column, values, what)
    if pa.types.is_floating(values.type):
        return _whole_floats(chunk, column, values, what)
    if not pa.types.is_integer(values.type):
        _fail(chunk, 0, column, values, f"must be {what}")
    if not _fits(values):
        too_large = pc.greater(values, pa.scalar(2**63 - 1, values.type))
        _fail(
            chunk,
            _first(too_large.to_numpy(zero_copy_only=False)),
            column,
            values,
            f"must be {what}",
        )
    return values.cast(pa.int64())


def _whole_floats(
    chunk: Chunk, column: str, values: pa.Array, what: str = "a whole number"
) -> pa.Array:
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bad = ~((np.abs(numbers) < _MOST_EXACT) & (np.floor(numbers) == numbers))
    if bad.any():
        _fail(chunk, _first(bad), column, values, f"must be {what}")
    return pa.array(numbers.astype(np.int64))


def _parsed(chunk: Chunk, column: str, values: pa.Array, what: str) -> pa.Array:
    """Text as doubles; only a failure pays for finding the row that caused it."""
    try:
        return values.cast(pa.float64())
    except pa.ArrowInvalid:
        for at, text in enumerate(values):
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                _fail(chunk, at, column, values, f"must be {what}")
        raise


def _fits(values: pa.Array) -> bool:
    """Whether unsigned 64-bit numbers fit into an int64."""
    return not pa.types.is_uint64(values.type) or (pc.max(values).as_py() or 0) < 2**63


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _first(where: NDArray[np.bool_]) -> int:
    return int(np.argmax(where))


def _where(chunk: Chunk, at: int) -> str:
    return Origin(chunk.place, chunk.first_row, chunk.told, ()).where(at)


def _fail(chunk: Chunk, at: int, column: str, values: pa.Array, why: str) -> NoReturn:
    shown = repr(values[at].as_py())
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise DataError(f"{_where(chunk, at)}: {column} = {shown} {why}")
