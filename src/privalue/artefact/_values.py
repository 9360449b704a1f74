"""Hold values by state, as they are published.

They are columns, so that ten million states take little memory. To a caller they are a list with a
record for each state, which knows its flags; in JSON, a list with an entry for each.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, overload

import numpy as np
import pydantic_core
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetPydanticSchema
from pydantic_core import core_schema

from privalue.artefact._columns import NO_FLAGS, Arrays, Flags, arrow_table, read_only
from privalue.errors import UnknownLabelError

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 1 << 16  # states that are turned into Python objects at a time
_SEARCHED = 5_000  # labels among which one that is close is looked for


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


def as_numbers(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers as they are published, or raise ValueError where one is not finite."""
    if not np.isfinite(numbers).all():
        raise ValueError("what is released is finite")
    return read_only(np.array(numbers, dtype=np.float64))


Numbers = Annotated[
    NDArray[np.float64],
    GetPydanticSchema(
        _listed(
            np.ndarray,
            float,
            lambda listed: read_only(np.array(listed, dtype=np.float64)),
            lambda numbers: numbers.tolist(),
        )
    ),
]


class KeptMass(BaseModel):
    """How much of the target's weight clipping kept: 1 less it bounds the bias of its value."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    value: float = Field(ge=0)
    low: float = Field(
        ge=0,
        description="noise and the choice of people included; above 1 the behaviour is wrong: "
        "no right one allows that",
    )
    high: float = Field(ge=0)
    supported: bool = Field(
        description="whether low is above 0.8, and not above 1: else nothing is vouched for"
    )


# Of a column of these: a record for each state.
_KEPT = np.dtype([("value", "f8"), ("low", "f8"), ("high", "f8"), ("supported", "?")])


def kept_masses(value: Any, low: Any, high: Any, supported: Any) -> NDArray[Any]:
    """Return the kept mass of each state, as a column of values."""
    column = np.empty(len(value), dtype=_KEPT)
    for name, part in zip(_KEPT.names or (), (value, low, high, supported), strict=True):
        column[name] = part
    return column


class Entry(BaseModel):
    """The released value of one state.

    ``total_low`` and ``total_high`` cover the value among people at large: they hold the noise and
    the choice of people. ``low`` and ``high``, privacy intervals, cover what would have been
    released without noise. The band is a total interval that holds in all states at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, title="StateValue")

    state: str
    arm: str | None = Field(default=None, description="where the study has arms")
    action: str | None = Field(default=None, description="where the study has actions")
    value: float
    total_low: float | None = None
    total_high: float | None = None
    low: float | None = None
    high: float | None = None
    total_band_low: float | None = None
    total_band_high: float | None = None
    supported: bool | None = Field(
        default=None,
        description="dp-ssp: false where the noisy count is too small to say much, or shrinkage "
        "made more than half of the value of other states'; dp-ope: false where clipping may have "
        "lost too much",
    )
    kept_mass: KeptMass | None = Field(default=None, description="of dp-ope, by start")


FIELDS = tuple(Entry.model_fields)  # of a state, in the order of release.json


@dataclass(frozen=True, kw_only=True, repr=False)
class StateValue:
    """The released value of one state, with its intervals and what to be careful about.

    An interval that was not released is None. ``total_low`` and ``total_high`` cover the value
    among people at large; ``low`` and ``high`` what would have been released without noise. The
    band is a total interval that holds in all states at once.
    """

    state: str
    arm: str | None = None
    action: str | None = None
    value: float
    total_low: float | None = None
    total_high: float | None = None
    low: float | None = None
    high: float | None = None
    total_band_low: float | None = None
    total_band_high: float | None = None
    supported: bool | None = None
    kept_mass: KeptMass | None = None
    flags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return what was released of the state, and nothing of what was not."""
        told = ((name, getattr(self, name)) for name in (*FIELDS, "flags"))
        given = ", ".join(f"{name}={value!r}" for name, value in told if value not in {None, ()})
        return f"StateValue({given})"


class StateValues(Arrays, Sequence[StateValue]):
    """A ``StateValue`` for each state, made when asked for, by position or by label.

    Labels may be a range, which stands for its numbers as texts.

    >>> values = StateValues(["ill", "well"], {"value": np.array([0.25, 1.0])})
    >>> values["well"], len(values), values.value * 2
    (StateValue(state='well', value=1.0), 2, array([0.5, 2. ]))
    """

    def __init__(self, states: Sequence[str] | range, columns: Mapping[str, NDArray[Any]]) -> None:
        self.states = states
        self._columns = {name: read_only(column) for name, column in columns.items()}
        self._places = range(len(states))  # of these states among those that the flags are of
        self._flagged: Callable[[], Flags] | None = None
        self._found: dict[str, int] | None = None
        for column in self._columns.values():
            if len(column) != len(states):
                raise ValueError("every column has one entry for each state")
            if column.dtype == np.float64 and not np.isfinite(column).all():
                raise ValueError("values are finite numbers")

    def with_flags(self, flagged: Callable[[], Flags]) -> "StateValues":
        """Return the same values with flags, which are asked for when they are used."""
        made = StateValues(self.states, self._columns)
        made._flagged = flagged
        return made

    @property
    def flags(self) -> Flags:
        """Return what to be careful about in each state; nothing for values of no release."""
        if self._flagged is None:
            return NO_FLAGS.of(np.zeros(len(self), dtype=np.uint8))
        whole = self._flagged()
        if self._places == range(len(whole)):
            return whole
        return whole.of(whole.bits[np.array(self._places, dtype=np.int64)])

    def __len__(self) -> int:
        return len(self.states)

    @overload
    def __getitem__(self, at: int) -> StateValue: ...
    @overload
    def __getitem__(self, at: str | tuple[str, str]) -> StateValue: ...
    @overload
    def __getitem__(self, at: slice) -> "StateValues": ...
    def __getitem__(self, at: int | slice | str | tuple[str, str]) -> "StateValue | StateValues":
        if isinstance(at, slice):
            columns = {name: column[at] for name, column in self._columns.items()}
            part = StateValues(self.states[at], columns)
            part._places, part._flagged = self._places[at], self._flagged
            return part
        at = self.place_of(at) if isinstance(at, str | tuple) else range(len(self))[at]
        fields = {name: _cells(column[at : at + 1])[0] for name, column in self._columns.items()}
        flags = () if self._flagged is None else self._flagged()[self._places[at]]
        return StateValue(state=str(self.states[at]), **fields, flags=flags)

    def __iter__(self) -> Iterator[StateValue]:
        """Yield the states in order."""
        flags = self.flags
        return (StateValue(**cells, flags=flags[at]) for at, cells in enumerate(self._records()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateValues | list) or len(self) != len(other):
            return False
        entries = other.fields() if isinstance(other, StateValues) else map(_released, other)
        return all(mine == theirs for mine, theirs in zip(self.fields(), entries, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, _: Any) -> "StateValues":
        """Return the same values: nothing in them can change. Flags are those of a release."""
        return StateValues(self.states, self._columns)

    def __repr__(self) -> str:
        return f"StateValues({len(self)} states)"

    def place_of(self, label: object) -> int:
        """Return the position of a state by its label, by arm and state, or by state and action.

        Raises:
            UnknownLabelError: there is no such state; the message names those that are close.
        """
        kinds = self._kinds
        parts = label if isinstance(label, tuple) else (label,)
        if len(parts) != len(kinds):
            if len(kinds) == 1:
                raise UnknownLabelError(f"[{label!r}] is not understood: there are no arms")
            other = next(kind for kind in kinds if kind != "state")
            first = ", ".join(repr(self._labels(kind)[0]) for kind in kinds)
            raise UnknownLabelError(
                f"[{label!r}] is not understood: there are {other}s; give the {kinds[0]} and the "
                f"{kinds[1]}, as [{first}]"
            )
        name = "\0".join(map(str, parts))
        if isinstance(self.states, range) and len(kinds) == 1:
            if name.isdecimal() and str(int(name)) == name and int(name) in self.states:
                return self.states.index(int(name))
        elif name in self._index():
            return self._index()[name]
        raise UnknownLabelError(self._about(*map(str, parts)))

    @property
    def _kinds(self) -> tuple[str, ...]:
        """Return what an entry is named by, in the order of its labels."""
        if "arm" in self._columns:
            return "arm", "state"
        return ("state", "action") if "action" in self._columns else ("state",)

    def _labels(self, kind: str) -> list[str]:
        """Return the labels of that kind, one for each entry."""
        return list(map(str, self.states if kind == "state" else self._columns[kind].tolist()))

    def _index(self) -> dict[str, int]:
        """Return the position of every label, found once."""
        if self._found is None:
            labels = zip(*map(self._labels, self._kinds), strict=True)
            self._found = {name: at for at, name in enumerate(map("\0".join, labels))}
        return self._found

    def _about(self, *parts: str) -> str:
        """Return what helps a user who wrote a label that there is not."""
        told = []
        for kind, part in zip(self._kinds, parts, strict=True):
            column = self.states if kind == "state" else self._columns[kind].tolist()
            known = list(dict.fromkeys(map(str, islice(column, _SEARCHED))))
            if part in known:
                continue
            near = difflib.get_close_matches(part, known, n=3)
            near = near or [each for each in known if each.casefold() == part.casefold()]
            more = ", ..." if len(known) > 5 else ""
            what = (
                f"did you mean {' or '.join(map(repr, near))}?"
                if near
                else f"there are {', '.join(map(repr, known[:5]))}{more}"
            )
            told.append(f"there is no {kind} {part!r}; {what}")
        if not told and "action" in self._columns:
            return f"the action {parts[1]!r} is not allowed in the state {parts[0]!r}"
        return "; ".join(told) or f"there is no state {parts[-1]!r} here"

    def column(self, name: str) -> NDArray[Any] | None:
        """Return one field of all states, or None where it was not released."""
        return self._columns.get(name)

    def to_arrow(self) -> "pa.Table":
        """Return a table of these states, with their flags, as an Arrow table."""
        return arrow_table(self.states, self._columns, self.flags, {})

    def fields(self) -> Iterator[dict[str, Any]]:
        """Yield each state as plain values, without the fields that were not released."""
        if "kept_mass" not in self._columns:
            return self._records()
        return (
            {**cells, "kept_mass": cells["kept_mass"].model_dump()} for cells in self._records()
        )

    def _records(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each state."""
        names = ("state", *self._columns)
        for start in range(0, len(self), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            cells = (_cells(column[part]) for column in self._columns.values())
            for row in zip(map(str, self.states[part]), *cells, strict=True):
                yield dict(zip(names, row, strict=True))

    def json_cells(self) -> Iterator[str]:
        """Yield each state as one line of JSON."""
        line = ",".join(f'"{name}":%s' for name in ("state", *self._columns)).join("{}")
        columns = (list(map(str, self.states)), *map(_cells, self._columns.values()))
        return map(line.__mod__, zip(*map(json_cells, columns), strict=True))

    @classmethod
    def of(cls, entries: Sequence[Entry | StateValue]) -> "StateValues":
        """Return the entries as columns; all of them must have the same fields."""
        columns = {}
        for name in FIELDS:
            cells = [getattr(entry, name) for entry in entries]
            missing = sum(cell is None for cell in cells)
            if name != "state" and missing < len(cells):
                if missing:
                    raise ValueError(f"{name} is given for some states only")
                kept = name == "kept_mass"
                parts = zip(*(cell.model_dump().values() for cell in cells)) if kept else ()  # noqa: B905
                columns[name] = kept_masses(*parts) if kept else np.array(cells)
        return cls([entry.state for entry in entries], columns)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = _listed(cls, Entry, cls.of, lambda values: list(values.fields()))
        return schema(source, handler)


def _cells(column: NDArray[Any]) -> list[Any]:
    """Return the entries of a column as plain values; records as what they are."""
    if column.dtype != _KEPT:
        return list(column.tolist())
    names = _KEPT.names or ()
    return [KeptMass(**dict(zip(names, cell, strict=True))) for cell in column.tolist()]


def _released(entry: StateValue) -> dict[str, Any]:
    """Return the fields of an entry that were released."""
    fields = {name: getattr(entry, name) for name in FIELDS}
    kept = fields["kept_mass"]
    fields["kept_mass"] = None if kept is None else kept.model_dump()
    return {name: fields[name] for name in FIELDS if fields[name] is not None}


def json_cells(entries: Sequence[Any]) -> list[str]:
    """Return each entry as JSON.

    The list is written as a whole, which is much faster than one entry after the other, and split
    at its line ends: JSON escapes those inside a string, so that no entry is split. Records are
    written one by one.
    """
    if len(entries) and isinstance(entries[0], KeptMass):
        return [entry.model_dump_json() for entry in entries]
    return pydantic_core.to_json(list(entries), indent=0)[2:-2].decode().split(",\n")


def written(value: Any, line: str = "\n") -> Iterator[str]:
    """Yield a model as JSON, without fields that are None; columns come in parts.

    Args:
        value: a model, a column, or anything else that pydantic can write.
        line: what begins a line at this depth: a line end and the indentation.
    """
    if isinstance(value, BaseModel):
        told = [entry for entry in BaseModel.__iter__(value) if entry[1] is not None]
        for number, (name, inner) in enumerate(told):
            yield f'{"," if number else "{"}{line}  "{name}": '
            yield from written(inner, line + "  ")
        yield line + "}" if told else "{}"
    elif isinstance(value, list) and value and isinstance(value[0], BaseModel):
        for number, inner in enumerate(value):
            yield f"{',' if number else '['}{line}  "
            yield from written(inner, line + "  ")
        yield line + "]"
    elif isinstance(value, StateValues | np.ndarray) and len(value) == 0:
        yield "[]"
    elif isinstance(value, StateValues | np.ndarray):
        parts = (value[at : at + _AT_ONCE] for at in range(0, len(value), _AT_ONCE))
        for number, part in enumerate(parts):
            cells = (
                part.json_cells() if isinstance(part, StateValues) else json_cells(part.tolist())
            )
            yield f"{',' if number else '['}{line}  " + f",{line}  ".join(cells)
        yield line + "]"
    else:
        yield pydantic_core.to_json(value, indent=2, exclude_none=True).decode().replace("\n", line)
