"""Read tables in memory: frames, objects with an Arrow interface, dicts of columns.

A column of Python objects is converted cell by cell (``cells.from_objects``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from privalue.readers import cells
from privalue.readers.messages import data_error, one_line
from privalue.readers.source import (
    BATCH_ROWS,
    Batch,
    Dialect,
    Source,
    Task,
    Types,
    numbered,
    ready,
)


def open_table(data: Any, dialect: Dialect) -> Source | None:
    """Return the rows of a table in memory, or None if the data is not a table."""
    package, kind = type(data).__module__.split(".")[0].lstrip("_"), type(data).__name__
    place = f"the {package} {kind}"
    if package == "pandas" and hasattr(data, "columns"):
        columns = [data.iloc[:, at] for at in range(data.shape[1])]
        return open_columns(place, [str(name) for name in data.columns], columns, dialect.decimal)
    if isinstance(data, Mapping):
        names = [str(name) for name in data]
        return open_columns("the dict", names, list(data.values()), dialect.decimal)
    if package == "polars" and kind == "LazyFrame":
        return _open_stream(place, data.head(0).collect, lambda names: data.select(names).collect())
    if package == "duckdb" and kind == "DuckDBPyRelation":  # computed again on each reading
        return _open_stream(
            place, partial(data.limit, 0), lambda _: data.to_arrow_reader(BATCH_ROWS)
        )
    streams = hasattr(data, "__arrow_c_stream__")
    stays = kind in {"Table", "RecordBatch", "DataFrame"} or not streams
    if stays and (streams or hasattr(data, "__arrow_c_array__")):
        with _translate_errors(place):
            table = pa.table(data)
        return _open_stream(place, table.schema.empty_table, lambda _: table, rows=len(table))
    if streams:  # a stream can be read only once
        with _translate_errors(place):
            reader = pa.RecordBatchReader.from_stream(data)
        return _open_stream(place, reader.schema.empty_table, lambda _: reader, rereadable=False)
    return None


# Streams


def _open_stream(
    place: str,
    nothing: Callable[[], Any],
    fetch: Callable[[list[str]], Any],
    rows: int | None = None,
    *,
    rereadable: bool = True,
) -> Source:
    """Return the rows of a stream of Arrow batches.

    Args:
        place: its name in messages.
        nothing: returns an empty table of the same schema.
        fetch: returns the rows, with at least these columns.
        rows: their number, if it is known.
        rereadable: whether they can be fetched more than once.
    """
    with _translate_errors(place):
        schema = pa.table(nothing()).schema

    def batches(types: Types) -> Iterator[Batch]:
        first = 1
        with _translate_errors(place):
            for batch in pa.RecordBatchReader.from_stream(fetch(list(types))):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    part = batch.slice(start, BATCH_ROWS).select(list(types))
                    yield Batch(part, numbered(place, first))
                    first += part.num_rows

    return Source(
        schemas=((place, schema),),
        tasks=lambda types: ready(batches(types)),
        rows=rows,
        rereadable=rereadable,
    )


@contextmanager
def _translate_errors(place: str) -> Iterator[None]:
    """Translate errors of other libraries, of any class, into one line."""
    try:
        yield
    except Exception as problem:
        raise data_error("unreadable", place=place, problem=one_line(problem)) from None


# Columns


def open_columns(
    place: str,
    names: Sequence[str],
    values: Sequence[Any],
    decimal: str,
    numbers: Sequence[int] | None = None,
) -> Source:
    """Return the rows of columns: of pandas, NumPy or Arrow, or lists of objects.

    Args:
        place: the table's name in messages.
        names: of the columns.
        values: the columns.
        decimal: the decimal mark of texts.
        numbers: the row numbers in messages, if not 1, 2, ...
    """
    columns = [_column(one, place, name) for name, one in zip(names, values, strict=True)]
    count = len(columns[0]) if columns else 0
    kinds = [_part(column, slice(0, 0), decimal).type for column in columns]
    numbers = numbers or range(1, count + 1)

    def tasks(types: Types) -> Iterator[Task]:
        wanted = {name: columns[names.index(name)] for name in types}
        for name, column in wanted.items():
            if len(column) != count:
                about = {"first": names[0], "name": name, "other": len(column)}
                raise data_error("columns-uneven", place=place, count=count, **about)
        for start in range(0, count, BATCH_ROWS):
            yield partial(batch, wanted, start)

    def batch(wanted: Mapping[str, Any], start: int) -> Batch:
        some = slice(start, min(start + BATCH_ROWS, count))
        arrays = [_part(column, some, decimal) for column in wanted.values()]
        rows = pa.record_batch(arrays, names=list(wanted))
        return Batch(rows, lambda at: f"{place}, row {numbers[start + at]}")

    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return Source(schemas=((place, schema),), tasks=tasks, rows=count)


def _column(values: Any, place: str, name: str) -> Any:
    """Return a column that can be sliced: of pandas, NumPy or Arrow, or a list of objects."""
    if hasattr(values, "iloc"):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise data_error("column-nested", place=place, name=name, dimensions=values.ndim)
        return values
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    raise data_error("column-single", place=place, name=name, kind=type(values).__name__)


def _part(column: Any, some: slice, decimal: str) -> pa.Array:
    """Return some cells of a column as Arrow."""
    if isinstance(column, list):
        return cells.from_objects(column[some], decimal)
    if isinstance(column, pa.ChunkedArray):
        return column[some].combine_chunks()
    if isinstance(column, pa.Array):
        return column[some]
    return as_arrow(column.iloc[some] if hasattr(column, "iloc") else column[some], decimal)


def as_arrow(values: Any, decimal: str) -> pa.Array:
    """Return a column of pandas, or an array of NumPy, as Arrow."""
    if str(values.dtype) != "object":
        try:
            found = pa.array(values)
            return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # categories of mixed types, very large integers, sparse columns and the like
    return cells.from_objects(values.tolist(), decimal)
