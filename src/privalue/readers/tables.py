"""Read tables in memory: frames, objects with an Arrow interface, dicts of columns.

A column of Python objects is converted cell by cell (``cells.from_objects``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.errors import one_line
from privalue.readers import cells
from privalue.readers.messages import data_error
from privalue.readers.source import (
    BATCH_ROWS,
    Batch,
    Dialect,
    Source,
    Types,
    as_tasks,
    locate_rows,
    open_batches,
)


def open_table(data: Any, dialect: Dialect) -> Source | None:
    """Return the rows of a table in memory, or None if ``data`` is not a table."""
    package, kind = type(data).__module__.split(".")[0].lstrip("_"), type(data).__name__
    place = f"the {package} {kind}"
    # Also a subclass of a pandas frame, whose Arrow stream would give each column one type.
    packages = {base.__module__.split(".")[0] for base in type(data).__mro__}
    if "pandas" in packages and hasattr(data, "columns"):
        columns = [data.iloc[:, at] for at in range(data.shape[1])]
        return open_columns(place, map(str, data.columns), columns, dialect.decimal)
    if isinstance(data, Mapping):
        return open_columns("the dict", map(str, data), data.values(), dialect.decimal)
    has_stream = hasattr(data, "__arrow_c_stream__")
    with _translate_errors(place):
        if package == "polars" and kind == "LazyFrame":
            schema = pa.table(data.head(0).collect()).schema
            return _open_stream(place, schema, lambda names: data.select(names).collect())
        if package == "duckdb" and kind == "DuckDBPyRelation":  # runs again on each reading
            schema = pa.table(data.limit(0)).schema
            return _open_stream(place, schema, lambda _: data.to_arrow_reader(BATCH_ROWS))
        if hasattr(data, "__arrow_c_array__") or (has_stream and kind in {"Table", "DataFrame"}):
            table = pa.table(data)
            return _open_stream(place, table.schema, lambda _: table, rows=len(table))
        if has_stream:  # a stream can be read only once
            reader = pa.RecordBatchReader.from_stream(data)
            return _open_stream(place, reader.schema, lambda _: reader, rereadable=False)
    return None


# Streams


def _open_stream(
    place: str, schema: pa.Schema, get: Callable[[list[str]], Any], **fields: Any
) -> Source:
    """Return the rows of an object with an Arrow interface, which ``get`` returns."""

    def fetch(names: list[str]) -> Iterator[pa.RecordBatch]:
        with _translate_errors(place):
            yield from pa.RecordBatchReader.from_stream(get(names))

    return open_batches(place, schema, fetch, **fields)


@contextmanager
def _translate_errors(place: str) -> Iterator[None]:
    """Translate errors of a library, which may be of any class, into one line."""
    try:
        yield
    except Exception as problem:
        raise data_error("unreadable", place=place, problem=one_line(problem)) from None


# Columns


def open_columns(
    place: str,
    names: Iterable[str],
    values: Iterable[Any],
    decimal: str,
    numbers: Sequence[int] | None = None,
) -> Source:
    """Return the rows of columns: of pandas, NumPy or Arrow, or lists of objects.

    Args:
        place: the name of the table in messages.
        names: the names of the columns.
        values: the columns.
        decimal: the decimal mark of texts.
        numbers: the numbers of the rows in messages; None for 1, 2, ...
    """
    names = list(names)
    columns = [_column(column, place, name) for name, column in zip(names, values, strict=True)]
    count = len(columns[0]) if columns else 0
    kinds = [_slice(column, 0, 0, decimal).type for column in columns]
    numbers = numbers or range(1, count + 1)

    def batches(types: Types) -> Iterator[Batch]:
        selection = [columns[names.index(name)] for name in types]
        if {count, *map(len, selection)} != {count}:
            raise data_error("columns-uneven", place=place)
        for start in range(0, count, BATCH_ROWS):
            end = min(start + BATCH_ROWS, count)
            arrays = [_slice(column, start, end, decimal) for column in selection]
            rows = pa.record_batch(arrays, names=list(types))
            yield Batch(rows, locate_rows(place, numbers[start:end]))

    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return Source(
        schemas=((place, schema),), tasks=lambda types: as_tasks(batches(types)), rows=count
    )


def _column(values: Any, place: str, name: str) -> Any:
    """Return a column that can be sliced: of pandas, NumPy or Arrow, or a list of objects."""
    if hasattr(values, "iloc") or (isinstance(values, np.ndarray) and values.ndim == 1):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values).combine_chunks()
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping | np.ndarray):
        return list(values)
    raise data_error("column-single", place=place, name=name, kind=type(values).__name__)


def _slice(column: Any, start: int, end: int, decimal: str) -> pa.Array:
    """Return some cells of a column as an Arrow array."""
    values = (column.iloc if hasattr(column, "iloc") else column)[start:end]
    # Arrow would give all categories one type.
    if hasattr(values, "cat") and values.cat.categories.dtype == object:
        codes = pa.array(values.cat.codes.to_numpy(), mask=values.isna().to_numpy())
        categories = cells.from_objects(values.cat.categories.tolist(), decimal)
        return pa.DictionaryArray.from_arrays(codes, categories)
    if not isinstance(values, list) and str(getattr(values, "dtype", "")) != "object":
        # Arrow refuses sparse columns, some extension types and the like.
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            array = pa.array(values)
            return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    return cells.from_objects(list(values), decimal)
