"""The one place that meets untrusted values: checks them and turns them into plain numbers.

Each chunk comes out with the columns ``person`` (where there is one), ``trajectory``, ``step``
(int64), ``state`` (int32, the state's position), ``reward`` (float64, clamped to the public
bounds) and ``row`` (int64, the row's number over the whole source). The first mistake ends it, with
the place, the row, the column and the value.
"""

from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privalue.errors import DataError
from privalue.study import Study
from privalue.trajectories.sources import Chunk

_MOST_EXACT = 2.0**53


class Encoder:
    """Checks and encodes chunk after chunk, and counts what it saw (for the curator)."""

    def __init__(self, study: Study) -> None:
        self.rows = 0
        self.rewards_clamped = 0
        self._columns = study.data
        self._reward_bounds = study.values.rewards
        self._states = study.state_count
        self._raw_labels: pa.Array | None = None
        if study.raw_labels is not None:
            self._raw_labels = pa.array(list(study.raw_labels), pa.string())
            self._codes = np.fromiter(study.raw_labels.values(), dtype=np.int32)
            grouped = study.states.groups is not None
            self._known_as = "the raw labels of [states] groups" if grouped else "the states"
        self._key_types: dict[str, pa.DataType] = {}
        self._places: list[tuple[int, int, str]] = []

    def encode(self, chunk: Chunk) -> pa.RecordBatch:
        """The chunk as plain numbers, or a ``DataError`` that names the row and the value."""
        try:
            return self._encoded(chunk)
        except (pa.ArrowException, OverflowError) as problem:
            reason = " ".join(str(problem).split())[:160]
            raise DataError(f"{_row(chunk, 0)} and on: a column cannot be read: {reason}") from None

    def _encoded(self, chunk: Chunk) -> pa.RecordBatch:
        self._places.append((self.rows, chunk.first_row, chunk.place))
        names = self._columns
        keys = {
            role: self._key(chunk, column, role)
            for role, column in (("person", names.person), ("trajectory", names.trajectory))
            if column in chunk.rows.schema.names
        }
        step = self._step(chunk, names.step)
        state = self._state(chunk, names.state)
        reward = self._reward(chunk, names.reward)
        row = np.arange(self.rows, self.rows + chunk.rows.num_rows, dtype=np.int64)
        self.rows += chunk.rows.num_rows
        return pa.record_batch({**keys, "step": step, "state": state, "reward": reward, "row": row})

    def place(self, row: int) -> str:
        """Where a row of the whole source is: the file and the row's number in it."""
        start, first_row, place = max(p for p in self._places if p[0] <= row)
        return f"{place}, row {first_row + row - start}"

    def _key(self, chunk: Chunk, column: str, role: str) -> pa.Array:
        """An id: whole numbers or text, of one type throughout; "NA" is an id like any other.

        Text is taken as it stands: two ids that differ in a blank are two trajectories.
        """
        values = _present(chunk, column, trimmed=False)
        if pa.types.is_floating(values.type):
            values = _whole_floats(chunk, column, values)
        elif pa.types.is_integer(values.type):
            values = (
                values.cast(pa.int64(), safe=True) if _fits(values) else values.cast(pa.string())
            )
        elif not _is_text(values.type):
            values = values.cast(pa.string())
        expected = self._key_types.setdefault(role, values.type)
        if values.type != expected:
            raise DataError(
                f"{chunk.place}: {column} is {values.type} here and {expected} before; an id has "
                "one type throughout"
            )
        return values

    def _step(self, chunk: Chunk, column: str) -> pa.Array:
        values = _present(chunk, column)
        if pa.types.is_temporal(values.type):  # dates and times order rows as well as numbers do
            ticks = pa.int32() if values.type.bit_width == 32 else pa.int64()
            return values.cast(ticks).cast(pa.int64())
        return _whole_numbers(chunk, column, values)

    def _reward(self, chunk: Chunk, column: str) -> NDArray[np.float64]:
        values = _present(chunk, column)
        if _is_text(values.type):
            values = _parsed(chunk, column, values, "a number")
        elif not _is_number(values.type):
            _fail(chunk, 0, column, values, "must be a number")
        rewards = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        finite = np.isfinite(rewards)
        if not finite.all():
            _fail(chunk, _first(~finite), column, values, "must be a finite number")
        low, high = self._reward_bounds
        clamped: NDArray[np.float64] = np.clip(rewards, low, high)
        self.rewards_clamped += int(np.count_nonzero(clamped != rewards))
        return clamped

    def _state(self, chunk: Chunk, column: str) -> NDArray[np.int32]:
        values = _present(chunk, column)
        if self._raw_labels is None:
            allowed = f"states are the numbers 0 to {self._states - 1}"
            hint = f"{allowed}, or what [states] labels lists"
            codes: NDArray[np.int64] = _whole_numbers(chunk, column, values, hint).to_numpy(
                zero_copy_only=False
            )
            outside = (codes < 0) | (codes >= self._states)
            if outside.any():
                _fail(chunk, _first(outside), column, values, f"is not a state: {allowed}")
            return codes.astype(np.int32)
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


def _present(chunk: Chunk, column: str, *, trimmed: bool = True) -> pa.Array:
    """The column, plain and without missing values; text is trimmed unless it is an id."""
    values = chunk.rows.column(column)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    missing = values.is_null()
    if _is_text(values.type):
        plain = values.cast(pa.string())
        text = pc.utf8_trim_whitespace(plain)
        missing = pc.or_(missing, pc.equal(text, "").fill_null(True))
        values = text if trimmed else plain
    where = missing.to_numpy(zero_copy_only=False)
    if where.any():
        raise DataError(f"{_row(chunk, _first(where))}: {column} is missing; every row needs one")
    return values


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


def _row(chunk: Chunk, at: int) -> str:
    return f"{chunk.place}, row {chunk.first_row + at}"


def _fail(chunk: Chunk, at: int, column: str, values: pa.Array, why: str) -> NoReturn:
    shown = repr(values[at].as_py())
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise DataError(f"{_row(chunk, at)}: {column} = {shown} {why}")
