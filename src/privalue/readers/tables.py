"""Read tables that are in memory: frames, whatever Arrow reads, dicts of columns, several tables.

A column of Python objects is converted cell by cell (``cells.from_objects``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.errors import DataError
from privalue.readers import cells
from privalue.readers.source import (
    BATCH_ROWS,
    Batch,
    Dialect,
    Source,
    Task,
    numbered,
    ready,
    unreadable,
)

_Types = Mapping[str, pa.DataType]


def open_table(data: Any, dialect: Dialect) -> Source | None:
    """Return the rows of a table in memory, or None if the data is none."""
    if getattr(type(data), "columns_are_roles", False):  # of our own simulation
        return _open_simulated(data, dialect)
    kind = type(data)
    package = kind.__module__.split(".")[0]
    if package == "polars" and kind.__name__ == "LazyFrame":
        return _open_lazy(data)
    if package == "pandas" and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        columns = [data.iloc[:, at] for at in range(len(names))]
        return open_columns(_what(data), names, columns, dialect.decimal)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _open_arrow(data)
    if isinstance(data, Mapping):
        names = [str(name) for name in data]
        return open_columns("the dict", names, list(data.values()), dialect.decimal)
    return None


def open_tables(tables: Sequence[Any], dialect: Dialect) -> Source:
    """Return the rows of several tables, one after the other."""
    sources = [open_table(table, dialect) for table in tables]
    if not all(sources):
        raise DataError("a list of tables holds something else; give tables, or rows, or episodes")
    found = [source for source in sources if source is not None]
    return Source(
        schemas=tuple(schema for source in found for schema in source.schemas),
        tasks=lambda types: (task for source in found for task in source.tasks(types)),
        rereadable=all(source.rereadable for source in found),
    )


def is_table(data: Any) -> bool:
    """Return whether an object is a frame, or one that Arrow reads."""
    try:
        pandas = type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")
        return pandas or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    except Exception:  # an object of any class
        return False


def _what(data: Any) -> str:
    """Return what messages call an object."""
    return f"the {type(data).__module__.split('.')[0].lstrip('_')} {type(data).__name__}"


def _open_lazy(data: Any) -> Source:
    """Return the rows that a lazy frame of Polars returns."""
    place = _what(data)
    try:
        names = data.collect_schema().names()
        empty = pa.table(data.head(0).collect()).schema
    except Exception as problem:  # of Polars, or of whatever its frame calls
        raise unreadable(place, problem) from None

    def tasks(types: _Types) -> Iterator[Task]:
        try:
            found = data.select([name for name in names if name in types]).collect()
        except Exception as problem:
            raise unreadable(place, problem) from None
        return ready(_batches(place, found, types))

    return Source(schemas=((place, empty),), tasks=tasks)


def _open_arrow(data: Any) -> Source:
    """Return the rows of an object with the Arrow stream, or array, interface."""
    place = _what(data)
    stays = isinstance(data, pa.Table | pa.RecordBatch) or type(data).__name__ == "DataFrame"
    relation = type(data).__name__ == "DuckDBPyRelation"  # it is computed anew each time
    try:
        if relation:
            schema = data.limit(0).to_arrow_reader(1).schema
        elif stays or not hasattr(data, "__arrow_c_stream__"):
            data = pa.table(data)
            schema = data.schema
        else:
            data = pa.RecordBatchReader.from_stream(data)
            schema = data.schema
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise unreadable(place, problem) from None

    def tasks(types: _Types) -> Iterator[Task]:
        stream = data.to_arrow_reader(BATCH_ROWS) if relation else data
        return ready(_batches(place, stream, types))

    return Source(
        schemas=((place, schema),),
        tasks=tasks,
        rows=len(data) if isinstance(data, pa.Table) else None,
        rereadable=stays or relation,
    )


def _batches(place: str, data: Any, types: _Types) -> Iterator[Batch]:
    first = 1
    try:
        for batch in pa.RecordBatchReader.from_stream(data):
            for start in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(start, BATCH_ROWS).select(list(types))
                yield Batch(part, numbered(place, first))
                first += part.num_rows
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise unreadable(place, problem) from None


def _open_simulated(data: Any, dialect: Dialect) -> Source:
    """Return simulated rows, whose columns are roles, by the study's names of these."""
    roles = {**dialect.columns, "cut": dialect.columns.get("truncated", "cut")}
    roles.setdefault("state", roles.get("bin 0", "state"))
    table = data.table({role: roles[role] for role in data.columns if role in roles})
    if "person" in roles and not dialect.by_person:  # each trajectory is somebody's
        table = table.append_column(
            roles["person"], table.column(roles.get("trajectory", "trajectory"))
        )
    return _open_arrow(table)


# Columns


def open_columns(
    place: str,
    names: Sequence[str],
    values: Sequence[Any],
    decimal: str,
    invalid: Any = None,
    problem: str | None = None,
    *,
    episode_ids: bool = False,
) -> Source:
    """Return the rows of columns: of pandas, NumPy or Arrow, or lists of objects.

    Args:
        place: what messages call the table.
        names: of the columns.
        values: the columns.
        decimal: the mark of texts.
        invalid: which rows are known to be invalid, if any is.
        problem: what is wrong with the first of them.
        episode_ids: whether ids are positions of episodes.
    """
    columns = [_column(one, f"{place}, {name!r},") for name, one in zip(names, values, strict=True)]
    count = len(columns[0]) if columns else 0
    fields = [
        (name, _part(column, 0, 0, decimal).type)
        for name, column in zip(names, columns, strict=True)
    ]

    def tasks(types: _Types) -> Iterator[Task]:
        wanted = {name: columns[names.index(name)] for name in types}
        for name, column in wanted.items():
            if len(column) != count:
                raise DataError(
                    f"{place} has {count} rows in {names[0]!r} and {len(column)} in {name!r}; "
                    "columns are of one length"
                )
        for start in range(0, count, BATCH_ROWS):
            yield lambda start=start: batch(wanted, start)  # type: ignore[misc]

    def batch(wanted: Mapping[str, Any], start: int) -> Batch:
        end = start + BATCH_ROWS
        arrays = [_part(column, start, end, decimal) for column in wanted.values()]
        marked = None if invalid is None else invalid[start:end]
        return Batch(
            pa.record_batch(arrays, names=list(wanted)),
            numbered(place, start + 1),
            invalid=marked,
            problem=problem if marked is not None and marked.any() else None,
            episode_ids=episode_ids,
        )

    return Source(schemas=((place, pa.schema(fields)),), tasks=tasks, rows=count)


def _column(values: Any, what: str) -> Any:
    """Return a column that can be cut: of pandas, NumPy or Arrow, or a list of objects."""
    if hasattr(values, "iloc") or isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    convert: Callable[[Any], Any] | None = None
    if hasattr(values, "__arrow_c_stream__"):
        convert = pa.chunked_array
    elif hasattr(values, "__arrow_c_array__"):
        convert = pa.array
    if convert is not None:
        return convert(values)
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


def _part(column: Any, start: int, end: int, decimal: str) -> pa.Array:
    """Return some cells of a column as Arrow."""
    if isinstance(column, list):
        return cells.from_objects(column[start:end], decimal)
    if isinstance(column, pa.Array | pa.ChunkedArray):
        part = column.slice(start, max(min(end, len(column)) - start, 0))
        return part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
    part = column.iloc[start:end] if hasattr(column, "iloc") else column[start:end]
    return as_arrow(part, decimal)


def as_arrow(values: Any, decimal: str) -> pa.Array:
    """Return a column of pandas, or an array of NumPy, as Arrow."""
    if str(values.dtype) != "object":
        try:
            found = pa.array(values)
            return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # categories of several types, huge ones, sparse columns and the like
    return cells.from_objects(values.tolist(), decimal)
