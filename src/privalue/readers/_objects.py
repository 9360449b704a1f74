"""Read rows that are in memory: frames, dicts of columns, lists of dicts, and episodes.

| what                                             | how it is read                               |
|--------------------------------------------------|----------------------------------------------|
| a frame or a table; anything that Arrow reads    | a row is a step                              |
| a lazy frame of Polars                           | as what it returns: the same as a query      |
| a dict of columns, a record array                | as a table                                   |
| a dict with observations, rewards and terminals  | as a recording (``_recordings``)             |
| an iterable                                      | each element by itself: a dict is a row, a   |
|                                                  | table is its rows, anything else an episode  |

An episode is a list of steps, and a step is (state, reward), or (state, action, reward) where the
study has actions, with what the study's arm and mark of cuts are after it; or (state, action,
reward), with or without next state, terminated and truncated after it; or a dict. What an element,
a step or a cell is depends on nothing but itself and the study: a dict is an episode only if it has
observations and rewards and none of the study's columns.
Episodes are numbered, and no row has such a number as its id, whatever is written there
(``Chunk.numbered``): an episode among rows changes none of them. With ``invalid = "drop-unit"`` no
element ends the reading: one that cannot be read is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.errors import DataError
from privalue.readers import _python_cells as python_cells
from privalue.readers._chunks import BATCH_ROWS, Chunk, Location, Source, one_line
from privalue.readers._recordings import as_episodes, is_recording, open_recording
from privalue.readers._rules import RowRules

EPISODES = "the list of episodes"
_ROWS, _TABLES = "the list of rows", "the list of tables"


def open_object(data: Any, rules: RowRules) -> Source | None:
    """Return the rows of an object in memory, or None if it is nothing that holds rows."""
    if getattr(type(data), "columns_are_roles", False):  # of our own simulation, by any names
        return _open_columns(_by_role(data, rules), rules, "the episodes", in_order=True)
    if _is_lazy(data):
        return _open_lazy(data, rules)
    if is_table(data):
        return _open_table(data, rules)
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        data = {name: data[name] for name in data.dtype.names}
    if isinstance(data, Mapping):
        if not set(rules.names) <= {str(name) for name in data} and is_recording(data):
            return open_recording(data, rules)
        return _open_columns(data, rules, "the dict")
    recorded = as_episodes(data, rules)
    if recorded is not None:
        _require_episodes(rules)
        return Source(lambda: _elements(recorded, rules), in_order=True)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | memoryview):
        return _open_elements(data, rules)
    return None


# Tables


def is_table(data: Any) -> bool:
    """Return whether an object is a frame, or one that Arrow reads."""
    return _is_pandas(data) or any(
        hasattr(data, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")
    )


def _is_lazy(data: Any) -> bool:
    """Return whether the data is a lazy frame of Polars, without importing Polars."""
    kind = type(data)
    return kind.__module__.split(".")[0] == "polars" and kind.__name__ == "LazyFrame"


def _open_lazy(data: Any, rules: RowRules) -> Source:
    """Return the rows that a lazy frame returns."""
    try:
        collected = data.select(rules.select(data.collect_schema().names(), _what(data))).collect()
    except DataError:
        raise
    except Exception as problem:  # of Polars, or of whatever its frame calls
        raise DataError(f"{_what(data)} cannot be read: {one_line(problem)}") from None
    return _open_table(collected, rules)


def _open_table(data: Any, rules: RowRules) -> Source:
    """Return the rows of a frame, or of an object that Arrow reads."""
    if _is_pandas(data):
        return Source(lambda: _frame(data, rules), total_rows=len(data), again=True)
    stays = type(data).__module__.split(".")[0] == "polars"
    if (stays and isinstance(data, Sized)) or isinstance(data, pa.Table | pa.RecordBatch):
        return Source(lambda: _stream(data, rules), total_rows=len(data), again=True)
    return Source(lambda: _stream(data, rules))


def _table_chunks(data: Any, rules: RowRules) -> Iterator[Chunk]:
    """Yield the rows of a frame, or of an object that Arrow reads."""
    return _frame(data, rules) if _is_pandas(data) else _stream(data, rules)


def _stream(data: Any, rules: RowRules) -> Iterator[Chunk]:
    """Yield the rows of an object with the Arrow stream, or array, interface."""
    place = _what(data)
    try:
        if not hasattr(data, "__arrow_c_stream__"):
            data = pa.Table.from_batches([pa.record_batch(data)])
        reader = pa.RecordBatchReader.from_stream(data)
        names = rules.select(reader.schema.names, place)
        rules.require_types(zip(reader.schema.names, reader.schema.types, strict=True), place)
        first_row = 1
        for batch in reader:
            for start in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(start, BATCH_ROWS).select(names)
                yield Chunk(Location(place, first_row), part)
                first_row += part.num_rows
    except (pa.ArrowException, TypeError, ValueError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{place} cannot be read: {one_line(problem)}") from None


def _is_pandas(data: Any) -> bool:
    """Return whether the data is a pandas frame, without importing pandas."""
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def _frame(data: Any, rules: RowRules) -> Iterator[Chunk]:
    """Yield the rows of a pandas frame; a column of objects is converted cell by cell."""
    place = _what(data)
    headings = [str(name) for name in data.columns]
    names = rules.select(headings, place)
    wanted = data.iloc[:, [headings.index(name) for name in names]]
    typed = [at for at, kind in enumerate(wanted.dtypes) if not _holds_objects(kind)]
    schema = ((names[at], _series(wanted.iloc[:0, at]).type) for at in typed)
    rules.require_types(schema, place)
    for start in range(0, len(data), BATCH_ROWS):
        part = wanted.iloc[start : start + BATCH_ROWS]
        arrays = [_series(part.iloc[:, at]) for at in range(len(names))]
        yield Chunk(Location(place, start + 1), pa.record_batch(arrays, names=names))


def _holds_objects(kind: Any) -> bool:
    """Return whether a column of pandas or NumPy may hold objects of any type."""
    return str(kind) == "object"


def _series(series: Any) -> pa.Array:
    """Return a column of pandas, or an array of NumPy, as Arrow."""
    if not _holds_objects(series.dtype):
        try:
            found = pa.array(series)
            return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # categories of several types, huge ones, sparse columns and the like
    return python_cells.as_arrow(series.tolist())


def _what(data: Any) -> str:
    """Return what messages call an object."""
    return f"the {type(data).__module__.split('.')[0]} {type(data).__name__}"


# Columns


def _open_columns(
    data: Mapping[Any, Any], rules: RowRules, place: str, *, in_order: bool = False
) -> Source:
    """Return the rows of a dict of columns."""
    by_name = {str(name): column for name, column in data.items()}
    names = rules.select(list(by_name), place)
    columns = {name: _column(by_name[name], f"{place}, {name!r},") for name in names}
    lengths = {name: len(column) for name, column in columns.items()}
    count = next(iter(lengths.values()))
    for name, length in lengths.items():
        if length != count:
            raise DataError(
                f"{place} has {count} rows in {names[0]!r} and {length} in {name!r}; columns are "
                "of one length"
            )
    typed = {name: column for name, column in columns.items() if not isinstance(column, list)}
    rules.require_types(((name, _slice(typed[name], 0, 0).type) for name in typed), place)

    def chunks() -> Iterator[Chunk]:
        for start in range(0, count, BATCH_ROWS):
            arrays = [_slice(column, start, start + BATCH_ROWS) for column in columns.values()]
            yield Chunk(Location(place, start + 1), pa.record_batch(arrays, names=names))

    return Source(chunks, total_rows=count, again=True, in_order=in_order)


def _column(values: Any, what: str) -> Any:
    """Return a column that can be cut: of pandas, NumPy or Arrow, or a list of objects."""
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_c_array__") and not hasattr(values, "iloc"):
        return pa.array(values)
    if hasattr(values, "iloc"):
        return values
    if isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "OcV":  # of any objects, or of a type that Arrow has not
            hidden = np.ma.getmaskarray(values).tolist()
            pairs = zip(values.data.tolist(), hidden, strict=True)
            return [None if out else value for value, out in pairs]
        return pa.array(values.data, mask=np.ma.getmaskarray(values))
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise DataError(
                f"{what} has {values.ndim} dimensions; a column has one cell for each row"
            )
        return values
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    raise DataError(
        f"{what} is not a column but a {type(values).__name__}; give a cell for each row"
    )


def _slice(column: Any, start: int, end: int) -> pa.Array:
    """Return some cells of a column as Arrow."""
    if isinstance(column, list):
        return python_cells.as_arrow(column[start:end])
    if isinstance(column, pa.Array | pa.ChunkedArray):
        part = column.slice(start, max(min(end, len(column)) - start, 0))
        return part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
    return _series(column.iloc[start:end] if hasattr(column, "iloc") else column[start:end])


def _by_role(data: Any, rules: RowRules) -> dict[str, Any]:
    """Return the columns of simulated rows by the names that the study has for them."""
    cut = getattr(data, "cut", None)
    _require_no_marks(rules, "the episodes", cut_are_marked=cut is not None)
    columns = {name: getattr(data, name) for name in ("trajectory", "step", "state", "reward")}
    columns["truncated"] = cut
    if rules.actions:
        columns["action"] = getattr(data, "action", None)
        if columns["action"] is None:
            raise DataError("the episodes have no actions, and the study has; give some that do")
    if "probability" in rules.columns:
        columns["probability"] = getattr(data, "probability", None)
        if columns["probability"] is None:
            raise DataError(
                "the episodes have no probabilities of actions, and the study needs them"
            )
    columns |= {"person": columns["trajectory"], "bin 0": columns["state"]}
    if len(rules.bins) > 1:
        raise DataError("the episodes have one number as their state, and the bins are of several")
    return {name: columns[role] for role, name in rules.columns.items()}


def _require_no_marks(rules: RowRules, place: str, *, cut_are_marked: bool = False) -> None:
    """Refuse a study that needs of each row, or of its person, what a recording does not say."""
    rules.require_no_person(f"{place} name")
    for role in ("arm",) if cut_are_marked else ("arm", "truncated"):
        if role in rules.columns:
            raise DataError(
                f"{place}: there is no column {rules.columns[role]!r}, which the study names; give "
                "a table that has it"
            )


# Elements of a list


def _open_elements(data: Iterable[Any], rules: RowRules) -> Source:
    """Return the rows of what an iterable holds.

    Whether there are rows among them is only a matter of how fast they are read.
    """
    apart = not isinstance(data, Sequence) or any(_holds_rows(one, rules) for one in data)
    if not apart and not rules.drop_invalid:
        _require_episodes(rules)
    return Source(lambda: _elements(data, rules), in_order=not apart)


def _holds_rows(element: Any, rules: RowRules) -> bool:
    """Return whether an element has rows that have ids of their own: a dict, or a table."""
    if type(element) is list:  # most are, and are told quickly
        return False
    try:
        if isinstance(element, Mapping):
            return not is_recording(element) or any(name in element for name in rules.names)
        return is_table(element)
    except Exception:  # an object of any class: an episode that cannot be read
        return False


def _require_episodes(rules: RowRules) -> None:
    """Refuse a study with which episodes, numbered from 0, cannot be read."""
    rules.require_no_person("episodes name")
    names = [rules.columns.get("trajectory", "trajectory"), rules.columns["step"]]
    rules.require_types(zip(names, (pa.int64(), pa.int64()), strict=True), "the episodes")


def _elements(data: Iterable[Any], rules: RowRules) -> Iterator[Chunk]:
    """Yield what the elements of an iterable hold, each by itself, as rows.

    The trajectory of an episode is its number, and the step is the position in it.
    """
    rows, steps = _Gathered(_ROWS, rules), _Gathered(EPISODES, rules, numbered=True)
    read, first_row = _Steps(rules), 1
    for number, element in enumerate(data):
        if not _holds_rows(element, rules):
            yield from steps.add(read.episode(element, number))
        elif isinstance(element, Mapping):
            yield from rows.add(_row(element, rules, rows.next_row))
        else:
            for chunk in _table_among_others(element, rules):
                yield Chunk(Location(_TABLES, first_row), chunk.rows, chunk.left_out)
                first_row += chunk.rows.num_rows
    yield from rows.rest()
    yield from steps.rest()


class _Gathered:
    """Rows of objects on their way to a chunk."""

    def __init__(self, place: str, rules: RowRules, *, numbered: bool = False) -> None:
        self._place, self._rules, self._numbered = place, rules, numbered
        self._rows: list[tuple[Any, ...]] = []
        self._first_row, self._left_out = 1, 0

    @property
    def next_row(self) -> int:
        """Return the number of the row that comes next."""
        return self._first_row + len(self._rows)

    def add(self, rows: list[tuple[Any, ...]]) -> Iterator[Chunk]:
        """Add the rows of an element; one that has none is left out."""
        self._left_out += not rows
        self._rows += rows
        if len(self._rows) >= BATCH_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[Chunk]:
        """Yield a chunk of what there is."""
        if not self._rows and not self._left_out:
            return
        columns = zip(*self._rows, strict=True) if self._rows else ([] for _ in self._rules.names)
        arrays = [python_cells.as_arrow(column) for column in columns]
        batch = pa.record_batch(arrays, names=self._rules.names)
        location = Location(self._place, self._first_row)
        yield Chunk(location, batch, self._left_out, self._numbered)
        self._first_row, self._rows, self._left_out = self.next_row, [], 0


def _row(element: Mapping[Any, Any], rules: RowRules, number: int) -> list[tuple[Any, ...]]:
    """Return the cells of a row that is a dict; one that it leaves out is missing."""
    if not rules.drop_invalid:
        rules.select([str(name) for name in element], f"{_ROWS}, row {number},")
    try:
        return [tuple(element.get(name) for name in rules.names)]
    except Exception:  # an object of any class
        if not rules.drop_invalid:
            raise
        return []


def _table_among_others(table: Any, rules: RowRules) -> Iterator[Chunk]:
    """Yield the rows of a table in a list; where units are left out, it ends nothing.

    A column that it leaves out is missing in all of its rows, and one of a type that cannot be
    read, or that it has twice, is invalid. A table that is none after all is left out.
    """
    if not rules.drop_invalid:
        yield from _table_chunks(table, rules)
        return
    try:
        batches = [
            pa.record_batch([_one_column(part, name, rules) for name in rules.names], rules.names)
            for part in _parts(table)
        ]
    except Exception:  # an object of any class
        empty = [pa.array([], pa.string())] * len(rules.names)
        yield Chunk(Location(_TABLES), pa.record_batch(empty, names=rules.names), 1)
        return
    for batch in batches:
        yield Chunk(Location(_TABLES), batch)


def _parts(table: Any) -> Iterator[Any]:
    """Yield a frame of pandas, or whatever Arrow reads, as frames or batches of some rows."""
    if _is_pandas(table):
        yield from (table.iloc[at : at + BATCH_ROWS] for at in range(0, len(table), BATCH_ROWS))
        return
    if not hasattr(table, "__arrow_c_stream__"):
        table = pa.Table.from_batches([pa.record_batch(table)])
    for batch in pa.RecordBatchReader.from_stream(table):
        yield from (batch.slice(at, BATCH_ROWS) for at in range(0, batch.num_rows, BATCH_ROWS))


def _one_column(part: Any, name: str, rules: RowRules) -> pa.Array:
    """Return a column of some rows of a table, whatever it is."""
    frame = _is_pandas(part)
    headings = [str(one) for one in (part.columns if frame else part.schema.names)]
    if name not in headings:
        return pa.nulls(len(part), pa.string())
    at = headings.index(name)
    column = _series(part.iloc[:, at]) if frame else part.column(at)
    try:
        if not (frame and _holds_objects(part.dtypes.iloc[at])):  # those are read cell by cell
            rules.require_types([(name, column.type)], _TABLES)
    except DataError:
        headings = [name, name]
    return column if headings.count(name) == 1 else python_cells.as_arrow([object()] * len(part))


class _Steps:
    """Reads episodes, step by step."""

    def __init__(self, rules: RowRules) -> None:
        self._rules = rules
        self._roles = rules.step_roles
        self._ids = len(rules.id_roles)
        try:
            _require_episodes(rules)
        except DataError as problem:
            self._refused: DataError | None = problem
        else:
            self._refused = None

    def episode(self, element: Any, number: int) -> list[tuple[Any, ...]]:
        """Return the rows of an episode; none, where units that cannot be read are left out."""
        rules = self._rules
        if self._refused is not None:  # e.g. nobody's, among rows that are somebody's
            if rules.drop_invalid:
                return []
            raise self._refused
        steps = self._steps(element)
        if steps:
            ids = (number,) * self._ids
            return [(*ids, at, *step) for at, step in enumerate(steps)]
        if rules.drop_invalid:
            return []
        forms = f"({', '.join(self._roles)})"
        more = " or (state, action, reward, ...)" if len(self._roles) == 2 else ""
        raise DataError(
            f"episode {number} (counted from 0) is not a list of at least one {forms}{more}; rows "
            "of several people are a table, a dict of columns or a list of dicts"
        )

    def _steps(self, element: Any) -> list[tuple[Any, ...]]:
        """Return what the steps of an episode say of their roles; none if one of them has no form.

        Most steps are tuples of the usual length, and are taken as they are.
        """
        rules, usual = self._rules, len(self._roles)
        plain = type(element) is list and not rules.bins
        if plain and all(type(step) is tuple and len(step) == usual for step in element):
            return element  # type: ignore[no-any-return]
        try:
            if type(element) is not list and isinstance(element, Mapping):
                columns = [element["observations"]]
                columns += [python_cells.flat(element["actions"])] if rules.actions else []
                columns += [python_cells.flat(element["rewards"])]
                element = zip(*columns, strict=True)
            found = [self._cells(step) for step in element]
            steps = [step for step in found if step is not None]
            if len(steps) < len(found):
                return []
            if rules.bins:
                return [(*rules.state_cells(step[0]), *step[1:]) for step in steps]
        except (TypeError, ValueError, LookupError):
            return []
        except Exception:  # an object of any class: where units are left out, it ends nothing
            if not rules.drop_invalid:
                raise
            return []
        return steps

    def _cells(self, step: Any) -> tuple[Any, ...] | None:
        """Return what a step says of its roles, by its own form; None if it has none."""
        roles = self._roles
        if isinstance(step, Mapping):
            columns = {"state": "state", **self._rules.columns}
            state = step if self._rules.bins else step.get(columns["state"])
            return (state, *(step.get(columns[role]) for role in roles[1:]))
        if isinstance(step, str | bytes) or not hasattr(step, "__len__"):
            return None
        if len(step) == len(roles):
            return tuple(step)
        # As an environment has them: state, action, reward, next state, terminated, truncated.
        counted = step[:3] if self._rules.actions else (step[0], *step[2:3])
        marks = roles[len(counted) :]
        if not marks and 3 <= len(step) <= 6:
            return tuple(counted)
        if marks == ["truncated"] and len(step) == 6:
            return *counted, step[5]
        return None
