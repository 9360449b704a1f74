"""Hold values by state, as they are published.

They are columns, so that ten million states take little memory; to a caller, and in JSON, they are
a list with one entry for each state.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, overload

import numpy as np
import pydantic_core
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetPydanticSchema
from pydantic_core import core_schema

_AT_ONCE = 1 << 16  # states that are turned into Python objects at a time


def _listed(
    kind: type, item: Any, of: Callable[[Any], Any], plain: Callable[[Any], Any]
) -> Callable[[Any, GetCoreSchemaHandler], core_schema.CoreSchema]:
    """Return the pydantic schema of a columnar type that is a list in JSON and accepts a list.

    Args:
        kind: the type.
        item: the type of an entry of the list.
        of: makes one of the type from a list of entries.
        plain: makes a list of plain values from one of the type.

    Returns:
        What ``__get_pydantic_core_schema__`` has to be.
    """

    def schema(_: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        listed = core_schema.no_info_after_validator_function(
            of, handler.generate_schema(list[item])
        )
        made = core_schema.is_instance_schema(kind)
        return core_schema.json_or_python_schema(
            json_schema=listed,
            python_schema=core_schema.union_schema([made, listed], mode="left_to_right"),
            serialization=core_schema.plain_serializer_function_ser_schema(plain),
        )

    return schema


def as_numbers(numbers: NDArray[np.float64]) -> Sequence[float]:
    """Return numbers as they are published, or raise ValueError where one is not finite."""
    if not np.isfinite(numbers).all():
        raise ValueError("what is released is finite")
    return array("d", np.asarray(numbers, dtype=np.float64).tobytes())


# Arrays of Python's own: as small as NumPy's, and equal where their numbers are.
Numbers = Annotated[
    Sequence[float],
    GetPydanticSchema(_listed(array, float, lambda listed: array("d", listed), list)),
]


class StateValue(BaseModel):
    """The released value of one state.

    ``total_low`` and ``total_high`` cover the value among people at large: they hold the noise and
    the choice of people. The other intervals explain its parts: ``low`` and ``high``, privacy
    intervals, cover what would have been released without noise; the sampling interval is about how
    far the people in the data may be from people at large. Bands hold in all states at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    state: str
    arm: str | None = Field(default=None, description="where the study has arms")
    value: float
    total_low: float | None = None
    total_high: float | None = None
    low: float | None = None
    high: float | None = None
    total_band_low: float | None = None
    total_band_high: float | None = None
    band_low: float | None = None
    band_high: float | None = None
    sampling_low: float | None = None
    sampling_high: float | None = None
    clamped: bool | None = Field(
        default=None,
        description="where a stage chose tighter bounds of returns: true if the total interval is "
        "for the mean of clamped returns, since what clamping may hide is wider than it",
    )
    supported: bool | None = Field(
        default=None, description="of dp-ssp: false where the noisy count is too small to say much"
    )


class StateValues(Sequence[StateValue]):
    """A ``StateValue`` for each state, made when asked for.

    Labels may be a range, which stands for its numbers as texts.
    """

    def __init__(self, states: Sequence[str] | range, columns: Mapping[str, NDArray[Any]]) -> None:
        self.states = states
        self._columns = dict(columns)
        for column in self._columns.values():
            if len(column) != len(states):
                raise ValueError("every column has one entry for each state")
            if column.dtype == np.float64 and not np.isfinite(column).all():
                raise ValueError("values are finite numbers")

    def __len__(self) -> int:
        return len(self.states)

    @overload
    def __getitem__(self, at: int) -> StateValue: ...
    @overload
    def __getitem__(self, at: slice) -> "StateValues": ...
    def __getitem__(self, at: int | slice) -> "StateValue | StateValues":
        columns = {name: column[at] for name, column in self._columns.items()}
        if isinstance(at, slice):
            return StateValues(self.states[at], columns)
        fields = {name: cell.item() for name, cell in columns.items()}
        return StateValue.model_construct(state=str(self.states[at]), **fields)

    def __iter__(self) -> Iterator[StateValue]:
        """Yield the states in order; their values were checked when the columns were made."""
        return (StateValue.model_construct(**fields) for fields in self.fields())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateValues | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StateValues({len(self)} states)"

    def column(self, name: str) -> NDArray[Any] | None:
        """Return one field of all states, or None where it was not released."""
        return self._columns.get(name)

    def fields(self) -> Iterator[dict[str, Any]]:
        """Yield each state as a dictionary, without the fields that were not released."""
        names = ("state", *self._columns)
        for start in range(0, len(self), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            cells = (column[part].tolist() for column in self._columns.values())
            for row in zip(map(str, self.states[part]), *cells, strict=True):
                yield dict(zip(names, row, strict=True))

    def json_cells(self) -> Iterator[str]:
        """Yield each state as one line of JSON."""
        line = ",".join(f'"{name}":%s' for name in ("state", *self._columns)).join("{}")
        columns = (list(map(str, self.states)), *(c.tolist() for c in self._columns.values()))
        return map(line.__mod__, zip(*map(json_cells, columns), strict=True))

    @classmethod
    def of(cls, entries: Sequence[StateValue]) -> "StateValues":
        """Return the entries as columns; all of them must have the same fields."""
        columns = {}
        for name in StateValue.model_fields:
            cells = [getattr(entry, name) for entry in entries]
            missing = sum(cell is None for cell in cells)
            if name != "state" and missing < len(cells):
                if missing:
                    raise ValueError(f"{name} is given for some states only")
                columns[name] = np.array(cells)
        return cls([entry.state for entry in entries], columns)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = _listed(cls, StateValue, cls.of, lambda values: list(values.fields()))
        return schema(source, handler)


def json_cells(entries: Sequence[Any]) -> list[str]:
    """Return each entry as JSON.

    The list is written as a whole, which is much faster than one entry after the other, and split
    at its line ends: JSON escapes those inside a string, so that no entry is split.
    """
    return pydantic_core.to_json(list(entries), indent=0)[2:-2].decode().split(",\n")


def written(value: Any, line: str = "\n") -> Iterator[str]:
    """Yield a model as JSON, without fields that are None; columns come in parts.

    Args:
        value: a model, a column, or anything else that pydantic can write.
        line: what begins a line at this depth: a line end and the indentation.
    """
    if isinstance(value, BaseModel):
        for number, (name, inner) in enumerate(entry for entry in value if entry[1] is not None):
            yield f'{"," if number else "{"}{line}  "{name}": '
            yield from written(inner, line + "  ")
        yield line + "}" if any(entry[1] is not None for entry in value) else "{}"
    elif isinstance(value, list) and value and isinstance(value[0], BaseModel):
        for number, inner in enumerate(value):
            yield f"{',' if number else '['}{line}  "
            yield from written(inner, line + "  ")
        yield line + "]"
    elif isinstance(value, StateValues | array):
        parts = (value[at : at + _AT_ONCE] for at in range(0, len(value), _AT_ONCE))
        for number, part in enumerate(parts):
            cells = part.json_cells() if isinstance(part, StateValues) else json_cells(part)
            yield f"{',' if number else '['}{line}  " + f",{line}  ".join(cells)
        yield line + "]"
    else:
        yield pydantic_core.to_json(value, indent=2, exclude_none=True).decode().replace("\n", line)
